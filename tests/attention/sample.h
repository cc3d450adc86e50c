// Random calls of attention: sizes, masks, positions, biases, rotations and layouts, drawn from
// lists that include the difficult cases.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "attention/oracle.h"
#include "attention/placed.h"

namespace gnomon::testing {

struct Sample {
  AttentionCase c;
  AttentionTensors x;
  Tensor<double, 4> out_grad{{}};
  Layout layout = Layout::plain;
  std::string text;  // describes the sample in failure messages

  // Borrowed by the case.
  Tensor<float, 4> dense{{}};
  Tensor<float, 3> gates{{}}, log_gates{{}};
};

// A call with one sequence, one key head and 16 elements, without a bias or rotation.
inline Sample plain_sample(std::int64_t queries, std::int64_t keys, std::int64_t heads = 2) {
  Sample s;
  s.c.queries = queries, s.c.keys = keys, s.c.heads = heads, s.c.size = s.c.values = 16;
  s.c.plan.mask.offset = keys - queries;
  s.c.plan.softmax.scale = 0.25;
  s.x = {random_tensor<double, 4>({1, queries, heads, 16}, 1),
         random_tensor<double, 4>({1, keys, 1, 16}, 2),
         random_tensor<double, 4>({1, keys, 1, 16}, 3)};
  s.out_grad = random_tensor<double, 4>({1, queries, heads, 16}, 4);
  return s;
}

inline Positions rows_of(const Positions& from, std::int64_t first, std::int64_t count) {
  Positions part{.batch = from.batch, .tokens = count, .ids = {}, .sequences = {}};
  for (std::int64_t b = 0; b < from.batch; ++b)
    for (std::int64_t t = first; t < first + count; ++t) {
      part.ids.push_back(from.ids[static_cast<std::size_t>(b * from.tokens + t)]);
      part.sequences.push_back(from.sequences[static_cast<std::size_t>(b * from.tokens + t)]);
    }
  return part;
}

class Sampler {
 public:
  explicit Sampler(unsigned seed) : engine_(seed), seed_(seed) {}

  Sample draw() {
    Sample s;
    AttentionCase& c = s.c;
    c.batch = pick({1, 2, 3});
    c.key_heads = pick({1, 2, 3});
    c.heads = c.key_heads * pick({1, 1, 2, 5});
    c.queries = pick({1, 2, 5, 31, 33, 64, 70, 129});
    c.size = pick({1, 2, 3, 8, 16, 31, 32, 64, 80, 128, 256});
    c.values = pick({0, 0, 0, 1, 5, 33});
    if (!c.values) c.values = c.size;
    c.plan.softmax.scale = softmax_scale(c.size) * 2;
    c.plan.mask.offset = pick({0, 0, 3, 40, 128});
    window(c);
    c.keys = !cumulative_ && pick({0, 0, 1}) ? pick({0, 1, 7, 16, 65, 130, 257})
                                             : c.queries + c.offset();
    describe(s);
    positions(s);
    rotary(s, c.size < 2 ? 0 : pick({0, 1, 1, 2}));
    finish(s);
    return s;
  }

  // Draws a sample with relative vectors and gates, without a cap.
  Sample draw_relative() {
    Sample s = draw();
    AttentionCase& c = s.c;
    c.plan.softmax.cap.reset();
    c.plan.mask.rate = 1;
    c.plan.softmax.scale = c.scale() / 2;
    RelativeForm& form = c.plan.relative;
    for (std::int64_t n = pick({0, 1, 1, 2}); n > 0; --n)
      s.text += ", keys", form.keys.push_back(vectors(s, c.size));
    for (std::int64_t n = pick({0, 0, 1}); n > 0; --n)
      s.text += ", queries", form.queries.push_back(vectors(s, c.size));
    for (std::int64_t n = pick({0, 0, 1}); n > 0; --n)
      s.text += ", values", form.values.push_back(vectors(s, c.values));
    if (pick({0, 1}) && !c.plan.query_rotary) {
      form.shift = random_numbers(static_cast<std::size_t>(c.heads * c.size), seed_ + 20);
      s.text += ", shift";
    }
    if (pick({0, 0, 1})) {
      s.gates =
          random_tensor<float, 3>({pick({0, 1}) ? 1 : c.batch, c.heads, c.queries}, seed_ + 21);
      c.gates = s.gates.view();
      s.text += ", gates";
    }
    return s;
  }

