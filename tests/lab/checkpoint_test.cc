#include "apps/lab/tasks/make_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/version.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/lab/runs/run.h"
#include "gnomon/error.h"
#include "gnomon/version.h"
#include "io/temporary.h"
#include "lab/processes.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace checkpoint_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::contents;
using testing::put;

// A run of one layer, its checkpoint after three steps, and changes of it.
class Checkpoints : public ::testing::Test {
 protected:
  static Settings small() {
    Settings settings = testing::tiny();
    settings.layers = 1;
    settings.width = 8;
    return settings;
  }
  Checkpoints() : run_(settings_, corpus_, "none", 1) {
    for (int step = 0; step < 3; ++step) run_.train_step();
    run_.save(path_);
    const std::string whole = contents(path_);
    std::uint64_t size = 0;
    std::memcpy(&size, whole.data(), sizeof size);
    header_ = Json::parse(whole.substr(8, size));
    data_ = whole.substr(8 + size);
  }

  void write(const Json& header, const std::string& data) const {
    const std::string text = header.dump();
    const std::uint64_t size = text.size();
    put(path_, std::string(reinterpret_cast<const char*>(&size), 8) + text + data);
  }
  // Writes the file with another header.
  void change(const std::function<void(Json&)>& edit) const {
    Json header = header_;
    edit(header);
    write(header, data_);
  }
  // Writes the file with another element of a tensor.
  template <typename T>
  void set(const std::string& name, std::size_t index, T value) const {
    std::string data = data_;
    const auto begin = header_.at(name).at("data_offsets").at(0).get<std::size_t>();
    std::memcpy(data.data() + begin + index * sizeof value, &value, sizeof value);
    write(header_, data);
  }
  std::string refusal(const std::string& encoding = "none") {
    TrainingRun other(settings_, corpus_, encoding, 1);
    return refusal(other);
  }
  std::string refusal(TrainingRun& other) const {
    try {
      other.load(path_);
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_THAT(message, ::testing::StartsWith("[lab] " + path_.string() +
                                                 " must be a checkpoint of "));
      EXPECT_EQ(message.find('\n'), std::string::npos);
      return message.substr(message.find(", got ") + 6);
    }
    return "accepted";
  }

  testing::TemporaryFolder folder_;
  fs::path path_ = folder_ / "none-seed1.safetensors";
  Settings settings_ = small();
  Corpus corpus_ = load_corpus(settings_);
  TrainingRun run_;
  Json header_;
  std::string data_;
};

TEST_F(Checkpoints, HaveTheTensorsOfTheRunAndNoOthers) {
  const std::string weights = "weights.embedding.weight", updates = "updates.embedding.weight";
  const auto erased = [&](const std::string& name) {
    change([&](Json& header) {
      Json& tensor = header[name + "x"];
      tensor = header.at(name);
      header.erase(name);
    });
    return refusal();
  };
  for (const std::string& name : {weights, updates, std::string("second.embedding.weight"),
                                  std::string("curve.bits"), std::string("progress.counts")})
    EXPECT_EQ(erased(name), "no tensor \"" + name + "\"");
  const auto with = [&](const std::string& name, const char* key, const Json& value) {
    change([&](Json& header) { header.at(name).at(key) = value; });
    return refusal();
  };
  EXPECT_EQ(with(weights, "shape", {8, 256}),
            "\"" + weights + "\" of F32 [8, 256] instead of F32 [256, 8]");
  EXPECT_EQ(with(weights, "dtype", "I32"),
            "\"" + weights + "\" of I32 [256, 8] instead of F32 [256, 8]");
  EXPECT_EQ(with("updates.embedding.weight", "shape", {1}),
            "\"" + updates + "\" of I64 [1] instead of I64 []");
  change([&](Json& header) {
    const auto end = data_.size();
    header["more"] = {{"dtype", "U8"}, {"shape", {0}}, {"data_offsets", {end, end}}};
  });
  EXPECT_EQ(refusal(), "the tensor \"more\", which the run does not have");
  change([](Json&) {});
  EXPECT_EQ(refusal("learned").rfind("the encoding \"none\"", 0), 0u);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(Checkpoints, OfAnotherFormatRunOrVersionAreRefused) {
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"format", "pt"}, {"version", "3"}, {"encoding", "t5"}, {"seed", "2"}}) {
    change([&](Json& header) { header["__metadata__"][key] = value; });
    EXPECT_EQ(refusal(), "the " + key + " \"" + value + "\"");
    change([&](Json& header) { header["__metadata__"].erase(key); });
    EXPECT_EQ(refusal(), "no " + key);
  }
}

