#include "gnomon/bias/swin.h"

#include <string>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const Swin& swin) {
  constexpr int64_t most = 1 << 15;
  if (swin.heads < 1) refuse("swin", "heads must be at least 1", swin.heads);
  if (swin.height < 1 || swin.height >= most)
    refuse("swin", "height must be 1 to 32767", swin.height);
  if (swin.width < 1 || swin.width >= most)
    refuse("swin", "width must be 1 to 32767", swin.width);
  if (swin.class_tokens < 0 || swin.class_tokens > 1)
    refuse("swin", "class_tokens must be 0 or 1", swin.class_tokens);
}

void check_table(const Swin& swin, const std::array<std::int64_t, 2>& extents) {
  const int64_t rows = offsets(swin);
  if (extents[0] != rows)
    refuse("swin", "the table must have a row for each offset, " + std::to_string(rows),
           extents[0]);
  if (extents[1] != swin.heads)
    refuse("swin", "the table must have a column for each head, " + std::to_string(swin.heads),
           extents[1]);
}

int64_t index_unchecked(const Swin& swin, int64_t query, int64_t key) {
  query -= swin.class_tokens, key -= swin.class_tokens;
  const int64_t pitch = 2 * swin.width - 1;
  if (query < 0 || key < 0) return offsets(swin) - (query < 0 ? (key < 0 ? 1 : 3) : 2);
  const int64_t dy = query / swin.width - key / swin.width;
  const int64_t dx = query % swin.width - key % swin.width;
  return (dy + swin.height - 1) * pitch + dx + swin.width - 1;
}

}  // namespace

int64_t tokens(const Swin& swin) {
  check(swin);
  return swin.class_tokens + swin.height * swin.width;
}

int64_t offsets(const Swin& swin) {
  check(swin);
  return (2 * swin.height - 1) * (2 * swin.width - 1) + 3 * swin.class_tokens;
}

int64_t offset_index(const Swin& swin, int64_t query, int64_t key) {
  const int64_t count = tokens(swin);
  for (const int64_t position : {query, key})
    if (position < 0 || position >= count)
      refuse("swin", "positions must be 0 to " + std::to_string(count - 1), position);
  return index_unchecked(swin, query, key);
}

std::vector<int64_t> offset_indices(const Swin& swin) {
  const int64_t count = tokens(swin);
  std::vector<int64_t> indices;
  indices.reserve(internal::checked_size("swin", "tokens x tokens", {count, count}));
  for (int64_t query = 0; query < count; ++query)
    for (int64_t key = 0; key < count; ++key)
      indices.push_back(index_unchecked(swin, query, key));
  return indices;
}

GridBias lower(const Swin& swin, View<const float, 2> table) {
  check_table(swin, table.extents());
  GridBias grid{.heads = swin.heads,
                .height = swin.height,
                .width = swin.width,
                .leading = swin.class_tokens,
                .values = {}};
  grid.values.reserve(static_cast<std::size_t>(table.size()));
  for (int64_t h = 0; h < swin.heads; ++h)
    for (int64_t n = 0; n < table.extent(0); ++n) grid.values.push_back(double{table(n, h)});
  return grid;
}

void lower_backward(const Swin& swin, std::span<const double> grid_grad,
                    View<float, 2> table_grad) {
  check_table(swin, table_grad.extents());
  const int64_t rows = table_grad.extent(0);
  if (static_cast<int64_t>(grid_grad.size()) != rows * swin.heads)
    refuse("swin",
           "the gradient of the grid must have heads x offsets values, " +
               std::to_string(rows * swin.heads),
           static_cast<int64_t>(grid_grad.size()));
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t h = 0; h < swin.heads; ++h)
      table_grad(n, h) = static_cast<float>(double{table_grad(n, h)} +
                                            grid_grad[static_cast<std::size_t>(h * rows + n)]);
}

}  // namespace gnomon
