#include "apps/lab/report.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "apps/lab/curves.h"
#include "apps/lab/report_tables.h"
#include "apps/lab/results_csv.h"
#include "apps/lab/results_json.h"
#include "apps/lab/task_results.h"
#include "apps/lab/tasks.h"
#include "apps/lab/words.h"
#include "gnomon/io/file.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/page.h"
#include "gnomon/plot/pictures.h"

namespace gnomon::lab {
namespace {

void add_extensions(plot::HtmlPage& page, const Results& results) {
  if (results.extensions.empty()) return;
  page.heading("Longer context after training");
  for (const ExtensionResult& one : results.extensions) {
    page.figure({.id = "extension-" + one.name,
                 .title = one.title + ", longer context",
                 .caption = "The trained model with scaled frequencies or without positions, "
                            "before and after a short fine-tune.",
                 .spec = extension_curves(one)});
    page.table(extension_table(one));
  }
}

plot::Cells steps(const char* title, std::int64_t step) {
  return {.title = title, .labels = {}, .first = 0, .step = static_cast<double>(step)};
}

plot::Matrix matrix(const std::vector<std::vector<double>>& rows) {
  plot::Matrix matrix;
  matrix.rows = std::ssize(rows);
  for (const std::vector<double>& row : rows) {
    matrix.columns = std::ssize(row);
    matrix.values.insert(matrix.values.end(), row.begin(), row.end());
  }
  return matrix;
}

// If a picture leaves out positions, distances in its caption count cells of the picture.
std::string step_note(std::int64_t step) {
  return step == 1 ? std::string()
                   : fmt::format(
                         " The picture has every {}th position, and distances here count "
                         "its cells.",
                         step);
}

void add_pictures(plot::HtmlPage& page, const Picture& picture, std::size_t name) {
  if (picture.table)
    page.figure({.id = fmt::format("table-{}", name),
                 .title = "Position table",
                 .caption = "The vectors added to the embeddings, one row per position. " +
                            plot::table_caption(matrix(picture.table->values)),
                 .spec = plot::table_picture(
                     {.values = matrix(picture.table->values),
                      .rows = steps("position", picture.table->row_step),
                      .columns = steps("channel", picture.table->column_step)})});
  if (picture.similarity)
    page.figure({.id = fmt::format("similarity-{}", name),
                 .title = "Similarity of positions",
                 .caption = "Cosine of two rows of the table. " +
                            plot::similarity_caption(matrix(picture.similarity->values)) +
                            step_note(picture.similarity->row_step),
                 .spec = plot::similarity_picture(
                     {.values = matrix(picture.similarity->values),
                      .positions = steps("position", picture.similarity->row_step),
                      .title = "cosine"})});
  if (picture.rotary) {
    const std::vector<double> distances(picture.rotary->distances.begin(),
                                        picture.rotary->distances.end());
    page.figure(
        {.id = fmt::format("rotary-{}", name),
         .title = "Score by distance",
         .caption = "Score of a query and a key of ones, relative to distance 0. " +
                    plot::curve_caption("All elements 1", distances, picture.rotary->scores),
         .spec = plot::rotary_picture(
             {.distances = distances, .all_ones = picture.rotary->scores})});
  }
  if (picture.bias) {
    const plot::BiasPicture bias{
        .distances = {picture.bias->distances.begin(), picture.bias->distances.end()},
        .values = matrix(picture.bias->heads)};
    page.figure({.id = fmt::format("bias-{}", name),
                 .title = "Bias by distance",
                 .caption = "Bias by distance in bytes. " + plot::bias_caption(bias),
                 .spec = plot::bias_picture(bias)});
  }
}

void add_maps(plot::HtmlPage& page, const TrainedAttention& attention, std::size_t name) {
  for (const AttentionMap& map : attention.maps)
    page.figure(
        {.id = fmt::format("attention-{}-{}", name, map.layer),
         .title =
             fmt::format("Attention weights, layer {}, head {}", map.layer + 1, map.head + 1),
         .caption = fmt::format("Rows are queries, columns are keys, for {} bytes of the "
                                "test text. The head is the one of this layer with the "
                                "lowest entropy of its weights.",
                                map.weights.size()),
         .spec = plot::heatmap({.values = matrix(map.weights),
                                .rows = steps("query", 1),
                                .columns = steps("key", 1),
                                .title = "weight",
                                .range = plot::Range{0, 1},
                                .aspect = 1})});
}

void add_encodings(plot::HtmlPage& page, const Results& results) {
  page.heading("The trained encodings");
  std::size_t number = 0;
  for (const EncodingResult& one : results.encodings) {
    ++number;
    page.subheading(one.title);
    page.paragraph(fmt::format("{}. Where position enters: {}. {}.", capitalized(one.summary),
                               one.enters, one.source));
    for (const RunResult& run : results.runs)
      if (run.encoding == one.name) {
        add_pictures(page, run.picture, number);
        if (run.attention) add_maps(page, *run.attention, number);
        break;
      }
    page.note(fmt::format("`{}`", one.specification.dump()));
  }
}

void add_settings(plot::HtmlPage& page, const Results& results) {
  const Settings& s = results.settings;
  page.heading("Settings");
  const TaskInfo& task = find_task(s.task);
  page.definitions(
      {{"Task", std::string(task.summary)},
       {"Metric", results.metric.name + ": " + results.metric.what},
       {"Without a model", results.metric.chance},
       {"Model",
        fmt::format("{}, pre-norm, GELU: {} layers, width {}, {} heads",
                    !task.model_name.empty()    ? task.model_name
                    : task.task == Task::masked ? "byte-level bidirectional Transformer"
                                                : "byte-level causal Transformer",
                    grouped(s.layers), grouped(s.width), grouped(s.heads))},
       {"Training", fmt::format("{} of {} {}{} {}; AdamW at {:g}, warm-up and cosine; the same "
                                "weights and batches for every encoding",
                                counted(s.steps, "step"), grouped(s.batch),
                                has_examples(task.task) ? "examples of 1 to " : "windows of ",
                                grouped(s.train_length), task.unit, s.learning_rate)},
       {"Seeds", grouped(s.seeds)},
       {"Data", results.texts.source + ", " + results.texts.split}});
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
           "Loss on the same test bytes at every context length; lower is better. "
           "Dashed: the context is cut to the training length. If the solid line is above "
           "the dashed line, the longer context increases the loss; if it is below, the "
           "longer context decreases the loss.",
       .spec = length_curves(results)});
  page.table(summary_table(results));
  page.paragraph(
      "Bits per byte: the mean of -log2 p over the test bytes, where p is the probability that "
      "the model gives to the byte that follows. 8 is a guess among 256 equally likely bytes; "
      "1 bit less means twice the probability for each byte.");
  page.table(accuracy_table(results));
  const bool masked = task_of(results.settings) == Task::masked;
  page.heading(masked ? "Position in the window" : "Context");
  page.figure(
      {.id = "positions",
       .title = masked ? "Loss by position" : "Loss by context",
       .caption =
           masked
               ? "Loss of the masked bytes by their position in windows of the longest length "
                 "for which the encoding has positions. Four points per octave, smoothed."
               : "Loss by the number of bytes that precede the predicted byte in its window, "
                 "from windows of all lengths for which the encoding has positions. Four "
                 "points per octave, smoothed.",
       .spec = position_curves(results)});
  if (std::any_of(results.runs.begin(), results.runs.end(),
                  [](const RunResult& run) { return run.attention.has_value(); }))
    page.figure({.id = "attention",
                 .title = "Attention by distance",
                 .caption = fmt::format(
                     "The share of the attention weights on keys up to this distance from the "
                     "query, in windows of the training length of {} bytes: mean over layers, "
                     "heads and the queries in the second half of a window.",
                     results.settings.train_length),
                 .spec = attention_curves(results)});
}

