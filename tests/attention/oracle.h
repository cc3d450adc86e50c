// Reference attention in double, written from the formula: no tiles, no online softmax.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "attention/relative_terms.h"
#include "gnomon/attention/attention.h"
#include "testing.h"

namespace gnomon::testing {

// A call in double: the inputs and all options that a test varies.
struct AttentionCase {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, key_heads = 1, size = 1, values = 1;
  AttentionPlan plan = {.mask = {.visibility = Visibility::causal}, .softmax = {.scale = 1}};
  View<const float, 3> gates = {}, log_gates = {}, key_slopes = {};
  View<const float, 4> edge_queries = {}, edge_keys = {};
  View<const float, 3> sinks = {};  // of queries, in place of those of the plan
  View<const float, 4> relative_queries = {};
  // Adds to the score of a pair (b, h, i, j).
  std::function<long double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> added = {};

  std::int64_t offset() const { return plan.mask.offset.value_or(0); }
  TokenTerms terms() const {
    return {.gates = gates,
            .log_gates = log_gates,
            .key_slopes = key_slopes,
            .edge_queries = edge_queries,
            .edge_keys = edge_keys,
            .relative_queries = relative_queries,
            .sinks = sinks};
  }
  double scale() const { return *plan.softmax.scale; }
};

inline bool sees(const AttentionCase& c, std::int64_t b, std::int64_t i, std::int64_t j) {
  const std::int64_t own = i + c.offset();
  if (c.plan.mask.rate > 1 && (j + 1) * c.plan.mask.rate > own + 1) return false;
  if (c.plan.mask.visibility == Visibility::causal && j > own) return false;
  if (c.plan.mask.left && own - j > *c.plan.mask.left) return false;
  if (c.plan.mask.right && j - own > *c.plan.mask.right) return false;
  if (c.plan.queries) {
    const Positions &q = *c.plan.queries, &k = *c.plan.keys;
    const auto of_q = q.sequences[static_cast<std::size_t>(b % q.batch * q.tokens + i)];
    const auto of_k = k.sequences[static_cast<std::size_t>(b % k.batch * k.tokens + j)];
    if (of_q != of_k || of_q == Positions::padding) return false;
  }
  return true;
}

inline std::int64_t query_position(const AttentionCase& c, std::int64_t b, std::int64_t i) {
  if (!c.plan.queries) return i + c.offset();
  const Positions& q = *c.plan.queries;
  return q.ids[static_cast<std::size_t>(b % q.batch * q.tokens + i)];
}

inline std::int64_t key_position(const AttentionCase& c, std::int64_t b, std::int64_t j) {
  if (!c.plan.keys) return j;
  const Positions& k = *c.plan.keys;
  return k.ids[static_cast<std::size_t>(b % k.batch * k.tokens + j)];
}

inline std::int64_t distance(const AttentionCase& c, std::int64_t b, std::int64_t i,
                             std::int64_t j) {
  return key_position(c, b, j) - query_position(c, b, i);
}

// The row of a pair in a grid's table.
inline std::int64_t grid_index(const GridBias& grid, std::int64_t query, std::int64_t key) {
  if (query < grid.leading || key < grid.leading)
    return grid.offsets() - (query >= grid.leading ? 2 : key >= grid.leading ? 3 : 1);
  const auto row = [&](std::int64_t id) { return (id - grid.leading) / grid.width; };
  const auto column = [&](std::int64_t id) { return (id - grid.leading) % grid.width; };
  return (row(query) - row(key) + grid.height - 1) * (2 * grid.width - 1) + column(query) -
         column(key) + grid.width - 1;
}

// The column of a pair in the strip of one axis.
inline std::int64_t axis_column(const AxisStrip& axis, std::int64_t query, std::int64_t key) {
  const auto place = [&](std::int64_t id) {
    return axis.coordinates.empty() ? id : axis.coordinates.at(static_cast<std::size_t>(id));
  };
  return place(key) - place(query) - axis.min_distance;
}

// The point of a pair on a piecewise logarithmic bias, and the derivatives of its score by c
// and the threshold.
struct PiecewiseLogPoint {
  std::int64_t piece = 0;
  double x = 0, by_c = 0, size_by_c = 0, by_threshold = 0;
};
inline PiecewiseLogPoint piecewise_log_point(const PiecewiseLogBias& bias, std::int64_t h,
                                             std::int64_t query, std::int64_t key) {
  const double near = std::abs(static_cast<double>(query) - static_cast<double>(key));
  const double own = static_cast<double>(query), c = bias.c;
  const double far = std::max(own, bias.threshold);
  const double whole = std::log(c * far + 1) + bias.epsilon;
  PiecewiseLogPoint point;
  point.x = std::log(c * near + 1) / whole;
  while (point.piece + 1 < bias.pieces() &&
         bias.knots[static_cast<std::size_t>(point.piece + 1)] <= point.x)
    ++point.piece;
  const double slope =
      bias.slopes[static_cast<std::size_t>(h * bias.pieces() + point.piece)] / whole;
  const double of_near = near / (c * near + 1), of_far = point.x * far / (c * far + 1);
  point.by_c = slope * (of_near - of_far);
  point.size_by_c = std::abs(slope) * (of_near + of_far);
  if (own < bias.threshold)
    point.by_threshold = -slope * point.x * c / (c * bias.threshold + 1);
  return point;
}

// Visits the keys whose log gates are added to the score of a pair.
template <typename Visit>
void gates_between(const AttentionCase& c, std::int64_t b, std::int64_t i, std::int64_t j,
                   Visit visit) {
  if (!c.log_gates.data()) return;
  for (std::int64_t l = j + 1; l <= i + c.offset(); ++l) {
    if (c.plan.keys) {
      const Positions& k = *c.plan.keys;
      const auto at = static_cast<std::size_t>(b % k.batch * k.tokens);
      if (k.sequences[at + static_cast<std::size_t>(l)] !=
          k.sequences[at + static_cast<std::size_t>(j)])
        continue;
    }
    visit(l);
  }
}

inline double bias(const AttentionCase& c, std::int64_t b, std::int64_t h, std::int64_t i,
                   std::int64_t j) {
  const auto d = distance(c, b, i, j);
  const std::int64_t query = query_position(c, b, i), key = key_position(c, b, j);
  if (const auto* slope = std::get_if<SlopeBias>(&c.plan.bias))
    return -slope->slopes[static_cast<std::size_t>(h)] * std::abs(static_cast<double>(d));
  if (const auto* strip = std::get_if<StripBias>(&c.plan.bias))
    return strip->values.at(
        static_cast<std::size_t>(h * strip->distances() + d - strip->min_distance));
  if (const auto* dense = std::get_if<DenseBias>(&c.plan.bias))
    return static_cast<double>(dense->values(b, h, i, j));
  if (const auto* grid = std::get_if<GridBias>(&c.plan.bias))
    return grid->values.at(
        static_cast<std::size_t>(h * grid->offsets() + grid_index(*grid, query, key)));
  if (const auto* piecewise_log = std::get_if<PiecewiseLogBias>(&c.plan.bias)) {
    const auto point = piecewise_log_point(*piecewise_log, h, query, key);
    const auto n = static_cast<std::size_t>(h * piecewise_log->pieces() + point.piece);
    return piecewise_log->offsets[n] + piecewise_log->slopes[n] * point.x;
  }
  if (const auto* axes = std::get_if<AxesBias>(&c.plan.bias)) {
    double sum = 0;
    for (std::size_t a = 0; a < axes->axes.size(); ++a)
      sum += axes->axes[a].values.at(static_cast<std::size_t>(
          h * axes->distances(a) + axis_column(axes->axes[a], query, key)));
    return sum;
  }
  return 0;
}

// Visits the parameters of head h from which the bias of a pair is computed: visit(index,
// derivative by it, size of the terms it is summed from).
template <typename Visit>
void bias_terms(const AttentionCase& c, std::int64_t b, std::int64_t h, std::int64_t i,
                std::int64_t j, Visit visit) {
  const std::int64_t query = query_position(c, b, i), key = key_position(c, b, j);
  if (std::holds_alternative<SlopeBias>(c.plan.bias)) {
    const double away = std::abs(static_cast<double>(key - query));
    visit(0, -away, away);
  }
  if (const auto* strip = std::get_if<StripBias>(&c.plan.bias))
    visit(key - query - strip->min_distance, 1, 1);
  if (const auto* grid = std::get_if<GridBias>(&c.plan.bias))
    visit(grid_index(*grid, query, key), 1, 1);
  if (const auto* piecewise_log = std::get_if<PiecewiseLogBias>(&c.plan.bias)) {
    const auto point = piecewise_log_point(*piecewise_log, h, query, key);
    const std::int64_t pieces = piecewise_log->pieces();
    visit(point.piece, 1, 1);
    visit(pieces + point.piece, point.x, point.x);
    visit(2 * pieces, point.by_c, point.size_by_c);
    visit(2 * pieces + 1, point.by_threshold, std::abs(point.by_threshold));
  }
  if (const auto* axes = std::get_if<AxesBias>(&c.plan.bias)) {
    std::int64_t before = 0;  // number of parameters of the previous axes
    for (std::size_t a = 0; a < axes->axes.size(); before += axes->distances(a++))
      visit(before + axis_column(axes->axes[a], query, key), 1, 1);
  }
}

// [B, tokens, heads, size], rotated by the table (or back).
inline Tensor<double, 4> rotated(const Tensor<double, 4>& x,
                                 const std::optional<RotaryTable>& table,
                                 double direction = 1) {
  Tensor<double, 4> y = x;
  if (!table) return y;
  const std::int64_t pairs = table->frequencies().rotary_dim() / 2,
                     first = table->frequencies().head_offset;
  const bool halves = table->frequencies().pairing == Pairing::halves;
  for (std::ptrdiff_t b = 0; b < x.extents[0]; ++b)
    for (std::ptrdiff_t t = 0; t < x.extents[1]; ++t)
      for (std::ptrdiff_t h = 0; h < x.extents[2]; ++h)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double cos = static_cast<double>(table->cos()(b % table->batch(), t, i));
          const double sin =
              direction * static_cast<double>(table->sin()(b % table->batch(), t, i));
          const std::int64_t one = first + (halves ? i : 2 * i);
          const std::int64_t two = first + (halves ? i + pairs : 2 * i + 1);
          const double left = x.view()(b, t, h, one), right = x.view()(b, t, h, two);
          y.view()(b, t, h, one) = left * cos - right * sin;
          y.view()(b, t, h, two) = left * sin + right * cos;
        }
  return y;
}

