#include "apps/lab/tasks/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab::finetune {
namespace {

constexpr std::int64_t logits_at_once = std::int64_t{1} << 24;  // 64 MiB

Windows empty_windows(std::int64_t rows, std::int64_t length) {
  return {at::empty({rows, length}, at::kLong), at::empty({rows, length}, at::kLong),
          at::empty({rows, length}, at::kLong)};
}

// Row `row`: the tokens from `begin` on. `shift`: 1: the target is the next token, 0: the same.
void fill(Windows& windows, std::int64_t row, const Tokens& text, std::int64_t begin,
          std::int64_t shift) {
  const std::int64_t length = windows.inputs.size(1);
  const auto copy = [&](const std::vector<std::int64_t>& from, std::int64_t at,
                        at::Tensor& to) {
    std::copy_n(from.begin() + at, length, to.data_ptr<std::int64_t>() + row * length);
  };
  copy(text.ids, begin, windows.inputs);
  copy(text.ids, begin + shift, windows.targets);
  copy(text.bytes, begin + shift, windows.bytes);
}

// Masks the places of a row; all other targets are uncounted. The first and the last token of a
// window are those of the tokenizer, if it has them.
void mask(Windows& windows, std::int64_t row, const std::vector<std::int64_t>& places,
          const Tokenizer& tokenizer) {
  const std::int64_t length = windows.inputs.size(1);
  auto* inputs = windows.inputs.data_ptr<std::int64_t>() + row * length;
  auto* targets = windows.targets.data_ptr<std::int64_t>() + row * length;
  const std::vector<std::int64_t> kept(targets, targets + length);
  std::fill_n(targets, length, uncounted);
  for (const std::int64_t place : places) {
    inputs[place] = *tokenizer.mask;
    targets[place] = nth(kept, place);
  }
  if (tokenizer.first) inputs[0] = *tokenizer.first;
  if (tokenizer.last) inputs[length - 1] = *tokenizer.last;
}

// masked_share of `candidates`, at least one.
std::vector<std::int64_t> masked_places(std::vector<std::int64_t> candidates, Draws draws) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(
      1, std::llround(masked_share * static_cast<double>(candidates.size()))));
  shuffle(candidates, count, draws);
  candidates.resize(count);
  return candidates;
}

using TokenSegment = SegmentOf<Tokens>;

// Like segment_windows of batches.h, in tokens.
Windows causal_windows(const TokenSegment& segment, std::int64_t length, std::int64_t longest) {
  const std::int64_t rows = 2 * longest / length;
  Windows windows = empty_windows(rows, length);
  for (std::int64_t w = 0; w < rows; ++w)
    fill(windows, w, *segment.text, segment.first_target - 1 + (w - 1) * (length / 2), 1);
  return windows;
}

// Adjacent windows. The masked places are the same at every length, and none is at the border
// of a window of any length.
Windows masked_windows(const TokenSegment& segment, std::int64_t length,
                       const Settings& settings, const Tokenizer& tokenizer) {
  const std::int64_t longest = settings.longest(), stretch = settings.train_length;
  const auto at_border = [&](std::int64_t i) {
    return std::ranges::any_of(settings.eval_lengths, [&](std::int64_t one) {
      return i % one == 0 || i % one == one - 1;
    });
  };
  std::vector<std::int64_t> hidden;
  for (std::int64_t begin = 0; begin < longest; begin += stretch) {
    std::vector<std::int64_t> candidates;
    for (std::int64_t i = begin; i < std::min(longest, begin + stretch); ++i)
      if (!at_border(i)) candidates.push_back(i);
    if (candidates.empty()) continue;
    const auto some = masked_places(candidates, {segment.first_target, begin});
    hidden.insert(hidden.end(), some.begin(), some.end());
  }
  Windows windows = empty_windows(longest / length, length);
  for (std::int64_t w = 0; w < longest / length; ++w) {
    fill(windows, w, *segment.text, segment.first_target + w * length, 0);
    std::vector<std::int64_t> here;
    for (const std::int64_t i : hidden)
      if (i / length == w) here.push_back(i % length);
    mask(windows, w, here, tokenizer);
  }
  return windows;
}

bool has_window(const std::vector<Tokens>& texts, std::int64_t tokens) {
  return std::ranges::any_of(texts, [&](const Tokens& one) { return one.size() >= tokens; });
}

}  // namespace

