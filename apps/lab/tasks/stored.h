// The files that an earlier session wrote: settings, runs, costs and models.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/lab/data/run_json.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/core/json.h"

namespace gnomon::lab {

// Reads a value that fulfils check(value), which throws std::invalid_argument otherwise.
template <typename T, typename Check>
T read_value(const Json& json, Check&& check) {
  T value;
  if (!Reader::read(json, value)) throw std::invalid_argument("no list");
  check(value);
  return value;
}
// ", in a file of version 0.1.0" if the file names the version that wrote it.
std::string of_version(const Json& file);
template <typename T, typename Check>
T read_file(const std::filesystem::path& path, Check&& check) {
  std::string version;
  try {
    const io::MappedFile file(path);
    const Json json = internal::parse_json<Json>(file.text(), "lab", "the file");
    version = of_version(json);
    return read_value<T>(json, check);
  } catch (const std::invalid_argument& error) {
    refuse("lab", path.string() + " must be as an earlier session wrote it",
           error.what() + version);
  }
}

// Checks of results that an earlier session wrote. Throw std::invalid_argument with the reason.
void need_same(bool holds, const char* rule);  // "another " + rule
void need_finite(const std::vector<double>& numbers);
void check_run(const RunResult& run, const Settings& settings);  // also the lengths of lists

// Readers. Throw std::invalid_argument, with the path and the reason, if the file is not what
// that session wrote: not JSON, a key that is missing or of another type, lists of other
// lengths than those of the settings.
StoredSettings read_settings(const std::filesystem::path& path);
StoredSettings read_settings(const Json& stored);  // that rank 0 sent
// The settings that differ.
struct ChangedSetting {
  std::string key;
  Json a, b;
};
std::vector<ChangedSetting> changed_settings(const Settings& a, const Settings& b);
// Throws std::invalid_argument unless both have the same settings except the paths of texts,
// and the same texts, version and protocol. `folder`: where `found` is from; `other`: of
// `wanted`.
void require_same(const std::string& folder, const StoredSettings& found,
                  const std::string& other, const StoredSettings& wanted);
RunResult read_run(const std::filesystem::path& path, const Settings& settings,
                   const std::string& encoding, std::int64_t seed);
inline std::vector<MeasuredCost> read_costs(const std::filesystem::path& path) {
  return read_file<std::vector<MeasuredCost>>(path, [](const auto&) {});
}
inline std::vector<SweptRate> read_sweep(const std::filesystem::path& path) {
  return read_file<std::vector<SweptRate>>(path, [](const auto&) {});
}
// The "model_type" of config.json: "gnomon-lab" or "gnomon-lab-universal".
std::string model_type(const Settings& settings);
// The config.json of a trained model.
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace gnomon::lab