  // Draws a causal sample with log gates, some of them so small that they hide earlier keys.
  Sample draw_cumulative() {
    cumulative_ = true;
    Sample s = pick({0, 0, 1}) ? draw_decoding() : draw();
    AttentionCase& c = s.c;
    c.plan.softmax.scale = c.scale() / 2;
    c.plan.cumulative.emplace();
    s.log_gates = random_tensor<float, 3>({c.batch, c.heads, c.keys}, seed_ + 22);
    const bool strong = pick({0, 1});
    for (float& gate : s.log_gates.values)
      gate = strong && pick({0, 0, 0, 1})
                 ? (pick({0, 1}) ? -40 : -std::numeric_limits<float>::infinity())
                 : -0.2f * std::abs(gate);
    c.log_gates = s.log_gates.view();
    s.text += strong ? ", strong log gates" : ", log gates";
    return s;
  }

  // Draws a sample with at most 48 rows for a key head, mostly at most 8, and keys that are not
  // rotated. Most sizes and sequences let the cache be read directly, or copied by tiles.
  Sample draw_decoding() {
    Sample s;
    AttentionCase& c = s.c;
    c.batch = pick({1, 1, 2});
    c.key_heads = pick({1, 2, 3, 8});
    const std::int64_t group = pick({1, 2, 4, 8});
    c.heads = c.key_heads * group;
    c.queries = pick({0, 0, 1}) ? 1 + pick({1, 2, 5, 8, 11, 40}) % (48 / group)
                                : 1 + pick({0, 0, 1, 2, 3, 4, 5, 6, 7}) % (8 / group);
    c.size = pick({16, 32, 64, 80, 128, 256, 24});
    c.values = pick({0, 0, 0, 16, 48, 7});
    if (!c.values) c.values = c.size;
    c.plan.softmax.scale = softmax_scale(c.size) * 2;
    c.keys = pick({1, 7, 15, 16, 17, 64, 65, 130});
    if (cumulative_) c.keys = std::max(c.keys, c.queries);
    c.plan.mask.offset =
        cumulative_ || pick({0, 1, 1, 1}) ? std::max<std::int64_t>(0, c.keys - c.queries) : 3;
    window(c);
    unpadded_ = pick({0, 1, 1});
    describe(s);
    positions(s);
    rotary(s, pick({0, 2}));
    finish(s);
    return s;
  }

 private:
  std::int64_t pick(std::initializer_list<std::int64_t> from) {
    return from.begin()[engine_() % from.size()];
  }

  void window(AttentionCase& c) {
    c.plan.mask.visibility =
        cumulative_ || pick({0, 1}) ? Visibility::causal : Visibility::bidirectional;
    const std::int64_t before = pick({-1, -1, -1, 0, 1, 17, 64});
    const std::int64_t after = pick({-1, -1, 0, 9});
    if (before >= 0) c.plan.mask.left = before;
    if (after >= 0) c.plan.mask.right = after;
  }

  void describe(Sample& s) {
    const AttentionCase& c = s.c;
    s.layout = pick({0, 1}) ? Layout::plain : Layout::gaps;
    s.text = "seed " + std::to_string(seed_) + ", B " + std::to_string(c.batch) + ", heads " +
             std::to_string(c.heads) + "/" + std::to_string(c.key_heads) + ", T " +
             std::to_string(c.queries) + ", S " + std::to_string(c.keys) + ", D " +
             std::to_string(c.size) + ", Dv " + std::to_string(c.values) + ", offset " +
             std::to_string(c.offset()) + ", before " +
             std::to_string(c.plan.mask.left.value_or(-1)) + ", after " +
             std::to_string(c.plan.mask.right.value_or(-1)) +
             (c.plan.mask.visibility == Visibility::causal ? ", causal" : ", bidirectional");
  }

