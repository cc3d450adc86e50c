// Checkpoints of one file and of shards, invalid indices, and the use by a ModelPlan.
#include "gnomon/io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "gnomon/model/layer.h"
#include "io/temporary.h"
#include "testing.h"

namespace gnomon::io {
namespace checkpoint_test {

namespace fs = std::filesystem;
using gnomon::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFiles : public ::testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_ / name; }
  void put(const std::string& name, const std::string& text) const {
    write_atomically(file(name), std::string_view(text));
  }
  // A shard with tensors [2] of one number each.
  void put_shard(const std::string& name, const std::vector<std::string>& tensors) const {
    std::vector<std::array<float, 2>> values(tensors.size());
    std::vector<NamedArray> all;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      values[i].fill(static_cast<float>(tensors[i].size()));
      all.push_back({tensors[i], Array::of(View<const float, 1>(values[i].data(), {2}))});
    }
    write_safetensors(file(name), all);
  }
  void put_index(const std::string& map) const {
    put("model.safetensors.index.json", R"({"metadata": {}, "weight_map": )" + map + "}");
  }
  // The error of the Checkpoint constructor for the folder.
  std::string error() const {
    try {
      Checkpoint checkpoint(file(""));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(CheckpointFiles, ShardsOfAnIndexAreOpenedWhenTheyAreNeeded) {
  put_shard("a.safetensors", {"ten.one", "two"});
  put("b.safetensors", "broken");
  put_index(R"({"two": "a.safetensors", "ten.one": "a.safetensors", "b": "b.safetensors"})");
  for (const fs::path& path : {file(""), file("model.safetensors.index.json")}) {
    const Checkpoint checkpoint(path);
    EXPECT_EQ(checkpoint.index(), "model.safetensors.index.json");
    EXPECT_TRUE(fs::equivalent(checkpoint.folder(), file("")));
    EXPECT_THAT(checkpoint.shards(), ElementsAre("a.safetensors", "b.safetensors"));
    EXPECT_THAT(checkpoint.names(), ElementsAre("b", "ten.one", "two"));
    EXPECT_EQ(checkpoint.tensor("ten.one").to_doubles(), (std::vector<double>{7, 7}));
    EXPECT_EQ(checkpoint.tensor("two").to_doubles(), (std::vector<double>{3, 3}));
    EXPECT_EQ(&checkpoint.shard("a.safetensors"), &checkpoint.shard("a.safetensors"));
    EXPECT_THROW(checkpoint.tensor("b"), FormatError);
    EXPECT_THROW(checkpoint.check(), FormatError);
    EXPECT_THAT(message_of([&] { checkpoint.tensor("three"); }),
                AllOf(HasSubstr("index.json"), HasSubstr("got \"three\"")));
    EXPECT_THAT(message_of([&] { checkpoint.shard("c.safetensors"); }),
                HasSubstr("must contain the requested shard"));
  }
}

TEST_F(CheckpointFiles, OneFileNeedsNoIndex) {
  put_shard("odd.safetensors", {"b", "a"});
  for (const fs::path& path : {file(""), file("odd.safetensors")}) {
    const Checkpoint checkpoint(path);
    EXPECT_EQ(checkpoint.index(), "");
    EXPECT_THAT(checkpoint.shards(), ElementsAre("odd.safetensors"));
    EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
    EXPECT_EQ(checkpoint.tensor("b").shape(), (Array::Shape{2}));
    EXPECT_NO_THROW(checkpoint.check());
  }
  put_shard("other.safetensors", {"a"});
  EXPECT_THAT(
      error(),
      HasSubstr(
          "must have model.safetensors or one *.safetensors, got odd.safetensors and 1 more"));
  put_shard("model.safetensors", {"usual"});
  EXPECT_THAT(Checkpoint(file("")).names(), ElementsAre("usual"));
}

TEST_F(CheckpointFiles, WhatIsNoCheckpointIsRefused) {
  EXPECT_THAT(error(), HasSubstr("the folder must have .safetensors files"));
  EXPECT_THAT(message_of([&] { Checkpoint checkpoint(file("model.bin")); }),
              HasSubstr("must be a .safetensors file, a folder or a .index.json"));
  for (const char* text : {"{", "[]", "{}", "\xff", "", R"({"weight_map": 3})"}) {
    put("model.safetensors.index.json", text);
    EXPECT_THAT(error(), AllOf(HasSubstr("index.json"), HasSubstr("at byte"))) << text;
  }
  put_shard("a.safetensors", {"x"});
  for (const char* map :
       {"{}", R"({"x": 3})", R"({"x": "a.safetensors", "x": "a.safetensors"})"}) {
    put_index(map);
    EXPECT_THAT(error(), AllOf(HasSubstr("index.json"), HasSubstr("at byte"))) << map;
  }
  for (const std::string shard : {"../a.safetensors", "..", "./a.safetensors", "", "a.bin",
                                  "b\\\\a.safetensors", "a\\u0000.safetensors"}) {
    put_index(R"({"x": ")" + shard + R"("})");
    EXPECT_THAT(error(), HasSubstr("must be the name of a .safetensors file beside")) << shard;
  }
  put_index(R"({"x": "none.safetensors"})");
  EXPECT_THAT(error(), HasSubstr("a shard of the index must exist, got none.safetensors"));
  put_index(R"({"y": "a.safetensors"})");
  EXPECT_THAT(message_of([&] { Checkpoint(file("")).check(); }),
              HasSubstr("must be in its shard, got \"y\" in a.safetensors"));
}

// Reads the trained table of a model from its checkpoint.
TEST_F(CheckpointFiles, FeedsAModelPlan) {
  const auto model = model::read_config(
      R"({"model_type": "gpt2", "n_embd": 2, "n_head": 1, "n_layer": 1, "n_positions": 3})");
  std::array<float, 6> rows{1, 2, 3, 4, 5, 6};
  const NamedArray table{"transformer.wpe.weight",
                         Array::of(View<const float, 2>(rows.data(), {3, 2}))};
  write_safetensors(file("model.safetensors"), std::span(&table, 1));
  const Checkpoint files(file(""));
  const model::Checkpoint checkpoint{files.names(), [&](const std::string& name) {
                                       const Array array = files.tensor(name);
                                       const std::vector<double> numbers = array.to_doubles();
                                       return model::CheckpointTensor{
                                           array.shape(), {numbers.begin(), numbers.end()}};
                                     }};
  model::ModelPlan plan(model, checkpoint);
  const Positions positions = consecutive(2, 1);
  plan.set_tokens({.queries = {&positions, 1}});
  ASSERT_TRUE(plan.layer(0).table);
  EXPECT_EQ(plan.layer(0).table->values, (std::vector<float>{3, 4, 5, 6}));
}

}  // namespace checkpoint_test
}  // namespace gnomon::io
