#include "src/attention/product.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

[[noreturn]] void refuse_product(const std::string& rule, const auto& got) {
  refuse("attention", rule, got);
}

template <typename T, std::size_t Rank>
void check_term(const std::string& name, const std::string& letters, View<T, Rank> term,
                const std::array<int64_t, Rank>& wanted) {
  for (std::size_t axis = 0; axis < Rank; ++axis)
    if (term.extent(axis) != wanted[axis])
      refuse_product(name + " must be " + letters + "; axis " + std::to_string(axis) +
                         " must be " + std::to_string(wanted[axis]),
                     int64_t{term.extent(axis)});
}

// Checks that the rows of each sequence are adjacent, and that query row i is in the sequence
// of key row i + offset: factors between a key and a query are those of the rows between them.
void check_rows(const AttentionProblem& problem, const std::string& with, int64_t b) {
  const std::int32_t* of_key = sequences(problem.position.keys, b);
  const std::int32_t* of_query = sequences(problem.position.queries, b);
  if (!of_key) return;
  std::set<std::int32_t> seen;
  std::int32_t own = Positions::padding;
  for (int64_t j = 0; j < problem.keys; ++j) {
    if (of_key[j] == Positions::padding || of_key[j] == own) continue;
    own = of_key[j];
    if (!seen.insert(own).second)
      refuse_product(with + "the rows of a sequence must be adjacent, of sequence",
                     int64_t{own});
  }
  for (int64_t i = 0; i < problem.queries; ++i)
    if (of_query[i] != Positions::padding && of_query[i] != of_key[i + problem.mask.offset])
      refuse_product(with +
                         "query row i and key row i + offset must be in one sequence, of "
                         "query row",
                     i);
}

// The checks that gates of channels and Householder factors share.
void check_factors(const AttentionProblem& problem, const std::string& name) {
  const std::string with = "with " + name + ", ";
  if (problem.mask.visibility != Visibility::causal)
    refuse_product(with + "the mask must be causal", "bidirectional");
  if (problem.mask.offset > problem.keys - problem.queries)
    refuse_product(with + "offset must be at most keys - queries = " +
                       std::to_string(problem.keys - problem.queries),
                   problem.mask.offset);
  if (problem.position.relative)
    refuse_product(name + " cannot be combined with relative vectors", "both");
  if (problem.gated())
    refuse_product(name + " cannot be combined with gates of the bias", "both");
  if (problem.position.polar)
    refuse_product(name + " cannot be combined with a polar form", "both");
  for (int64_t b = 0; b < problem.batch; ++b) check_rows(problem, with, b);
}

// Refuses finite gates above 0; a hidden row may hold anything that is not a number.
void check_gate_values(const AttentionProblem& problem) {
  std::vector<float> positive(to_size(problem.batch * problem.keys));
  parallel_for(problem.batch * problem.keys, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / problem.keys, j = row % problem.keys;
      const std::int32_t* sequence = sequences(problem.position.keys, b);
      if (sequence && sequence[j] == Positions::padding) continue;
      float most = 0;
      for (int64_t h = 0; h < problem.heads; ++h)
        for (int64_t n = 0; n < problem.size; ++n) {
          const float gate = problem.channel_gates(b, j, h, n);
          if (gate > most && std::isfinite(gate)) most = gate;
        }
      positive[to_size(row)] = most;
    }
  });
  for (const float gate : positive)
    if (gate > 0) refuse_product("channel_gates must not be positive", double{gate});
}

void check_polar(const AttentionProblem& problem) {
  const PolarForm& polar = *problem.position.polar;
  if (polar.heads != problem.heads || polar.head_dim != problem.head_dim ||
      static_cast<int64_t>(polar.phases.size()) != problem.heads * problem.head_dim)
    refuse_product(
        "the polar form must have " + std::to_string(problem.heads) + " x " +
            std::to_string(problem.head_dim) + " phases",
        std::string_view(std::to_string(polar.heads) + " x " + std::to_string(polar.head_dim) +
                         ", and " + std::to_string(polar.phases.size()) + " numbers"));
  for (const double phase : polar.phases)
    if (!std::isfinite(phase)) refuse_product("phases must be finite", phase);
  for (const RotaryTable* table :
       {problem.position.query_rotary, problem.position.key_rotary}) {
    if (!table)
      refuse_product("a polar form requires rotary tables of queries and keys", "none");
    const RotaryFrequencies& of = table->frequencies();
    if (of.pairing != Pairing::halves || of.head_offset || of.rotary_dim() != problem.size)
      refuse_product("the rotary tables of a polar form must rotate halves of 2 D = " +
                         std::to_string(problem.size) + " elements",
                     of.rotary_dim());
  }
  if (problem.position.relative)
    refuse_product("a polar form cannot be combined with relative vectors", "both");
}

