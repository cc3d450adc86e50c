#include "apps/lab/evaluate.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <variant>

#include "apps/lab/statistics.h"
#include "apps/lab/windows.h"
#include "gnomon/analysis/similarity.h"

namespace gnomon::lab {
namespace {

// Bits of each target of a segment.
struct Losses {
  std::vector<double> tail;    // predicted from the second half of a window
  std::vector<double> window;  // from windows laid end to end; index modulo length = position
};

Losses losses(TrainingRun& run, const Segment& segment, std::int64_t length,
              const Settings& settings, torch::Device device) {
  const Batch batch = segment_windows(segment, length, settings.longest());
  const at::Tensor bits =
      torch::nn::functional::cross_entropy(
          run.model()->forward(batch.inputs.to(device)).view({-1, vocabulary}),
          batch.targets.to(device).view(-1),
          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone))
          .mul(bits_per_nat)
          .to(at::kCPU, at::kDouble)
          .contiguous();
  const double* values = bits.data_ptr<double>();
  Losses result;
  for (std::int64_t w = 0; w < batch.inputs.size(0); ++w) {
    const double* row = values + w * length;
    result.tail.insert(result.tail.end(), row + length / 2, row + length);
    if (w % 2) result.window.insert(result.window.end(), row, row + length);
  }
  return result;
}

// Sums over segments of the losses at one length.
struct Sums {
  std::vector<double> tail_by_segment, window_by_segment, tail, window;

  void add(const Losses& losses) {
    tail_by_segment.push_back(mean(losses.tail));
    window_by_segment.push_back(mean(losses.window));
    tail.resize(losses.tail.size());
    window.resize(losses.window.size());
    for (std::size_t i = 0; i < losses.tail.size(); ++i) tail[i] += losses.tail[i];
    for (std::size_t i = 0; i < losses.window.size(); ++i) window[i] += losses.window[i];
  }
};

// Stretches of positions, each about a ninth longer than the one before: six an octave, so
// that each has many bytes and a logarithmic axis shows them evenly. Their bounds.
std::vector<std::size_t> stretches(std::size_t length) {
  std::vector<std::size_t> bounds{0};
  while (bounds.back() < length)
    bounds.push_back(std::min(length, bounds.back() + 1 + bounds.back() / 9));
  return bounds;
}

// Loss by bytes of context in the longest windows, beside the cut context.
Json by_position(const Sums& longest, const Sums& cut, std::int64_t window_length) {
  const auto length = static_cast<std::size_t>(window_length);
  // Where the longest that applies is shorter than the segment, its windows follow each other:
  // fold them onto one.
  const auto folded = [&](const std::vector<double>& sums) {
    std::vector<double> fold(length);
    for (std::size_t i = 0; i < sums.size(); ++i) fold[i % length] += sums[i];
    return fold;
  };
  const std::size_t windows = longest.tail_by_segment.size() * longest.window.size() / length;
  const std::vector<double> whole = folded(longest.window), short_context = folded(cut.tail);
  const std::vector<std::size_t> bounds = stretches(length);
  Json positions = Json::array(), bits = Json::array(), cut_bits = Json::array();
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const std::size_t begin = bounds[i], end = bounds[i + 1];
    const auto mean_of = [&](const std::vector<double>& sums) {
      return std::accumulate(sums.begin() + static_cast<std::ptrdiff_t>(begin),
                             sums.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
             static_cast<double>((end - begin) * windows);
    };
    positions.push_back(0.5 * static_cast<double>(begin + 1 + end));
    bits.push_back(mean_of(whole));
    cut_bits.push_back(mean_of(short_context));
  }
  return {{"length", window_length},
          {"positions", positions},
          {"bits", bits},
          {"cut_bits", cut_bits}};
}

}  // namespace

Json evaluate(TrainingRun& run, const Settings& settings, const Corpus& corpus,
              const std::function<bool()>& stop) {
  const at::NoGradGuard no_grad;
  const torch::Device device(settings.device);
  const auto segments = test_segments(corpus.test, settings);
  const auto most = model::capacity(run.model()->position()->encoding());
  Json lengths = Json::array();
  std::optional<Sums> cut, longest;
  std::int64_t longest_length = 0;
  for (std::int64_t length : settings.eval_lengths) {
    if (most && length > *most) {
      lengths.push_back({{"length", length}, {"applicable", false}});
      continue;
    }
    Sums sums;
    for (const Segment& segment : segments) {
      if (stop()) return {};
      sums.add(losses(run, segment, length, settings, device));
    }
    lengths.push_back(
        {{"length", length},
         {"applicable", true},
         {"tail_bits", mean(sums.tail_by_segment)},
         {"window_bits", mean(sums.window_by_segment)},
         {"windows", static_cast<std::int64_t>(segments.size()) * settings.longest() / length},
         {"tail_by_segment", sums.tail_by_segment}});
    if (!cut) cut = sums;
    longest = std::move(sums);
    longest_length = length;
  }
  return {{"lengths", lengths}, {"by_position", by_position(*longest, *cut, longest_length)}};
}

