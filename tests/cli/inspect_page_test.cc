// `gnomon inspect` and `gnomon rotate --config`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gnomon/io/npy.h"
#include "program.h"

namespace gnomon::cli {
namespace inspect_page_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* llama = R"({"model_type": "llama", "hidden_size": 64,
  "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096,
  "rope_theta": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})";

class Inspect : public InFolder {
 protected:
  Inspect() { std::ofstream(file("config.json")) << llama; }
};

TEST_F(Inspect, SaysItInWords) {
  const auto outcome = run({"inspect", folder()});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("llama, 2 layers, trained for 4096 positions"),
                    HasSubstr("layers 0-1: rotary, halves, 16 of 16 elements, base 10000"),
                    HasSubstr("linear: factor 4"), HasSubstr("softmax       x 0.25")));
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

// Every encoding of a group, then the other facts of its layers.
TEST_F(Inspect, SaysWhatALayerDoes) {
  const auto inspected = [&](const char* config) {
    std::ofstream(file("config.json")) << config;
    return done({"inspect", folder()});
  };
  EXPECT_THAT(
      inspected(R"({"model_type": "gpt_oss", "hidden_size": 64, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 2,
                    "sliding_window": 128, "layer_types":
                    ["sliding_attention", "full_attention"]})"),
      AllOf(HasSubstr("\nlayer 0: rotary, halves, 16 of 16 elements, base 150000"),
            HasSubstr("  heads         4 query heads, 2 key heads, head dimension 16\n"),
            HasSubstr("  mask          causal; keys at most 127 rows before the query\n"),
            HasSubstr("  mask          causal\n"),
            HasSubstr("  sinks         one trained sink per query head\n"),
            HasSubstr("  tensor        sinks: layers.{}.self_attn.sinks")));
  EXPECT_THAT(inspected(R"({"model_type": "gemma2", "hidden_size": 64, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 1,
                    "query_pre_attn_scalar": 64})"),
              AllOf(HasSubstr("  softmax       x 0.125\n"),
                    HasSubstr("  scores        capped at 50\n")));
  EXPECT_THAT(
      inspected(R"({"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 4,
                    "head_dim": 16, "num_hidden_layers": 1, "rms_norm_eps": 1e-6,
                    "num_key_value_heads": 2})"),
      HasSubstr("  norm of q, k  RMS over each head, epsilon 1e-06, before the rotation\n"));
  EXPECT_THAT(
      inspected(R"({"model_type": "deberta-v2", "hidden_size": 64, "num_attention_heads": 4,
                    "num_hidden_layers": 1, "relative_attention": true,
                    "pos_att_type": "p2c|c2p", "position_biased_input": true})"),
      AllOf(HasSubstr("layer 0: 2 encodings\n"), HasSubstr("  position      learned, rows 512"),
            HasSubstr("  position      deberta, "),
            HasSubstr("  mask          bidirectional\n"),
            HasSubstr("  softmax       x 0.14433757\n")));  // 1 / sqrt(3 x 16)
  EXPECT_THAT(inspected(R"({"model_type": "longformer", "hidden_size": 64,
                            "num_attention_heads": 4, "num_hidden_layers": 1})"),
              HasSubstr("  unsupported   global tokens, which attend to all tokens and are "
                        "attended by\n                all\n"));
  EXPECT_THAT(inspected(R"({"model_type": "mamba", "num_hidden_layers": 2})"),
              HasSubstr("layers 0-1: none: no attention\n"));
}

TEST_F(Inspect, APartOfTheLayers) {
  std::ofstream(file("config.json")) << R"({"model_type": "t5", "num_layers": 2,
      "num_decoder_layers": 3, "num_heads": 4, "d_model": 64})";
  const std::string both = done({"inspect", folder()});
  EXPECT_THAT(both,
              AllOf(HasSubstr("encoder layers 0-1: t5"), HasSubstr("decoder layers 0-2")));
  EXPECT_LT(both.find("encoder layers"), both.find("decoder layers"));
  const std::string one = done({"inspect", folder(), "--part", "decoder"});
  EXPECT_THAT(one, AllOf(HasSubstr("decoder layers 0-2"), Not(HasSubstr("encoder layers"))));
  EXPECT_THAT(refused({"inspect", folder(), "--part", "middle"}), HasSubstr("middle"));
}

