#include "apps/lab/model/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/task.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

std::vector<std::int64_t> tokens_of(std::string_view text, const Tokenizer* tokenizer) {
  if (tokenizer) {
    const auto tokens = tokenizer->encode(text);
    return {tokens.begin(), tokens.end()};
  }
  std::vector<std::int64_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// A token drawn from softmax(logits / temperature).
std::int64_t sample_token(const at::Tensor& logits, double temperature, Draws& draws) {
  if (temperature == 0) return logits.argmax().item<std::int64_t>();
  const at::Tensor sums =
      at::softmax(logits.to(at::kCPU, at::kDouble) / temperature, 0).cumsum(0).contiguous();
  const double* sum = sums.data_ptr<double>();
  const std::int64_t last = logits.size(0) - 1;
  const double at = std::ldexp(static_cast<double>(draws.next() >> 11), -53);
  return std::min<std::int64_t>(std::upper_bound(sum, sum + last + 1, at * sum[last]) - sum,
                                last);
}

constexpr std::int64_t prompt_tokens = 64, sample_windows = 3;

std::vector<Sample> text_samples(Transformer& model, const Settings& s, const Corpus& corpus,
                                 Reading reading) {
  const std::vector<Segment> segments = test_segments(corpus.test, s);
  const Segment& segment = segments[segments.size() / 2];
  const std::int64_t count = std::min(prompt_tokens, segment.first_target);
  std::string prompt = corpus.text_of(*segment.text, segment.first_target - count, count);
  if (const std::size_t space = prompt.find(' '); space != std::string::npos && space < 32)
    prompt.erase(0, space + 1);
  const std::int64_t total = std::min(sample_windows * s.train_length, s.longest());
  // The bytes of that many tokens of the test text.
  const std::int64_t bytes = std::max<std::int64_t>(s.train_length, total - count) *
                             std::ssize(segment.text->bytes) / segment.text->size();
  GenerateOptions options{.bytes = bytes, .tokenizer = corpus.tokenizer.get()};
  std::vector<Sample> all;
  const auto most = model::capacity(model->scheme());
  for (const std::int64_t context : {s.train_length, s.longest()}) {
    if (context > most.value_or(context) || (!all.empty() && context == s.train_length))
      continue;
    if (reading != Reading::whole && context > s.train_length) continue;
    options.context = context;
    all.push_back({.context = context,
                   .prompt = internal::printable_lines(prompt),
                   .text = internal::printable_lines(generate(model, prompt, options)),
                   .expected = {}});
  }
  return all;
}

// The masked bytes of the first test window, as _, with the most likely bytes.
std::vector<Sample> masked_samples(Transformer& model, const Settings& s,
                                   const Corpus& corpus) {
  const Batch batch = masked_segment(test_segments(corpus.test, s).front(), s.train_length, s);
  const at::Tensor inputs = batch.inputs.slice(0, 0, 1), targets = batch.targets.slice(0, 0, 1);
  const at::Tensor guesses =
      model->forward(inputs.to(s.device), {.visibility = visibility(s)}).argmax(2).to(at::kCPU);
  Sample sample{.context = s.train_length};
  for (std::int64_t i = 0; i < inputs.size(1); ++i) {
    const auto byte = [&](const at::Tensor& from) {
      return static_cast<char>(from[0][i].item<std::int64_t>());
    };
    const bool masked = targets[0][i].item<std::int64_t>() != uncounted;
    sample.prompt += masked ? '_' : byte(inputs);
    sample.text += byte(masked ? guesses : inputs);
    sample.expected += byte(masked ? targets : inputs);
  }
  for (std::string* text : {&sample.prompt, &sample.text, &sample.expected})
    *text = internal::printable_lines(*text);
  return {sample};
}

std::vector<Sample> example_samples(Transformer& model, const Settings& s) {
  const Task& task = *s.task;
  const auto most = model::capacity(model->scheme());
  std::vector<Sample> all;
  for (const std::int64_t length : s.eval_lengths) {
    const Example one = example(task, length, Part::test, sample_seed, 1);
    const std::int64_t inputs = std::ssize(one.bytes) - 1;  // the last byte is predicted only
    if (inputs > most.value_or(inputs)) continue;
    // The answer begins after the prompt. Prompts inside the answer (recall) are given.
    Sample sample{.context = length};
    std::string text;
    for (std::size_t i = 0; i < one.bytes.size(); ++i) {
      if (!one.answer[i]) {
        text += one.bytes[i];
        continue;
      }
      if (sample.prompt.empty()) sample.prompt = text;
      text += generate(model, text,
                       {.bytes = 1, .context = std::ssize(one.bytes), .temperature = 0});
    }
    sample.text = internal::printable_lines(text.substr(sample.prompt.size()));
    sample.expected = one.bytes.substr(sample.prompt.size());
    all.push_back(sample);
  }
  return all;
}

}  // namespace

std::string generate(Transformer& model, std::string_view text,
                     const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  const std::int64_t half = options.context / 2;
  const at::Device device = model->parameters().front().device();
  std::string all(text);
  std::vector<std::int64_t> tokens = tokens_of(text, options.tokenizer);
  Draws draws{options.seed};
  KeyValues cache;
  std::int64_t begin = 0;  // first token that is not in the cache
  while (std::ssize(all) < std::ssize(text) + options.bytes) {
    if (cache.tokens() + std::ssize(tokens) - begin > options.context) {
      cache = {};
      begin = std::max<std::int64_t>(0, std::ssize(tokens) - half);
    }
    const at::Tensor next =
        at::tensor(at::ArrayRef(tokens).slice(static_cast<std::size_t>(begin)), at::kLong);
    const at::Tensor logits = model->forward(next.unsqueeze(0).to(device), {.cache = &cache})
                                  .select(0, 0)
                                  .select(0, -1);
    begin = std::ssize(tokens);
    tokens.push_back(sample_token(logits, options.temperature, draws));
    all += options.tokenizer ? options.tokenizer->bytes(tokens.back())
                             : std::string(1, static_cast<char>(tokens.back()));
  }
  return all.substr(text.size());
}

std::vector<Sample> samples(Transformer& model, const Settings& settings, const Corpus& corpus,
                            Reading reading) {
  const at::NoGradGuard no_grad;
  if (settings.task->has_examples()) return example_samples(model, settings);
  if (settings.task->is_masked()) return masked_samples(model, settings, corpus);
  return text_samples(model, settings, corpus, reading);
}

}  // namespace gnomon::lab
