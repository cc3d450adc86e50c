// Errors of read_gguf: rule, value and byte.
#include <cmath>
#include <string>
#include <vector>

#include "model/gguf_model.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_errors_test {

using ::testing::HasSubstr;
using namespace gnomon::testing;

TEST(GgufErrors, Architecture) {
  const std::string none = GgufBuilder().u32("llama.block_count", 2).file();
  EXPECT_THAT(message_of([&] { read(none); }),
              HasSubstr("general.architecture is missing, at byte 0"));
  refused(Model("mystery"), "the architecture \"mystery\" is unknown", "general.architecture");
  refused(Model("Llama"), "the architecture \"Llama\" is unknown", "general.architecture");
  refused(Model(std::string("a\n\x07") + std::string(5000, 'b')),
          "architecture \"a\\x0a\\x07bbb", "general.architecture");
  GgufBuilder number;
  number.u32("general.architecture", 3);
  EXPECT_THAT(message_of([&] { read(number.file()); }),
              HasSubstr("\"general.architecture\" must be a text, got u32"));
}

TEST(GgufErrors, Sizes) {
  refused(Model("llama", {.layers = 0}), "llama.block_count is missing");
  refused(Model("llama", {.heads = 0}), "llama.attention.head_count is missing");
  refused(Model("llama", {.width = 0}), "llama.embedding_length is missing");
  refused(Model("mamba", {.layers = 0, .heads = 0}), "mamba.block_count is missing");
  refused(Model("llama", {.layers = 65537}), "llama.block_count must be 1 to 65536, got 65537",
          ".block_count");
  refused(Model("llama", {.heads = 65537}), "head_count must be 0 to 65536, got 65537",
          ".attention.head_count");
  refused(Model("llama", {.heads = 3}),
          "embedding_length must be a multiple of the heads 3, got 64", ".embedding_length");
  refused(Model("llama", {.heads = 1, .width = 1 << 20}), "embedding_length must be a multiple",
          ".embedding_length");
  refused(Model("llama", {.width = 1 << 25}), "embedding_length must be 1 to 16777216",
          ".embedding_length");
  Model zero("llama", {.heads = 0});
  zero.u32("llama.attention.head_count", 0);
  refused(zero, "attention.head_count must be at least 1, got 0", ".attention.head_count");
  Model negative("llama", {.layers = 0});
  negative.entry("llama.block_count", gguf_i32, gguf_bytes(std::int32_t{-1}));
  refused(negative, "llama.block_count must be 1 to 65536, got -1", ".block_count");
  Model word("llama", {.layers = 0});
  word.word(".block_count", "two");
  refused(word, "\"llama.block_count\" must be an integer, got text", ".block_count");
  Model beyond("llama", {.length = 0});
  beyond.entry("llama.context_length", gguf_u64, gguf_bytes(std::uint64_t{1} << 63));
  refused(beyond, "\"llama.context_length\" has an integer outside int64", ".context_length");
}

TEST(GgufErrors, HeadsByLayer) {
  const auto with = [](const std::vector<std::int32_t>& heads) {
    return Model("llama", {.heads = 0}).integers(".attention.head_count", heads);
  };
  EXPECT_EQ(read(with({4, 4, 0, 4})).groups.size(), 2u);
  EXPECT_EQ(read(with({4})).groups.size(), 1u);
  refused(with({}), "llama.attention.head_count is missing");
  refused(with({4, 4, 4}), "head_count must have one value for each of 4 layers, got 3",
          ".attention.head_count");
  refused(with({4, -4, 4, 4}), "head_count must be 0 to 65536, got -4",
          ".attention.head_count");
  refused(Model("llama", {.heads = 0}).number(".attention.head_count", 4),
          "must be integers, got f32", ".attention.head_count");
}

