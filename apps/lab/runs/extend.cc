#include "apps/lab/runs/run.h"

#include <algorithm>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/evaluate.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/tasks/make_model.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {
namespace {

constexpr std::int64_t factor = 4, tune_divisor = 20;
// Relative to the peak. Training ends at a tenth of the peak, and the fine-tune has few steps.
constexpr double tune_rate = 0.3;
constexpr std::int64_t tune_seed = 1000;  // other windows than in training

// The spec for a context of `length` tokens. Only dynamic NTK depends on `length`.
model::Encoding stretched(const Rotary& rotary, const std::string& method, std::int64_t trained,
                          std::int64_t length) {
  if (method == "drope") return model::NoPosition{};
  if (method == control_extension) return rotary;
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

Settings tuning(const Settings& settings, const std::string& method) {
  Settings tuned = settings;
  tuned.steps = std::max<std::int64_t>(1, settings.steps / tune_divisor);
  tuned.learning_rate = tune_rate * learning_rate_of(settings, "rotary");
  if (method != "drope") {
    tuned.train_length = factor * settings.train_length;
    tuned.batch = std::max<std::int64_t>(1, settings.batch / factor);
  }
  tuned.micro_batches.reset();  // one worker
  return tuned;
}

}  // namespace

std::optional<Extension> extend(Transformer& trained, const Settings& settings,
                                const Corpus& corpus, std::int64_t seed, const Stop& stop) {
  const Rotary rotary = std::get<Rotary>(find_usual("rotary", settings));
  // A model with the weights of `from` and another encoding. Both encodings have no parameters.
  const auto with_encoding = [&](Transformer& from, const model::Encoding& encoding) {
    const at::NoGradGuard no_grad;
    Transformer model(settings, encoding, 1);
    const auto weights = from->named_parameters();
    for (auto& item : model->named_parameters()) item.value().copy_(weights[item.key()]);
    model->to(torch::Device(settings.device));
    return model;
  };
  // Bits of each test segment at every length. Empty if `stop` returns true.
  const auto bits_at_lengths = [&](Transformer& weights, const std::string& method) {
    std::vector<std::vector<double>> bits;
    for (const std::int64_t length : settings.eval_lengths) {
      Transformer model =
          with_encoding(weights, stretched(rotary, method, settings.train_length, length));
      const auto found = tail_by_segment(model, settings, corpus, length, stop);
      if (!found) return std::vector<std::vector<double>>();
      bits.push_back(*found);
    }
    return bits;
  };

  Extension all{.factor = factor, .steps = tuning(settings, control_extension).steps};
  all.before = mapped(bits_at_lengths(trained, control_extension), mean);
  if (all.before.empty()) return {};
  std::vector<std::string> methods = settings.extend;
  methods.emplace_back(control_extension);
  for (const std::string& method : methods) {
    const Settings tuned = tuning(settings, method);
    const model::Encoding encoding =
        stretched(rotary, method, settings.train_length, tuned.train_length);
    const auto without = bits_at_lengths(trained, method);
    if (without.empty()) return {};
    TrainingRun run(tuned,
                    sequence_model(tuned, corpus, find_candidate("rotary"),
                                   with_encoding(trained, encoding)),
                    tune_seed + seed);
    while (!run.trained()) {
      if (stop()) return {};
      run.train_step();
    }
    const auto after = bits_at_lengths(run.transformer(), method);
    if (after.empty()) return {};
    all.methods.push_back({method, tuned.train_length, model::internal::json_of(encoding),
                           mapped(without, mean), mapped(after, mean), without, after});
  }
  return all;
}

}  // namespace gnomon::lab
