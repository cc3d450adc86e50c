// The task classify: a bidirectional Transformer with a [CLS] token predicts a text's label.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/draws.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/tasks/bidirectional.h"
#include "apps/lab/tasks/classify_data.h"
#include "gnomon/error.h"
#include "gnomon/model/scheme.h"
#include "src/core/text.h"

namespace gnomon::lab::classify_examples {
namespace {

constexpr std::int64_t texts_at_once = 32;
constexpr std::int64_t class_token = 256;  // the number after the bytes

// Texts as rows of tokens: [CLS], the bytes, and padding.
struct TextBatch {
  at::Tensor tokens;   // [B, T] int64
  at::Tensor present;  // [B, T] bool, false for padding
  at::Tensor labels;   // [B] int64
};

TextBatch batch_of(const std::vector<LabelledText>& texts) {
  std::vector<at::Tensor> tokens, present;
  for (const LabelledText& one : texts) {
    std::vector<std::int64_t> row{class_token};
    for (const char c : one.text) row.push_back(static_cast<unsigned char>(c));
    tokens.push_back(at::tensor(row, at::kLong));
    present.push_back(at::ones(std::ssize(row), at::kBool));
  }
  return {at::pad_sequence(tokens, true), at::pad_sequence(present, true),
          at::tensor(mapped(texts, &LabelledText::label), at::kLong)};
}

struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl(const Settings& settings, model::Scheme scheme, std::int64_t labels,
                 std::uint64_t seed) {
    at::Generator shared = seeded_generator(2 * seed);
    embedding = register_module(
        "embedding",
        drawn_embedding(class_token + 1, settings.width, Block::embedding_deviation, shared));
    layers = register_module("layers", Bidirectional(settings, shared));
    head = register_module(
        "head", drawn_linear(settings.width, labels, Block::weight_deviation, shared));
    position = register_module(
        "position",
        libtorch::PositionScheme(std::move(scheme), seeded_generator(2 * seed + 1)));
  }

  // Returns logits [B, labels] of the [CLS] token.
  at::Tensor forward(const TextBatch& batch) {
    const at::Tensor x = layers->encode(embedding(batch.tokens), position,
                                        libtorch::positions_of_mask(batch.present));
    return head(x.select(1, 0));
  }

  torch::nn::Embedding embedding{nullptr};
  Bidirectional layers{nullptr};
  torch::nn::Linear head{nullptr};
  libtorch::PositionScheme position{nullptr};
};
TORCH_MODULE(Classifier);

class ClassifyModel final : public TaskModel {
 public:
  ClassifyModel(const Settings& settings, const Corpus& corpus, const std::string& encoding,
                std::int64_t seed)
      : TaskModel(settings),
        data_(static_cast<const LabelledTexts*>(corpus.data.get())),
        model_(settings,
               model::parse_scheme(encoding,
                                   {settings.width, settings.heads, settings.train_length + 1,
                                    Visibility::bidirectional},
                                   settings.layers),
               data_ ? std::ssize(data_->names) : 2, static_cast<std::uint64_t>(seed)) {
    model_->to(torch::Device(settings.device));
  }

  torch::nn::Module& module() override { return *model_; }

  Json specification() const override { return json_of_scheme(model_->position->scheme()); }

  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override {
    std::vector<LabelledText> texts;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      texts.push_back(drawn(part, seed, step, row));
    const auto [logits, batch] = read(texts);
    return {at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum),
            std::ssize(texts)};
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override {
    const at::NoGradGuard no_grad;
    const auto most = model::capacity(model_->position->scheme());
    Evaluation all;
    for (Stretch& one : all.stretches = length_stretches(settings_)) {
      one.applicable = !most || one.to + 1 <= *most;
      if (!one.applicable) continue;
      const std::vector<LabelledText> texts = tests(one, one.sources);
      one.examples = std::ssize(texts);
      std::map<std::int64_t, double> counts;
      double nats = 0;
      for (std::size_t begin = 0; begin < texts.size(); begin += texts_at_once) {
        if (stop()) return {};
        const auto first = texts.begin() + static_cast<std::ptrdiff_t>(begin);
        const std::vector<LabelledText> part(
            first, first + std::min<std::ptrdiff_t>(texts_at_once, texts.end() - first));
        const auto [logits, batch] = read(part);
        const at::Tensor hits = logits.argmax(1).eq(batch.labels).to(at::kDouble).cpu();
        const auto* hit = hits.data_ptr<double>();
        one.scores.insert(one.scores.end(), hit, hit + hits.numel());
        nats +=
            at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum).item<double>();
        for (const LabelledText& text : part) counts[text.label] += 1;
      }
      const auto count = static_cast<double>(one.examples);
      one.score = mean(one.scores);
      one.bits = nats / count * bits_per_nat;
      for (const auto& [label, texts_of_label] : counts)
        one.chance_score = std::max(one.chance_score, texts_of_label / count);
    }
    return all;
  }

  void describe(RunResult& result) override {
    const at::NoGradGuard no_grad;
    const LabelledText one = data_
                                 ? cut(data_->test[0], settings_.train_length)
                                 : sentence(settings_.train_length, Part::test, sample_seed, 0);
    const std::int64_t guess = read({one}).first.argmax(1).item<std::int64_t>();
    result.samples = {{settings_.train_length, internal::printable_lines(one.text),
                       internal::printable_lines(name_of(guess)),
                       internal::printable_lines(name_of(one.label))}};
  }

