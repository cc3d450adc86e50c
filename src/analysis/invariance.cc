#include "gnomon/analysis/invariance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gnomon/attention/cosine.h"
#include "gnomon/error.h"
#include "src/analysis/content.h"
#include "src/core/size.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;
using Numbers = std::vector<double>;

int64_t width_of(const OrderContent& c) { return c.heads * c.head_dim; }

double scale_of(const OrderContent& c, const LayerPlan& p) {
  return p.cosine.empty() ? softmax_scale(c.head_dim) * p.softmax.factor : 1.0;
}

void check(const OrderContent& c, const LayerPlan& p, int64_t tokens) {
  if (c.tokens < 2) refuse("invariance", "tokens must be at least 2", c.tokens);
  if (c.heads < 1) refuse("invariance", "heads must be at least 1", c.heads);
  if (c.head_dim < 1) refuse("invariance", "head_dim must be at least 1", c.head_dim);
  if (!(c.shared >= 0 && c.shared <= 1))
    refuse("invariance", "shared must be from 0 to 1", c.shared);
  internal::checked_product("invariance", "tokens x heads x head_dim",
                            {c.tokens, c.heads, c.head_dim});
  const std::array<std::int64_t, 2> wanted{tokens, width_of(c)};
  if (p.table && (p.table->view().extents() != wanted ||
                  p.table->values.size() != static_cast<std::size_t>(tokens * width_of(c))))
    refuse("invariance", "the table must be " + shape_text(wanted),
           shape_text(p.table->view().extents()));
  if (!p.cosine.empty() && static_cast<int64_t>(p.cosine.size()) != c.heads)
    refuse("invariance", "cosines must have a scale for each head, " + std::to_string(c.heads),
           static_cast<int64_t>(p.cosine.size()));
}

// Queries, keys and values [T, H D] without position, and the terms that the plan requires.
struct Tokens {
  Numbers queries, keys, values;
  TermArrays terms = {};
};
Tokens tokens_of(const OrderContent& c, const LayerPlan& p) {
  internal::Normal normal(c.seed);
  Tokens all;
  for (Numbers* one : {&all.queries, &all.keys, &all.values}) {
    one->resize(static_cast<std::size_t>(c.tokens * width_of(c)));
    for (double& number : *one)
      number = std::sqrt(c.shared) + std::sqrt(1 - c.shared) * normal();
  }
  all.terms = terms_of(c, p);
  return all;
}

// Row t of the result is row order[t].
Numbers permuted(const Numbers& rows, const std::vector<int64_t>& order) {
  const std::size_t width = rows.size() / order.size();
  Numbers result(rows.size());
  for (std::size_t t = 0; t < order.size(); ++t)
    std::copy_n(rows.begin() + order[t] * static_cast<std::ptrdiff_t>(width), width,
                result.begin() + static_cast<std::ptrdiff_t>(t * width));
  return result;
}

// `part` of the rows, plus the table of their positions if there is one.
template <typename T>
std::vector<T> with_table(std::span<const double> part,
                          const std::optional<EmbeddingTable>& table) {
  std::vector<T> rows(part.begin(), part.end());
  for (std::size_t i = 0; table && i < rows.size(); ++i)
    rows[i] += static_cast<T>(table->values[i]);
  return rows;
}

// [H, T, T]: scores of the tokens with each other, at positions after `offset` other tokens.
Numbers scores(const OrderContent& c, const LayerPlan& p, const Tokens& tokens,
               int64_t offset) {
  const int64_t all =
      internal::checked_sum("invariance", "offset + tokens", {offset, c.tokens});
  Numbers q = with_table<double>(tokens.queries, p.table);
  Numbers k(internal::checked_size("invariance", "offset x heads x head_dim",
                                   {offset, c.heads, c.head_dim}),
            0.0);
  const Numbers own = with_table<double>(tokens.keys, p.table);
  k.insert(k.end(), own.begin(), own.end());
  const View<double, 3> queries(q.data(), {c.tokens, c.heads, c.head_dim});
  const View<double, 3> keys(k.data(), {all, c.heads, c.head_dim});
  rotate_all(p, queries, keys);
  if (!p.cosine.empty()) {
    const View<double, 4> each(q.data(), {1, c.tokens, c.heads, c.head_dim});
    const View<double, 4> met(k.data(), {1, all, c.heads, c.head_dim});
    normalise(each, p.cosine, each);
    normalise(met, {}, met);
  }
  const double scale = scale_of(c, p);
  const std::array<std::int64_t, 3> whole{c.heads, c.tokens, all};
  Numbers products(
      internal::checked_size("invariance", "heads x queries x keys", {c.heads, c.tokens, all}),
      0.0);
  Numbers bias(products.size(), 0.0);
  const View<double, 3> product(products.data(), whole), added(bias.data(), whole);
  if (!p.relative.empty()) relative_scores(p.relative, offset, queries, keys, product);
  Numbers projected(bias.size(), 0.0);
  const View<double, 3> of_queries(projected.data(), whole);
  if (!p.relative.projected.empty()) {
    const Numbers r = relative_queries(tokens.terms);
    projected_scores(
        p.relative, offset,
        View<const double, 3>(r.data(), {c.tokens, c.heads, p.relative.projected[0].head_dim}),
        of_queries);
  }
  if (!std::holds_alternative<NoBias>(p.bias)) dense(p.bias, offset, added);
  Numbers result;
  result.reserve(static_cast<std::size_t>(c.heads * c.tokens * c.tokens));
  for (int64_t h = 0; h < c.heads; ++h)
    for (int64_t i = 0; i < c.tokens; ++i)
      for (int64_t j = offset; j < all; ++j) {
        double dot = product(h, i, j);
        for (int64_t d = 0; d < c.head_dim; ++d) dot += queries(i, h, d) * keys(j, h, d);
        result.push_back(scale * dot + added(h, i, j) + of_queries(h, i, j));
      }
  return result;
}

