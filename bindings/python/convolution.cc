// gnomon.convolve: short convolutions of keys and values.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/released_gil.h"
#include "gnomon/attention/short_convolution.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using Access = Array::Access;

nb::object convolve_tokens(nb::handle x, nb::handle weight, const std::string& order,
                           double scale, nb::handle dynamic, nb::handle state, nb::handle out,
                           const Positions* tokens) {
  constexpr const char* operation = "convolve";
  constexpr Choice<TapOrder> orders[] = {{"oldest_first", TapOrder::oldest_first},
                                         {"newest_first", TapOrder::newest_first}};
  const Array xs(operation, "x", x, Access::read),
      weights(operation, "weight", weight, Access::read),
      dynamics(operation, "dynamic", dynamic, Access::read),
      kept(operation, "state", state, Access::write);
  internal::check_tensor({operation, "x"}, xs.tensor(), 3);
  internal::check_tensor({operation, "weight"}, weights.tensor(), 2);
  nb::object result = nb::borrow(out);
  if (out.is_none()) {
    const Tensor& like = xs.tensor();
    result =
        new_array(operation, "x is", like, {like.extent(0), like.extent(1), like.extent(2)});
  }
  const Array to(operation, "out", result, Access::write);
  const ShortConvolution convolution{.taps = weights.tensor().extent(1),
                                     .order = chosen(operation, "order", order, orders),
                                     .scale = scale};
  ReleasedGil released;
  convolve(convolution, xs.tensor(), weights.tensor(), dynamics.tensor(), kept, to, tokens);
  return result;
}

}  // namespace

void bind_convolution(nb::module_& module) {
  module.def(
      "convolve", &convolve_tokens, nb::arg("x"), nb::arg("weight"), nb::kw_only(),
      nb::arg("order") = "oldest_first", nb::arg("scale") = 1.0,
      nb::arg("dynamic") = nb::none(), nb::arg("state") = nb::none(),
      nb::arg("out") = nb::none(), nb::arg("tokens") = nb::none(),
      nb::sig("def convolve(x: Array, weight: Array, *, order: TapOrder = "
              "'oldest_first', scale: float = 1.0, dynamic: Array | None = "
              "None, state: Array | None = None, out: Array | None = None, tokens: Positions "
              "| None = None) -> Array"),
      R"(Returns a causal convolution of each channel, with the token itself added (Inkling).

y[t, c] = scale (x[t, c] + sum over n of (w[c, n] + dynamic[t, head of c, n]) x[t - n, c])

x: [B, T, C]; float32, float16 or float64. weight: float32 [C, W]. order: oldest_first has the
weight of the token itself last, as torch.nn.Conv1d. dynamic: float32 [B, T, H, W], newest
first. state: float32 (float64 if x is) [B, W - 1, C], the inputs before x; it is replaced by
the last inputs. Zeros start a text. tokens: sequences of the tokens (packing, padding).
Raises ValueError if shapes do not match.)");
}

}  // namespace gnomon::python
