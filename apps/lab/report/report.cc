#include "apps/lab/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/data/words.h"
#include "apps/lab/model/halting.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/results_by_size.h"
#include "gnomon/io/file.h"
#include "gnomon/plot/page.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

constexpr std::int64_t short_example = 6;

// A sentence about the bands of a curve that has none with one seed.
std::string bands_over_seeds(const Results& results) {
  return results.settings.seeds.size() > 1
             ? " Bands: the 95 % confidence interval of the mean over seeds (Student's t)."
             : " One seed: the chart has no bands.";
}

// The changes that the methods of an extension make in the model.
std::vector<std::string> changes_of(const ExtensionResult& extension) {
  const bool scales = std::ranges::any_of(extension.rows, [](const ExtensionRow& row) {
    return row.stage == Stage::without && row.method != "drope";
  });
  std::vector<std::string> all;
  if (scales) all.emplace_back("with scaled frequencies");
  if (drops_positions(extension)) all.emplace_back("without positions");
  return all;
}

void add_extensions(plot::HtmlPage& page, const Results& results) {
  if (results.extensions.empty()) return;
  page.heading("Longer context after training");
  for (const ExtensionResult& one : results.extensions) {
    page.figure(
        {.id = "extension-" + one.name,
         .title = one.title + ", longer context",
         .caption = fmt::format("The trained model {}, before and after a short fine-tune.{}",
                                either(changes_of(one)), bands_over_seeds(results)),
         .spec = extension_curves(results, one)});
    page.table(extension_table(results, one));
  }
}

std::string model_text(const Results& results) {
  const Settings& s = results.settings;
  const Task& task = *s.task;
  const auto size = [](const auto& one) {
    return fmt::format("{} layers, width {}, {} heads", grouped(one.layers), grouped(one.width),
                       grouped(one.heads));
  };
  std::string sizes = results.sizes.empty() ? size(s) : "";
  for (const SizeResult& one : results.sizes) sizes += (sizes.empty() ? "" : "; ") + size(one);
  if (!s.finetune.empty()) return s.finetune + ": " + sizes;
  if (!s.model.empty())
    return fmt::format(
        "Universal Transformer, pre-norm, GELU: one layer that runs up to as many times as a "
        "model has layers, with adaptive halting (threshold {:g}, ponder cost {:g}): {}",
        1 - Halting::epsilon, s.ponder_cost.value_or(0), sizes);
  const std::string name =
      !task.model_name.empty() ? std::string(task.model_name)
      : task.is_masked()       ? "byte-level bidirectional Transformer"
      : length_unit(s) == "tokens"
          ? "causal Transformer with " + grouped(vocabulary(s)) + " byte-pair tokens"
          : "byte-level causal Transformer";
  return name + ", pre-norm, GELU: " + sizes;
}

std::string training_text(const Results& results) {
  const Settings& s = results.settings;
  const Task& task = *s.task;
  const std::int64_t length = s.finetune.empty() ? s.train_length : training_window(s);
  const bool examples = task.has_examples();
  return fmt::format(
      "{} of {} {}{}; AdamW at {:g}, warm-up and cosine; {}", counted(s.steps, "step"),
      grouped(s.batch), examples ? task.trained_on : "windows of ",
      examples ? fmt::format("{} {}", grouped(length), task.unit)
               : length_text(results, length),
      s.learning_rate,
      !results.sizes.empty() ? "the same weights and batches for every encoding of a size"
      : s.finetune.empty()   ? "the same weights and batches for every encoding"
                             : "the fine-tunes begin with the released weights "
                               "and have the same batches");
}

// How positions were dropped; empty if no entry has @drope.
std::string dropped_text(const Results& results) {
  const Settings& s = results.settings;
  std::vector<std::string> dropped;
  if (!s.finetune.empty()) return "";
  for (const EncodingResult& one : results.encodings)
    if (split_size(one.name).name.ends_with("@drope")) dropped.push_back(one.title);
  if (dropped.empty()) return "";
  const std::int64_t step = drop_step(s);
  return fmt::format(
      "{}: {} with the positions, then {} of recalibration without them, at the lengths of "
      "training; the tests are without positions (DroPE, arXiv:2512.12167)",
      listed(dropped), counted(step, "step"), counted(s.steps - step, "step"));
}

