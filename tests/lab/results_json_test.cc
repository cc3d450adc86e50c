// Files of an earlier session: files as written are read again, all others are refused.
#include "apps/lab/data/run_json.h"
#include "apps/lab/statistics/results.h"
#include "apps/lab/tasks/stored.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <functional>

#include "gnomon/io/file.h"

namespace gnomon::lab {
namespace results_json_test {

namespace fs = std::filesystem;

Settings settings() {
  Settings settings;
  settings.encodings = {"rotary"};
  settings.extend = {"yarn"};
  settings.eval_lengths = {128, 256};
  settings.steps = 6;
  return settings;
}

RunResult finished() {
  RunResult run{.encoding = "rotary", .seed = 1, .specification = {{"kind", "rotary"}}};
  run.steps = 6;
  run.curve = {{3, 5.5, {}}, {6, 4.5, 4.75}};
  run.extension = Extension{4,
                            1,
                            {4, 5},
                            {{"yarn", 512, {{"kind", "scaled"}}, {4, 4.5}, {3, 4}},
                             {"control", 512, {{"kind", "rotary"}}, {4, 5}, {3, 5}}}};
  run.tests.lengths = {{128, true, 4.5, 4.6, 0.25, 8, {4.4, 4.6}}, {.length = 256}};
  run.tests.by_position = PositionLoss{128, {1, 2.5}, {6, NAN}};
  run.picture.table = SampledMatrix{1, 2, {{1, 2}, {3, 4}}};
  run.picture.bias = run.picture.initial_bias = BiasByDistance{{0, 4}, {{0, -1}}};
  run.picture.initial_table = SampledMatrix{1, 2, {{0, 1}, {0, 2}}};
  run.attention = TrainedAttention{.distances = {0, 1},
                                   .shares = {0.5, 1},
                                   .range_ends = {0, 1},
                                   .heads = {{0, 0, 0.5, {0.5, 0.5}}}};
  return run;
}

class StoredFiles : public ::testing::Test {
 protected:
  ~StoredFiles() override { fs::remove(path_); }

