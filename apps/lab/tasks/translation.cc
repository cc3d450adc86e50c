#include "apps/lab/tasks/translation.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "apps/lab/data/batches.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace translation_examples {

TranslatorImpl::TranslatorImpl(const Settings& settings, Sizes sizes, std::uint64_t seed) {
  const std::int64_t width = settings.width, decoder_depth = std::ssize(sizes.decoder.layers);
  at::Generator shared = seeded_generator(2 * seed);
  source_embedding_ =
      register_module("source_embedding",
                      drawn_embedding(sizes.source, width, Block::embedding_deviation, shared));
  target_embedding_ =
      register_module("target_embedding",
                      drawn_embedding(sizes.target, width, Block::embedding_deviation, shared));
  encoder_ = register_module(
      "encoder",
      Bidirectional(EncoderSizes{std::ssize(sizes.encoder.layers), width, settings.heads},
                    CrossAttention::none, Init::gpt2, shared));
  for (std::int64_t layer = 0; layer < decoder_depth; ++layer)
    decoder_.push_back(
        register_module("decoder" + std::to_string(layer),
                        std::make_shared<CrossBlock>(width, settings.heads, 3 * decoder_depth,
                                                     Init::gpt2, shared)));
  norm_ = register_module("norm", layer_norm(width));
  head_ = register_module("head",
                          drawn_linear(width, sizes.target, Block::weight_deviation, shared));
  at::Generator own = seeded_generator(2 * seed + 1);
  encoder_position_ = register_module("position_encoder",
                                      libtorch::PositionScheme(std::move(sizes.encoder), own));
  decoder_position_ = register_module("position_decoder",
                                      libtorch::PositionScheme(std::move(sizes.decoder), own));
}

at::Tensor TranslatorImpl::encode(const at::Tensor& source,
                                  const std::vector<std::int64_t>& ids) {
  std::optional<Positions> positions;
  if (!ids.empty()) positions = explicit_ids(ids);
  return encoder_->encode(source_embedding_(source), encoder_position_, positions);
}

at::Tensor TranslatorImpl::decode(const at::Tensor& memory, const at::Tensor& inputs,
                                  const std::vector<std::int64_t>& ids, DecoderCache* cache) {
  libtorch::AttendOptions options{.visibility = Visibility::causal};
  at::Tensor x = target_embedding_(inputs);
  if (ids.empty()) {
    x = decoder_position_->embed(x, cache ? cache->past.tokens() : 0);
  } else {
    options.positions = explicit_ids(ids);
    x = decoder_position_->embed(x, *options.positions);
  }
  if (cache && cache->source.empty())
    for (const auto& block : decoder_) cache->source.push_back(block->project_memory(memory));
  for (std::int64_t layer = 0; layer < std::ssize(decoder_); ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    CrossBlock& block = *decoder_[at];
    options.hidden = block.attention_norm(x);
    const at::Tensor qkv = block.project(options.hidden);
    at::Tensor attended;
    if (cache) {
      const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
      options.hidden = cache->past.append(layer, parts[1], parts[2], options.hidden,
                                          decoder_position_->layer(layer)->mixture());
      options.layout = libtorch::Layout::tokens_heads;
      attended = decoder_position_->attend(layer, parts[0], cache->past.keys[at],
                                           cache->past.values[at], options);
    } else {
      attended = decoder_position_->attend_packed(layer, qkv, block.heads, options);
    }
    x = block.add_attention(x, attended);
    x = block.add_memory(x, cache ? cache->source[at] : block.project_memory(memory));
    x = block.add_feed(x);
  }
  return head_(norm_(x));
}

std::vector<Ids> TranslatorImpl::translate(const at::Tensor& source, std::int64_t most) {
  const at::NoGradGuard no_grad;
  const at::Tensor memory = encode(source);
  const auto rows = static_cast<std::size_t>(source.size(0));
  std::vector<Ids> all(rows);
  std::vector<bool> ended(rows, false);
  DecoderCache cache;
  at::Tensor next = at::full({source.size(0), 1}, Vocabulary::end, source.options());
  for (std::int64_t i = 0; i < most; ++i) {
    next = decode(memory, next, {}, &cache).argmax(2);
    const at::Tensor found = next.to(at::kCPU).contiguous();
    const std::int64_t* id = found.data_ptr<std::int64_t>();
    for (std::size_t row = 0; row < rows; ++row) {
      ended[row] = ended[row] || id[row] == Vocabulary::end;
      if (!ended[row]) all[row].push_back(id[row]);
    }
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) break;
  }
  return all;
}

