// Tensors of a GGUF file, from those of a checkpoint and the names of its family.
#include <algorithm>
#include <numeric>
#include <set>

#include "gnomon/error.h"
#include "gnomon/model/conversion.h"
#include "src/core/text.h"
#include "src/model/gguf/gguf_plan.h"

namespace gnomon::model::internal {
namespace {

using gnomon::internal::JsonType;
using gnomon::internal::shown;
using Shape = io::Array::Shape;

// Buffers of released checkpoints that are not weights.
constexpr std::string_view buffers[] = {".rotary_emb.inv_freq", ".attn.bias",
                                        ".attn.masked_bias", ".attention.bias",
                                        ".attention.masked_bias"};

[[noreturn]] void refuse_tensor(std::string_view rule, const std::string& got) {
  refuse("gguf", rule, got);
}

std::int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string with(std::string_view pattern, std::string_view placeholder, std::int64_t number) {
  std::string name(pattern);
  const std::size_t at = name.find(placeholder);
  return at == std::string::npos ? name
                                 : name.replace(at, placeholder.size(), std::to_string(number));
}

// An axis of a tensor of the checkpoint: `factor` times the extent of a letter.
struct Extent {
  char letter;
  std::int64_t factor = 1;
};

std::vector<Extent> axes_of(std::string_view shape, GgufOrder order) {
  std::vector<Extent> axes;
  for (const char letter : shape) axes.push_back({letter});
  const std::size_t last = axes.size() - 1;
  switch (order) {
    case GgufOrder::as_is:
    case GgufOrder::by_head:
      break;
    case GgufOrder::even_columns:
    case GgufOrder::odd_columns:
      axes[last - 1].factor = 2;
      [[fallthrough]];
    case GgufOrder::transposed:
      std::swap(axes[last - 1], axes[last]);
      break;
    case GgufOrder::even_elements:
    case GgufOrder::odd_elements:
      axes[last].factor = 2;
      break;
  }
  return axes;
}

Pairing pairing_of_graph(const GgufPlan& plan) {
  const Family* const row = find_architecture(plan.architecture());
  return row && row->gguf.rope_type == RopeType::adjacent ? Pairing::adjacent : Pairing::halves;
}

class Tensors {
 public:
  Tensors(GgufPlan& plan, std::string_view config, std::span<const io::TensorEntry> tensors,
          const GgufOptions& options)
      : plan_(plan), facts_(plan.family.gguf_weights), options_(options) {
    for (const io::TensorEntry& entry : tensors) {
      std::string_view name = entry.name;
      if (name.starts_with(facts_.prefix)) name.remove_prefix(facts_.prefix.size());
      if (!by_name_.emplace(name, &entry).second)
        refuse_tensor(
            "names of tensors must differ without the prefix " + std::string(facts_.prefix),
            shown(entry.name));
    }
    to_ = pairing_of_graph(plan);
    for (const LayerGroup& group : plan.model.groups)
      for (const Encoding& one : group.position)
        if (const auto rotary = rotary_frequencies(one, 1))
          permutes_ = permutes_ || rotary->pairing != to_;
    if (permutes_) weights_ = read_weights(config, {.name = options.name, .model_type = {}});
  }

  void put_all() {
    for (const auto group : facts_.tensors)
      for (const GgufTensorName& name : group) {
        const bool by_layer = name.checkpoint.find("{}") != std::string_view::npos;
        for (std::int64_t layer = 0; layer < (by_layer ? plan_.model.layers : 1); ++layer)
          put(name, layer);
      }
    check_unused();
  }

