// `gnomon convert`: the converted weights compute the same, and converting back gives the same
// file. Errors: convert_refused_test.cc.
#include <cmath>

#include "checkpoints.h"
#include "model/layer.h"

namespace gnomon::cli {
namespace convert_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::put;

TEST_F(ConvertProgram, ThereAndBackIsTheSameFileByteForByte) {
  std::vector<Piece> pieces = llama_layer(0);
  pieces.push_back({"model.norm.weight", "F32", {3}, 4});
  pieces.push_back({"model.layers.1.self_attn.q_proj.weight", "F8_E4M3", {32, 5}, 1});
  pieces.push_back({"model.layers.1.self_attn.q_proj.weight_scale", "F32", {}, 4});
  pieces.push_back({"model.layers.1.self_attn.k_proj.weight", "F64", {16, 1}, 8});
  pieces.push_back({"model.layers.1.self_attn.k_proj.bias", "XYZ", {16}, 3});
  pieces.push_back({"empty", "I64", {0, 4}, 8});
  put(file("config.json"), llama_config);
  for (const std::string& original :
       {safetensors(pieces, R"({"format":"pt","\u00e9":"x"})"), safetensors(pieces)}) {
    put(file("in.safetensors"), original);
    done({"convert", file("in.safetensors"), "--to", "adjacent", "-o", file("a.safetensors")});
    done({"convert", file("a.safetensors"), "--to", "halves", "-o", file("b.safetensors")});
    EXPECT_NE(contents(file("a.safetensors")), original);
    EXPECT_EQ(contents(file("a.safetensors")).size(), original.size());
    EXPECT_EQ(contents(file("b.safetensors")), original);
    EXPECT_EQ(contents(file("in.safetensors")), original);
  }
  // The header and other tensors are copied.
  const io::SafeTensors in(file("in.safetensors")), out(file("a.safetensors"));
  for (const io::TensorEntry& entry : in.tensors()) {
    const auto before = in.tensor(entry).bytes(), after = out.tensor(entry.name).bytes();
    const bool moves = entry.name.find("q_proj.weight") == entry.name.size() - 13 ||
                       entry.name.find("k_proj") != std::string::npos;
    EXPECT_EQ(!std::equal(before.begin(), before.end(), after.begin(), after.end()), moves)
        << entry.name;
  }
  EXPECT_THAT(names(),
              ElementsAre("a.safetensors", "b.safetensors", "config.json", "in.safetensors"));
}

TEST_F(ConvertProgram, AHeaderIsCopiedAsItIsWritten) {
  put(file("config.json"), llama_config);
  const std::string plain = safetensors(llama_layer(0), R"({"b":"1","a":"2"})");
  const std::size_t header =
      static_cast<unsigned char>(plain[0]) + 256u * static_cast<unsigned char>(plain[1]);
  std::string text = plain.substr(8, header);
  for (std::size_t at = 0; (at = text.find(":[", at)) != std::string::npos; at += 4)
    text.replace(at, 2, " :\n [");
  std::string odd(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) odd[i] = static_cast<char>(text.size() >> (8 * i));
  odd += text + plain.substr(8 + header);
  put(file("in.safetensors"), odd);
  done({"convert", file("in.safetensors"), "--to", "halves", "-o", file("a.safetensors")});
  EXPECT_EQ(contents(file("a.safetensors")).substr(0, 8 + text.size()),
            odd.substr(0, 8 + text.size()));
  done({"convert", file("a.safetensors"), "--to", "adjacent", "-o", file("b.safetensors")});
  EXPECT_EQ(contents(file("b.safetensors")), odd);
}

// Converts a layer of double weights in a file and back.
void write_layer(const std::string& path, const testing::Layer& layer) {
  std::vector<io::NamedArray> tensors;
  for (const auto& [name, tensor] : layer.tensors)
    tensors.push_back({name, io::Array(io::Element::f64, tensor.first,
                                       std::as_bytes(std::span(tensor.second)))});
  io::write_safetensors(path, tensors);
}
testing::Layer read_layer(const std::string& path, const model::AttentionSizes& sizes) {
  testing::Layer layer{.sizes = sizes, .tensors = {}};
  const io::SafeTensors file(path);
  for (const io::TensorEntry& entry : file.tensors())
    layer.tensors[entry.name] = {entry.shape, file.tensor(entry).to_doubles()};
  return layer;
}
void expect_same(const testing::Numbers& got, const testing::Numbers& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-9);
}

