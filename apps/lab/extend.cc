#include "apps/lab/extend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/candidate.h"
#include "apps/lab/diverged.h"
#include "apps/lab/evaluate.h"
#include "apps/lab/model_size.h"
#include "apps/lab/run.h"
#include "apps/lab/sequence_model.h"
#include "apps/lab/statistics.h"
#include "apps/lab/transformer.h"
#include "apps/lab/words.h"
#include "gnomon/error.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {
namespace {

constexpr ExtensionInfo list[] = {
    {"linear", "Interpolation (linear)", "Chen et al. 2023, arXiv:2306.15595"},
    {"ntk", "NTK-aware", "bloc97 2023; Peng et al. 2023, arXiv:2309.00071"},
    {"dynamic-ntk", "Dynamic NTK", "Peng et al. 2023, arXiv:2309.00071"},
    {"yarn", "YaRN", "Peng et al. 2023, arXiv:2309.00071"},
    {"drope", "Positions dropped (DroPE)", "Gelberg et al. 2025, arXiv:2512.12167"},
};
constexpr const char* control = "control";

constexpr std::int64_t factor = 4, tune_divisor = 20;
// Relative to the peak. Training ends at a tenth of the peak, and the fine-tune has few steps.
constexpr double tune_rate = 0.3;
constexpr std::uint64_t tune_seed = 1000;  // other windows than in training

// The spec for a context of `length` tokens. Only dynamic NTK depends on `length`.
model::Encoding stretched(const Rotary& rotary, const std::string& method, std::int64_t trained,
                          std::int64_t length) {
  if (method == "drope") return model::NoPosition{};
  if (method == control) return rotary;
  ScaledRotary scaled{.rotary = rotary, .length = factor * trained};
  const auto times = static_cast<double>(factor);
  if (method == "linear") scaled.scaling = LinearScaling{.factor = times};
  if (method == "ntk") scaled.scaling = NtkScaling{.factor = times};
  if (method == "yarn")
    scaled.scaling = YarnScaling{.factor = times, .original_length = trained};
  if (method == "dynamic-ntk") {
    scaled.scaling = DynamicNtkScaling{.factor = 2, .trained_length = trained};
    scaled.length = length;
  }
  return scaled;
}

// A model with the weights of `from` and another encoding. Both encodings have no parameters.
Transformer with_encoding(Transformer& from, const Settings& settings,
                          const model::Encoding& encoding) {
  const at::NoGradGuard no_grad;
  Transformer model(settings, encoding, 1);
  const auto weights = from->named_parameters();
  for (auto& item : model->named_parameters()) item.value().copy_(weights[item.key()]);
  model->to(torch::Device(settings.device));
  return model;
}

// Bits at every length. Empty if `stop` returns true.
std::vector<double> bits_at_lengths(Transformer& weights, const Rotary& rotary,
                                    const std::string& method, const Settings& settings,
                                    const Corpus& corpus, const std::function<bool()>& stop) {
  std::vector<double> bits;
  for (const std::int64_t length : settings.eval_lengths) {
    Transformer model = with_encoding(weights, settings,
                                      stretched(rotary, method, settings.train_length, length));
    const auto found = tail_bits(model, settings, corpus, length, stop);
    if (!found) return {};
    bits.push_back(*found);
  }
  return bits;
}

Settings tuning(const Settings& settings, const std::string& method) {
  Settings tuned = settings;
  tuned.steps = std::max<std::int64_t>(1, settings.steps / tune_divisor);
  tuned.learning_rate = tune_rate * settings.learning_rate;
  if (method != "drope") {
    tuned.train_length = factor * settings.train_length;
    tuned.batch = std::max<std::int64_t>(1, settings.batch / factor);
  }
  tuned.micro_batches.reset();  // one worker
  return tuned;
}

std::optional<ExtensionMethod> outcome_of(const std::string& method, Transformer& trained,
                                          const Rotary& rotary, const Settings& settings,
                                          const Corpus& corpus, std::int64_t seed,
                                          const std::function<bool()>& stop) {
  const Settings tuned = tuning(settings, method);
  const model::Encoding encoding =
      stretched(rotary, method, settings.train_length, tuned.train_length);
  const auto without = bits_at_lengths(trained, rotary, method, settings, corpus, stop);
  if (without.empty()) return {};
  TrainingRun run(tuned,
                  std::make_unique<SequenceModel>(tuned, corpus, find_candidate("rotary"),
                                                  with_encoding(trained, settings, encoding)),
                  static_cast<std::int64_t>(tune_seed) + seed);
  while (!run.trained()) {
    if (stop()) return {};
    run.train_step();
  }
  const auto after = bits_at_lengths(run.transformer(), rotary, method, settings, corpus, stop);
  if (after.empty()) return {};
  return ExtensionMethod{method, tuned.train_length, model::internal::json_of(encoding),
                         without, after};
}

}  // namespace