 private:
  void put(const GgufTensorName& name, std::int64_t layer) {
    const std::string checkpoint = with(name.checkpoint, "{}", layer);
    const std::string file = with(name.file, "{}", layer);
    if (file.ends_with(".weight") || file.ends_with(".bias")) {
      if (by_name_.contains(checkpoint + "_blocks")) return put_mxfp4(name, checkpoint, file);
      put_one(name, checkpoint, file, name.shape, true);
      return;
    }
    if (name.file == "output") return put_output(name, checkpoint + ".weight");
    const bool required = name.presence == GgufPresence::required;
    if (!put_one(name, checkpoint + ".weight", file + ".weight", name.shape, required) ||
        name.bias == GgufBias::none)
      return;
    put_one(name, checkpoint + ".bias", file + ".bias", name.shape.substr(0, 1),
            name.bias == GgufBias::required);
  }

  void put_output(const GgufTensorName& name, const std::string& checkpoint) {
    const auto key = plan_.config.find("tie_word_embeddings");
    const bool known = key && key->is(JsonType::boolean);
    const bool tied = known && key->boolean("tie_word_embeddings");
    const bool present = by_name_.contains(checkpoint);
    if (known && !tied && !present)
      refuse_tensor("the checkpoint must have the tensor", checkpoint);
    if (tied) used_.insert(checkpoint);
    if (present && !tied) {
      if (name.presence == GgufPresence::tied)
        refuse_tensor("tie_word_embeddings must be true for " +
                          std::string(plan_.architecture()) +
                          ", whose graph has no other output matrix",
                      checkpoint);
      put_one(name, checkpoint, "output.weight", name.shape, true);
    } else if (name.presence == GgufPresence::head) {
      put_one(name, std::string(facts_.tensors[0][0].checkpoint) + ".weight", "output.weight",
              name.shape, true);
    }
  }

  // Matrices of experts in MXFP4: [E, rows, columns / 32, 16] bytes with two elements each, and
  // a scale for each block of 32. The rows of the gate and of up alternate.
  void put_mxfp4(const GgufTensorName& name, const std::string& checkpoint,
                 const std::string& file) {
    const auto& blocks = *by_name_.find(checkpoint + "_blocks")->second;
    const auto scales = by_name_.find(checkpoint + "_scales");
    if (scales == by_name_.end())
      refuse_tensor("the checkpoint must have the tensor", checkpoint + "_scales");
    used_.insert({checkpoint + "_blocks", checkpoint + "_scales"});
    const std::int64_t step = name.order == GgufOrder::transposed ? 1 : 2;
    const std::int64_t experts = extent(name.shape[0], file);
    if (blocks.shape.size() == 4 && blocks.shape[1] >= step && blocks.shape[1] % step == 0)
      plan_.extents.try_emplace(name.shape[1], blocks.shape[1] / step);
    const std::int64_t rows = extent(name.shape[1], file),
                       columns = extent(name.shape[2], file);
    Shape wanted{experts, step * rows, columns / 32};
    if (columns % 32 != 0 || scales->second->shape != wanted || scales->second->dtype != "U8")
      refuse_tensor(checkpoint + "_scales must be U8 " + io::to_string(wanted),
                    scales->second->dtype + " " + io::to_string(scales->second->shape));
    wanted.push_back(16);
    if (blocks.shape != wanted || blocks.dtype != "U8")
      refuse_tensor(checkpoint + "_blocks must be U8 " + io::to_string(wanted),
                    blocks.dtype + " " + io::to_string(blocks.shape));
    plan_.out.header.tensors.push_back(
        {.name = file, .element = GgufElement::mxfp4, .extents = {columns, rows, experts}});
    plan_.out.data.push_back({.parts = {{.tensor = blocks.name,
                                         .scales = scales->second->name,
                                         .shape = blocks.shape,
                                         .element = io::Element::u8,
                                         .offset = name.order == GgufOrder::odd_columns ? 1 : 0,
                                         .axes = {{experts * rows, step}}}},
                              .values = {}});
  }

