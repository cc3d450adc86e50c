#include "apps/lab/runs/plan.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/tokenizer.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/tasks/finetune_config.h"
#include "apps/lab/tasks/settings_check.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/version.h"
#include "src/core/json.h"
#include "src/core/text.h"
#include "src/plot/sha256.h"

namespace gnomon::lab {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 20;
constexpr std::int64_t most_segments = 100'000;

// Settings whose values are read as those of options, with the same defaults and names.
constexpr auto option_keys = std::to_array<std::string_view>(
    {"preset", "task", "encodings", "extend", "tokens", "finetune", "train_length",
     "eval_lengths", "layers", "width", "heads", "seeds", "steps", "batch", "learning_rate",
     "device"});
// Options that --finetune refuses, because the released model has their values.
constexpr auto of_model = std::to_array<std::string_view>(
    {"task", "tokens", "encodings", "layers", "width", "heads"});

[[noreturn]] void fail(const std::string& reason) { throw std::invalid_argument(reason); }

std::string type_error(const std::string& key) {
  return "a value of another type at the key " + internal::shown(key);
}

// "--train-length=64". The value of an option cannot become an option.
std::string word_of(const std::string& key, const Json& value) {
  std::string word = "--" + key + "=";
  std::ranges::replace(word, '_', '-');
  const auto text = [&](const Json& one) {
    if (!one.is_string() && !one.is_number()) fail(type_error(key));
    return one.is_string() ? one.get<std::string>() : one.dump();
  };
  if (!value.is_array()) return word + text(value);
  for (const Json& one : value) word += text(one) + ",";
  if (key != "seeds") word.pop_back();  // "4," is a list of seeds, and "4" their number
  return word;
}

Settings read_settings_of_plan(const Json& given) {
  if (!given.is_object()) fail("a value must be an object");
  // --task=list would print the tasks and end the process.
  if (const auto task = given.find("task"); task != given.end() && task->is_string())
    find_task(task->get<std::string>());
  const bool tunes = given.contains("finetune") && !given.at("finetune").empty();
  std::vector<std::string> words{"lab", "--list-runs"};
  Json others = Json::object();
  for (const auto& [key, value] : given.items())
    if (contains(option_keys, key) && !value.empty() && !(tunes && contains(of_model, key)))
      words.push_back(word_of(key, value));
    else
      others[key] = value;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  Json all = to_json(parse_options(static_cast<int>(words.size()), pointers.data()).settings);
  all.update(others);
  Settings settings;
  Reader::read(all, settings);
  check_settings(settings);
  if (tunes) finetune::check(settings, finetune::read_config(settings.finetune));
  if (settings.eval_segments > most_segments) fail("more than 100000 test segments");
  const Json read = to_json(settings);
  for (const auto& [key, value] : given.items()) {
    if (value.is_array() && value.empty()) continue;  // as an absent key
    if (!read.contains(key)) fail("the key " + internal::shown(key) + " in settings");
    const bool is_number_of_seeds = key == "seeds" && value.is_number();
    if (value.is_string() != read.at(key).is_string() ||
        (value.is_array() != read.at(key).is_array() && !is_number_of_seeds))
      fail(type_error(key));
  }
  return settings;
}

std::string from_base64(const std::string& text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) break;  // padding
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((count += 6) < 8) continue;
    bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  if (plot::internal::base64(bytes) != text) fail("a tokenizer that is not base64");
  return bytes;
}

std::set<std::string> names_of(const std::vector<Job>& jobs) {
  const std::vector<std::string> names = mapped(jobs, &Job::name);
  return {names.begin(), names.end()};
}

std::vector<Job> read_runs(const Json& runs, const Settings& settings) {
  std::set<std::string> left = names_of(jobs_of(settings));
  if (!runs.is_array()) fail(type_error("runs"));
  std::vector<Job> found;
  for (const Json& one : runs) {
    Reader reader(one);
    Job& job = found.emplace_back();
    std::string name;
    reader("name", name)("encoding", job.encoding)("seed", job.seed);
    if (job.name() != name || left.erase(name) == 0)
      fail("a run that is not of the settings, or twice: " + internal::shown(name));
  }
  return found;
}

