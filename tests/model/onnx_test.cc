// ONNX models of layers: the bytes are read back by a reader of protocol buffers that shares no
// code with the writer. tests/onnx compares the results of ONNX Runtime.
#include "gnomon/model/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "gnomon/model/config.h"
#include "model/hash.h"

namespace gnomon::onnx_test {
namespace {

using model::OnnxModel;
using model::OnnxOperators;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The fields of a message, by number: texts, and varints as decimal numbers.
using Fields = std::multimap<int, std::string>;

Fields fields_of(const std::string& bytes) {
  Fields all;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value += std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint(), kind = key % 8;
    std::string value;
    if (kind == 0) {
      value = std::to_string(static_cast<std::int64_t>(varint()));
    } else {
      const std::uint64_t size = kind == 2 ? varint() : kind == 5 ? 4 : 0;
      EXPECT_GT(kind, 1u);
      EXPECT_LE(at + size, bytes.size());
      value = bytes.substr(at, size);
      at += size;
    }
    all.emplace(static_cast<int>(key / 8), value);
  }
  return all;
}

std::vector<std::string> texts(const Fields& fields, int number) {
  std::vector<std::string> all;
  for (auto [one, end] = fields.equal_range(number); one != end; ++one)
    all.push_back(one->second);
  return all;
}
std::string text(const Fields& fields, int number) {
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

// Field numbers of onnx.proto: ModelProto graph 7; GraphProto node 1, initializer 5, input 11,
// output 12; NodeProto op_type 4, attribute 5, domain 7.
Fields graph_of(const OnnxModel& onnx) { return fields_of(text(fields_of(onnx.bytes), 7)); }

std::vector<std::string> names(const Fields& graph, int number) {
  std::vector<std::string> all;
  for (const std::string& one : texts(graph, number)) all.push_back(text(fields_of(one), 1));
  return all;
}

// The attributes of the only node of a type: integers and floats.
std::map<std::string, double> attributes(const Fields& graph, const std::string& type) {
  std::map<std::string, double> all;
  for (const std::string& one : texts(graph, 1)) {
    const Fields node = fields_of(one);
    if (text(node, 4) != type) continue;
    for (const std::string& each : texts(node, 5)) {
      const Fields attribute = fields_of(each);
      if (const std::string real = text(attribute, 2); !real.empty()) {
        float value = 0;
        std::memcpy(&value, real.data(), sizeof value);
        all[text(attribute, 1)] = double{value};
      } else {
        all[text(attribute, 1)] = std::stod(text(attribute, 3));
      }
    }
  }
  return all;
}

OnnxModel exported(const std::string& config, const model::OnnxOptions& options = {},
                   std::string_view part = {}) {
  return model::to_onnx(model::read_config(config), 0, part, options);
}

constexpr const char* llama =
    R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8,
        "num_key_value_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 32,
        "rope_theta": 5e5})";

TEST(Onnx, ALayerOfLlamaHasThreeOperators) {
  const OnnxModel onnx = exported(llama);
  const Fields model = fields_of(onnx.bytes), graph = graph_of(onnx);
  EXPECT_EQ(text(model, 1), "11");                      // ir_version
  EXPECT_EQ(text(fields_of(text(model, 8)), 2), "23");  // opset_import.version
  EXPECT_EQ(text(model, 2), "gnomon");
  EXPECT_THAT(names(graph, 11), ElementsAre("q", "k", "v", "positions"));
  EXPECT_THAT(names(graph, 12), ElementsAre("out"));
  EXPECT_THAT(onnx.operators,
              ElementsAre(std::pair("Attention", 1), std::pair("RotaryEmbedding", 2)));
  const auto attention = attributes(graph, "Attention");
  EXPECT_EQ(attention.at("is_causal"), 1);
  EXPECT_EQ(attention.at("q_num_heads"), 8);
  EXPECT_EQ(attention.at("kv_num_heads"), 2);
  EXPECT_FLOAT_EQ(static_cast<float>(attention.at("scale")), 1 / std::sqrt(8.0f));
  EXPECT_EQ(attributes(graph, "RotaryEmbedding").at("interleaved"), 0);
  EXPECT_EQ(onnx.inputs[0].shape, (std::vector<std::string>{"batch", "tokens", "64"}));
}

