#include "apps/lab/statistics/ways.h"

#include <algorithm>
#include <cmath>

#include "apps/lab/data/numbers.h"
#include "apps/lab/model/extension.h"
#include "apps/lab/statistics/observations.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace {

std::vector<Way> whole_ways(const std::vector<EncodingResult>& encodings, std::size_t length) {
  std::vector<Way> all;
  for (const EncodingResult& one : encodings)
    if (one.lengths[length].applicable)
      all.push_back({.name = one.name,
                     .title = one.title,
                     .context = Context::whole,
                     .bits = one.lengths[length].tail_bits});
  return all;
}

// The ways that --extend added. The control has a fine-tune only.
void add_extensions(std::vector<Way>& order, const EncodingResult& encoding, std::size_t length,
                    const std::vector<RunResult>& runs) {
  const auto first = std::find_if(runs.begin(), runs.end(), [&](const RunResult& run) {
    return run.encoding == encoding.name && run.extension;
  });
  if (first == runs.end()) return;
  const std::vector<ExtensionMethod>& methods = first->extension->methods;
  for (const ExtensionMethod& one : methods)
    for (const Context context : {Context::extended, Context::tuned}) {
      if (context == Context::extended && &one == &methods.back()) continue;
      Way way{.name = encoding.name,
              .title = encoding.title,
              .context = context,
              .method = extension_title(one.method)};
      std::vector<double> seeds;
      for (const std::vector<double>& units : observations_of(way, length, runs).units)
        seeds.push_back(mean(units));
      way.bits = mean(seeds);
      order.push_back(way);
    }
}

Contrasts contrasts_of(const Results& results, const std::vector<Way>& order,
                       std::size_t length) {
  std::vector<Observations> entries;
  std::vector<bool> usual;
  for (const Way& one : order) {
    entries.push_back(observations_of(one, length, results.runs));
    entries.back().pooled = one.context == Context::cut ||
                            (one.context == Context::whole &&
                             std::none_of(order.begin(), order.end(), [&](const Way& other) {
                               return other.name == one.name && other.context == Context::cut;
                             }));
    usual.push_back(std::isfinite(one.bits) &&
                    find_encoding(results, one.name).training == Training::enough);
  }
  return {std::move(entries), Better::lower, statements_of(results), usual};
}

}  // namespace

Contrasts contrasts_at(const Results& results, std::size_t length) {
  return contrasts_of(results, results.ways[length].order, length);
}

void rank_ways(Results& results) {
  results.ways.clear(), results.rankings.clear();
  if (results.encodings.empty()) return;
  const std::vector<EncodingResult>& encodings = results.encodings;
  for (std::size_t i = 0; i < encodings[0].lengths.size(); ++i) {
    std::vector<Way> order = whole_ways(encodings, i);
    if (i > 0)
      for (const EncodingResult& one : encodings) {
        order.push_back({.name = one.name,
                         .title = one.title,
                         .context = Context::cut,
                         .bits = one.lengths[0].tail_bits});
        add_extensions(order, one, i, results.runs);
      }
    const auto takes_part = [&](const Way& one) {
      return find_encoding(results, one.name).training == Training::enough;
    };
    std::stable_sort(order.begin(), order.end(), [&](const Way& a, const Way& b) {
      if (takes_part(a) != takes_part(b)) return takes_part(a);
      return is_lower(a.bits, b.bits);
    });
    results.ways.push_back({encodings[0].lengths[i].length, std::move(order)});
  }
  for (std::size_t i = 0; i < results.ways.size(); ++i) {
    std::vector<Way>& order = results.ways[i].order;
    const std::vector<Verdict> verdicts = contrasts_at(results, i).verdicts(equal_bits);
    for (std::size_t k = 0; k < order.size(); ++k) order[k].verdict = verdicts[k];
    // The ranking is that of the whole context alone.
    std::vector<Way> whole;
    for (const Way& one : order)
      if (one.context == Context::whole) whole.push_back(one);
    const std::vector<Verdict> alone = contrasts_of(results, whole, i).verdicts(equal_bits);
    Ranking& ranking = results.rankings.emplace_back();
    ranking.to = results.ways[i].length;
    for (std::size_t k = 0; k < whole.size(); ++k)
      ranking.order.push_back({.name = whole[k].name,
                               .title = whole[k].title,
                               .bits = whole[k].bits,
                               .verdict = alone[k]});
  }
}

}  // namespace gnomon::lab
