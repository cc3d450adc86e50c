#include "apps/lab/tasks/stored.h"

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
