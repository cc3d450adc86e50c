#include "src/core/overlap.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr std::size_t most_axes = 8;

// The bytes of a tensor: its least address, and the axes that have more than one index.
struct Bytes {
  std::uint64_t begin = 0;
  int64_t element = 0;
  struct Axis {
    int64_t step, extent;  // the step is positive
  };
  std::array<Axis, most_axes> axes;
  std::size_t count = 0;
  bool empty = false, known = true;  // unknown: too many axes

  explicit Bytes(const ConstTensor& tensor) noexcept
      : begin(reinterpret_cast<std::uintptr_t>(tensor.start())),
        element((tensor.dtype.bits * tensor.dtype.lanes + 7) / 8),
        empty(!tensor.data) {
    for (std::int32_t axis = 0; axis < tensor.rank; ++axis) {
      const int64_t extent = tensor.shape[axis];
      if (extent == 0) empty = true;
      if (extent < 2) continue;
      if (count == most_axes) {
        known = false;
        continue;
      }
      int64_t step = tensor.stride(axis) * element;
      if (step < 0) begin += static_cast<std::uint64_t>(step * (extent - 1)), step = -step;
      axes[count++] = {step, extent};
    }
  }
  // Bytes from the least address to the end of the greatest element, without the axes whose
  // steps are multiples of `period`; 0: with all axes.
  int64_t reach(int64_t period) const noexcept {
    int64_t sum = element;
    for (std::size_t i = 0; i < count; ++i)
      if (!period || axes[i].step % period) sum += axes[i].step * (axes[i].extent - 1);
    return sum;
  }
  void drop(int64_t period) noexcept {
    const auto end =
        std::remove_if(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](const Axis& axis) { return axis.step % period == 0; });
    count = static_cast<std::size_t>(end - axes.begin());
  }
};

// Returns the greatest step of both that is less than `below`; 0 if there is none.
int64_t next_step(const Bytes& a, const Bytes& b, int64_t below) noexcept {
  int64_t most = 0;
  for (const Bytes* one : {&a, &b})
    for (std::size_t i = 0; i < one->count; ++i)
      if (one->axes[i].step < below) most = std::max(most, one->axes[i].step);
  return most;
}

}  // namespace

// Modulo a step P, the axes whose steps are multiples of P vanish, and the others are an
// interval of `reach` bytes. If the two intervals are disjoint on the circle of P bytes, the
// tensors are disjoint. If both fit one cell of P bytes, elements in common are in the same
// cell, so these axes vanish for the smaller steps too.
bool may_overlap(const ConstTensor& one, const ConstTensor& other) noexcept {
  Bytes a(one), b(other);
  if (a.empty || b.empty) return false;
  if (a.begin > b.begin) std::swap(a, b);
  // Distance from the first byte of a to that of b.
  auto apart = static_cast<int64_t>(b.begin - a.begin);
  if (b.begin - a.begin >= static_cast<std::uint64_t>(a.reach(0))) return false;
  if (!a.known || !b.known) return true;
  for (int64_t step = next_step(a, b, std::numeric_limits<int64_t>::max()); step > 0;
       step = next_step(a, b, step)) {
    const int64_t of_a = a.reach(step), of_b = b.reach(step), at = (apart % step + step) % step;
    if (of_a <= at && at + of_b <= step) return false;
    // b begins `at` bytes after a, or step - at bytes before it.
    if (std::max(of_a, at + of_b) <= step)
      apart = at;
    else if (std::max(of_a + step - at, of_b) <= step)
      apart = at - step;
    else
      continue;
    a.drop(step), b.drop(step);
  }
  return apart < a.reach(0) && -apart < b.reach(0);
}

bool overlaps_itself(const ConstTensor& tensor) noexcept {
  if (!tensor.strides) return false;
  Bytes bytes(tensor);
  if (bytes.empty) return false;
  if (!bytes.known) return true;
  const auto end = bytes.axes.begin() + static_cast<std::ptrdiff_t>(bytes.count);
  std::sort(bytes.axes.begin(), end,
            [](const auto& a, const auto& b) { return a.step < b.step; });
  int64_t reach = bytes.element;  // extent of the axes so far, in bytes
  for (auto axis = bytes.axes.begin(); axis != end; ++axis) {
    if (axis->step < reach) return true;
    reach += axis->step * (axis->extent - 1);
  }
  return false;
}

bool same_elements(const ConstTensor& a, const ConstTensor& b) noexcept {
  if (a.rank != b.rank || a.dtype != b.dtype || a.start() != b.start()) return false;
  for (std::int32_t axis = 0; axis < a.rank; ++axis)
    if (a.shape[axis] != b.shape[axis] ||
        (a.shape[axis] > 1 && a.stride(axis) != b.stride(axis)))
      return false;
  return true;
}

void check_disjoint(Argument written, const ConstTensor& to, std::string_view other,
                    const ConstTensor& from) {
  if (may_overlap(to, from)) [[unlikely]]
    refuse(written.operation,
           std::string(written.name) + " must not overlap " + std::string(other),
           same_elements(to, from) ? "one array" : "arrays with elements in common");
}

void check_in_place_or_disjoint(Argument written, const ConstTensor& to, std::string_view other,
                                const ConstTensor& from) {
  if (same_elements(to, from)) return;
  if (may_overlap(to, from)) [[unlikely]]
    refuse(written.operation,
           std::string(written.name) + " must be " + std::string(other) +
               " itself, for an operation in place, or must not overlap it",
           "arrays with elements in common");
}

void check_own_places(Argument written, const ConstTensor& to) {
  if (overlaps_itself(to)) [[unlikely]]
    refuse(written.operation,
           std::string(written.name) +
               " must not overlap itself, since it is changed in place, strides",
           gnomon::shape_text(
               std::span<const int64_t>(to.strides, static_cast<std::size_t>(to.rank))));
}

}  // namespace gnomon::internal