  void finish(Sample& s) {
    AttentionCase& c = s.c;
    bias(s);
    if (const std::int64_t cap = pick({0, 0, 5, 30})) {
      c.plan.softmax.cap = static_cast<double>(cap);
      s.text += ", cap " + std::to_string(cap);
    }
    if (pick({0, 0, 1})) {
      for (std::int64_t h = 0; h < c.heads; ++h)
        c.plan.softmax.sinks.push_back(static_cast<double>(pick({-20, -11, -3, 0, 7, 13, 20})) *
                                       0.1);
      s.text += ", sinks";
    }
    const AttentionMask& mask = c.plan.mask;
    if (!cumulative_ && mask.visibility == Visibility::causal && !mask.left && !mask.right &&
        (std::holds_alternative<NoBias>(c.plan.bias) ||
         std::holds_alternative<DenseBias>(c.plan.bias)) &&
        pick({0, 1})) {
      c.plan.mask.rate = pick({2, 3, 16});
      s.text += ", rate " + std::to_string(c.plan.mask.rate);
    }
    const unsigned seed = seed_ * 10;
    s.x = {random_tensor<double, 4>({c.batch, c.queries, c.heads, c.size}, seed),
           random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.size}, seed + 1),
           random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.values}, seed + 2)};
    s.out_grad = random_tensor<double, 4>({c.batch, c.queries, c.heads, c.values}, seed + 3);
  }

  void positions(Sample& s) {
    AttentionCase& c = s.c;
    const std::int64_t kind = c.keys == c.queries + c.offset() ? pick({0, 0, 1, 2, 3}) : 0;
    if (!kind) return;
    Positions all;
    if (kind == 1) {  // packed, then padding
      std::vector<std::int64_t> lengths;
      for (std::int64_t left = c.keys; left > 0 && lengths.size() < 4;) {
        lengths.push_back(std::min<std::int64_t>(left, pick({1, 30, 40, 150})));
        left -= lengths.back();
      }
      all = packed(lengths, c.keys);
      s.text += ", packed";
    } else if (kind == 2) {  // padded on the left
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(c.batch * c.keys), 1);
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t t = 0; t < std::min(c.keys, 20 * b); ++t)
          mask[static_cast<std::size_t>(b * c.keys + t)] = 0;
      all = from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {c.batch, c.keys}), 1);
      s.text += ", left-padded";
    } else {  // any
      all = {.batch = c.batch, .tokens = c.keys, .ids = {}, .sequences = {}};
      for (std::int64_t t = 0; t < c.batch * c.keys; ++t) {
        all.ids.push_back(pick({-40, -7, 0, 1, 2, 3, 50}));
        all.sequences.push_back(static_cast<std::int32_t>(pick({0, 0, 0, 5, -1})));
      }
      s.text += ", scattered";
    }
    if (unpadded_)
      std::replace(all.sequences.begin(), all.sequences.end(), Positions::padding, 9);
    c.plan.queries = std::make_shared<Positions>(rows_of(all, c.offset(), c.queries));
    c.plan.keys = std::make_shared<Positions>(std::move(all));
  }

  // kind 1 rotates queries and keys, 2 only queries.
  void rotary(Sample& s, std::int64_t kind) {
    AttentionCase& c = s.c;
    if (!kind) return;
    const std::int64_t first = c.size > 4 ? pick({0, 0, 3}) : 0;
    const std::int64_t most = (c.size - first) / 2 * 2;
    const Rotary rotary{.rotary_dim = pick({0, 1}) ? most : 2,
                        .pairing = pick({0, 1}) ? Pairing::halves : Pairing::adjacent,
                        .base = 10'000,
                        .head_offset = first};
    c.plan.query_rotary.emplace(
        rotary, c.plan.queries ? *c.plan.queries : consecutive(c.queries, c.offset()));
    s.text += ", rotary";
    if (kind == 2) return;
    c.plan.key_rotary.emplace(rotary, c.plan.keys ? *c.plan.keys : consecutive(c.keys));
  }

  // Relative vectors for exactly the visible distances (or all, by coordinates): one for each
  // distance, clipped, in widening buckets, or one for all; in either order.
  RelativeVectors vectors(Sample& s, std::int64_t size) {
    const AttentionCase& c = s.c;
    RelativeVectors table;
    table.heads = pick({0, 1}) ? 1 : c.heads;
    table.head_dim = size;
    std::int64_t least = 0, most = 0;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t i = 0; i < c.queries; ++i) {
        least = std::min(least, query_position(c, b, i));
        most = std::max(most, query_position(c, b, i));
      }
      for (std::int64_t j = 0; j < c.keys; ++j) {
        least = std::min(least, key_position(c, b, j));
        most = std::max(most, key_position(c, b, j));
      }
    }
    std::int64_t furthest = most - least;
    if (least == 0 && pick({0, 1})) {
      const std::int64_t width = pick({3, 16});
      furthest = most / width;
      for (std::int64_t p = 0; p <= most; ++p) table.coordinates.push_back(p / width);
      s.text += ", by coordinates";
    }
    const std::int64_t limit = pick({0, 1, 20, 1000}), kind = pick({0, 0, 1});
    table.min_distance = -furthest;
    for (std::int64_t d = -furthest; d <= furthest; ++d) {
      std::int64_t row = std::clamp(d, -limit, limit);
      if (kind)
        row = (d < 0 ? -1 : 1) *
              std::min<std::int64_t>(limit, std::llround(2 * std::log2(1 + std::abs(d))));
      table.rows.push_back(static_cast<std::int32_t>(row));
    }
    const std::int32_t lowest = table.rows.front(), highest = table.rows.back();
    const bool falling = pick({0, 1});
    for (std::int32_t& row : table.rows) row = falling ? highest - row : row - lowest;
    table.values =
        random_numbers(static_cast<std::size_t>(table.heads * (highest - lowest + 1) * size),
                       seed_ + static_cast<unsigned>(pick({31, 32, 33, 34})));
    s.text += " of vectors within " + std::to_string(limit) + (kind ? " in buckets" : "") +
              (falling ? " falling" : "") + (table.heads == 1 ? " for all heads" : "");
    return table;
  }

  void bias(Sample& s) {
    AttentionCase& c = s.c;
    const std::int64_t kind = pick({0, 1, 2, 3, 4, 5, 6});
    const auto heads = static_cast<std::size_t>(c.heads);
    if (kind == 1) {
      SlopeBias slope;
      for (std::size_t h = 0; h < heads; ++h) slope.slopes.push_back(0.5 / double(h + 1));
      c.plan.bias = slope;
      s.text += ", slope";
    } else if (kind == 2) {  // exactly the visible distances
      std::int64_t nearest = 1 << 20, furthest = -nearest;
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t i = 0; i < c.queries; ++i)
          for (std::int64_t j = 0; j < c.keys; ++j)
            if (sees(c, b, i, j)) {
              nearest = std::min(nearest, distance(c, b, i, j));
              furthest = std::max(furthest, distance(c, b, i, j));
            }
      if (nearest > furthest) nearest = furthest = 0;
      c.plan.bias = StripBias{
          c.heads, nearest,
          random_numbers(heads * static_cast<std::size_t>(furthest - nearest + 1), seed_ + 7)};
      s.text += ", strip";
    } else if (kind == 3) {
      const bool one = pick({0, 1});  // same for all rows and heads: strides of zero
      s.dense = random_tensor<float, 4>(
          {one ? 1 : c.batch, one ? 1 : c.heads, c.queries, c.keys}, seed_ + 8);
      View<const float, 4> view = s.dense.view();
      if (one) view = {view.data(), {c.batch, c.heads, c.queries, c.keys}, {0, 0, c.keys, 1}};
      c.plan.bias = DenseBias{view};
      s.text += ", dense";
    } else if (kind == 4) {
      grid(s);
    } else if (kind == 5) {
      piecewise_log(s);
    } else if (kind == 6) {
      axes(s);
    }
  }

  struct Range {
    std::int64_t least = 0, most = 0;
  };
  static Range range(const AttentionCase& c) {
    Range all;
    const auto add = [&](std::int64_t position) {
      all.least = std::min(all.least, position), all.most = std::max(all.most, position);
    };
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t i = 0; i < c.queries; ++i) add(query_position(c, b, i));
      for (std::int64_t j = 0; j < c.keys; ++j) add(key_position(c, b, j));
    }
    return all;
  }

  // The axis of the text, and the axes of a page if no position is negative.
  void axes(Sample& s) {
    const auto [least, most] = range(s.c);
    AxesBias bias{.heads = s.c.heads, .axes = {}};
    const auto add = [&](std::vector<std::int64_t> coordinates, std::int64_t widest) {
      const std::int64_t first = -widest - pick({0, 3}), count = 2 * widest + 1 + 2 * 3;
      bias.axes.push_back({first,
                           random_numbers(static_cast<std::size_t>(s.c.heads * count),
                                          seed_ + 11 + static_cast<unsigned>(bias.axes.size())),
                           std::move(coordinates)});
    };
    add({}, most - least);
    if (least >= 0) {
      const std::int64_t width = pick({1, 7, 12});
      std::vector<std::int64_t> x, y;
      for (std::int64_t p = 0; p <= most; ++p)
        x.push_back(p % width * 3 - 4), y.push_back(p / width);
      add(std::move(x), 3 * (width - 1));
      add(std::move(y), most / width);
    }
    s.text += ", " + std::to_string(bias.axes.size()) + " axes";
    s.c.plan.bias = std::move(bias);
  }

  // The smallest window that contains all positions, if none is negative.
  void grid(Sample& s) {
    AttentionCase& c = s.c;
    const auto [least, most] = range(c);
    if (least < 0) return piecewise_log(s);
    GridBias grid{.heads = c.heads,
                  .height = 1,
                  .width = pick({1, 2, 7, 12, 16, 40}),
                  .leading = pick({0, 1}),
                  .values = {}};
    grid.height = std::max<std::int64_t>(1, (most + grid.width - grid.leading) / grid.width);
    grid.values =
        random_numbers(static_cast<std::size_t>(grid.heads * grid.offsets()), seed_ + 9);
    s.text += ", grid " + std::to_string(grid.height) + " x " + std::to_string(grid.width) +
              (grid.leading ? " with a class token" : "");
    c.plan.bias = std::move(grid);
  }

  // Continuous pieces, most of them within the distances that occur.
  void piecewise_log(Sample& s) {
    const std::int64_t pieces = pick({1, 2, 5, 33});
    PiecewiseLogBias bias{.heads = s.c.heads,
                          .c = static_cast<double>(pick({1, 3, 20})) * 0.1,
                          .threshold = static_cast<double>(pick({1, 20, 500})) + 0.3,
                          .epsilon = 1e-6,
                          .knots = {0},
                          .offsets = {},
                          .slopes = {}};
    for (std::int64_t p = 1; p < pieces; ++p)
      bias.knots.push_back(1.07 * static_cast<double>(p) / static_cast<double>(pieces));
    bias.slopes =
        random_numbers(static_cast<std::size_t>(bias.heads * bias.pieces()), seed_ + 10);
    for (std::int64_t h = 0; h < bias.heads; ++h)
      for (std::int64_t p = 0; p < pieces; ++p) {
        const auto n = static_cast<std::size_t>(h * pieces + p);
        bias.offsets.push_back(p ? bias.offsets[n - 1] +
                                       (bias.slopes[n - 1] - bias.slopes[n]) *
                                           bias.knots[static_cast<std::size_t>(p)]
                                 : 0.3);
      }
    s.text += ", piecewise logarithmic of " + std::to_string(pieces) + " pieces";
    s.c.plan.bias = std::move(bias);
  }

  std::mt19937_64 engine_;
  unsigned seed_;
  bool unpadded_ = false, cumulative_ = false;
};

