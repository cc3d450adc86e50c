// Files that versions of this library wrote: tests/kept/VERSION. Later versions read them, with
// the same meaning (docs/versions.md). tests/kept/write.sh writes those of this version.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/lab/data/run_json.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/statistics/results.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/io/file.h"
#include "gnomon/io/npy.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/model/config.h"
#include "gnomon/model/description.h"
#include "gnomon/model/gguf.h"
#include "gnomon/plot/chart.h"
#include "gnomon/plot/page.h"
#include "gnomon/torch/scheme.h"
#include "gnomon/torch/state.h"
#include "gnomon/version.h"
#include "io/temporary.h"
#include "torch/testing.h"

namespace gnomon::lab {
namespace kept_test {

namespace fs = std::filesystem;
namespace adapter = libtorch::testing;
using gnomon::testing::contents;

const fs::path kept = fs::path(GNOMON_SOURCE_DIR) / "tests/kept";

Json json_of(const fs::path& path) { return Json::parse(contents(path)); }

// Whether a value has everything of the kept one. Later versions may have more keys.
bool has(const Json& now, const Json& then, std::string& where) {
  if (then.is_object() && now.is_object()) {
    for (const auto& [key, value] : then.items()) {
      const std::string at = where + "/" + key;
      std::string inside = at;
      if (!now.contains(key) || !has(now.at(key), value, inside)) return where = inside, false;
    }
    return true;
  }
  if (then.is_array() && now.is_array()) {
    if (then.size() != now.size()) return false;
    for (std::size_t i = 0; i < then.size(); ++i)
      if (!has(now[i], then[i], where)) return false;
    return true;
  }
  if (then.is_number() && now.is_number())
    return std::abs(now.get<double>() - then.get<double>()) <=
           1e-5 * (1 + std::abs(then.get<double>()));
  return now == then;
}
void expect_has(const Json& now, const Json& then) {
  std::string where;
  EXPECT_TRUE(has(now, then, where)) << where << "\nnow: " << now.dump().substr(0, 2000)
                                     << "\nthen: " << then.dump().substr(0, 2000);
}

// Some numbers of embedding and attention with an encoding, for inputs and parameters of
// sines: they change if the spec means something else.
std::vector<double> numbers_of(const model::Encoding& encoding) {
  const at::NoGradGuard no_grad;
  const auto sines = [](at::IntArrayRef shape, double phase) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return (at::arange(count, at::kDouble) * 0.7 + phase).sin().to(at::kFloat).view(shape);
  };
  libtorch::PositionEncoding position(encoding);
  const auto parameters = model::parameters(encoding);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const model::Parameter& one = parameters[i];
    const double deviation = one.initial_deviation == 0.02 ? 1 : one.initial_deviation;
    if (one.initial.empty())
      position->parameters()[i].copy_(
          one.initial_mean +
          deviation * sines({one.rows, one.columns}, static_cast<double>(i)));
  }
  constexpr std::int64_t tokens = 9;
  const at::Tensor x = sines({1, tokens, adapter::shape.width}, 1);
  const std::int64_t key_heads = adapter::key_heads_of({encoding});
  const at::Tensor q = position->embed(x).view({1, tokens, adapter::heads, adapter::head_dim});
  const at::Tensor k = sines({1, tokens, key_heads, adapter::head_dim}, 2);
  const at::Tensor v = sines({1, tokens, key_heads, adapter::head_dim}, 3);
  libtorch::AttendOptions options =
      model::properties(encoding).causal ? adapter::causal : adapter::both_ways;
  options.hidden = x;
  const at::Tensor out =
      adapter::in_attention(encoding) ? position->attend(q, k, v, options) : q;
  std::vector<double> numbers;
  for (const std::int64_t token : {1, 4, 8})
    for (const std::int64_t head : {0, 3})
      numbers.push_back(out[0][token][head][5].item<double>());
  return numbers;
}