TEST(Onnx, TablesAreCosAndSinOfEachPosition) {
  const std::vector<std::string> tables = texts(graph_of(exported(llama)), 5);
  ASSERT_EQ(tables.size(), 2u);  // queries and keys share them
  for (std::size_t which = 0; which < 2; ++which) {
    const Fields tensor = fields_of(tables[which]);
    EXPECT_THAT(texts(tensor, 1), ElementsAre("32", "4"));  // dims
    EXPECT_EQ(text(tensor, 2), "1");                        // FLOAT
    const std::string raw = text(tensor, 9);
    ASSERT_EQ(raw.size(), 32u * 4 * 4);
    for (std::size_t p = 0; p < 32; ++p)
      for (std::size_t i = 0; i < 4; ++i) {
        float value = 0;
        std::memcpy(&value, raw.data() + (p * 4 + i) * 4, 4);
        const long double angle =
            static_cast<long double>(p) * std::pow(5e5L, -static_cast<long double>(i) / 4);
        EXPECT_NEAR(double{value},
                    static_cast<double>(which == 0 ? std::cos(angle) : std::sin(angle)), 6e-8);
      }
  }
}

TEST(Onnx, MicrosoftOperators) {
  const OnnxModel onnx = exported(llama, {.operators = OnnxOperators::microsoft});
  EXPECT_EQ(onnx.operators.at("com.microsoft.GroupQueryAttention"), 1);
  EXPECT_EQ(onnx.operators.at("com.microsoft.RotaryEmbedding"), 2);
  const auto imports = texts(fields_of(onnx.bytes), 8);
  ASSERT_EQ(imports.size(), 2u);
  EXPECT_EQ(text(fields_of(imports[1]), 1), "com.microsoft");
}

TEST(Onnx, TrainedParametersAreInputs) {
  const OnnxModel onnx = exported(
      R"({"model_type": "t5", "d_model": 32, "num_heads": 4, "d_kv": 8, "num_layers": 1,
          "num_decoder_layers": 1})",
      {.rows = 16}, "encoder");
  EXPECT_THAT(names(graph_of(onnx), 11), ElementsAre("q", "k", "v", "buckets", "positions"));
  EXPECT_EQ(onnx.inputs[3].shape, (std::vector<std::string>{"32", "4"}));
  bool heads_first = false;  // [B, H, T, S] of biases that are [H, B, T, S]
  for (const std::string& one : texts(graph_of(onnx), 1)) {
    const Fields node = fields_of(one);
    if (text(node, 4) == "Transpose")
      heads_first |=
          texts(fields_of(text(node, 5)), 8) == std::vector<std::string>{"1", "0", "2", "3"};
  }
  EXPECT_TRUE(heads_first);
}

TEST(Onnx, ALearnedTableIsGathered) {
  const OnnxModel onnx = exported(
      R"({"model_type": "opt", "hidden_size": 32, "num_attention_heads": 4,
          "num_hidden_layers": 1, "max_position_embeddings": 20, "word_embed_proj_dim": 32})");
  const Fields graph = graph_of(onnx);
  EXPECT_THAT(names(graph, 12), ElementsAre("hidden_out", "out"));
  // The first initialiser has the row of each position, which is 2 more (OPT).
  const std::string raw = text(fields_of(texts(graph, 5).front()), 9);
  std::int64_t row = 0;
  ASSERT_EQ(raw.size(), 20u * 8);
  std::memcpy(&row, raw.data() + 5 * 8, 8);
  EXPECT_EQ(row, 7);
}

// Sinks are used as they are, also beside parameters that belong to the embeddings.
TEST(Onnx, AWholeParameterIsNotGathered) {
  model::ModelDescription model = model::read_config(
      R"({"model_type": "gpt_oss", "hidden_size": 32, "num_attention_heads": 4, "head_dim": 8,
          "num_key_value_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 16,
          "layer_types": ["full_attention"]})");
  const auto gathers = [&] {
    const OnnxModel onnx = model::to_onnx(model, 0, {}, {});
    const auto found = onnx.operators.find("Gather");
    return found == onnx.operators.end() ? 0 : found->second;
  };
  const std::int64_t before = gathers();
  model.groups.front().position.insert(model.groups.front().position.begin(),
                                       learned_plain(16, 32));
  EXPECT_EQ(gathers(), before + 2) << "the table in its order, then its rows by position";
}

TEST(Onnx, RowsLimitTheTables) {
  const std::vector<std::string> tables = texts(graph_of(exported(llama, {.rows = 5})), 5);
  EXPECT_THAT(texts(fields_of(tables[0]), 1), ElementsAre("5", "4"));
}

constexpr const char* qwen2_vl =
    R"({"model_type": "qwen2_vl", "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 32,
        "rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 1]}})";