TEST_F(Checkpoints, HavePossibleNumbers) {
  const auto with = [&](const std::string& name, std::size_t index, auto value) {
    set(name, index, value);
    return refusal();
  };
  using Count = std::int64_t;
  const Count most = std::numeric_limits<Count>::max();
  EXPECT_EQ(with("progress.counts", 0, Count{9}), "9 steps");
  EXPECT_EQ(with("progress.counts", 0, Count{-1}), "-1 steps");
  EXPECT_EQ(with("progress.counts", 1, most), std::to_string(most) + " losses");
  EXPECT_EQ(with("updates.embedding.weight", 0, Count{4}), "4 updates of \"embedding.weight\"");
  EXPECT_EQ(with("progress.numbers", 0, std::nan("")), "nan seconds");
  EXPECT_EQ(with("progress.numbers", 0, -1.0), "-1 seconds");
  EXPECT_EQ(with("curve.steps", 0, Count{4}), "a point of the curve at step 4 after 0");
  EXPECT_EQ(with("curve.steps", 2, Count{1}), "a point of the curve at step 1 after 1");
  EXPECT_EQ(with("curve.steps", 1, Count{2}), "a point of the curve at step 1 after 0");
  // A run that diverged continues.
  EXPECT_EQ(with("progress.numbers", 1, std::nan("")), "accepted");
  EXPECT_EQ(with("weights.embedding.weight", 0, std::numeric_limits<float>::infinity()),
            "accepted");
}

TEST_F(Checkpoints, KeepPointsThatAreNotFinite) {
  TrainingRun other(settings_, corpus_, "none", 1);
  set("curve.bits", 0, std::numeric_limits<double>::infinity());
  other.load(path_);
  EXPECT_TRUE(std::isinf(other.summary().curve.at(0).train_bits));
  std::string data = data_;
  for (const auto& [name, index, value] :
       {std::tuple{"curve.steps", 1, 0x1}, {"curve.bits", 1, 0x7ff80000}}) {
    const auto begin = header_.at(name).at("data_offsets").at(0).get<std::size_t>();
    std::memcpy(data.data() + begin + index * 8 + (value == 1 ? 0 : 4), &value, 4);
  }
  write(header_, data);
  other.load(path_);
  ASSERT_TRUE(other.summary().curve.at(0).validation_bits);  // NaN, not absent
  EXPECT_TRUE(std::isnan(*other.summary().curve.at(0).validation_bits));
}

// Nothing is changed by a checkpoint that is refused, whichever tensor is wrong.
TEST_F(Checkpoints, ARefusedOneChangesNothing) {
  TrainingRun other(settings_, corpus_, "none", 1);
  other.train_step();
  std::vector<at::Tensor> before;
  for (const at::Tensor& one : other.model().module().parameters())
    before.push_back(one.detach().clone());
  std::string last;
  for (const auto& [name, entry] : header_.items())
    if (name != "__metadata__") last = name;
  change([&](Json& header) { header.at(last).at("dtype") = "I32"; });
  EXPECT_NE(refusal(other), "accepted");
  EXPECT_EQ(other.step(), 1);
  const auto after = other.model().module().parameters();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].equal(before[i]));
}

