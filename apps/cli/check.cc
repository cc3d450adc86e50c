// `gnomon check`: properties of encodings, as numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/cli/subject.h"
#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/invariance.h"
#include "gnomon/analysis/order.h"
#include "gnomon/analysis/properties.h"
#include "gnomon/analysis/shift.h"
#include "gnomon/error.h"
#include "src/model/encoding_json.h"

namespace gnomon::cli {
namespace {

constexpr const char* help = R"(Usage: gnomon check [KIND] [options]

Prints properties of an encoding (KIND; default: all) as numbers:

  unique    smallest distance between two positions; 0: equal
  relative  deviation of scores at equal distance; 0: depends on distance only
  beyond    rows beyond the training length, compared with the training rows:
            jump (largest step), novelty (largest distance to a training row);
            up to 1: nothing new; none: no rows beyond the training length
  nearer    rank correlation of score and distance; -1: nearer keys score higher
  order     change of an output if earlier tokens are reversed; 0: none
  left      change of outputs if all tokens are reversed; 0: none
  shift     change of scores if all positions are shifted; 0: none
  cache     difference of decoding with a cache from the full pass; 0: equal

The definition of an encoding fixes some of these properties: order, left and
shift of all encodings, relative if shift is 0, nearer of ALiBi and KERPLE. They
are tested: exit status 1 if one fails. Attention is bidirectional over 16
tokens (left, shift: half of N tokens); for cache, it is causal.

  --width C  --heads H  --trained N  --length N  --json    (128, 4, 128, 512)

Example: gnomon check rotary
)";

struct Options {
  std::string kind;
  Setting setting;
  bool json = false;
};

// A property that the definition of an encoding guarantees, with its bound.
struct Promise {
  std::string what;
  double value, bound;
  enum class Side { at_most = 1, at_least } side;