TEST_F(ConvertProgram, ScoresOfConvertedFilesAreTheSame) {
  const std::string prefix = "model.layers.0.self_attn.";
  for (const std::int64_t dim : {8, 16, 64, 96, 128, 256})
    for (const double share : {1.0, 0.5, 0.25}) {
      const model::AttentionSizes sizes{
          .heads = 4,
          .key_heads = 2,
          .head_dim = dim,
          .rotary_dim = static_cast<std::int64_t>(static_cast<double>(dim) * share)};
      testing::Layer layer{.sizes = sizes, .tensors = {}};
      layer.add(prefix + "q_proj.weight", {4 * dim, 12}, 1);
      layer.add(prefix + "k_proj.weight", {2 * dim, 12}, 2);
      layer.add(prefix + "q_proj.bias", {4 * dim}, 3);
      layer.add(prefix + "k_proj.bias", {2 * dim}, 4);
      layer.add(prefix + "q_norm.weight", {dim}, 5);
      layer.add(prefix + "k_norm.weight", {dim}, 6);
      write_layer(file("in.safetensors"), layer);
      put(file("config.json"), Json({{"model_type", "glm4_moe"},
                                     {"num_hidden_layers", 1},
                                     {"num_attention_heads", 4},
                                     {"num_key_value_heads", 2},
                                     {"head_dim", dim},
                                     {"hidden_size", 12},
                                     {"max_position_embeddings", 64},
                                     {"rope_theta", 10000.0},
                                     {"partial_rotary_factor", share}})
                                   .dump());
      done(
          {"convert", file("in.safetensors"), "--to", "adjacent", "-o", file("o.safetensors")});
      expect_same(
          testing::scores(read_layer(file("o.safetensors"), sizes), Pairing::adjacent, prefix),
          testing::scores(layer, Pairing::halves, prefix));
    }
}

TEST_F(ConvertProgram, ScoresOfLatentAttentionAreTheSame) {
  const std::string prefix = "model.layers.0.self_attn.";
  const model::AttentionSizes sizes{.heads = 3,
                                    .key_heads = 3,
                                    .head_dim = 24,
                                    .rotary_dim = 8,
                                    .head_offset = 16,
                                    .kv_lora_rank = 10};
  testing::Layer layer{.sizes = sizes, .tensors = {}};
  layer.add(prefix + "q_b_proj.weight", {72, 12}, 1);
  layer.add(prefix + "kv_a_proj_with_mqa.weight", {18, 12}, 2);
  layer.add(prefix + "kv_b_proj.weight", {120, 10}, 3);
  layer.add(prefix + "kv_a_layernorm.weight", {10}, 4);
  write_layer(file("in.safetensors"), layer);
  put(file("config.json"),
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, "num_attention_heads": 3,
          "num_key_value_heads": 3, "hidden_size": 12, "qk_nope_head_dim": 16,
          "q_lora_rank": 12, "qk_rope_head_dim": 8, "v_head_dim": 24, "kv_lora_rank": 10,
          "rope_theta": 10000.0, "max_position_embeddings": 64, "rope_interleave": true})");
  const std::string said =
      done({"convert", file("in.safetensors"), "--to", "halves", "-o", file("o.safetensors")});
  EXPECT_THAT(said, HasSubstr("note: config.json has rope_interleave: true"));
  expect_same(testing::latent_scores(read_layer(file("o.safetensors"), sizes), Pairing::halves,
                                     prefix, "q_b_proj"),
              testing::latent_scores(layer, Pairing::adjacent, prefix, "q_b_proj"));
}

TEST_F(ConvertProgram, AFolderComesWholeWithItsIndexAndCompanions) {
  put_model("in");
  const std::string said =
      done({"convert", file("in"), "--to", "adjacent", "-o", file("out") + "/"});
  EXPECT_THAT(said, AllOf(HasSubstr("4 tensors changed, 4 unchanged, 2 files"),
                          HasSubstr("copied: config.json, tokenizer.json"),
                          HasSubstr("not copied: .hidden, original, pytorch_model.bin")));
  EXPECT_THAT(names("out"), ElementsAre("config.json", shard_name(0), shard_name(1),
                                        "model.safetensors.index.json", "tokenizer.json"));
  EXPECT_THAT(names(), ElementsAre("in", "out"));
  EXPECT_NE(contents(file("out/" + shard_name(1))), contents(file("in/" + shard_name(1))));
  // Convert by the index, into an existing empty folder.
  fs::create_directory(file("back"));
  done({"convert", file("out/model.safetensors.index.json"), "--to", "halves", "-o",
        file("back")});
  for (const std::string& name : names("back"))
    EXPECT_EQ(contents(file("back/" + name)), contents(file("in/" + name))) << name;
  EXPECT_EQ(names("back"), names("out"));
}

