#include "apps/lab/model/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

// Each target's bits, whether it was the most likely token (1 or 0), and its number of bytes.
// NaN if the target is uncounted.
struct Guesses {
  std::vector<double> bits, right, bytes;

  void append(const Guesses& from, std::int64_t begin, std::int64_t end) {
    for (const auto part : {&Guesses::bits, &Guesses::right, &Guesses::bytes})
      (this->*part)
          .insert((this->*part).end(), (from.*part).begin() + begin,
                  (from.*part).begin() + end);
  }
};
// The targets of a segment.
struct Losses {
  Guesses tail;    // predicted from the second half of a window
  Guesses window;  // guesses of adjacent windows; index modulo length = position
};

// Returns the logits [B, T, V] of inputs [B, T].
using Forward = std::function<at::Tensor(const at::Tensor&)>;

Forward forward_of(Transformer& model, const Settings& settings) {
  return [&](const at::Tensor& inputs) {
    return model->forward(inputs, {.visibility = visibility(settings)});
  };
}

Guesses guesses(const Forward& forward, const Batch& batch, const Settings& settings,
                const Corpus& corpus) {
  const torch::Device device(settings.device);
  const at::Tensor logits = forward(batch.inputs.to(device)).view({-1, vocabulary(settings)});
  const at::Tensor targets = batch.targets.to(device).view(-1), counted = targets.ne(uncounted);
  const at::Tensor bits =
      torch::nn::functional::cross_entropy(
          logits, targets.clamp_min(0),
          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone))
          .mul(bits_per_nat)
          .to(at::kCPU, at::kDouble)
          .contiguous();
  const at::Tensor right = logits.argmax(1).eq(targets).to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor here = counted.to(at::kCPU).contiguous();
  const at::Tensor on_cpu = batch.targets.contiguous();
  const auto* target = on_cpu.data_ptr<std::int64_t>();
  Guesses all;
  for (std::int64_t i = 0; i < bits.numel(); ++i) {
    const bool counts = here.data_ptr<bool>()[i];
    // `none` is NaN. The loss of a model that diverged, which is NaN too, counts as infinite.
    const double loss = bits.data_ptr<double>()[i];
    all.bits.push_back(!counts ? none : std::isnan(loss) ? INFINITY : loss);
    all.right.push_back(counts ? right.data_ptr<double>()[i] : none);
    all.bytes.push_back(counts ? static_cast<double>(corpus.bytes_of(target[i])) : none);
  }
  return all;
}

Losses text_losses(const Forward& forward, const Segment& segment, std::int64_t length,
                   const Settings& settings, const Corpus& corpus) {
  const Batch batch = segment_windows(segment, length, settings.longest());
  const Guesses all = guesses(forward, batch, settings, corpus);
  Losses result;
  for (std::int64_t w = 0; w < batch.inputs.size(0); ++w) {
    const std::int64_t begin = w * length;
    result.tail.append(all, begin + length / 2, begin + length);
    if (w % 2) result.window.append(all, begin, begin + length);
  }
  return result;
}

Losses masked_losses(const Forward& forward, const Segment& segment, std::int64_t length,
                     const Settings& settings, const Corpus& corpus) {
  const Guesses all =
      guesses(forward, masked_segment(segment, length, settings), settings, corpus);
  return {all, all};
}

double sum_of_counted(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers)
    if (!std::isnan(number)) sum += number;
  return sum;
}

double mean_of_counted(const std::vector<double>& numbers) {
  std::vector<double> counted;
  for (const double number : numbers)
    if (!std::isnan(number)) counted.push_back(number);
  return mean(counted);
}

double bits_per_byte(const Guesses& guesses) {
  return sum_of_counted(guesses.bits) / sum_of_counted(guesses.bytes);
}

// Sums over segments for each target: bits and bytes.
struct Places {
  std::vector<double> sums, counts;

  void add(const Guesses& guesses) {
    sums.resize(guesses.bits.size());
    counts.resize(guesses.bits.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (!std::isnan(guesses.bits[i])) {
        sums[i] += guesses.bits[i];
        counts[i] += guesses.bytes[i];
      }
  }
  // Adds the targets of windows of `length` by their position in the window.
  void add_windows(const Places& windows, std::int64_t length) {
    const auto size = static_cast<std::size_t>(length);
    sums.resize(std::max(sums.size(), size));
    counts.resize(sums.size());
    for (std::size_t i = 0; i < windows.sums.size(); ++i) {
      sums[i % size] += windows.sums[i];
      counts[i % size] += windows.counts[i];
    }
  }
};

// The results of the segments at one length.
struct Sums {
  std::vector<double> tail_by_segment, window_by_segment, right_by_segment;
  Places window;