Json encodings_now() {
  Json all = Json::array();
  for (const model::EncodingInfo& one : model::encodings()) {
    const Visibility reads = model::properties(one.usual(adapter::shape)).causal
                                 ? Visibility::causal
                                 : Visibility::bidirectional;
    const model::Encoding encoding = adapter::usual(one.name, reads);
    all.push_back({{"name", one.name},
                   {"spec", model::to_json(encoding)},
                   {"numbers", numbers_of(encoding)}});
  }
  return all;
}

void check_encodings(const fs::path& path) {
  for (const Json& one : json_of(path)) {
    SCOPED_TRACE(one.at("name"));
    const std::string text = one.at("spec");
    const model::Encoding encoding = model::encoding_from_json(text);
    expect_has(Json::parse(model::to_json(encoding)), Json::parse(text));
    const std::vector<double> numbers = numbers_of(encoding), wanted = one.at("numbers");
    ASSERT_EQ(numbers.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(numbers[i], wanted[i], 1e-4 * (1 + std::abs(wanted[i])));
  }
}

Json schemes_now() {
  Json all = Json::object();
  for (const char* text : {"rotary", "rotary*3/none", "learned+t5", "learned+rotary/learned"})
    all[text] = model::to_json(model::parse_scheme(text, adapter::shape, 4));
  return all;
}
void check_schemes(const fs::path& path) {
  const Json all = json_of(path);
  for (const auto& [text, json] : all.items()) {
    const model::Scheme scheme = model::scheme_from_json(json.get<std::string>());
    EXPECT_EQ(model::names(scheme), text);
    EXPECT_EQ(scheme.layers.size(), 4);
  }
}

constexpr const char* config = R"({"model_type": "llama", "hidden_size": 32,
  "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
  "max_position_embeddings": 64, "rope_theta": 5e5,
  "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16}})";

Json description_now(const std::string& of) {
  return {{"config", of}, {"description", Json::parse(model::to_json(model::read_config(of)))}};
}
void check_description(const fs::path& path) {
  const Json then = json_of(path);
  expect_has(description_now(then.at("config")), then);
}

Json charts_now() {
  return {{"lines", Json::parse(plot::lines(
                        {.series = {{.name = "rotary", .x = {1, 2, 4}, .y = {3, 2, 1}}},
                         .x = {.title = "length", .scale = plot::Scale::log2},
                         .y = {.title = "bits"}}))}};
}
// A page shows kept specs, with the script that it embeds.
void check_charts(const fs::path& path) {
  const Json all = json_of(path);
  for (const auto& [name, spec] : all.items()) {
    EXPECT_EQ(spec.at("$schema"), charts_now().at("lines").at("$schema"));
    plot::HtmlPage page("kept");
    page.figure({.id = name, .spec = spec.dump()});
    EXPECT_NE(page.html().find("rotary"), std::string::npos);
  }
}

// sin(i / 2) for the i-th element.
void expect_sines(const io::Array& array, const io::Array::Shape& shape) {
  EXPECT_EQ(array.shape(), shape);
  const std::vector<double> values = array.to_doubles();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], std::sin(static_cast<double>(i) / 2), 4e-3);
}
io::Array sines(const io::Array::Shape& shape, at::ScalarType type) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return libtorch::to_array((at::arange(count, at::kDouble) / 2).sin().to(type).view(shape));
}
void check_npy(const fs::path& path) { expect_sines(io::read_npy(path), {3, 2}); }
void check_tensors(const fs::path& path) {
  const io::SafeTensors file(path);
  expect_sines(file.tensor("single"), {2, 3});
  expect_sines(file.tensor("half"), {4});
  expect_sines(file.tensor("brain"), {4});
  EXPECT_EQ(file.metadata().at("made by"), "gnomon");
}

void check_state(const fs::path& path) {
  libtorch::PositionScheme scheme(
      model::parse_scheme("learned+t5*3/learned+swin", adapter::shape, 4));
  libtorch::load_state(*scheme, path);
  const io::SafeTensors file(path);
  EXPECT_EQ(file.tensors().size(), scheme->parameters().size());
  for (const auto& item : scheme->named_parameters())
    EXPECT_TRUE(item.value().equal(libtorch::to_tensor(file.tensor(item.key()))));
}