void add_data(const Settings& settings, Corpus& corpus) {
  auto data = std::make_shared<Data>();
  data->config = read_config(settings.finetune);
  check(settings, data->config);
  std::shared_ptr<const io::Checkpoint> checkpoint;
  try {
    checkpoint = std::make_shared<io::Checkpoint>(settings.finetune);
    checkpoint->check();
    data->tokenizer = read_tokenizer(settings.finetune, data->config.vocabulary);
    const Network network(data->config, checkpoint);  // checks every tensor
  } catch (const FormatError& error) {
    throw std::invalid_argument(error.what());
  }
  const bool masked = data->config.masked();
  if (masked && !data->tokenizer->mask)
    refuse("finetune", "a masked model must have a mask token", "byte-level BPE");
  for (const auto& [texts, tokens] : {std::pair{&corpus.train, &data->train},
                                      {&corpus.validation, &data->validation},
                                      {&corpus.test, &data->test}})
    for (const Text& text : *texts) tokens->push_back(data->tokenizer->encode(text.bytes));
  const std::int64_t longest = settings.longest(), segment = longest + longest / 2 + 1;
  if (!has_window(data->train, longest + 1) || !has_window(data->validation, longest + 1) ||
      !has_window(data->test, segment))
    refuse(
        "finetune",
        fmt::format("each part of the texts must have {} tokens "
                    "in one text (or use shorter --eval-lengths)",
                    segment),
        fmt::format("{} in the test part", data->test.empty() ? 0 : data->test[0].ids.size()));
  std::uint64_t hash = fnv1a(data->config.json.dump());
  for (const std::string& name : checkpoint->names()) {
    const io::Array array = checkpoint->tensor(name);
    hash = fnv1a({reinterpret_cast<const char*>(array.bytes().data()), array.bytes().size()},
                 fnv1a(name, hash));
  }
  if (!data->tokenizer->of_bytes()) {
    const auto counts = [&](const std::vector<Tokens>& some) {
      std::vector<double> all(static_cast<std::size_t>(data->config.vocabulary));
      for (const Tokens& text : some)
        for (const std::int64_t id : text.ids) nth(all, id) += 1;
      return all;
    };
    corpus.tokens = token_statistics(counts(data->train), counts(data->test),
                                     static_cast<double>(Corpus::bytes(corpus.test)));
  } else {
    corpus.split += ". A token is a byte";
  }
  corpus.digest = fmt::format("{:016x}", hash);
  corpus.data = std::move(data);
}

Windows random_windows(const Data& data, const std::vector<Tokens>& texts, std::int64_t length,
                       BatchRange rows, std::uint64_t seed, std::uint64_t step) {
  std::vector<std::int64_t> ends;
  std::int64_t all = 0;
  for (const Tokens& text : texts)
    ends.push_back(all += std::max<std::int64_t>(0, text.size() - length));
  Windows windows = empty_windows(rows.end - rows.begin, length);
  const bool masked = data.config.masked();
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t place = Draws{seed, step, row}.below(all);
    const auto text = static_cast<std::size_t>(
        std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
    fill(windows, row - rows.begin, texts[text], place - (text ? ends[text - 1] : 0),
         masked ? 0 : 1);
    if (!masked) continue;
    std::vector<std::int64_t> inner(static_cast<std::size_t>(length - 2));
    std::iota(inner.begin(), inner.end(), 1);
    mask(windows, row - rows.begin, masked_places(inner, Draws{seed, step, row, 1}),
         *data.tokenizer);
  }
  return windows;
}

Model::Model(const Settings& settings, const Corpus& corpus, const std::string& entry)
    : TaskModel(settings),
      data_(dynamic_cast<const Data&>(*corpus.data)),
      entry_(parse_entry(entry)) {
  Config config = data_.config;
  if (entry_.method != "released")
    config = extended(config, entry_.method, settings.longest() / config.length());
  // A checkpoint must not be shared by threads.
  network_ = std::make_unique<Network>(std::move(config),
                                       std::make_shared<io::Checkpoint>(settings.finetune));
  network_->to(torch::Device(settings.device));
}

// Targets are the bytes of the target tokens, so the mean is in bits per byte.
LossSum Model::loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) {
  const Windows windows = random_windows(
      data_, part == Part::train ? data_.train : data_.validation, window(), rows, seed, step);
  const torch::Device device(settings_.device);
  const at::Tensor logits = network_->forward(windows.inputs.to(device));
  const at::Tensor counted = windows.targets.ne(uncounted);
  return {at::cross_entropy_loss(logits.view({-1, logits.size(-1)}),
                                 windows.targets.view(-1).to(device), {}, at::Reduction::Sum,
                                 uncounted),
          windows.bytes.mul(counted).sum().item<std::int64_t>()};
}

