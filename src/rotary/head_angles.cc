#include "gnomon/rotary/head_angles.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/token_angles.h"
#include "src/core/size.h"
#include "src/core/tensor.h"
#include "src/rotary/check.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

constexpr internal::Argument head_argument(std::string_view name) {
  return {"head_angles", name};
}

void check(const HeadFrequencies& f) {
  rotary_internal::check_pairing(f.pairing);
  if (f.head_offset < 0)
    refuse("head_angles", "head_offset must not be negative", f.head_offset);
  if (f.heads < 1) refuse("head_angles", "heads must be at least 1", f.heads);
  if (f.axes < 1) refuse("head_angles", "axes must be at least 1", f.axes);
  const int64_t size = std::ssize(f.inv_freq);
  if (size == 0 || size % f.heads || size / f.heads % f.axes)
    refuse("head_angles",
           "inv_freq must have R/2 elements for each of " + std::to_string(f.heads) +
               " heads and " + std::to_string(f.axes) + " axes",
           size);
  for (const double one : f.inv_freq)
    if (!std::isfinite(one)) refuse("head_angles", "inv_freq must be finite", one);
  if (!f.phases.empty() && std::ssize(f.phases) != f.heads)
    refuse("head_angles", "phases must be empty or one for each of the heads",
           std::ssize(f.phases));
  for (const double one : f.phases)
    if (!std::isfinite(one)) refuse("head_angles", "phases must be finite", one);
}

// The four axes of x, [1, T, H, D] for [T, H, D].
template <typename T>
View<const T, 4> read_heads(const char* name, const ConstTensor& x, const HeadAngles& angles) {
  const auto heads = internal::read_batch<T, 4>(head_argument(name), x);
  const int64_t own = angles.frequencies().heads;
  if (heads.extent(1) != angles.tokens())
    refuse("head_angles",
           std::string(name) + " must have the tokens of the positions, " +
               std::to_string(angles.tokens()),
           int64_t{heads.extent(1)});
  if (angles.batch() != 1 && heads.extent(0) != angles.batch())
    refuse("head_angles",
           std::string(name) + " must have the rows of the positions, " +
               std::to_string(angles.batch()),
           int64_t{heads.extent(0)});
  if (heads.extent(2) % own)
    refuse("head_angles",
           "the heads of " + std::string(name) + " must be a multiple of " +
               std::to_string(own) + ", which have angles of their own",
           int64_t{heads.extent(2)});
  return heads;
}

}  // namespace

HeadAngles::HeadAngles(HeadFrequencies frequencies, std::span<const Positions> axes) {
  check(frequencies);
  if (std::ssize(axes) != frequencies.axes)
    refuse("head_angles",
           "there must be positions on " + std::to_string(frequencies.axes) + " axes",
           std::ssize(axes));
  for (const Positions& one : axes) {
    rotary_internal::check(one);
    if (one.batch != axes[0].batch || one.tokens != axes[0].tokens)
      refuse("head_angles", "the positions of all axes must have the same shape", one.tokens);
  }
  frequencies_ = std::make_shared<const HeadFrequencies>(std::move(frequencies));
  axes_ = std::make_shared<const std::vector<Positions>>(axes.begin(), axes.end());
}

void HeadAngles::angles(int64_t b, int64_t begin, int64_t count, std::span<double> out) const {
  const HeadFrequencies& f = *frequencies_;
  const int64_t pairs = f.rotary_dim() / 2;
  parallel_for(count, 64, [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t)
      for (int64_t h = 0; h < f.heads; ++h) {
        double* const angle = out.data() + (t * f.heads + h) * pairs;
        std::fill_n(angle, pairs, f.phases.empty() ? 0.0 : f.phases[to_size(h)]);
        for (int64_t a = 0; a < f.axes; ++a) {
          const double* const rates = f.inv_freq.data() + (h * f.axes + a) * pairs;
          const auto at =
              static_cast<double>((*axes_)[to_size(a)].ids[to_size(b * tokens() + begin + t)]);
          for (int64_t i = 0; i < pairs; ++i) angle[i] += at * rates[i];
        }
      }
  });
}

void rotate(const Tensor& x, const HeadAngles& angles, Direction direction) {
  const HeadFrequencies& f = angles.frequencies();
  const int64_t pairs = f.rotary_dim() / 2, tokens = angles.tokens(), batch = angles.batch();
  const TokenRotation rotation{
      .rotary_dim = 2 * pairs, .pairing = f.pairing, .head_offset = f.head_offset};
  const int64_t block = std::clamp<int64_t>((int64_t{1} << 20) / (f.heads * pairs), 1,
                                            std::max<int64_t>(tokens, 1));
  std::vector<double> memory(to_size(block * f.heads * pairs));
  internal::by_type(head_argument("x"), x, [&]<typename T>(T) {
    read_heads<T>("x", x, angles);
    const View<T, 4> all = internal::write_batch<T, 4>(head_argument("x"), x);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; t += block) {
        const int64_t count = std::min(block, tokens - t);
        angles.angles(b, t, count, memory);
        const View<const double, 4> some(memory.data(), {1, count, f.heads, pairs});
        const View<T, 4> rows = batch == 1 ? all : all.slice(0, b, 1);
        rotate_by_angles(rows.slice(1, t, count), some, rotation, direction);
      }
  });
}

void frequencies_backward(const ConstTensor& rotated, const ConstTensor& grad_rotated,
                          const HeadAngles& angles, std::span<double> grad) {
  const HeadFrequencies& f = angles.frequencies();
  const int64_t pairs = f.rotary_dim() / 2;
  if (grad.size() != f.inv_freq.size())
    refuse("head_angles", "grad must have " + std::to_string(f.inv_freq.size()) + " elements",
           std::ssize(grad));
  const RotaryFrequencies one{.pairing = f.pairing,
                              .head_offset = f.head_offset,
                              .inv_freq = std::vector<double>(to_size(pairs))};
  internal::by_type(head_argument("rotated"), rotated, [&]<typename T>(T) {
    const View<const T, 4> x = read_heads<T>("rotated", rotated, angles),
                           x_grad = read_heads<T>("grad_rotated", grad_rotated, angles);
    internal::check_shape("head_angles", "grad_rotated", x_grad.extents(), x.extents());
    const int64_t group = x.extent(2) / f.heads;
    for (int64_t h = 0; h < f.heads; ++h)
      for (int64_t a = 0; a < f.axes; ++a)
        frequencies_backward(x.slice(2, h * group, group), x_grad.slice(2, h * group, group),
                             one, angles.axes().subspan(to_size(a), 1),
                             grad.subspan(to_size((h * f.axes + a) * pairs), to_size(pairs)));
  });
}

}  // namespace gnomon