void check_settings_file(const fs::path& path) {
  const StoredSettings stored = read_settings(path);
  EXPECT_EQ(stored.gnomon, path.parent_path().parent_path().parent_path().filename());
  expect_has(to_json(stored), json_of(path));
}

void check_results(const fs::path& path) {
  const Results results = read_results(path);
  const Json then = json_of(path), now = to_json(results);
  for (const char* key : {"gnomon", "settings", "metric", "runs", "machine", "command"})
    expect_has(now.at(key), then.at(key));
}

// The first line of a table of results: Python reads the columns by their names.
void check_csv(const fs::path& path) { EXPECT_EQ(contents(path).find("encoding,"), 0); }

Job job_of(const fs::path& path) {
  const std::string name = path.stem();
  const std::size_t at = name.rfind("-seed");
  return {name.substr(0, at), std::stoll(name.substr(at + 5))};
}
void check_run_file(const fs::path& path) {
  const Job job = job_of(path);
  const Settings settings =
      read_settings(path.parent_path().parent_path() / "settings.json").settings;
  expect_has(to_json(read_run(path, settings, job.encoding, job.seed)), json_of(path));
}

void check_checkpoint(const fs::path& path) {
  const Job job = job_of(path);
  Settings settings =
      read_settings(path.parent_path().parent_path() / "settings.json").settings;
  settings.texts = {(kept / "words.txt").string()};
  const Corpus corpus = load_corpus(settings);
  TrainingRun run(settings, corpus, job.encoding, job.seed);
  run.load(path);
  const io::SafeTensors file(path);
  EXPECT_EQ(run.step(), file.tensor("progress.counts").to_integers()[0]);
  EXPECT_GT(run.step(), 0);
  for (const auto& item : run.transformer()->named_parameters())
    EXPECT_TRUE(item.value().equal(libtorch::to_tensor(file.tensor("weights." + item.key()))));
  EXPECT_TRUE(std::isfinite(run.train_step()));
}

void check_model_config(const fs::path& path) {
  const TrainedModel model = load_model(path.parent_path());
  const Json then = json_of(path);
  EXPECT_EQ(model.config.encoding, then.at("encoding"));
  expect_has(to_json(model.config.settings), then.at("settings"));
}
void check_model_weights(const fs::path& path) {
  TrainedModel trained = load_model(path.parent_path());
  const io::SafeTensors file(path);
  for (const auto& item : trained.model->named_parameters())
    EXPECT_TRUE(item.value().equal(libtorch::to_tensor(file.tensor(item.key()))));
}

// A plan is for one version, because other versions may train with other bits.
void check_plan(const fs::path& path) {
  const Json then = json_of(path);
  if (then.at("gnomon") == GNOMON_VERSION) {
    expect_has(to_json(read_plan(path)), then);
    return;
  }
  libtorch::testing::expect_refusal([&] { read_plan(path); },
                                    {"a plan of version", then.at("gnomon")});
}

// Layouts of before the first release are refused by their schema or by the key that they lack,
// and by the version that wrote them.
void check_refused_results(const fs::path& path) {
  const Json then = json_of(path);
  libtorch::testing::expect_refusal(
      [&] { read_results(path); },
      {path.string(),
       then.at("schema") == 4 ? "no key tokens" : "schema " + then.at("schema").dump(),
       "version " + then.at("gnomon").get<std::string>()});
}

struct Kind {
  const char* name;  // the end of the path
  std::function<void(const fs::path&)> check;
};
const std::vector<Kind> kinds{{"/encodings.json", check_encodings},
                              {"/schemes.json", check_schemes},
                              {"/description.json", check_description},
                              {"/charts.json", check_charts},
                              {"/table.npy", check_npy},
                              {"/tensors.safetensors", check_tensors},
                              {"/state.safetensors", check_state},
                              {"/plan.json", check_plan},
                              {"/settings.json", check_settings_file},
                              {"/results.json", check_results},
                              {"/results.csv", check_csv},
                              {"/runs/", check_run_file},
                              {"/checkpoints/", check_checkpoint},
                              {"/config.json", check_model_config},
                              {"/model.safetensors", check_model_weights}};