std::span<const ExtensionInfo> extensions() { return list; }

const ExtensionInfo& find_extension(std::string_view name) {
  std::string names;
  for (const ExtensionInfo& one : list) {
    if (one.name == name) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  refuse("lab", "--extend must be one of " + names, name);
}

std::string extension_title(const std::string& method) {
  return method == control ? "Fine-tuned without scaling"
                           : std::string(find_extension(method).title);
}

bool extends(const std::string& encoding) { return split_size(encoding).name == "rotary"; }

std::optional<Extension> extend(Transformer& trained, const Settings& settings,
                                const Corpus& corpus, std::int64_t seed,
                                const std::function<bool()>& stop) {
  const Rotary rotary = std::get<Rotary>(find_usual("rotary", settings));
  Extension all{.factor = factor, .steps = tuning(settings, control).steps};
  all.before = bits_at_lengths(trained, rotary, control, settings, corpus, stop);
  if (all.before.empty()) return {};
  std::vector<std::string> methods = settings.extend;
  methods.emplace_back(control);
  for (const std::string& method : methods) {
    const auto one = outcome_of(method, trained, rotary, settings, corpus, seed, stop);
    if (!one) return {};
    all.methods.push_back(*one);
  }
  return all;
}

std::vector<ExtensionResult> extension_results(const std::vector<EncodingResult>& encodings,
                                               const std::vector<RunResult>& runs) {
  std::vector<ExtensionResult> all;
  for (const EncodingResult& encoding : encodings) {
    std::vector<const Extension*> seeds;
    for (const RunResult& run : runs)
      if (run.encoding == encoding.name && run.extension) seeds.push_back(&*run.extension);
    if (seeds.empty()) continue;
    const Extension& first = *seeds.front();
    ExtensionResult result{.name = encoding.name,
                           .title = encoding.title,
                           .seeds = std::ssize(seeds),
                           .factor = first.factor,
                           .steps = first.steps};
    // `of` returns the list of bits in the extension of a seed.
    const auto add = [&](const std::string& method, const std::string& title, Stage stage,
                         auto&& of) {
      ExtensionRow row{.method = method, .title = title, .stage = stage};
      for (std::size_t i = 0; i < first.before.size(); ++i) {
        std::vector<double> here;
        for (const Extension* seed : seeds) here.push_back(of(*seed)[i]);
        row.bits.push_back(mean(here));
        row.deviation.push_back(deviation(here));
        row.uncertainty.push_back(mean_margin(here));
      }
      result.rows.push_back(row);
    };
    add("none", encoding.title, Stage::before,
        [](const Extension& seed) { return seed.before; });
    for (std::size_t m = 0; m < first.methods.size(); ++m) {
      const std::string& method = first.methods[m].method;
      if (method != control)
        add(method, extension_title(method), Stage::without,
            [&](const Extension& seed) { return seed.methods[m].without; });
      add(method, extension_title(method), Stage::after,
          [&](const Extension& seed) { return seed.methods[m].after; });
    }
    for (const LengthMean& at : encoding.lengths) result.lengths.push_back(at.length);
    all.push_back(result);
  }
  return all;
}

std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit) {
  std::vector<std::string> sentences;
  for (const ExtensionResult& one : extensions) {
    // Index of the length that the methods are for, or of the longest if that is shorter.
    std::size_t at = 0;
    while (at + 1 < one.lengths.size() && one.lengths[at] < one.lengths[0] * one.factor) ++at;
    const auto best = [&](Stage stage) {
      const ExtensionRow* least = nullptr;
      for (const ExtensionRow& row : one.rows)
        if (row.stage == stage && row.method != control &&
            (!least || is_lower(row.bits[at], least->bits[at])))
          least = &row;
      return least;
    };
    const ExtensionRow *without = best(Stage::without), *after = best(Stage::after);
    if (!without || !after) continue;
    const auto bits = [&](const ExtensionRow& row) {
      return number_or_diverged("{:.2f}", row.bits[at]);
    };
    const auto best_of = [&](const ExtensionRow& row) {
      return std::isfinite(row.bits[at])
                 ? fmt::format("the best is {} ({})", row.title, bits(row))
                 : std::string("every method diverged");
    };
    sentences.push_back(fmt::format(
        "{} at {} {}: {} bits after training at {}; without a fine-tune, {}; after {} of "
        "fine-tuning, {}, and the same fine-tuning without scaling gives {}.",
        one.title, one.lengths[at], unit, bits(one.rows.front()), one.lengths[0],
        best_of(*without), counted(one.steps, "step"), best_of(*after), bits(one.rows.back())));
  }
  return sentences;
}

}  // namespace gnomon::lab
