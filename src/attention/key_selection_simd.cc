// Index scores of keys, and the selection of the greatest.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/key_selection_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <vector>

#include "gnomon/parallel.h"
#include "hwy/highway.h"
#include "src/attention/key_selection.h"
#include "src/attention/pack-inl.h"
#include "src/attention/tile.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Scores of keys [first, first + count) for one query. products: [heads, count].
template <typename A>
void AddHeads(std::int64_t heads, std::int64_t count, const A* HWY_RESTRICT products,
              const A* HWY_RESTRICT weights, A* HWY_RESTRICT scores) {
  const hn::ScalableTag<A> tag;
  for (std::int64_t j = 0; j < count; j += static_cast<std::int64_t>(hn::Lanes(tag))) {
    auto sum = hn::Zero(tag);
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto product = hn::Load(tag, products + h * internal::tile_keys + j);
      // Not Max: it may return 0 for a NaN.
      const auto positive = hn::IfThenZeroElse(hn::Lt(product, hn::Zero(tag)), product);
      sum = hn::MulAdd(hn::Set(tag, weights[h]), positive, sum);
    }
    hn::Store(sum, tag, scores + j);
  }
}

template <typename A>
void Select(const internal::SelectionProblem& problem) {
  const AttentionProblem& seen = problem.keys_seen;
  const std::int64_t size = seen.size, heads = seen.heads, keys = seen.keys;
  const std::int64_t tiles = (keys + internal::tile_keys - 1) / internal::tile_keys;
  const std::int64_t panels = internal::tile_keys * size;  // elements of a tile
  const internal::ScratchPool<A> packed(1,
                                        std::max<std::int64_t>(seen.batch * tiles, 1) * panels);
  A* const all = packed.at(0);
  parallel_for(seen.batch * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    const internal::ScratchPool<A> scratch(1, 16 * row_stride(size));
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t first = n % tiles * internal::tile_keys;
      PackKeyRows<A>(seen.k, nullptr, nullptr, n / tiles, first,
                     std::min(internal::tile_keys, keys - first), 0, size, scratch.at(0),
                     {.panels = all + n * panels});
    }
  });
  const std::int64_t work = 1 + keys * heads * size;
  const std::int64_t grain = std::max<std::int64_t>(1, 200'000 / work);
  parallel_for(seen.batch * seen.queries, grain, [&](std::int64_t begin, std::int64_t end) {
    const internal::ScratchPool<A> scratch(1, heads * (row_stride(size) + internal::tile_keys) +
                                                  padded(heads) + tiles * internal::tile_keys);
    A* const rows = scratch.at(0);
    A* const products = rows + heads * row_stride(size);
    A* const weights = products + heads * internal::tile_keys;
    A* const scores = weights + padded(heads);
    std::vector<std::int32_t> order(static_cast<std::size_t>(keys));
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t b = n / seen.queries, t = n % seen.queries;
      const internal::KeyRange range = visible_keys(seen, b, t);
      const std::int64_t count = range.end - range.begin;
      std::int32_t* const to = &problem.selected(b, t, 0);
      if (count > problem.selected.extent(2)) {
        LoadRow(problem.weights, nullptr, b, t, 0, heads, weights);
        for (std::int64_t h = 0; h < heads; ++h)
          LoadRow(seen.q, nullptr, b, t, h, size, rows + h * row_stride(size));
        for (std::int64_t tile = range.begin / internal::tile_keys;
             tile * internal::tile_keys < range.end; ++tile) {
          const std::int64_t first = tile * internal::tile_keys;
          const std::int64_t columns = padded(std::min(internal::tile_keys, range.end - first));
          for (std::int64_t j = 0; j < columns; j += Panel<A>())
            MultiplyRows<Left::by_row, Into::store>(
                Product<A>{.depth = size,
                           .a = rows,
                           .a_stride = row_stride(size),
                           .b = all + (b * tiles + tile) * panels + j * size,
                           .b_row = Panel<A>(),
                           .c = products + j,
                           .c_row = internal::tile_keys},
                heads, Panel<A>() / static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<A>())));
          AddHeads(heads, columns, products, weights, scores + first);
        }
      }
      internal::choose(scores + range.begin, count, order.data(), problem.selected.extent(2),
                       to, problem.selected.stride(2));
      for (std::int64_t i = 0;
           range.begin && i < std::min<std::int64_t>(count, problem.selected.extent(2)); ++i)
        to[i * problem.selected.stride(2)] += static_cast<std::int32_t>(range.begin);
    }
  });
}

void SelectFloat(const internal::SelectionProblem& problem) { Select<float>(problem); }
void SelectDouble(const internal::SelectionProblem& problem) { Select<double>(problem); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(SelectFloat);
HWY_EXPORT(SelectDouble);

void internal::run_selection(const SelectionProblem& problem, float) {
  GNOMON_DISPATCH(SelectFloat)(problem);
}
void internal::run_selection(const SelectionProblem& problem, double) {
  GNOMON_DISPATCH(SelectDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
