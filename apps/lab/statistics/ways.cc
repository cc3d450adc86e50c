#include "apps/lab/statistics/ways.h"
#include "apps/lab/model/extension.h"

#include <algorithm>
#include <cmath>

#include "apps/lab/data/numbers.h"
#include "apps/lab/runs/extend.h"
#include "apps/lab/statistics/diverged.h"

namespace gnomon::lab {
namespace {

// The loss of a way in each seed, and, if it is stored, in each test segment of the first seed.
struct Losses {
  std::vector<double> seeds = {};
  const std::vector<double>* segments = nullptr;
};

Losses losses_of(const Way& way, std::size_t length, const std::vector<RunResult>& runs) {
  Losses all;
  for (const RunResult& run : runs) {
    if (run.encoding != way.name) continue;
    if (way.context == Context::whole || way.context == Context::cut) {
      const LengthLoss& at = run.tests.lengths[way.context == Context::cut ? 0 : length];
      if (all.seeds.empty()) all.segments = &at.tail_by_segment;
      all.seeds.push_back(at.tail_bits);
      continue;
    }
    if (!run.extension) continue;
    for (const ExtensionMethod& one : run.extension->methods)
      if (extension_title(one.method) == way.method)
        all.seeds.push_back((way.context == Context::tuned ? one.after : one.without)[length]);
  }
  return all;
}

double margin_of(const Losses& a, const Losses& b) {
  const std::size_t seeds = std::min(a.seeds.size(), b.seeds.size());
  std::vector<double> differences;
  // Released models without a fine-tune have the same loss with every seed.
  if (seeds > 1 && (deviation(a.seeds) > 0 || deviation(b.seeds) > 0)) {
    for (std::size_t i = 0; i < seeds; ++i) differences.push_back(a.seeds[i] - b.seeds[i]);
    return mean_margin(differences);
  }
  if (!a.segments || !b.segments) return 2 * seed_deviation;
  for (std::size_t i = 0; i < std::min(a.segments->size(), b.segments->size()); ++i)
    differences.push_back((*a.segments)[i] - (*b.segments)[i]);
  return std::max(2 * seed_deviation, mean_margin(differences));
}

// Sorts the ways and sets `tied`.
void rank(std::vector<Way>& order, std::size_t length, const std::vector<RunResult>& runs) {
  std::stable_sort(order.begin(), order.end(),
                   [](const Way& a, const Way& b) { return is_lower(a.bits, b.bits); });
  if (order.empty()) return;
  const Losses best = losses_of(order[0], length, runs);
  for (Way& one : order)
    one.tied = std::isfinite(one.bits) &&
               one.bits - order[0].bits <= margin_of(losses_of(one, length, runs), best);
  order[0].tied = std::isfinite(order[0].bits);
}

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
      way.bits = mean(losses_of(way, length, runs).seeds);
      order.push_back(way);
    }
}

}  // namespace

double margin(const Way& a, const Way& b, std::size_t length,
              const std::vector<RunResult>& runs) {
  return margin_of(losses_of(a, length, runs), losses_of(b, length, runs));
}

std::vector<Ways> ways(const std::vector<EncodingResult>& encodings,
                       const std::vector<RunResult>& runs) {
  std::vector<Ways> all;
  if (encodings.empty()) return all;
  for (std::size_t i = 0; i < encodings[0].lengths.size(); ++i) {
    std::vector<Way> order = whole_ways(encodings, i);
    if (i > 0)
      for (const EncodingResult& one : encodings) {
        order.push_back({.name = one.name,
                         .title = one.title,
                         .context = Context::cut,
                         .bits = one.lengths[0].tail_bits});
        add_extensions(order, one, i, runs);
      }
    rank(order, i, runs);
    all.push_back({encodings[0].lengths[i].length, std::move(order)});
  }
  return all;
}

std::vector<Ranking> rankings(const std::vector<EncodingResult>& encodings,
                              const std::vector<RunResult>& runs) {
  std::vector<Ranking> all;
  if (encodings.empty()) return all;
  for (std::size_t i = 0; i < encodings[0].lengths.size(); ++i) {
    std::vector<Way> order = whole_ways(encodings, i);
    rank(order, i, runs);
    Ranking& ranking = all.emplace_back();
    ranking.to = encodings[0].lengths[i].length;
    for (const Way& one : order)
      ranking.order.push_back(
          {.name = one.name, .title = one.title, .bits = one.bits, .tied = one.tied});
  }
  return all;
}

}  // namespace gnomon::lab
