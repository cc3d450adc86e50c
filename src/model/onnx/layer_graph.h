// The graph of one layer, in the order of its steps. Each step is a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/onnx.h"
#include "src/model/onnx/graph.h"
#include "src/model/onnx/trained.h"

namespace gnomon::model::internal {

// The scale of q . k, with all factors.
inline double scale_of(const LayerPlan& plan, std::int64_t head_dim) {
  return plan.softmax.scale.value_or(plan.softmax.factor * softmax_scale(head_dim));
}

class LayerGraph {
 public:
  // Throws std::invalid_argument as lower_layer, or if a part has no operators.
  LayerGraph(const ModelDescription& model, const LayerGroup& group, std::int64_t layer,
             std::string_view part, const OnnxOptions& options);
  OnnxModel build();

 private:
  // Queries or keys: [B, T, heads D].
  struct Heads {
    Value value;
    std::int64_t heads = 0, head_dim = 0;
    std::string name;
  };
  struct Cache {  // cos and sin, [rows, R/2]
    std::vector<float> cos, sin;
    Value cos_value, sin_value;
  };

  LayerPlan lowered(std::span<const View<const float, 2>> values) const;
  void check_supported() const;
  const LayerPlan& plan() const { return trained_.plan(); }
  bool is_image() const { return image_.has_value(); }
  bool is_microsoft() const { return options_.operators == OnnxOperators::microsoft; }

  // positions.cc: int64 positions of an axis, [B, T], or [1, T] for an image; row numbers
  // [1, T]; distances position(key) - position(query) and rows, [B or 1, T, T].
  Value positions(std::int64_t axis = 0);
  Value row_numbers();
  Value differences(const Value& of);
  Value distances();
  Value position_ids();  // [B, T]

  // rotation.cc
  void rotate(Heads& x, const std::vector<HeadRotation>& rotations);
  void rotate(Heads& x, const RotaryTable& table);
  void rotate(Heads& x, const Vjepa2Table& table);
  std::pair<Value, Value> axis_tables(const RotaryTable& table);
  std::pair<Value, Value> cache(const RotaryTable& table);

  // prepare.cc: norms, scales, and the table that is added to `hidden`.
  void put_hidden();
  void normalise(Heads& x, const std::optional<WeightedNorm>& index,
                 const std::optional<WeightedNorm>& check);
  void scale_queries(Heads& q);

  // scores.cc: biases, relative vectors and masks: [B or 1, H or 1, T, T], empty if none.
  Value bias();
  Value form_bias();
  Value strip(const std::vector<double>& index, const std::vector<double>& check,
              std::int64_t heads, std::int64_t min_distance);
  Value relative_terms(const Heads& q, const Heads& k);
  Value products(const Heads& x, const RelativeVectors& index, const RelativeVectors& check,
                 const Value& rows);
  Value distance_rows(const RelativeVectors& table);
  // Where the query does not see the key, -infinity; else `bias` or 0. Whether causal
  // visibility is left to an operator.
  enum class Causality { in_mask = 1, by_operator };
  Value masked(const Value& bias, Causality causality);

  // attention.cc: [B, T, H Dv]
  Value attention(const Heads& q, const Heads& k, const Heads& v);
  Value plain_attention(const Heads& q, const Heads& k, const Heads& v, const Value& bias);
  Value microsoft_attention(const Heads& q, const Heads& k, const Heads& v, const Value& bias);

  const ModelDescription& model_;
  const LayerGroup& group_;
  std::int64_t layer_;
  std::string part_;
  OnnxOptions options_;
  std::optional<ImagePatches> image_;
  std::int64_t axes_ = 1;  // A
  std::int64_t rows_ = 0;  // of tables by position; 0 for an image
  std::string extent_;     // T of declared shapes: "tokens", or the tokens of an image
  Positions tokens_;       // 0, 1, ..., rows - 1
  OnnxGraph graph_;
  TrainedValues trained_;
  std::vector<Cache> caches_ = {};
  Value positions_ = {}, row_numbers_ = {}, distances_ = {}, ids_ = {}, first_ = {};
};

}  // namespace gnomon::model::internal
