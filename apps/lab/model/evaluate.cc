#include "apps/lab/model/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

// A target: its bits, whether it was the most likely token (1 or 0), and its number of bytes.
struct Guess {
  bool counted = false;  // false: the fields after it are 0
  double bits = 0, right = 0, bytes = 0;
  double steps = 0;  // of a Universal Transformer
};
using Guesses = std::vector<Guess>;
// The targets of a segment.
struct Losses {
  Guesses tail;    // predicted from the second half of a window
  Guesses window;  // guesses of adjacent windows; index modulo length = position
};

double sum_of(std::span<const Guess> guesses, double Guess::* number) {
  double sum = 0;
  for (const Guess& one : guesses) sum += one.*number;
  return sum;
}

double mean_of(std::span<const Guess> guesses, double Guess::* number) {
  const auto counted = std::ranges::count(guesses, true, &Guess::counted);
  return sum_of(guesses, number) / static_cast<double>(std::max<std::ptrdiff_t>(1, counted));
}

double bits_per_byte(const Guesses& guesses) {
  return sum_of(guesses, &Guess::bits) / sum_of(guesses, &Guess::bytes);
}

// Adds the bits and bytes of each target. With a length: to those of its position in a window.
void add_to(Guesses& sums, const Guesses& guesses, std::int64_t length = 0) {
  const std::size_t size = length ? static_cast<std::size_t>(length) : guesses.size();
  sums.resize(std::max(sums.size(), size));
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    sums[i % size].bits += guesses[i].bits;
    sums[i % size].bytes += guesses[i].bytes;
  }
}

// The results of the segments at one length.
struct Sums {
  std::vector<double> tail_by_segment, window_by_segment, right_by_segment, steps_by_segment;
  Guesses window;  // sums over the segments
};

// A model in its tests.
struct Subject {
  Transformer& model;
  const Settings& settings;
  const Corpus& corpus;
  Reading reading = Reading::whole;

  // The tokens of a window of this length that the model sees. Empty if it has no positions.
  std::optional<std::int64_t> seen(std::int64_t length) const {
    if (reading == Reading::window) length = std::min(length, settings.train_length);
    if (length > model::capacity(model->scheme()).value_or(length)) return std::nullopt;
    return length;
  }

