// Placeholder until the room's own files land.
#include <cmath>

#include "gnomon/angles.h"
#include "gnomon/embedding/learned.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/error.h"

namespace gnomon {

template <typename T>
void add_table(View<T, 3> x, View<const float, 2> table, float scale) {
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t t = 0; t < x.extent(1); ++t)
      for (std::int64_t c = 0; c < x.extent(2); ++c)
        x(b, t, c) = static_cast<T>(static_cast<Accumulator<T>>(x(b, t, c)) +
                                    static_cast<Accumulator<T>>(scale * table(t, c)));
}
template void add_table(View<float, 3>, View<const float, 2>, float);
template void add_table(View<BFloat16, 3>, View<const float, 2>, float);
template void add_table(View<Half, 3>, View<const float, 2>, float);
template void add_table(View<double, 3>, View<const float, 2>, float);
template <typename T>
void add_table_backward(View<const T, 3> grad, View<float, 2> out, float scale) {
  for (std::int64_t t = 0; t < grad.extent(1); ++t)
    for (std::int64_t c = 0; c < grad.extent(2); ++c) {
      double sum = 0;
      for (std::int64_t b = 0; b < grad.extent(0); ++b) sum += static_cast<double>(static_cast<Accumulator<T>>(grad(b, t, c)));
      out(t, c) += static_cast<float>(scale * sum);
    }
}
template void add_table_backward(View<const float, 3>, View<float, 2>, float);
template void add_table_backward(View<const Half, 3>, View<float, 2>, float);
template void add_table_backward(View<const BFloat16, 3>, View<float, 2>, float);
template void add_table_backward(View<const double, 3>, View<float, 2>, float);
std::vector<double> frequencies(const Sinusoidal& s) {
  std::vector<double> f;
  for (std::int64_t i = 0; i < s.dim / 2; ++i)
    f.push_back(std::pow(s.base, -2.0 * static_cast<double>(i) / static_cast<double>(s.dim)));
  return f;
}
EmbeddingTable sinusoidal_table(const Sinusoidal& s, std::span<const std::int64_t> p) {
  EmbeddingTable table{static_cast<std::int64_t>(p.size()), s.dim, {}};
  table.values.resize(p.size() * static_cast<std::size_t>(s.dim));
  const auto f = frequencies(s);
  const auto n = static_cast<std::int64_t>(p.size());
  fill_cos_sin(p, std::span<const double>(f),
               View<float, 2>(table.values.data() + 1, {n, s.dim / 2}, {s.dim, 2}),
               View<float, 2>(table.values.data(), {n, s.dim / 2}, {s.dim, 2}));
  return table;
}
Learned learned_plain(std::int64_t rows, std::int64_t dim) { return {rows, dim, 0}; }
std::int64_t capacity(const Learned& learned) { return learned.rows - learned.offset; }
std::vector<std::int64_t> learned_rows(const Learned& l, const Positions& p) {
  std::vector<std::int64_t> rows;
  for (std::int64_t id : p.ids) {
    if (id < 0 || id >= capacity(l)) refuse("learned", "position must have a row", id);
    rows.push_back(id + l.offset);
  }
  return rows;
}

}  // namespace gnomon
