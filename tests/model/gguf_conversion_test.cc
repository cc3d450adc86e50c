// The file of a tiny checkpoint whose elements are numbered, so that each element of the file
// tells its place in the checkpoint. Logits: tests/python/gguf/test_convert.py.
#include "gnomon/model/gguf_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "gnomon/io/safetensors.h"
#include "gnomon/model/config.h"
#include "gnomon/model/gguf.h"
#include "gnomon/model/gguf_model.h"
#include "io/temporary.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_conversion_test {

using namespace gnomon::testing;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Optional;

using Shapes = std::map<std::string, io::Array::Shape>;

// Width 8, 2 heads of 4 and 1 key head, feed-forward width 6, 5 tokens, 1 layer.
constexpr const char* sizes = R"("hidden_size": 8, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 4, "num_hidden_layers": 1, "intermediate_size": 6,
  "max_position_embeddings": 64, "vocab_size": 5, "rms_norm_eps": 1e-6)";
std::string config(const std::string& type, const std::string& more = "") {
  return "{\"model_type\": \"" + type + "\", " + sizes + (more.empty() ? "" : ", ") + more +
         "}";
}
const std::string layer = "model.layers.0.";
Shapes llama() {
  return {{"model.embed_tokens.weight", {5, 8}},
          {"model.norm.weight", {8}},
          {"lm_head.weight", {5, 8}},
          {layer + "input_layernorm.weight", {8}},
          {layer + "post_attention_layernorm.weight", {8}},
          {layer + "self_attn.q_proj.weight", {8, 8}},
          {layer + "self_attn.k_proj.weight", {4, 8}},
          {layer + "self_attn.v_proj.weight", {4, 8}},
          {layer + "self_attn.o_proj.weight", {8, 8}},
          {layer + "mlp.gate_proj.weight", {6, 8}},
          {layer + "mlp.up_proj.weight", {6, 8}},
          {layer + "mlp.down_proj.weight", {8, 6}}};
}

// A checkpoint whose tensors have the elements 0, 1, 2, ..., and its file. Blocks of MXFP4 and
// their scales have bytes.
template <typename T>
class Converted {
 public:
  Converted(const std::string& config, const Shapes& shapes, const GgufOptions& options = {}) {
    std::vector<std::vector<T>> data;
    std::vector<std::vector<std::uint8_t>> bytes;
    std::vector<io::NamedArray> arrays;
    for (const auto& [name, shape] : shapes) {
      std::int64_t size = 1;
      for (const std::int64_t extent : shape) size *= extent;
      if (name.ends_with("_blocks") || name.ends_with("_scales")) {
        auto& numbers = bytes.emplace_back();
        for (std::int64_t i = 0; i < size; ++i)
          numbers.push_back(static_cast<std::uint8_t>(i * 7 % 251));
        arrays.push_back(
            {name, io::Array(io::Element::u8, shape, std::as_bytes(std::span(numbers)))});
        continue;
      }
      auto& numbers = data.emplace_back();
      for (std::int64_t i = 0; i < size; ++i) numbers.push_back(T(static_cast<float>(i)));
      arrays.push_back(
          {name, io::Array(io::element_of<T>(), shape, std::as_bytes(std::span(numbers)))});
    }
    io::write_safetensors(folder_ / "model.safetensors", arrays);
    const io::Checkpoint checkpoint(folder_.path());
    conversion = plan_gguf(config, tensors_of(checkpoint), options);
    io::write_atomically(folder_ / "out.gguf",
                         [&](io::Output& out) { write_gguf(conversion, checkpoint, out); });
    mapped_ = std::make_unique<io::MappedFile>(folder_ / "out.gguf");
    file = std::make_unique<Gguf>(mapped_->bytes(), "out.gguf");
  }
  std::vector<double> operator[](const std::string& name) const {
    const GgufTensor* const tensor = file->find_tensor(name);
    if (!tensor) throw std::invalid_argument("no tensor " + name);
    return file->values(*tensor);
  }

  GgufConversion conversion;
  std::unique_ptr<Gguf> file;

