// Lowering of mixtures: each encoding fills a separate part of one plan.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/model/encoding.h"
#include "src/core/tensor.h"
#include "src/model/encodings/all.h"
#include "src/model/encodings/lowering.h"

namespace gnomon::model {
namespace {

// Calls use(encoding, index of its first matrix, number of its matrices) for each encoding.
template <typename Use>
void for_each(const Mixture& mixture, Use&& use) {
  std::size_t first = 0;
  for (const Encoding& one : mixture) {
    const std::size_t count = parameters(one).size();
    use(one, first, count);
    first += count;
  }
}

void check_count(const Mixture& mixture, std::size_t count) {
  internal::check_parameter_count(mixture.size() == 1 ? info(mixture[0]).name : "mixture",
                                  parameters(mixture), count);
}

// Moves the parts of plans into one plan. Throws if two plans have the same part.
class Merger {
 public:
  explicit Merger(LayerPlan& to) : to_(to) {}

  void add(std::string_view name, LayerPlan from) {
    take("add a table to the embeddings", from.table.has_value(), name, table_,
         [&] { to_.table = std::move(from.table); });
    add_rotation(name, from);
    take("add a bias to the scores", !std::holds_alternative<NoBias>(from.bias), name, bias_,
         [&] { to_.bias = std::move(from.bias), to_.dense = std::move(from.dense); });
    take("have a cumulative bias", from.cumulative.has_value(), name, cumulative_,
         [&] { to_.cumulative = from.cumulative; });
    take("have a bias of edges", from.edges.has_value(), name, edges_, [&] {
      to_.edges = std::move(from.edges);
      to_.edge_rotary = std::move(from.edge_rotary);
    });
    take("have relative vectors", !from.relative.empty(), name, relative_,
         [&] { to_.relative = std::move(from.relative); });
    take("make the weights by stick-breaking", from.stick_breaking.has_value(), name, sticks_,
         [&] { to_.stick_breaking = from.stick_breaking; });
    take("use cosines of queries and keys", !from.cosine.empty(), name, cosine_,
         [&] { to_.cosine = std::move(from.cosine); });
    take("change the products of queries and keys",
         from.product != PairProduct::dot || from.polar.has_value(), name, product_, [&] {
           to_.product = from.product;
           to_.polar = std::move(from.polar);
         });
  }

