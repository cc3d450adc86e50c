// Sums and products along the rows of tiles.

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/walk_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/lane_shifts-inl.h"
#include "src/attention/walk-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// A stick shorter than this is used up. Weights below it are 0.
template <typename A>
constexpr double ShortestStick() {
  return sizeof(A) == 4 ? 0x1p-100 : 0x1p-960;
}

// sigmoid(s ln 2), and the rest 1 - sigmoid, both with a small relative error. -infinity gives
// exactly 0 and 1.
template <class V>
struct Share {
  V gate, rest;
};
template <class Tag, class V>
HWY_INLINE Share<V> Sigmoid(Tag tag, V s) {
  using A = hn::TFromD<Tag>;
  const auto one = hn::Set(tag, A(1));
  const V power = WeightOfScore(tag, hn::Neg(hn::Abs(s)));
  const V greater = hn::Div(one, hn::Add(one, power)), less = hn::Mul(power, greater);
  const auto negative = hn::Lt(s, hn::Zero(tag));
  return {hn::IfThenElse(negative, less, greater), hn::IfThenElse(negative, greater, less)};
}

// The interpolation between the products of two neighbouring positions. The last product is
// stored twice, so position P - 1 has a neighbour.
template <class V>
struct Between {
  V w, low, high;
};
template <typename A, class Tag, class V>
HWY_INLINE Between<V> Neighbours(Tag tag, const A* HWY_RESTRICT products, V position) {
  const hn::RebindToSigned<Tag> integers;
  const V floor = hn::Floor(position);
  const auto index = hn::ConvertTo(integers, floor);
  return {hn::Sub(position, floor), hn::GatherIndex(tag, products, index),
          hn::GatherIndex(tag, products + 1, index)};
}
// The same if all positions lie between `floor` and floor + 1. Small gates make this frequent,
// and gathers are slow.
template <typename A, class Tag, class V>
HWY_INLINE Between<V> Neighbours(Tag tag, const A* HWY_RESTRICT products, V position,
                                 std::int64_t floor) {
  return {hn::Sub(position, hn::Set(tag, static_cast<A>(floor))), hn::Set(tag, products[floor]),
          hn::Set(tag, products[floor + 1])};
}
// Returns the common floor of numbers that fall from `greatest` to `least`, -1 if it differs.
template <typename A>
HWY_INLINE std::int64_t CommonFloor(A greatest, A least, A limit) {
  if (!(greatest < limit)) return -1;
  const auto floor = static_cast<std::int64_t>(greatest);
  return least >= static_cast<A>(floor) ? floor : -1;
}

template <Stores stores, typename A>
HWY_INLINE double ContextualRow(const LaneShifts<A>& shifts, const Columns& seen,
                                const A* HWY_RESTRICT products, std::int64_t last,
                                double running, A* HWY_RESTRICT row, A* HWY_RESTRICT gates,
                                A* HWY_RESTRICT positions) {
  const hn::ScalableTag<A> tag;
  constexpr std::int64_t lanes = LaneShifts<A>::lanes;
  const auto nothing = hn::Set(tag, -std::numeric_limits<A>::infinity());
  const auto limit = hn::Set(tag, static_cast<A>(last));
  const auto start = hn::Set(tag, static_cast<A>(running));
  const double most = static_cast<double>(last);
  A sum = 0;  // of this tile
  std::int64_t j = seen.end;
  while (j > seen.begin && running + static_cast<double>(sum) < most) {
    j -= lanes;
    const auto score = hn::Load(tag, row + j);
    const auto gate = Sigmoid(tag, score).gate;
    const auto sums = hn::Add(hn::Set(tag, sum), shifts.SumsFromRight(gate));
    const A least = sum;
    sum = hn::GetLane(sums);
    if constexpr (stores == Stores::nothing) continue;
    const auto count = hn::Add(start, sums);
    // A NaN becomes the limit, because it must not become an index. Its score is NaN anyway.
    const auto position = hn::IfThenElse(hn::Lt(count, limit), count, limit);
    const A first = static_cast<A>(running);
    const std::int64_t floor = CommonFloor(first + sum, first + least, static_cast<A>(last));
    const auto at = floor < 0 ? Neighbours(tag, products, position)
                              : Neighbours(tag, products, position, floor);
    const auto term = hn::MulAdd(at.w, hn::Sub(at.high, at.low), at.low);
    hn::Store(hn::IfThenElse(hn::Eq(score, nothing), nothing, hn::Add(score, term)), tag,
              row + j);
    if constexpr (stores == Stores::scores_and_gates) {
      hn::Store(gate, tag, gates + j);
      hn::Store(position, tag, positions + j);
    }
  }
  if constexpr (stores != Stores::nothing) {
    const auto term = hn::Set(tag, products[last]);
    for (std::int64_t left = seen.begin; left < j; left += lanes) {
      const auto score = hn::Load(tag, row + left);
      hn::Store(hn::IfThenElse(hn::Eq(score, nothing), nothing, hn::Add(score, term)), tag,
                row + left);
    }
    if constexpr (stores == Stores::scores_and_gates) {
      std::fill(gates + seen.begin, gates + std::max(j, seen.begin), A(0));
      std::fill(positions + seen.begin, positions + std::max(j, seen.begin),
                static_cast<A>(last));
    }
  }
  return running + static_cast<double>(sum);
}

