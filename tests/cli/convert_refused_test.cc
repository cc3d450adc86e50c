// Errors of `gnomon convert`: no files remain, and no index is trusted.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "checkpoints.h"

namespace gnomon::cli {
namespace convert_refused_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::put;

class ConvertRefused : public ConvertProgram {};

TEST_F(ConvertRefused, ABrokenShardLeavesNothing) {
  put_model("in");
  const std::string whole = contents(file("in/" + shard_name(1)));
  for (const std::string& broken :
       {whole.substr(0, whole.size() - 1), whole + "x", whole.substr(0, 4), std::string(),
        std::string(8, '\xff') + whole.substr(8)}) {
    put(file("in/" + shard_name(1)), broken);
    EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent", "-o", file("out")}),
                AllOf(HasSubstr(shard_name(1)), HasSubstr("at byte")));
    EXPECT_THAT(names(), ElementsAre("in"));
  }
}

// Whether the file system supports files without a name, so that SIGKILL leaves no files
// behind.
bool nameless_files(const std::string& folder) {
#ifdef O_TMPFILE
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
#else
  return folder.empty();
#endif
}

TEST_F(ConvertRefused, FailingOrKilledWhileWritingLeavesNothing) {
  put_model("in");
  // The second shard exceeds a limit on the size of files.
  auto pieces = llama_layer(1);
  pieces.push_back({"lm_head.weight", "F32", {64, 1024}, 4});
  put(file("in/" + shard_name(1)), safetensors(pieces));
  const auto limited = [&](const std::string& on_limit, const std::string& out) {
    return testing::run("/bin/sh",
                        {"-c", on_limit + "ulimit -f 64; exec \"$0\" \"$@\"", GNOMON_PROGRAM,
                         "convert", file(out == "out" ? "in" : "in/" + shard_name(1)), "--to",
                         "adjacent", "-o", file(out)},
                        testing::Streams::separate);
  };
  for (const char* out : {"out", "out.safetensors"}) {
    const auto failed = limited("trap '' XFSZ; ", out);
    EXPECT_EQ(failed.code, 2);
    EXPECT_THAT(failed.errors, HasSubstr("must be a writable file"));
    EXPECT_THAT(names(), ElementsAre("in"));
    EXPECT_EQ(limited("", out).code, 128 + SIGXFSZ);
    EXPECT_FALSE(fs::exists(file(out)));
    if (nameless_files(file(""))) {
      EXPECT_THAT(names(), ElementsAre("in"));
    }
  }
}

TEST_F(ConvertRefused, AnIndexThatIsNotTrustedIsRefused) {
  put_model("in");
  put(file("outside.safetensors"), contents(file("in/" + shard_name(0))));
  const std::string tensor = "model.layers.0.self_attn.q_proj.weight";
  const auto with = [&](const std::string& shard) {
    put_index("in", {{tensor, shard}});
    return refused({"convert", file("in"), "--to", "adjacent", "-o", file("out")});
  };
  for (const std::string& path :
       {std::string("../outside.safetensors"), file("outside.safetensors"), std::string(".."),
        std::string("./" + shard_name(0)), std::string("a\\..\\b.safetensors"), std::string(),
        std::string("a\0.safetensors", 14), std::string("config.json"),
        std::string(300, 'x') + ".safetensors"})
    EXPECT_THAT(with(path), HasSubstr("must be the name of a .safetensors file beside"));
  EXPECT_THAT(with("none.safetensors"),
              HasSubstr("a shard of the index must exist, got none.safetensors"));
  put_index("in", {{tensor, shard_name(1)}});
  EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent", "-o", file("out")}),
              HasSubstr("a tensor of the index must be in its shard"));
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{\"weight_map\": 3}"),
        std::string("{\"weight_map\": {}}"), std::string("{\"weight_map\": {\"a\": 3}}"),
        std::string(100000, '['), std::string("\xff"), std::string()}) {
    put(file("in/model.safetensors.index.json"), text);
    EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent", "-o", file("out")}),
                AllOf(HasSubstr("index.json"), HasSubstr("at byte")));
  }
  EXPECT_THAT(names(), ElementsAre("in", "outside.safetensors"));
}

TEST_F(ConvertRefused, InIsNeverOut) {
  put_model("in");
  const std::string before = contents(file("in/" + shard_name(0)));
  fs::create_symlink(file("in"), file("link"));
  for (const char* out : {"in", "in/", "in/.", "link", "link/"})
    EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent", "-o", file(out)}),
                HasSubstr("OUT must not be IN"));
  put(file("config.json"), llama_config);
  fs::create_hard_link(file("in/" + shard_name(0)), file("hard.safetensors"));
  for (const std::string& out :
       {"in/" + shard_name(0), std::string("hard.safetensors"), "link/../in/" + shard_name(0)})
    EXPECT_THAT(
        refused({"convert", file("in/" + shard_name(0)), "--to", "adjacent", "-o", file(out)}),
        HasSubstr("OUT must not be IN"));
  EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent", "-o", file("no/such")}),
              HasSubstr("the parent folder of the output must exist"));
  EXPECT_THAT(refused({"convert", file("in"), "--to", "adjacent"}),
              HasSubstr("-o or --dry-run must be given"));
  EXPECT_EQ(contents(file("in/" + shard_name(0))), before);
}

TEST_F(ConvertRefused, WhatCannotBeConvertedIsNamed) {
  put(file("config.json"), llama_config);
  const auto with = [&](std::vector<Piece> pieces) {
    put(file("in.safetensors"), safetensors(pieces));
    return refused(
        {"convert", file("in.safetensors"), "--to", "adjacent", "-o", file("out.safetensors")});
  };
  EXPECT_THAT(with({{"model.layers.0.self_attn.q_proj.qweight", "I32", {2, 32}, 4}}),
              HasSubstr("got model.layers.0.self_attn.q_proj.qweight [2, 32]"));
  EXPECT_THAT(with({{"model.layers.0.self_attn.qkv_proj.weight", "F16", {64, 16}, 2}}),
              HasSubstr("fused"));
  EXPECT_THAT(with({{"model.embed_tokens.weight", "F16", {64, 16}, 2}}),
              HasSubstr("IN must have query or key projections with a known name"));
  EXPECT_THAT(with({{"a\nself_attn.q_proj.weight", "F16", {64, 16}, 2}}), HasSubstr("known"));
  const auto config = [&](const char* text) {
    put(file("config.json"), text);
    put(file("in.safetensors"), safetensors(llama_layer(0)));
    return refused(
        {"convert", file("in.safetensors"), "--to", "adjacent", "-o", file("out.safetensors")});
  };
  EXPECT_THAT(config(R"({"model_type": "mpt"})"), HasSubstr("must have a rotary encoding"));
  EXPECT_THAT(config(R"({"model_type": "gemma4", "text_config": {}})"),
              HasSubstr("keys must not share their rows with values"));
  EXPECT_THAT(config(R"({"model_type": "falcon", "num_attention_heads": 4, "hidden_size": 32,
                         "num_hidden_layers": 1, "alibi": true})"),
              HasSubstr("must have a rotary encoding, got alibi"));
  EXPECT_THAT(config("{"), AllOf(HasSubstr("config.json] not JSON"), HasSubstr("at byte")));
  EXPECT_THAT(config("[]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(
      config(R"({"model_type": "llama", "num_attention_heads": [4]})"),
      AllOf(HasSubstr("num_attention_heads must be an integer"), HasSubstr("at byte 47")));
  EXPECT_FALSE(fs::exists(file("out.safetensors")));
}

}  // namespace convert_refused_test
}  // namespace gnomon::cli
