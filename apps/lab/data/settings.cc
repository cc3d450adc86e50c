#include "apps/lab/data/settings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/tokenizer.h"
#include "gnomon/error.h"

namespace gnomon::lab {

const Preset& find_preset(const std::string& name) {
  static constexpr Preset presets[] = {{"default", 3, 600, 48, 8.5}, {"full", 5, 1200, 96, 58}};
  for (const Preset& one : presets)
    if (name == one.name) return one;
  refuse("lab", "--preset must be default or full", name);
}

double learning_rate_of(const Settings& settings, const std::string& encoding) {
  const EntryRate* one = find_by(settings.rates, &EntryRate::encoding, encoding);
  return one ? one->learning_rate : settings.learning_rate;
}

std::vector<std::int64_t> seeds_up_to(std::int64_t count) {
  std::vector<std::int64_t> seeds(static_cast<std::size_t>(count));
  std::iota(seeds.begin(), seeds.end(), 1);
  return seeds;
}

std::int64_t preset_steps(const Settings& s) {
  if (!s.finetune.empty()) return 0;
  return find_preset(s.preset).steps * s.task->defaults().steps;
}

std::int64_t block_count(const Settings& settings) {
  return settings.model == universal_model ? 1 : settings.layers;
}

std::int64_t drop_step(const Settings& settings) {
  const auto steps = static_cast<double>(settings.steps);
  return settings.drop_position.value_or(
      std::max<std::int64_t>(1, std::llround(stable_until * steps)));
}

std::int64_t vocabulary(const Settings& settings) {
  return parse_tokens(settings.tokens).value_or(256);
}

}  // namespace gnomon::lab