std::optional<LengthLoss> Model::test(std::int64_t length, const std::function<bool()>& stop) {
  const bool masked = data_.config.masked();
  const torch::Device device(settings_.device);
  LengthLoss loss{.length = length, .applicable = true};
  double tail = 0, tail_bytes = 0, window = 0, window_bytes = 0, right = 0, targets = 0;
  const auto count = static_cast<std::size_t>(length);
  position_sums_.assign(count, 0);
  position_bytes_.assign(count, 0);
  for (const TokenSegment& segment : test_segments(data_.test, settings_)) {
    const Windows all = masked ? masked_windows(segment, length, settings_, *data_.tokenizer)
                               : causal_windows(segment, length, settings_.longest());
    const std::int64_t rows = all.inputs.size(0);
    const std::int64_t at_once =
        std::clamp<std::int64_t>(logits_at_once / (length * data_.config.vocabulary), 1, rows);
    double segment_bits = 0, segment_bytes = 0;
    for (std::int64_t begin = 0; begin < rows; begin += at_once) {
      if (stop()) return {};
      const std::int64_t some = std::min(at_once, rows - begin);
      const at::Tensor wanted = all.targets.narrow(0, begin, some).contiguous(),
                       bytes = all.bytes.narrow(0, begin, some).contiguous();
      const at::Tensor logits =
          network_->forward(all.inputs.narrow(0, begin, some).to(device)).flatten(0, 1);
      const at::Tensor flat = wanted.view(-1).to(device);
      const at::Tensor bits =
          at::cross_entropy_loss(logits, flat, {}, at::Reduction::None, uncounted)
              .mul(bits_per_nat)
              .to(at::kCPU, at::kDouble)
              .contiguous();
      const at::Tensor hit = logits.argmax(1).eq(flat).to(at::kCPU, at::kDouble).contiguous();
      for (std::int64_t i = 0; i < some * length; ++i) {
        if (wanted.data_ptr<std::int64_t>()[i] == uncounted) continue;
        const std::int64_t row = begin + i / length, position = i % length;
        const double b = bits.data_ptr<double>()[i];
        const auto n = static_cast<double>(bytes.data_ptr<std::int64_t>()[i]);
        if (masked || position >= length / 2) {
          segment_bits += b;
          segment_bytes += n;
          right += hit.data_ptr<double>()[i];
          targets += 1;
        }
        if (masked || row % 2 == 1) {
          window += b;
          window_bytes += n;
        }
        nth(position_sums_, position) += b;
        nth(position_bytes_, position) += n;
      }
    }
    tail += segment_bits;
    tail_bytes += segment_bytes;
    loss.tail_by_segment.push_back(segment_bits / std::max(1.0, segment_bytes));
    loss.windows += settings_.longest() / length;
  }
  loss.tail_bits = tail / std::max(1.0, tail_bytes);
  loss.window_bits = window / std::max(1.0, window_bytes);
  loss.accuracy = right / std::max(1.0, targets);
  return loss;
}

std::optional<Evaluation> Model::evaluate(const std::function<bool()>& stop) {
  const at::NoGradGuard no_grad;
  const auto most = model::capacity(network_->config().scheme);
  Evaluation all;
  for (const std::int64_t length : settings_.eval_lengths) {
    if (most && length > *most) {
      all.lengths.push_back({.length = length});
      continue;
    }
    auto loss = test(length, stop);
    if (!loss) return {};
    all.lengths.push_back(std::move(*loss));
    PositionLoss& by_position = all.by_position.emplace();
    by_position.length = length;
    // Sixteen ranges of positions.
    const std::int64_t width = std::max<std::int64_t>(1, length / 16);
    for (std::int64_t begin = 0; begin < length; begin += width) {
      double sum = 0, bytes = 0;
      const std::int64_t end = std::min(length, begin + width);
      for (std::int64_t i = begin; i < end; ++i) {
        sum += nth(position_sums_, i);
        bytes += nth(position_bytes_, i);
      }
      by_position.positions.push_back(0.5 * static_cast<double>(begin + 1 + end));
      by_position.bits.push_back(bytes > 0 ? sum / bytes : std::nan(""));
    }
  }
  return all;
}

// The released model itself is not written again.
void Model::save(const std::filesystem::path& folder, const RunResult&) {
  if (entry_.tuned || entry_.method != "released") network_->save_folder(folder);
}

}  // namespace gnomon::lab::finetune
