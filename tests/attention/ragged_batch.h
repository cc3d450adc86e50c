// Ragged batches: sequences of different lengths, drawn from lists with the difficult cases,
// and their placement in the tensors of one call. All rows and blocks that belong to no
// sequence are NaN.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/oracle.h"
#include "attention/sample.h"

namespace gnomon::testing {

// An E4M3 element: 1 bit of sign, 4 of exponent (bias 7), 3 of mantissa; 0x7f and 0xff are NaN.
struct E4m3 {
  std::uint8_t bits = 0;
};
inline double computed_value(E4m3 element) {
  const int exponent = element.bits >> 3 & 15, mantissa = element.bits & 7;
  if ((element.bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
  return element.bits & 0x80 ? -magnitude : magnitude;
}
inline double value_of(E4m3 element) {
  static const std::array values = [] {
    std::array<double, 256> all;
    for (int bits = 0; bits < 256; ++bits)
      all[std::size_t(bits)] = computed_value({static_cast<std::uint8_t>(bits)});
    return all;
  }();
  return values[element.bits];
}
// Returns a nearest element, for magnitudes up to 448.
inline E4m3 nearest_e4m3(double value) {
  std::uint8_t low = 0, high = 0x7e;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint8_t>((low + high) / 2);
    (value_of({middle}) <= std::abs(value) ? low : high) = middle;
  }
  const double nearer =
      std::abs(value) - value_of({low}) - (value_of({high}) - std::abs(value));
  return {static_cast<std::uint8_t>((nearer < 0 ? low : high) | (value < 0 ? 0x80 : 0))};
}

enum class QueryRows { equal = 1, starts, lengths };
enum class KeyRows { equal = 1, starts, lengths, pages };

struct RaggedSequence {
  std::int64_t queries = 0, keys = 0, offset = 0;
};

struct RaggedCase {
  std::int64_t heads = 1, key_heads = 1, size = 16, values = 16;
  // Without `ragged`, offset and query_rotary.
  AttentionPlan plan = {.mask = {.visibility = Visibility::causal}, .softmax = {.scale = 0.25}};
  std::optional<Rotary> rotary = {};
  std::vector<RaggedSequence> sequences;
  QueryRows query_rows = QueryRows::starts;
  KeyRows key_rows = KeyRows::lengths;
  std::int64_t page = 16;
  bool heads_first = false;   // k and v are stored [., Hk, rows, D]
  bool gives_offsets = true;  // else all offsets are keys - queries
  unsigned seed = 1;
  std::string text;

  std::int64_t count() const { return static_cast<std::int64_t>(sequences.size()); }
  std::int64_t most_queries() const {
    std::int64_t most = 0;
    for (const auto& one : sequences) most = std::max(most, one.queries);
    return most;
  }
  std::int64_t most_keys() const {
    std::int64_t most = 0;
    for (const auto& one : sequences) most = std::max(most, one.keys);
    return most;
  }
  // The call with sequence n alone.
  AttentionCase alone(std::size_t n) const {
    const RaggedSequence& one = sequences[n];
    AttentionCase c{.queries = one.queries,
                    .keys = one.keys,
                    .heads = heads,
                    .key_heads = key_heads,
                    .size = size,
                    .values = values,
                    .plan = plan};
    c.plan.mask.offset = one.offset;
    if (rotary) c.plan.query_rotary.emplace(*rotary, consecutive(one.queries, one.offset));
    return c;
  }
};

inline RaggedCase draw_ragged(unsigned seed) {
  std::mt19937_64 engine(seed);
  const auto pick = [&](std::initializer_list<std::int64_t> from) {
    return from.begin()[engine() % from.size()];
  };
  RaggedCase c;
  c.seed = seed * 1000;
  c.key_heads = pick({1, 2, 3});
  c.heads = c.key_heads * pick({1, 1, 2, 4});
  c.size = pick({16, 32, 64, 24, 7, 128});
  c.values = pick({0, 0, 16, 48, 5});
  if (!c.values) c.values = c.size;
  c.plan.softmax.scale = softmax_scale(c.size) * 2;
  c.query_rows = static_cast<QueryRows>(pick({1, 2, 3}));
  c.key_rows = static_cast<KeyRows>(pick({1, 2, 3, 4, 4, 4, 4}));
  c.page = pick({1, 3, 16, 32, 256});
  c.heads_first = pick({0, 0, 1});
  c.gives_offsets =
      pick({0, 1}) || (c.query_rows == QueryRows::equal && c.key_rows == KeyRows::equal);
  // A call without sequences is a ragged batch only if it has starts.
  const bool empty = c.query_rows == QueryRows::starts && c.key_rows != KeyRows::pages;
  const std::int64_t same_queries = pick({1, 2, 5}), same_keys = pick({5, 40, 130});
  for (std::int64_t n = pick({0, 1, 2, 5, 9}) + (empty ? 0 : 1); n > 0; --n) {
    RaggedSequence one;
    one.queries =
        c.query_rows == QueryRows::equal ? same_queries : pick({0, 1, 1, 1, 2, 4, 5, 33, 70});
    one.keys = c.key_rows == KeyRows::equal ? same_keys
                                            : pick({0, 1, 3, 15, 16, 17, 64, 65, 130, 257});
    one.offset = pick({0, 3, 40, std::max<std::int64_t>(0, one.keys - one.queries)});
    if (!c.gives_offsets) {
      if (one.keys < one.queries && c.query_rows != QueryRows::equal) one.queries = one.keys;
      if (one.keys < one.queries && c.key_rows != KeyRows::equal) one.keys = one.queries;
      one.offset = one.keys - one.queries;
    }
    c.sequences.push_back(one);
  }
  AttentionMask& mask = c.plan.mask;
  mask.visibility = pick({0, 1, 1}) ? Visibility::causal : Visibility::bidirectional;
  if (const std::int64_t left = pick({-1, -1, 0, 1, 17, 64}); left >= 0) mask.left = left;
  if (const std::int64_t right = pick({-1, -1, 0, 9}); right >= 0) mask.right = right;
  if (const std::int64_t cap = pick({0, 0, 5})) c.plan.softmax.cap = static_cast<double>(cap);
  if (pick({0, 0, 1}))
    for (std::int64_t h = 0; h < c.heads; ++h)
      c.plan.softmax.sinks.push_back(static_cast<double>(pick({-20, -3, 0, 13})) * 0.1);
  if (pick({0, 1}))
    c.rotary = Rotary{.rotary_dim = c.size / 2 * 2,
                      .pairing = pick({0, 1}) ? Pairing::halves : Pairing::adjacent,
                      .base = 10'000};
  const auto heads = static_cast<std::size_t>(c.heads);
  const std::int64_t kind = pick({0, 0, 1, 2, 3});
  if (kind == 1) {
    SlopeBias slope;
    for (std::size_t h = 0; h < heads; ++h) slope.slopes.push_back(0.5 / double(h + 1));
    c.plan.bias = slope;
  } else if (kind == 2) {
    std::int64_t widest = c.most_keys();
    for (const auto& one : c.sequences) widest = std::max(widest, one.offset + one.queries);
    c.plan.bias =
        StripBias{c.heads, -widest,
                  random_numbers(heads * static_cast<std::size_t>(2 * widest + 1), c.seed + 7)};
  } else if (kind == 3) {
    c.plan.bias = PiecewiseLogBias{.heads = c.heads,
                                   .c = 0.3,
                                   .threshold = 20.3,
                                   .epsilon = 1e-6,
                                   .knots = {0},
                                   .offsets = random_numbers(heads, c.seed + 8),
                                   .slopes = random_numbers(heads, c.seed + 9)};
  }
  c.text = "seed " + std::to_string(seed) + ", N " + std::to_string(c.count()) + ", heads " +
           std::to_string(c.heads) + "/" + std::to_string(c.key_heads) + ", D " +
           std::to_string(c.size) + ", Dv " + std::to_string(c.values) + ", query rows " +
           std::to_string(static_cast<int>(c.query_rows)) + ", key rows " +
           std::to_string(static_cast<int>(c.key_rows)) + ", page " + std::to_string(c.page) +
           ", bias " + std::to_string(kind);
  return c;
}

// k or v of all sequences, with elements K, in one tensor.
template <typename K>
class StoredRows {
 public:
  static constexpr bool int8 = std::is_same_v<K, std::int8_t>, e4m3 = std::is_same_v<K, E4m3>;
  using Element = std::conditional_t<e4m3, std::uint8_t, K>;

  // size: D or Dv. table: block_table [N, M] if the keys are in pages.
  StoredRows(const RaggedCase& c, std::int64_t size, unsigned seed,
             const Tensor<std::int32_t, 2>& table, std::int64_t blocks)
      : c_(c), size_(size), table_(table) {
    std::int64_t rows = 3;  // unused rows at the start
    for (const auto& one : c.sequences) starts_.push_back(rows), rows += one.keys;
    starts_.push_back(rows);
    const std::int64_t heads = c.key_heads;
    std::array<std::int64_t, 4> extents{1, rows + 2, heads, size};
    if (c.key_rows == KeyRows::equal) extents = {c.count(), c.most_keys(), heads, size};
    if (c.key_rows == KeyRows::lengths) extents = {c.count(), c.most_keys() + 4, heads, size};
    if (c.key_rows == KeyRows::pages) extents = {blocks, c.page, heads, size};
    const std::int64_t of_batch = extents[1] * heads * size;
    elements_.assign(static_cast<std::size_t>(extents[0] * of_batch + 1), mark());
    view_ = {elements_.data(), extents};
    if (c.heads_first)
      view_ = {elements_.data(), extents, {of_batch, size, extents[1] * size, 1}};
    scales_.assign(static_cast<std::size_t>(extents[0] * extents[1] * heads + heads),
                   std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t h = 0; e4m3 && h < heads; ++h)
      scales_[static_cast<std::size_t>(h)] = 0.5f + 0.1f * static_cast<float>(h);
    for (std::size_t n = 0; n < c.sequences.size(); ++n) {
      const auto from = random_tensor<double, 4>({1, c.sequences[n].keys, heads, size},
                                                 seed + static_cast<unsigned>(n));
      exact_.push_back(from);
      for (std::int64_t j = 0; j < c.sequences[n].keys; ++j)
        for (std::int64_t h = 0; h < heads; ++h) put(n, j, h, from);
    }
  }

  View<const Element, 4> read() const { return view_; }
  // E4M3 elements have their DLPack type, or u8.
  ConstTensor tensor(const View<const Element, 4>& view, bool named = true) const {
    ConstTensor one = view;
    if (e4m3 && named) one.dtype = {TypeCode::float8_e4m3fn, 8};
    return one;
  }
  View<const float, 3> scales() const {
    return int8 ? View<const float, 3>(scales_.data(),
                                       {view_.extent(0), view_.extent(1), view_.extent(2)})
                : View<const float, 3>();
  }
  View<const float, 1> head_scales() const {
    return e4m3 ? View<const float, 1>(scales_.data(), {view_.extent(2)})
                : View<const float, 1>();
  }
  // The exact values of the stored elements of sequence n, [1, S_n, Hk, D].
  const Tensor<double, 4>& exact(std::size_t n) const { return exact_[n]; }
  std::span<const std::int64_t> starts() const { return starts_; }

  // The rows of sequence n alone, contiguous.
  struct Alone {
    Tensor<Element, 4> elements;
    Tensor<float, 3> scales;
  };
  Alone alone(std::size_t n) const {
    const std::int64_t keys = c_.sequences[n].keys, heads = c_.key_heads;
    Alone one{Tensor<Element, 4>({1, keys, heads, size_}), Tensor<float, 3>({1, keys, heads})};
    one.elements.values.reserve(1), one.scales.values.reserve(1);  // not null
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto [b, row] = place(n, j);
        if (int8) one.scales.view()(0, j, h) = scales()(b, row, h);
        for (std::int64_t d = 0; d < size_; ++d)
          one.elements.view()(0, j, h, d) = view_(b, row, h, d);
      }
    return one;
  }

 private:
  static Element mark() {
    if constexpr (int8)
      return 127;
    else if constexpr (e4m3)
      return 0x7f;
    else
      return static_cast<K>(std::numeric_limits<float>::quiet_NaN());
  }
  std::pair<std::int64_t, std::int64_t> place(std::size_t n, std::int64_t j) const {
    const auto b = static_cast<std::int64_t>(n);
    if (c_.key_rows == KeyRows::starts) return {0, starts_[n] + j};
    if (c_.key_rows == KeyRows::pages) return {table_.view()(b, j / c_.page), j % c_.page};
    return {b, j};
  }
  void put(std::size_t n, std::int64_t j, std::int64_t h, const Tensor<double, 4>& from) {
    const auto [b, row] = place(n, j);
    auto exact = exact_[n].view();
    double most = 0;
    for (std::int64_t d = 0; d < size_; ++d)
      most = std::max(most, std::abs(from.view()(0, j, h, d)));
    const auto scale = static_cast<float>(most / 127);
    if (int8)
      scales_[static_cast<std::size_t>((b * view_.extent(1) + row) * c_.key_heads + h)] = scale;
    for (std::int64_t d = 0; d < size_; ++d) {
      const double value = from.view()(0, j, h, d);
      Element& to = view_(b, row, h, d);
      if constexpr (int8) {
        to = static_cast<std::int8_t>(
            std::clamp(std::round(value / double{scale}), -127.0, 127.0));
        exact(0, j, h, d) = double{scale} * to;
      } else if constexpr (e4m3) {
        const double factor = double{scales_[static_cast<std::size_t>(h)]};
        to = nearest_e4m3(value / factor).bits;
        exact(0, j, h, d) = factor * value_of({to});
      } else {
        to = static_cast<K>(value);
        exact(0, j, h, d) = as_double(to);
      }
    }
  }

  const RaggedCase& c_;
  std::int64_t size_;
  const Tensor<std::int32_t, 2>& table_;
  std::vector<std::int64_t> starts_;
  std::vector<Element> elements_;
  std::vector<float> scales_;
  View<Element, 4> view_;
  std::vector<Tensor<double, 4>> exact_;
};

// One call with all sequences, for queries of type T and keys of type K.
template <typename T, typename K>
struct RaggedPass {
  const RaggedCase& c;
  std::int64_t blocks = 3;
  Tensor<std::int32_t, 2> table;
  StoredRows<K> k, v;
  std::vector<std::int64_t> query_starts, query_lengths, key_lengths, offsets;
  Tensor<T, 4> q{{}}, out{{}};
  Tensor<Accumulator<T>, 3> lse{{}};
  View<const std::int32_t, 2> table_view;
  AttentionPlan plan;

  explicit RaggedPass(const RaggedCase& from)
      : c(from),
        table(blocks_of(from)),
        k(from, from.size, from.seed + 1, table, blocks),
        v(from, from.values, from.seed + 301, table, blocks),
        plan(from.plan) {
    std::int64_t rows = 2;
    for (const auto& one : c.sequences) {
      query_starts.push_back(rows), rows += one.queries;
      query_lengths.push_back(one.queries);
      key_lengths.push_back(one.keys);
      offsets.push_back(one.offset);
    }
    query_starts.push_back(rows);
    const std::int64_t most = c.most_queries();
    std::array<std::int64_t, 2> extents{1, rows + 3};
    if (c.query_rows == QueryRows::equal) extents = {c.count(), most};
    if (c.query_rows == QueryRows::lengths) extents = {c.count(), most + 2};
    const T nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    q = Tensor<T, 4>({extents[0], extents[1], c.heads, c.size}, nan);
    out = Tensor<T, 4>({extents[0], extents[1], c.heads, c.values}, nan);
    lse = Tensor<Accumulator<T>, 3>({extents[0], c.heads, extents[1]}, Accumulator<T>(7));
    for (std::size_t n = 0; n < c.sequences.size(); ++n) {
      const auto values = random_tensor<double, 4>({1, c.sequences[n].queries, c.heads, c.size},
                                                   c.seed + 601 + static_cast<unsigned>(n));
      for (std::int64_t i = 0; i < c.sequences[n].queries; ++i)
        for (std::int64_t h = 0; h < c.heads; ++h)
          for (std::int64_t d = 0; d < c.size; ++d) {
            const auto [b, row] = place(n, i);
            q.view()(b, row, h, d) = static_cast<T>(values.view()(0, i, h, d));
          }
    }
    if (c.query_rows == QueryRows::starts) plan.ragged.query_starts = query_starts;
    if (c.query_rows == QueryRows::lengths) plan.ragged.query_lengths = query_lengths;
    if (c.key_rows == KeyRows::starts) plan.ragged.key_starts = k.starts();
    if (c.key_rows == KeyRows::lengths || c.key_rows == KeyRows::pages)
      plan.ragged.key_lengths = key_lengths;
    if (c.gives_offsets) plan.ragged.offsets = offsets;
    table_view = std::as_const(table).view();
    if (c.key_rows == KeyRows::pages) plan.ragged.block_table = table_view;
    if (c.rotary) {
      Positions positions = consecutive(extents[1]);
      positions.batch = extents[0];
      positions.ids.assign(static_cast<std::size_t>(extents[0] * extents[1]), 1 << 20);
      positions.sequences.assign(positions.ids.size(), 0);
      for (std::size_t n = 0; n < c.sequences.size(); ++n)
        for (std::int64_t i = 0; i < c.sequences[n].queries; ++i) {
          const auto [b, row] = place(n, i);
          positions.ids[static_cast<std::size_t>(b * extents[1] + row)] =
              c.sequences[n].offset + i;
        }
      if (!positions.ids.empty()) plan.query_rotary.emplace(*c.rotary, positions);
    }
  }
  RaggedPass(const RaggedPass&) = delete;

  void operator()(bool named = true) {
    const auto of_k = k.read(), of_v = v.read();
    const auto k_scales = k.scales(), v_scales = v.scales();
    const auto k_heads = k.head_scales(), v_heads = v.head_scales();
    ConstTensor scale_k = k_scales, scale_v = v_scales;
    if (k_heads.data()) scale_k = k_heads, scale_v = v_heads;
    attention({.q = std::as_const(q).view(),
               .k = k.tensor(of_k, named),
               .v = v.tensor(of_v, named),
               .k_scales = scale_k,
               .v_scales = scale_v},
              plan, out.view(), lse.view());
  }

  std::pair<std::int64_t, std::int64_t> place(std::size_t n, std::int64_t i) const {
    if (c.query_rows == QueryRows::starts) return {0, query_starts[n] + i};
    return {static_cast<std::int64_t>(n), i};
  }
  // The results of sequence n, [1, T_n, Hq, Dv] and [1, Hq, T_n].
  template <typename Number>
  Tensor<Number, 4> out_of(std::size_t n) const {
    Tensor<Number, 4> one({1, c.sequences[n].queries, c.heads, c.values});
    for (std::int64_t i = 0; i < c.sequences[n].queries; ++i)
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t d = 0; d < c.values; ++d) {
          const auto [b, row] = place(n, i);
          one.view()(0, i, h, d) = static_cast<Number>(as_double(out.view()(b, row, h, d)));
        }
    return one;
  }
  Tensor<Accumulator<T>, 3> lse_of(std::size_t n) const {
    Tensor<Accumulator<T>, 3> one({1, c.heads, c.sequences[n].queries});
    for (std::int64_t i = 0; i < c.sequences[n].queries; ++i)
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const auto [b, row] = place(n, i);
        one.view()(0, h, i) = lse.view()(b, h, row);
      }
    return one;
  }
  Tensor<T, 4> q_of(std::size_t n) const {
    Tensor<T, 4> one({1, c.sequences[n].queries, c.heads, c.size});
    for (std::int64_t i = 0; i < c.sequences[n].queries; ++i)
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t d = 0; d < c.size; ++d) {
          const auto [b, row] = place(n, i);
          one.view()(0, i, h, d) = q.view()(b, row, h, d);
        }
    return one;
  }

 private:
  // Shuffled blocks. Entries that no row needs are no blocks of the cache.
  Tensor<std::int32_t, 2> blocks_of(const RaggedCase& from) {
    std::vector<std::int64_t> used;
    std::int64_t most = 1;
    for (const auto& one : from.sequences) {
      used.push_back((one.keys + from.page - 1) / from.page);
      blocks += used.back(), most = std::max(most, used.back() + 1);
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(from.seed));
    Tensor<std::int32_t, 2> all({from.count(), most}, -5);
    std::size_t next = 0;
    for (std::size_t n = 0; n < used.size(); ++n)
      for (std::int64_t m = 0; m < used[n]; ++m)
        all.view()(static_cast<std::int64_t>(n), m) = order[next++];
    return all;
  }
};

}  // namespace gnomon::testing
