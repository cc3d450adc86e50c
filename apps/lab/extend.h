// Extension of a trained rotary model to a longer context: its frequencies are scaled, or its
// positions are dropped. The loss is measured before and after a short fine-tune.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "apps/lab/corpus.h"

namespace gnomon::lab {

class Transformer;

struct ExtensionInfo {
  std::string_view name;   // as in --extend
  std::string_view title;  // "YaRN"
  std::string_view source;
};
// The list: linear, ntk, dynamic-ntk, yarn, drope. drope is not a scaling: it removes the
// positions (Gelberg et al. 2025).
std::span<const ExtensionInfo> extensions();
// Throws std::invalid_argument with a list of the names if there is no such name.
const ExtensionInfo& find_extension(std::string_view name);

// Whether --extend applies to an entry of --encodings: plain rotary in every layer.
bool extends(const std::string& encoding);

// Applies the methods of settings.extend to a trained model. Returns
//
//   {"factor": 4, "steps": of the fine-tune, at most a twentieth of the training steps,
//    "before": [bits at each of settings.eval_lengths],
//    "methods": [{"method": "yarn", "tune_length": bytes in a window of the fine-tune,
//                 "specification": {...}, "without": [bits before the fine-tune],
//                 "after": [...]}]}
//
// Bits are the tail_bits of evaluate. The windows of the fine-tune are 4 times as long as in
// training and a quarter as many, so the number of bytes in a step is the same. drope is
// fine-tuned at the training length. The last method is "control", a fine-tune without scaling.
// Empty if `stop` returns true.
Json extend(Transformer& trained, const Settings& settings, const Corpus& corpus,
            std::int64_t seed, const std::function<bool()>& stop);

// Results over seeds: [{"name", "title", "factor", "steps", "lengths", "rows": [{"method",
// "title", "stage": "before", "without" or "after", "bits": [...], "deviation": [...]}]}].
Json extension_results(const Json& encodings, const Json& runs);

// Sentences about the gain of each method at the longest length.
Json extension_answer(const Json& extensions);

}  // namespace gnomon::lab
