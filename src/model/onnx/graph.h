// Builder of an ONNX graph: nodes, initialisers, inputs and outputs. Names of values are made
// here, so that each is unique. Compilers evaluate the arguments of a function in different
// orders: at most one of them may add to the graph. Elements of a braced list are in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gnomon/model/onnx.h"
#include "src/model/onnx/protobuf.h"

namespace gnomon::model::internal {

// The name of a value of the graph.
using Value = std::string;

enum class OnnxType { float32 = 1, int64 = 7 };  // TensorProto.DataType

using OnnxAttribute =
    std::pair<std::string, std::variant<std::int64_t, float, std::vector<std::int64_t>>>;

class OnnxGraph {
 public:
  // Extents of a declared shape: numbers as text, or names.
  Value input(const std::string& name, OnnxType type, std::vector<std::string> shape);
  void output(const std::string& name, const Value& value, std::vector<std::string> shape);

  Value constant(const std::vector<std::int64_t>& shape, const std::vector<float>& values);
  Value constant(const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& values);
  Value number(double value) { return constant({}, std::vector<float>{float(value)}); }
  Value integer(std::int64_t value) { return constant({}, std::vector<std::int64_t>{value}); }
  Value list(const std::vector<std::int64_t>& values) {
    return constant({static_cast<std::int64_t>(values.size())}, values);
  }

  // Adds a node and returns its outputs. An empty input is an optional input that is not given.
  std::vector<Value> nodes(const std::string& type, const std::vector<Value>& inputs,
                           std::size_t outputs, const std::vector<OnnxAttribute>& = {},
                           std::string_view domain = {});
  Value node(const std::string& type, const std::vector<Value>& inputs,
             const std::vector<OnnxAttribute>& attributes = {}, std::string_view domain = {}) {
    return nodes(type, inputs, 1, attributes, domain).front();
  }

  Value reshape(const Value& value, const std::vector<std::int64_t>& shape) {
    return node("Reshape", {value, list(shape)});
  }
  Value unsqueeze(const Value& value, const std::vector<std::int64_t>& axes) {
    return node("Unsqueeze", {value, list(axes)});
  }
  Value gather(const Value& value, const Value& rows, std::int64_t axis = 0) {
    return node("Gather", {value, rows}, {{"axis", axis}});
  }
  Value transpose(const Value& value, std::vector<std::int64_t> axes) {
    return node("Transpose", {value}, {{"perm", std::move(axes)}});
  }
  Value extent(const Value& value, std::int64_t axis) {  // [1]
    return node("Shape", {value}, {{"start", axis}, {"end", axis + 1}});
  }
  // 0, 1, ..., extent - 1 of an axis: int64 [extent].
  Value range(const Value& value, std::int64_t axis);
  Value to_float(const Value& value);
  // Heads apart: [B, T, H D] to [B, H, T, D], and back.
  Value split_heads(const Value& value, std::int64_t heads, std::int64_t head_dim);
  Value join_heads(const Value& value, std::int64_t heads, std::int64_t head_dim);

  // Throws std::invalid_argument if the model has 2 GiB or more.
  OnnxModel finish(const std::string& name, const std::string& description);

 private:
  template <typename T>
  Value tensor(OnnxType type, const std::vector<std::int64_t>& shape,
               const std::vector<T>& values);
  Value unique(std::string_view name);

  Protobuf graph_;
  OnnxModel model_;
  std::vector<std::string> domains_ = {};
  std::int64_t values_ = 0;
};

}  // namespace gnomon::model::internal