Plan plan_of(const Json& json) {
  const auto text = [&](const char* key) -> std::string {
    if (!json.contains(key)) return {};
    if (!json.at(key).is_string()) fail(type_error(key));
    return json.at(key).get<std::string>();
  };
  if (!json.is_object()) fail("a value must be an object");
  // The settings.json of a folder is a plan, too: its "protocol" is that of an earlier plan.
  const bool of_folder = json.contains("format");
  if (const Json version = json.value("protocol", Json()); version != 1 && !of_folder)
    fail("protocol " + internal::shown(version.dump()));
  if (const std::string version = text("gnomon"); !version.empty() && version != GNOMON_VERSION)
    fail("a plan of version " + internal::shown(version));
  if (!json.contains("settings")) fail("no key settings");
  constexpr auto keys =
      std::to_array<std::string_view>({"protocol", "gnomon", "settings", "fingerprint",
                                       "tokenizer", "runs", "statements", "format", "command"});
  for (const auto& [key, value] : json.items())
    if (!contains(keys, key)) fail("the key " + internal::shown(key));
  Plan plan{.settings = read_settings_of_plan(json.at("settings"))};
  plan.fingerprint = text("fingerprint");
  plan.tokenizer = from_base64(text("tokenizer"));
  if (!plan.tokenizer.empty() && !parse_tokens(plan.settings.tokens))
    fail("a tokenizer without --tokens bpe");
  if (json.contains("runs")) plan.runs = read_runs(json.at("runs"), plan.settings);
  if (json.contains("statements") && !json.at("statements").is_array())
    fail(type_error("statements"));
  return plan;
}

}  // namespace

Json to_json(const Plan& plan) {
  Json json{{"protocol", 1}, {"gnomon", GNOMON_VERSION}, {"settings", to_json(plan.settings)}};
  json["fingerprint"] = plan.fingerprint;
  if (!plan.tokenizer.empty()) json["tokenizer"] = plot::internal::base64(plan.tokenizer);
  json["runs"] = Json::array();
  for (const Job& job : plan.runs)
    json["runs"].push_back(
        {{"name", job.name()}, {"encoding", job.encoding}, {"seed", job.seed}});
  return json;
}

Plan read_plan(const std::filesystem::path& path) {
  const io::MappedFile file(path);
  try {
    if (file.bytes().size() > most_bytes) fail("more than 64 MiB");
    Plan plan = plan_of(internal::parse_json<Json>(file.text(), "lab", "the file"));
    plan.sha256 = plot::internal::sha256_hex(file.text());
    return plan;
  } catch (const std::invalid_argument& error) {
    refuse("lab", path.string() + " must be a plan as --list-runs prints it", error.what());
  }
}

std::vector<Job> runs_of(const Plan& plan, const Settings& usable) {
  const std::vector<Job> all = jobs_of(usable);
  if (plan.runs.empty()) return all;
  const std::set<std::string> here = names_of(all), planned = names_of(plan.runs);
  std::vector<std::string> others;
  std::set_symmetric_difference(here.begin(), here.end(), planned.begin(), planned.end(),
                                std::back_inserter(others));
  if (!others.empty())
    refuse("lab", "the runs of a plan must be those of its usable encodings",
           "another " + others[0]);
  return plan.runs;
}

std::string Job::name() const { return file_name(encoding) + "-seed" + std::to_string(seed); }

std::filesystem::path Job::checkpoint(const std::filesystem::path& folder) const {
  return folder / "checkpoints" / (name() + ".safetensors");
}

std::filesystem::path Job::result(const std::filesystem::path& folder) const {
  return folder / "runs" / (name() + ".json");
}

std::vector<Job> jobs_of(const Settings& settings) {
  std::vector<Job> jobs;
  for (const std::int64_t seed : settings.seeds)
    for (const std::string& encoding : settings.encodings) jobs.push_back({encoding, seed});
  return jobs;
}

}  // namespace gnomon::lab