  bool put_one(const GgufTensorName& name, const std::string& checkpoint,
               const std::string& file, std::string_view shape, bool required) {
    const bool stacked = checkpoint.find("{e}") != std::string::npos;
    const bool present = by_name_.contains(with(checkpoint, "{e}", 0));
    if (!present && required)
      refuse_tensor("the checkpoint must have the tensor", with(checkpoint, "{e}", 0));
    // Optional tensors are in all layers or in none.
    const auto [state, first] = states_.try_emplace(
        std::string(name.checkpoint) + file.substr(file.rfind('.')), present);
    if (state->second != present)
      refuse_tensor("a tensor must be in all layers or in none", with(checkpoint, "{e}", 0));
    if (!present) return false;
    // Biases have no columns.
    const bool vector = shape.size() == 1 && name.order != GgufOrder::by_head;
    GgufTensorShape out{.name = file, .extents = {}};
    GgufData data;
    for (std::int64_t i = 0; i < (stacked ? extent(shape[0], checkpoint) : 1); ++i) {
      const auto found = by_name_.find(with(checkpoint, "{e}", i));
      if (found == by_name_.end())
        refuse_tensor("the checkpoint must have the tensor", with(checkpoint, "{e}", i));
      used_.insert(found->first);
      add_part(*found->second, stacked ? shape.substr(1) : shape,
               vector ? GgufOrder::as_is : name.order, data);
    }
    for (auto letter = shape.rbegin(); letter != shape.rend(); ++letter)
      out.extents.push_back(extent(*letter, file));
    out.element = element_of(out, data.parts.front().element);
    if (file.ends_with("norm.weight")) data.added = facts_.norm_offset;
    plan_.out.header.tensors.push_back(std::move(out));
    plan_.out.data.push_back(std::move(data));
    return true;
  }

  // Vectors, norms, biases, routers and learned tables are F32, as llama.cpp expects.
  GgufElement element_of(const GgufTensorShape& out, io::Element source) const {
    if (out.extents.size() == 1 || !out.name.ends_with(".weight") ||
        out.name.ends_with("norm.weight") || out.name.ends_with("ffn_gate_inp.weight") ||
        out.name.starts_with("position_embd"))
      return GgufElement::f32;
    if (options_.element) return *options_.element;
    return source == io::Element::f16    ? GgufElement::f16
           : source == io::Element::bf16 ? GgufElement::bf16
                                         : GgufElement::f32;
  }

  std::int64_t extent(char letter, const std::string& tensor) {
    if (letter == 'G') return 2 * extent('F', tensor);
    const auto found = plan_.extents.find(letter);
    if (found == plan_.extents.end())
      refuse_tensor("tensors before it must determine the shape of", tensor);
    return found->second;
  }

  // Checks the shape, and sets extents that are not known yet.
  void check_shape(const io::TensorEntry& entry, const std::vector<Extent>& axes) {
    bool fits = entry.shape.size() == axes.size();
    for (std::size_t i = 0; fits && i < axes.size(); ++i) {
      const auto [letter, factor] = axes[i];
      if (letter != 'G' && !plan_.extents.contains(letter) && entry.shape[i] > 0 &&
          entry.shape[i] % factor == 0)
        plan_.extents[letter] = entry.shape[i] / factor;
      fits = (letter == 'G' || plan_.extents.contains(letter)) &&
             entry.shape[i] == factor * extent(letter, entry.name);
    }
    if (fits) return;
    Shape wanted;
    for (const auto& [letter, factor] : axes)
      wanted.push_back(letter == 'G' || plan_.extents.contains(letter)
                           ? factor * extent(letter, entry.name)
                           : 0);
    refuse_tensor(shown(entry.name) + " must have the shape " + io::to_string(wanted),
                  io::to_string(entry.shape));
  }

