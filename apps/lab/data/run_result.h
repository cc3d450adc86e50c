// The results of one training run and the measured cost of an encoding. run_json.h writes
// and reads them; docs/lab/results.md describes the fields. Losses are in bits per byte.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"

namespace gnomon::lab {

// Whether work must end: it is called between parts of the work.
using Stop = std::function<bool()>;

// The test at one length of settings.eval_lengths, for a task with text. If the encoding has no
// positions for the length, `applicable` is false and the fields after it are unset.
struct LengthLoss {
  std::int64_t length = 0;
  bool applicable = false;
  double tail_bits = 0;    // mean over all target bytes, each predicted from the second half of
                           // a window, with length/2 to length bytes of context; masked text:
                           // mean over the masked bytes
  double window_bits = 0;  // mean over the same bytes in adjacent windows
  double accuracy = 0;     // share of the targets of tail_bits that were the most likely byte
  std::int64_t windows = 0;
  std::vector<double> tail_by_segment = {};
  // Universal Transformer: the mean number of steps of the tokens that predict the targets of
  // tail_bits.
  std::optional<double> steps = {};

  bool operator==(const LengthLoss&) const = default;
};

// Loss by the number of bytes before the target, up to the longest applicable window, or by the
// position in that window for masked text. NaN for a range without targets.
struct PositionLoss {
  std::int64_t length = 0;
  std::vector<double> positions = {};  // the middle of each range
  std::vector<double> bits = {};

  bool operator==(const PositionLoss&) const = default;
};

// The test at the lengths `from` to `to`, for a task with examples. `up_to`: the length of
// settings.eval_lengths that they lead to. `applicable` as in LengthLoss.
struct Stretch {
  std::int64_t from = 0, to = 0, up_to = 0;
  bool applicable = false;
  std::int64_t examples = 0;
  double score = 0, second = 0;  // Task::score and Task::second, from 0 to 1
  double bits = 0;
  double chance_score = 0, chance_second = 0;
  // The scores of each example. sources[i]: the number of the text from which example i was
  // made, if one text makes several examples; otherwise empty.
  std::vector<double> scores = {}, seconds = {};
  std::vector<std::int64_t> sources = {};
  std::optional<double> steps = {};  // as in LengthLoss

  bool operator==(const Stretch&) const = default;
};

// The adjacent stretches that lead to the same length of settings.eval_lengths, as one: means
// of the numbers, and all examples. Examples of one source count once, with their mean score.
std::vector<Stretch> ranges_of(const std::vector<Stretch>& stretches);

// The tests of a model: `lengths` and `by_position` for text, `stretches` for examples.
struct Evaluation {
  std::vector<LengthLoss> lengths = {};
  std::optional<PositionLoss> by_position = {};
  std::vector<Stretch> stretches = {};

  bool operator==(const Evaluation&) const = default;
};

struct ExtensionMethod {
  std::string method = {};
  std::int64_t tune_length = 0;  // bytes in a window of the fine-tune
  Json specification = {};
  // Bits at each length, before and after the fine-tune, and of each test segment.
  std::vector<double> without = {}, after = {};
  std::vector<std::vector<double>> without_by_segment = {}, after_by_segment = {};

  bool operator==(const ExtensionMethod&) const = default;
};
struct Extension {
  std::int64_t factor = 0;
  std::int64_t steps = 0;           // fine-tuning steps
  std::vector<double> before = {};  // bits at each of settings.eval_lengths
  std::vector<ExtensionMethod> methods = {};

  bool operator==(const Extension&) const = default;
};

// Every row_step-th row and column_step-th column of a matrix.
struct SampledMatrix {
  std::int64_t row_step = 1, column_step = 1;
  std::vector<std::vector<double>> values = {};
};
struct RotaryDecay {
  std::vector<std::int64_t> distances = {};
  std::vector<double> scores = {};  // q and k of ones, relative to distance 0
};
struct BiasByDistance {
  std::vector<std::int64_t> distances = {};
  std::vector<std::vector<double>> heads = {};
};
// The trained encoding as data for charts.
struct Picture {
  std::optional<SampledMatrix> table = {}, similarity = {};
  std::optional<RotaryDecay> rotary = {};
  std::optional<BiasByDistance> bias = {};
  // Values of the same model before training, if training changed them.
  std::optional<SampledMatrix> initial_table = {};
  std::optional<BiasByDistance> initial_bias = {};
};

// Text written by a model: the continuation of `prompt`, the prompt with its masked bytes (_)
// filled in, or the answer to an example. As printable_lines() returns it.
struct Sample {
  std::int64_t context = 0;  // bytes that the model sees at most; length of an example
  std::string prompt = {}, text = {}, expected = {};  // expected: empty for a continuation
};

// Attention weights of one head for a window of text: rows are queries, columns keys.
struct AttentionMap {
  std::int64_t layer = 0, head = 0;
  std::vector<std::vector<double>> weights = {};
};
// The attention of one head by distance, for the queries in the second half of a window: the
// mean distance of the weights, and their shares in the ranges of TrainedAttention::range_ends.
struct HeadAttention {
  std::int64_t layer = 0, head = 0;
  double mean_distance = 0;
  std::vector<double> shares = {};
};
// Attention of a trained model in windows of the training length. shares[i]: the share of the
// weight on keys at distances of at most distances[i] bytes, the mean over layers, heads and
// queries in the second half of a window. `maps`: of the first and the last layer, the head
// whose weights have the lowest mean entropy, for the bytes `text`. Range i of `heads` ends at
// the distance range_ends[i] (0, 1, 3, 7, 15, ...) and begins after the previous one.
struct TrainedAttention {
  std::vector<std::int64_t> distances = {};
  std::vector<double> shares = {};
  std::string text = {};
  std::vector<AttentionMap> maps = {};
  std::vector<std::int64_t> range_ends = {};
  std::vector<HeadAttention> heads = {};
};

struct CurvePoint {
  std::int64_t step = 0;
  double train_bits = 0;  // mean since the previous point
  std::optional<double> validation_bits = {};