void add_settings(plot::HtmlPage& page, const Results& results) {
  const Settings& s = results.settings;
  page.heading("Settings");
  const Task& task = *s.task;
  const std::string unit = singular(length_unit(s));
  std::vector<std::pair<std::string, std::string>> terms{
      {"Task", task.has_examples() ? std::string(task.summary)
               : task.is_masked()
                   ? fmt::format("the masked {0}s of a text from the {0}s on both sides", unit)
                   : fmt::format("each {0} of a text from the previous {0}s", unit)},
      {"Metric", results.metric.name + ": " + results.metric.what},
      {"Without a model", results.metric.chance},
      {"Model", model_text(results)},
      {s.finetune.empty() ? "Training" : "Fine-tune", training_text(results)}};
  if (const std::string dropped = dropped_text(results); !dropped.empty())
    terms.emplace_back("Positions dropped", dropped);
  terms.insert(
      terms.end(),
      {{"Seeds", fmt::format("{}", fmt::join(s.seeds, ", "))},
       {"To repeat",
        "gnomon lab --protocol settings.json --out NEW, with settings.json of the folder "
        "of this page"},
       {"Data", results.texts.source + ", " + results.texts.split}});
  page.definitions(terms);
  plot::Table texts;
  texts.columns = {{"text"}, {"part"}, {"bytes", plot::Align::number}};
  for (const auto& [part, sizes] : {std::pair{"train", &results.texts.train},
                                    {"validation", &results.texts.validation},
                                    {"test", &results.texts.test}})
    for (const TextSize& one : *sizes)
      texts.rows.push_back({one.name, part, grouped(one.bytes)});
  if (!texts.rows.empty()) page.table(texts);
  const Machine& machine = results.machine;
  page.heading("Machine and timings");
  page.definitions(
      {{"Processor", fmt::format("{}, {} cores", machine.processor, machine.cores)},
       {"Device", machine.device + ", " + machine.isa},
       {"LibTorch", machine.libtorch},
       {"Duration of the session that wrote this page", duration_in_words(results.seconds)}});
  if (!results.encodings.empty()) page.table(timings_table(results));
}

void add_text_findings(plot::HtmlPage& page, const Results& results) {
  page.figure(
      {.id = "lengths",
       .title = "Loss by context length",
       .caption =
           "Loss on the same part of the test text at every context length; lower is better. "
           "Dashed: the context is cut to the training length. If the solid line is above "
           "the dashed line, the longer context increases the loss; if it is below, the "
           "longer context decreases the loss. Bands: " +
           interval_text(results) + ". " +
           capitalized(std::string(entry_noun(results.settings))) +
           "s are compared seed by seed and segment by segment, so a difference can be "
           "measurable although the bands overlap.",
       .spec = length_curves(results)});
  page.table(summary_table(results));
  if (const plot::Table steps = step_table(results); !steps.rows.empty()) page.table(steps);
  const std::string token = singular(length_unit(results.settings));
  const bool masked = results.settings.task->is_masked();
  const std::string right = masked ? "masked " + token : token + " that follows";
  page.paragraph(
      results.texts.bytes_per_token
          ? fmt::format(
                "Bits per byte: the sum of -log2 p over the {}test tokens, divided by the "
                "number of their bytes, where p is the probability that the model gives "
                "to the {}. A token has {:.2f} bytes on average. 1 bit less means twice "
                "the probability for each byte.",
                masked ? "masked " : "", right, *results.texts.bytes_per_token)
          : fmt::format(
                "Bits per byte: the mean of -log2 p over the {}test bytes, where p is the "
                "probability that the model gives to the {}. 8 is a guess among 256 "
                "equally likely bytes; 1 bit less means twice the probability "
                "for each byte.",
                masked ? "masked " : "", right));
  page.table(accuracy_table(results));
  page.heading(masked ? "Position in the window" : "Context");
  const bool tuned = !results.settings.finetune.empty();
  const char* const ranges =
      tuned ? "Sixteen ranges of positions." : "Four points per octave, smoothed.";
  page.figure(
      {.id = "positions",
       .title = masked ? "Loss by position" : "Loss by context",
       .caption =
           masked ? fmt::format("Loss of the masked {}s by their position in windows of the "
                                "longest length "
                                "for which the {} has positions. {}{}",
                                token, entry_noun(results.settings), ranges,
                                bands_over_seeds(results))
                  : fmt::format(
                        "Loss by the number of {0}s that precede the predicted {0} in its "
                        "window, from windows of {1} for which the {2} has positions. {3}{4}",
                        token, tuned ? "the longest length" : "all lengths",
                        entry_noun(results.settings), ranges, bands_over_seeds(results)),
       .spec = position_curves(results)});
  if (std::ranges::any_of(results.runs,
                          [](const RunResult& run) { return run.attention.has_value(); }))
    page.figure(
        {.id = "attention",
         .title = "Attention by distance",
         .caption = fmt::format(
             "The share of the attention weights on keys up to this distance from the "
             "query, in windows of the training length of {} {}: mean over layers, heads and "
             "the queries in the second half of a window.{}",
             results.settings.train_length, length_unit(results.settings),
             bands_over_seeds(results)),
         .spec = attention_curves(results)});
}