  void add_part(const io::TensorEntry& entry, std::string_view shape, GgufOrder order,
                GgufData& data) {
    check_shape(entry, axes_of(shape, order));
    GgufPart part{.tensor = entry.name,
                  .shape = entry.shape,
                  .element = entry.dtype == "F32"    ? io::Element::f32
                             : entry.dtype == "F16"  ? io::Element::f16
                             : entry.dtype == "BF16" ? io::Element::bf16
                                                     : io::Element::opaque,
                  .axes = {}};
    if (part.element == io::Element::opaque)
      refuse_tensor("tensors must have the type F32, F16 or BF16",
                    shown(entry.name) + " " + entry.dtype);
    const std::int64_t size = product(entry.shape);
    const std::int64_t last = entry.shape.back();
    const std::int64_t before =
        entry.shape.size() > 1 ? entry.shape[entry.shape.size() - 2] : 1;
    const std::int64_t outer = size / (last * before);
    switch (order) {
      case GgufOrder::as_is:
        return add_rows(entry, std::move(part), size, data);
      case GgufOrder::transposed:
        part.axes = {{outer, last * before}, {last, 1}, {before, last}};
        break;
      case GgufOrder::by_head: {
        const std::int64_t heads = plan_.extents.at('H'), dim = plan_.extents.at('D');
        const std::int64_t block = dim * (size / (3 * heads * dim));
        part.axes = {{3, block}, {heads, 3 * block}, {block, 1}};
        break;
      }
      case GgufOrder::odd_columns:
        part.offset = 1;
        [[fallthrough]];
      case GgufOrder::even_columns:
        part.axes = {{outer, before * last}, {last / 2, 2}, {before, last}};
        break;
      case GgufOrder::odd_elements:
        part.offset = 1;
        [[fallthrough]];
      case GgufOrder::even_elements:
        part.axes = {{size / 2, 2}};
        break;
    }
    data.parts.push_back(std::move(part));
  }

  // Adds all rows, those of q and k in the pairing of the graph.
  void add_rows(const io::TensorEntry& entry, GgufPart part, std::int64_t size,
                GgufData& data) {
    std::optional<RowPermutation> plan;
    if (permutes_) plan = plan_rows(weights_.layout, weights_.sizes, entry.name, entry.shape);
    if (!plan) {
      part.axes = {{size, 1}};
      data.parts.push_back(std::move(part));
      return;
    }
    const std::int64_t width = size / plan->rows, half = plan->rotary_dim / 2;
    std::int64_t reached = 0;
    const auto add = [&](std::int64_t row, std::vector<GgufPart::Axis> axes) {
      part.offset = row * width;
      part.axes = std::move(axes);
      data.parts.push_back(part);
    };
    for (const std::int64_t start : plan->starts) {
      if (start > reached) add(reached, {{(start - reached) * width, 1}});
      if (to_ == Pairing::adjacent)
        add(start, {{half, width}, {2, half * width}, {width, 1}});
      else
        add(start, {{2, width}, {half, 2 * width}, {width, 1}});
      reached = start + plan->rotary_dim;
    }
    if (reached < plan->rows) add(reached, {{(plan->rows - reached) * width, 1}});
  }

  void check_unused() const {
    for (const auto& [name, entry] : by_name_) {
      if (used_.contains(name)) continue;
      if (std::any_of(std::begin(buffers), std::end(buffers),
                      [&](std::string_view buffer) { return name.ends_with(buffer); }))
        continue;
      refuse_tensor("tensors of " + plan_.model.model_type +
                        " must have a name in the graph of " +
                        std::string(plan_.architecture()),
                    shown(entry->name) + " " + io::to_string(entry->shape));
    }
  }

  GgufPlan& plan_;
  const GgufWeights& facts_;
  const GgufOptions& options_;
  std::map<std::string, const io::TensorEntry*, std::less<>> by_name_;
  std::set<std::string, std::less<>> used_;
  std::map<std::string, bool> states_;  // whether the checkpoint has the tensors of a name
  ModelWeights weights_ = {};
  Pairing to_ = {};
  bool permutes_ = false;
};

}  // namespace

void put_tensors(GgufPlan& plan, std::string_view config,
                 std::span<const io::TensorEntry> tensors, const GgufOptions& options) {
  Tensors(plan, config, tensors, options).put_all();
}

}  // namespace gnomon::model::internal
