// Tests of a trained model: the loss on the same test bytes at every context length, or the
// answers to examples of every length.
#pragma once

#include <functional>
#include <optional>

#include "apps/lab/corpus.h"
#include "apps/lab/transformer.h"

namespace gnomon::lab {

// Returns for a task with text, for each length of settings.eval_lengths, in bits per byte:
//
//   "lengths": [{"length": 256, "applicable": true,
//                "tail_bits": mean over all target bytes, each predicted from the second half
//                             of a window, with length/2 to length bytes of context; masked
//                             text: mean over the masked bytes,
//                "window_bits": mean over the same bytes in adjacent windows,
//                "accuracy": share of the targets of tail_bits that were the most likely byte,
//                "windows": number of windows, "tail_by_segment": [...]}]
//   "by_position": {"length": longest applicable length,
//                   "positions": [...] bytes of context, the middle of each range,
//                   "bits": [...],
//                   "cut_bits": [...] the same bytes with the cut context}
//
// For a task with examples, for every length up to the longest:
//
//   "stretches": [{"from": 1, "to": 5, "up_to": of settings.eval_lengths, "applicable": true,
//                  "examples": number of examples,
//                  "whole": share of answers that are right in every byte,
//                  "byte": share of right bytes, each predicted after the right previous bytes,
//                  "bits": per byte, "chance_whole", "chance_byte"}]
//
// A whole answer is right exactly if greedy decoding gives it. Lengths beyond the capacity of
// the encoding have only "applicable": false. `stop` is called between segments. Returns an
// empty Json if it returns true.
Json evaluate(Transformer& model, const Settings& settings, const Corpus& corpus,
              const std::function<bool()>& stop);

// The tail_bits at one length, for a task with text. Empty if `stop` returns true.
std::optional<double> tail_bits(Transformer& model, const Settings& settings,
                                const Corpus& corpus, std::int64_t length,
                                const std::function<bool()>& stop);

}  // namespace gnomon::lab