// Token ids of sentences with an equal number of source tokens. Inputs begin with
// Vocabulary::end, targets end with it, and shorter rows are filled up with uncounted targets.
struct Tensors {
  at::Tensor source, inputs, targets;  // [B, S], [B, T], [B, T]
};

Tensors tensors_of(std::span<const EncodedPair* const> examples) {
  const at::Tensor end = at::full({1}, Vocabulary::end, at::kLong);
  std::vector<at::Tensor> sources, inputs, targets;
  for (const EncodedPair* one : examples) {
    const at::Tensor target = at::tensor(one->target, at::kLong);
    sources.push_back(at::cat({at::tensor(one->source, at::kLong), end}));
    inputs.push_back(at::cat({end, target}));
    targets.push_back(at::cat({target, end}));
  }
  return {at::stack(sources), at::pad_sequence(inputs, true, Vocabulary::end),
          at::pad_sequence(targets, true, uncounted)};
}

class TranslationModel final : public TaskModel {
 public:
  TranslationModel(const Settings& settings, const Corpus& corpus, const std::string& encoding,
                   std::int64_t seed)
      : TaskModel(settings),
        data_(std::dynamic_pointer_cast<const Data>(corpus.data)),
        candidate_(find_candidate(encoding)) {
    // Random ids have the range of the longest tested length.
    const std::int64_t length =
        candidate_.has_random_positions() ? settings.longest() : settings.train_length;
    sizes_ = {data_->source.size(), data_->target.size(),
              scheme(source_tokens(length), Visibility::bidirectional, settings.layers / 2),
              scheme(most_target(length) + 1, Visibility::causal,
                     settings.layers - settings.layers / 2)};
    model_ = Translator(settings, sizes_, static_cast<std::uint64_t>(seed));
    model_->to(torch::Device(settings.device));
  }

  torch::nn::Module& module() override { return *model_; }
  Json specification() const override {
    return {{"encoder", json_of_scheme(sizes_.encoder)},
            {"decoder", json_of_scheme(sizes_.decoder)}};
  }
  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override {
    const auto examples = batch_of(*data_, part, settings_.batch, seed, step);
    const Tensors batch = tensors_of(std::span(examples).subspan(
        static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.end - rows.begin)));
    const torch::Device device(settings_.device);
    std::vector<std::int64_t> source_ids, target_ids;
    if (part == Part::train && candidate_.has_random_positions()) {
      source_ids =
          random_ids(batch.source.size(1), source_tokens(settings_.longest()), seed, step);
      target_ids =
          random_ids(batch.inputs.size(1), most_target(settings_.longest()) + 1, seed, step);
    }
    const at::Tensor logits =
        model_->decode(model_->encode(batch.source.to(device), source_ids),
                       batch.inputs.to(device), target_ids);
    return {sum_of_losses(logits, batch.targets.to(device)),
            batch.targets.ne(uncounted).sum().item<std::int64_t>()};
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override {
    constexpr std::size_t examples_at_once = 64;
    const at::NoGradGuard no_grad;
    Evaluation all;
    for (Stretch& one : all.stretches = length_stretches(settings_)) {
      one.applicable = has_positions(one.to);
      if (!one.applicable) continue;
      const auto examples = tests_of(*data_, settings_, one);
      one.examples = std::ssize(examples);
      double nats = 0, targets = 0;
      for (std::size_t begin = 0; begin < examples.size();) {
        if (stop()) return {};
        const std::size_t length = examples[begin]->source.size();
        std::size_t end = begin;
        while (end < examples.size() && end < begin + examples_at_once &&
               examples[end]->source.size() == length)
          ++end;
        const auto here = std::span(examples).subspan(begin, end - begin);
        const std::vector<std::string> found = translations(here);
        for (std::size_t i = 0; i < here.size(); ++i) {
          one.scores.push_back(chrf(found[i], here[i]->pair.target));
          one.seconds.push_back(found[i] == here[i]->pair.target ? 1 : 0);
        }
        const Tensors batch = tensors_of(here);
        const at::Tensor logits =
            model_->decode(model_->encode(batch.source.to(settings_.device)),
                           batch.inputs.to(settings_.device));
        nats += sum_of_losses(logits, batch.targets.to(settings_.device)).item<double>();
        targets += batch.targets.ne(uncounted).sum().item<double>();
        begin = end;
      }
      const ByChance by_chance = chance_of(*data_, examples);
      one.score = mean(one.scores), one.second = mean(one.seconds);
      one.bits = nats / targets / std::numbers::ln2;
      one.chance_score = by_chance.chrf, one.chance_second = by_chance.whole;
    }
    return all;
  }