 private:
  TemporaryFolder folder_;
  std::unique_ptr<io::MappedFile> mapped_;
};

// Elements of rows of `width`, in this order.
std::vector<double> rows(std::int64_t width, const std::vector<std::int64_t>& order) {
  std::vector<double> all;
  for (const std::int64_t row : order)
    for (std::int64_t i = 0; i < width; ++i)
      all.push_back(static_cast<double>(row * width + i));
  return all;
}
std::vector<double> numbers(std::int64_t count) { return rows(count, {0}); }

std::string refused(const std::string& config, const Shapes& shapes) {
  return message_of([&] { Converted<float>(config, shapes); });
}

TEST(GgufConversion, LlamaHasAdjacentPairs) {
  const Converted<float> llama_file(config("llama"), llama());
  const Gguf& file = *llama_file.file;
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.text("tokenizer.ggml.model"), "none");
  EXPECT_THAT(file.integer("llama.vocab_size"), Optional(5));
  EXPECT_THAT(file.integer("llama.feed_forward_length"), Optional(6));
  EXPECT_THAT(file.integer("llama.attention.key_length"), Optional(4));
  EXPECT_THAT(llama_file["blk.0.attn_q.weight"],
              ElementsAreArray(rows(8, {0, 2, 1, 3, 4, 6, 5, 7})));
  EXPECT_THAT(llama_file["blk.0.attn_k.weight"], ElementsAreArray(rows(8, {0, 2, 1, 3})));
  for (const char* same : {"blk.0.attn_v.weight", "blk.0.ffn_down.weight", "output.weight"}) {
    const auto values = llama_file[same];
    EXPECT_THAT(values, ElementsAreArray(numbers(static_cast<std::int64_t>(values.size()))));
  }
  EXPECT_EQ(file.bytes().size(), llama_file.conversion.bytes());
}

TEST(GgufConversion, TheFileHasTheDescriptionOfTheConfig) {
  const std::string text =
      config("llama", R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16})");
  const Converted<float> llama_file(text, llama());
  const ModelDescription model = read_config(text), written = read_gguf(*llama_file.file);
  const auto expected = resolve(model.groups[0], 64).frequencies.inv_freq;
  const auto found = resolve(written.groups[0], 64).frequencies.inv_freq;
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6 * expected[i]);
  EXPECT_LT(expected[1], 0.9 / std::sqrt(500000.0)) << "the scaling has no effect";
  EXPECT_EQ(llama_file["rope_freqs.weight"].size(), 2u);
}

TEST(GgufConversion, ElementTypes) {
  const std::string matrix = "blk.0.attn_v.weight", norm = "blk.0.attn_norm.weight";
  const auto type = [](const auto& converted, const std::string& name) {
    return gguf_tensor_type(converted.file->find_tensor(name)->type);
  };
  const Converted<BFloat16> bf16(config("llama"), llama());
  EXPECT_EQ(type(bf16, matrix), "BF16");
  EXPECT_EQ(type(bf16, norm), "F32");
  EXPECT_THAT(bf16.file->integer("general.file_type"), Optional(32));
  EXPECT_THAT(bf16[norm], ElementsAreArray(numbers(8)));
  const Converted<BFloat16> wide(config("llama"), llama(), {.element = GgufElement::f32});
  EXPECT_EQ(type(wide, matrix), "F32");
  EXPECT_EQ(wide[matrix], bf16[matrix]);
  const Converted<float> narrow(config("llama"), llama(), {.element = GgufElement::f16});
  EXPECT_EQ(type(narrow, matrix), "F16");
  EXPECT_THAT(narrow[matrix], ElementsAreArray(numbers(32)));
  EXPECT_THAT(narrow.file->integer("general.file_type"), Optional(1));
}

TEST(GgufConversion, GemmaAddsOneToNorms) {
  Shapes shapes = llama();
  shapes.erase("lm_head.weight");
  const Converted<BFloat16> gemma(config("gemma", R"("tie_word_embeddings": true)"), shapes);
  const auto norm = gemma["blk.0.attn_norm.weight"];
  for (std::size_t i = 0; i < norm.size(); ++i) EXPECT_EQ(norm[i], static_cast<double>(i) + 1);
  EXPECT_THAT(gemma["blk.0.attn_q.weight"], ElementsAreArray(numbers(64)));
  // The graph has no output matrix.
  EXPECT_THAT(refused(config("gemma", R"("tie_word_embeddings": false)"), llama()),
              HasSubstr("tie_word_embeddings must be true for gemma"));
}