inline Sample sample(unsigned seed) { return Sampler(seed).draw(); }
inline Sample relative_sample(unsigned seed) { return Sampler(seed).draw_relative(); }
inline Sample decoding_sample(unsigned seed) { return Sampler(seed).draw_decoding(); }

// Scores just below 30 of three keys that compete, for which the rounding of long sums is
// largest.
inline Sample steep(std::int64_t size) {
  Sample s;
  s.text = "scores of 30, D " + std::to_string(size);
  s.c.queries = 200, s.c.keys = 3, s.c.size = size, s.c.values = 8;
  s.c.plan.softmax.scale = softmax_scale(size);
  s.c.plan.mask.visibility = Visibility::bidirectional;
  s.x = {random_tensor<double, 4>({1, 200, 1, size}, 1),
         random_tensor<double, 4>({1, 3, 1, size}, 2),
         random_tensor<double, 4>({1, 3, 1, 8}, 3)};
  const double each = std::sqrt(29 / (static_cast<double>(size) * s.c.scale()));
  for (double& value : s.x.q.values) value = each * (1 + 0.003 * value);
  for (double& value : s.x.k.values) value = each * (1 + 0.003 * value);
  s.out_grad = random_tensor<double, 4>({1, 200, 1, 8}, 4);
  return s;
}

}  // namespace gnomon::testing
