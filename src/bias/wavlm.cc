#include "gnomon/bias/wavlm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/bias/strip.h"
#include "src/core/exported.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr int64_t gate_grain = 256;  // head vectors in a piece of work: some 20 us
constexpr std::int64_t gate_rows = 8, half = 4;

template <typename T>
void check_gate(const WavLm& wavlm, const WavLmGate<T>& gate) {
  if (wavlm.t5.heads < 1) refuse("wavlm", "heads must be at least 1", wavlm.t5.heads);
  if (wavlm.head_dim < 1) refuse("wavlm", "head_dim must be at least 1", wavlm.head_dim);
  internal::check_shape<2>("wavlm", "weight", gate.weight.extents(),
                           {gate_rows, wavlm.head_dim});
  internal::check_shape<1>("wavlm", "bias", gate.bias.extents(), {gate_rows});
  internal::check_shape<1>("wavlm", "constant", gate.constant.extents(), {wavlm.t5.heads});
}

template <typename X, typename O>
void check_input(const WavLm& wavlm, View<X, 3> x, const char* name, View<O, 3> out) {
  const int64_t channels =
      internal::checked_product("wavlm", "heads x head_dim", {wavlm.t5.heads, wavlm.head_dim});
  if (x.extent(2) != channels)
    refuse("wavlm", "x must have width heads x head_dim, " + std::to_string(channels),
           x.extent(2));
  internal::check_shape<3>("wavlm", name, out.extents(),
                           {x.extent(0), wavlm.t5.heads, x.extent(1)});
}

// Only two sums of the eight outputs are used, so the weights are added to two rows.
struct GateRows {
  std::array<std::vector<double>, 2> weight;
  std::array<double, 2> bias{};

  explicit GateRows(const WavLmGate<const float>& gate) {
    for (std::ptrdiff_t r = 0; r < gate_rows; ++r) {
      const auto side = static_cast<std::size_t>(r / half);
      weight[side].resize(static_cast<std::size_t>(gate.weight.extent(1)));
      bias[side] += double{gate.bias(r)};
      for (std::ptrdiff_t d = 0; d < gate.weight.extent(1); ++d)
        weight[side][static_cast<std::size_t>(d)] += double{gate.weight(r, d)};
    }
  }
};

template <typename X>
double as_double(X value) {
  if constexpr (std::is_same_v<X, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}
template <typename X>
void load(const X* from, std::int64_t stride, std::vector<double>& to) {
  for (std::size_t d = 0; d < to.size(); ++d)
    to[d] = as_double(from[static_cast<std::int64_t>(d) * stride]);
}

std::array<double, 2> opened(const GateRows& of, const std::vector<double>& x) {
  std::array<double, 2> sums = of.bias;
  for (std::size_t d = 0; d < x.size(); ++d)
    for (std::size_t side = 0; side < 2; ++side) sums[side] += of.weight[side][d] * x[d];
  return {1 / (1 + std::exp(-sums[0])), 1 / (1 + std::exp(-sums[1]))};
}

}  // namespace

template <typename X>
void gates(const WavLm& wavlm, const WavLmGate<const float>& gate, View<const X, 3> x,
           View<float, 3> out) {
  check_gate(wavlm, gate);
  check_input(wavlm, x, "out", out);
  if (out.size() == 0) return;
  const GateRows of(gate);
  const int64_t heads = wavlm.t5.heads, tokens = x.extent(1);
  parallel_for(out.size(), gate_grain, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(wavlm.head_dim));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t h = i % heads, t = i / heads % tokens, b = i / heads / tokens;
      load(&x(b, t, h * wavlm.head_dim), x.stride(2), values);
      const auto [a, g] = opened(of, values);
      out(b, h, t) = static_cast<float>(a * (g * double{gate.constant(h)} - 1) + 2);
    }
  });
}

template <typename X>
void gates_backward(const WavLm& wavlm, const WavLmGate<const float>& gate, View<const X, 3> x,
                    View<const float, 3> out_grad, View<X, 3> x_grad,
                    const WavLmGate<float>& grads) {
  check_gate(wavlm, gate);
  if (grads.weight.data()) check_gate(wavlm, grads);
  check_input(wavlm, x, "out_grad", out_grad);
  if (x_grad.data()) internal::check_shape<3>("wavlm", "x_grad", x_grad.extents(), x.extents());
  if (out_grad.size() == 0) return;
  const GateRows of(gate);
  const int64_t heads = wavlm.t5.heads, size = wavlm.head_dim, tokens = x.extent(1);
  // Each piece has its own sums, [2, D + 1] and [H], which are added in piece order. At most 64
  // pieces.
  const int64_t each = std::max(gate_grain, (out_grad.size() + 63) / 64);
  const int64_t width = 2 * (size + 1) + heads, pieces = (out_grad.size() - 1) / each + 1;
  std::vector<double> sums(static_cast<std::size_t>(pieces * width));
  parallel_for(out_grad.size(), each, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(size));
    double* const sum = sums.data() + begin / each * width;
    double* const constants = sum + 2 * (size + 1);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t h = i % heads, t = i / heads % tokens, b = i / heads / tokens;
      load(&x(b, t, h * size), x.stride(2), values);
      const auto [a, g] = opened(of, values);
      const double grad = out_grad(b, h, t), constant = gate.constant(h);
      constants[h] += grad * a * g;
      const double share[2] = {grad * (g * constant - 1) * a * (1 - a),
                               grad * a * constant * g * (1 - g)};
      for (int64_t side = 0; side < 2; ++side) {
        double* const to = sum + side * (size + 1);
        for (int64_t d = 0; d < size; ++d)
          to[d] += share[side] * values[static_cast<std::size_t>(d)];
        to[size] += share[side];
      }
      if (!x_grad.data()) continue;
      for (int64_t d = 0; d < size; ++d) {
        const auto n = static_cast<std::size_t>(d);
        X& to = x_grad(b, t, h * size + d);
        to = static_cast<X>(as_double(to) + share[0] * of.weight[0][n] +
                            share[1] * of.weight[1][n]);
      }
    }
  });
  if (!grads.weight.data()) return;
  std::vector<double> all(static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < sums.size(); ++i) all[i % all.size()] += sums[i];
  for (std::ptrdiff_t r = 0; r < gate_rows; ++r) {
    const double* const from = all.data() + r / half * (size + 1);
    for (int64_t d = 0; d < size; ++d) internal::add(grads.weight(r, d), from[d]);
    internal::add(grads.bias(r), from[size]);
  }
  for (int64_t h = 0; h < heads; ++h)
    internal::add(grads.constant(h), all[static_cast<std::size_t>(2 * (size + 1) + h)]);
}

#define GNOMON_INSTANTIATE(X)                                                                  \
  template GNOMON_EXPORTED void gates<X>(const WavLm&, const WavLmGate<const float>&,          \
                                         View<const X, 3>, View<float, 3>);                    \
  template GNOMON_EXPORTED void gates_backward<X>(const WavLm&, const WavLmGate<const float>&, \
                                                  View<const X, 3>, View<const float, 3>,      \
                                                  View<X, 3>, const WavLmGate<float>&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