TEST(GgufConversion, Gpt2IsTransposedAndNeoxIsGroupedByKind) {
  Shapes gpt2{{"wte.weight", {5, 8}}, {"wpe.weight", {3, 8}}, {"h.0.attn.bias", {1, 1, 3, 3}}};
  const auto add = [](Shapes& shapes, const std::string& name, io::Array::Shape shape,
                      std::int64_t bias) {
    shapes[name + ".weight"] = std::move(shape);
    shapes[name + ".bias"] = {bias};
  };
  for (const char* norm : {"ln_f", "h.0.ln_1", "h.0.ln_2"}) add(gpt2, norm, {8}, 8);
  add(gpt2, "h.0.attn.c_attn", {8, 24}, 24), add(gpt2, "h.0.attn.c_proj", {8, 8}, 8);
  add(gpt2, "h.0.mlp.c_fc", {8, 6}, 6), add(gpt2, "h.0.mlp.c_proj", {6, 8}, 8);
  const Converted<float> gpt2_file(
      R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 3,
          "vocab_size": 5, "layer_norm_epsilon": 1e-5})",
      gpt2);
  const auto up = gpt2_file["blk.0.ffn_up.weight"];  // [6, 8] of [8, 6]
  for (std::size_t i = 0; i < up.size(); ++i)
    EXPECT_EQ(up[i], static_cast<double>(i % 8 * 6 + i / 8));
  EXPECT_EQ(gguf_tensor_type(gpt2_file.file->find_tensor("position_embd.weight")->type), "F32");

  Shapes neox{{"gpt_neox.embed_in.weight", {5, 8}}, {"embed_out.weight", {5, 8}}};
  const std::string first = "gpt_neox.layers.0.";
  for (const std::string& norm :
       {std::string("gpt_neox.final_layer_norm"), first + "input_layernorm",
        first + "post_attention_layernorm"})
    add(neox, norm, {8}, 8);
  add(neox, first + "attention.query_key_value", {24, 8}, 24);
  add(neox, first + "attention.dense", {8, 8}, 8);
  add(neox, first + "mlp.dense_h_to_4h", {6, 8}, 6),
      add(neox, first + "mlp.dense_4h_to_h", {8, 6}, 8);
  const Converted<float> neox_file(
      R"({"model_type": "gpt_neox", "hidden_size": 8, "num_attention_heads": 2,
          "num_hidden_layers": 1, "max_position_embeddings": 64, "vocab_size": 5,
          "rotary_pct": 0.5, "layer_norm_eps": 1e-5, "use_parallel_residual": true})",
      neox);
  const std::vector<std::int64_t> by_kind{0,  1,  2,  3,  12, 13, 14, 15, 4,  5,  6,  7,
                                          16, 17, 18, 19, 8,  9,  10, 11, 20, 21, 22, 23};
  EXPECT_THAT(neox_file["blk.0.attn_qkv.weight"], ElementsAreArray(rows(8, by_kind)));
  EXPECT_THAT(neox_file["blk.0.attn_qkv.bias"], ElementsAreArray(rows(1, by_kind)));
}

TEST(GgufConversion, ExpertsAreStacked) {
  Shapes shapes = llama();
  for (const char* name : {"gate_proj", "up_proj", "down_proj"})
    shapes.erase(layer + "mlp." + name + ".weight");
  const std::string experts = layer + "block_sparse_moe.";
  shapes[experts + "gate.weight"] = {2, 8};
  for (const char* expert : {"experts.0.", "experts.1."}) {
    for (const char* name : {"w1", "w3"}) shapes[experts + expert + name + ".weight"] = {6, 8};
    shapes[experts + expert + "w2.weight"] = {8, 6};
  }
  const std::string text = config("mixtral", R"("num_experts_per_tok": 2)");
  const Converted<float> mixtral(text, shapes);
  const GgufTensor* const down = mixtral.file->find_tensor("blk.0.ffn_down_exps.weight");
  ASSERT_TRUE(down);
  EXPECT_THAT(down->extents, ElementsAre(6, 8, 2, 1));
  EXPECT_THAT(mixtral.file->integer("llama.expert_count"), Optional(2));
  shapes.erase(experts + "experts.1.w3.weight");
  EXPECT_THAT(refused(text, shapes), HasSubstr("got layers.0.block_sparse_moe.experts.1.w3"));
}

