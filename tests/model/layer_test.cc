// Layers of released models, end to end: computed from config.json and the checkpoint tensors
// alone, the output of attention must equal that of the model's code (tools/released.sh makes
// the files).
#include "gnomon/model/layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "gnomon/attention/attention.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/model/config.h"
#include "testing.h"

namespace gnomon::model {
namespace layer_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::int64_t;

const fs::path folder = fs::path(GNOMON_SOURCE_DIR) / "tests/model/layers";

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") all.push_back(entry.path().stem());
  std::sort(all.begin(), all.end());
  return all;
}

// A tensor of doubles, [B, T, H, D].
struct Heads {
  std::array<std::ptrdiff_t, 4> extents{};
  std::vector<double> values;

  View<double, 4> view() { return {values.data(), extents}; }
  View<const double, 4> view() const { return {values.data(), extents}; }
};

// A case: the configuration and the recorded tensors.
class Case {
 public:
  explicit Case(const std::string& name)
      : json(Json::parse(std::ifstream(folder / (name + ".json")))),
        file_(folder / (name + ".safetensors")) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  Heads heads(const std::string& name) const {
    const io::Array array = file_.tensor(name);
    Heads out;
    std::copy(array.shape().begin(), array.shape().end(), out.extents.begin());
    const auto values = flat<float>(array);
    out.values.assign(values.begin(), values.end());
    return out;
  }
  // [B, T, C] as [1, B, T, C].
  Heads rows(const std::string& name) const {
    const auto extents = shape(name);
    Heads out{{1, extents[0], extents[1], extents[2]}, {}};
    const auto values = numbers<float>(name);
    out.values.assign(values.begin(), values.end());
    return out;
  }
  bool has_any(const std::string& prefix) const {
    for (const io::TensorEntry& one : file_.tensors())
      if (one.name.starts_with(prefix)) return true;
    return false;
  }
  template <typename T>
  std::vector<T> numbers(const std::string& name) const {
    const auto values = flat<T>(file_.tensor(name));
    return {values.begin(), values.end()};
  }
  std::vector<int64_t> shape(const std::string& name) const {
    return file_.tensor(name).shape();
  }
  Checkpoint checkpoint() const {
    Checkpoint checkpoint;
    for (const io::TensorEntry& one : file_.tensors())
      if (!one.name.starts_with("@")) checkpoint.names.push_back(one.name);
    checkpoint.read = [this](const std::string& name) {
      return CheckpointTensor{shape(name), numbers<float>(name)};
    };
    return checkpoint;
  }

  Json json;

 private:
  template <typename T>
  static std::span<const T> flat(const io::Array& array) {
    const std::span<const std::byte> bytes = array.bytes();
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  io::SafeTensors file_;
};

// The tokens of a case: positions on all axes with the padding mask, or an image.
struct Tokens {
  std::vector<Positions> axes;
  std::optional<ImagePatches> image;

