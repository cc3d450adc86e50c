#include "apps/lab/tasks/stored.h"

#include <fmt/format.h>

#include "apps/lab/model/candidate.h"
#include "apps/lab/tasks/results_check.h"
#include "apps/lab/tasks/settings_check.h"

namespace gnomon::lab {

StoredSettings read_settings(const std::filesystem::path& path) {
  return read_file<StoredSettings>(path, [](const StoredSettings& stored) {
    need_same(stored.format == run_format, "format");
    check_settings(stored.settings);
  });
}

StoredSettings read_settings(const Json& stored) {
  StoredSettings value;
  if (!Reader::read(stored, value)) throw std::invalid_argument("no settings");
  check_settings(value.settings);
  return value;
}

void require_same(const std::string& folder, const StoredSettings& found,
                  const std::string& other, const StoredSettings& wanted) {
  Settings here = found.settings;
  here.texts = wanted.settings.texts;
  const Json first = to_json(wanted.settings), second = to_json(here);
  Json keys = first;  // an optional setting can be in one of them
  keys.update(second);
  for (const auto& [key, any] : keys.items())
    if (const Json x = first.value(key, Json()), y = second.value(key, Json()); x != y)
      refuse("lab", fmt::format("{} must have the {} of {}, {}", folder, key, other, x.dump()),
             y.dump());
  const auto require = [&](bool same, const char* what, const char* got) {
    if (!same)
      refuse("lab", fmt::format("{} must have the {} of {}", folder, what, other), got);
  };
  require(found.gnomon == wanted.gnomon, "version", "another version");
  require(found.fingerprint == wanted.fingerprint, "texts", "different texts");
  require(found.protocol == wanted.protocol, "protocol", "another protocol");
}

RunResult read_run(const std::filesystem::path& path, const Settings& settings,
                   const std::string& encoding, std::int64_t seed) {
  return read_file<RunResult>(path, [&](const RunResult& run) {
    need_same(run.encoding == encoding && run.seed == seed, "encoding or seed");
    check_run(run, settings);
  });
}

std::vector<SweptRate> read_sweep(const std::filesystem::path& path) {
  return read_file<std::vector<SweptRate>>(path, [](const auto&) {});
}

std::vector<MeasuredCost> read_costs(const std::filesystem::path& path) {
  return read_file<std::vector<MeasuredCost>>(path, [](const auto&) {});
}

ModelConfig read_model_config(const std::filesystem::path& path) {
  return read_file<ModelConfig>(path, [](const ModelConfig& config) {
    need_same(config.model_type == "gnomon-lab", "model_type");
    // A session with --extend stores it for all encodings, but only rotary can be extended.
    Settings settings = config.settings;
    settings.extend.clear();
    check_settings(settings);
    find_candidate(config.encoding);
  });
}

}  // namespace gnomon::lab
