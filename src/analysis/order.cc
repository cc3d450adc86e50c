#include "gnomon/analysis/order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/analysis/content.h"
#include "src/core/size.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;

constexpr int64_t most_words = 65536;

void check(const OrderContent& content, const LayerPlan& plan) {
  if (content.tokens < 2) refuse("order", "tokens must be at least 2", content.tokens);
  if (content.heads < 1) refuse("order", "heads must be at least 1", content.heads);
  if (content.head_dim < 1) refuse("order", "head_dim must be at least 1", content.head_dim);
  if (!(content.shared >= 0 && content.shared <= 1))
    refuse("order", "shared must be from 0 to 1", content.shared);
  if (!content.words.empty() && std::ssize(content.words) != content.tokens)
    refuse("order",
           "words must have one entry per token (" + std::to_string(content.tokens) + ")",
           std::ssize(content.words));
  for (const int64_t word : content.words)
    if (word < 0 || word >= most_words) refuse("order", "words must be 0 to 65535", word);
  internal::checked_product("order", "tokens x heads x head_dim",
                            {content.tokens, content.heads, content.head_dim});
  const int64_t width = content.heads * content.head_dim;
  if (plan.table && (plan.table->tokens != content.tokens || plan.table->width != width))
    refuse("order",
           "the table must be [" + std::to_string(content.tokens) + ", " +
               std::to_string(width) + "]",
           shape_text(plan.table->view().extents()));
  if (plan.table &&
      plan.table->values.size() != static_cast<std::size_t>(content.tokens * width))
    refuse("order", "the table must have tokens x width values",
           static_cast<int64_t>(plan.table->values.size()));
}

// [T, H D], normal around the shared vector.
std::vector<float> contents(const OrderContent& content) {
  internal::Normal normal(content.seed);
  const auto& words = content.words;
  const int64_t count =
      words.empty() ? content.tokens : *std::max_element(words.begin(), words.end()) + 1;
  const auto width = static_cast<std::size_t>(content.heads * content.head_dim);
  std::vector<float> all(internal::checked_size("order", "words x heads x head_dim",
                                                {count, content.heads, content.head_dim}));
  for (float& number : all)
    number = static_cast<float>(std::sqrt(content.shared) +
                                std::sqrt(1 - content.shared) * normal());
  if (words.empty()) return all;
  std::vector<float> numbers;
  for (const int64_t word : words) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(width) * word;
    numbers.insert(numbers.end(), row, row + static_cast<std::int64_t>(width));
  }
  return numbers;
}

void add(const LayerPlan& plan, std::vector<float>& x) {
  if (!plan.table) return;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += plan.table->values[i];
}

// Output of the last token.
std::vector<float> last_output(const OrderContent& content, const LayerPlan& plan,
                               std::vector<float> x, TermArrays terms) {
  add(plan, x);
  const std::array<std::int64_t, 4> shape{1, content.tokens, content.heads, content.head_dim};
  std::vector<float> q = x, k = x, out(x.size());
  const View<float, 4> queries(q.data(), shape), keys(k.data(), shape);
  rotate_all(plan, queries, keys);
  attention({.q = queries,
             .k = keys,
             .v = View<const float, 4>(x.data(), shape),
             .terms = terms.terms<ConstTensor>()},
            plan_of_rotated(plan, plan.softmax.factor / static_cast<double>(content.head_dim),
                            {.visibility = causal_only(plan) ? Visibility::causal
                                                             : Visibility::bidirectional}),
            View<float, 4>(out.data(), shape));
  const auto row = static_cast<std::int64_t>(content.heads * content.head_dim);
  return {out.end() - row, out.end()};
}

std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace

double order_sensitivity(const OrderContent& content, const LayerPlan& plan) {
  check(content, plan);
  const std::vector<float> x = contents(content);
  std::vector<float> reversed = x;
  const std::size_t width = x.size() / static_cast<std::size_t>(content.tokens);
  const auto before = static_cast<std::size_t>(content.tokens - 1);
  for (std::size_t t = 0; t < before; ++t)
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>((before - 1 - t) * width), width,
                reversed.begin() + static_cast<std::ptrdiff_t>(t * width));
  const TermArrays terms = terms_of(content, plan);
  std::vector<int64_t> order(static_cast<std::size_t>(content.tokens));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::reverse(order.begin(), order.end() - 1);
  const auto first = last_output(content, plan, x, terms);
  const auto second =
      last_output(content, plan, reversed, rows_of(terms, order, content.tokens));
  double worst = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    worst = std::max(worst, std::fabs(double{first[i]} - double{second[i]}));
  return worst;
}