  Guesses guesses(const Batch& batch) const {
    const torch::Device device(settings.device);
    const at::Tensor inputs = batch.inputs.to(device), targets = batch.targets.view(-1);
    Ponder ponder;
    const at::Tensor logits =
        (reading == Reading::memory
             ? SegmentReader(settings).read(model, inputs)
             : model->forward(inputs, {.visibility = visibility(settings), .ponder = &ponder}))
            .view({-1, vocabulary(settings)});
    const at::Tensor steps = ponder.steps.defined()
                                 ? ponder.steps.to(at::kCPU, at::kDouble).contiguous()
                                 : at::Tensor();
    const at::Tensor there = targets.to(device);
    const at::Tensor bits =
        at::cross_entropy_loss(logits, there.clamp_min(0), {}, at::Reduction::None)
            .mul(bits_per_nat)
            .to(at::kCPU, at::kDouble)
            .contiguous();
    const at::Tensor right = logits.argmax(1).eq(there).to(at::kCPU, at::kDouble).contiguous();
    const auto* target = targets.data_ptr<std::int64_t>();
    Guesses all(static_cast<std::size_t>(bits.numel()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (target[i] == uncounted) continue;
      // The loss of a model that diverged, which is NaN, counts as infinite.
      const double loss = bits.data_ptr<double>()[i];
      all[i] = {true, std::isnan(loss) ? INFINITY : loss, right.data_ptr<double>()[i],
                static_cast<double>(corpus.bytes_of(target[i])),
                steps.defined() ? steps.data_ptr<double>()[i] : 0};
    }
    return all;
  }

  Losses losses(const Segment& segment, std::int64_t length) const {
    if (settings.task->is_masked()) {
      const Guesses all = guesses(masked_segment(segment, length, settings));
      return {all, all};
    }
    const Batch batch = segment_windows(segment, length, settings.longest());
    const Guesses all = guesses(batch);
    Losses result;
    for (std::int64_t w = 0; w < batch.inputs.size(0); ++w) {
      const auto begin = all.begin() + w * length, end = begin + length;
      result.tail.insert(result.tail.end(), begin + length / 2, end);
      if (w % 2) result.window.insert(result.window.end(), begin, end);
    }
    return result;
  }

  // Empty if `stop` returns true.
  std::optional<Sums> sums_at(std::int64_t length, const Stop& stop) const {
    Sums sums;
    for (const Segment& segment : test_segments(corpus.test, settings)) {
      if (stop()) return std::nullopt;
      const Losses found = losses(segment, length);
      sums.tail_by_segment.push_back(bits_per_byte(found.tail));
      sums.window_by_segment.push_back(bits_per_byte(found.window));
      sums.right_by_segment.push_back(mean_of(found.tail, &Guess::right));
      sums.steps_by_segment.push_back(mean_of(found.tail, &Guess::steps));
      add_to(sums.window, found.window);
    }
    return sums;
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
PositionLoss by_position(const Guesses& positions, std::int64_t length) {
  const std::vector<std::size_t> bounds = stretches(static_cast<std::size_t>(length));
  std::vector<double> sums, counts;
  PositionLoss loss{.length = length};
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const std::span range(positions.data() + bounds[i], bounds[i + 1] - bounds[i]);
    sums.push_back(sum_of(range, &Guess::bits));
    counts.push_back(sum_of(range, &Guess::bytes));
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
    loss.bits.push_back(count > 0 ? sum / count : NAN);
  }
  return loss;
}

std::optional<Evaluation> evaluate_windows(const Subject& subject, const Stop& stop) {
  const Settings& settings = subject.settings;
  Evaluation all;
  Guesses positions;
  std::int64_t longest = 0;
  for (const std::int64_t length : settings.eval_lengths) {
    const auto seen = subject.seen(length);
    if (!seen) {
      all.lengths.push_back({.length = length});
      continue;
    }
    const auto sums = subject.sums_at(*seen, stop);
    if (!sums) return {};
    all.lengths.push_back({length, true, mean(sums->tail_by_segment),
                           mean(sums->window_by_segment), mean(sums->right_by_segment),
                           std::ssize(sums->tail_by_segment) * settings.longest() / *seen,
                           sums->tail_by_segment});
    if (subject.model->is_universal()) all.lengths.back().steps = mean(sums->steps_by_segment);
    // A causal model predicts the byte at position i from i bytes in windows of every length.
    // So all of them count, and short contexts, of which a long window has few, have more
    // bytes.
    if (settings.task->is_masked()) positions.clear();
    add_to(positions, sums->window, *seen);
    longest = *seen;
  }
  all.by_position = by_position(positions, longest);
  return all;
}

std::optional<Evaluation> evaluate_examples(const Subject& subject, const Stop& stop) {
  const Settings& settings = subject.settings;
  Evaluation all;
  for (Stretch& one : all.stretches = length_stretches(settings)) {
    one.applicable = subject.seen(settings.task->window_tokens(one.to)).has_value();
    if (!one.applicable) continue;
    count_examples(settings, one);
    std::vector<double> bits, steps;
    const bool shifted = settings.task->letters.shifted.draw != nullptr;
    // Appends the share of right bytes of each answer.
    const auto test = [&](std::int64_t begin, const Drawn& drawn, std::vector<double>& right) {
      const Batch batch = batch_of(test_examples(settings, one, begin, drawn));
      const Guesses found = subject.guesses(batch);
      const auto tokens = static_cast<std::size_t>(batch.inputs.size(1));
      for (std::size_t row = 0; row < found.size(); row += tokens) {
        const std::span targets(found.data() + row, tokens);
        if (!drawn.shifted) {
          bits.push_back(mean_of(targets, &Guess::bits));
          steps.push_back(mean_of(targets, &Guess::steps));
        }
        right.push_back(mean_of(targets, &Guess::right));
      }
    };
    for (std::int64_t begin = 0; begin < one.examples; begin += examples_at_once) {
      if (stop()) return {};
      test(begin, {}, shifted ? one.scores : one.seconds);
      if (shifted) test(begin, {.shifted = true}, one.seconds);
    }
    if (!shifted)
      one.scores = mapped(one.seconds, [](double right) { return right == 1 ? 1.0 : 0.0; });
    one.score = mean(one.scores), one.second = mean(one.seconds), one.bits = mean(bits);
    if (subject.model->is_universal()) one.steps = mean(steps);
  }
  return all;
}

constexpr std::uint64_t shuffling_seed = 0x73687566;

// A permutation of 0 to count - 1 (Fisher and Yates), the others up to length - 1 in order.
std::vector<std::int64_t> permutation(std::int64_t count, std::int64_t length,
                                      std::uint64_t number) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(length));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Draws draws{shuffling_seed, number};
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(draws.below(i + 1))]);
  return order;
}

}  // namespace