// Text of the models, side by side for comparison.
void add_samples(plot::HtmlPage& page, const Results& results) {
  const Task& task = *results.settings.task;
  page.heading("Samples");
  page.paragraph(
      task.predicts == Predicts::next
          ? fmt::format(
                "Each model continues the same part of the test text, at temperature 0.8 "
                "and with seed 1. With the context cut to {} {} it never sees more than "
                "in training.",
                results.settings.train_length, length_unit(results.settings))
      : task.is_masked()
          ? "The most likely byte at each masked place (_) of the same window of the test text."
          : std::string(task.samples));
  std::set<std::string> given;              // prompts
  constexpr std::ptrdiff_t most_open = 10;  // encodings
  if (std::ssize(results.encodings) > most_open)
    page.fold(fmt::format("Samples of {} encodings", results.encodings.size()));
  for (const EncodingResult& one : results.encodings)
    for (const Sample& sample :
         find_by(results.runs, &RunResult::encoding, one.name)->samples) {
      if ((given.empty() || task.has_examples()) && given.insert(sample.prompt).second)
        page.sample(task.has_examples() ? fmt::format("Given, {} {}", sample.context, task.unit)
                                        : "Given",
                    sample.prompt);
      std::string title = one.title;
      if (task.predicts == Predicts::next)
        title += sample.context == results.settings.train_length
                     ? fmt::format(", context cut to {} {}", sample.context,
                                   length_unit(results.settings))
                     : ", whole context";
      else if (!task.is_masked())
        title += fmt::format(
            ", {} {}: {}", sample.context, task.unit,
            sample.text == sample.expected ? "right" : "expected " + sample.expected);
      page.sample(title, sample.text);
    }
  if (std::ssize(results.encodings) > most_open) page.unfold();
}

void add_example_findings(plot::HtmlPage& page, const Results& results) {
  const Task& task = *results.settings.task;
  page.figure({.id = "score",
               .title = capitalized(fmt::format("{} by {}", task.score, task.unit)),
               .caption = fmt::format(
                   "{}. The line marks the largest number of {} in training. "
                   "Bands: {}.",
                   capitalized(std::string(task.what)), task.unit, interval_text(results)),
               .spec = example_curves(results, Answers::whole)});
  page.table(example_table(results));
  if (const plot::Table steps = step_table(results); !steps.rows.empty()) page.table(steps);
  if (const plot::Table depths = depth_table(results); !depths.rows.empty()) page.table(depths);
  if (task.second.empty()) return;
  page.figure({.id = "second",
               .title = capitalized(fmt::format("{} by {}", task.second, task.unit)),
               .caption = "Bands: " + interval_text(results) + ".",
               .spec = example_curves(results, Answers::bytes)});
}

// An example of the task: a short one of letters, or that of the first model with samples.
std::optional<Sample> task_example(const Results& results) {
  const Settings& s = results.settings;
  const Task& task = *s.task;
  if (task.letters.draw) {
    const std::int64_t length =
        std::max(task.shortest, std::min(s.train_length, short_example));
    const Example one = example(task, length, Part::train, 1, 1);
    const auto first = std::find(one.answer.begin(), one.answer.end(), true);
    const auto prompt = static_cast<std::size_t>(first - one.answer.begin());
    return Sample{.context = length,
                  .prompt = internal::printable_lines(one.bytes.substr(0, prompt)),
                  .expected = internal::printable_lines(one.bytes.substr(prompt))};
  }
  for (const RunResult& run : results.runs)
    for (const Sample& sample : run.samples)
      if (!sample.prompt.empty() && !sample.expected.empty()) return sample;
  return std::nullopt;
}

// The task, with an example.
void add_task(plot::HtmlPage& page, const Results& results) {
  const Task& task = *results.settings.task;
  page.heading("The task")
      .paragraph(capitalized(std::string(task.summary)) + ". " + chance_sentence(results) +
                 (task.letters.draw ? fmt::format(" At best: {}, because the prompt determines "
                                                  "the answer.",
                                                  percent_text(task.letters.ceiling))
                                    : ""));
  if (const auto one = task_example(results)) {
    page.sample(fmt::format("Example, {} {}", one->context, task.unit), one->prompt);
    page.sample("Expected answer", one->expected);
  }
}

