#include "apps/lab/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <vector>

#include "apps/lab/curves.h"
#include "apps/lab/report_tables.h"
#include "apps/lab/results.h"
#include "apps/lab/task_results.h"
#include "apps/lab/tasks.h"
#include "gnomon/io/file.h"
#include "gnomon/plot/page.h"
#include "gnomon/plot/pictures.h"

namespace gnomon::lab {
namespace {

void add_extensions(plot::HtmlPage& page, const Json& results) {
  if (results.at("extensions").empty()) return;
  page.heading("Longer context after training");
  for (const Json& one : results.at("extensions")) {
    page.figure({.id = "extension-" + text(one.at("name")),
                 .title = text(one.at("title")) + ", longer context",
                 .caption = "The trained model with scaled frequencies or without positions, "
                            "before and after a short fine-tune.",
                 .spec = extension_curves(one)});
    page.table(extension_table(one));
  }
}

plot::Cells steps(const char* title, const Json& picked, const char* key) {
  return {.title = title, .labels = {}, .first = 0, .step = picked.at(key).get<double>()};
}

plot::Matrix matrix(const Json& rows) {
  plot::Matrix matrix;
  matrix.rows = static_cast<std::int64_t>(rows.size());
  for (const Json& row : rows) {
    matrix.columns = static_cast<std::int64_t>(row.size());
    for (const Json& value : row) matrix.values.push_back(value);
  }
  return matrix;
}

// Adds the charts of a run's "picture".
void add_pictures(plot::HtmlPage& page, const Json& picture, std::size_t name) {
  if (picture.contains("table"))
    page.figure({.id = fmt::format("table-{}", name),
                 .title = "Position table",
                 .caption = "The vectors added to the embeddings, one row per position.",
                 .spec = plot::table_picture(
                     {.values = matrix(picture["table"]["values"]),
                      .rows = steps("position", picture["table"], "row_step"),
                      .columns = steps("channel", picture["table"], "column_step")})});
  if (picture.contains("similarity"))
    page.figure({.id = fmt::format("similarity-{}", name),
                 .title = "Similarity of positions",
                 .caption =
                     "Cosine of two rows of the table. Bands along the diagonal show that near "
                     "positions have similar rows.",
                 .spec = plot::similarity_picture(
                     {.values = matrix(picture["similarity"]["values"]),
                      .positions = steps("position", picture["similarity"], "row_step"),
                      .title = "cosine",
                      .range = plot::Range{-1, 1}})});
  if (picture.contains("rotary"))
    page.figure({.id = fmt::format("rotary-{}", name),
                 .title = "Score by distance",
                 .caption = "Score of a query and a key of ones, relative to distance 0.",
                 .spec = plot::rotary_picture({.distances = picture["rotary"]["distances"],
                                               .all_ones = picture["rotary"]["scores"]})});
  if (picture.contains("bias"))
    page.figure({.id = fmt::format("bias-{}", name),
                 .title = "Bias by distance",
                 .caption = "Bias of each head by distance in bytes.",
                 .spec = plot::bias_picture({.distances = picture["bias"]["distances"],
                                             .values = matrix(picture["bias"]["heads"])})});
}

void add_encodings(plot::HtmlPage& page, const Json& results) {
  page.heading("The trained encodings");
  std::size_t number = 0;
  for (const Json& one : results.at("encodings")) {
    ++number;
    page.subheading(text(one.at("title")));
    std::string summary = text(one.at("summary"));
    summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
    page.paragraph(fmt::format("{}. Where position enters: {}. {}.", summary,
                               text(one.at("enters")), text(one.at("source"))));
    for (const Json& run : results.at("runs"))
      if (run.at("encoding") == one.at("name")) {
        add_pictures(page, run.at("picture"), number);
        break;
      }
    page.note(fmt::format("`{}`", one.at("specification").dump()));
  }
}

void add_settings(plot::HtmlPage& page, const Json& results) {
  const Json& s = results.at("settings");
  const auto number = [&](const char* key) { return grouped(s.at(key)); };
  page.heading("Settings");
  const TaskInfo& task = find_task(text(s.at("task")));
  page.definitions(
      {{"Task", std::string(task.summary)},
       {"Metric",
        text(results.at("metric").at("name")) + ": " + text(results.at("metric").at("what"))},
       {"Chance", text(results.at("metric").at("chance"))},
       {"Model",
        fmt::format("byte-level {} Transformer, pre-norm, GELU: {} layers, width {}, {} heads",
                    task.task == Task::masked ? "bidirectional" : "causal", number("layers"),
                    number("width"), number("heads"))},
       {"Training",
        fmt::format("{} steps of {} {}{} {}; AdamW at {:g}, warm-up and cosine; the same "
                    "weights and batches for every encoding",
                    number("steps"), number("batch"),
                    has_examples(task.task) ? "examples of 1 to " : "windows of ",
                    number("train_length"), task.unit, s.at("learning_rate").get<double>())},
       {"Seeds", number("seeds")},
       {"Data", text(results.at("texts").at("source")) + ", " +
                    text(results.at("texts").at("split"))}});
  plot::Table texts;
  texts.columns = {{"text"}, {"part"}, {"bytes", plot::Align::number}};
  for (const char* part : {"train", "validation", "test"})
    for (const Json& one : results.at("texts").at(part))
      texts.rows.push_back({text(one.at("name")), part, grouped(one.at("bytes"))});
  if (!texts.rows.empty()) page.table(texts);
  const Json& machine = results.at("machine");
  page.heading("Machine and timings");
  page.definitions({{"Processor", fmt::format("{}, {} cores", text(machine.at("processor")),
                                              machine.at("cores").get<int>())},
                    {"Device", text(machine.at("device")) + ", " + text(machine.at("isa"))},
                    {"LibTorch", text(machine.at("libtorch"))},
                    {"Time since the last start", duration_in_words(results.at("seconds"))}});
  if (!results.at("encodings").empty()) page.table(timings_table(results));
}

void add_text_findings(plot::HtmlPage& page, const Json& results) {
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
  page.heading("Position in the window");
  page.figure(
      {.id = "positions",
       .title = "Loss by position",
       .caption =
           "Mean over all windows of the longest length for which the encoding has positions.",
       .spec = position_curves(results)});
}

void add_example_findings(plot::HtmlPage& page, const Json& results) {
  page.figure({.id = "whole",
               .title = "Whole answers by length",
               .caption = "The share of unseen examples whose answer is right in every byte. "
                          "The line marks the longest length in training.",
               .spec = example_curves(results, Answers::whole)});
  page.table(example_table(results));
  page.heading("Right bytes");
  page.figure({.id = "bytes",
               .title = "Right bytes by length",
               .caption =
                   "The share of right bytes in the answers, each predicted after the right "
                   "previous bytes.",
               .spec = example_curves(results, Answers::bytes)});
}

std::string page_of(const Json& results) {
  const TaskInfo& task = find_task(text(results.at("settings").at("task")));
  const bool examples = has_examples(task.task);
  plot::HtmlPage page(examples ? fmt::format("{}: which position encoding?", task.title)
                               : "Which position encoding for " +
                                     text(results.at("texts").at("source")) + "?");
  for (const Json& sentence : results.at("answer")) page.lead(text(sentence));
  for (const Json& one : results.at("left_out"))
    page.note(
        fmt::format("Left out: {}. Reason: {}", text(one.at("name")), text(one.at("reason"))));
  if (!results.at("encodings").empty()) {
    (examples ? add_example_findings : add_text_findings)(page, results);
    add_extensions(page, results);
    page.heading("Training");
    page.figure({.id = "training",
                 .title = "Loss during training",
                 .caption = examples ? "On validation examples of the training lengths."
                                     : "On the validation text, at the training length.",
                 .spec = training_curves(results)});
    if (!results.at("cost").empty()) {
      page.heading("Cost");
      page.table(cost_table(results.at("cost")));
    }
    add_encodings(page, results);
  }
  add_settings(page, results);
  page.footer(fmt::format("gnomon {} lab, {}. All numbers of this page are in results.json.",
                          text(results.at("gnomon")), text(results.at("date"))));
  return page.html();
}

}  // namespace

std::filesystem::path write_report(const std::filesystem::path& out, const Json& results) {
  io::write_aside(out / "results.json", results.dump(1) + "\n");
  io::write_aside(out / "index.html", page_of(results));
  return out / "index.html";
}

}  // namespace gnomon::lab