// Each pair takes the rows of the positions on its axis: a mask for each axis, also for an axis
// with a single pair.
TEST(Onnx, EachPairHasOneAxis) {
  const Fields graph = graph_of(exported(qwen2_vl));
  std::set<std::vector<float>> masks;  // those of queries and of keys
  for (const std::string& one : texts(graph, 5)) {
    const Fields tensor = fields_of(one);
    if (texts(tensor, 1) != std::vector<std::string>{"4"} || text(tensor, 2) != "1") continue;
    std::vector<float> mask(4);
    ASSERT_EQ(text(tensor, 9).size(), 16u);
    std::memcpy(mask.data(), text(tensor, 9).data(), 16);
    masks.insert(mask);
  }
  EXPECT_EQ(masks, (std::set<std::vector<float>>{{1, 0, 0, 0}, {0, 1, 1, 0}, {0, 0, 0, 1}}));
}

// Microsoft's operator has one table for all tokens: rows of cos and sin of each pair.
TEST(Onnx, TablesOfAxesAreRowsForMicrosoft) {
  const Fields graph = graph_of(exported(qwen2_vl, {.operators = OnnxOperators::microsoft}));
  std::map<std::string, Fields> makers;  // the node of each value
  std::vector<Fields> rotations;
  for (const std::string& one : texts(graph, 1)) {
    const Fields node = fields_of(one);
    for (const std::string& output : texts(node, 2)) makers[output] = node;
    if (text(node, 4) == "RotaryEmbedding") rotations.push_back(node);
  }
  std::map<std::string, std::string> constants;
  for (const std::string& one : texts(graph, 5)) {
    const Fields tensor = fields_of(one);
    constants[text(tensor, 8)] = text(tensor, 9);
  }
  ASSERT_EQ(rotations.size(), 2u);
  for (const Fields& rotation : rotations)
    for (const std::size_t table : {2, 3}) {
      const Fields& reshape = makers.at(texts(rotation, 1).at(table));
      ASSERT_EQ(text(reshape, 4), "Reshape");
      const std::string& raw = constants.at(texts(reshape, 1).at(1));
      std::vector<std::int64_t> shape(raw.size() / 8);
      std::memcpy(shape.data(), raw.data(), raw.size());
      EXPECT_THAT(shape, ElementsAre(-1, 4));
    }
}

// Falcon adds its slopes times the position of the key, which all queries share: a table of
// heads and keys, a row of it for each query.
TEST(Onnx, ABiasByKeyIsATableOfHeadsAndKeys) {
  const Fields graph = graph_of(exported(
      R"({"model_type": "falcon", "alibi": true, "hidden_size": 32, "num_attention_heads": 4,
          "num_hidden_layers": 1, "max_position_embeddings": 16})",
      {.rows = 16}));
  std::map<std::string, std::vector<std::int64_t>> lists;
  bool found = false;
  for (const std::string& one : texts(graph, 5)) {
    const Fields tensor = fields_of(one);
    const std::string raw = text(tensor, 9);
    if (text(tensor, 2) == "7") {  // INT64
      lists[text(tensor, 8)].resize(raw.size() / 8);
      std::memcpy(lists[text(tensor, 8)].data(), raw.data(), raw.size());
    }
    if (texts(tensor, 1) != std::vector<std::string>{"4", "16"}) continue;
    found = true;
    std::vector<float> table(4 * 16);
    ASSERT_EQ(raw.size(), table.size() * 4);
    std::memcpy(table.data(), raw.data(), raw.size());
    for (std::size_t h = 0; h < 4; ++h)
      for (std::size_t j = 0; j < 16; ++j) {  // of 2^-2, 2^-4, ... in bf16, before the scale
        const double bias = std::exp2(-2.0 * double(h + 1)) * double(j) / std::sqrt(8.0);
        EXPECT_NEAR(double{table[h * 16 + j]}, bias, bias / 128) << h << " " << j;
      }
  }
  EXPECT_TRUE(found);
  std::size_t shapes = 0;  // [1, 1, T, 1] of what is repeated for each query
  std::map<std::string, Fields> makers;
  for (const std::string& one : texts(graph, 1)) {
    const Fields node = fields_of(one);
    for (const std::string& output : texts(node, 2)) makers[output] = node;
    if (text(node, 4) != "Expand") continue;
    const auto parts = texts(makers.at(texts(node, 1).at(1)), 1);
    if (parts.size() != 3 || lists[parts[0]].size() != 2) continue;
    ++shapes;
    EXPECT_THAT(lists[parts[0]], ElementsAre(1, 1));
    EXPECT_THAT(lists[parts[2]], ElementsAre(1));
    const Fields extent = makers.at(parts[1]);
    EXPECT_THAT(text(extent, 4), ::testing::AnyOf("Shape", "Slice", "Gather"));
  }
  EXPECT_EQ(shapes, 1u);
}