// The vector of a head.
inline double* head_of(Tensor<double, 4>& x, std::int64_t b, std::int64_t t, std::int64_t h) {
  return x.values.data() + ((b * x.extents[1] + t) * x.extents[2] + h) * x.extents[3];
}
inline const double* head_of(const Tensor<double, 4>& x, std::int64_t b, std::int64_t t,
                             std::int64_t h) {
  return x.values.data() + ((b * x.extents[1] + t) * x.extents[2] + h) * x.extents[3];
}

inline const RelativeForm& relative(const AttentionCase& c) { return c.plan.relative; }

inline double gate(const AttentionCase& c, std::int64_t b, std::int64_t h, std::int64_t i) {
  const auto& gates = c.gates;
  return gates.data() ? static_cast<double>(gates(gates.extent(0) == 1 ? 0 : b, h, i)) : 1;
}

// Queries as they are multiplied with keys: rotated and shifted.
inline Tensor<double, 4> ready_queries(const AttentionCase& c, const Tensor<double, 4>& q) {
  auto ready = rotated(q, c.plan.query_rotary);
  const std::vector<double>& shift = relative(c).shift;
  for (std::size_t n = 0; n < ready.values.size() && !shift.empty(); ++n)
    ready.values[n] += shift[n % shift.size()];
  return ready;
}

