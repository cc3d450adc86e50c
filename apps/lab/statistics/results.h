// The results of a session: means and deviations over seeds, lengths that encodings hold, ties,
// and the sentences of the answer, in results.json. The report shows only these results.
// docs/lab/results.md describes the fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/statistics/contrasts.h"

namespace gnomon::lab {

struct Corpus;

// An encoding holds a length if its loss exceeds that at the training length by at most this
// share.
constexpr double holds_within = 0.03;

// Margins of equivalence: two losses, in bits, or two scores are equivalent if the confidence
// interval of their difference is within this distance from 0.
constexpr double equal_bits = 0.05, equal_share = 0.05;

// LengthLoss over seeds. If a number of a seed is not finite, the encoding diverged: tail_bits
// and uncertainty are NaN.
struct LengthMean {
  std::int64_t length = 0;
  bool applicable = false;  // the fields after it are unset if not
  double tail_bits = 0, tail_deviation = 0, window_bits = 0, accuracy = 0;
  // Half of the width of the 95 % confidence interval of tail_bits, with the deviations between
  // seeds and between test segments; with one seed, of the test segments only.
  double uncertainty = 0;
  // The loss on the same bytes with the context cut to the training length.
  double cut_bits = 0;
  double change = 0;  // relative change of tail_bits since the training length
  std::int64_t windows = 0;
};

// Stretch over seeds, of a stretch or of a range of lengths. If a number of a seed is not
// finite, the encoding diverged: score and second are NaN. A range ends at one of
// settings.eval_lengths and begins after the previous one.
struct StretchMean {
  std::int64_t from = 0, to = 0;
  bool applicable = false;  // the fields after it are unset if not
  std::int64_t examples = 0;
  double score = 0, score_deviation = 0, second = 0, bits = 0;
  double chance_score = 0, chance_second = 0;
  // 95 % confidence intervals, with the deviations between seeds and between examples; with one
  // seed, of the examples only. At least those of Wilson for the number of examples.
  Interval score_interval = {}, second_interval = {};
};

// Whether an encoding takes part in rankings. training.h has the criteria.
enum class Training { enough = 1, unconverged, at_chance, diverged };
const char* name(Training training);

// One encoding over its seeds: `lengths` and `holds_to` for text, else the three after them.
struct EncodingResult {
  std::string name = {}, title = {}, enters = {}, summary = {}, source = {};
  Json specification = {};
  std::int64_t seeds = 0, parameters = 0, position_parameters = 0;
  Training training = Training::enough;
  // The fall of the validation loss with twice the steps, at a constant learning rate
  // (training.h), in bits per unit of the loss. Empty if the curve is too short.
  std::optional<double> fall = {};
  std::vector<LengthMean> lengths = {};
  std::int64_t holds_to = 0;
  std::vector<StretchMean> stretches = {}, ranges = {};
  std::vector<std::vector<StretchMean>> depths = {};  // the ranges at each of Letters::depths
  std::int64_t answered_to = 0;  // longest length up to which all stretches are answered
  double tokens_per_second = 0, train_seconds = 0, test_seconds = 0;
};

// A way to use a trained encoding at a context length: with the whole context, with the context
// cut to the training length, or after a method of --extend, without or with its fine-tune.
enum class Context { whole = 1, cut, extended, tuned };
const char* name(Context context);
// An encoding or a way to use it in a ranking.
struct Way {
  std::string name = {}, title = {};    // name and title of the encoding
  std::optional<Context> context = {};  // empty: an encoding, with the whole context
  std::string method = {};              // title of the --extend method
  double value = 0;                     // bits, or the score of a task with examples
  std::optional<double> second = {};    // the second score; empty: bits
  Verdict verdict = Verdict::excluded;
};
// The encodings or the ways at the length `to` (text; `from` is 0) or at the lengths `from` to
// `to`, best first, and the excluded ones after the others.
struct Ranking {
  std::int64_t from = 0, to = 0;
  std::vector<Way> order = {};
};

// An encoding that is recommended, and its use if others of its ways are worse: "with the
// whole context", "with its context cut to the last 128 bytes", "extended with YaRN".
struct Choice {
  std::string name = {}, title = {}, use = {};