  // The longest test sentence up to each eval length.
  void describe(RunResult& result) override {
    for (const std::int64_t length : settings_.eval_lengths) {
      if (!has_positions(length)) continue;
      const EncodedPair* const example =
          tests_of(*data_, settings_, {.from = length, .to = length, .up_to = length}).front();
      result.samples.push_back(
          {.context = std::ssize(example->source),
           .prompt = internal::printable_lines(example->pair.source),
           .text = internal::printable_lines(translations(std::array{example})[0]),
           .expected = internal::printable_lines(example->pair.target)});
    }
  }

  // The vocabularies: a token in each line, in the order of the ids.
  void save(const std::filesystem::path& folder, const RunResult& result) override {
    TaskModel::save(folder, result);
    for (const auto& [vocabulary, name] :
         {std::pair{&data_->source, "source_vocabulary.txt"},
          std::pair{&data_->target, "target_vocabulary.txt"}}) {
      std::string lines;
      for (const std::string& token : vocabulary->tokens()) lines += token + '\n';
      io::write_atomically(folder / name, lines);
    }
  }

 private:
  // Tokens of the encoder: the sentence and its end.
  static std::int64_t source_tokens(std::int64_t length) { return length + 1; }

  model::Scheme scheme(std::int64_t tokens, Visibility reads, std::int64_t layers) const {
    return model::parse_scheme(candidate_.scheme,
                               {settings_.width, settings_.heads, tokens, reads}, layers);
  }
  bool has_positions(std::int64_t length) const {
    const auto encoder = model::capacity(sizes_.encoder),
               decoder = model::capacity(sizes_.decoder);
    return source_tokens(length) <= encoder.value_or(source_tokens(length)) &&
           most_target(length) + 1 <= decoder.value_or(most_target(length) + 1);
  }
  std::vector<std::string> translations(std::span<const EncodedPair* const> examples) {
    const at::Tensor source = tensors_of(examples).source.to(settings_.device);
    std::vector<std::string> all;
    for (const Ids& ids :
         model_->translate(source, most_target(std::ssize(examples[0]->source))))
      all.push_back(data_->target.text(ids));
    return all;
  }

  std::shared_ptr<const Data> data_;
  Candidate candidate_;
  Sizes sizes_;
  Translator model_{nullptr};
};

void check(const Settings& settings) {
  if (settings.layers < 2)
    refuse("lab",
           "--task translation must have at least 2 --layers, half of them for the encoder",
           settings.layers);
  if (settings.train_length < 8)
    refuse("lab", "--train-length of --task translation must be at least 8",
           settings.train_length);
  if (settings.longest() > 4096)
    refuse("lab", "--eval-lengths of --task translation must be at most 4096",
           settings.longest());
  if (!settings.texts.empty() && settings.texts.size() != 2)
    refuse("lab", "--task translation must have no TEXT or two, SOURCE and TARGET",
           std::ssize(settings.texts));
}

TaskDefaults defaults() {
  return {12, 48, 2, {2, 3}, "none,sinusoidal,learned,rotary,alibi,t5,shaw", 4, 64};
}

}  // namespace translation_examples

const Task translation_task{
    .name = "translation",
    .title = "Translation",
    .summary = "a sentence in another language, with another order of words",
    .unit = "words",
    .score = "mean chrF",
    .second = "right sentences",
    .what =
        "the mean chrF (character n-grams up to 6, beta 2) of the translations of unseen "
        "sentences, the result of greedy decoding; also the share of translations that are "
        "right in every word. A length is the number of words of the source sentence; a rare "
        "word counts its characters",
    .chance = "the translation of another sentence of the same length",
    .loss = "bits per token",
    .model_name = "encoder-decoder Transformer, half of the layers in each",
    .trained_on = "sentences of at most ",
    .samples = "The translation of the same unseen sentence by each model, by greedy decoding.",
    .defaults = translation_examples::defaults,
    .model = made<translation_examples::TranslationModel>,
    .load = translation_examples::load,
    .check = translation_examples::check};

}  // namespace gnomon::lab
