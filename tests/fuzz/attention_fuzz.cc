// Drawn shapes, strides, masks, biases and element types, on every instruction set of the
// machine, against loops in double; and the C API against the same bits.
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "fuzz/array.h"
#include "fuzz/target.h"
#include "gnomon.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"
#include "naive/attention.h"

namespace gnomon::fuzz {
namespace attention_fuzz {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Drawn {
  std::int64_t batch, queries, keys, groups, key_heads, dim, value_dim;
  AttentionPlan plan;
};

Drawn draw(Choices& choose) {
  Drawn drawn{choose.from(1, 2),
              choose.from(0, 12),
              choose.one_in(4) ? choose.from(0, 300) : choose.from(0, 40),
              choose.from(1, 4),
              choose.from(1, 3),
              choose.from(1, 40),
              choose.from(1, 40),
              {}};
  AttentionPlan& plan = drawn.plan;
  plan.mask.visibility = choose.of({Visibility::causal, Visibility::bidirectional});
  if (!choose.one_in(8)) plan.mask.offset = choose.from(-1, 40);
  if (choose.one_in(3)) plan.mask.left = choose.from(-1, 20);
  if (choose.one_in(4)) plan.mask.right = choose.from(-1, 20);
  if (choose.one_in(4)) plan.softmax.scale = static_cast<double>(choose.from(0, 8)) / 8;
  plan.softmax.rounds_weights = false;
  const std::int64_t heads = drawn.groups * drawn.key_heads;
  switch (choose.below(4)) {
    case 1: {
      SlopeBias slopes;
      for (std::int64_t h = 0; h < heads; ++h)
        slopes.slopes.push_back(static_cast<double>(choose.from(0, 9)) / 16);
      plan.bias = slopes;
      break;
    }
    case 2: {
      StripBias strip{heads, choose.from(-330, 10), {}};
      const std::int64_t distances = choose.from(1, 700);
      for (std::int64_t i = 0; i < heads * distances; ++i)
        strip.values.push_back(static_cast<double>(i * 37 % 101) / 50 - 1);
      plan.bias = strip;
      break;
    }
  }
  return drawn;
}

bool sees(const AttentionMask& mask, std::int64_t row, std::int64_t key) {
  const std::int64_t at = row + mask.offset.value_or(0);
  return (mask.visibility == Visibility::bidirectional || key <= at) &&
         (!mask.left || key >= at - *mask.left) && (!mask.right || key <= at + *mask.right);
}

double bias_of(const BiasForm& form, std::int64_t head, std::int64_t distance) {
  if (const auto* slope = std::get_if<SlopeBias>(&form))
    return -slope->slopes[static_cast<std::size_t>(head)] *
           static_cast<double>(std::abs(distance));
  if (const auto* strip = std::get_if<StripBias>(&form))
    return strip->values[static_cast<std::size_t>(head * strip->distances() + distance -
                                                  strip->min_distance)];
  return 0;
}

// The same by the C API.
void attention_in_c(const AttentionInput& input, const AttentionPlan& plan, const Tensor& out) {
  gnomon_layer_plan* same = nullptr;
  require(gnomon_layer_plan_create(&same) == GNOMON_OK);
  require(gnomon_layer_plan_set_mask(same, static_cast<std::int32_t>(plan.mask.visibility),
                                     plan.mask.offset.value_or(-1), plan.mask.left.value_or(-1),
                                     plan.mask.right.value_or(-1)) == GNOMON_OK);
  require(gnomon_layer_plan_set_softmax(same, plan.softmax.scale.value_or(NAN), 0, nullptr) ==
          GNOMON_OK);
  require(gnomon_layer_plan_round_weights(same, 0) == GNOMON_OK);
  if (const auto* slope = std::get_if<SlopeBias>(&plan.bias)) {
    const ConstTensor slopes =
        View<const double, 1>(slope->slopes.data(), {std::ssize(slope->slopes)});
    const gnomon_tensor c_slopes = tensor_of(slopes);
    require(gnomon_layer_plan_set_slopes(same, &c_slopes) == GNOMON_OK);
  }
  if (const auto* strip = std::get_if<StripBias>(&plan.bias)) {
    const ConstTensor values =
        View<const double, 2>(strip->values.data(), {strip->heads, strip->distances()});
    const gnomon_tensor c_values = tensor_of(values);
    require(gnomon_layer_plan_set_strip(same, &c_values, strip->min_distance) == GNOMON_OK);
  }
  const gnomon_tensor q = tensor_of(input.q), k = tensor_of(input.k), v = tensor_of(input.v),
                      c_out = tensor_of(out);
  gnomon_attention_input c_input{};
  c_input.size = sizeof c_input, c_input.q = &q, c_input.k = &k, c_input.v = &v;
  require(gnomon_attention(&c_input, same, &c_out, nullptr) == GNOMON_OK);
  gnomon_layer_plan_destroy(same);
}

template <typename T>
void compare(Choices& choose) {
  Drawn drawn = draw(choose);
  const std::int64_t heads = drawn.groups * drawn.key_heads;
  Array<T> q(choose, drawn.batch, drawn.queries, heads, drawn.dim),
      k(choose, drawn.batch, drawn.keys, drawn.key_heads, drawn.dim),
      v(choose, drawn.batch, drawn.keys, drawn.key_heads, drawn.value_dim),
      out(choose, drawn.batch, drawn.queries, heads, drawn.value_dim);
  const auto seed = static_cast<std::uint64_t>(choose.below(1 << 16));
  q.fill(seed, 1), k.fill(seed + 1, 1), v.fill(seed + 2, 1);
  // NaN in the rows that no query sees.
  for (std::int64_t j = 0; j < drawn.keys; ++j) {
    bool seen = false;
    for (std::int64_t i = 0; i < drawn.queries; ++i) seen |= sees(drawn.plan.mask, i, j);
    if (seen) continue;
    for (std::int64_t b = 0; b < drawn.batch; ++b)
      for (std::int64_t g = 0; g < drawn.key_heads; ++g)
        k.view()(b, j, g, 0) = v.view()(b, j, g, drawn.value_dim - 1) =
            T(std::numeric_limits<double>::quiet_NaN());
  }
  Array<T> untouched = out;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    const AttentionInput input{.q = q.view(), .k = k.view(), .v = v.view()};
    attention(input, drawn.plan, out.view());
    Array<T> in_c = untouched;
    attention_in_c(input, drawn.plan, in_c.view());
    require(std::memcmp(out.memory.data(), in_c.memory.data(), out.memory.size() * sizeof(T)) ==
            0);

    const double scale =
        drawn.plan.softmax.scale.value_or(1 / std::sqrt(static_cast<double>(drawn.dim)));
    const double bound = half_ulp<T> + (std::is_same_v<T, double> ? 0x1p-46 : 0x1p-17);
    const auto doubles = [](std::int64_t rows, std::int64_t columns) {
      return std::vector<double>(static_cast<std::size_t>(rows * columns));
    };
    for (std::int64_t b = 0; b < drawn.batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t g = h / drawn.groups;
        auto qs = doubles(drawn.queries, drawn.dim), ks = doubles(drawn.keys, drawn.dim),
             vs = doubles(drawn.keys, drawn.value_dim),
             biases = doubles(drawn.queries, drawn.keys),
             outs = doubles(drawn.queries, drawn.value_dim);
        const View<double, 2> q2(qs.data(), {drawn.queries, drawn.dim}),
            k2(ks.data(), {drawn.keys, drawn.dim}),
            v2(vs.data(), {drawn.keys, drawn.value_dim}),
            bias2(biases.data(), {drawn.queries, drawn.keys}),
            out2(outs.data(), {drawn.queries, drawn.value_dim});
        const auto finite = [](double x) {
          return std::isnan(x) ? 0 : x;
        };  // only in hidden rows
        for (std::int64_t i = 0; i < drawn.queries; ++i) {
          for (std::int64_t d = 0; d < drawn.dim; ++d) q2(i, d) = value(q.view()(b, i, h, d));
          for (std::int64_t j = 0; j < drawn.keys; ++j)
            bias2(i, j) =
                sees(drawn.plan.mask, i, j)
                    ? bias_of(drawn.plan.bias, h, j - i - drawn.plan.mask.offset.value_or(0))
                    : -infinity;
        }
        for (std::int64_t j = 0; j < drawn.keys; ++j) {
          for (std::int64_t d = 0; d < drawn.dim; ++d)
            k2(j, d) = finite(value(k.view()(b, j, g, d)));
          for (std::int64_t d = 0; d < drawn.value_dim; ++d)
            v2(j, d) = finite(value(v.view()(b, j, g, d)));
        }
        testing::naive_attention(q2, k2, v2, bias2, scale, out2);
        for (std::int64_t i = 0; i < drawn.queries; ++i)
          for (std::int64_t d = 0; d < drawn.value_dim; ++d) {
            T& got = out.view()(b, i, h, d);
            require(std::abs(value(got) - out2(i, d)) <= bound);
            got = untouched.view()(b, i, h, d);
          }
      }
    for (std::size_t i = 0; i < out.memory.size(); ++i)  // nothing between the rows was written
      require(value(out.memory[i]) == value(untouched.memory[i]));
  }
}

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    Choices choose(bytes);
    with_type(choose.below(4), [&]<typename T>(T) { compare<T>(choose); });
  });
}

const Register registered("attention", read);

}  // namespace attention_fuzz
}  // namespace gnomon::fuzz
