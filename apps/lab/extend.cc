#include "apps/lab/extend.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "apps/lab/candidate.h"
#include "apps/lab/evaluate.h"
#include "apps/lab/run.h"
#include "apps/lab/statistics.h"
#include "apps/lab/transformer.h"
#include "gnomon/error.h"
#include "src/model/encoding_json.h"

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

// The spec for a context of `length` bytes. Only dynamic NTK depends on `length`.
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
Json bits_at_lengths(Transformer& weights, const Rotary& rotary, const std::string& method,
                     const Settings& settings, const Corpus& corpus,
                     const std::function<bool()>& stop) {
  Json bits = Json::array();
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
  return tuned;
}

Json outcome_of(const std::string& method, Transformer& trained, const Rotary& rotary,
                const Settings& settings, const Corpus& corpus, std::int64_t seed,
                const std::function<bool()>& stop) {
  const Settings tuned = tuning(settings, method);
  const model::Encoding encoding =
      stretched(rotary, method, settings.train_length, tuned.train_length);
  const Json without = bits_at_lengths(trained, rotary, method, settings, corpus, stop);
  if (without.is_null()) return {};
  TrainingRun run(tuned, corpus, with_encoding(trained, settings, encoding),
                  static_cast<std::int64_t>(tune_seed) + seed);
  while (!run.trained()) {
    if (stop()) return {};
    run.train_step();
  }
  const Json after = bits_at_lengths(run.model(), rotary, method, settings, corpus, stop);
  if (after.is_null()) return {};
  return {{"method", method},
          {"tune_length", tuned.train_length},
          {"specification", model::internal::json_of(encoding)},
          {"without", without},
          {"after", after}};
}

std::string title_of(const std::string& method) {
  return method == control ? "Fine-tuned without scaling"
                           : std::string(find_extension(method).title);
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

bool extends(const std::string& encoding) { return encoding == "rotary"; }

Json extend(Transformer& trained, const Settings& settings, const Corpus& corpus,
            std::int64_t seed, const std::function<bool()>& stop) {
  const Rotary rotary = std::get<Rotary>(find_usual("rotary", settings));
  const Json before = bits_at_lengths(trained, rotary, control, settings, corpus, stop);
  if (before.is_null()) return {};
  std::vector<std::string> methods = settings.extend;
  methods.emplace_back(control);
  Json found = Json::array();
  for (const std::string& method : methods) {
    const Json one = outcome_of(method, trained, rotary, settings, corpus, seed, stop);
    if (one.is_null()) return {};
    found.push_back(one);
  }
  return {{"factor", factor},
          {"steps", tuning(settings, control).steps},
          {"before", before},
          {"methods", found}};
}

Json extension_results(const Json& encodings, const Json& runs) {
  Json all = Json::array();
  for (const Json& encoding : encodings) {
    std::vector<const Json*> seeds;
    for (const Json& run : runs)
      if (run.at("encoding") == encoding.at("name") && run.contains("extension"))
        seeds.push_back(&run.at("extension"));
    if (seeds.empty()) continue;
    const Json& first = *seeds.front();
    Json rows = Json::array();
    // `of` returns the list of bits in the extension of a seed.
    const auto add = [&](const std::string& method, const std::string& title, const char* stage,
                         auto&& of) {
      Json bits = Json::array(), deviations = Json::array();
      for (std::size_t i = 0; i < first.at("before").size(); ++i) {
        std::vector<double> here;
        for (const Json* seed : seeds) here.push_back(of(*seed)[i].template get<double>());
        bits.push_back(mean(here));
        deviations.push_back(deviation(here));
      }
      rows.push_back({{"method", method},
                      {"title", title},
                      {"stage", stage},
                      {"bits", bits},
                      {"deviation", deviations}});
    };
    add("none", encoding.at("title"), "before",
        [](const Json& seed) -> const Json& { return seed.at("before"); });
    for (std::size_t m = 0; m < first.at("methods").size(); ++m) {
      const std::string method = first.at("methods")[m].at("method");
      for (const char* stage : {"without", "after"})
        if (method != control || std::string(stage) == "after")
          add(method, title_of(method), stage,
              [&](const Json& seed) -> const Json& { return seed.at("methods")[m].at(stage); });
    }
    Json lengths = Json::array();
    for (const Json& at : encoding.at("lengths")) lengths.push_back(at.at("length"));
    all.push_back({{"name", encoding.at("name")},
                   {"title", encoding.at("title")},
                   {"factor", first.at("factor")},
                   {"steps", first.at("steps")},
                   {"lengths", lengths},
                   {"rows", rows}});
  }
  return all;
}

Json extension_answer(const Json& extensions) {
  Json sentences = Json::array();
  for (const Json& one : extensions) {
    // At the length that the methods are for, or at the longest length if that is shorter.
    const Json& lengths = one.at("lengths");
    std::size_t at = 0;
    while (at + 1 < lengths.size() &&
           lengths[at] < lengths[0].get<std::int64_t>() * one.at("factor").get<std::int64_t>())
      ++at;
    const auto bits = [&](const Json& row) { return row.at("bits")[at].get<double>(); };
    const auto best = [&](const char* stage) {
      const Json* least = nullptr;
      for (const Json& row : one.at("rows"))
        if (row.at("stage") == stage && row.at("method") != control &&
            (!least || bits(row) < bits(*least)))
          least = &row;
      return least;
    };
    const Json* rows = &one.at("rows");
    const Json *without = best("without"), *after = best("after");
    if (!without || !after) continue;
    sentences.push_back(fmt::format(
        "{} at {} bytes: {:.2f} bits after training at {}; without a fine-tune, the best is {} "
        "({:.2f}); after {} steps of fine-tuning, the best is {} ({:.2f}), and the same steps "
        "without scaling give {:.2f}.",
        one.at("title").get<std::string>(), lengths[at].get<std::int64_t>(),
        bits(rows->front()), lengths[0].get<std::int64_t>(),
        without->at("title").get<std::string>(), bits(*without),
        one.at("steps").get<std::int64_t>(), after->at("title").get<std::string>(),
        bits(*after), bits(rows->back())));
  }
  return sentences;
}

}  // namespace gnomon::lab
