#include "apps/lab/statistics/standing.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/lab/data/words.h"

namespace gnomon::lab {
namespace {

std::vector<std::size_t> with(const std::vector<Standing>& order, Verdict verdict) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i].verdict == verdict) found.push_back(i);
  return found;
}

std::string named(const Standing& one) { return fmt::format("{} ({})", one.title, one.value); }

std::string named(const std::vector<Standing>& order, const std::vector<std::size_t>& some) {
  std::vector<std::string> names;
  for (const std::size_t i : some) names.push_back(named(order[i]));
  return listed(names);
}

}  // namespace

std::string UnitText::text(const Contrast& one) const {
  return fmt::format("{} ± {} {}", number(std::abs(one.difference)), number(one.margin), unit);
}

std::string UnitText::limit() const {
  return fmt::format("{:g} {}", unit == "points" ? 100 * equal_within : equal_within, unit);
}

std::string standing_text(const std::vector<Standing>& order, const Contrasts& contrasts,
                          const UnitText& unit) {
  const auto described = with(order, Verdict::described),
             undecided = with(order, Verdict::undecided),
             equivalent = with(order, Verdict::equivalent), worse = with(order, Verdict::worse);
  if (!described.empty())
    return "in this order, which other seeds may change: " + named(order, described);
  if (order.empty() || order[0].verdict == Verdict::excluded) return "no encoding takes part";
  const bool alone =
      undecided.size() + equivalent.size() + worse.size() + with(order, Verdict::best).size() ==
      1;
  if (alone) return named(order[0]) + ", and no other takes part";
  std::string text;
  if (order[0].verdict == Verdict::best) {
    text =
        fmt::format("{} is better than each other: than the next, {}, by {}", named(order[0]),
                    named(order[worse[0]]), unit.text(contrasts.between(worse[0], 0)));
    if (worse.size() > 1) text += ", then " + named(order, {worse.begin() + 1, worse.end()});
    return text;
  }
  if (undecided.empty())
    text = fmt::format("{} are equivalent within {}", named(order, equivalent), unit.limit());
  else if (undecided.size() == 1)  // never: the verdict of the first is that of another
    text = named(order[0]);
  else {
    text = fmt::format("which is best is not decided between {}", named(order, undecided));
    const std::size_t next = undecided[1];
    text += fmt::format("; the first two differ by {}", unit.text(contrasts.between(next, 0)));
    if (const std::int64_t seeds = contrasts.seeds_needed(next, 0); seeds > 0)
      text += fmt::format(", and about {} seeds would decide", seeds);
    if (!equivalent.empty())
      text += fmt::format("; {} {} equivalent to the first within {}", named(order, equivalent),
                          equivalent.size() == 1 ? "is" : "are", unit.limit());
  }
  if (!worse.empty())
    text += fmt::format(
        "; {} {} worse, by {}{}", named(order, worse), worse.size() == 1 ? "is" : "are",
        unit.text(contrasts.between(worse[0], 0)), worse.size() == 1 ? "" : " and more");
  return text;
}

}  // namespace gnomon::lab