// [T, H D]: outputs of attention in double, bidirectional unless the plan is causal, of tokens
// at positions after `offset` other tokens, which they do not see.
Numbers outputs(const OrderContent& c, const LayerPlan& p, const Tokens& tokens,
                int64_t offset) {
  Numbers q = with_table<double>(tokens.queries, p.table);
  Numbers k(internal::checked_size("invariance", "offset x heads x head_dim",
                                   {offset, c.heads, c.head_dim}),
            1.0);
  Numbers v = k;
  for (const auto& [own, all] : {std::pair(&tokens.keys, &k), {&tokens.values, &v}}) {
    const Numbers placed = with_table<double>(*own, p.table);
    all->insert(all->end(), placed.begin(), placed.end());
  }
  const int64_t all =
      internal::checked_sum("invariance", "offset + tokens", {offset, c.tokens});
  const View<double, 4> queries(q.data(), {1, c.tokens, c.heads, c.head_dim});
  const View<double, 4> keys(k.data(), {1, all, c.heads, c.head_dim});
  rotate_all(p, queries, keys);
  if (!p.cosine.empty()) {
    normalise(queries, p.cosine, queries);
    normalise(keys, {}, keys);
  }
  AttentionPlan plan = plan_of_rotated(
      p, scale_of(c, p),
      {.visibility = causal_only(p) ? Visibility::causal : Visibility::bidirectional,
       .offset = offset});
  Positions of_keys = consecutive(all);
  std::fill_n(of_keys.sequences.begin(), offset, Positions::padding);
  plan.queries = std::make_shared<Positions>(consecutive(c.tokens, offset));
  plan.keys = std::make_shared<Positions>(std::move(of_keys));
  std::vector<int64_t> rows(static_cast<std::size_t>(all));
  for (int64_t j = 0; j < all; ++j)
    rows[static_cast<std::size_t>(j)] = std::max<int64_t>(j - offset, 0);
  TermArrays terms = rows_of(tokens.terms, rows, c.tokens);
  Numbers out(q.size());
  attention({.q = queries,
             .k = keys,
             .v = View<const double, 4>(v.data(), keys.extents()),
             .terms = terms.terms<ConstTensor>()},
            plan, View<double, 4>(out.data(), queries.extents()));
  return out;
}

template <typename A, typename B>
double largest_difference(const A& a, const B& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::fabs(double{a[i]} - double{b[i]}));
  return worst;
}

double largest(const auto& numbers) {
  double most = 0;
  for (const double number : numbers) most = std::max(most, std::fabs(number));
  return most;
}

double deviation_under(const OrderContent& c, const LayerPlan& p,
                       const std::vector<int64_t>& order) {
  const Tokens tokens = tokens_of(c, p);
  const Tokens moved{permuted(tokens.queries, order), permuted(tokens.keys, order),
                     permuted(tokens.values, order), rows_of(tokens.terms, order, c.tokens)};
  const Numbers expected = permuted(outputs(c, p, tokens, 0), order);
  return largest_difference(outputs(c, p, moved, 0), expected) / largest(expected);
}

}  // namespace

