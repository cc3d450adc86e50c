// Split GGUF files: all shards are one model, and sets that do not belong together are refused.
#include "gnomon/model/gguf_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include "io/temporary.h"
#include "model/gguf_model.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_files_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace gnomon::testing;

GgufBuilder& split(GgufBuilder& file, std::uint16_t no, std::uint16_t count,
                   std::int32_t tensors) {
  return file.entry("split.no", gguf_u16, gguf_bytes(no))
      .entry("split.count", gguf_u16, gguf_bytes(count))
      .entry("split.tensors.count", gguf_i32, gguf_bytes(tensors));
}

std::string shard(std::uint16_t no, std::uint16_t count, std::int32_t tensors,
                  const std::vector<std::string>& names, const std::string& architecture = "") {
  GgufBuilder file;
  if (!architecture.empty()) file.text("general.architecture", architecture);
  split(file, no, count, tensors);
  for (const std::string& name : names)
    file.tensor(name, {16}, 0, std::string(64, static_cast<char>('0' + no)));
  return file.file();
}

// A Llama in three shards: keys, norms of queries and keys, factors.
struct Set {
  std::vector<std::string> shards;
  TemporaryFolder folder;

  Set() {
    Model first("llama");
    split(first, 0, 3, 4);
    std::string factors;
    for (int i = 0; i < 8; ++i) factors += gguf_bytes(float(i + 1));
    GgufBuilder last;
    split(last, 2, 3, 4).tensor("pad", {16}, 0, std::string(64, 'p'));
    shards = {first.file(),
              shard(1, 3, 4, {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}),
              last.tensor("rope_freqs.weight", {8}, 0, factors).file()};
  }
  std::string name(std::size_t i) const {
    return "a-0000" + std::to_string(i + 1) + "-of-00003.gguf";
  }
  // Writes the shards, and returns the path of shard i.
  fs::path path(std::size_t i = 0) const {
    for (std::size_t s = 0; s < shards.size(); ++s)
      if (!shards[s].empty()) put(folder.path() / name(s), shards[s]);
    return folder.path() / name(i);
  }
  std::string refusal() const {
    return message_of([&] { read_gguf(GgufFiles(path()).gguf()); });
  }
};

TEST(GgufFiles, AllShardsAreOneModel) {
  const Set set;
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const GgufFiles files(set.path(i));
    const Gguf& gguf = files.gguf();
    EXPECT_EQ(gguf.shards().size(), 3u);
    EXPECT_EQ(gguf.tensors().size(), 4u);
    EXPECT_THAT(gguf.name(), HasSubstr(set.name(0)));
    const GgufTensor* const norm = gguf.find_tensor("blk.0.attn_k_norm.weight");
    ASSERT_TRUE(norm);
    EXPECT_EQ(norm->shard, 1);
    EXPECT_EQ(gguf.data(*norm)[0], std::byte{'1'});
    EXPECT_EQ(gguf.values(*gguf.find_tensor("rope_freqs.weight"))[7], 8.0);
    const ModelDescription model = read_gguf(gguf);
    const LayerGroup& group = model.groups.at(0);
    EXPECT_TRUE(group.attention.query_norm);
    EXPECT_THAT(to_json(group.position.at(0)), HasSubstr(R"("type":"factors")"));
  }
}

TEST(GgufFiles, AFileThatIsNotSplitIsOneShard) {
  const TemporaryFolder folder;
  put(folder.path() / "any.gguf", Model("llama").file());
  EXPECT_EQ(GgufFiles(folder.path() / "any.gguf").gguf().shards().size(), 1u);
  put(folder.path() / "one.gguf", shard(0, 1, 1, {"t"}));
  EXPECT_EQ(GgufFiles(folder.path() / "one.gguf").gguf().tensors().size(), 1u);
}

TEST(GgufFiles, OneShardAloneIsRefused) {
  const Set set;
  for (const std::string& one : set.shards)
    EXPECT_THAT(message_of([&] { read(one); }),
                AllOf(HasSubstr("[x.gguf] the file is one of 3 shards (split.count, split.no)"),
                      HasSubstr("all are required")));
}

TEST(GgufFiles, MissingShardsAndOtherNamesAreRefused) {
  Set missing;
  missing.shards[2].clear();
  EXPECT_THAT(missing.refusal(),
              HasSubstr("all 3 shards (split.count) must be in its folder, got "
                        "\"a-00003-of-00003.gguf\", which does not exist"));
  const Set set;
  const fs::path renamed = set.folder.path() / "renamed.gguf";
  fs::rename(set.path(), renamed);
  EXPECT_THAT(message_of([&] { GgufFiles{renamed}; }),
              HasSubstr("the name of shard split.no 0 of split.count 3 must end with "
                        "-00001-of-00003.gguf, got \"renamed.gguf\""));
}

TEST(GgufFiles, ShardsThatDoNotBelongTogetherAreRefused) {
  const auto with = [](std::size_t i, const std::string& other) {
    Set set;
    set.shards[i] = other;
    return set.refusal();
  };
  const std::string q = "blk.0.attn_q_norm.weight", k = "blk.0.attn_k_norm.weight";
  EXPECT_THAT(with(1, shard(1, 2, 4, {q, k})),
              HasSubstr("00002-of-00003.gguf] split.count must be 3, the number of shards, "
                        "got 2"));
  EXPECT_THAT(with(1, shard(2, 3, 4, {q, k})),
              HasSubstr("split.no must be 1, the place of the shard, got 2"));
  EXPECT_THAT(with(1, shard(1, 3, 5, {q, k})),
              HasSubstr("split.tensors.count must be 4, as in"));
  EXPECT_THAT(with(1, shard(1, 3, 4, {q, k}, "gemma3")),
              AllOf(HasSubstr("general.architecture must be \"llama\", as in"),
                    HasSubstr("got \"gemma3\"")));
  EXPECT_THAT(with(1, shard(1, 3, 4, {q})),
              HasSubstr("00001-of-00003.gguf] split.tensors.count must be 3, the number of "
                        "tensors in all shards, got 4"));
  EXPECT_THAT(with(1, shard(1, 3, 4, {q, "rope_freqs.weight"})),
              AllOf(HasSubstr("the tensor \"rope_freqs.weight\" occurs twice"),
                    HasSubstr("00003-of-00003.gguf]")));
  EXPECT_THAT(with(1, GgufBuilder().tensor(q, {16}, 0, std::string(64, 'q')).file()),
              HasSubstr("split.count is missing, which every shard of a split file has"));
  EXPECT_THAT(with(1, "not a GGUF file"), HasSubstr("00002-of-00003.gguf"));
  EXPECT_THAT(with(0, shard(3, 3, 4, {})), HasSubstr("split.no must be 0 to 2, got 3"));
  EXPECT_THAT(with(0, GgufBuilder()
                          .entry("split.count", gguf_u32, gguf_bytes(std::uint32_t{1} << 20))
                          .file()),
              HasSubstr("split.count must be 0 to 65535, got 1048576"));
}

TEST(GgufFiles, ASetOfBytesIsChecked) {
  EXPECT_THAT(message_of([] { Gguf(std::vector<GgufShard>{}); }),
              HasSubstr("a model must have 1 to 65535 shards, got 0"));
  const std::string first = shard(0, 2, 0, {});
  EXPECT_THAT(message_of([&] { Gguf({{std::as_bytes(std::span(first)), "x"}}); }),
              HasSubstr("split.count must be 1, the number of shards, got 2"));
}

}  // namespace gguf_files_test
}  // namespace gnomon::model
