// JSON of settings, runs and measured costs. docs/lab/results.md describes the keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

class Reader;
class Writer;

// The contents of settings.json: the settings, a hash of the texts, the command line (empty:
// another program wrote the folder), the version of the library, that of the layout, and with
// --protocol the hash of its file.
struct StoredSettings {
  Settings settings;
  std::string fingerprint, command;
  std::optional<std::string> gnomon = {};
  std::optional<std::int64_t> format = run_format;
  std::optional<Protocol> protocol = {};
};

Json to_json(const Settings& settings);
Json to_json(const StoredSettings& stored);
Json to_json(const RunResult& run);
Json to_json(const std::vector<MeasuredCost>& costs);
Json to_json(const std::vector<SweptRate>& swept);
Json to_json(const ModelConfig& config);
Json to_json(const LengthLoss& loss);
Json to_json(const Stretch& stretch);

// The keys of a struct, for json_fields.h.
#define GNOMON_LAB_JSON(Struct)               \
  void describe(Writer& writer, Struct& one); \
  void describe(Reader& reader, Struct& one)
GNOMON_LAB_JSON(Settings);
GNOMON_LAB_JSON(Protocol);
GNOMON_LAB_JSON(StoredSettings);
GNOMON_LAB_JSON(RunResult);
GNOMON_LAB_JSON(MeasuredCost);
GNOMON_LAB_JSON(MemoryUse);
GNOMON_LAB_JSON(RelativeTime);
GNOMON_LAB_JSON(ModelConfig);
GNOMON_LAB_JSON(LeftOut);
GNOMON_LAB_JSON(SweptRate);
#undef GNOMON_LAB_JSON

}  // namespace gnomon::lab
