#include "apps/lab/tasks/stored.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/lab/data/numbers.h"
#include "apps/lab/tasks/finetune_config.h"
#include "apps/lab/tasks/settings_check.h"
#include "src/core/text.h"

namespace gnomon::lab {

std::string of_version(const Json& file) {
  if (!file.is_object() || !file.contains("gnomon") || !file["gnomon"].is_string()) return {};
  return ", in a file of version " +
         internal::printable(file["gnomon"].get_ref<const std::string&>(), 40);
}

void need_same(bool holds, const char* rule) {
  if (!holds) throw std::invalid_argument(std::string("another ") + rule);
}

void need_finite(const std::vector<double>& numbers) {
  for (const double one : numbers)
    if (!std::isfinite(one)) throw std::invalid_argument("a number that is not finite");
}

namespace {

void need_rows(const std::vector<std::vector<double>>& rows) {
  for (const auto& row : rows) need_same(row.size() == rows.front().size(), "length of a row");
}

void check_picture(const Picture& picture) {
  for (const auto* matrix : {&picture.table, &picture.similarity, &picture.initial_table})
    if (*matrix) {
      need_same((*matrix)->row_step > 0 && (*matrix)->column_step > 0, "step");
      need_rows((*matrix)->values);
    }
  if (picture.initial_table)
    need_same(picture.table && !picture.table->values.empty() &&
                  picture.initial_table->values.size() == picture.table->values.size() &&
                  picture.initial_table->values.front().size() ==
                      picture.table->values.front().size(),
              "size of initial_table");
  if (picture.rotary) need_finite(picture.rotary->scores);
  if (picture.rotary)
    need_same(picture.rotary->distances.size() == picture.rotary->scores.size(),
              "size of rotary");
  for (const auto* bias : {&picture.bias, &picture.initial_bias})
    if (*bias)
      for (const auto& head : (*bias)->heads)
        need_same(head.size() == (*bias)->distances.size(), "size of bias");
  if (picture.initial_bias)
    need_same(picture.bias && picture.initial_bias->distances == picture.bias->distances &&
                  picture.initial_bias->heads.size() == picture.bias->heads.size(),
              "size of initial_bias");
}

}  // namespace

void check_run(const RunResult& run, const Settings& settings) {
  need_same(run.format == run_format, "format");
  const auto& [lengths, by_position, stretches] = run.tests;
  const std::vector<std::int64_t>& wanted = settings.eval_lengths;
  // A loss or a score that is not finite is that of a run that diverged.
  need_finite({run.train_seconds, run.tokens_per_second, run.test_seconds});
  const bool tuned = settings.finetune.empty() || finetune::parse_entry(run.encoding).tuned;
  need_same(run.steps == (tuned ? settings.steps : 0), "number of steps");
  if (!settings.task->has_examples()) {
    need_same(stretches.empty() && lengths.size() == wanted.size() &&
                  lengths.front().applicable && !lengths.front().tail_by_segment.empty(),
              "list of lengths");
    for (std::size_t i = 0; i < lengths.size(); ++i)
      need_same(lengths[i].length == wanted[i] &&
                    lengths[i].tail_by_segment.size() ==
                        (lengths[i].applicable ? lengths[0].tail_by_segment.size() : 0),
                "length");
    for (const LengthLoss& one : lengths) {
      if (!one.applicable) continue;
      for (const double loss : one.tail_by_segment) need_same(!(loss < 0), "sign of a loss");
      need_same(!(one.window_bits < 0), "sign of a loss");
      need_same(!(std::abs(one.tail_bits - mean(one.tail_by_segment)) > 1e-6),
                "mean of tail_by_segment");
    }
    need_same(by_position && by_position->bits.size() == by_position->positions.size(),
              "list of positions");
  } else {
    const std::vector<Stretch> expected = length_stretches(settings);
    need_same(lengths.empty() && stretches.size() == expected.size(), "list of stretches");
    for (std::size_t i = 0; i < stretches.size(); ++i)
      need_same(stretches[i].from == expected[i].from && stretches[i].to == expected[i].to &&
                    stretches[i].up_to == expected[i].up_to &&
                    (stretches[i].examples > 0 || !stretches[i].applicable),
                "stretch");
    need_same(stretches.front().applicable, "first stretch");
    for (const Stretch& one : stretches) {
      const std::size_t examples = one.scores.size();
      need_same(one.sources.empty() || one.sources.size() == examples, "number of sources");
      need_same(one.seconds.empty() || one.seconds.size() == examples, "number of scores");
      for (const auto* scores : {&one.scores, &one.seconds})
        for (const double share : *scores)
          need_same(!(share < 0 || share > 1), "range of a score");
      need_finite({one.chance_score, one.chance_second});
      for (const double share : {one.score, one.second, one.chance_score, one.chance_second})
        need_same(!(share < 0 || share > 1), "range of a score");
      need_same(!(one.bits < 0), "sign of a loss");
    }
  }
  if (run.extension) {
    need_same(run.extension->before.size() == wanted.size(), "length of before");
    need_same(run.extension->methods.size() == settings.extend.size() + 1, "number of methods");
    for (const ExtensionMethod& one : run.extension->methods) {
      need_same(one.without.size() == wanted.size() && one.after.size() == wanted.size(),
                "length of without or after");
      for (const auto* segments : {&one.without_by_segment, &one.after_by_segment})
        need_same(segments->empty() || segments->size() == wanted.size(),
                  "length of without_by_segment or after_by_segment");
    }
  }
  check_picture(run.picture);
  if (!run.attention) return;
  need_same(run.attention->distances.size() == run.attention->shares.size(),
            "number of shares");
  for (const AttentionMap& map : run.attention->maps) need_rows(map.weights);
  for (const HeadAttention& head : run.attention->heads)
    need_same(!head.shares.empty() && head.shares.size() == run.attention->range_ends.size(),
              "number of shares of a head");
}

StoredSettings read_settings(const std::filesystem::path& path) {
  return read_file<StoredSettings>(path, [](const StoredSettings& stored) {
    need_same(stored.format == run_format, "format");
    check_settings(stored.settings);
  });
}

StoredSettings read_settings(const Json& stored) {
  return read_value<StoredSettings>(
      stored, [](const StoredSettings& one) { check_settings(one.settings); });
}

std::vector<ChangedSetting> changed_settings(const Settings& a, const Settings& b) {
  const Json of_a = to_json(a), of_b = to_json(b);
  Json keys = of_a;  // an optional setting can be in one of them
  keys.update(of_b);
  std::vector<ChangedSetting> all;
  for (const auto& [key, any] : keys.items())
    if (const Json x = of_a.value(key, Json()), y = of_b.value(key, Json()); x != y)
      all.push_back({key, x, y});
  return all;
}

void require_same(const std::string& folder, const StoredSettings& found,
                  const std::string& other, const StoredSettings& wanted) {
  Settings here = found.settings;
  here.texts = wanted.settings.texts;
  for (const auto& [key, first, second] : changed_settings(wanted.settings, here))
    refuse("lab",
           fmt::format("{} must have the {} of {}, {}", folder, key, other, first.dump()),
           second.dump());
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

std::string model_type(const Settings& settings) {
  return settings.model.empty() ? "gnomon-lab" : "gnomon-lab-" + settings.model;
}

ModelConfig read_model_config(const std::filesystem::path& path) {
  return read_file<ModelConfig>(path, [](const ModelConfig& config) {
    need_same(config.model_type == model_type(config.settings), "model_type");
    // A session with --extend stores it for all encodings, but only rotary can be extended.
    Settings settings = config.settings;
    settings.extend.clear();
    check_settings(settings);
    find_candidate(config.encoding);
  });
}

}  // namespace gnomon::lab