TEST_F(Inspect, JsonOfAFolderAFileAndALength) {
  for (const std::string& path : {folder(), file("config.json")}) {
    const auto outcome = run({"inspect", path, "--json", "--length", "9000"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const Json json = Json::parse(outcome.output);
    EXPECT_EQ(json["length"], 9000);
    EXPECT_EQ(json["model_type"], "llama");
    const Json group = json["groups"][0];
    EXPECT_EQ(group["layers"], Json({0, 1}));
    EXPECT_EQ(group["kind"], "rotary");
    EXPECT_EQ(group["scaling"], Json({{"type", "linear"}, {"factor", 4.0}}));
    EXPECT_EQ(group["query_scale"], Json({{"type", "none"}}));
    EXPECT_TRUE(group["axes"].is_null());
    EXPECT_DOUBLE_EQ(group["inv_freq"][1].get<double>(), std::pow(10000, -0.125) / 4);
  }
}

TEST_F(Inspect, APageWithPictures) {
  const auto outcome = run({"inspect", folder(), "--html", file("page.html")});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  std::ostringstream page;
  page << std::ifstream(file("page.html")).rdbuf();
  EXPECT_THAT(page.str(), AllOf(StartsWith("<!doctype html>"), HasSubstr("layers 0-1"),
                                HasSubstr("wavelengths-0"), HasSubstr("decay-0"),
                                HasSubstr("(without the scaling: "),
                                HasSubstr("gnomon inspect " + folder() + " --html")));
}

// Llama 3.1: 500000^(i / 64) 2 pi > 131072 from i = 49 on, and > 131072 / 8 from i = 39 on.
TEST_F(Inspect, ThePageJudgesPairsByOneLength) {
  std::ofstream(file("config.json")) << R"({"model_type": "llama", "hidden_size": 4096,
    "num_attention_heads": 32, "num_hidden_layers": 2, "max_position_embeddings": 131072,
    "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192}})";
  done({"inspect", folder(), "--html", file("page.html")});
  std::ostringstream page;
  page << std::ifstream(file("page.html")).rdbuf();
  EXPECT_THAT(page.str(),
              AllOf(HasSubstr("25 of 64 pairs do not complete a rotation within 131072 "
                              "positions, the training length (without the scaling: 15)."),
                    HasSubstr("\"no full rotation in 131,072 tokens\""),
                    Not(HasSubstr("8192 positions")), Not(HasSubstr("in 8,192 tokens"))));
}

TEST_F(Inspect, OneLayer) {
  EXPECT_EQ(run({"inspect", folder(), "--layer", "1"}).code, 0);
  EXPECT_THAT(refused({"inspect", folder(), "--layer", "2"}),
              HasSubstr("--layer must be 0 to 1, got 2"));
}

TEST_F(Inspect, RefusesWithTheFileAndTheByte) {
  std::ofstream(file("bad.json")) << R"({"model_type": "llama", "hidden_size": "big"})";
  EXPECT_THAT(refused({"inspect", file("bad.json")}),
              AllOf(HasSubstr("bad.json]"), HasSubstr("hidden_size must be an integer"),
                    HasSubstr("at byte 39")));
  EXPECT_THAT(refused({"inspect", file("missing")}), HasSubstr("must be a readable file"));
  EXPECT_THAT(refused({"inspect"}), HasSubstr("PATH or --families must be given"));
  EXPECT_THAT(refused({"inspect", folder(), "--length", "0"}),
              HasSubstr("--length must be at least 1, got 0"));
  EXPECT_THAT(refused({"inspect", folder(), "-o", file("page.txt")}), HasSubstr("page.txt"));
}

TEST_F(Inspect, AssumesThePairingOfAnUnknownFamilyOnlyIfAsked) {
  std::ofstream(file("new.json")) << R"({"model_type": "newmodel", "hidden_size": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64,
    "rope_theta": 10000})";
  EXPECT_THAT(refused({"inspect", file("new.json")}),
              HasSubstr("newmodel is unknown and no key gives the pairing of its rotation: "
                        "assume_pairing (--assume-pairing) must be halves or adjacent"));
  const auto outcome = run({"inspect", file("new.json"), "--assume-pairing", "adjacent"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rotary, adjacent, 16 of 16"),
                                    HasSubstr("the pairing is an assumption: adjacent")));
  EXPECT_THAT(refused({"inspect", folder(), "--assume-pairing", "halves"}),
              HasSubstr("must be given only for an unknown family that rotates, got"));
}