// Truncated, with changed bytes, with a tensor twice, with huge sizes: refused or read, and
// never more memory than the file has.
TEST_F(Checkpoints, DamagedOnesAreRefusedOrRead) {
  const std::string whole = contents(path_);
  const std::size_t header_bytes = whole.size() - data_.size();
  TrainingRun other(settings_, corpus_, "none", 1);
  int refused = 0;
  const auto expect_refused = [&](const std::string& bytes, const std::string& what) {
    put(path_, bytes);
    EXPECT_NE(refusal(other), "accepted") << what;
    ++refused;
  };
  for (std::size_t size = 0; size < whole.size(); size += size < 16 ? 1 : 97)
    expect_refused(whole.substr(0, size), "truncated to " + std::to_string(size));
  expect_refused(whole + '\0', "a byte more");
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}})
    expect_refused(std::string(reinterpret_cast<const char*>(&size), 8) + whole.substr(8),
                   "a header of " + std::to_string(size));
  const auto end = data_.size();
  for (const Json& shape : {Json{INT64_MAX}, Json{1LL << 31, 1LL << 31}, Json{1LL << 40, 2},
                            Json{-1, 2}, Json{0, 2}})
    for (const char* name : {"curve.steps", "weights.embedding.weight"}) {
      change([&](Json& header) { header.at(name).at("shape") = shape; });
      expect_refused(contents(path_), "the shape " + shape.dump());
    }
  change([&](Json& header) { header.at("curve.steps").at("data_offsets") = {0, end}; });
  expect_refused(contents(path_), "offsets");
  std::string twice = header_.dump();
  twice.insert(twice.size() - 1,
               ",\"curve.bits\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[" +
                   std::to_string(end) + "," + std::to_string(end) + "]}");
  const std::uint64_t size = twice.size();
  expect_refused(std::string(reinterpret_cast<const char*>(&size), 8) + twice + data_, "twice");
  EXPECT_GT(refused, 50);

  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole;
    // Half of the changes in the header, an eighth of the rest in numbers.
    const std::size_t range = i % 2         ? header_bytes
                              : i % 16 == 0 ? whole.size()
                                            : header_bytes + 400;
    bytes[random() % range] ^= static_cast<char>(1 << random() % 8);
    put(path_, bytes);
    accepted += refusal(other) == "accepted";
  }
  EXPECT_GT(accepted, 0);  // changes of a weight or a loss
  EXPECT_LT(accepted, 300);
}

// An archive of LibTorch that writes a file when it is loaded.
void write_attack(const fs::path& path, const fs::path& effect) {
  torch::jit::Module attack("attack");
  attack.define("def __getstate__(self):\n  return 1\n");
  attack.define("def __setstate__(self, state: int):\n  torch.save(state, '" + effect.string() +
                "')\n");
  torch::jit::Module root("root");
  root.register_module("model", attack);
  root.save(path.string());
}

using ResumedFolder = processes::OfFolders;

TEST_F(ResumedFolder, WithAnArchiveOfLibTorchIsRefusedAndRunsNothing) {
  const std::string name = out() + "/checkpoints/none-seed1", effect = folder_ / "ran";
  const processes::Words begin{"--layers",  "1",       "--width", "16",           "--heads",
                               "2",         "--steps", "1000000", "--encodings",  "none",
                               "--no-cost", "--out",   out(),     "--checkpoint", "0.02"};
  processes::Watched first(begin);
  ASSERT_TRUE(first.writes(name + ".safetensors")) << first.output();
  first.signal(SIGINT);
  ASSERT_EQ(first.end(), 130) << first.output();
  const auto resumed = [&] {
    const testing::Outcome outcome = testing::run(
        GNOMON_LAB_PROGRAM, {"--resume", "--out", out()}, testing::Streams::separate);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1)
        << outcome.errors;
    EXPECT_FALSE(fs::exists(effect));
    return outcome.errors;
  };
  write_attack(name + ".safetensors", effect);
  EXPECT_THAT(resumed(), ::testing::StartsWith("gnomon: [lab] " + name +
                                               ".safetensors must be a checkpoint of "
                                               "none-seed1, got "));
  write_attack(name + ".pt", effect);
  EXPECT_THAT(resumed(),
              ::testing::HasSubstr("--resume requires checkpoints in .safetensors files; start "
                                   "again in a new folder, got " +
                                   name + ".pt, an archive of LibTorch that version "));
  torch::jit::load(name + ".pt");  // the attack is one
  EXPECT_TRUE(fs::exists(effect));
}

}  // namespace checkpoint_test
}  // namespace gnomon::lab
