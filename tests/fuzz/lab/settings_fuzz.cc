// Reader: apps/lab/tasks/stored.cc apps/lab/data/run_json.h
#include "apps/lab/tasks/stored.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace settings_fuzz {

lab::Settings tested() {
  lab::Settings settings;
  settings.encodings = {"rotary"};
  settings.extend = {"yarn"};
  settings.eval_lengths = {128, 256};
  settings.steps = 6;
  return settings;
}

// The files of a session: settings, a run, costs and swept rates.
bool read(std::span<const std::byte> bytes) {
  const MemoryFile file(text(bytes));
  const lab::Settings settings = tested();
  const auto attempt = [&](auto reader) { return answered([&] { reader(file.path()); }); };
  bool good = attempt([](const auto& path) {
    const lab::Json written = lab::to_json(lab::read_settings(path));
    require(lab::to_json(lab::read_settings(written)) == written);
    const lab::StoredSettings stored = lab::read_settings(path),
                              read = lab::read_settings(written);
    require(lab::changed_settings(stored.settings, read.settings).empty());
    lab::require_same("a", read, "b", stored);
    lab::StoredSettings other;
    other.settings = tested();
    answered([&] { lab::require_same("a", other, "b", stored); });
  });
  good |= attempt([&](const auto& path) { lab::read_run(path, settings, "rotary", 1); });
  good |= attempt([](const auto& path) { lab::read_costs(path); });
  good |= attempt([](const auto& path) { lab::read_sweep(path); });
  return good;
}

const Register registered("settings", read);

}  // namespace settings_fuzz
}  // namespace gnomon::fuzz
