// A lowered encoding with what its gradient requires.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/encoding.h"

namespace gnomon::python {

// A parameter, float32 [rows, columns].
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
  View<const float, 2> view() const noexcept { return {values.data(), {rows, columns}}; }
};

struct Plan {
  LayerPlan lowered;
  // Empty for plans of a released model's layer, which have no gradients of parameters.
  model::Mixture mixture = {};
  model::Window window = {};
  std::vector<Matrix> parameters = {};
  // Whether attention receives q, k and v after `prepare`, as in a layer with a KV cache. If
  // not, attention prepares copies of them.
  bool prepared = false;

  std::vector<View<const float, 2>> values() const {
    std::vector<View<const float, 2>> all;
    for (const Matrix& one : parameters) all.push_back(one.view());
    return all;
  }
};

// The arguments of gnomon.lower beside the encoding and its tokens.
struct LowerOptions {
  Visibility visibility = {};
  std::optional<std::int64_t> left = {}, right = {};
  std::optional<double> softmax_scale = {}, cap = {};
  std::vector<double> sinks = {};
  std::int64_t length = 0;
};
Plan lower_plan(model::Mixture mixture, model::Window window, std::vector<Matrix> parameters,
                const LowerOptions& options);

}  // namespace gnomon::python
