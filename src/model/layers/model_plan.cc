// Plans of all layers of a model, and their checkpoint tensors.
#include <algorithm>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/model/layer.h"
#include "src/model/encodings/lowering.h"
#include "src/model/layers/layer_tokens.h"

namespace gnomon::model {
namespace {

void replace(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

// Returns the name of a tensor for a layer, with all numbers inserted.
std::string name_of_layer(std::string name, const LayerGroup& group, std::int64_t layer) {
  std::int64_t stage = 0, block = layer;
  for (const std::int64_t layers : group.stages) {
    if (block < layers) break;
    block -= layers;
    ++stage;
  }
  replace(name, "{stage}", std::to_string(stage));
  replace(name, "{block}", std::to_string(block));
  replace(name, "{}", std::to_string(layer));
  return name;
}

std::vector<std::string> alternatives(const std::string& names) {
  std::vector<std::string> all(1);
  for (const char c : names)
    if (c == '|')
      all.emplace_back();
    else
      all.back() += c;
  return all;
}

bool ends_with_part(std::string_view name, std::string_view end) {
  return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

// Trained matrix of a layer.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values = {};
  View<const float, 2> view() const {
    return values.empty() ? View<const float, 2>()
                          : View<const float, 2>(values.data(), {rows, columns});
  }
};

Matrix transposed(const Matrix& matrix) {
  Matrix out{matrix.columns, matrix.rows, {}};
  out.values.reserve(matrix.values.size());
  for (std::int64_t c = 0; c < matrix.columns; ++c)
    for (std::int64_t r = 0; r < matrix.rows; ++r)
      out.values.push_back(matrix.values[static_cast<std::size_t>(r * matrix.columns + c)]);
  return out;
}

// Converts a checkpoint tensor to the matrix of a parameter, [rows, columns].
Matrix take(CheckpointTensor tensor, TensorLayout layout, const Parameter& wanted,
            const std::string& name) {
  auto& values = tensor.values;
  if (layout == TensorLayout::first_half || layout == TensorLayout::second_half) {
    const auto half = static_cast<std::int64_t>(values.size() / 2);
    if (layout == TensorLayout::first_half)
      values.erase(values.begin() + half, values.end());
    else
      values.erase(values.begin(), values.begin() + half);
  }
  Matrix matrix{wanted.rows, wanted.columns, std::move(values)};
  if (std::ssize(matrix.values) != wanted.rows * wanted.columns) {
    std::string shape;
    for (const std::int64_t extent : tensor.shape)
      shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
    refuse("model",
           name + " must be " + wanted.name + ", " + std::to_string(wanted.rows) + " x " +
               std::to_string(wanted.columns),
           shape);
  }
  if (layout == TensorLayout::transposed || layout == TensorLayout::flattened) {
    std::swap(matrix.rows, matrix.columns);
    matrix = transposed(matrix);
  }
  return matrix;
}

bool is_of_norm(const std::string& parameter) {
  return parameter.starts_with("query_norm.") || parameter.starts_with("key_norm.");
}

// Reads one parameter of a layer. Adds the names of its tensors to `names`: layers with equal
// names share their plan.
Matrix read_parameter(const LayerGroup& group, const Parameter& wanted,
                      const Checkpoint& checkpoint, std::int64_t layer, std::string_view prefix,
                      std::string& names) {
  for (const ParameterTensor& tensor : group.tensors) {
    if (tensor.parameter != wanted.name) continue;
    for (const std::string& one : alternatives(tensor.name)) {
      ParameterTensor here{tensor.parameter, name_of_layer(one, group, layer), tensor.layout};
      if (!group.part.empty())  // GGUF: enc.blk.0, dec.blk.0
        here.name =
            (one.starts_with("blk.") ? group.part.substr(0, 3) : group.part) + "." + here.name;
      // StableLM has a tensor for each head.
      const bool by_head = here.name.find("{head}") != std::string::npos;
      CheckpointTensor read;
      for (std::int64_t head = 0; head < (by_head ? group.heads : 1); ++head) {
        ParameterTensor of_head = here;
        replace(of_head.name, "{head}", std::to_string(head));
        const std::string name = find_tensor(checkpoint, of_head, layer, prefix);
        if (name.empty()) break;
        CheckpointTensor more = checkpoint.read(name);
        read.shape = std::move(more.shape);
        read.values.insert(read.values.end(), more.values.begin(), more.values.end());
        names += name + " ";
      }
      if (read.values.empty()) continue;
      Parameter shape = wanted;
      // A norm has one row for all heads, or one for each head.
      if (is_of_norm(wanted.name) && wanted.columns > 0)
        shape.rows = std::ssize(read.values) / wanted.columns;
      return take(std::move(read), tensor.layout, shape, here.name);
    }
  }
  // Most norms have no bias. A missing weight is an error.
  if (is_of_norm(wanted.name) && wanted.name.ends_with(".bias")) return {};
  refuse("model", "the checkpoint must have a tensor for " + wanted.name,
         "none for layer " + std::to_string(layer));
}

Distances widened(Distances needed, std::optional<Distances> kept) {
  // Doubles the range, so that decoding lowers a bias only a few times.
  if (!kept) return needed;
  const std::int64_t first = std::min(needed.min_distance, 2 * kept->min_distance);
  const std::int64_t last =
      std::max(needed.min_distance + needed.count, kept->min_distance + kept->count);
  return {first, last - first};
}

bool reaches(const std::optional<Distances>& kept, Distances needed) {
  return kept && kept->min_distance <= needed.min_distance &&
         kept->min_distance + kept->count >= needed.min_distance + needed.count;
}

}  // namespace

std::string find_tensor(const Checkpoint& checkpoint, const ParameterTensor& tensor,
                        std::int64_t layer, std::string_view prefix) {
  for (std::string name : alternatives(tensor.name)) {
    replace(name, "{}", std::to_string(layer));
    std::string found;
    for (const std::string& one : checkpoint.names) {
      if (!one.starts_with(prefix) || !ends_with_part(one, name)) continue;
      if (one == name) return one;
      if (!found.empty())
        refuse("model", "only one tensor must match " + name + " (give a prefix)",
               std::string_view(found + " and " + one));
      found = one;
    }
    if (!found.empty()) return found;
  }
  return {};
}

// State shared by equal layers.
struct ModelPlan::Kept {
  const LayerGroup* group = nullptr;
  std::vector<Matrix> matrices = {};
  LayerPlan lowered = {};
  std::optional<Distances> reach = {};  // range of the bias and the relative vectors
  std::int64_t length = -1;             // length for which the frequencies are resolved
  bool current = false;