  bool kept() const { return side == Side::at_most ? value <= bound : value >= bound; }
};

struct Findings {
  const Subject* subject;
  analysis::Uniqueness uniqueness;
  analysis::Relativity relativity;
  analysis::Extrapolation extrapolation;
  analysis::Decay decay;
  double order = 0, reversal = 0, shift = 0, cache = 0;
  double shift_residual = NAN;  // of M(1); sinusoidal only
  std::vector<Promise> promises;
};

// The distance of M(1) p[t] from p[t + 1], for the sinusoidal table.
double shift_residual(const Subject& subject) {
  const auto* sinusoidal = std::get_if<Sinusoidal>(&subject.encoding);
  if (!sinusoidal) return NAN;
  Tensor<double, 2> matrix({sinusoidal->width, sinusoidal->width});
  analysis::shift_matrix(*sinusoidal, 1, matrix.view);
  return analysis::shift_residual(View<const float, 2>(subject.table->view),
                                  View<const double, 2>(matrix.view), 1);
}

std::vector<Promise> promises(const Findings& f) {
  using Side = Promise::Side;
  constexpr double rounding = 1e-5, visible = 1e-3;
  std::vector<Promise> all;
  const model::Properties& properties = model::properties(f.subject->encoding);
  if (f.subject->info->enters == model::Place::nowhere)
    all.push_back({"the order of tokens has no effect", f.order, rounding, Side::at_most});
  else
    all.push_back({"the order of tokens has an effect", f.order, visible, Side::at_least});
  if (properties.reversal == model::Effect::none)
    all.push_back({"reversal has no effect", f.reversal, rounding, Side::at_most});
  else
    all.push_back({"reversal has an effect", f.reversal, visible, Side::at_least});
  if (properties.shift == model::Effect::none) {
    all.push_back({"scores depend on the distance only", f.relativity.deviation, rounding,
                   Side::at_most});
    all.push_back(
        {"a shift of all positions does not change scores", f.shift, rounding, Side::at_most});
  } else {
    all.push_back(
        {"a shift of all positions changes scores", f.shift, visible, Side::at_least});
  }
  if (properties.decay == model::Decay::monotonic)
    all.push_back(
        {"nearer keys score higher", f.decay.rank_correlation, -1 + rounding, Side::at_most});
  if (!std::isnan(f.shift_residual))
    all.push_back(
        {"M(1) maps every row to the next row", f.shift_residual, rounding, Side::at_most});
  all.push_back(
      {"decoding with a cache equals the full pass", f.cache, 0x1p-16, Side::at_most});
  return all;
}

constexpr std::int64_t few = 16;  // tokens for the measurements of order, shift and cache

analysis::OrderContent content(const Setting& setting) {
  return {.tokens = few, .heads = setting.heads, .head_dim = setting.width / setting.heads};
}

// The change of a token's output if the tokens before it are reversed.
double order_of(const Subject& subject, const Setting& setting) {
  const LayerPlan lowered = subject.lowered({few, few});
  return analysis::order_sensitivity(content(setting), lowered);
}

void measure_invariance(const Subject& subject, const Setting& setting, Findings& f) {
  // FIRE is symmetric up to its threshold, a quarter of the training length. A page has rows of
  // the square root of the training length.
  analysis::OrderContent longer = content(setting);
  longer.tokens = setting.trained / 2;
  const LayerPlan plan = subject.lowered({longer.tokens, longer.tokens});
  f.reversal = analysis::reversal_deviation(longer, plan);
  // Two shifts: a shift by whole rows does not change a bias by offset (Swin).
  for (const std::int64_t keys : {subject.positions, subject.positions - 1}) {
    const LayerPlan there = subject.lowered({longer.tokens, keys});
    f.shift =
        std::max(f.shift, analysis::shift_deviation(longer, plan, there, keys - longer.tokens));
  }
  const analysis::OrderContent tokens = content(setting);
  const LayerPlan here = subject.lowered({few, few});
  std::vector<LayerPlan> lowered;  // a prompt, a piece, and a token
  std::vector<analysis::CachedPiece> pieces;
  std::int64_t keys = 0;
  constexpr std::int64_t counts[] = {9, 6, 1};
  for (const std::int64_t count : counts)
    lowered.push_back(subject.lowered({count, keys += count}));
  for (std::size_t i = 0; i < lowered.size(); ++i) pieces.push_back({counts[i], lowered[i]});
  f.cache = analysis::cache_deviation(tokens, here, pieces);
}

Findings examine(const Subject& subject, const Setting& setting) {
  Findings f;
  f.subject = &subject;
  const View<const float, 2> table = subject.table->view, scores = subject.scores->view;
  const bool by_position = model::includes(subject.info->enters, model::Place::embeddings);
  // Embeddings: the row of the position. Others: the scores of the position with all positions.
  f.uniqueness =
      analysis::uniqueness(by_position ? table.slice(0, 0, setting.trained) : scores);
  f.relativity = analysis::relativity(scores);
  if (table.extent(1) > 0) f.extrapolation = analysis::extrapolation(table, setting.trained);
  f.decay = analysis::decay(analysis::mean_by_distance(scores));
  f.order = order_of(subject, setting);
  measure_invariance(subject, setting, f);
  f.shift_residual = shift_residual(subject);
  f.promises = promises(f);
  return f;
}

Json as_json(const Findings& f) {
  const Subject& s = *f.subject;
  Json json{{"kind", s.info->name},
            {"specification", model::internal::json_of(s.encoding)},
            {"random_table", s.random},
            {"unique",
             {{"distance", f.uniqueness.distance},
              {"separation", f.uniqueness.separation},
              {"first", f.uniqueness.first},
              {"second", f.uniqueness.second}}},
            {"relative",
             {{"deviation", f.relativity.deviation}, {"explained", f.relativity.explained}}},
            {"beyond",
             {{"positions", f.extrapolation.past},
              {"excess", f.extrapolation.excess},
              {"jump", f.extrapolation.jump},
              {"novelty", f.extrapolation.novelty}}},
            {"nearer",
             {{"rank_correlation", f.decay.rank_correlation},
              {"slope", f.decay.slope},
              {"falling", f.decay.falling}}},
            {"order", f.order},
            {"left", f.reversal},
            {"shift", f.shift},
            {"cache", f.cache}};
  if (!std::isnan(f.shift_residual)) json["shift_residual"] = f.shift_residual;
  json["promises"] = Json::array();
  for (const Promise& one : f.promises)
    json["promises"].push_back(
        {{"what", one.what}, {"value", one.value}, {"bound", one.bound}, {"kept", one.kept()}});
  return json;
}

std::string shown(double value) {
  if (std::isinf(value)) return "inf";
  if (value != 0 && std::fabs(value) < 1e-3) return fmt::format("{:.0e}", value);
  return fmt::format("{:.3f}", value);
}

void print_line(const std::array<std::string, 10>& cells) {
  fmt::print("{:<21}{:>7}", cells[0], cells[1]);
  for (std::size_t i = 2; i < cells.size(); ++i) fmt::print("{:>{}}", cells[i], i < 5 ? 9 : 8);
  fmt::print("\n");
}

void print_head(const Setting& s) {
  fmt::print("Width {}, {} heads, training length {}, {} positions measured.\n\n", s.width,
             s.heads, s.trained, s.length);
  print_line(
      {"", "unique", "relative", "beyond", "", "nearer", "order", "left", "shift", "cache"});
  print_line({"", "", "", "jump", "novelty", "", "", "", "", ""});
}

void print_row(const Findings& f) {
  const bool past = f.extrapolation.past > 0;
  print_line({std::string(f.subject->info->name) + (f.subject->random ? " *" : ""),
              shown(f.uniqueness.separation), shown(f.relativity.deviation),
              past ? shown(f.extrapolation.jump) : "none",
              past ? shown(f.extrapolation.novelty) : "none", shown(f.decay.rank_correlation),
              shown(f.order), shown(f.reversal), shown(f.shift), shown(f.cache)});
}

int run(const Options& o) {
  const Setting& s = o.setting;
  if (s.heads < 1) refuse("check", "--heads must be at least 1", s.heads);
  if (s.width < 4 || s.width % (2 * s.heads) || s.width > 65536)
    refuse("check", "--width must be a multiple of 2 * --heads and 4 to 65536", s.width);
  if (s.trained < 16 || s.trained > 4096)
    refuse("check", "--trained must be 16 to 4096", s.trained);
  if (s.length < s.trained || s.length > 65536)
    refuse("check", "--length must be at least --trained, and at most 65536", s.length);
  std::vector<std::string> names;
  if (o.kind.empty())
    for (const auto& one : model::encodings()) names.emplace_back(one.name);
  else
    names.push_back(o.kind);

  std::vector<Subject> subjects;
  for (const std::string& name : names) subjects.push_back(make_subject(name, s));
  std::vector<Findings> all;
  for (const Subject& subject : subjects) all.push_back(examine(subject, s));

  bool kept = true, random = false;
  Json json = Json::array();
  for (const Findings& f : all) {
    json.push_back(as_json(f));
    random = random || f.subject->random;
    for (const Promise& one : f.promises) kept = kept && one.kept();
  }
  if (o.json) {
    print_json({{"width", s.width},
                {"heads", s.heads},
                {"trained", s.trained},
                {"length", s.length},
                {"encodings", json},
                {"kept", kept}});
    return kept ? 0 : 1;
  }
  print_head(s);
  for (const Findings& f : all) print_row(f);
  if (random) fmt::print("* random values instead of a trained table\n");
  fmt::print("\n");
  for (const Findings& f : all)
    for (const Promise& one : f.promises)
      fmt::print("{:<7}{}: {} ({} {} {})\n", one.kept() ? "ok" : "FAILED",
                 f.subject->info->title, one.what, shown(one.value),
                 one.side == Promise::Side::at_most ? "at most" : "at least", shown(one.bound));
  fmt::print("\n`gnomon check --help` describes the columns.\n");
  return kept ? 0 : 1;
}

}  // namespace

Command check_command() {
  Command command("check", help);
  auto o = std::make_shared<Options>();
  command.option("KIND", &o->kind);
  command.option("--width", &o->setting.width);
  command.option("--heads", &o->setting.heads);
  command.option("--trained", &o->setting.trained);
  command.option("--length", &o->setting.length);
  command.flag("--json", &o->json);
  command.run = [o] { return run(*o); };
  return command;
}

}  // namespace gnomon::cli