// The files of each version, below its folder.
std::map<std::string, std::vector<fs::path>> versions() {
  std::map<std::string, std::vector<fs::path>> all;
  for (const auto& entry : fs::recursive_directory_iterator(kept))
    if (const fs::path path = fs::relative(entry.path(), kept);
        entry.is_regular_file() && std::distance(path.begin(), path.end()) > 1)
      all[*path.begin()].push_back(entry.path());
  return all;
}

TEST(Kept, FilesOfEachVersionAreRead) {
  for (const auto& [version, files] : versions()) {
    if (version == "earlier") continue;
    std::map<std::string, int> found;
    for (const fs::path& path : files) {
      SCOPED_TRACE(path);
      const Kind* kind = nullptr;
      for (const Kind& one : kinds)
        if (path.string().find(one.name) != std::string::npos) kind = &one;
      ASSERT_TRUE(kind) << "no reader of this test";
      ++found[kind->name];
      EXPECT_NO_THROW(kind->check(path));
    }
    for (const Kind& one : kinds)
      EXPECT_GT(found[one.name], 0) << version << " has no kept example of " << one.name;
  }
}

TEST(Kept, FilesOfThisVersionAreComplete) {
  if (const char* const to = std::getenv("GNOMON_RECORD")) {
    const fs::path folder(to);
    const auto write = [&](const char* name, const Json& json) {
      io::write_atomically(folder / name, json.dump(1) + "\n");
    };
    write("encodings.json", encodings_now());
    write("schemes.json", schemes_now());
    write("description.json", description_now(config));
    write("charts.json", charts_now());
    io::write_npy(folder / "table.npy", sines({3, 2}, at::kFloat));
    const std::vector<io::NamedArray> arrays{{"single", sines({2, 3}, at::kFloat)},
                                             {"half", sines({4}, at::kHalf)},
                                             {"brain", sines({4}, at::kBFloat16)}};
    io::write_safetensors(folder / "tensors.safetensors", arrays, {{"made by", "gnomon"}});
    libtorch::save_state(*libtorch::PositionScheme(model::parse_scheme(
                             "learned+t5*3/learned+swin", adapter::shape, 4)),
                         folder / "state.safetensors");
  }
  const auto all = versions();
  ASSERT_TRUE(all.contains(GNOMON_VERSION)) << "tests/kept/write.sh writes it";
  // Each encoding and several tasks.
  std::set<std::string> names, tasks;
  for (const Json& one : json_of(kept / GNOMON_VERSION / "encodings.json"))
    names.insert(one.at("name"));
  for (const model::EncodingInfo& one : model::encodings())
    EXPECT_TRUE(names.contains(std::string(one.name))) << one.name;
  for (const fs::path& path : all.at(GNOMON_VERSION)) {
    if (path.filename() != "results.json") continue;
    EXPECT_FALSE(json_of(path).at("runs").empty()) << path;
    tasks.insert(json_of(path).at("settings").at("task").get<std::string>());
  }
  EXPECT_GE(tasks.size(), 4);
}

// tests/kept/earlier: of commits before the first release.
TEST(Kept, EarlierFilesAreReadOrRefusedWithTheirVersion) {
  int refused = 0, read = 0;
  const auto all = versions();
  for (const fs::path& path : all.at("earlier")) {
    SCOPED_TRACE(path);
    const Json then = json_of(path);
    if (then.at("schema") != 4 || !then.at("settings").contains("tokens")) {
      check_refused_results(path);
      ++refused;
    } else {
      EXPECT_NO_THROW(check_results(path));
      ++read;
    }
  }
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(read, 2);
}

}  // namespace kept_test
}  // namespace gnomon::lab