  std::vector<View<const float, 2>> values() const {
    std::vector<View<const float, 2>> all;
    for (const Matrix& matrix : matrices) all.push_back(matrix.view());
    return all;
  }
};

ModelPlan::ModelPlan(const ModelDescription& model, const Checkpoint& checkpoint,
                     std::string part, std::string_view prefix)
    : model_(model), part_(std::move(part)) {
  std::map<std::pair<const LayerGroup*, std::string>, std::shared_ptr<Kept>> kept;
  for (const LayerGroup& group : model.groups) {
    if (group.part != part_) continue;
    const std::vector<Parameter> wanted = layer_parameters(group);
    for (const std::int64_t layer : group.layers) {
      std::string names;
      std::vector<Matrix> matrices;
      if (group.unsupported.empty())
        for (const Parameter& one : wanted)
          matrices.push_back(read_parameter(group, one, checkpoint, layer, prefix, names));
      auto& shared = kept[{&group, names}];
      if (!shared) {
        shared = std::make_shared<Kept>();
        shared->group = &group;
        shared->matrices = std::move(matrices);
      }
      if (std::ssize(layers_) <= layer) layers_.resize(static_cast<std::size_t>(layer) + 1);
      layers_[static_cast<std::size_t>(layer)] = shared;
    }
  }
  if (layers_.empty()) group_of(model, 0, part_);  // throws
}

void ModelPlan::set_tokens(const LayerTokens& tokens) {
  const internal::TokensOfLayer resolved(model_, tokens);
  for (const auto& shared : layers_)
    if (shared) shared->current = false;
  const Kept* rotating = nullptr;
  for (const auto& shared : layers_) {
    if (!shared || shared->current || !shared->group->unsupported.empty()) continue;
    Kept& kept = *shared;
    kept.current = true;
    internal::refuse_selection(model_, *kept.group, resolved);
    const Mixture& mixture = kept.group->position;
    const bool by_distance = includes(enters(mixture), Place::scores) ||
                             includes(enters(mixture), Place::keys_and_values);
    std::optional<Distances> reach;
    if (by_distance && !tokens.image) {
      const Distances needed = resolved.distances();
      reach = reaches(kept.reach, needed) ? *kept.reach : widened(needed, kept.reach);
    }
    const auto values = kept.values();
    const bool reuse = reach && kept.reach == reach && enters(mixture) != Place::nowhere &&
                       !includes(enters(mixture), Place::queries_and_keys) &&
                       !includes(enters(mixture), Place::embeddings) && !kept.lowered.dense;
    if (reuse) {
      internal::put_tokens(*kept.group, resolved, kept.lowered);
      continue;
    }
    // Layers that differ only in their masks share their rotation tables.
    if (rotating && rotating->group->position == mixture && kept.matrices.empty() &&
        rotating->matrices.empty()) {
      kept.lowered = rotating->lowered;
      internal::put_group(*kept.group, resolved, values, kept.lowered);
      continue;
    }
    kept.lowered =
        internal::lower_group(model_, *kept.group, resolved, values, reach,
                              kept.length == resolved.length() ? &kept.lowered : nullptr);
    kept.length = resolved.length();
    kept.reach = reach;
    if (internal::query_table(kept.lowered) && kept.matrices.empty()) rotating = &kept;
  }
}

void ModelPlan::compute_terms(std::int64_t layer, View<const float, 3> x,
                              const TokenTermOutputs& out, const Positions* tokens) const {
  const LayerPlan& plan = this->layer(layer);
  const Kept& kept = *layers_[static_cast<std::size_t>(layer)];
  compute_layer_terms(*kept.group, plan, kept.values(), x, out, tokens);
}

const LayerPlan& ModelPlan::layer(std::int64_t layer) const {
  const LayerGroup& group = group_of(model_, layer, part_);
  internal::refuse_unsupported(model_, group);
  const Kept& kept = *layers_[static_cast<std::size_t>(layer)];
  if (!kept.current) refuse("model", "set_tokens must be called before layer", layer);
  return kept.lowered;
}

}  // namespace gnomon::model
