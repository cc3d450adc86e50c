// `gnomon explain`: one encoding on a screen.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/cli/tensors.h"
#include "apps/command_line/terminal.h"
#include "gnomon/analysis/decay.h"
#include "src/core/overloaded.h"
#include "src/verdicts/encoding_matrices.h"

namespace gnomon::cli {

using verdicts::depends_on_contents;
using verdicts::encoding_matrices;
using verdicts::EncodingMatrices;
using verdicts::Setting;
namespace {

using model::Place;

constexpr const char* explain_help = R"(Usage: gnomon explain KIND [--json]

Prints an encoding on one screen: its formula, where position enters the
Transformer, its source, released models that use it, its cost, a picture, and
the commands and the page that tell more. KIND: a name, a title or a synonym
(gnomon list).

Costs and picture are those of the usual settings for width 128, 4 heads and a
training length of 128. The letters of the formula are those of the page.

  --json   the same as one JSON document, without the picture

Example: gnomon explain rotary
)";

// The first place of several is that of the drawing.
std::string place_text(const model::EncodingInfo& info) {
  const std::pair<Place, const char*> all[] = {
      {Place::nowhere, "nowhere: attention reads contents only"},
      {Place::embeddings, "a table is added to the token embeddings, before the first layer"},
      {Place::queries_and_keys, "queries and keys are rotated, in each layer"},
      {Place::scores,
       depends_on_contents(info)
           ? "scores depend on positions and contents of the tokens, in each layer"
           : "a bias is added to the scores, in each layer"},
      {Place::keys_and_values,
       "vectors by distance are multiplied by queries, keys or attention weights, in each "
       "layer"},
      {Place::weights, "weights are made in another way than by a softmax, in each layer"}};
  std::string text;
  for (const auto& [place, description] : all)
    if (model::includes(info.enters, place))
      text += (text.empty() ? "" : "; ") + std::string(description);
  return text;
}

// Parameters, operations and memory besides those of attention without position.
struct Cost {
  std::string parameters, time, memory;
};

struct BiasCost {
  std::string time, memory;
};
BiasCost cost_of(const BiasForm& form) {
  return std::visit(
      internal::Overloaded{
          [](const NoBias&) { return BiasCost{}; },
          [](const SlopeBias&) {
            return BiasCost{"one multiplication and one addition for each score",
                            "a slope for each head"};
          },
          [](const StripBias&) {
            return BiasCost{"one addition for each score",
                            "a value for each head and distance"};
          },
          [](const GridBias&) {
            return BiasCost{"one addition for each score",
                            "a value for each head and offset of two cells"};
          },
          [](const AxesBias&) {
            return BiasCost{"one addition for each score and axis",
                            "a value for each axis, head and distance on it"};
          },
          [](const PiecewiseLogBias&) {
            return BiasCost{"one multiplication and one addition for each score",
                            "an offset and a slope for each head and piece of the function"};
          },
          [](const DenseBias&) {
            return BiasCost{"one addition for each score", "a value for each score"};
          }},
      form);
}

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

Cost cost_of(const EncodingMatrices& matrices) {
  const LayerPlan plan = matrices.lowered({matrices.positions, matrices.positions});
  Cost cost;
  std::int64_t count = 0;
  std::string names;
  for (const model::Parameter& one : model::parameters(matrices.encoding)) {
    count += one.rows * one.columns;
    names +=
        fmt::format("{}{} {} x {}", names.empty() ? "" : ", ", one.name, one.rows, one.columns);
  }
  cost.parameters =
      count == 0
          ? "no parameters"
          : fmt::format("{} parameters {} ({})", count,
                        matrices.info->sharing == model::Sharing::each_layer ? "in each layer"
                                                                             : "for all layers",
                        names);
  if (plan.table) {
    cost.time = "a row of the table and C additions for each token";
    cost.memory = "C numbers for each token";
  }
  if (head_angles(plan.query_rotations)) {
    cost.time = joined(cost.time, "cos, sin and a rotation for each pair of a query or key");
    cost.memory = joined(cost.memory, "R/2 frequencies for each head and axis");
  } else if (plan.query_rotary || !plan.query_rotations.empty()) {
    cost.time =
        joined(cost.time, "4 multiplications and 2 additions for each pair of a query or key");
    cost.memory = joined(cost.memory, "cos and sin, R numbers for each position");
  }
  if (plan.token_rotation) {
    cost.time = joined(cost.time, "cos, sin and a rotation for each pair of a query or key");
    cost.memory = joined(cost.memory, "R/2 angles and copies of q and k for each token");
  }
  const auto bias = cost_of(plan.bias);
  cost.time = joined(cost.time, bias.time);
  cost.memory = joined(cost.memory, bias.memory);
  const auto tables =
      plan.relative.keys.size() + plan.relative.queries.size() + plan.relative.values.size();
  if (tables > 0) {
    cost.time = joined(cost.time, fmt::format("up to {}D multiply-adds more for each score",
                                              tables == 1 ? "" : fmt::format("{} ", tables)));
    cost.memory = joined(cost.memory, "vectors of D elements by distance");
  }
  if (const auto& table = plan.relative.contextual) {
    cost.time = joined(cost.time,
                       fmt::format("a sigmoid for each score until {} keys are counted, and {} "
                                   "products of D elements for each query",
                                   table->positions() - 1, table->positions()));
    cost.memory = joined(cost.memory, "a vector of D elements for each position");
  }
  if (plan.stick_breaking)
    cost.time = joined(cost.time, "a sigmoid and a product for each score, until a stick ends"),
    cost.memory = joined(cost.memory, "none");
  if (!plan.relative.projected.empty()) {
    cost.time = joined(cost.time, "K multiply-adds more for each score within the extent");
    cost.memory = joined(cost.memory, "vectors of K elements by distance");
  }
  if (plan.cumulative) {
    cost.time = joined(cost.time, "three additions for each score");
    cost.memory = joined(cost.memory, "a gate for each token and head");
  }
  if (plan.product == PairProduct::channel_gates) {
    cost.time = joined(cost.time, "a gate for each element of a query or key, in blocks");
    cost.memory = joined(cost.memory, "D gates for each token and head");
  }
  if (plan.product == PairProduct::householder) {
    cost.time = joined(cost.time, "2D multiply-adds more for each score, and solves in blocks");
    cost.memory = joined(cost.memory, "D elements and a factor for each token and key head");
  }
  if (plan.key_slopes) {
    cost.time = joined(cost.time, "a multiply-add for each score");
    cost.memory = joined(cost.memory, "a slope for each token and head");
  }
  if (plan.edges) {
    cost.time = joined(cost.time, "P multiply-adds, an exponential and a sum for each score");
    cost.memory = joined(cost.memory, "two vectors of P elements for each token and head");
  }
  if (plan.gated) cost.time = joined(cost.time, "a gate for each query and head");
  if (cost.time.empty()) cost.time = cost.memory = "none";
  return cost;
}

std::string drawing_command(const model::EncodingInfo& info) {
  const char* what = model::includes(info.enters, Place::embeddings)              ? "table"
                     : info.enters == Place::scores && !depends_on_contents(info) ? "bias"
                                                                                  : "attention";
  return fmt::format("gnomon plot {0} {1} -o {1}.html", what, info.name);
}

// A chart of the values in rows of block characters, each column the mean of as many values.
// The numbers at the side are the highest and lowest mean.
constexpr std::size_t chart_rows = 6, chart_columns = 64;
void print_chart(const std::vector<double>& values, std::size_t in_column) {
  std::vector<double> columns(chart_columns);
  for (std::size_t i = 0; i < values.size(); ++i)
    columns[i / in_column] += values[i] / static_cast<double>(in_column);
  const auto [low, high] = std::minmax_element(columns.begin(), columns.end());
  constexpr std::array<const char*, 9> blocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  for (std::size_t r = chart_rows; r-- > 0;) {
    std::string line;
    for (const double value : columns) {
      // Eighths of a row; the lowest value has one, so that every column is visible.
      const double height =
          *high > *low ? 1 + (value - *low) / (*high - *low) * (8 * chart_rows - 1) : 1;
      const double eighths =
          std::clamp(std::round(height) - 8.0 * static_cast<double>(r), 0.0, 8.0);
      line += blocks[static_cast<std::size_t>(eighths)];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{:>9} {}\n",
               r + 1 == chart_rows ? fmt::format("{:.4g}", *high)
               : r == 0            ? fmt::format("{:.4g}", *low)
                                   : "",
               line);
  }
  const std::string first = fmt::format("0-{}", in_column - 1);
  fmt::print("{:>9} {}{:>{}}\n", "", first,
             fmt::format("{}-{}", values.size() - in_column, values.size() - 1),
             chart_columns - first.size());
}

void print_picture(const EncodingMatrices& matrices) {
  const auto scores = analysis::mean_by_distance(View<const float, 2>(matrices.scores->view));
  const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
  if (*low == *high) {
    print_wrapped(model::token_terms({matrices.encoding}).empty()
                      ? "all scores of equal contents are equal"
                      : "none, because scores depend on what the tokens hold",
                  "Picture   ", std::string(10, ' '));
    return;
  }
  const Place enters = matrices.info->enters;
  const char* what =
      model::includes(enters, Place::embeddings) ? "product of two rows of the table"
      : enters == Place::queries_and_keys        ? "score of a query and a key of ones"
      : enters == Place::scores                  ? "bias of a key, mean over heads"
                                : "terms of position in the score of a query and a "
                                  "key of ones, mean over heads";
  static_assert(Setting{}.trained % chart_columns == 0);
  const std::size_t in_column = scores.size() / chart_columns;
  print_wrapped(fmt::format("{}, by distance to an earlier position; "
                            "a column is the mean of {} distances{}",
                            what, in_column,
                            matrices.random ? "; random parameters, training decides" : ""),
                "Picture   ", std::string(10, ' '));
  print_chart(scores, in_column);
}

struct ExplainOptions {
  std::string kind;
  bool json = false;
};

int run_explain(const ExplainOptions& o) {
  const EncodingMatrices matrices = encoding_matrices(o.kind, Setting{});
  const model::EncodingInfo& info = *matrices.info;
  const Cost cost = cost_of(matrices);
  if (o.json) {
    print_json({{"name", info.name},
                {"title", info.title},
                {"summary", info.summary},
                {"formula", info.formula},
                {"enters", model::name(info.enters)},
                {"source", info.source},
                {"used_by", info.users},
                {"parameters", cost.parameters},
                {"time", cost.time},
                {"memory", cost.memory},
                {"plot", drawing_command(info)},
                {"page", fmt::format("docs/{}", info.page)}});
    return 0;
  }
  const std::string indent(10, ' ');
  const auto line = [&](std::string_view name, std::string_view text) {
    print_wrapped(text, fmt::format("{:<10}", name), indent);
  };
  fmt::print("{} ({})\n", info.title, info.name);
  print_wrapped(info.summary, "", "");
  fmt::print("\n");
  std::string_view formula = info.formula;
  for (const char* name = "Formula"; !formula.empty(); name = "") {
    const std::size_t end = std::min(formula.find('\n'), formula.size());
    print_wrapped(formula.substr(0, end), fmt::format("{:<10}", name), std::string(14, ' '));
    formula.remove_prefix(std::min(end + 1, formula.size()));
  }
  line("Position", place_text(info));
  line("Source", info.source);
  line("Used by",
       info.users.empty() ? "no released model in the list of this program" : info.users);
  line("Cost", cost.parameters);
  line("", "time: " + cost.time);
  line("", "memory: " + cost.memory);
  print_picture(matrices);
  line("Draw", drawing_command(info));
  line("Check", fmt::format("gnomon check {}", info.name));
  line("Page", fmt::format("docs/{}", info.page));
  return 0;
}

}  // namespace

Command explain_command() {
  Command command("explain", explain_help);
  auto o = std::make_shared<ExplainOptions>();
  command.required("KIND", &o->kind);
  command.flag("--json", &o->json);
  command.run = [o] { return run_explain(*o); };
  return command;
}

}  // namespace gnomon::cli