 private:
  // Several encodings may rotate different elements of a head. All rotations after the first
  // are applied before attention().
  void add_rotation(std::string_view name, LayerPlan& from) {
    if (!from.query_rotary && from.query_rotations.empty() && !from.token_rotation) return;
    const auto [begin, end] = elements(from);
    for (const auto& [holder, its_begin, its_end] : rotations_)
      if (begin < its_end && its_begin < end)
        refuse("mixture",
               "at most one encoding can rotate the same elements of queries and keys",
               std::string_view(holder + " and " + std::string(name)));
    rotations_.push_back({std::string(name), begin, end});
    const auto append = [](std::vector<HeadRotation>& to, std::vector<HeadRotation>& more) {
      to.insert(to.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
    };
    if (from.trained_frequencies || to_.trained_frequencies) {
      if (rotations_.size() > 1)
        refuse("mixture", "a rotation with trained frequencies must be the only one",
               std::string_view(rotations_.front().holder + " and " + std::string(name)));
      to_.trained_frequencies = true;
    }
    append(to_.query_rotations, from.query_rotations);
    append(to_.key_rotations, from.key_rotations);
    take("rotate by angles of the tokens", from.token_rotation.has_value(), name, token_angles_,
         [&] { to_.token_rotation = from.token_rotation; });
    if (!from.query_rotary) return;
    if (!to_.query_rotary) {
      to_.query_rotary = std::move(from.query_rotary);
      to_.key_rotary = std::move(from.key_rotary);
    } else {
      to_.query_rotations.emplace_back(*std::move(from.query_rotary));
      to_.key_rotations.emplace_back(*std::move(from.key_rotary));
    }
  }
  static std::pair<std::int64_t, std::int64_t> elements(const LayerPlan& from) {
    if (const auto& rotation = from.token_rotation)
      return {rotation->head_offset, rotation->head_offset + rotation->rotary_dim};
    if (const HeadAngles* const angles = head_angles(from.query_rotations)) {
      const HeadFrequencies& own = angles->frequencies();
      return {own.head_offset, own.head_offset + own.rotary_dim()};
    }
    if (!from.query_rotary) return {0, std::numeric_limits<std::int64_t>::max()};
    const RotaryFrequencies& frequencies = from.query_rotary->frequencies();
    return {frequencies.head_offset, frequencies.head_offset + frequencies.rotary_dim()};
  }

  template <typename Move>
  static void take(const char* what, bool has, std::string_view name, std::string& holder,
                   Move&& move) {
    if (!has) return;
    if (!holder.empty())
      refuse("mixture", std::string("at most one encoding can ") + what,
             std::string_view(holder + " and " + std::string(name)));
    holder = name;
    move();
  }

  LayerPlan& to_;
  // Name of the encoding with that part.
  std::string table_, bias_, cumulative_, edges_, relative_, sticks_, token_angles_, cosine_,
      product_;
  struct Rotated {
    std::string holder;
    std::int64_t begin, end;  // elements of the head
  };
  std::vector<Rotated> rotations_;
};

// Whether there is a gradient for a part of the encoding.
bool concerns(const Encoding& encoding, const LayerGradient& grad) {
  const Place places = info(encoding).enters;
  const RelativeGradient& r = grad.relative;
  return (includes(places, Place::embeddings) && grad.table.data()) ||
         (includes(places, Place::queries_and_keys) && !grad.frequencies.empty()) ||
         (includes(places, Place::scores) &&
          (!grad.bias.values.empty() || !grad.cosine.empty() || !grad.phases.empty())) ||
         (includes(places, Place::keys_and_values) &&
          (!r.keys.empty() || !r.queries.empty() || !r.values.empty() || !r.shift.empty() ||
           !r.projected.empty() || !r.contextual.empty()));
}

template <typename Spec>
concept has_terms = requires(const Spec& spec) { Entry<Spec>::terms(spec); };

// Calls use(spec, index of its first matrix, number of its matrices) for each encoding with
// token terms.
template <typename Use>
void with_terms(const Mixture& mixture, Values values, Gradients grads, Use&& use) {
  bool found = false;
  for_each(mixture, [&](const Encoding& one, std::size_t first, std::size_t count) {
    std::visit(
        [&](const auto& spec) {
          if constexpr (has_terms<std::remove_cvref_t<decltype(spec)>>) {
            const Values own = values.subspan(first, count);
            const Gradients to = grads.empty() ? grads : grads.subspan(first, count);
            internal::check_parameters<const float>(one, own);
            if (!to.empty()) internal::check_parameters<float>(one, to);
            use(spec, own, to), found = true;
          }
        },
        one);
  });
  if (!found) refuse("terms", "require an encoding with token terms", names(mixture));
}

bool has_term(const Mixture& mixture, std::string_view name) {
  const std::vector<TermShape> terms = token_terms(mixture);
  return std::any_of(terms.begin(), terms.end(),
                     [&](const TermShape& one) { return one.name == name; });
}

template <typename TensorType>
void check_terms(const Mixture& mixture, View<const float, 3> x,
                 const TokenTermsOf<TensorType>& given, const Positions* tokens) {
  const std::int64_t history = term_history(mixture);
  for (const TermShape& one : token_terms(mixture)) {
    const auto& term =
        *std::find_if(std::begin(named_terms<TensorType>), std::end(named_terms<TensorType>),
                      [&](const auto& named) { return named.name == one.name; });
    const ConstTensor& tensor = given.*term.member;
    const std::string name(one.name);
    if (!tensor.has_data() && x.size() > 0) refuse("terms", name + " must be given", "none");
    gnomon::internal::check_tensor({"terms", one.name}, tensor, one.size ? 4 : 3,
                                   data_type_of<float>);
    const std::int64_t count = tensor.extent(one.size ? 1 : 2);
    const auto wanted = one.shape(x.extent(0), count);
    if (!std::equal(wanted.begin(), wanted.end(), tensor.shape))
      refuse("terms",
             name + " must be " + (one.size ? "[B, T, H, " : "[B, H, T]") +
                 (one.size ? std::to_string(one.size) + "]" : "") + " with B = " +
                 std::to_string(x.extent(0)) + " and H = " + std::to_string(one.heads),
             gnomon::internal::shape_text(tensor));
    if (count > x.extent(1) || x.extent(1) - count > history)
      refuse("terms",
             "x must have the tokens of " + name + ", " + std::to_string(count) +
                 ", and at most " + std::to_string(history) + " before them",
             std::int64_t{x.extent(1)});
  }
  if (tokens &&
      (tokens->tokens != x.extent(1) || (tokens->batch != 1 && tokens->batch != x.extent(0))))
    refuse("terms",
           "positions must have 1 row or B, and a token for each of x, " +
               std::to_string(x.extent(1)),
           tokens->tokens);
}

}  // namespace

Place enters(const Mixture& mixture) {
  Place all{};
  for (const Encoding& one : mixture)
    if (info(one).enters != Place::nowhere) all = all | info(one).enters;
  return all == Place{} ? Place::nowhere : all;
}

std::string names(const Mixture& mixture) {
  std::string joined;
  for (const Encoding& one : mixture) {
    if (!joined.empty()) joined += '+';
    joined += info(one).name;
  }
  return joined.empty() ? std::string(info(NoPosition{}).name) : joined;
}

std::vector<Parameter> parameters(const Mixture& mixture) {
  std::vector<Parameter> all;
  for (const Encoding& one : mixture)
    for (Parameter& parameter : parameters(one)) {
      if (mixture.size() > 1)
        parameter.name = std::string(info(one).name).append(".").append(parameter.name);
      all.push_back(std::move(parameter));
    }
  return all;
}

std::optional<std::int64_t> capacity(const Mixture& mixture) {
  std::optional<std::int64_t> least;
  for (const Encoding& one : mixture)
    if (const auto own = capacity(one); own && (!least || *own < *least)) least = own;
  return least;
}

void internal::set_scale(LayerPlan& plan, double scale) {
  plan.softmax.scale.reset();
  if (!plan.cosine.empty())
    plan.softmax.scale = 1;
  else if (scale != 0)
    plan.softmax.scale = scale;
}

const RotaryTable* internal::query_table(const LayerPlan& plan) {
  if (plan.query_rotary) return &*plan.query_rotary;
  return plan.query_rotations.empty() ? nullptr
                                      : std::get_if<RotaryTable>(&plan.query_rotations.back());
}

LayerPlan internal::lower_call(const Mixture& mixture, Call call, Values values,
                               const Call* embedded) {
  check_count(mixture, values.size());
  LayerPlan lowered;
  lowered.softmax.factor = put_scale(mixture, call);
  Merger merger(lowered);
  for_each(mixture, [&](const Encoding& one, std::size_t first, std::size_t count) {
    LayerPlan part;
    const bool table = embedded && info(one).enters == Place::embeddings;
    lower_into(one, table ? *embedded : call, values.subspan(first, count), part);
    merger.add(info(one).name, std::move(part));
  });
  set_scale(lowered, call.softmax_scale);
  lowered.gated = has_term(mixture, "gates");
  lowered.key_slopes = has_term(mixture, "key_slopes");
  return lowered;
}

LayerPlan lower(const Mixture& mixture, const Window& window, Values values) {
  internal::check_window(window);
  return internal::lower_call(mixture, Call(window), values);
}

void lower_backward(const Mixture& mixture, const Window& window, Values values,
                    const LayerGradient& lowered, Gradients grads) {
  internal::check_window(window);
  check_count(mixture, values.size());
  check_count(mixture, grads.size());
  Call call(window);
  internal::put_scale(mixture, call);
  for_each(mixture, [&](const Encoding& one, std::size_t first, std::size_t count) {
    if (count > 0 && concerns(one, lowered))
      internal::backward_into(one, call, values.subspan(first, count), lowered,
                              grads.subspan(first, count));
  });
}

LayerPlan lower(const Encoding& encoding, const Window& window, Values values) {
  internal::check_window(window);
  Call call(window);
  LayerPlan lowered;
  lowered.softmax.factor = internal::put_scale({&encoding, 1}, call);
  internal::lower_into(encoding, call, values, lowered);
  internal::set_scale(lowered, call.softmax_scale);
  lowered.gated = has_term({encoding}, "gates");
  lowered.key_slopes = has_term({encoding}, "key_slopes");
  return lowered;
}

void lower_backward(const Encoding& encoding, const Window& window, Values values,
                    const LayerGradient& lowered, Gradients grads) {
  internal::check_window(window);
  Call call(window);
  internal::put_scale({&encoding, 1}, call);
  if (concerns(encoding, lowered))
    internal::backward_into(encoding, call, values, lowered, grads);
}

std::vector<double> frequencies_gradient(const LayerPlan& plan, const Window& window,
                                         const ConstTensor& q, const ConstTensor& q_grad,
                                         const ConstTensor& k, const ConstTensor& k_grad) {
  if (!plan.trained_frequencies) return {};
  const HeadAngles* const of_queries = head_angles(plan.query_rotations);
  const HeadAngles* const of_keys = head_angles(plan.key_rotations);
  if (of_queries && of_keys) {
    std::vector<double> sums(of_queries->frequencies().inv_freq.size());
    frequencies_backward(q, q_grad, *of_queries, sums);
    frequencies_backward(k, k_grad, *of_keys, sums);
    return sums;
  }
  const RotaryTable* const table = internal::query_table(plan);
  if (!table) return {};
  const RotaryFrequencies& frequencies = table->frequencies();
  std::vector<double> sums(frequencies.inv_freq.size());
  const Positions queries = window.query_positions(), keys = window.key_positions();
  frequencies_backward(q, q_grad, frequencies, {&queries, 1}, sums);
  frequencies_backward(k, k_grad, frequencies, {&keys, 1}, sums);
  return sums;
}

std::vector<std::int64_t> TermShape::shape(std::int64_t batch, std::int64_t tokens) const {
  if (size) return {batch, tokens, heads, size};
  return {batch, heads, tokens};
}

std::vector<TermShape> token_terms(const Mixture& mixture) {
  std::vector<TermShape> all;
  for (const Encoding& one : mixture)
    std::visit(
        [&]<typename Spec>(const Spec& spec) {
          if constexpr (has_terms<Spec>)
            for (const TermShape& term : Entry<Spec>::terms(spec)) all.push_back(term);
        },
        one);
  return all;
}

TermArrays term_arrays(const Mixture& mixture, std::int64_t batch, std::int64_t tokens) {
  TermArrays all;
  for (const TermShape& one : token_terms(mixture)) all.add(one.name, one.shape(batch, tokens));
  return all;
}

std::int64_t term_history(const Mixture& mixture) {
  std::int64_t most = 0;
  for (const Encoding& one : mixture)
    std::visit(
        [&]<typename Spec>(const Spec& spec) {
          if constexpr (requires { Entry<Spec>::history(spec); })
            most = std::max(most, Entry<Spec>::history(spec));
        },
        one);
  return most;
}

void compute_terms(const Mixture& mixture, Values values, View<const float, 3> x,
                   const TokenTermOutputs& out, const Positions* tokens) {
  check_count(mixture, values.size());
  check_terms(mixture, x, out, tokens);
  with_terms(mixture, values, {}, [&]<typename Spec>(const Spec& spec, Values own, Gradients) {
    Entry<Spec>::compute_terms(spec, own, {x, tokens}, out);
  });
}

void compute_terms_backward(const Mixture& mixture, Values values, View<const float, 3> x,
                            const TokenTerms& out_grad, View<float, 3> x_grad, Gradients grads,
                            const Positions* tokens) {
  check_count(mixture, values.size());
  if (!grads.empty()) check_count(mixture, grads.size());
  check_terms(mixture, x, out_grad, tokens);
  with_terms(
      mixture, values, grads, [&]<typename Spec>(const Spec& spec, Values own, Gradients to) {
        Entry<Spec>::compute_terms_backward(spec, own, {x, tokens}, out_grad, x_grad, to);
      });
}

}  // namespace gnomon::model