// The product of a pair: q . k and the terms of the form, before the softmax scale, in a wider
// type than the sums of double attention. query: from ready_queries; key: rotated.
inline long double product_of(const AttentionCase& c, std::int64_t b, std::int64_t h,
                              std::int64_t i, std::int64_t j, const double* query,
                              const double* key) {
  const std::int64_t at = query_position(c, b, i), of = key_position(c, b, j);
  long double product = dot(query, key, c.size);
  for (const RelativeVectors& table : relative(c).keys)
    product += dot(query, vector_of(table, met(table, h, at, of)), c.size);
  for (const RelativeVectors& table : relative(c).queries)
    product += dot(key, vector_of(table, met(table, h, at, of)), c.size);
  return product;
}

struct AttentionTensors {
  Tensor<double, 4> q{{}}, k{{}}, v{{}};
};

struct AttentionOracle {
  Tensor<double, 4> weights;  // [B, Hq, T, S]
  Tensor<double, 4> by;       // [B, Hq, T, S]: derivatives of scores by scaled products
  Tensor<double, 4> out;      // [B, T, Hq, Dv]
  Tensor<double, 3> lse;      // [B, Hq, T]
};

inline AttentionOracle oracle(const AttentionCase& c, const AttentionTensors& x) {
  AttentionOracle result{Tensor<double, 4>({c.batch, c.heads, c.queries, c.keys}),
                         Tensor<double, 4>({c.batch, c.heads, c.queries, c.keys}, 1.0),
                         Tensor<double, 4>({c.batch, c.queries, c.heads, c.values}),
                         Tensor<double, 3>({c.batch, c.heads, c.queries})};
  const auto q = ready_queries(c, x.q);
  const auto k = rotated(x.k, c.plan.key_rotary);
  const RelativeForm& form = relative(c);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.queries; ++i) {
        const std::int64_t g = h / (c.heads / c.key_heads);
        std::vector<long double> score(static_cast<std::size_t>(c.keys), -infinity);
        const double sink = c.sinks.data() ? static_cast<double>(c.sinks(b, h, i))
                            : c.plan.softmax.sinks.empty()
                                ? -infinity
                                : c.plan.softmax.sinks.at(static_cast<std::size_t>(h));
        long double most = sink;
        for (std::int64_t j = 0; j < c.keys; ++j) {
          if (!sees(c, b, i, j)) continue;
          long double s =
              c.scale() * product_of(c, b, h, i, j, head_of(q, b, i, h), head_of(k, b, j, g));
          if (c.plan.softmax.cap) {
            const long double bent = std::tanh(s / *c.plan.softmax.cap);
            result.by.view()(b, h, i, j) = static_cast<double>(1 - bent * bent);
            s = *c.plan.softmax.cap * bent;
          }
          s += gate(c, b, h, i) * bias(c, b, h, i, j);
          if (c.added) s += c.added(b, h, i, j);
          gates_between(c, b, i, j, [&](std::int64_t l) { s += c.log_gates(b, h, l); });
          score[static_cast<std::size_t>(j)] = s;
          most = std::max(most, s);
        }
        if (most == -infinity) {
          result.lse.view()(b, h, i) = -infinity;
          continue;
        }
        double sum = std::exp(static_cast<double>(sink - most));
        for (long double s : score) sum += std::exp(static_cast<double>(s - most));
        result.lse.view()(b, h, i) = static_cast<double>(most + std::log(sum));
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const double p =
              std::exp(static_cast<double>(score[static_cast<std::size_t>(j)] - most)) / sum;
          result.weights.view()(b, h, i, j) = p;
          const double* value = head_of(x.v, b, j, g);
          double* out = head_of(result.out, b, i, h);
          add(p, value, c.values, out);
          if (!sees(c, b, i, j)) continue;
          const std::int64_t at = query_position(c, b, i), of = key_position(c, b, j);
          for (const RelativeVectors& table : form.values)
            add(p, vector_of(table, met(table, h, at, of)), c.values, out);
        }
      }
  return result;
}