// Text of the models, side by side for comparison.
void add_samples(plot::HtmlPage& page, const Results& results) {
  const TaskInfo& task = find_task(results.settings.task);
  page.heading("Samples");
  page.paragraph(
      task.task == Task::text
          ? fmt::format("Each model continues the same bytes of the test text, at temperature "
                        "0.8 and with seed 1. With the context cut to {} bytes it never sees "
                        "more than in training.",
                        results.settings.train_length)
      : task.task == Task::masked
          ? "The most likely byte at each masked place (_) of the same window of the test text."
          : "The answer of each model to the same unseen example, by greedy decoding.");
  bool shown = false;
  constexpr std::ptrdiff_t most_open = 10;  // encodings
  if (std::ssize(results.encodings) > most_open)
    page.fold(fmt::format("Samples of {} encodings", results.encodings.size()));
  for (const EncodingResult& one : results.encodings)
    for (const RunResult& run : results.runs) {
      if (run.encoding != one.name) continue;
      for (const Sample& sample : run.samples) {
        if (!shown)
          page.sample(sample.expected.empty() ? "Given" : "Given, at the training length",
                      sample.prompt);
        shown = true;
        std::string title = one.title;
        if (task.task == Task::text)
          title += sample.context == results.settings.train_length
                       ? fmt::format(", context cut to {} bytes", sample.context)
                       : ", whole context";
        else if (task.task != Task::masked)
          title += fmt::format(
              ", {} {}: {}", sample.context, task.unit,
              sample.text == sample.expected ? "right" : "expected " + sample.expected);
        page.sample(title, sample.text);
      }
      break;
    }
  if (std::ssize(results.encodings) > most_open) page.unfold();
}