// Nodes, inputs and outputs of a graph, and its integers and single numbers; of tables of real
// numbers their extents.
std::string structure_of(const OnnxModel& onnx) {
  const Fields graph = graph_of(onnx);
  std::string all;
  for (const int number : {1, 11, 12})
    for (const std::string& one : texts(graph, number)) all += one;
  for (const std::string& one : texts(graph, 5)) {
    const Fields tensor = fields_of(one);
    const std::string raw = text(tensor, 9);
    all += text(tensor, 8) + " " + text(tensor, 2);
    for (const std::string& extent : texts(tensor, 1)) all += " " + extent;
    all += text(tensor, 2) == "7" || raw.size() <= 8 ? raw : std::to_string(raw.size());
  }
  return all;
}

// The first layer of each group, for a small image if it takes one, or why it is refused.
std::string hash_of(const model::ModelDescription& all, OnnxOperators operators) {
  std::string graphs;
  for (const model::LayerGroup& group : all.groups) {
    model::OnnxOptions options{.operators = operators, .rows = 16};
    const auto structure = [&]() -> std::string {
      try {
        return structure_of(model::to_onnx(all, group.layers.front(), group.part, options));
      } catch (const std::invalid_argument& error) {
        return error.what();
      }
    };
    options.image = model::ImagePatches{1, 4, 6};
    std::string one = structure();
    if (one.starts_with("[")) {
      options.image = {};
      one = structure();
    }
    graphs += one;
  }
  return testing::hash(graphs);
}

// `make test-onnx` computes these graphs. After a change of the export it must pass, and
// GNOMON_RECORD=tests/model/recorded writes the recording again.
TEST(Onnx, GraphsOfReleasedModelsAreThoseOfTheRecording) {
  const std::set<std::string> images{"vision-dinov2-large", "vision-glm-4.5v",
                                     "vision-sam-hq-vit-base-defaults", "vision-vit-mae-large"};
  std::map<std::string, std::string> now, recorded;
  for (const auto& file :
       std::filesystem::directory_iterator(GNOMON_SOURCE_DIR "/tests/model/released")) {
    const std::string name = file.path().stem();
    if (name.starts_with("vision-") && !images.contains(name)) continue;  // tables of seconds
    std::ifstream in(file.path());
    const nlohmann::json released = nlohmann::json::parse(in);
    const model::ModelDescription all =
        model::read_config(released.at("config").dump(), {.part = released.value("part", "")});
    now[name] =
        hash_of(all, OnnxOperators::onnx) + " " + hash_of(all, OnnxOperators::microsoft);
  }
  if (const char* const to = std::getenv("GNOMON_RECORD")) {
    std::ofstream out(std::string(to) + "/onnx.txt");
    for (const auto& [name, hashes] : now) out << name << " " << hashes << "\n";
    return;
  }
  std::ifstream in(GNOMON_SOURCE_DIR "/tests/model/recorded/onnx.txt");
  for (std::string line; std::getline(in, line);)
    recorded[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
  EXPECT_GT(now.size(), 150u);
  EXPECT_EQ(now, recorded);
}

std::string refusal(const std::string& config, const model::OnnxOptions& options = {}) {
  try {
    exported(config, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Onnx, RefusesWhatNoOperatorExpresses) {
  EXPECT_EQ(refusal(R"({"model_type": "xlnet", "d_model": 32, "n_head": 4, "n_layer": 1})"),
            "[onnx] trained values must be entries of the parameters, got bias by distance");
  EXPECT_EQ(refusal(llama, {.image = model::ImagePatches{.height = 2, .width = 2}}),
            "[onnx] an image must be given for image layers only, got llama");
  EXPECT_EQ(refusal(llama, {.rows = -1}), "[onnx] rows must be at least 1, got -1");
  EXPECT_THAT(refusal(R"({"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 1})"),
              HasSubstr("got"));
  EXPECT_THAT(
      refusal(R"({"model_type": "layoutlmv3", "hidden_size": 32, "num_attention_heads": 4,
                          "num_hidden_layers": 1, "max_position_embeddings": 34})"),
      HasSubstr("the layer must have no bias by word boxes"));
}

}  // namespace
}  // namespace gnomon::onnx_test