// The page of the documentation has the output of the program. After a change of the output,
// replace the block on the page.
TEST_F(Inspect, TheTableOfFamiliesIsTheOneInTheDocs) {
  const auto outcome = run({"inspect", "--families"});
  ASSERT_EQ(outcome.code, 0);
  std::ostringstream page;
  page << std::ifstream(fs::path(GNOMON_SOURCE_DIR) / "docs/model/families.md").rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("\n\n" + outcome.output));
}

TEST_F(Inspect, TheTableOfArchitecturesIsTheOneInTheDocs) {
  const auto outcome = run({"inspect", "--architectures"});
  ASSERT_EQ(outcome.code, 0);
  std::ostringstream page;
  page << std::ifstream(fs::path(GNOMON_SOURCE_DIR) / "docs/model/gguf_architectures.md")
              .rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("\n\n" + outcome.output));
}

TEST_F(Inspect, RotatesAsTheModelDoes) {
  const auto x = testing::random_tensor<float, 3>({3, 2, 16});
  io::write_npy(file("q.npy"), io::Array::of(x.view()));
  const auto outcome = run({"rotate", file("q.npy"), "--positions", "5:8", "--config", folder(),
                            "--layer", "1", "-o", file("rotated.npy")});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const io::Array rotated = io::read_npy(file("rotated.npy"));
  const auto y = rotated.view<float, 3>();
  for (int t = 0; t < 3; ++t)
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 8; ++i) {
        const double angle = (5 + t) * std::pow(10000, -i / 8.0) / 4;
        const double a = x.view()(t, h, i), b = x.view()(t, h, i + 8);
        EXPECT_NEAR(y(t, h, i), a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(y(t, h, i + 8), a * std::sin(angle) + b * std::cos(angle), 1e-6);
      }
  EXPECT_THAT(refused({"rotate", file("q.npy"), "--positions", "0:3", "--config", folder(),
                       "--base", "500", "-o", file("no.npy")}),
              HasSubstr("must not be given with --config"));
  EXPECT_THAT(refused({"rotate", file("q.npy"), "--positions", "0:3", "-o", file("no.npy")}),
              HasSubstr("either --config or --pairing must be given"));
}

TEST_F(Inspect, RotateNeedsALayerWithOneRotation) {
  const auto x = testing::random_tensor<float, 3>({3, 2, 16});
  io::write_npy(file("q.npy"), io::Array::of(x.view()));
  const auto rotate = [&](const char* config, std::vector<std::string> more = {}) {
    std::ofstream(file("config.json")) << config;
    std::vector<std::string> all{"rotate",   file("q.npy"), "--positions", "0:3",
                                 "--config", folder(),      "-o",          file("out.npy")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_THAT(refused(rotate(R"({"model_type": "bloom", "hidden_size": 32, "n_head": 2,
                                 "n_layer": 1})")),
              HasSubstr("[rotate] layer 0 must have one rotary encoding, got alibi"));
  EXPECT_THAT(refused(rotate(R"({"model_type": "gemma4_vision", "hidden_size": 32,
                                 "num_attention_heads": 2, "num_hidden_layers": 1,
                                 "head_dim": 16})")),
              HasSubstr("layer 0 must have one rotary encoding, got rotary"));
  constexpr const char* t5 = R"({"model_type": "t5", "num_layers": 1,
      "num_decoder_layers": 2, "num_heads": 2, "d_model": 32})";
  EXPECT_THAT(refused(rotate(t5)),
              HasSubstr("[model] part of t5 must be one of decoder, encoder, got none"));
  EXPECT_THAT(refused(rotate(t5, {"--part", "decoder", "--layer", "1"})),
              HasSubstr("layer 1 must have one rotary encoding, got t5"));
  EXPECT_THAT(refused(rotate(t5, {"--part", "encoder", "--layer", "1"})),
              HasSubstr("layer must be one of 1, got 1"));
  EXPECT_THAT(refused({"rotate", file("q.npy"), "--positions", "0:3", "--pairing", "halves",
                       "--part", "decoder", "-o", file("no.npy")}),
              HasSubstr("--part requires --config, got none"));
}

}  // namespace inspect_page_test
}  // namespace gnomon::cli
