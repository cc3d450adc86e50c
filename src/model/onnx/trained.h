// The trained parameters of a layer, which are inputs of the graph. A plan contains the values
// of parameters at other places than the matrices do. They are found by lowering the layer
// twice: with parameters that contain their own indices, and with others that check them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/layer.h"
#include "src/model/onnx/graph.h"

namespace gnomon::model::internal {

class TrainedValues {
 public:
  using Lower = std::function<LayerPlan(std::span<const View<const float, 2>>)>;

  // Lowers the layer with both sets of values. Throws as `lower`.
  TrainedValues(OnnxGraph& graph, const LayerGroup& group, const Lower& lower);

  const LayerPlan& plan() const { return indices_; }
  const LayerPlan& checked() const { return checked_; }

  // Returns the value of this shape whose elements are those of a member of the plan: `index`
  // in plan(), `check` in checked(). It is an initialiser if no parameter changes it. Throws
  // std::invalid_argument if an element is another function of the parameters than one of them,
  // or all are parameters times `factor`.
  Value value(const std::vector<std::int64_t>& shape, std::span<const double> index,
              std::span<const double> check, const std::string& what, double factor = 1);
  Value value(const std::vector<std::int64_t>& shape, std::span<const float> index,
              std::span<const float> check, const std::string& what);
  // The rows of a table [T, C] as a linear function of the rows of its parameters, and the sum
  // of all parts in the graph: [T, C].
  Value table(const Lower& lower);

 private:
  Value input(std::size_t i);
  Value gathered(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& rows);
  Value all();  // elements of all parameters with indices, [n]

  OnnxGraph& graph_;
  std::vector<Parameter> parameters_;
  std::vector<bool> in_table_;  // parameters of a table that is added to the embeddings
  std::vector<std::vector<float>> values_;
  std::vector<Value> inputs_;
  std::vector<float> check_;  // by index
  Value all_ = {};
  LayerPlan indices_, checked_;
};

}  // namespace gnomon::model::internal