 private:
  static LabelledText cut(const LabelledText& text, std::int64_t length) {
    return {text.text.substr(0, static_cast<std::size_t>(length)), text.label};
  }

  std::string name_of(std::int64_t label) const {
    return data_ ? nth(data_->names, label) : std::string(sentence_labels[label]);
  }

  // Every length from the shortest sentence to the training length is equally likely. A longer
  // text of the user is cut to it.
  LabelledText drawn(Part part, std::uint64_t seed, std::uint64_t step,
                     std::int64_t row) const {
    Draws draws{seed, part, step, row};
    const std::int64_t length =
        shortest_sentence + draws.below(settings_.train_length - shortest_sentence + 1);
    if (!data_) return sentence(length, part, seed, draws.next());
    return cut(draws.one_of(part == Part::train ? data_->train : data_->validation), length);
  }

  // The tests of a stretch. From the user's texts: those that reach the stretch, cut at its
  // end, at most 8 eval_segments of them, and their numbers in `sources`; shorter texts than
  // the first stretch belong to it.
  std::vector<LabelledText> tests(const Stretch& stretch,
                                  std::vector<std::int64_t>& sources) const {
    std::vector<LabelledText> all;
    if (!data_) {
      const std::int64_t count = 2 * settings_.eval_segments;
      for (std::int64_t i = 0; i < count; ++i)
        all.push_back(
            sentence(stretch.from + i / 2 * 2 * (stretch.to + 1 - stretch.from) / count,
                     Part::test, test_seed, static_cast<std::uint64_t>(i)));
      return all;
    }
    const std::int64_t least = stretch.from == shortest_sentence ? 0 : stretch.from;
    std::vector<std::size_t> reaching;
    for (std::size_t i = 0; i < data_->test.size(); ++i)
      if (std::ssize(data_->test[i].text) >= least) reaching.push_back(i);
    const std::size_t most =
        std::min(reaching.size(), static_cast<std::size_t>(8 * settings_.eval_segments));
    for (std::size_t i = 0; i < most; ++i) {
      const std::size_t number = reaching[i * reaching.size() / most];
      all.push_back(cut(data_->test[number], stretch.to));
      sources.push_back(static_cast<std::int64_t>(number));
    }
    return all;
  }

  // The logits and the batch, on the device.
  std::pair<at::Tensor, TextBatch> read(const std::vector<LabelledText>& texts) {
    const torch::Device device(settings_.device);
    TextBatch batch = batch_of(texts);
    batch.tokens = batch.tokens.to(device);
    batch.labels = batch.labels.to(device);
    at::Tensor logits = model_->forward(batch);
    return {std::move(logits), std::move(batch)};
  }

  const LabelledTexts* data_;
  Classifier model_;
};

TaskDefaults defaults() {
  return {32, 16, 1, {2, 4}, "none,sinusoidal,learned,rotary,alibi,t5"};
}

void check(const Settings& s) {
  if (s.longest() > 65536)
    refuse("lab", "lengths of --task classify must be at most 65536 bytes", s.longest());
  if (s.texts.size() > 1)
    refuse("lab", "--task classify must have one CSV file or none", std::ssize(s.texts));
}

Corpus load(const Settings& s) {
  Corpus corpus;
  if (s.texts.empty()) {
    corpus.source = "generated sentences whose label depends on the order of their words";
    corpus.split =
        "by a hash of the sentence: of sixteen sentences fourteen train, "
        "one validates and one tests";
    return corpus;
  }
  auto data = std::make_shared<LabelledTexts>(
      read_labelled_texts(s.texts[0], length_stretches(s).back().from));
  corpus.source = fmt::format("{}: {} texts with {} labels", s.texts[0],
                              data->train.size() + data->validation.size() + data->test.size(),
                              data->names.size());
  corpus.split = "by a hash of the text: of ten texts eight train, one validates and one tests";
  corpus.digest = data->digest;
  corpus.data = std::move(data);
  return corpus;
}

}  // namespace
}  // namespace gnomon::lab::classify_examples

namespace gnomon::lab {

const Task classify_task{
    .name = "classify",
    .title = "Classification",
    .summary =
        "the label of a text; that of a generated sentence depends "
        "on the order of its words",
    .unit = "bytes",
    .score = "right labels",
    .what =
        "the share of unseen texts whose label is right, by the number of bytes that the "
        "model reads",
    .chance = "the most frequent label of the test texts",
    .loss = "bits per text",
    .model_name = "byte-level bidirectional Transformer with a [CLS] token",
    .trained_on = "texts of at most ",
    .samples = "The label that each model gives to the same unseen text.",
    .suffixes = "",
    .defaults = classify_examples::defaults,
    .tokens = [](std::int64_t length) { return length + 1; },
    .model = made<classify_examples::ClassifyModel>,
    .load = classify_examples::load,
    .check = classify_examples::check,
    .shortest = classify_examples::shortest_sentence};

}  // namespace gnomon::lab