  bool operator==(const CurvePoint&) const = default;
};

// The version of the layout of settings.json and of a run (docs/lab/run-format.md). Files
// without it are of version 1.
constexpr std::int64_t run_format = 1;

// If `unfinished`, the run was stopped and the fields after it are unset.
struct RunResult {
  std::string encoding = {};
  std::int64_t seed = 0;
  Json specification = {};  // JSON of the encoding or the scheme
  std::int64_t parameters = 0, position_parameters = 0, steps = 0, trained_tokens = 0;
  double train_seconds = 0, tokens_per_second = 0;
  std::vector<CurvePoint> curve = {};
  std::optional<Extension> extension = {};
  bool unfinished = false;
  double test_seconds = 0;
  Evaluation tests = {};
  Picture picture = {};
  std::vector<Sample> samples = {};
  std::optional<TrainedAttention> attention = {};  // set for a task with text
  std::optional<std::int64_t> format = run_format;
  std::string trainer = {};  // the program that trained the run; empty: the lab
};

// The validation loss of a short run with a learning rate, by --sweep.
struct SweptRate {
  std::string encoding = {};
  double learning_rate = 0, validation_bits = 0;
};

// The file of --protocol.
struct Protocol {
  std::string sha256 = {};

  bool operator==(const Protocol&) const = default;
};

// An encoding that cannot take part.
struct LeftOut {
  std::string name = {}, reason = {};
};

// The contents of config.json of a trained model.
struct ModelConfig {
  std::string model_type = {}, gnomon = {};  // "gnomon-lab", the version of the library
  std::string encoding = {};                 // as in --encodings
  std::int64_t seed = 0;
  Json position = {};  // the scheme: {"layers": [[{"kind": "rotary", ...}], ...]}
  Settings settings = {};
  std::vector<LengthLoss> lengths = {};  // the tests; empty for a task with examples
};

// Peak memory of a forward and a backward pass over one window, without the model: the mean of
// two measurements, and their difference.
struct MemoryUse {
  std::int64_t tokens = 0;
  double bytes = 0, spread = 0;
  std::optional<double> extra_bytes = {};  // difference from the encoding none, if measurable
};
// The time of a training step divided by that of the encoding none: the median of pairs of
// steps that alternate, and the limits of its 95 % confidence interval. Of none: of two equal
// models.
struct RelativeTime {
  double median = 0, low = 0, high = 0;

  // The largest distance of the interval from 1; for two equal models, the measurement noise.
  double from_one() const { return std::max(std::abs(low - 1), std::abs(high - 1)); }
  // The interval is above 1, and the claim is larger than half of its width and than the noise.
  bool shows_cost(double noise) const {
    return std::isfinite(high) && low > 1 && median - 1 > std::max(0.5 * (high - low), noise);
  }
};
struct MeasuredCost {
  std::string encoding = {};
  std::vector<MemoryUse> memory = {};
  std::optional<double> step_seconds = {};         // median; empty: not measurable
  std::optional<RelativeTime> relative_step = {};  // empty: too slow to measure
};

// The measurements of a session.
struct SessionResult {
  // The settings after --resume, --minutes and the removal of encodings that cannot take part,
  // which are in `left_out`.
  Settings settings = {};
  std::string command = {};  // the command line that began the run
  std::vector<SweptRate> sweep = {};
  std::optional<Protocol> protocol = {};
  std::vector<std::string> missing = {};  // runs that --merge --partial has not found
  std::vector<LeftOut> left_out = {};
  std::vector<RunResult> runs = {};        // finished, by seed, then by encoding
  std::vector<RunResult> unfinished = {};  // summaries of runs that were stopped
  std::vector<MeasuredCost> measured_cost = {};
  bool stopped = false;  // stopped by Ctrl-C
  double seconds = 0;
};

}  // namespace gnomon::lab
