// Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
#include "src/model/onnx/graph.h"

#include <algorithm>
#include <cctype>

#include "gnomon/error.h"
#include "gnomon/version.h"

namespace gnomon::model::internal {
namespace {

constexpr std::int64_t ir_version = 11;  // the first with opset 23
constexpr std::int64_t opset = 23;
constexpr std::uint64_t limit = (std::uint64_t{1} << 31) - 1;  // of a protocol buffer, bytes

Protobuf value_info(const OnnxValue& value, OnnxType type) {
  Protobuf shape;
  for (const std::string& extent : value.shape) {
    Protobuf dimension;
    if (!extent.empty() && std::isdigit(static_cast<unsigned char>(extent.front())))
      dimension.integer(1, std::stoll(extent));  // dim_value
    else
      dimension.text(2, extent);  // dim_param
    shape.message(1, dimension);
  }
  Protobuf tensor, of_type, info;
  tensor.integer(1, static_cast<std::int64_t>(type));  // TypeProto.Tensor.elem_type
  tensor.message(2, shape);
  of_type.message(1, tensor);  // TypeProto.tensor_type
  info.text(1, value.name);
  info.message(2, of_type);
  return info;
}

Protobuf attribute(const OnnxAttribute& one) {
  enum Type { number = 1, integer = 2, integers = 7 };  // AttributeProto.AttributeType
  Protobuf message;
  message.text(1, one.first);
  if (const auto* value = std::get_if<std::int64_t>(&one.second)) {
    message.integer(3, *value);
    message.integer(20, integer);
  } else if (const auto* real = std::get_if<float>(&one.second)) {
    message.number(2, *real);
    message.integer(20, number);
  } else {
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(one.second))
      message.integer(8, each);
    message.integer(20, integers);
  }
  return message;
}

}  // namespace

Value OnnxGraph::unique(std::string_view name) {
  return std::string(name) + "_" + std::to_string(values_++);
}

Value OnnxGraph::input(const std::string& name, OnnxType type, std::vector<std::string> shape) {
  const OnnxValue value{name, type == OnnxType::int64 ? "int64" : "float", std::move(shape)};
  graph_.message(11, value_info(value, type));
  model_.inputs.push_back(value);
  return name;
}

void OnnxGraph::output(const std::string& name, const Value& value,
                       std::vector<std::string> shape) {
  Protobuf node;
  node.text(1, value);
  node.text(2, name);
  node.text(3, name);
  node.text(4, "Identity");
  graph_.message(1, node);
  model_.outputs.push_back({name, "float", std::move(shape)});
  graph_.message(12, value_info(model_.outputs.back(), OnnxType::float32));
}

template <typename T>
Value OnnxGraph::tensor(OnnxType type, const std::vector<std::int64_t>& shape,
                        const std::vector<T>& values) {
  const Value name = unique("constant");
  Protobuf message;
  for (const std::int64_t extent : shape) message.integer(1, extent);
  message.integer(2, static_cast<std::int64_t>(type));
  message.text(8, name);
  message.raw(9, values);
  graph_.message(5, message);
  return name;
}

Value OnnxGraph::constant(const std::vector<std::int64_t>& shape,
                          const std::vector<float>& values) {
  return tensor(OnnxType::float32, shape, values);
}

Value OnnxGraph::constant(const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& values) {
  return tensor(OnnxType::int64, shape, values);
}

std::vector<Value> OnnxGraph::nodes(const std::string& type, const std::vector<Value>& inputs,
                                    std::size_t outputs,
                                    const std::vector<OnnxAttribute>& attributes,
                                    std::string_view domain) {
  Protobuf node;
  std::vector<Value> results;
  for (const Value& one : inputs) node.text(1, one);
  for (std::size_t i = 0; i < outputs; ++i) {
    results.push_back(unique(type));
    node.text(2, results.back());
  }
  node.text(3, results.front());
  node.text(4, type);
  for (const OnnxAttribute& one : attributes) node.message(5, attribute(one));
  if (!domain.empty()) {
    node.text(7, domain);
    if (std::find(domains_.begin(), domains_.end(), domain) == domains_.end())
      domains_.emplace_back(domain);
  }
  graph_.message(1, node);
  ++model_.operators[domain.empty() ? type : std::string(domain) + "." + type];
  return results;
}

Value OnnxGraph::range(const Value& value, std::int64_t axis) {
  const Value count = node("Squeeze", {extent(value, axis)});
  return node("Range", {integer(0), count, integer(1)});
}

Value OnnxGraph::to_float(const Value& value) {
  return node("Cast", {value}, {{"to", static_cast<std::int64_t>(OnnxType::float32)}});
}

Value OnnxGraph::split_heads(const Value& value, std::int64_t heads, std::int64_t head_dim) {
  const Value rows = reshape(value, {0, 0, heads, head_dim});
  return transpose(rows, {0, 2, 1, 3});
}

Value OnnxGraph::join_heads(const Value& value, std::int64_t heads, std::int64_t head_dim) {
  return reshape(transpose(value, {0, 2, 1, 3}), {0, 0, heads * head_dim});
}

OnnxModel OnnxGraph::finish(const std::string& name, const std::string& description) {
  Protobuf model, version;
  graph_.text(2, name);
  model.integer(1, ir_version);
  model.text(2, "gnomon");
  model.text(3, GNOMON_VERSION);
  model.text(6, description);
  version.text(1, "");
  version.integer(2, opset);
  model.message(8, version);
  for (const std::string& domain : domains_) {
    Protobuf one;
    one.text(1, domain);
    one.integer(2, 1);
    model.message(8, one);
  }
  if (graph_.bytes().size() > limit - 4096)
    refuse("onnx", "the model must have less than 2 GiB; fewer rows make it smaller",
           static_cast<std::int64_t>(graph_.bytes().size()));
  model.message(7, graph_);
  model_.bytes = model.take();
  return std::move(model_);
}

}  // namespace gnomon::model::internal
