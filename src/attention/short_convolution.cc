#include "gnomon/attention/short_convolution.h"

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr std::string_view operation = "short_convolution";
constexpr int64_t most_taps = 64, convolution_grain = 16;  // tokens in a piece

constexpr internal::Argument convolution_argument(std::string_view name) {
  return {operation, name};
}

template <typename T>
double element(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(static_cast<float>(x));
}

void check(const ShortConvolution& convolution, const Positions* tokens, int64_t batch,
           int64_t count) {
  if (convolution.taps < 1 || convolution.taps > most_taps)
    refuse(operation, "taps must be 1 to 64", convolution.taps);
  if (convolution.order != TapOrder::oldest_first &&
      convolution.order != TapOrder::newest_first)
    refuse(operation, "order must be oldest_first or newest_first",
           static_cast<int>(convolution.order));
  if (!std::isfinite(convolution.scale))
    refuse(operation, "scale must be finite", convolution.scale);
  if (!tokens) return;
  if ((tokens->batch != 1 && tokens->batch != batch) || tokens->tokens != count ||
      std::ssize(tokens->sequences) != tokens->batch * count)
    refuse(operation,
           "sequences must be given for 1 row or " + std::to_string(batch) + ", and " +
               std::to_string(count) + " tokens",
           tokens->tokens);
}

// The inputs before and within a call, by row; rows before the state are zeros.
template <typename T>
struct Inputs {
  View<const T, 3> x;
  View<const Accumulator<T>, 3> state;
  int64_t kept;  // W - 1

  double operator()(int64_t b, int64_t t, int64_t c) const {
    if (t >= 0) return element(x(b, t, c));
    return state.data() ? static_cast<double>(state(b, kept + t, c)) : 0;
  }
};

template <typename T>
void convolve_typed(const ShortConvolution& convolution, View<const T, 3> x,
                    View<const float, 2> weight, View<const float, 4> dynamic,
                    View<Accumulator<T>, 3> state, View<T, 3> out, const Positions* tokens) {
  const int64_t batch = x.extent(0), count = x.extent(1), channels = x.extent(2),
                taps = convolution.taps, kept = taps - 1;
  check(convolution, tokens, batch, count);
  internal::check_shape<2>(operation, "weight", weight.extents(), {channels, taps});
  internal::check_shape<3>(operation, "out", out.extents(), x.extents());
  if (state.data())
    internal::check_shape<3>(operation, "state", state.extents(), {batch, kept, channels});
  const int64_t heads = dynamic.data() ? dynamic.extent(2) : 1;
  if (dynamic.data()) {
    internal::check_shape<4>(operation, "dynamic", dynamic.extents(),
                             {batch, count, heads, taps});
    if (heads < 1 || channels % heads)
      refuse(operation,
             "the heads of dynamic must divide the channels " + std::to_string(channels),
             heads);
  }
  const Inputs<T> inputs{x, state, kept};
  const auto sequence = [&](int64_t b, int64_t t) {
    return tokens
        ->sequences[static_cast<std::size_t>((tokens->batch == 1 ? 0 : b) * count + t)];
  };
  // Whether token t receives the input of row `from`, which may be of the state.
  const auto receives = [&](int64_t b, int64_t t, int64_t from) {
    if (!tokens) return true;
    const auto own = sequence(b, t);
    return own != Positions::padding && sequence(b, std::max<int64_t>(from, 0)) == own;
  };
  parallel_for(batch * count, convolution_grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / count, t = n % count;
      bool seen[most_taps];
      for (int64_t tap = 0; tap < taps; ++tap) seen[tap] = receives(b, t, t - tap);
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t tap = 0; tap < taps; ++tap) {
          if (!seen[tap]) continue;
          double w = static_cast<double>(
              weight(c, convolution.order == TapOrder::oldest_first ? kept - tap : tap));
          if (dynamic.data())
            w += static_cast<double>(dynamic(b, t, c / (channels / heads), tap));
          sum += w * inputs(b, t - tap, c);
        }
        out(b, t, c) = static_cast<T>(convolution.scale * (sum + inputs(b, t, c)));
      }
    }
  });
  if (!state.data()) return;
  // Row k of the next state is row count + k of the old state followed by the inputs.
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t k = 0; k < kept; ++k) {
      const int64_t from = count + k - kept;
      const bool hidden = tokens && (count == 0 ? false : !receives(b, count - 1, from));
      for (int64_t c = 0; c < channels; ++c)
        state(b, k, c) = static_cast<Accumulator<T>>(hidden ? 0 : inputs(b, from, c));
    }
}

ShortConvolution oldest_first(int64_t taps, double scale) {
  return {.taps = taps, .order = TapOrder::oldest_first, .scale = scale};
}

}  // namespace

ShortConvolution inkling_convolution(int64_t taps) { return oldest_first(taps, 1); }
ShortConvolution inkling2_convolution(int64_t taps) {
  return oldest_first(taps, 1 / std::sqrt(static_cast<double>(taps) + 1));
}
ShortConvolution inkling2_dynamic_convolution(int64_t taps) {
  return {.taps = taps,
          .order = TapOrder::newest_first,
          .scale = 1 / std::sqrt(2 * static_cast<double>(taps) + 1)};
}

void convolve(const ShortConvolution& convolution, const ConstTensor& x,
              const ConstTensor& weight, const ConstTensor& dynamic, const Tensor& state,
              const Tensor& out, const Positions* tokens) {
  internal::by_type(convolution_argument("x"), x, [&]<typename T>(T) {
    convolve_typed<T>(
        convolution, internal::read<T, 3>(convolution_argument("x"), x),
        internal::read<float, 2>(convolution_argument("weight"), weight),
        internal::read_if<float, 4>(convolution_argument("dynamic"), dynamic),
        internal::write_if<Accumulator<T>, 3>(convolution_argument("state"), state),
        internal::write<T, 3>(convolution_argument("out"), out), tokens);
  });
}

}  // namespace gnomon
