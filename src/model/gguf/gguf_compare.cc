// Comparison of the description of a planned GGUF file with that of the model.
#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "gnomon/model/gguf_model.h"
#include "src/model/gguf/gguf_plan.h"

namespace gnomon::model::internal {
namespace {

// Files store float32.
constexpr double tolerance = 1e-6;

bool near(double a, double b) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), 1.0);
}
bool near_relative(double a, double b) { return std::abs(a - b) <= tolerance * std::abs(a); }

class Comparison {
 public:
  Comparison(GgufPlan& plan, const ModelDescription& file) : plan_(plan), file_(file) {}

  void compare() {
    for (const LayerGroup& group : plan_.model.groups)
      for (const std::int64_t layer : group.layers) {
        layer_ = layer;
        compare(group, group_of(file_, layer));
      }
    for (const auto& [what, layers] : windows_)
      plan_.note("llama.cpp has no window in " + std::to_string(layers) + " of " +
                 std::to_string(plan_.model.layers) + " layers of " +
                 std::string(plan_.architecture()) + ": contexts longer than " +
                 std::to_string(what + 1) + " tokens differ from the model");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    refuse("gguf",
           what + " of the model must be those that llama.cpp computes for " +
               std::string(plan_.architecture()),
           "layer " + std::to_string(layer_) + " of " + plan_.model.model_type);
  }
  void require(bool equal, const char* what) const {
    if (!equal) fail(what);
  }

  void compare(const LayerGroup& model, const LayerGroup& file) {
    require(model.heads == file.heads && model.key_heads == file.key_heads &&
                model.head_dim == file.head_dim && model.value_dim == file.value_dim,
            "heads");
    compare_encodings(model, file);
    const LayerAttention &a = model.attention, &b = file.attention;
    require(a.visibility == b.visibility && a.chunk == b.chunk && a.right == b.right, "masks");
    if (a.left != b.left) {
      require(a.left && !b.left, "windows");
      ++windows_[*a.left];
    }
    require(a.softcap.has_value() == b.softcap.has_value() &&
                near_relative(a.softcap.value_or(1), b.softcap.value_or(1)),
            "caps of the scores");
    require(a.sinks == b.sinks, "sinks");
    require(a.value_scale == b.value_scale && a.query_scale == b.query_scale, "scales");
    compare_norms(a.query_norm, b.query_norm);
    compare_norms(a.key_norm, b.key_norm);
  }

  void compare_norms(std::optional<LayerNorm> model, const std::optional<LayerNorm>& file) {
    require(model.has_value() == file.has_value(), "norms of q and k");
    if (!model) return;
    const HeadNorm &a = model->norm, &b = file->norm;
    require(model->order == file->order && a.kind == b.kind && a.scope == b.scope &&
                near_relative(a.epsilon, b.epsilon) &&
                a.weight_offset == b.weight_offset + plan_.family.gguf_weights.norm_offset,
            "norms of q and k");
  }

  void compare_encodings(const LayerGroup& model, const LayerGroup& file) {
    for (const std::int64_t length : {std::int64_t{1}, plan_.model.length}) {
      double a = model.attention.softmax_scale, b = file.attention.softmax_scale;
      for (const Encoding& one : model.position) a *= softmax_factor(one, length);
      for (const Encoding& one : file.position) b *= softmax_factor(one, length);
      require(near_relative(a, b), "scales of the softmax");
    }
    const auto is_none = [](const Encoding& one) {
      return std::holds_alternative<NoPosition>(one);
    };
    Mixture left = model.position, right = file.position;
    std::erase_if(left, is_none), std::erase_if(right, is_none);
    require(left.size() == right.size(), "position encodings");
    for (std::size_t i = 0; i < left.size(); ++i) compare(left[i], right[i]);
  }

  void compare(const Encoding& model, const Encoding& file) {
    for (const std::int64_t length : {std::int64_t{1}, plan_.model.length}) {
      const auto a = rotary_frequencies(model, length), b = rotary_frequencies(file, length);
      require(a.has_value() == b.has_value(), "position encodings");
      if (!a) return require(kind(model) == kind(file), "position encodings");
      require(a->rotary_dim() == b->rotary_dim() && a->head_offset == b->head_offset,
              "rotated elements");
      require(near(a->table_scale, b->table_scale), "scales of cos and sin");
      if (std::equal(a->inv_freq.begin(), a->inv_freq.end(), b->inv_freq.begin(),
                     near_relative))
        continue;
      const auto* const scaled = std::get_if<ScaledRotary>(&model);
      const auto* const yarn = scaled ? std::get_if<YarnScaling>(&scaled->scaling) : nullptr;
      require(yarn && yarn->ramp == YarnRamp::fractional, "frequencies");
      plan_.note("llama.cpp rounds the ends of YaRN's ramp to whole pairs, the model does not");
    }
  }

  GgufPlan& plan_;
  const ModelDescription& file_;
  std::int64_t layer_ = 0;
  std::map<std::int64_t, std::int64_t> windows_;  // number of layers by `left`
};

}  // namespace

void compare_descriptions(GgufPlan& plan) {
  const GgufConversion& out = plan.out;
  std::string bytes = header_bytes(out.header);
  // Tensors of factors come first.
  for (std::size_t i = 0; i < out.data.size() && out.data[i].parts.empty(); ++i) {
    const std::vector<float>& values = out.data[i].values;
    bytes.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());
    bytes.append(gguf_padding(4 * values.size()), '\0');
  }
  const Gguf file(std::as_bytes(std::span(bytes)), "the planned file");
  Comparison(plan, read_gguf(file)).compare();
}

}  // namespace gnomon::model::internal