// A block of the file is a scale and 16 bytes; byte i holds element i in its lower half and
// i + 16 in its upper half. In the checkpoint, byte i holds elements 2 i and 2 i + 1.
TEST(GgufConversion, BlocksOfMxfp4KeepTheirElements) {
  const std::string text = R"({"model_type": "gpt_oss", "hidden_size": 64,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "num_hidden_layers": 1,
    "intermediate_size": 32, "max_position_embeddings": 64, "vocab_size": 5,
    "rms_norm_eps": 1e-6, "num_experts_per_tok": 1, "sliding_window": 8})";
  const std::string experts = layer + "mlp.experts.";
  Shapes shapes{{"model.embed_tokens.weight", {5, 64}},
                {"model.norm.weight", {64}},
                {"lm_head.weight", {5, 64}},
                {layer + "input_layernorm.weight", {64}},
                {layer + "post_attention_layernorm.weight", {64}},
                {layer + "self_attn.sinks", {2}},
                {layer + "mlp.router.weight", {2, 64}},
                {layer + "mlp.router.bias", {2}},
                {experts + "gate_up_proj_bias", {2, 64}},
                {experts + "down_proj_bias", {2, 64}},
                {experts + "gate_up_proj_blocks", {2, 64, 2, 16}},
                {experts + "gate_up_proj_scales", {2, 64, 2}},
                {experts + "down_proj_blocks", {2, 64, 1, 16}},
                {experts + "down_proj_scales", {2, 64, 1}}};
  for (const auto& [name, rows] : {std::pair{"q_proj", 8}, std::pair{"k_proj", 4},
                                   std::pair{"v_proj", 4}, std::pair{"o_proj", 64}}) {
    shapes[layer + "self_attn." + name + ".weight"] = {rows, rows == 64 ? 8 : 64};
    shapes[layer + "self_attn." + name + ".bias"] = {rows};
  }
  const Converted<float> made(text, shapes);
  struct Part {
    const char* name;
    std::int64_t rows, blocks, step, first;  // of an expert; blocks of a row; rows taken
  };
  for (const Part& part :
       {Part{"gate", 32, 2, 2, 0}, Part{"up", 32, 2, 2, 1}, Part{"down", 64, 1, 1, 0}}) {
    const GgufTensor* const tensor =
        made.file->find_tensor("blk.0.ffn_" + std::string(part.name) + "_exps.weight");
    ASSERT_TRUE(tensor);
    EXPECT_THAT(tensor->extents, ElementsAre(32 * part.blocks, part.rows, 2, 1));
    const std::span<const std::byte> data = made.file->data(*tensor);
    ASSERT_EQ(std::ssize(data), 2 * part.rows * part.blocks * 17);
    for (std::int64_t row = 0; row < 2 * part.rows; ++row)
      for (std::int64_t b = 0; b < part.blocks; ++b) {
        const std::int64_t from = (row * part.step + part.first) * part.blocks + b;
        const auto block =
            data.subspan(static_cast<std::size_t>(row * part.blocks + b) * 17, 17);
        EXPECT_EQ(std::to_integer<int>(block[0]), from * 7 % 251);
        for (std::int64_t i = 0; i < 32; ++i) {
          const auto source = (from * 16 + i / 2) * 7 % 251;
          const int found = std::to_integer<int>(block[static_cast<std::size_t>(1 + i % 16)]);
          ASSERT_EQ(i < 16 ? found % 16 : found / 16, i % 2 ? source / 16 : source % 16)
              << part.name << ", row " << row << ", block " << b << ", element " << i;
        }
      }
  }
}

