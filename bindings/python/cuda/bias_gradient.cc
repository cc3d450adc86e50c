// The gradient of a trained bias, for gnomon.torch.flex.
#include "gnomon/cuda/bias_gradient.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python/cuda/module.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"

namespace gnomon::python {
namespace {

constexpr const char* operation = "bias_gradient";

// q, k, v, out, out_grad: [B, H, T, D]; lse: [B, H, T].
struct Inputs {
  OnDevice q, k, v, out, lse, out_grad;
  TokensFirst q_view, k_view, v_view, out_view, out_grad_view;

  Inputs(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle lse,
         nb::handle out_grad)
      : q(operation, "q", q, Access::read),
        k(operation, "k", k, Access::read),
        v(operation, "v", v, Access::read),
        out(operation, "out", out, Access::read),
        lse(operation, "lse", lse, Access::read),
        out_grad(operation, "out_grad", out_grad, Access::read),
        q_view(this->q.tensor(), true),
        k_view(this->k.tensor(), true),
        v_view(this->v.tensor(), true),
        out_view(this->out.tensor(), true),
        out_grad_view(this->out_grad.tensor(), true) {}
  cuda::BiasGradientInput input() const {
    return {.q = q_view.tensor,
            .k = k_view.tensor,
            .v = v_view.tensor,
            .out = out_view.tensor,
            .lse = lse.tensor(),
            .out_grad = out_grad_view.tensor};
  }
};

// The arrays of a form, float and contiguous on the device.
struct Form {
  std::vector<std::unique_ptr<OnDevice>> arrays;
  cuda::BiasView view;

  Form(const std::string& kind, const nb::list& numbers,
       const std::vector<std::int64_t>& integers, const std::vector<double>& floats) {
    for (nb::handle one : numbers)
      arrays.push_back(std::make_unique<OnDevice>(operation, "numbers", one, Access::read));
    const auto number = [&](std::size_t i) {
      const Tensor& tensor = arrays.at(i)->tensor();
      if (tensor.dtype != data_type_of<float>)
        refuse(operation, "the numbers of a bias must have elements of f32",
               gnomon::name(tensor.dtype));
      return static_cast<const float*>(tensor.start());
    };
    const auto extent = [&](std::size_t i, std::int32_t axis) {
      return static_cast<std::int32_t>(arrays.at(i)->tensor().extent(axis));
    };
    const auto integer = [&](std::size_t i) {
      return static_cast<std::int32_t>(integers.at(i));
    };
    if (kind == "slope")
      view = cuda::SlopeView{number(0), extent(0, 0)};
    else if (kind == "strip")
      view = cuda::StripView{number(0), integers.at(0), extent(0, 1), extent(0, 0)};
    else if (kind == "grid")
      view = cuda::GridView{number(0), integer(0), integer(1), integer(2), extent(0, 0)};
    else if (kind == "piecewise_log")
      view = cuda::PiecewiseLogView{number(0),
                                    number(1),
                                    number(2),
                                    extent(0, 0),
                                    static_cast<float>(floats.at(0)),
                                    static_cast<float>(floats.at(1)),
                                    static_cast<float>(floats.at(2)),
                                    extent(1, 0)};
    else
      refuse(operation, "kind must be slope, strip, grid or piecewise_log", kind);
  }
};

cuda::BiasGradientOptions options_of(const std::string& visibility, std::int64_t offset,
                                     std::optional<std::int64_t> left,
                                     std::optional<std::int64_t> right, double softmax_scale,
                                     std::optional<double> cap) {
  if (visibility != "causal" && visibility != "bidirectional")
    refuse(operation, "visibility must be causal or bidirectional", visibility);
  return {.mask = {.visibility =
                       visibility == "causal" ? Visibility::causal : Visibility::bidirectional,
                   .offset = offset,
                   .left = left,
                   .right = right},
          .softmax_scale = softmax_scale,
          .cap = cap};
}

std::size_t workspace(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle lse,
                      nb::handle out_grad, const std::string& kind, const nb::list& numbers,
                      const std::vector<std::int64_t>& integers,
                      const std::vector<double>& floats, const std::string& visibility,
                      std::int64_t offset, std::optional<std::int64_t> left,
                      std::optional<std::int64_t> right, double softmax_scale,
                      std::optional<double> cap) {
  const Inputs inputs(q, k, v, out, lse, out_grad);
  const Form form(kind, numbers, integers, floats);
  return cuda::bias_gradient_workspace(
      inputs.input(), form.view,
      options_of(visibility, offset, left, right, softmax_scale, cap));
}

void gradient(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle lse,
              nb::handle out_grad, const std::string& kind, const nb::list& numbers,
              const std::vector<std::int64_t>& integers, const std::vector<double>& floats,
              const std::string& visibility, std::int64_t offset,
              std::optional<std::int64_t> left, std::optional<std::int64_t> right,
              double softmax_scale, std::optional<double> cap, nb::handle values_grad,
              nb::handle space, std::uintptr_t stream) {
  const Inputs inputs(q, k, v, out, lse, out_grad);
  const Form form(kind, numbers, integers, floats);
  const OnDevice sums(operation, "values_grad", values_grad, Access::write),
      memory(operation, "workspace", space, Access::write);
  const auto options = options_of(visibility, offset, left, right, softmax_scale, cap);
  const ReleasedGil released;
  cuda::bias_gradient(inputs.input(), form.view, options, sums.tensor(), memory.tensor(),
                      stream_of(stream));
}

}  // namespace

void bind_bias_gradient(nb::module_& module) {
  using namespace nb::literals;
  module.def("bias_gradient_workspace", &workspace, "q"_a, "k"_a, "v"_a, "out"_a, "lse"_a,
             "out_grad"_a, "kind"_a, "numbers"_a, "integers"_a, "floats"_a, "visibility"_a,
             "offset"_a, "left"_a.none(), "right"_a.none(), "softmax_scale"_a, "cap"_a.none(),
             "Returns the bytes of the workspace of bias_gradient.");
  module.def("bias_gradient", &gradient, "q"_a, "k"_a, "v"_a, "out"_a, "lse"_a, "out_grad"_a,
             "kind"_a, "numbers"_a, "integers"_a, "floats"_a, "visibility"_a, "offset"_a,
             "left"_a.none(), "right"_a.none(), "softmax_scale"_a, "cap"_a.none(),
             "values_grad"_a, "workspace"_a, "stream"_a,
             "Writes the gradient of the numbers of a bias, [H, gradient_size].");
}

}  // namespace gnomon::python