// The beginning of a page: the answer, the command, links and the encodings that were left out.
plot::HtmlPage start_page(const Results& results, std::vector<plot::Link> links) {
  const Task& task = *results.settings.task;
  const bool examples = task.has_examples();
  const std::string size =
      results.size.empty()
          ? ""
          : fmt::format(" {} of width {}.", counted(results.settings.layers, "layer"),
                        results.settings.width);
  plot::HtmlPage page((examples ? fmt::format("{}: which position encoding?", task.title)
                       : results.settings.finetune.empty()
                           ? "Which position encoding for " + results.texts.source + "?"
                           : fmt::format("{} on {}, by context length",
                                         results.settings.finetune, results.texts.source)) +
                      size);
  for (const std::string& sentence : results.answer) page.lead(sentence);
  page.command(results.command);
  links.push_back({"results.json: all numbers", "results.json"});
  links.push_back(
      {fmt::format("results.csv: the {} as a table", examples ? "scores" : "losses"),
       "results.csv"});
  page.links(links);
  for (const LeftOut& one : results.left_out)
    page.note(fmt::format("Left out: {}. Reason: {}", one.name, one.reason));
  if (examples && !results.encodings.empty()) add_task(page, results);
  return page;
}

std::string finish_page(plot::HtmlPage& page, const Results& results) {
  add_settings(page, results);
  page.footer(fmt::format("gnomon {} lab, {}. All numbers of this page are in results.json.",
                          results.gnomon, results.date));
  return page.html();
}

// The page of a session with several sizes.
std::string page_by_size(const Results& all, const std::vector<Results>& sizes) {
  std::vector<plot::Link> links;
  for (const SizeResult& one : all.sizes)
    links.push_back({"Results of " + size_text(one), one.name + "/index.html"});
  plot::HtmlPage page = start_page(all, links);
  if (all.encodings.empty()) return finish_page(page, all);
  page.table(size_table(all, sizes));
  for (const std::size_t at : std::set<std::size_t>{0, all.rankings.size() - 1})
    page.figure(
        {.id = fmt::format("sizes-{}", at),
         .title = fmt::format("{} by size, at {}", capitalized(all.metric.name),
                              place_text(all, all.rankings[at])),
         .caption = fmt::format("By the number of parameters. Bands: {}.", interval_text(all)),
         .spec = size_curves(all, sizes, at)});
  if (const plot::Table table = size_recommendations(sizes); !table.rows.empty())
    page.heading("Recommendation").table(table);
  return finish_page(page, all);
}

std::string page_of(const Results& results) {
  const bool examples = results.settings.task->has_examples();
  std::vector<plot::Link> links;
  if (!results.size.empty()) links.push_back({"Results of all sizes", "../index.html"});
  plot::HtmlPage page = start_page(results, links);
  if (!results.recommendations.empty()) page.table(recommendation_table(results));
  if (!results.encodings.empty()) {
    (examples ? add_example_findings : add_text_findings)(page, results);
    add_extensions(page, results);
    if (std::ranges::any_of(results.runs,
                            [](const RunResult& run) { return !run.samples.empty(); }))
      add_samples(page, results);
    page.heading("Training");
    page.figure(
        {.id = "training",
         .title = "Loss during training",
         .caption =
             (examples ? "On validation examples of the training lengths."
                       : fmt::format("On the validation text, in windows of {}.",
                                     length_text(results, training_window(results.settings)))) +
             bands_over_seeds(results),
         .spec = training_curves(results)});
    if (!results.cost.empty()) {
      page.heading("Cost");
      page.table(cost_table(results));
    }
    add_encodings(page, results);
  }
  return finish_page(page, results);
}

}  // namespace

std::filesystem::path write_report(const std::filesystem::path& out, const Results& results) {
  const std::vector<Results> sizes = results_by_size(results);
  for (const Results& one : sizes) {
    std::filesystem::create_directories(out / one.size);
    write_report(out / one.size, one);
  }
  io::write_atomically(out / "results.json", to_json(results).dump(1) + "\n");
  io::write_atomically(out / "results.csv", to_csv(results));
  io::write_atomically(out / "index.html",
                       sizes.empty() ? page_of(results) : page_by_size(results, sizes));
  return out / "index.html";
}

}  // namespace gnomon::lab
