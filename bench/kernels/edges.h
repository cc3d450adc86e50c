// The edges of a query and its keys (EdgeBias), for the oracle of attention.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/model/encoding.h"

namespace gnomon::bench {

// Returns the edge of a query and a key of head h of `heads`, times its slope.
inline double edge_of(const LayerPlan& plan, const TermArrays& terms, std::int64_t heads,
                      std::int64_t h, std::int64_t query, std::int64_t key) {
  const RotaryTable& table = *plan.edge_rotary;
  const std::int64_t pairs = table.frequencies().rotary_dim() / 2;
  const auto part = [&](std::string_view name, std::int64_t token, std::int64_t n) {
    for (const TermArrays::Array& one : terms.arrays)
      if (one.name == name)
        return double{
            one.values[static_cast<std::size_t>((token * heads + h) * 2 * pairs + n)]};
    return 0.0;
  };
  double sum = 0;
  for (std::int64_t n = 0; n < pairs; ++n) {
    const double cos = table.cos()(0, key, n), sin = table.sin()(0, key, n);
    const double a = part("edge_keys", key, n), b = part("edge_keys", key, n + pairs);
    sum += part("edge_queries", query, n) * (a * cos + b * sin) +
           part("edge_queries", query, n + pairs) * (b * cos - a * sin);
  }
  return -plan.edges->slopes[static_cast<std::size_t>(h)] * std::log1p(std::exp(-sum));
}

}  // namespace gnomon::bench