TEST(GgufErrors, Turning) {
  for (const float base : {0.0f, 1.0f, -10000.0f})
    refused(Model("llama").number(".rope.freq_base", base),
            "rope.freq_base must be greater than 1, got ", ".rope.freq_base");
  for (const float base : {NAN, INFINITY})
    refused(Model("llama").number(".rope.freq_base", base), "rope.freq_base must be finite",
            ".rope.freq_base");
  refused(Model("gemma3").size(".attention.sliding_window", 8).number(".rope.freq_base_swa", 1),
          "rope.freq_base_swa must be greater than 1, got 1", ".rope.freq_base_swa");
  refused(Model("phi2").size(".rope.dimension_count", 7),
          "rope.dimension_count must be even and at most 16, got 7", ".rope.dimension_count");
  refused(Model("phi2").size(".rope.dimension_count", 18), "at most 16, got 18",
          ".rope.dimension_count");
  Model gemma("gemma4");
  gemma.size(".attention.sliding_window", 8);
  gemma.booleans(".attention.sliding_window_pattern", {1, 1, 0, 0});
  refused(gemma.size(".rope.dimension_count_swa", 18), "at most 16, got 18",
          ".rope.dimension_count_swa");
  refused(Model("qwen2vl"), "qwen2vl.rope.dimension_sections is missing");
  for (const auto& sections : std::vector<std::vector<std::int32_t>>{
           {3, 3, 3, 0}, {-1, 5, 4, 0}, {9}, {}, {2, 2, 2, 2, 0}})
    refused(Model("qwen2vl").integers(".rope.dimension_sections", sections),
            "rope.dimension_sections does not fit: ", ".rope.dimension_sections");
  const auto cohere = [] { return Model("cohere2").size(".attention.sliding_window", 8); };
  refused(cohere().booleans(".attention.sliding_window_pattern", {1, 0}),
          "sliding_window_pattern must have one value for each of 4 layers, got 2",
          ".attention.sliding_window_pattern");
  refused(cohere().number(".attention.sliding_window_pattern", 4), "must be an integer",
          ".attention.sliding_window_pattern");
}

TEST(GgufErrors, Scaling) {
  refused(Model("llama").word(".rope.scaling.type", "dynamic"),
          "rope.scaling.type must be none, linear, yarn or longrope, got dynamic",
          ".rope.scaling.type");
  refused(Model("llama").word(".rope.scaling.type", "longrope"),
          "longrope requires rope_factors_long.weight", ".rope.scaling.type");
  refused(Model("llama").size(".rope.scaling.type", 1), "must be a text, got u32",
          ".rope.scaling.type");
  refused(Model("llama").number(".rope.scaling.factor", -2),
          "rope.scaling.factor must be positive, got -2", ".rope.scaling.factor");
  for (const float factor : {NAN, INFINITY})
    refused(Model("llama").number(".rope.scaling.factor", factor),
            "rope.scaling.factor must be finite", ".rope.scaling.factor");
  const auto yarn = [](const std::string& name, float value) {
    Model model("grok");
    model.word(".rope.scaling.type", "yarn").number(".rope.scaling.factor", 4);
    return model.number(name, value);
  };
  for (const char* name : {".rope.scaling.yarn_beta_fast", ".rope.scaling.yarn_beta_slow",
                           ".rope.scaling.attn_factor"})
    for (const float value : {0.0f, -1.0f})
      refused(yarn(name, value), " must be positive, got ", name);
  Model negative("deepseek2");
  negative.word(".rope.scaling.type", "yarn").number(".rope.scaling.yarn_log_multiplier", -1);
  refused(negative, "must be positive, got -1", ".rope.scaling.yarn_log_multiplier");
  refused(yarn(".rope.scaling.yarn_ext_factor", 0.5f),
          "rope.scaling.yarn_ext_factor must be 0 or 1, got 0.5",
          ".rope.scaling.yarn_ext_factor");
  Model lengthless("llama", {.length = 0});
  lengthless.word(".rope.scaling.type", "yarn");
  refused(lengthless, "llama.rope.scaling.original_context_length is missing");
  Model timeless("mistral3", {.length = 0});
  refused(timeless.number(".attention.temperature_scale", 0.1f),
          "mistral3.rope.scaling.original_context_length is missing");
  refused(Model("mistral3").number(".attention.temperature_scale", -0.5f),
          "attention.temperature_scale must be positive, got -0.5",
          ".attention.temperature_scale");
  refused(Model("granite").number(".attention.scale", -0.5f),
          "attention.scale must be positive, got -0.5", ".attention.scale");
}

