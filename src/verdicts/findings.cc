#include "src/verdicts/findings.h"

#include <algorithm>

#include "gnomon/analysis/invariance.h"
#include "gnomon/analysis/order.h"
#include "gnomon/analysis/shift.h"
#include "src/core/text.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::verdicts {

using internal::OrderedJson;

namespace {

// The distance of M(1) p[t] from p[t + 1], for the sinusoidal table.
double shift_residual(const EncodingMatrices& matrices) {
  const auto* sinusoidal = std::get_if<Sinusoidal>(&matrices.encoding);
  if (!sinusoidal) return NAN;
  OwnedTensor<double, 2> matrix({sinusoidal->width, sinusoidal->width});
  analysis::shift_matrix(*sinusoidal, 1, matrix.view);
  return analysis::shift_residual(View<const float, 2>(matrices.table->view),
                                  View<const double, 2>(matrix.view), 1);
}

std::vector<Promise> promises(const Findings& f) {
  using Side = Promise::Side;
  std::vector<Promise> all;
  const model::Properties& properties = model::properties(f.matrices->encoding);
  if (f.matrices->info->enters == model::Place::nowhere)
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
      {"decoding with a cache equals the full pass", f.cache, cache_bound, Side::at_most});
  return all;
}

constexpr std::int64_t few = 16;  // tokens for the measurements of order, shift and cache

analysis::OrderContent content(const Setting& setting) {
  return {.tokens = few, .heads = setting.heads, .head_dim = setting.width / setting.heads};
}

// The change of a token's output if the tokens before it are reversed.
double order_of(const EncodingMatrices& matrices, const Setting& setting) {
  const LayerPlan lowered = matrices.lowered({few, few});
  return analysis::order_sensitivity(content(setting), lowered);
}

void measure_invariance(const EncodingMatrices& matrices, const Setting& setting, Findings& f) {
  // FIRE is symmetric up to its threshold, a quarter of the training length. A page has rows of
  // the square root of the training length.
  analysis::OrderContent longer = content(setting);
  longer.tokens = setting.trained / 2;
  const LayerPlan plan = matrices.lowered({longer.tokens, longer.tokens});
  f.reversal = analysis::reversal_deviation(longer, plan);
  analysis::OrderContent whole = content(setting);
  whole.tokens = std::min(setting.trained, matrices.positions);
  f.whole_reversal =
      analysis::reversal_deviation(whole, matrices.lowered({whole.tokens, whole.tokens}));
  // Two shifts: a shift by whole rows does not change a bias by offset (Swin).
  for (const std::int64_t keys : {matrices.positions, matrices.positions - 1}) {
    const LayerPlan there = matrices.lowered({longer.tokens, keys});
    f.shift =
        std::max(f.shift, analysis::shift_deviation(longer, plan, there, keys - longer.tokens));
  }
  const analysis::OrderContent tokens = content(setting);
  const LayerPlan here = matrices.lowered({few, few});
  std::vector<LayerPlan> lowered;  // a prompt, a piece, and a token
  std::vector<analysis::CachedPiece> pieces;
  std::int64_t keys = 0;
  constexpr std::int64_t counts[] = {9, 6, 1};
  for (const std::int64_t count : counts)
    lowered.push_back(matrices.lowered({count, keys += count}));
  for (std::size_t i = 0; i < lowered.size(); ++i) pieces.push_back({counts[i], lowered[i]});
  f.cache = analysis::cache_deviation(tokens, here, pieces);
}

// The attention weight of the last position without precedent in training, for random contents.
analysis::Beyond beyond_of(const EncodingMatrices& matrices, const Setting& setting) {
  analysis::OrderContent all = content(setting);
  all.tokens = matrices.positions;
  OwnedTensor<double, 2> weights({setting.heads, all.tokens});
  analysis::last_attention_weights(all, matrices.lowered({all.tokens, all.tokens}),
                                   weights.view);
  const bool by_position = model::includes(matrices.info->enters, model::Place::embeddings);
  return analysis::beyond(
      View<const double, 2>(weights.view), View<const float, 2>(matrices.table->view),
      by_position ? analysis::RowsOf::positions : analysis::RowsOf::distances, setting.trained);
}

}  // namespace

bool Findings::kept() const {
  return std::all_of(promises.begin(), promises.end(),
                     [](const Promise& one) { return one.kept(); });
}

Findings examine(const EncodingMatrices& matrices, const Setting& setting) {
  Findings f;
  f.matrices = &matrices;
  f.setting = setting;
  const View<const float, 2> table = matrices.table->view, scores = matrices.scores->view;
  const bool by_position = model::includes(matrices.info->enters, model::Place::embeddings);
  // Embeddings: the row of the position. Others: the scores of the position with all positions.
  f.uniqueness =
      analysis::uniqueness(by_position ? table.slice(0, 0, setting.trained) : scores);
  if (!by_position && table.extent(1) > 0) f.distances = analysis::uniqueness(table);
  f.relativity = analysis::relativity(scores);
  if (matrices.positions == setting.length && setting.length > setting.trained) {
    f.beyond = beyond_of(matrices, setting);
    f.normalised = std::holds_alternative<PiecewiseLogBias>(matrices.lowered({few, few}).bias);
    if (f.normalised) f.beyond->unseen = 0;
  }
  if (table.extent(1) > 0) f.extrapolation = analysis::extrapolation(table, setting.trained);
  f.decay = analysis::decay(analysis::mean_by_distance(scores));
  f.order = order_of(matrices, setting);
  measure_invariance(matrices, setting, f);
  f.shift_residual = shift_residual(matrices);
  f.promises = promises(f);
  return f;
}

OrderedJson as_json(const Findings& f) {
  const EncodingMatrices& s = *f.matrices;
  OrderedJson json{
      {"kind", s.info->name},
      {"specification", model::internal::json_of(s.encoding)},
      {"random_table", s.random},
      {"unique",
       {{"distance", f.uniqueness.distance},
        {"separation", f.uniqueness.separation},
        {"first", f.uniqueness.first},
        {"second", f.uniqueness.second}}},
      {"distances", f.distances ? OrderedJson{{"distance", f.distances->distance},
                                              {"first", f.distances->first},
                                              {"second", f.distances->second}}
                                : OrderedJson()},
      {"relative",
       {{"deviation", f.relativity.deviation}, {"explained", f.relativity.explained}}},
      {"beyond",
       {{"positions", f.extrapolation.past},
        {"excess", f.extrapolation.excess},
        {"jump", f.extrapolation.jump},
        {"novelty", f.extrapolation.novelty},
        {"far", f.beyond ? f.beyond->far : NAN},
        {"unseen", f.beyond ? f.beyond->unseen : NAN},
        {"share", f.beyond ? f.beyond->share() : NAN}}},
      {"nearer",
       {{"rank_correlation", f.decay.rank_correlation},
        {"slope", f.decay.slope},
        {"falling", f.decay.falling}}},
      {"order", f.order},
      {"left", f.reversal},
      {"shift", f.shift},
      {"cache", f.cache}};
  if (!std::isnan(f.shift_residual)) json["shift_residual"] = f.shift_residual;
  json["promises"] = OrderedJson::array();
  for (const Promise& one : f.promises)
    json["promises"].push_back(
        {{"what", one.what}, {"value", one.value}, {"bound", one.bound}, {"kept", one.kept()}});
  return json;
}

std::string shown(double value) {
  if (value == 0) return "0";
  if (std::isinf(value)) return "inf";
  return internal::printed(std::fabs(value) < 1e-3 ? "%.0e" : "%.3f", value);
}

}  // namespace gnomon::verdicts