void add_example_findings(plot::HtmlPage& page, const Results& results) {
  const TaskInfo& task = find_task(results.settings.task);
  page.figure(
      {.id = "score",
       .title = capitalized(fmt::format("{} by {}", task.score, task.unit)),
       .caption = fmt::format("{}. The line marks the largest number of {} in training.",
                              capitalized(std::string(task.what)), task.unit),
       .spec = example_curves(results, Answers::whole)});
  page.table(example_table(results));
  if (task.second.empty()) return;
  page.figure({.id = "second",
               .title = capitalized(fmt::format("{} by {}", task.second, task.unit)),
               .caption = "",
               .spec = example_curves(results, Answers::bytes)});
}

std::string page_of(const Results& results) {
  const TaskInfo& task = find_task(results.settings.task);
  const bool examples = has_examples(task.task);
  plot::HtmlPage page(examples ? fmt::format("{}: which position encoding?", task.title)
                               : "Which position encoding for " + results.texts.source + "?");
  for (const std::string& sentence : results.answer) page.lead(sentence);
  page.command(results.command);
  page.links({{"results.json: all numbers", "results.json"},
              {"results.csv: the losses as a table", "results.csv"}});
  for (const LeftOut& one : results.left_out)
    page.note(fmt::format("Left out: {}. Reason: {}", one.name, one.reason));
  if (!results.encodings.empty()) {
    (examples ? add_example_findings : add_text_findings)(page, results);
    add_extensions(page, results);
    if (std::any_of(results.runs.begin(), results.runs.end(),
                    [](const RunResult& run) { return !run.samples.empty(); }))
      add_samples(page, results);
    page.heading("Training");
    page.figure({.id = "training",
                 .title = "Loss during training",
                 .caption = examples ? "On validation examples of the training lengths."
                                     : "On the validation text, at the training length.",
                 .spec = training_curves(results)});
    if (!results.cost.empty()) {
      page.heading("Cost");
      page.table(cost_table(results.cost));
    }
    add_encodings(page, results);
  }
  add_settings(page, results);
  page.footer(fmt::format("gnomon {} lab, {}. All numbers of this page are in results.json.",
                          results.gnomon, results.date));
  return page.html();
}

}  // namespace

std::filesystem::path write_report(const std::filesystem::path& out, const Results& results) {
  io::write_aside(out / "results.json", to_json(results).dump(1) + "\n");
  io::write_aside(out / "results.csv", to_csv(results));
  io::write_aside(out / "index.html", page_of(results));
  return out / "index.html";
}

}  // namespace gnomon::lab
