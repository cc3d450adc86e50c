#include "src/verdicts/verdicts.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "src/core/text.h"

namespace gnomon::verdicts {
namespace {

using internal::printed;

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(std::string text) { return text; }

// The text with each {} replaced by the next argument.
template <typename... Args>
std::string filled(std::string_view text, const Args&... args) {
  std::string all;
  const auto put = [&](const std::string& value) {
    const std::size_t hole = text.find("{}");
    all.append(text.substr(0, hole)).append(value);
    text.remove_prefix(hole + 2);
  };
  (put(text_of(args)), ...);
  return all.append(text);
}

// "0.24", "1.1", "-0.91", "1e-7"; at most 5 characters.
std::string brief(double value) {
  if (value == 0) return "0";
  if (std::fabs(value) < 5e-4) {
    std::string text = printed("%.0e", value);
    if (const std::size_t zero = text.find("e-0"); zero != std::string::npos)
      text.erase(zero + 2, 1);
    return text;
  }
  if (std::fabs(value) < 0.1) return printed("%.1g", value);
  return printed(std::fabs(value) < 1 ? "%.2f" : "%.1f", value);
}

// The limit for the attention weight without precedent. It separates the encodings that hold in
// the lab from those that fail (docs/analysis/properties.md).
constexpr double known_below = 0.5;

std::string percent(double share) { return printed("%.0f", 100 * share) + " %"; }

bool nowhere(const Findings& f) { return f.matrices->info->enters == model::Place::nowhere; }
bool by_position(const Findings& f) {
  return model::includes(f.matrices->info->enters, model::Place::embeddings);
}

bool has_term(const Findings& f, std::string_view name) {
  const auto terms = model::token_terms({f.matrices->encoding});
  return std::any_of(terms.begin(), terms.end(),
                     [&](const model::TermShape& one) { return one.name == name; });
}

// Whether scores for equal contents say nothing, because terms of the tokens differ.
bool by_content(const Findings& f) {
  return model::properties(f.matrices->encoding).causal || has_term(f, "angles") ||
         has_term(f, "key_slopes");
}

Verdict unique(const Findings& f) {
  if (has_term(f, "key_slopes"))
    return {"tokens", "", "A score depends on the distance and on what the key holds."};
  if (has_term(f, "edge_keys"))
    return {"tokens", "",
            "Scores depend on what the tokens between query and key hold, and on their "
            "positions."};
  if (by_content(f))
    return {
        "tokens", "",
        "Scores depend on what the tokens between query and key hold, and on no number of a "
        "position."};
  const analysis::Uniqueness& u = f.uniqueness;
  if (nowhere(f))
    return {"no", "0", "Positions cannot be told apart: no score depends on them."};
  if (u.separation == 0)
    return {"no", "0",
            filled("Positions {} and {} cannot be told apart: their {} are equal.", u.first,
                   u.second, by_position(f) ? "rows" : "scores")};
  if (f.distances && f.distances->distance == 0)
    return {"no", "0",
            filled("Keys at the distances {} and {} cannot be told apart by the query: they "
                   "have the same values.",
                   f.distances->first, f.distances->second)};
  if (f.matrices->random)
    return {"yes", "", "All positions differ, unless training makes two of them equal."};
  return {"yes", brief(u.separation),
          filled("All positions differ: the {} differ by {} of their norm.",
                 by_position(f) ? "two most similar rows of the table"
                                : "scores of the two most similar positions",
                 shown(u.separation))};
}

Verdict distance(const Findings& f) {
  if (by_content(f))
    return {"tokens", "",
            filled("A shift of all positions changes outputs by at most {}, but scores of "
                   "one distance differ with the tokens.",
                   shown(f.shift))};
  const double change = std::max(f.shift, f.relativity.deviation);
  if (nowhere(f))
    return {"yes", "0",
            "Scores do not depend on positions, so a shift of all changes nothing."};
  if (f.shift <= rounding && f.relativity.deviation <= rounding)
    return {"yes", brief(change),
            filled("Scores depend on the distance alone: a shift of all positions changes "
                   "them by at most {} of their range.",
                   shown(change))};
  std::string sentence =
      "Scores depend on the positions themselves: a shift of all changes them";
  if (!f.matrices->random) sentence += filled(" by up to {} of their range", percent(f.shift));
  sentence += '.';
  if (f.relativity.deviation <= rounding)
    sentence += filled(
        " Products of two rows without a projection depend on the distance alone (within {}).",
        shown(f.relativity.deviation));
  return {"no", f.matrices->random ? "" : brief(f.shift), sentence};
}

Verdict past(const Findings& f) {
  const Setting& s = f.setting;
  if (f.matrices->positions < s.length)
    return {"ends", std::to_string(f.matrices->positions),
            filled("There is no position {} or later.", f.matrices->positions)};
  if (!f.beyond) return {"-", "", "No position beyond the training length was measured."};
  const analysis::Beyond& b = *f.beyond;
  if (has_term(f, "key_slopes"))
    return {"trained", "",
            "Penalties grow in proportion to the distance, so those of far keys are new. How "
            "much attention they get depends on the tokens."};
  if (by_content(f))
    return {"trained", "",
            "No position has values, so none are new. How much attention far keys get depends "
            "on the tokens."};
  if (nowhere(f))
    return {"-", "",
            filled("No position has values, so none are new. At position {}, for random "
                   "contents, {} of the attention weight is on keys farther "
                   "than any in training.",
                   s.length - 1, percent(b.far))};
  const std::string values =
      filled("{} from {} on {}.", by_position(f) ? "Positions" : "Distances", s.trained,
             f.normalised    ? "are divided by the position of the query, so they are "
                               "between those of training"
             : b.unseen == 0 ? "have the values of trained ones"
                             : "have values that training did not contain");
  if (f.matrices->random)
    return {"trained", "", values + " How much attention they get depends on training."};
  const bool known = b.share() < known_below;
  return {known ? "yes" : "no", printed("%.0f", 100 * b.share()) + "%",
          filled("{} At position {}, for random contents, {} of the attention weight is on "
                 "keys farther than any in training and {} on pairs with new values. So {} "
                 "of the weight, the mean of both, has no precedent in training; the limit "
                 "is {}.",
                 values, s.length - 1, percent(b.far), percent(b.unseen), percent(b.share()),
                 percent(known_below))};
}

Verdict nearer(const Findings& f) {
  const double correlation = f.decay.rank_correlation;
  if (nowhere(f)) return {"no", "0", "The distance of a key has no effect on its score."};
  if (by_content(f))
    return {f.matrices->random ? "trained" : "tokens", "",
            "Whether nearer keys score higher depends on the tokens."};
  const std::string number =
      "(rank correlation of score and distance " + printed("%.3f", correlation) + ")";
  if (correlation <= -1 + rounding &&
      (!f.matrices->random ||
       model::properties(f.matrices->encoding).decay == model::Decay::monotonic))
    return {"yes", brief(correlation),
            filled("Nearer keys score higher, for equal contents {}.", number)};
  if (f.matrices->random)
    return {"trained", "", "Whether nearer keys score higher depends on training."};
  if (correlation <= -0.5)
    return {"most", brief(correlation),
            filled("Nearer keys mostly score higher, for equal contents {}.", number)};
  return {"no", brief(correlation),
          filled("Nearer keys do not in general score higher, for equal contents {}.", number)};
}

Verdict order(const Findings& f) {
  const bool effect = f.order >= visible;
  const std::string number = effect && f.matrices->random ? "" : brief(f.order);
  if (!effect)
    return {"no", number,
            filled("Without a mask, the order of tokens has no effect: reversing the tokens "
                   "before the last changes its output by {}.",
                   shown(f.order))};
  return {"yes", number,
          filled("The order of tokens has an effect: reversing the tokens before the last "
                 "changes its output{}.",
                 number.empty() ? "" : " by up to " + shown(f.order))};
}

Verdict sides(const Findings& f) {
  if (model::properties(f.matrices->encoding).causal)
    return {"causal", "", "Defined for causal attention only."};
  const bool effect = f.whole_reversal >= visible;
  const std::string number = effect && f.matrices->random ? "" : brief(f.whole_reversal);
  if (!effect)
    return {"no", number,
            filled("Without a mask, left and right are not told apart: reversing all tokens "
                   "changes outputs by {}.",
                   shown(f.whole_reversal))};
  return {"yes", number,
          filled("Left and right are told apart without a mask: reversing all tokens "
                 "changes outputs{}.",
                 number.empty() ? "" : " by up to " + percent(f.whole_reversal))};
}

Verdict cache(const Findings& f) {
  const bool equal = f.cache <= cache_bound;
  return {equal ? "yes" : "no", brief(f.cache),
          filled("Decoding with a cache {} the full pass (difference {}, bound {}).",
                 equal ? "equals" : "does not equal", shown(f.cache), shown(cache_bound))};
}

}  // namespace

const std::vector<Property>& properties() {
  static const std::vector<Property> all{
      {"unique",
       "positions differ, and distances do: distance of the two nearest, relative to the norm"},
      {"distance", "scores depend on the distance alone: their change under a shift"},
      {"beyond",
       "past the training length, at most half of the attention weight has no precedent in "
       "training: its share; ends N: no position N"},
      {"nearer", "nearer keys score higher, for equal contents: rank correlation"},
      {"order", "the order of tokens has an effect: change of an output"},
      {"sides", "left and right are told apart without a mask: change of outputs"},
      {"cache", "decoding with a cache equals the full pass: difference"}};
  return all;
}

std::vector<Verdict> verdicts(const Findings& f) {
  return {unique(f), distance(f), past(f), nearer(f), order(f), sides(f), cache(f)};
}

}  // namespace gnomon::verdicts