  // The message of the error for a run with a change. Empty if there is none.
  std::string refusal(const std::function<void(Json&)>& change) {
    Json json = to_json(finished());
    change(json);
    io::write_atomically(path_, json.dump());
    try {
      read_run(path_, settings(), "rotary", 1);
      return {};
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  }

  fs::path path_ =
      fs::temp_directory_path() / ("gnomon-stored-" + std::to_string(getpid()) + ".json");
};

TEST_F(StoredFiles, AreReadAsWritten) {
  io::write_atomically(path_, to_json(finished()).dump());
  const RunResult run = read_run(path_, settings(), "rotary", 1);
  EXPECT_EQ(to_json(run).dump(), to_json(finished()).dump());
  EXPECT_TRUE(std::isnan(run.tests.by_position->bits[1]));
  const StoredSettings stored{settings(), "0123", "gnomon lab"};
  io::write_atomically(path_, to_json(stored).dump());
  EXPECT_EQ(read_settings(path_).settings, settings());
  EXPECT_EQ(read_settings(path_).fingerprint, "0123");
}

TEST_F(StoredFiles, AreRefusedWithThePathAndTheReason) {
  const std::string rule =
      "[lab] " + path_.string() + " must be as an earlier session wrote it, got ";
  EXPECT_EQ(refusal([](Json&) {}), "");
  EXPECT_EQ(refusal([](Json& run) { run = "text"; }), rule + "a value must be an object");
  EXPECT_EQ(refusal([](Json& run) { run.erase("curve"); }), rule + "no key curve");
  EXPECT_EQ(refusal([](Json& run) { run["steps"] = 1e300; }),
            rule + "a value of another type at the key steps");
  EXPECT_EQ(refusal([](Json& run) { run["curve"][0]["step"] = "3"; }),
            rule + "a value of another type at the key step");
  EXPECT_EQ(refusal([](Json& run) { run["seed"] = 2; }), rule + "another encoding or seed");
  EXPECT_EQ(refusal([](Json& run) { run["lengths"].erase(1); }),
            rule + "another list of lengths");
  EXPECT_EQ(refusal([](Json& run) { run["lengths"][0]["window_bits"] = -1; }),
            rule + "another sign of a loss");
  EXPECT_EQ(refusal([](Json& run) { run["lengths"][0]["tail_bits"] = 1e-3; }),
            rule + "another mean of tail_by_segment");
  EXPECT_EQ(refusal([](Json& run) { run["by_position"]["bits"].push_back(1); }),
            rule + "another list of positions");
  EXPECT_EQ(refusal([](Json& run) { run["extension"]["before"].erase(0); }),
            rule + "another length of before");
  EXPECT_EQ(refusal([](Json& run) { run["picture"]["table"]["values"][0].erase(0); }),
            rule + "another length of a row");
  EXPECT_EQ(refusal([](Json& run) { run["picture"]["table"]["row_step"] = 0; }),
            rule + "another step");
  EXPECT_EQ(refusal([](Json& run) { run["picture"]["initial_bias"]["distances"][1] = 5; }),
            rule + "another size of initial_bias");
  EXPECT_EQ(refusal([](Json& run) { run["picture"].erase("table"); }),
            rule + "another size of initial_table");
  EXPECT_EQ(refusal([](Json& run) { run["attention"]["heads"][0]["shares"].erase(0); }),
            rule + "another number of shares of a head");
  io::write_atomically(path_, "{");
  EXPECT_THROW(read_run(path_, settings(), "rotary", 1), std::invalid_argument);
  EXPECT_THROW(read_settings(path_), std::invalid_argument);
  EXPECT_THROW(read_costs(path_), std::invalid_argument);
  EXPECT_THROW(read_results(path_), std::invalid_argument);
}

TEST_F(StoredFiles, OfResultsHaveTheMeasurements) {
  Results results;
  results.settings = settings();
  results.metric.name = "bits per byte";
  results.runs = {finished()};
  const auto got = [&](auto&& change) {
    Json json = to_json(results);
    change(json);
    io::write_atomically(path_, json.dump());
    return read_results(path_);
  };
  const Results read = got([](Json&) {});
  EXPECT_EQ(read.settings, results.settings);
  EXPECT_EQ(to_json(read.runs.at(0)).dump(), to_json(finished()).dump());
  EXPECT_THROW(got([](Json& json) { json["settings"]["task"] = "copy"; }),
               std::invalid_argument);
  EXPECT_THROW(got([](Json& json) { json["settings"]["encodings"] = {"t5"}; }),
               std::invalid_argument);
  EXPECT_THROW(got([](Json& json) { json["runs"][0]["lengths"].erase(0); }),
               std::invalid_argument);
}

TEST_F(StoredFiles, HaveSettingsInTheirRange) {
  Settings other = settings();
  other.eval_lengths.clear();
  io::write_atomically(path_, to_json(StoredSettings{other, "", ""}).dump());
  EXPECT_THROW(read_settings(path_), std::invalid_argument);
}

// Up to schema 3, `seeds` was their number.
TEST_F(StoredFiles, HaveAListOfSeedsOrTheirNumber) {
  using List = std::vector<std::int64_t>;
  const auto read = [&](const Json& seeds) {
    Json stored = to_json(StoredSettings{settings(), "", ""});
    stored["settings"]["seeds"] = seeds;
    io::write_atomically(path_, stored.dump());
    return read_settings(path_).settings.seeds;
  };
  EXPECT_EQ(read({4, 7}), (List{4, 7}));
  EXPECT_EQ(to_json(settings()).at("seeds"), Json::array({1}));
  EXPECT_EQ(read(3), (List{1, 2, 3}));
  for (const Json& bad :
       {Json(0), Json(-1), Json(101), Json(INT64_MAX), Json(UINT64_MAX), Json("1"), Json(1.5),
        Json::array(), Json::array({0}), Json::array({2, 1}), Json::array({1, 1}),
        Json::array({1LL << 32}), Json::array({1.5}), Json(List(101, 1))})
    EXPECT_THROW(read(bad), std::invalid_argument) << bad;
}

}  // namespace results_json_test
}  // namespace gnomon::lab