template <Stores stores, typename A>
HWY_INLINE double StickRow(const LaneShifts<A>& shifts, const Columns& seen, double running,
                           A* HWY_RESTRICT row, A* HWY_RESTRICT gates) {
  const hn::ScalableTag<A> tag;
  constexpr std::int64_t lanes = LaneShifts<A>::lanes;
  const A start = static_cast<A>(running);
  const auto least = hn::Set(tag, static_cast<A>(ShortestStick<A>()));
  A product = 1;  // of this tile
  std::int64_t j = seen.end;
  while (j > seen.begin && start * product != A(0)) {
    j -= lanes;
    const auto share = Sigmoid(tag, hn::Load(tag, row + j));
    const auto rests = shifts.ProductsFromRight(share.rest);
    if constexpr (stores != Stores::nothing) {
      const auto stick =
          hn::Mul(hn::Set(tag, start * product), shifts.Down(rests, 0, hn::Set(tag, A(1))));
      const auto weight = hn::Mul(share.gate, stick);
      hn::Store(hn::IfThenZeroElse(hn::Lt(weight, least), weight), tag, row + j);
    }
    if constexpr (stores == Stores::scores_and_gates) hn::Store(share.gate, tag, gates + j);
    product *= hn::GetLane(rests);
    if (start * product < static_cast<A>(ShortestStick<A>())) product = 0;
  }
  if constexpr (stores != Stores::nothing) {
    std::fill(row + seen.begin, row + std::max(j, seen.begin), A(0));
    if constexpr (stores == Stores::scores_and_gates)
      std::fill(gates + seen.begin, gates + std::max(j, seen.begin), A(0));
  }
  return running * static_cast<double>(product);
}

template <Stores stores, typename A>
HWY_INLINE void WalkTile(const TypedProblem<A>& problem, const Tile& tile,
                         const SeenColumns& columns, const WalkRows<A>& walk,
                         const double* starts, std::int64_t first, A* HWY_RESTRICT scores,
                         A* HWY_RESTRICT gates, A* HWY_RESTRICT positions) {
  if (problem.edges.bias)
    return WalkEdges(problem, tile, columns, walk, starts, first, stores, scores, gates);
  const LaneShifts<A> shifts;
  const bool sticks = problem.stick_breaking;
  const std::int64_t last = problem.relative.contextual.positions() - 1;
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    const Columns& seen = columns[i / block_rows];
    if (seen.begin == seen.end) continue;
    A* row = scores + i * tile_keys;
    A* of_gates = gates ? gates + i * tile_keys : nullptr;
    double& running = walk.running[first + i];
    const double start = starts ? starts[first + i] : running;
    running = sticks ? StickRow<stores>(shifts, seen, start, row, of_gates)
                     : ContextualRow<stores>(
                           shifts, seen, walk.products + (first + i) * walk.width, last, start,
                           row, of_gates, positions ? positions + i * tile_keys : nullptr);
  }
}

template <typename A>
void StartWalk(const TypedProblem<A>& problem, const Tile& rows, const A* q,
               const WalkRows<A>& walk, std::int64_t first) {
  const internal::ContextualTable<A>& table = problem.relative.contextual;
  const std::int64_t head = rows.head, heads = rows.heads, queries = rows.queries;
  std::fill_n(walk.running + first, queries * heads, problem.stick_breaking ? 1.0 : 0.0);
  if (problem.edges.bias) return PackEdgeQueries(problem, rows, walk, first);
  if (table.empty()) return;
  const std::int64_t stride = row_stride(problem.size);
  for (std::int64_t h = 0; h < heads; ++h) {
    Product<A> product;
    product.a = q + h * stride, product.a_stride = heads * stride;
    product.b = table.columns(head + h), product.b_row = walk.width;
    product.c = walk.products + (first + h) * walk.width, product.c_row = heads * walk.width;
    for (std::int64_t l = 0; l < problem.size; l += part_products) {
      product.depth = std::min(part_products, problem.size - l);
      if (l)
        Multiply<Left::by_row, Into::add>(product, queries, walk.width);
      else
        Multiply<Left::by_row, Into::store>(product, queries, walk.width);
      product.a += part_products, product.b += part_products * walk.width;
    }
  }
}