// Expects this reason, at the bytes of the tensor.
void tensor_refused(const Model& model, const std::string& name, const std::string& reason) {
  const std::string file = model.file();
  const Gguf gguf(std::as_bytes(std::span(file)), "x.gguf");
  try {
    read_gguf(gguf);
    ADD_FAILURE() << "is taken; expected: " << reason;
  } catch (const FormatError& error) {
    EXPECT_THAT(error.reason(), HasSubstr(reason));
    EXPECT_EQ(error.offset(), gguf.find_tensor(name)->offset);
  }
}

TEST(GgufErrors, Factors) {
  const std::string freqs = "rope_freqs.weight";
  const std::string longer = "rope_factors_long.weight", shorter = "rope_factors_short.weight";
  tensor_refused(Model("llama").factors(freqs, {1, 1, 1}), freqs,
                 freqs + " must have one factor for each of 8 pairs, got 3");
  for (const float bad : {0.0f, -1.0f, NAN, INFINITY})
    tensor_refused(Model("llama").factors(freqs, {1, 1, 1, 1, 1, 1, 1, bad}), freqs,
                   freqs + " must be finite and positive, got ");
  refused(Model("llama").factors(longer, std::vector<float>(8, 1)), "must both be given");
  refused(Model("llama").factors(shorter, std::vector<float>(8, 1)), "must both be given");
  Model quantized("llama");
  quantized.tensor(freqs, {32}, 2, std::string(18, 'q'));
  quantized.size(".rope.dimension_count", 16);
  tensor_refused(quantized, freqs, "one factor for each of 8 pairs, got 32");
  Model integers("llama");
  integers.tensor(freqs, {8}, 26, std::string(32, '\1'));
  tensor_refused(integers, freqs, "not F32, F16, BF16, F64, Q8_0 or Q4_0");
  // The error of a file without tensor bytes is at the end of the file.
  Model missing("llama");
  missing.tensor_at(freqs, {8}, 0, 1 << 20);
  const std::string file = missing.file();
  EXPECT_THAT(message_of([&] { read(file); }),
              HasSubstr("the file ends before the 32 bytes of tensor"));
}

TEST(GgufErrors, Biases) {
  refused(Model("t5"), "relative_buckets_count must be even and at least 4, got 0");
  for (const std::uint32_t buckets : {2u, 31u})
    refused(Model("t5").size(".attention.relative_buckets_count", buckets),
            "relative_buckets_count must be even and at least 4, got ",
            ".attention.relative_buckets_count");
  for (const float bias : {-8.0f, NAN})
    refused(Model("mpt").number(".attention.max_alibi_bias", bias),
            "attention.max_alibi_bias must be ", ".attention.max_alibi_bias");
  Model empty("gpt2");
  empty.tensor("position_embd.weight", {64, 0}, 0, "");
  refused(empty, "position_embd.weight must not be empty");
}

// Every truncation of a small file, and every changed byte, gives a description or FormatError.
TEST(GgufErrors, SurvivesChangedBytes) {
  Model model("llama");
  model.factors("rope_freqs.weight", std::vector<float>(8, 2))
      .word(".rope.scaling.type", "linear");
  const std::string file = model.file();
  ASSERT_NO_THROW(read(file));
  const auto attempt = [](const std::string& changed) {
    try {
      read(changed);
    } catch (const FormatError& error) {
      EXPECT_LE(error.offset(), changed.size()) << error.what();
    }
  };
  for (std::size_t at = 0; at < file.size(); ++at) {
    attempt(file.substr(0, at));
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ mask);
      attempt(changed);
    }
  }
}

}  // namespace gguf_errors_test
}  // namespace gnomon::model