TEST(GgufConversion, TensorsMustFitTheGraph) {
  for (const auto& [name, shape] : llama()) {
    if (name == "lm_head.weight") continue;
    Shapes less = llama();
    less.erase(name);
    EXPECT_THAT(refused(config("llama"), less),
                HasSubstr("the checkpoint must have the tensor"));
    Shapes other = llama();
    other[name].back() += 1;
    EXPECT_THAT(refused(config("llama"), other), HasSubstr("must have the shape")) << name;
  }
  Shapes more = llama();
  more[layer + "self_attn.q_norm.weight"] = {4};
  EXPECT_THAT(refused(config("llama"), more),
              HasSubstr("tensors of llama must have a name in the graph of llama, got "
                        "\"model.layers.0.self_attn.q_norm.weight\" [4]"));
  EXPECT_THAT(refused(config("llama", R"("tie_word_embeddings": false)"),
                      [] {
                        Shapes tied = llama();
                        tied.erase("lm_head.weight");
                        return tied;
                      }()),
              HasSubstr("must have the tensor, got lm_head.weight"));
  // A bias in one of two layers.
  Shapes two = llama();
  for (const auto& [name, shape] : llama())
    if (name.starts_with(layer)) two["model.layers.1." + name.substr(layer.size())] = shape;
  two["model.layers.1.self_attn.q_proj.bias"] = {8};
  std::string text = config("llama");
  text.replace(text.find("\"num_hidden_layers\": 1"), 22, "\"num_hidden_layers\": 2");
  EXPECT_THAT(refused(text, two), HasSubstr("in all layers or in none"));
  EXPECT_THAT(message_of([] { Converted<double>(config("llama"), llama()); }),
              HasSubstr("must have the type F32, F16 or BF16"));
}

TEST(GgufConversion, WhatTheGraphDoesNotComputeIsRefused) {
  EXPECT_THAT(refused(config("llama", R"("hidden_act": "relu")"), llama()),
              HasSubstr("hidden_act must be silu for llama in llama.cpp, got relu"));
  EXPECT_THAT(refused(config("mamba"), llama()),
              HasSubstr("model_type must be one of arcee, bloom, "));
  EXPECT_THAT(refused("{}", llama()), HasSubstr("got none"));
  std::string text = config("llama");
  text.replace(text.find("\"rms_norm_eps\""), 14, "\"rms_norm_epsilon\"");
  EXPECT_THAT(refused(text, llama()), HasSubstr("a config must have rms_norm_eps"));
  EXPECT_THAT(refused(config("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                "beta_fast": 4.0, "original_max_position_embeddings": 4096})"),
                      llama()),
              HasSubstr("frequencies of the model must be those that llama.cpp computes"));
  const Converted<float> windowed(config("mistral", R"("sliding_window": 16)"), llama());
  EXPECT_THAT(
      windowed.conversion.notes,
      ::testing::Contains(HasSubstr("no window in 1 of 1 layers of llama: contexts longer than "
                                    "16 tokens differ")));
}

// Graphs of llama.cpp that read no size of a head from the file.
TEST(GgufConversion, HeadsMustFillTheWidthWhereTheGraphDividesIt) {
  for (const char* type :
       {"cohere", "cohere2", "olmo2", "olmo3", "olmoe", "phi3", "qwen2", "starcoder2"}) {
    std::string text = config(type);
    text.replace(text.find("\"head_dim\": 4"), 13, "\"head_dim\": 8");
    EXPECT_THAT(refused(text, llama()), HasSubstr("heads x head_dim must be the width for"))
        << type;
  }
}

TEST(GgufConversion, ThePageHasEveryFamily) {
  const auto names = gguf_families();
  EXPECT_EQ(names.size(), 25u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  const std::string page = contents(GNOMON_SOURCE_DIR "/docs/model/gguf_conversion.md");
  for (const std::string& name : names) EXPECT_THAT(page, HasSubstr("`" + name + "`"));
}

}  // namespace gguf_conversion_test
}  // namespace gnomon::model