TEST_F(ConvertProgram, AFileOfAModelTakesNoDescriptorUntilTheEnd) {
  put_model("in");
  fs::remove(file("in/" + shard_name(1)));
  nlohmann::json map;
  constexpr int shards = 200;
  for (int i = 0; i < shards; ++i) {
    const Piece piece{
        "model.layers." + std::to_string(i) + ".self_attn.q_proj.weight", "BF16", {32, 16}, 2};
    map[piece.name] = "s" + std::to_string(i) + ".safetensors";
    put(file("in/" + map[piece.name].get<std::string>()), safetensors({piece}));
  }
  put_index("in", map);
  const auto outcome =
      testing::run("/bin/sh",
                   {"-c", "ulimit -n 128; exec \"$0\" \"$@\"", GNOMON_PROGRAM, "convert",
                    file("in"), "--to", "adjacent", "-o", file("out")},
                   testing::Streams::separate);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("200 tensors changed, 0 unchanged, 200 files"));
  EXPECT_EQ(names("out").size(), shards + 3u);  // index, config, tokenizer
  EXPECT_THAT(names(), ElementsAre("in", "out"));
}

TEST_F(ConvertProgram, AFolderWithOneFileNeedsNoIndex) {
  fs::create_directory(file("in"));
  put(file("in/config.json"), llama_config);
  put(file("in/model.safetensors"), safetensors(llama_layer(0)));
  done({"convert", file("in"), "--to", "adjacent", "-o", file("out")});
  EXPECT_THAT(names("out"), ElementsAre("config.json", "model.safetensors"));
  fs::rename(file("in/model.safetensors"), file("in/a.safetensors"));
  put(file("in/b.safetensors"), safetensors(llama_layer(0)));
  EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent", "-o", file("x")}),
              HasSubstr("must have model.safetensors or one *.safetensors, got a.safetensors"));
  EXPECT_THAT(refused({"convert", file("out"), "--to", "adjacent", "-o", file("out/../in")}),
              HasSubstr("the output folder must be new or empty"));
}

TEST_F(ConvertProgram, ADryRunShowsAndWritesNothing) {
  put_model("in");
  const std::string said = done({"convert", file("in"), "--to", "adjacent", "--dry-run"});
  EXPECT_THAT(said, AllOf(HasSubstr("model.layers.1.self_attn.k_proj.weight  BF16   [16, 16]"),
                          HasSubstr("4 x 8"), HasSubstr("4 tensors would change, 4 unchanged"),
                          Not(HasSubstr("v_proj"))));
  const Json json =
      Json::parse(done({"convert", file("in"), "--to", "adjacent", "--dry-run", "--json"}));
  EXPECT_EQ(json["changed"], 4);
  EXPECT_EQ(json["unchanged"], 4);
  EXPECT_EQ(json["from"], "halves");
  EXPECT_EQ(json["head_dim"], 8);
  EXPECT_TRUE(json["out"].is_null());
  EXPECT_EQ(json["files"][0]["changed"][0],
            Json({{"name", "model.layers.0.self_attn.q_proj.weight"},
                  {"dtype", "BF16"},
                  {"shape", {32, 16}},
                  {"heads", 4},
                  {"rows", 8}}));
  EXPECT_THAT(names(), ElementsAre("in"));
  // Names in files may contain control characters, which are not printed.
  put(file("config.json"), llama_config);
  put(file("odd.safetensors"),
      safetensors({{"\x1b[2J.self_attn.q_proj.weight", "F16", {32, 1}, 2}}));
  EXPECT_THAT(done({"convert", file("odd.safetensors"), "--to", "adjacent", "--dry-run"}),
              HasSubstr("\n\\x1b[2J.self_attn.q_proj.weight  F16"));
}