  explicit Tokens(const Case& one) {
    if (one.json.contains("image")) {
      const Json& size = one.json["image"];
      image = {size.value("frames", int64_t{1}), size["height"], size["width"]};
      return;
    }
    if (!one.has("@positions")) return;
    if (one.has("@bbox")) {
      const auto all = one.numbers<int64_t>("@bbox");
      for (std::size_t i = 0; i < all.size(); i += 4) {
        boxes.x.push_back(all[i]);
        boxes.y.push_back(all[i + 3]);
      }
    }
    const auto shape = one.shape("@positions");
    const auto ids = one.numbers<int64_t>("@positions");
    const auto count = static_cast<std::size_t>(shape[1] * shape[2]);
    for (int64_t a = 0; a < shape[0]; ++a) {
      Positions axis{.batch = shape[1], .tokens = shape[2]};
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(count) * a;
      axis.ids.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
      axis.sequences.resize(count);
      if (one.has("@mask")) {
        const auto mask = one.numbers<std::uint8_t>("@mask");
        for (std::size_t i = 0; i < count; ++i)
          axis.sequences[i] = mask[i] ? 0 : Positions::padding;
      }
      axes.push_back(std::move(axis));
    }
  }
  LayerTokens all(const Case& one) const {
    return {.queries = axes,
            .length = one.json.value("length", int64_t{0}),
            .image = image,
            .boxes = boxes.x.empty() ? nullptr : &boxes};
  }
  gnomon::WordBoxes boxes;
};

// The largest difference in rows that are not padding, relative to the largest value.
double error(const Heads& got, const Heads& wanted, const std::vector<Positions>& axes) {
  double most = 0, worst = 0;
  const bool embedded = wanted.extents[0] == 1 && axes.size() && axes[0].batch > 1;
  const auto count = static_cast<std::size_t>(wanted.extents[0] * wanted.extents[1] *
                                              (embedded ? wanted.extents[2] : 1));
  const std::size_t row = wanted.values.size() / std::max<std::size_t>(count, 1);
  for (std::size_t t = 0; t < count; ++t) {
    if (!axes.empty() && axes[0].sequences.size() == count &&
        axes[0].sequences[t] == Positions::padding)
      continue;
    for (std::size_t i = t * row; i < (t + 1) * row; ++i) {
      most = std::max(most, std::abs(wanted.values[i]));
      worst = std::max(worst, std::abs(got.values[i] - wanted.values[i]));
      if (!std::isfinite(got.values[i])) return INFINITY;
    }
  }
  return worst / most;
}

Heads attended(const LayerPlan& lowered, const Heads& q, const Heads& k, const Heads& v,
               View<const float, 3> gates = {}) {
  Heads out{{q.extents[0], q.extents[1], q.extents[2], v.extents[3]}, {}};
  out.values.resize(
      static_cast<std::size_t>(q.extents[0] * q.extents[1] * q.extents[2] * v.extents[3]));
  attention({.q = q.view(), .k = k.view(), .v = v.view(), .terms = {.gates = gates}}, lowered,
            out.view());
  return out;
}

// Prefix of the tensor names of a part. Empty: the case has none. For DETR only the encoder is
// recorded.
std::string prefix_of(const Case& one, const ModelDescription& model, const std::string& part) {
  if (std::none_of(model.groups.begin(), model.groups.end(),
                   [&](const LayerGroup& group) { return group.part == part; }))
    return {};
  const std::string name = "@" + (part.empty() ? "layers" : part) + ".";
  if (one.has_any(name)) return name;
  return part == "encoder" && one.has_any("@layers.") ? "@layers." : "";
}

// The gates of a layer, if the case has the layer's input.
struct Gates {
  std::vector<float> values;
  View<const float, 3> view;