struct AttentionGradients {
  Tensor<double, 4> q, k, v;
  Tensor<double, 4> scores;     // [B, Hq, T, S]: for a dense bias
  std::vector<double> numbers;  // gradient of the bias numbers, as in BiasGradient
  std::vector<double> weight;   // the sum of the softmax weights for each of them
  std::vector<double> sinks, sinks_weight;
  Tensor<double, 4> weights;  // as in AttentionOracle
  TableGradients met_keys{}, met_queries{}, met_values{};
  std::vector<double> shift{};
  Tensor<double, 3> gates{{}}, gates_size{{}};  // [B, Hq, T]: gradient; greatest bias
  Tensor<double, 3> log_gates{{}};              // [B, Hq, S]
};

// The chain rule with the dense weights.
inline AttentionGradients oracle_backward(const AttentionCase& c, const AttentionTensors& x,
                                          const Tensor<double, 4>& out_grad) {
  const auto forward = oracle(c, x);
  AttentionGradients grad{Tensor<double, 4>(x.q.extents),
                          Tensor<double, 4>(x.k.extents),
                          Tensor<double, 4>(x.v.extents),
                          Tensor<double, 4>(forward.weights.extents),
                          {},
                          {},
                          std::vector<double>(c.plan.softmax.sinks.size()),
                          std::vector<double>(c.plan.softmax.sinks.size()),
                          forward.weights};
  const auto q = ready_queries(c, x.q);
  const auto k = rotated(x.k, c.plan.key_rotary);
  const RelativeForm& form = relative(c);
  grad.met_keys = TableGradients(form.keys);
  grad.met_queries = TableGradients(form.queries);
  grad.met_values = TableGradients(form.values);
  grad.gates = grad.gates_size = Tensor<double, 3>({c.batch, c.heads, c.queries});
  grad.log_gates = Tensor<double, 3>({c.batch, c.heads, c.keys});
  const std::int64_t numbers = gnomon::gradient_size(c.plan.bias);
  grad.numbers.resize(static_cast<std::size_t>(c.heads * numbers));
  grad.weight = grad.numbers;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.queries; ++i) {
        const std::int64_t g = h / (c.heads / c.key_heads);
        std::vector<double> of_weight(static_cast<std::size_t>(c.keys));
        double mean = 0;
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const double p = forward.weights.view()(b, h, i, j);
          double dot = 0;
          const double *of_out = head_of(out_grad, b, i, h), *value = head_of(x.v, b, j, g);
          double* of_value = head_of(grad.v, b, j, g);
          for (std::int64_t d = 0; d < c.values; ++d) {
            dot += of_out[d] * value[d];
            of_value[d] += p * of_out[d];
          }
          for (std::size_t t = 0; t < form.values.size() && sees(c, b, i, j); ++t) {
            const std::size_t n =
                met(form.values[t], h, query_position(c, b, i), key_position(c, b, j));
            dot += static_cast<double>(
                testing::dot(of_out, vector_of(form.values[t], n), c.values));
            add(p, of_out, c.values,
                grad.met_values.vectors[t].data() + n * static_cast<std::size_t>(c.values));
            grad.met_values.weight[t][n] += p;
          }
          of_weight[static_cast<std::size_t>(j)] = dot;
          mean += p * dot;
        }
        if (!c.plan.softmax.sinks.empty()) {
          const auto n = static_cast<std::size_t>(h);
          const double p = std::exp(c.plan.softmax.sinks[n] - forward.lse.view()(b, h, i));
          grad.sinks[n] -= p * mean;
          grad.sinks_weight[n] += p;
        }
        for (std::int64_t j = 0; j < c.keys; ++j) {
          if (!sees(c, b, i, j)) continue;
          const double s = forward.weights.view()(b, h, i, j) *
                           (of_weight[static_cast<std::size_t>(j)] - mean);
          grad.scores.view()(b, h, i, j) = s;
          bias_terms(c, b, h, i, j, [&](std::int64_t number, double by, double size) {
            const auto n = static_cast<std::size_t>(h * numbers + number);
            grad.numbers.at(n) += gate(c, b, h, i) * by * s;
            grad.weight[n] +=
                std::abs(gate(c, b, h, i)) * size * forward.weights.view()(b, h, i, j);
          });
          gates_between(c, b, i, j,
                        [&](std::int64_t l) { grad.log_gates.view()(b, h, l) += s; });
          const double added = bias(c, b, h, i, j);
          grad.gates.view()(b, h, i) += s * added;
          double& most = grad.gates_size.view()(b, h, i);
          most = std::max(most, std::abs(added));
          const double product = c.scale() * s * forward.by.view()(b, h, i, j);
          const double *query = head_of(q, b, i, h), *key = head_of(k, b, j, g);
          double *of_query = head_of(grad.q, b, i, h), *of_key = head_of(grad.k, b, j, g);
          for (std::int64_t d = 0; d < c.size; ++d) {
            of_query[d] += product * key[d];
            of_key[d] += product * query[d];
          }
          const auto meet = [&](const std::vector<RelativeVectors>& tables, TableGradients& of,
                                const double* meeting, double* of_meeting) {
            for (std::size_t t = 0; t < tables.size(); ++t) {
              const std::size_t n =
                  met(tables[t], h, query_position(c, b, i), key_position(c, b, j));
              add(product, vector_of(tables[t], n), c.size, of_meeting);
              add(product, meeting, c.size,
                  of.vectors[t].data() + n * static_cast<std::size_t>(c.size));
              of.weight[t][n] += forward.weights.view()(b, h, i, j);
            }
          };
          meet(form.keys, grad.met_keys, query, of_query);
          meet(form.queries, grad.met_queries, key, of_key);
        }
      }
  grad.shift.resize(form.shift.size());
  for (std::size_t n = 0; n < grad.q.values.size() && !form.shift.empty(); ++n)
    grad.shift[n % form.shift.size()] += grad.q.values[n];
  grad.q = rotated(grad.q, c.plan.query_rotary, -1);
  grad.k = rotated(grad.k, c.plan.key_rotary, -1);
  return grad;
}

}  // namespace gnomon::testing