bool WalkEnded(const AttentionProblem& problem, const double* running, std::int64_t rows) {
  if (problem.edges.bias) return false;
  const auto most = static_cast<double>(problem.contextual_positions() - 1);
  return std::all_of(running, running + rows, [&](double one) {
    return problem.stick_breaking ? one == 0 : one >= most;
  });
}

template <typename A>
void Walk(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
          const WalkRows<A>& walk, std::int64_t first, A* scores) {
  WalkTile<Stores::scores, A>(problem, tile, columns, walk, nullptr, first, scores, nullptr,
                              nullptr);
}

template <typename A>
void WalkBackward(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                  const BackwardWalk<A>& walk, const double* starts, std::int64_t first,
                  A* scores) {
  WalkTile<Stores::scores_and_gates, A>(problem, tile, columns, walk, starts, first, scores,
                                        walk.gates, walk.positions);
}

template <typename A>
void WalkPast(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
              const BackwardWalk<A>& walk, std::int64_t first, A* scores) {
  WalkTile<Stores::nothing, A>(problem, tile, columns, walk, nullptr, first, scores, nullptr,
                               nullptr);
}

// With the positions p and the products L of a row: d gate_l = sum over j <= l of dS_j
// (L[ceil p_j] - L[floor p_j]).
template <typename A>
void GateBackward(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                  const BackwardWalk<A>& walk, std::int64_t first, A* score_grad) {
  const hn::ScalableTag<A> tag;
  const LaneShifts<A> shifts;
  constexpr std::int64_t lanes = LaneShifts<A>::lanes;
  const A last = static_cast<A>(problem.relative.contextual.positions() - 1);
  const auto unit = hn::Set(tag, static_cast<A>(ln_of_2)), one = hn::Set(tag, A(1));
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    const Columns& seen = columns[i / block_rows];
    if (seen.begin == seen.end) continue;
    A* HWY_RESTRICT grad = score_grad + i * tile_keys;
    const A* HWY_RESTRICT gates = walk.gates + i * tile_keys;
    const A* HWY_RESTRICT positions = walk.positions + i * tile_keys;
    const A* products = walk.products + (first + i) * walk.width;
    A* HWY_RESTRICT product_grad = walk.product_grad + (first + i) * walk.width;
    A& total = walk.gradient[first + i];
    std::int64_t j = seen.begin;
    auto sum = hn::Zero(tag);
    // Positions fall from left to right: the first keys may all be at the last position.
    for (; j < seen.end && positions[j + lanes - 1] == last; j += lanes)
      sum = hn::Add(sum, hn::Load(tag, grad + j));
    product_grad[problem.relative.contextual.positions() - 1] += SumLanes(tag, sum);
    for (; j < seen.end; j += lanes) {
      const auto of_score = hn::Load(tag, grad + j), gate = hn::Load(tag, gates + j);
      const auto position = hn::Load(tag, positions + j);
      const std::int64_t floor = CommonFloor(positions[j], positions[j + lanes - 1], last);
      const auto at = floor < 0 ? Neighbours(tag, products, position)
                                : Neighbours(tag, products, position, floor);
      // As in the code of the paper, where both neighbours of an integer are the integer.
      const auto slope = hn::IfThenZeroElse(hn::Eq(at.w, hn::Zero(tag)),
                                            hn::Mul(unit, hn::Sub(at.high, at.low)));
      const auto sums =
          hn::Add(hn::Set(tag, total), shifts.SumsFromLeft(hn::Mul(of_score, slope)));
      const auto through = hn::Mul(hn::Mul(gate, hn::Sub(one, gate)), sums);
      const auto of_high = hn::Mul(of_score, at.w), of_low = hn::Sub(of_score, of_high);
      if (floor < 0) {
        HWY_ALIGN A low[lanes], high[lanes];
        hn::Store(of_low, tag, low);
        hn::Store(of_high, tag, high);
        for (std::int64_t l = 0; l < lanes; ++l) {
          const auto n = static_cast<std::int64_t>(positions[j + l]);
          product_grad[n] += low[l], product_grad[n + 1] += high[l];
        }
      } else {
        product_grad[floor] += SumLanes(tag, of_low);
        product_grad[floor + 1] += SumLanes(tag, of_high);
      }
      // A hidden key has a gate of 0.
      hn::Store(hn::Add(of_score, hn::IfThenZeroElse(hn::Eq(gate, hn::Zero(tag)), through)),
                tag, grad + j);
      total = LaneShifts<A>::Last(sums);
    }
  }
}

