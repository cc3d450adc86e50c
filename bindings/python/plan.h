// A lowered encoding with what its gradient requires.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
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
  // Empty for plans of a released model's layer.
  model::Mixture mixture = {};
  model::Window window = {};
  std::vector<Matrix> parameters = {};
  // Whether attention receives q, k and v after `prepare`, as in a layer with a KV cache. If
  // not, attention prepares copies of them.
  bool prepared = false;
  // Continuous positions [T, A] and [S, A] of rotary encodings and sinusoids; or empty.
  std::vector<double> query_coordinates = {}, key_coordinates = {};
  std::int64_t axes = 0;
  // Of a plan of a model's layer: the function and the arguments from which pickle makes it
  // again. Set only while the GIL is held.
  nanobind::object origin = {};

  std::vector<View<const float, 2>> values() const {
    std::vector<View<const float, 2>> all;
    for (const Matrix& one : parameters) all.push_back(one.view());
    return all;
  }
};

// Returns the plan as Python prints it.
std::string summary(const Plan& plan);

// The arguments of gnomon.lower beside the encoding and its tokens.
struct LowerOptions {
  Visibility visibility = {};
  std::optional<std::int64_t> left = {}, right = {};
  std::optional<double> softmax_scale = {}, cap = {};
  std::vector<double> sinks = {};
  std::int64_t length = 0;
  bool rounds_weights = true;
};
// Replaces what depends on positions by that of continuous ones, [T, A] and [S, A]. Throws
// std::invalid_argument if an encoding is neither rotary nor sinusoidal.
void lower_continuous(Plan& plan, View<const double, 2> queries, View<const double, 2> keys);
Plan lower_plan(model::Mixture mixture, model::Window window, std::vector<Matrix> parameters,
                const LowerOptions& options);

}  // namespace gnomon::python
