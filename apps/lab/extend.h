// Extension of a trained rotary model to a longer context: its frequencies are scaled, or its
// positions are dropped. The loss is measured before and after a short fine-tune.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/lab/corpus.h"
#include "apps/lab/results.h"

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

// "YaRN"; "Fine-tuned without scaling" for the control.
std::string extension_title(const std::string& method);

// Whether --extend applies to an entry of --encodings: plain rotary in every layer.
bool extends(const std::string& encoding);

// Applies the methods of settings.extend to a trained model. The fine-tune has at most a
// twentieth of the training steps. Its windows are 4 times as long as in training and a quarter
// as many, so the number of bytes in a step is the same. drope is fine-tuned at the training
// length. The last method is "control", a fine-tune without scaling. Bits are the tail_bits of
// evaluate. Empty if `stop` returns true.
std::optional<Extension> extend(Transformer& trained, const Settings& settings,
                                const Corpus& corpus, std::int64_t seed,
                                const std::function<bool()>& stop);

// Results over seeds.
std::vector<ExtensionResult> extension_results(const std::vector<EncodingResult>& encodings,
                                               const std::vector<RunResult>& runs);

// Sentences about the gain of each method at the longest length.
std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit);

}  // namespace gnomon::lab
