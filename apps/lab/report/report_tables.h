// The tables and the curves of the report, from the results only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"
#include "gnomon/plot/page.h"

namespace gnomon::lab {

// Tables of bits at each length, of right answers in each range of lengths, of an extension, of
// costs, of accuracy, and of the durations of runs.
plot::Table summary_table(const Results& results);
plot::Table example_table(const Results& results);
// Scores by depth (Letters::depths); no rows if the task has none.
plot::Table depth_table(const Results& results);
plot::Table extension_table(const Results& results, const ExtensionResult& extension);
plot::Table cost_table(const Results& results);
plot::Table timings_table(const Results& results);
plot::Table accuracy_table(const Results& results);

// For a session with models of several sizes: losses or scores of each encoding by size, at the
// training length and at the longest, and the recommendations of all sizes.
plot::Table size_table(const Results& all, const std::vector<Results>& sizes);
plot::Table size_recommendations(const std::vector<Results>& sizes);

// The steps of a Universal Transformer by length; no rows for other models.
plot::Table step_table(const Results& results);

// The recommended encodings by length.
plot::Table recommendation_table(const Results& results);
// "128 to 256".
std::string length_range(const Recommendation& one);
// "2.630 ± 0.020" bits or "12.5 (10 to 15)" percent, "n/a" or "diverged". `best`: green.
plot::Cell result_cell(const EncodingResult& one, std::size_t place, bool best);
plot::Cell score_cell(const StretchMean& one, bool best);
plot::Cell marked(const std::string& text, bool best);
// A share in percent with a decimal, or with one digit if it is below 0.1 %.
std::string percent_number(double share);
// Whether an encoding may be the best of a ranking.
bool is_best(const Ranking& ranking, const std::string& name);

// "the 95 % confidence interval of ...": the meaning of LengthMean::uncertainty, or of the
// intervals of StretchMean.
std::string interval_text(const Results& results);
// Whether a method of the extension removes the positions (DroPE).
bool drops_positions(const ExtensionResult& extension);
// "1.07 ± 0.01", "no measurable cost" or "n/a"; memory: "+12" MiB, "no measurable
// cost", or of none "30". `length`: an index of memory_lengths.
std::string step_time_text(const EncodingCost& cost);
std::string memory_text(const EncodingCost& cost, std::size_t length);
std::vector<std::int64_t> memory_lengths(const std::vector<EncodingCost>& cost);

std::string grouped(std::int64_t number);  // 1234567 as "1 234 567"
std::string duration_in_words(double seconds);

// The losses or answers as a table for spreadsheets and scripts. Text: a line for each
// encoding, length and context (whole, cut, extended, tuned). Examples: a line for each
// encoding and range of lengths. docs/lab/results.md lists the columns.
std::string to_csv(const Results& results);

// Curves as Vega-Lite specs. All bands are 95 % confidence intervals.
// Loss by context length, and with the cut context.
std::string length_curves(const Results& results);
// Share of the attention weights by distance.
std::string attention_curves(const Results& results);
// Loss by the number of tokens before the predicted one (masked text: by window position).
std::string position_curves(const Results& results);
// Tasks with examples: the share of right answers by length with its band, and chance.
enum class Answers { whole = 1, bytes };
std::string example_curves(const Results& results, Answers answers);
// An extension: loss by length of each method, without and after its fine-tune.
std::string extension_curves(const Results& results, const ExtensionResult& extension);
// Losses or scores by number of parameters, for a session with models of several sizes. The
// length or the range is an index of Results::rankings.
std::string size_curves(const Results& all, const std::vector<Results>& sizes,
                        std::size_t length);
// Validation loss by training step.
std::string training_curves(const Results& results);

// The section about each trained encoding: its table or bias before and after training, and its
// attention.
void add_encodings(plot::HtmlPage& page, const Results& results);

}  // namespace gnomon::lab