double permutation_deviation(const OrderContent& content, const LayerPlan& plan) {
  check(content, plan, content.tokens);
  std::vector<int64_t> order(static_cast<std::size_t>(content.tokens));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::mt19937_64 engine(content.seed);
  for (std::size_t t = order.size(); t > 1; --t) std::swap(order[t - 1], order[engine() % t]);
  if (std::is_sorted(order.begin(), order.end()))  // the identity would change nothing
    std::rotate(order.begin(), order.begin() + 1, order.end());
  return deviation_under(content, plan, order);
}

double reversal_deviation(const OrderContent& content, const LayerPlan& plan) {
  check(content, plan, content.tokens);
  std::vector<int64_t> order(static_cast<std::size_t>(content.tokens));
  std::iota(order.rbegin(), order.rend(), int64_t{0});
  return deviation_under(content, plan, order);
}

double shift_deviation(const OrderContent& content, const LayerPlan& here,
                       const LayerPlan& there, int64_t offset) {
  check(content, here, content.tokens);
  check(content, there, content.tokens);
  if (offset < 0) refuse("invariance", "offset must not be negative", offset);
  const Tokens tokens = tokens_of(content, here);
  if (causal_only(here) || here.polar) {  // without scores that a position alone determines
    const Numbers first = outputs(content, here, tokens, 0);
    return largest_difference(first, outputs(content, there, tokens, offset)) / largest(first);
  }
  const Numbers first = scores(content, here, tokens, 0);
  const Numbers second = scores(content, there, tokens, offset);
  const auto [least, most] = std::minmax_element(first.begin(), first.end());
  return largest_difference(first, second) / (*most - *least);
}

namespace {

// Causal attention in float of `count` tokens from `first` on, over all keys up to their end.
// keys and values contain the previous tokens; the new ones are appended.
std::vector<float> causal(const OrderContent& c, const LayerPlan& p, const Tokens& tokens,
                          int64_t first, int64_t count, std::vector<float>& keys,
                          std::vector<float>& values) {
  const auto part = [&](const Numbers& all) {
    return std::span(all).subspan(static_cast<std::size_t>(first * width_of(c)),
                                  static_cast<std::size_t>(count * width_of(c)));
  };
  std::vector<float> q = with_table<float>(part(tokens.queries), p.table);
  const std::vector<float> k = with_table<float>(part(tokens.keys), p.table);
  const std::vector<float> v = with_table<float>(part(tokens.values), p.table);
  const std::array<std::int64_t, 4> own{1, count, c.heads, c.head_dim};
  const View<float, 4> queries(q.data(), own);
  keys.insert(keys.end(), k.begin(), k.end());
  values.insert(values.end(), v.begin(), v.end());
  const std::array<std::int64_t, 4> all{1, first + count, c.heads, c.head_dim};
  // The cache stores keys before rotation.
  std::vector<float> met = keys, out(q.size());
  const View<float, 4> met_keys(met.data(), all);
  rotate_all(p, queries, met_keys);
  if (!p.cosine.empty()) {
    normalise(queries, p.cosine, queries);
    normalise(met_keys, {}, met_keys);
  }
  std::vector<int64_t> rows(static_cast<std::size_t>(first + count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  TermArrays terms = rows_of(tokens.terms, rows, count);
  attention(
      {.q = queries,
       .k = met_keys,
       .v = View<const float, 4>(values.data(), all),
       .terms = terms.terms<ConstTensor>()},
      plan_of_rotated(p, scale_of(c, p), {.visibility = Visibility::causal, .offset = first}),
      View<float, 4>(out.data(), own));
  return out;
}

}  // namespace

double cache_deviation(const OrderContent& content, const LayerPlan& whole,
                       std::span<const CachedPiece> pieces) {
  check(content, whole, content.tokens);
  int64_t total = 0;
  for (const CachedPiece& piece : pieces) {
    if (piece.tokens < 1 || piece.tokens > content.tokens - total)
      refuse("invariance",
             "pieces must hold the " + std::to_string(content.tokens) +
                 " tokens, at least one each",
             piece.tokens);
    check(content, piece.plan, piece.tokens);
    total += piece.tokens;
  }
  if (total != content.tokens)
    refuse("invariance", "pieces must hold the " + std::to_string(content.tokens) + " tokens",
           total);
  const Tokens tokens = tokens_of(content, whole);
  std::vector<float> keys, values, kept_keys, kept_values, out;
  const std::vector<float> expected =
      causal(content, whole, tokens, 0, content.tokens, keys, values);
  for (const CachedPiece& piece : pieces) {
    const auto first = static_cast<int64_t>(out.size()) / width_of(content);
    const std::vector<float> part =
        causal(content, piece.plan, tokens, first, piece.tokens, kept_keys, kept_values);
    out.insert(out.end(), part.begin(), part.end());
  }
  return largest_difference(out, expected) / largest(values);
}

}  // namespace gnomon::analysis