// Returns the first key row that each query sees, [B, T].
std::vector<int64_t> find_first_seen(const AttentionProblem& problem) {
  constexpr int64_t none = std::numeric_limits<int64_t>::max() / 4;
  std::vector<int64_t> first;
  first.reserve(to_size(problem.batch * problem.queries));
  for (int64_t b = 0; b < problem.batch; ++b) {
    const std::int32_t* of_key = sequences(problem.position.keys, b);
    const std::int32_t* of_query = sequences(problem.position.queries, b);
    int64_t start = 0, row = 0;  // the first row of the sequence of `row`
    std::int32_t own = Positions::padding;
    for (int64_t i = 0; i < problem.queries; ++i) {
      for (; of_key && row <= i + problem.mask.offset; ++row)
        if (of_key[row] != Positions::padding && of_key[row] != own)
          own = of_key[row], start = row;
      const bool padding = of_query && of_query[i] == Positions::padding;
      first.push_back(padding ? none : std::max(start, visible_keys(problem, b, i).begin));
    }
  }
  return first;
}

}  // namespace

void take_product(const AttentionPlan& plan, const TokenTerms& terms,
                  AttentionProblem& problem) {
  const auto named = [](std::string_view name) { return Argument{"attention", name}; };
  problem.product = plan.product;
  if (plan.product < PairProduct::dot || plan.product > PairProduct::householder)
    refuse_product("product must be dot, channel_gates or householder",
                   static_cast<int>(plan.product));
  const auto check_given = [&](const char* name, const ConstTensor& term, PairProduct product) {
    if (term.has_data() == (plan.product == product)) return;
    refuse_product(
        std::string(name) + " must be given if and only if the product of the plan requires it",
        term.has_data() ? "a tensor" : "none");
  };
  check_given("channel_gates", terms.channel_gates, PairProduct::channel_gates);
  check_given("householder", terms.householder, PairProduct::householder);
  check_given("betas", terms.betas, PairProduct::householder);
  if (problem.position.polar) check_polar(problem);
  if (plan.product == PairProduct::channel_gates) {
    problem.channel_gates = read<float, 4>(named("channel_gates"), terms.channel_gates);
    check_term("channel_gates", "[B, S, Hq, D]", problem.channel_gates,
               {problem.batch, problem.keys, problem.heads, problem.size});
    check_factors(problem, "channel_gates");
    check_gate_values(problem);
  }
  if (plan.product == PairProduct::householder) {
    HouseholderTerms& householder = problem.householder;
    householder.w = read<float, 4>(named("householder"), terms.householder);
    householder.betas = read<float, 3>(named("betas"), terms.betas);
    check_term("householder", "[B, S, Hk, D]", householder.w,
               {problem.batch, problem.keys, problem.key_heads, problem.head_dim});
    check_term("betas", "[B, Hk, S]", householder.betas,
               {problem.batch, problem.key_heads, problem.keys});
    check_factors(problem, "householder");
    householder.first_seen = find_first_seen(problem);
  }
}

template <typename A>
void take_product_gradients(const TokenTermGradients& gradients, BackwardProblem<A>& problem) {
  const auto take = [&]<std::size_t Rank>(const std::string& name, const Tensor& tensor,
                                          const View<const float, Rank>& of,
                                          View<float, Rank>& to) {
    if (!tensor.has_data()) return;
    const std::string text = "the gradient of " + name;
    if (!of.data()) refuse_product(text + " requires " + name, "none");
    to = write<float, Rank>({"attention", text}, tensor);
    check_shape<Rank>("attention", text, to.extents(), of.extents());
  };
  take("channel_gates", gradients.channel_gates, problem.channel_gates,
       problem.channel_gates_grad);
  take("householder", gradients.householder, problem.householder.w, problem.householder_grad);
  take("betas", gradients.betas, problem.householder.betas, problem.betas_grad);
}

template void take_product_gradients(const TokenTermGradients&, BackwardProblem<float>&);
template void take_product_gradients(const TokenTermGradients&, BackwardProblem<double>&);

}  // namespace gnomon::internal