namespace {

// out [H, Q, T]: weights by attention() with values that are unit vectors, for products other
// than q . k, and for scores that depend on the keys between. The queries are rotated.
void fill_weights_of_units(const OrderContent& content, const LayerPlan& plan,
                           Visibility visibility, View<const float, 3> queries,
                           View<const float, 3> keys, View<double, 3> out) {
  const int64_t tokens = content.tokens, heads = content.heads, size = content.head_dim;
  const std::array<std::int64_t, 4> shape{1, tokens, heads, size};
  const std::array<std::int64_t, 4> of_units{1, tokens, heads, tokens};
  std::vector<float> units(
      internal::checked_size("order", "tokens x heads x tokens", {tokens, heads, tokens}));
  std::vector<float> weights(units.size());
  const View<float, 4> unit(units.data(), of_units), weight(weights.data(), of_units);
  for (int64_t j = 0; j < tokens; ++j)
    for (int64_t h = 0; h < heads; ++h) unit(0, j, h, j) = 1;
  TermArrays terms = terms_of(content, plan);
  const View<const float, 4> q(queries.data(), shape), k(keys.data(), shape);
  attention({.q = q, .k = k, .v = unit, .terms = terms.terms<ConstTensor>()},
            plan_of_rotated(plan, softmax_scale(size) * plan.softmax.factor,
                            {.visibility = visibility}),
            weight);
  const int64_t offset = tokens - out.extent(1);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < out.extent(1); ++i)
      for (int64_t j = 0; j < tokens; ++j)
        out(h, i, j) = visibility == Visibility::causal && j > offset + i
                           ? std::numeric_limits<double>::quiet_NaN()
                           : double{weight(0, offset + i, h, j)};
}

// out [H, Q, T]: weights of the last Q of the queries x [T, H D], with the keys y [T, H D].
void fill_weights(const OrderContent& content, const LayerPlan& plan, Visibility visibility,
                  std::vector<float> x, std::vector<float> y, View<double, 3> out) {
  const int64_t tokens = content.tokens, size = content.head_dim, count = out.extent(1),
                offset = tokens - count;
  add(plan, x);
  add(plan, y);
  const View<float, 3> rotated(x.data(), {tokens, content.heads, size});
  const View<float, 3> keys(y.data(), rotated.extents());
  rotate_all(plan, rotated, keys);
  if (plan.polar || plan.product != PairProduct::dot || plan.relative.contextual ||
      plan.stick_breaking || plan.key_slopes || plan.edges)
    return fill_weights_of_units(content, plan, visibility, rotated, keys, out);
  const auto queries = rotated.slice(0, offset, count);
  const double scale = softmax_scale(size) * plan.softmax.factor;
  dense(plan.bias, offset, out);
  std::vector<double> met(internal::checked_size("order", "heads x queries x keys",
                                                 {content.heads, count, tokens}));
  const View<double, 3> products(met.data(), out.extents());
  if (!plan.relative.empty()) {
    const std::vector<double> q = doubles(x), k = doubles(y);
    const View<const double, 3> all(q.data(), keys.extents());
    relative_scores(plan.relative, offset, all.slice(0, offset, count),
                    View<const double, 3>(k.data(), keys.extents()), products);
  }
  std::vector<double> projected(met.size());
  const View<double, 3> of_queries(projected.data(), out.extents());
  if (!plan.relative.projected.empty()) {
    const std::vector<double> r = relative_queries(terms_of(content, plan));
    const std::array<std::int64_t, 3> shape{tokens, content.heads,
                                            plan.relative.projected[0].head_dim};
    projected_scores(plan.relative, offset,
                     View<const double, 3>(r.data(), shape).slice(0, offset, count),
                     of_queries);
  }
  for (int64_t h = 0; h < content.heads; ++h)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t end = visibility == Visibility::causal ? offset + i + 1 : tokens;
      double highest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = 0; j < end; ++j) {
        double dot = products(h, i, j);
        for (int64_t d = 0; d < size; ++d)
          dot += double{queries(i, h, d)} * double{keys(j, h, d)};
        highest = std::max(highest, out(h, i, j) += dot * scale + of_queries(h, i, j));
      }
      for (int64_t j = 0; j < end; ++j) sum += out(h, i, j) = std::exp(out(h, i, j) - highest);
      for (int64_t j = 0; j < tokens; ++j)
        out(h, i, j) = j < end ? out(h, i, j) / sum : std::numeric_limits<double>::quiet_NaN();
    }
}

}  // namespace

void attention_weights(const OrderContent& content, const LayerPlan& plan,
                       Visibility visibility, View<double, 3> out) {
  check(content, plan);
  if (visibility != Visibility::causal && visibility != Visibility::bidirectional)
    refuse("order", "visibility must be causal or bidirectional", static_cast<int>(visibility));
  const std::array<std::int64_t, 3> wanted{content.heads, content.tokens, content.tokens};
  if (out.extents() != wanted)
    refuse("order", "out must be " + shape_text(wanted), shape_text(out.extents()));
  const std::vector<float> x = contents(content);
  fill_weights(content, plan, visibility, x, x, out);
}

void last_attention_weights(const OrderContent& content, const LayerPlan& plan,
                            View<double, 2> out) {
  check(content, plan);
  const std::array<std::int64_t, 2> wanted{content.heads, content.tokens};
  if (out.extents() != wanted)
    refuse("order", "out must be " + shape_text(wanted), shape_text(out.extents()));
  const View<double, 3> one_query(out.data(), {out.extent(0), 1, out.extent(1)},
                                  {out.stride(0), 0, out.stride(1)});
  OrderContent of_keys = content;
  of_keys.seed = content.seed + 1;
  fill_weights(content, plan, Visibility::causal, contents(content), contents(of_keys),
               one_query);
}

}  // namespace gnomon::analysis