namespace {

constexpr std::int64_t table_side = 128, similarity_side = 64, bias_points = 256;

// A matrix [rows, columns] with at most `most` of each, by picking evenly.
template <typename At>
Json picked(std::int64_t rows, std::int64_t columns, std::int64_t most, At&& at) {
  const std::int64_t row_step = std::max<std::int64_t>(1, (rows + most - 1) / most);
  const std::int64_t column_step = std::max<std::int64_t>(1, (columns + most - 1) / most);
  Json matrix = Json::array();
  for (std::int64_t r = 0; r < rows; r += row_step) {
    Json row = Json::array();
    for (std::int64_t c = 0; c < columns; c += column_step) row.push_back(at(r, c));
    matrix.push_back(row);
  }
  return {{"row_step", row_step}, {"column_step", column_step}, {"values", matrix}};
}

// The score of an all-ones query with an all-ones key, relative to distance 0.
Json rotary_decay(const RotaryTable& table, std::int64_t length) {
  Json distances = Json::array(), scores = Json::array();
  const auto cos = table.cos();
  const std::int64_t pairs = cos.extent(2);
  for (std::int64_t t = 0; t < std::min(length, table.tokens()); ++t) {
    double sum = 0;
    for (std::int64_t i = 0; i < pairs; ++i) sum += static_cast<double>(cos(0, t, i));
    distances.push_back(t);
    scores.push_back(sum / static_cast<double>(pairs));
  }
  return {{"distances", distances}, {"scores", scores}};
}

Json bias_by_distance(const BiasForm& form, std::int64_t length) {
  const std::int64_t head_count = heads(form);
  std::vector<double> row(static_cast<std::size_t>(head_count * length));
  const View<double, 3> matrix(row.data(), {head_count, 1, length});
  dense(form, length - 1, matrix);  // the last query against every key before it
  const std::int64_t step = std::max<std::int64_t>(1, length / bias_points);
  Json distances = Json::array(), values = Json::array();
  for (std::int64_t d = 0; d < length; d += step) distances.push_back(d);
  for (std::int64_t h = 0; h < head_count; ++h) {
    Json one = Json::array();
    for (std::int64_t d = 0; d < length; d += step) one.push_back(matrix(h, 0, length - 1 - d));
    values.push_back(one);
  }
  return {{"distances", distances}, {"heads", values}};
}

}  // namespace

Json picture(TrainingRun& run, const Settings& settings) {
  const at::NoGradGuard no_grad;
  const model::Encoding& encoding = run.model()->position()->encoding();
  const std::int64_t length =
      std::min(settings.longest(), model::capacity(encoding).value_or(settings.longest()));
  std::vector<at::Tensor> here;
  std::vector<View<const float, 2>> values;
  for (const at::Tensor& one : run.model()->position()->parameters()) {
    here.push_back(one.detach().to(at::kCPU).contiguous());
    values.emplace_back(here.back().data_ptr<float>(),
                        std::array<std::ptrdiff_t, 2>{one.size(0), one.size(1)});
  }
  const model::Lowered lowered = model::lower(encoding, {length, length}, values);
  Json json = Json::object();
  if (lowered.table) {
    const auto table = lowered.table->view();
    const std::int64_t rows = std::min(table.extent(0), settings.train_length);
    json["table"] = picked(rows, table.extent(1), table_side,
                           [&](std::int64_t t, std::int64_t c) { return table(t, c); });
    std::vector<double> alike(static_cast<std::size_t>(rows * rows));
    const View<double, 2> similarity(alike.data(), {rows, rows});
    analysis::similarity_matrix(table.slice(0, 0, rows), analysis::Similarity::cosine,
                                similarity);
    json["similarity"] =
        picked(rows, rows, similarity_side,
               [&](std::int64_t i, std::int64_t j) { return similarity(i, j); });
  }
  if (lowered.query_rotary) json["rotary"] = rotary_decay(*lowered.query_rotary, length);
  if (!std::holds_alternative<NoBias>(lowered.bias))
    json["bias"] = bias_by_distance(lowered.bias, length);
  return json;
}

}  // namespace gnomon::lab