  void add(const Losses& losses) {
    tail_by_segment.push_back(bits_per_byte(losses.tail));
    window_by_segment.push_back(bits_per_byte(losses.window));
    right_by_segment.push_back(mean_of_counted(losses.tail.right));
    window.add(losses.window);
  }
};

// Bounds of ranges of positions, four per octave.
std::vector<std::size_t> stretches(std::size_t length) {
  std::vector<std::size_t> bounds{0};
  while (bounds.back() < length) {
    const auto next = static_cast<std::size_t>(1.19 * static_cast<double>(bounds.back()));
    bounds.push_back(std::min(length, std::max(bounds.back() + 1, next)));
  }
  return bounds;
}

// Loss by position in a window: means over ranges, smoothed with the weights 1, 2, 1.
PositionLoss by_position(const Places& positions, std::int64_t length) {
  const std::vector<std::size_t> bounds = stretches(static_cast<std::size_t>(length));
  std::vector<double> sums, counts;
  PositionLoss loss{.length = length};
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto range = [&](const std::vector<double>& numbers) {
      return std::accumulate(numbers.begin() + static_cast<std::ptrdiff_t>(bounds[i]),
                             numbers.begin() + static_cast<std::ptrdiff_t>(bounds[i + 1]), 0.0);
    };
    sums.push_back(range(positions.sums));
    counts.push_back(range(positions.counts));
    loss.positions.push_back(0.5 * static_cast<double>(bounds[i] + 1 + bounds[i + 1]));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double sum = 0, count = 0;
    for (std::size_t k = i ? i - 1 : 0; k < std::min(sums.size(), i + 2); ++k) {
      // The mean of each range has the same weight, whatever its number of bytes.
      if (counts[k] == 0) continue;
      const double weight = k == i ? 2 : 1;
      sum += weight * sums[k] / counts[k];
      count += weight;
    }
    loss.bits.push_back(count > 0 ? sum / count : none);
  }
  return loss;
}

// Empty if `stop` returns true.
std::optional<Sums> sums_at(const Forward& forward, const std::vector<Segment>& segments,
                            std::int64_t length, const Settings& settings, const Corpus& corpus,
                            const std::function<bool()>& stop) {
  const auto losses = settings.task->is_masked() ? masked_losses : text_losses;
  Sums sums;
  for (const Segment& segment : segments) {
    if (stop()) return std::nullopt;
    sums.add(losses(forward, segment, length, settings, corpus));
  }
  return sums;
}

std::optional<Evaluation> evaluate_windows(Transformer& model, const Settings& settings,
                                           const Corpus& corpus,
                                           const std::function<bool()>& stop, Reading reading) {
  SegmentReader by_segments(settings);
  const Forward forward =
      reading == Reading::memory
          ? [&](const at::Tensor& inputs) { return by_segments.read(model, inputs); }
          : forward_of(model, settings);
  const auto segments = test_segments(corpus.test, settings);
  const auto most = model::capacity(model->scheme());
  const bool masked = settings.task->is_masked();
  std::vector<LengthLoss> lengths;
  Places positions;
  std::int64_t longest = 0;
  for (std::int64_t length : settings.eval_lengths) {
    const std::int64_t seen =
        reading == Reading::window ? std::min(length, settings.train_length) : length;
    if (most && seen > *most) {
      lengths.push_back({.length = length});
      continue;
    }
    const auto found = sums_at(forward, segments, seen, settings, corpus, stop);
    if (!found) return {};
    const Sums& sums = *found;
    lengths.push_back({length, true, mean(sums.tail_by_segment), mean(sums.window_by_segment),
                       mean(sums.right_by_segment),
                       std::ssize(segments) * settings.longest() / seen, sums.tail_by_segment});
    // A causal model predicts the byte at position i from i bytes in windows of every length.
    // So all of them count, and short contexts, of which a long window has few, have more
    // bytes.
    if (masked) positions = {};
    positions.add_windows(sums.window, seen);
    longest = seen;
  }
  return Evaluation{lengths, by_position(positions, longest), {}};
}

std::optional<Evaluation> evaluate_examples(Transformer& model, const Settings& settings,
                                            const std::function<bool()>& stop) {
  const Task& task = *settings.task;
  const auto most = model::capacity(model->scheme());
  Evaluation all;
  for (Stretch& one : all.stretches = length_stretches(settings)) {
    one.applicable = !most || task.window_tokens(one.to) <= *most;
    if (!one.applicable) continue;
    count_examples(settings, one);
    std::vector<double> bits, right, whole;
    for (std::int64_t begin = 0; begin < one.examples; begin += examples_at_once) {
      if (stop()) return {};
      const std::vector<Example> examples = test_examples(settings, one, begin);
      const Batch batch = batch_of(examples);
      const Guesses found = guesses(forward_of(model, settings), batch, settings, {});
      const auto tokens = static_cast<std::size_t>(batch.inputs.size(1));
      for (std::size_t row = 0; row < examples.size(); ++row) {
        const auto of_row = [&](const std::vector<double>& numbers) {
          const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(row * tokens);
          return mean_of_counted({first, first + static_cast<std::ptrdiff_t>(tokens)});
        };
        bits.push_back(of_row(found.bits));
        right.push_back(of_row(found.right));
        whole.push_back(right.back() == 1 ? 1 : 0);
      }
    }
    one.score = mean(whole), one.second = mean(right), one.bits = mean(bits);
    one.scores = whole, one.seconds = right;
  }
  return all;
}

}  // namespace

std::optional<Evaluation> evaluate(Transformer& model, const Settings& settings,
                                   const Corpus& corpus, const std::function<bool()>& stop,
                                   Reading reading) {
  const at::NoGradGuard no_grad;
  return settings.task->has_examples()
             ? evaluate_examples(model, settings, stop)
             : evaluate_windows(model, settings, corpus, stop, reading);
}

std::optional<std::vector<double>> tail_by_segment(Transformer& model, const Settings& settings,
                                                   const Corpus& corpus, std::int64_t length,
                                                   const std::function<bool()>& stop) {
  const at::NoGradGuard no_grad;
  const auto found = sums_at(forward_of(model, settings), test_segments(corpus.test, settings),
                             length, settings, corpus, stop);
  if (!found) return std::nullopt;
  return found->tail_by_segment;
}

}  // namespace gnomon::lab