TEST_F(ConvertProgram, SizesComeFromConfigsOfEverySpelling) {
  struct Case {
    const char* config;
    std::vector<Piece> pieces;
    int heads;  // slices of the first tensor
  };
  const Case cases[] = {
      {R"({"model_type": "gpt_neox", "num_attention_heads": 4, "hidden_size": 32,
           "num_hidden_layers": 1, "rotary_pct": 0.5, "max_position_embeddings": 64})",
       {{"gpt_neox.layers.0.attention.query_key_value.weight", "F16", {96, 32}, 2}},
       8},
      {R"({"model_type": "falcon", "num_attention_heads": 4, "hidden_size": 32,
           "num_hidden_layers": 1, "multi_query": true, "new_decoder_architecture": false})",
       {{"transformer.h.0.self_attention.query_key_value.weight", "F16", {48, 32}, 2}},
       5},
      {R"({"model_type": "falcon", "num_attention_heads": 4, "num_kv_heads": 2,
           "hidden_size": 32, "num_hidden_layers": 1, "new_decoder_architecture": true})",
       {{"transformer.h.0.self_attention.query_key_value.weight", "F16", {64, 32}, 2}},
       6},
      {R"({"model_type": "phi3", "num_attention_heads": 4, "num_key_value_heads": 2,
           "hidden_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 64})",
       {{"model.layers.0.self_attn.qkv_proj.weight", "F16", {64, 32}, 2}},
       6},
      {R"({"model_type": "qwen2_vl", "text_config": {"model_type": "qwen2",
           "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32,
           "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_theta": 10000}})",
       {{"model.language_model.layers.0.self_attn.q_proj.weight", "F16", {32, 32}, 2},
        {"visual.blocks.0.attn.qkv.weight", "F16", {9, 3}, 2}},
       4},
  };
  for (const Case& one : cases) {
    put(file("config.json"), one.config);
    put(file("in.safetensors"), safetensors(one.pieces));
    const Json json = Json::parse(
        done({"convert", file("in.safetensors"), "--to", "adjacent", "--dry-run", "--json"}));
    EXPECT_EQ(json["changed"], 1) << one.config;
    EXPECT_EQ(json["files"][0]["changed"][0]["heads"], one.heads) << one.config;
  }
  // Meta's own files.
  fs::remove(file("config.json"));
  put(file("params.json"), R"({"dim": 32, "n_heads": 4, "n_kv_heads": 2, "n_layers": 1})");
  put(file("in.safetensors"),
      safetensors({{"layers.0.attention.wq.weight", "BF16", {32, 32}, 2},
                   {"layers.0.attention.wk.weight", "BF16", {16, 32}, 2}}));
  const Json meta = Json::parse(
      done({"convert", file("in.safetensors"), "--to", "halves", "--dry-run", "--json"}));
  EXPECT_EQ(meta["family"], "meta");
  EXPECT_EQ(meta["changed"], 2);
}

TEST_F(ConvertProgram, OptionsDoWithoutAConfig) {
  put(file("adapter.safetensors"),
      safetensors({{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                    "F32",
                    {2, 16},
                    4},
                   {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                    "F32",
                    {32, 2},
                    4}}));
  const std::vector<std::string> begin{"convert", file("adapter.safetensors"), "--to", "halves",
                                       "--dry-run"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), begin.begin(), begin.end());
    return more;
  };
  EXPECT_THAT(refused(with({})), HasSubstr("--heads and --head-dim must be given"));
  EXPECT_THAT(
      done(with({"--heads", "4", "--head-dim", "8"})),
      HasSubstr("4 x 8\nllama-like: 4 query heads, 4 key heads; 8 of 8 elements rotate"));
  EXPECT_THAT(done(with({"--heads", "4", "--head-dim", "8", "--rotary-dim", "4", "--first", "4",
                         "--kv-heads", "2", "--family", "llama", "--kv-lora-rank", "3"})),
              HasSubstr("4 x 4\nllama: 4 query heads, 2 key heads; 4 of 8 elements rotate"));
  put(file("elsewhere.json"), llama_config);
  EXPECT_THAT(done(with({"--config", file("elsewhere.json")})),
              AllOf(HasSubstr("llama: 4 query heads"),
                    HasSubstr("note: llama is published with pairing halves: "
                              "IN is assumed to have been converted\n")));
  EXPECT_THAT(refused(with({"--config", file("elsewhere.json"), "--family", "llama", "--heads",
                            "4", "--kv-heads", "4", "--head-dim", "8", "--rotary-dim", "8"})),
              HasSubstr("--config must not be given with --family and all sizes"));
  EXPECT_THAT(refused(with({"--heads", "4", "--head-dim", "8", "--rotary-dim", "7"})),
              HasSubstr("[conversion] rotary_dim must be even, got 7"));
  EXPECT_THAT(refused(with({"--heads", "3", "--head-dim", "8"})),
              HasSubstr("must have 24 rows"));
  EXPECT_THAT(refused({"convert", file("adapter.safetensors"), "--to", "half", "--dry-run"}),
              HasSubstr("--to must be one of halves, adjacent, gguf, got half"));
}

}  // namespace convert_test
}  // namespace gnomon::cli
