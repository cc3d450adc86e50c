// `gnomon convert --to gguf`: reports, and errors that leave no file. The contents of the file:
// tests/model/gguf_conversion_test.cc.
#include <csignal>
#include <fstream>

#include "checkpoints.h"

namespace gnomon::cli {
namespace convert_gguf_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::put;

class ConvertToGguf : public ConvertProgram {};

TEST_F(ConvertToGguf, TheReportTellsWhatIsWritten) {
  put_llama("in");
  const auto dry = done({"convert", file("in"), "--to", "gguf", "--dry-run"});
  EXPECT_THAT(dry, AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("BF16  [32, 32]"),
                         HasSubstr("would be written")));
  EXPECT_THAT(names(), ElementsAre("in"));
  const Json report = Json::parse(
      done({"convert", file("in"), "--to", "gguf", "--json", "-o", file("out.gguf")}));
  EXPECT_EQ(report["architecture"], "llama");
  EXPECT_EQ(report["tensors"].size(), 11u);
  EXPECT_EQ(report["bytes"], fs::file_size(file("out.gguf")));
  EXPECT_THAT(report["notes"].dump(), HasSubstr("no vocabulary"));
  const Json model = Json::parse(done({"inspect", file("out.gguf"), "--json"}));
  EXPECT_EQ(model["model_type"], "llama");
  EXPECT_EQ(model["groups"][0]["pairing"], "adjacent");
}

TEST_F(ConvertToGguf, BadCallsWriteNothing) {
  put_llama("in");
  put(file("there.gguf"), "before");
  fs::create_symlink(file("nowhere"), file("link.gguf"));
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> call{"convert", file("in"), "--to", "gguf"};
    call.insert(call.end(), more.begin(), more.end());
    return refused(call);
  };
  EXPECT_THAT(with({}), HasSubstr("-o or --dry-run must be given"));
  EXPECT_THAT(with({"-o", file("out.safetensors")}), HasSubstr("-o must end in .gguf"));
  for (const char* out : {"there.gguf", "link.gguf"})
    EXPECT_THAT(with({"-o", file(out)}), HasSubstr("OUT must not exist"));
  for (const char* option : {"--heads", "--rotary-dim", "--first"})
    EXPECT_THAT(with({option, "4", "-o", file("out.gguf")}), HasSubstr(option));
  EXPECT_THAT(with({"--family", "llama", "-o", file("out.gguf")}), HasSubstr("--family"));
  EXPECT_THAT(
      refused({"convert", file("in"), "--to", "adjacent", "--type", "f16", "-o", file("out")}),
      HasSubstr("--type"));
  EXPECT_THAT(refused({"convert", file("in/model.safetensors"), "--to", "gguf", "-o",
                       file("out.gguf")}),
              HasSubstr("MODEL must be a folder"));
  fs::remove(file("in/config.json"));
  EXPECT_THAT(with({"-o", file("out.gguf")}), HasSubstr("config.json"));
  EXPECT_EQ(contents(file("there.gguf")), "before");
  EXPECT_THAT(names(), ElementsAre("in", "link.gguf", "there.gguf"));
}

TEST_F(ConvertToGguf, AFullDiskLeavesNothing) {
  put_llama("in");
  const auto failed =
      testing::run("/bin/sh",
                   {"-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"", GNOMON_PROGRAM,
                    "convert", file("in"), "--to", "gguf", "-o", file("out.gguf")},
                   testing::Streams::separate);
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.errors, HasSubstr("must be a writable file"));
  EXPECT_THAT(names(), ElementsAre("in"));
}

}  // namespace convert_gguf_test
}  // namespace gnomon::cli