  Gates(const Case& one, const ModelPlan& plan, int64_t layer, const std::string& name,
        int64_t heads) {
    if (!plan.layer(layer).gated) return;
    const auto shape = one.shape(name + ".hidden");
    const auto hidden = one.numbers<float>(name + ".hidden");
    values.resize(static_cast<std::size_t>(shape[0] * heads * shape[1]));
    const View<float, 3> out(values.data(), {shape[0], heads, shape[1]});
    plan.compute_terms(layer,
                       View<const float, 3>(hidden.data(), {shape[0], shape[1], shape[2]}),
                       {.gates = out});
    view = out;
  }
};

class Layers : public ::testing::TestWithParam<std::string> {};

TEST_P(Layers, GiveTheOutputOfTheModelsOwnCode) {
  const Case one(GetParam());
  const ModelDescription model =
      read_config(one.json["config"].dump(), {.part = one.json.value("part", "")});
  const Tokens tokens(one);
  int compared = 0;
  for (const std::string part : {"", "encoder", "decoder"}) {
    const std::string of_part = prefix_of(one, model, part);
    if (of_part.empty()) continue;
    ModelPlan plan(model, one.checkpoint(), part);
    const LayerTokens all = tokens.all(one);
    plan.set_tokens(all);
    if (one.has(of_part + "embed.in")) {
      Heads x = one.rows(of_part + "embed.in");
      add_position(plan.layer(0), x.view()[0]);
      EXPECT_LE(error(x, one.rows(of_part + "embed.out"), tokens.axes), 1e-5) << "embeddings";
    }
    for (const LayerGroup& group : model.groups)
      for (const int64_t layer : group.layers) {
        const std::string name = of_part + std::to_string(layer);
        if (group.part != part || !one.has(name + ".q")) continue;
        Heads q = one.heads(name + ".q"), k = one.heads(name + ".k"),
              v = one.heads(name + ".v");
        std::vector<Positions> windows;
        if (one.has(name + ".sequences")) {
          windows = {consecutive(q.extents[1], 0, q.extents[0])};
          windows[0].sequences = one.numbers<std::int32_t>(name + ".sequences");
          plan.set_tokens({.queries = windows});
        }
        const LayerPlan& lowered = plan.layer(layer);
        prepare(lowered, q.view(), k.view(), v.view());
        for (const auto& [in, out] :
             {std::pair(".add_in", ".add_out"), std::pair(".hidden", ".hidden_turned")}) {
          if (!one.has(name + out)) continue;
          EXPECT_TRUE(has_own_input(lowered)) << name;
          Heads x = one.rows(name + in);
          prepare_input(lowered, group.heads, x.view()[0]);
          EXPECT_LE(error(x, one.rows(name + out), tokens.axes), 1e-5) << name << out;
        }
        const Gates gates(one, plan, layer, name, group.heads);
        const double off = error(attended(lowered, q, k, v, gates.view),
                                 one.heads(name + ".out"), tokens.axes);
        EXPECT_LE(off, one.json.value("tolerance", 1e-5)) << name;
        ++compared;
        if (!windows.empty()) plan.set_tokens(all);
      }
  }
  EXPECT_GT(compared, 0);
}

// Tokens `begin` to `end` of some rows.
Positions slice(const Positions& all, int64_t begin, int64_t end) {
  Positions part{.batch = all.batch, .tokens = end - begin};
  for (int64_t b = 0; b < all.batch; ++b)
    for (int64_t t = begin; t < end; ++t) {
      part.ids.push_back(all.ids[static_cast<std::size_t>(b * all.tokens + t)]);
      part.sequences.push_back(all.sequences[static_cast<std::size_t>(b * all.tokens + t)]);
    }
  return part;
}
Heads slice(const Heads& all, std::ptrdiff_t begin, std::ptrdiff_t end) {
  Heads part{{all.extents[0], end - begin, all.extents[2], all.extents[3]}, {}};
  for (std::ptrdiff_t b = 0; b < all.extents[0]; ++b)
    for (std::ptrdiff_t t = begin; t < end; ++t)
      for (std::ptrdiff_t h = 0; h < all.extents[2]; ++h)
        for (std::ptrdiff_t d = 0; d < all.extents[3]; ++d)
          part.values.push_back(all.view()(b, t, h, d));
  return part;
}
void put(Heads& all, const Heads& part, std::ptrdiff_t begin) {
  for (std::ptrdiff_t b = 0; b < part.extents[0]; ++b)
    for (std::ptrdiff_t t = 0; t < part.extents[1]; ++t)
      for (std::ptrdiff_t h = 0; h < part.extents[2]; ++h)
        for (std::ptrdiff_t d = 0; d < part.extents[3]; ++d)
          all.view()(b, begin + t, h, d) = part.view()(b, t, h, d);
}

// A prompt in two pieces, then single tokens. Keys and values come from a cache.
TEST_P(Layers, RepeatTheFullPassByACache) {
  const Case one(GetParam());
  const ModelDescription model =
      read_config(one.json["config"].dump(), {.part = one.json.value("part", "")});
  const Tokens tokens(one);
  if (tokens.axes.empty()) return;  // towers have no cache
  const bool rows_are_positions = tokens.axes.size() == 1 && !one.has("@mask");
  for (const LayerGroup& group : model.groups) {
    const std::string of_part = prefix_of(one, model, group.part);
    if (of_part.empty() || group.attention.visibility != Visibility::causal) continue;
    ModelPlan plan(model, one.checkpoint(), group.part);
    for (const int64_t layer : group.layers) {
      const std::string name = of_part + std::to_string(layer);
      if (!one.has(name + ".q")) continue;
      const Heads q = one.heads(name + ".q"), k = one.heads(name + ".k"),
                  v = one.heads(name + ".v"), wanted = one.heads(name + ".out");
      Heads keys = k, values = v, out = wanted;
      const int64_t count = q.extents[1];
      for (int64_t begin = 0, end = 4; begin < count; begin = end, end += end < 9 ? 5 : 1) {
        std::vector<Positions> queries, before;
        for (const Positions& axis : tokens.axes) {
          queries.push_back(slice(axis, begin, end));
          before.push_back(slice(axis, 0, end));
        }
        LayerTokens now{.queries = queries, .length = one.json.value("length", int64_t{0})};
        if (rows_are_positions)
          now.cached = begin;
        else
          now.keys = before;
        plan.set_tokens(now);
        const LayerPlan& lowered = plan.layer(layer);
        Heads q_new = slice(q, begin, end), k_new = slice(k, begin, end),
              v_new = slice(v, begin, end);
        prepare(lowered, q_new.view(), k_new.view(), v_new.view());
        put(keys, k_new, begin);
        put(values, v_new, begin);
        put(out, attended(lowered, q_new, slice(keys, 0, end), slice(values, 0, end)), begin);
      }
      EXPECT_LE(error(out, wanted, tokens.axes), one.json.value("tolerance", 1e-5)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Layers, ::testing::ValuesIn(names()), [](const auto& one) {
  std::string name = one.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace layer_test
}  // namespace gnomon::model