// With G = weight x gradient of the weight: dz_m = G_m - gate_m times the sum of G_j, j <= m.
template <typename A>
void StickBackward(const Tile& tile, const SeenColumns& columns, const Columns& all,
                   const BackwardWalk<A>& walk, std::int64_t first, A* weights, A* score_grad) {
  const hn::ScalableTag<A> tag;
  const LaneShifts<A> shifts;
  constexpr std::int64_t lanes = LaneShifts<A>::lanes;
  const auto zero = hn::Zero(tag);
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    A* HWY_RESTRICT weight = weights + i * tile_keys;
    A* HWY_RESTRICT grad = score_grad + i * tile_keys;
    const A* HWY_RESTRICT gates = walk.gates + i * tile_keys;
    const Columns& seen = columns[i / block_rows];
    const bool none = seen.begin == seen.end;
    const std::int64_t begin = none ? all.end : seen.begin, end = none ? all.end : seen.end;
    std::fill(weight + all.begin, weight + begin, A(0));
    std::fill(grad + all.begin, grad + begin, A(0));
    A& total = walk.gradient[first + i];
    for (std::int64_t j = begin; j < end; j += lanes) {
      const auto of_weight = hn::Load(tag, weight + j), gate = hn::Load(tag, gates + j);
      const auto whole = hn::IfThenZeroElse(hn::Eq(of_weight, zero),
                                            hn::Mul(of_weight, hn::Load(tag, grad + j)));
      const auto sums = hn::Add(hn::Set(tag, total), shifts.SumsFromLeft(whole));
      hn::Store(hn::IfThenZeroElse(hn::Eq(gate, zero), hn::NegMulAdd(gate, sums, whole)), tag,
                grad + j);
      total = LaneShifts<A>::Last(sums);
    }
    std::fill(weight + end, weight + all.end, A(0));
    std::fill(grad + end, grad + all.end, A(0));
  }
}

template <typename A>
void FinishWalk(const TypedProblem<A>& problem, std::int64_t head, std::int64_t rows,
                const BackwardWalk<A>& walk, std::int64_t first, const A* q, A* q_grad,
                A* sums) {
  const internal::ContextualTable<A>& table = problem.relative.contextual;
  if (table.empty()) return;
  const std::int64_t stride = row_stride(problem.size), size = padded(problem.size);
  Product<A> product;
  product.depth = table.positions();
  product.a = walk.product_grad + first * walk.width, product.a_stride = walk.width;
  product.b = table.rows(head), product.b_row = stride;
  product.c = q_grad, product.c_row = stride;
  Multiply<Left::by_row, Into::add>(product, rows, size);
  if (!sums) return;
  product.depth = rows, product.factors = FactorsOf(q, rows, problem.size);
  product.b = q, product.c = sums;
  Multiply<Left::by_column, Into::add>(product, table.positions(), size);
}

#define GNOMON_WALK(A)                                                                       \
  template void StartWalk(const TypedProblem<A>&, const Tile&, const A*, const WalkRows<A>&, \
                          std::int64_t);                                                     \
  template void Walk(const TypedProblem<A>&, const Tile&, const SeenColumns&,                \
                     const WalkRows<A>&, std::int64_t, A*);                                  \
  template void WalkBackward(const TypedProblem<A>&, const Tile&, const SeenColumns&,        \
                             const BackwardWalk<A>&, const double*, std::int64_t, A*);       \
  template void WalkPast(const TypedProblem<A>&, const Tile&, const SeenColumns&,            \
                         const BackwardWalk<A>&, std::int64_t, A*);                          \
  template void GateBackward(const TypedProblem<A>&, const Tile&, const SeenColumns&,        \
                             const BackwardWalk<A>&, std::int64_t, A*);                      \
  template void StickBackward(const Tile&, const SeenColumns&, const Columns&,               \
                              const BackwardWalk<A>&, std::int64_t, A*, A*);                 \
  template void FinishWalk(const TypedProblem<A>&, std::int64_t, std::int64_t,               \
                           const BackwardWalk<A>&, std::int64_t, const A*, A*, A*);
GNOMON_WALK(float)
GNOMON_WALK(double)
#undef GNOMON_WALK

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