  bool operator==(const Choice&) const = default;
};
// The recommended encodings at the lengths `from` to `to`. Text: at each tested length of this
// range.
struct Recommendation {
  std::int64_t from = 0, to = 0;
  std::vector<Choice> choices = {};  // those that may be the best; empty: no encoding
  bool decided = false;              // one choice, or choices that are equivalent
  std::string next = {};             // title of the best other encoding; empty if there is none
  // Difference of the best choice from `next`, in bits or as a share, and half of the width of
  // its simultaneous confidence interval; at the length at which it is least certain.
  double difference = 0, margin = 0;
  std::int64_t seeds = 0;  // the least of the encodings
  std::string confidence = {};
};

enum class Stage { before = 1, without, after };  // the method, a fine-tune, the fine-tune
const char* name(Stage stage);
struct ExtensionRow {
  std::string method = {}, title = {};
  Stage stage;
  // One value for each length. uncertainty: as in LengthMean; 0 with one seed.
  std::vector<double> bits = {}, deviation = {}, uncertainty = {};
};
struct ExtensionResult {
  std::string name = {}, title = {};
  std::int64_t seeds = 0, factor = 0, steps = 0;
  std::vector<std::int64_t> lengths = {};
  std::vector<ExtensionRow> rows = {};
};

struct EncodingCost {
  std::string name = {}, title = {};
  std::int64_t position_parameters = 0;
  std::optional<double> step_seconds = {};
  std::optional<RelativeTime> relative_step = {};
  std::vector<MemoryUse> memory = {};
  // The loss at the training length after the time that none takes for all steps, from the fall
  // of the loss with twice the steps: an estimate. Empty: no text, or not known.
  std::optional<double> equal_time_bits = {};
  // RelativeTime::from_one of two equal models without an encoding. Empty: not measured.
  std::optional<double> step_noise = {};
};

// The models of one size, in a session with several. Their results, with encodings without
// sizes, are in the folder `name` (results_by_size.h).
struct SizeResult {
  std::string name = {};  // "2x64"
  std::int64_t layers = 0, width = 0, heads = 0;
  std::int64_t parameters = 0;  // count of the smallest model of this size; 0: no run finished
};

struct Metric {
  std::string name = {}, what = {}, chance = {};
};
struct TextSize {
  std::string name = {};
  std::int64_t bytes = 0;
};
struct TextsResult {
  std::string source = {}, split = {};
  // The loss on the test texts with the byte frequencies of the training texts, in bits per
  // byte, and the share of right predictions if the most frequent byte is always predicted. A
  // model that has learned from context must be clearly better.
  double byte_frequency_bits = 0, byte_frequency_accuracy = 0;
  // The same with the frequencies of each byte after the byte before it. A model above this
  // loss hardly uses positions.
  double byte_pair_bits = 0;
  // TokenStatistics, if tokens can have several bytes.
  std::optional<double> bytes_per_token = {}, token_frequency_bits = {};
  std::vector<TextSize> train = {}, validation = {}, test = {};
};
struct Machine {
  std::string processor = {};
  std::int64_t cores = 0;
  std::string device = {}, isa = {}, libtorch = {};
};

struct Results : SessionResult {
  std::string gnomon = {};
  std::int64_t schema = 4;
  std::string date = {};  // UTC
  std::vector<std::string> answer = {};
  Metric metric = {};
  TextsResult texts = {};
  std::int64_t runs_asked = 0;
  std::string size = {};               // "2x64": results of the models of this size
  std::vector<SizeResult> sizes = {};  // filled in a session with several sizes
  std::vector<EncodingResult> encodings = {};
  std::vector<Ranking> rankings = {};
  std::vector<Ranking> ways = {};                    // filled for a task with text
  std::vector<Recommendation> recommendations = {};  // empty: not trained enough, several sizes
  std::vector<ExtensionResult> extensions = {};
  std::vector<EncodingCost> cost = {};
  Machine machine = {};
};

// The results of an encoding, or null if no run is finished.
const EncodingResult* find_encoding(const Results& results, const std::string& name);
// The result at a length or in a range, an index of Results::rankings: bits or the score.
struct PlaceResult {
  bool applicable = false;  // the fields after it are unset if not
  double value = 0;
  Interval interval = {};  // 95 % confidence
};
PlaceResult result_at(const EncodingResult& encoding, std::size_t place);

// "128 bytes", or "128 tokens (about 400 bytes)".
std::string length_text(const Results& results, std::int64_t length);

Results assemble_results(const SessionResult& session, const Corpus& corpus);

// The results of --extend over seeds.
std::vector<ExtensionResult> extension_results(const std::vector<EncodingResult>& encodings,
                                               const std::vector<RunResult>& runs);

// The costs of the assembled encodings. More memory than that of none is set only if it exceeds
// the differences between equal measurements by 2 MiB and 2 %.
std::vector<EncodingCost> cost_results(const std::vector<MeasuredCost>& measured,
                                       const std::vector<EncodingResult>& encodings);

// Sets the encodings, rankings, ways, recommendations, extensions, sizes and the answer from
// the settings, texts, machine, requested runs and runs.
void compare_encodings(Results& results);

// JSON of results, for results.json.
Json to_json(const Results& results);

// The measurements in results.json: the settings, metric, texts, machine, requested runs and
// runs, from which compare_encodings() computes the rest. Errors as in tasks/stored.h.
Results read_results(const std::filesystem::path& path);
Results read_results(const Json& stored);

}  // namespace gnomon::lab