std::optional<Evaluation> evaluate(Transformer& model, const Settings& settings,
                                   const Corpus& corpus, const Stop& stop, Reading reading) {
  const at::NoGradGuard no_grad;
  const Subject subject{model, settings, corpus, reading};
  return settings.task->has_examples() ? evaluate_examples(subject, stop)
                                       : evaluate_windows(subject, stop);
}

std::optional<std::vector<double>> tail_by_segment(Transformer& model, const Settings& settings,
                                                   const Corpus& corpus, std::int64_t length,
                                                   const Stop& stop) {
  const at::NoGradGuard no_grad;
  const auto found = Subject{model, settings, corpus}.sums_at(length, stop);
  if (!found) return std::nullopt;
  return found->tail_by_segment;
}

std::vector<ShuffledLoss> shuffled_losses(Transformer& model, const Settings& settings,
                                          const Corpus& corpus, std::int64_t kept) {
  const at::NoGradGuard no_grad;
  std::vector<ShuffledLoss> all;
  for (const std::int64_t length : settings.eval_lengths) {
    if (!Subject{model, settings, corpus}.seen(length) || length <= kept) continue;
    std::vector<double> whole, shuffled, differences;
    std::uint64_t number = 0;
    for (const Segment& segment : test_segments(corpus.test, settings)) {
      const Batch batch = segment_windows(segment, length, settings.longest());
      // Appends the loss in bits of the last target of each window.
      const auto add_last_bits = [&](std::vector<double>& bits, const at::Tensor& inputs) {
        const at::Tensor last =
            at::cross_entropy_loss(model->forward(inputs).select(1, length - 1),
                                   batch.targets.select(1, length - 1), {}, at::Reduction::None)
                .to(at::kDouble)
                .mul(bits_per_nat)
                .contiguous();
        bits.insert(bits.end(), last.data_ptr<double>(),
                    last.data_ptr<double>() + last.numel());
      };
      at::Tensor inputs = batch.inputs.clone();
      for (std::int64_t w = 0; w < inputs.size(0); ++w) {
        const auto order = permutation(length - kept, length, number++);
        inputs[w].copy_(batch.inputs[w].index_select(0, at::tensor(order, at::kLong)));
      }
      add_last_bits(whole, batch.inputs);
      add_last_bits(shuffled, inputs);
    }
    for (std::size_t i = 0; i < whole.size(); ++i)
      differences.push_back(shuffled[i] - whole[i]);
    all.push_back({length, kept, std::ssize(whole), mean(whole), mean(shuffled),
                   mean_margin(differences)});
  }
  return all;
}

}  // namespace gnomon::lab
