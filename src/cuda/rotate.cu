#include "src/cuda/rotate.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/error.h"
#include "src/core/angles.h"

namespace gnomon::cuda {
namespace {

constexpr const char* operation = "rotary";
constexpr std::int64_t shared_floats = 12 << 10;  // 48 KB, without opting in

void check_enums(Pairing pairing, Direction direction) {
  if (pairing != Pairing::halves && pairing != Pairing::adjacent)
    refuse(operation, "pairing must be halves or adjacent", static_cast<int>(pairing));
  if (direction != Direction::forward && direction != Direction::inverse)
    refuse(operation, "direction must be forward or inverse", static_cast<int>(direction));
}

// The tensors of a call; k may have no data.
struct QueryKey {
  const ConstTensor &q, &k;
};

TokenShape check_pair(Arguments& arguments, const char* name, const QueryKey& x,
                      std::int64_t head_offset, std::int64_t rotary_dim) {
  const TokenShape rows = check_heads(arguments, name, x.q, head_offset, rotary_dim);
  if (!x.k.shape) return rows;
  if (check_heads(arguments, "k", x.k, head_offset, rotary_dim) != rows)
    arguments.refuse_shape("k",
                           "of the rows and tokens of q, " + std::to_string(rows.batch) +
                               " and " + std::to_string(rows.tokens),
                           x.k);
  arguments.check_type("k", x.k, x.q.dtype);
  return rows;
}

template <typename T, Pairing pairing, int width, int group, class Angles>
void launch_kernel(const QueryKey& x, const Angles& angles, const TokenShape& rows,
                   std::int64_t offset, std::int64_t pairs, Direction direction, int device,
                   Stream stream) {
  RotateKernel<T, pairing, width, group, Angles> kernel{};
  kernel.q = heads_of<T>(x.q, offset);
  if (x.k.shape) kernel.k = heads_of<T>(x.k, offset);
  kernel.angles = angles;
  kernel.tokens = static_cast<std::uint32_t>(rows.batch * rows.tokens);
  kernel.pairs = static_cast<std::int32_t>(pairs);
  kernel.q_groups = (kernel.q.count + group - 1) / group;
  const std::int64_t groups = kernel.q_groups + (kernel.k.count + group - 1) / group;
  kernel.sign = direction == Direction::forward ? 1.0f : -1.0f;
  if (kernel.tokens == 0 || groups == 0) return;
  kernel.tokens_per_row = Divisor(rows.tokens);
  kernel.vectors = Divisor(pairs / width);
  kernel.per_token = Divisor(groups * (pairs / width));
  const std::int64_t most_tokens =
      Angles::in_shared ? std::max<std::int64_t>(1, shared_floats / 2 / pairs) : 64;
  const Division division =
      divide(kernel.tokens, groups * (pairs / width), most_tokens, device);
  kernel.division = division;
  const auto shared =
      static_cast<std::size_t>(Angles::in_shared ? 8 * pairs * division.tokens_per_block : 0);
  const DeviceScope scope(device);
  launch(kernel, {division.blocks, division.threads, shared}, stream);
}

template <typename T, Pairing pairing, class Angles>
void by_width(const QueryKey& x, const Angles& angles, const TokenShape& rows,
              std::int64_t offset, std::int64_t pairs, int width, Direction direction,
              int device, Stream stream) {
  constexpr int whole = 16 / sizeof(T), part = 4 / sizeof(T);
  const auto go = [&]<int w, int group>() {
    launch_kernel<T, pairing, w, group>(x, angles, rows, offset, pairs, direction, device,
                                        stream);
  };
  if (width < part) return go.template operator()<1, 1>();
  if (width < whole) return go.template operator()<part, 1>();
  // Groups of heads share loads of cos and sin. Few tokens need more threads instead. Larger
  // groups need more registers: a multiprocessor then has less memory traffic under way.
  constexpr int group = 16 / whole;
  const std::int64_t heads =
      axis_from_last(x.q, 1).extent + (x.k.shape ? axis_from_last(x.k, 1).extent : 0);
  const std::int64_t items = rows.batch * rows.tokens * heads * (pairs / whole) / group;
  if (items >= busy * multiprocessors(device)) return go.template operator()<whole, group>();
  go.template operator()<whole, 1>();
}

template <class Angles>
void start(const QueryKey& x, const Angles& angles, const TokenShape& rows, Pairing pairing,
           std::int64_t offset, std::int64_t pairs, int width, Direction direction, int device,
           Stream stream) {
  by_type(operation, "x", x.q, [&]<typename T>(T) {
    if (pairing == Pairing::halves)
      by_width<T, Pairing::halves>(x, angles, rows, offset, pairs, width, direction, device,
                                   stream);
    else
      by_width<T, Pairing::adjacent>(x, angles, rows, offset, pairs, width, direction, device,
                                     stream);
  });
}

void rotate_pair(const char* name, const QueryKey& x, const Rotation& rotation,
                 Direction direction, Stream stream) {
  check_enums(rotation.pairing, direction);
  Arguments arguments(operation);
  arguments.check_rows("cos", rotation.cos, 2, 3);
  const std::int64_t pairs = axis_from_last(rotation.cos, 0).extent;
  const TokenShape rows = check_pair(arguments, name, x, rotation.head_offset, 2 * pairs);
  const TableAngles angles = check_table(arguments, rotation, rows);
  int width = width_of({&x.q, &x.k}, pairs, rotation.head_offset);
  // The table is read in vectors of up to 16 bytes, too.
  const std::int64_t table = std::min<std::int64_t>(16, std::int64_t{4} * width);
  if (!aligned(rotation.cos, table) || !aligned(rotation.sin, table)) width = 1;
  start(x, angles, rows, rotation.pairing, rotation.head_offset, pairs, width, direction,
        arguments.device(), stream);
}

void rotate_pair_at(const char* name, const QueryKey& x, const ConstTensor& positions,
                    const Frequencies& frequencies, Direction direction, Stream stream) {
  const RotaryFrequencies& host = frequencies.host();
  check_enums(host.pairing, direction);
  Arguments arguments(operation);
  const TokenShape rows = check_pair(arguments, name, x, host.head_offset, host.rotary_dim());
  const ComputedAngles angles = check_positions(arguments, positions, frequencies, rows);
  const std::int64_t pairs = host.rotary_dim() / 2;
  start(x, angles, rows, host.pairing, host.head_offset, pairs,
        width_of({&x.q, &x.k}, pairs, host.head_offset), direction, arguments.device(), stream);
}

template <typename T, Pairing pairing, int width>
void launch_to(const ConstTensor& x, const Tensor& out, const AnyAngles& angles,
               const TokenShape& rows, std::int64_t offset, std::int64_t pairs,
               Direction direction, int device, Stream stream) {
  RotateToKernel<T, pairing, width> kernel{};
  kernel.x = heads_of<const T>(x, 0);
  kernel.out = heads_of<T>(out, 0);
  kernel.angles = angles;
  kernel.tokens = static_cast<std::uint32_t>(rows.batch * rows.tokens);
  kernel.pairs = static_cast<std::int32_t>(pairs);
  kernel.head_offset = static_cast<std::int32_t>(offset);
  kernel.sign = direction == Direction::forward ? 1.0f : -1.0f;
  const std::int64_t per_head = (axis_from_last(x, 0).extent - pairs) / width;
  const std::int64_t items = kernel.x.count * per_head;
  if (kernel.tokens == 0 || items == 0) return;
  kernel.tokens_per_row = Divisor(rows.tokens);
  kernel.per_head = Divisor(per_head);
  kernel.per_token = Divisor(items);
  kernel.division = divide(kernel.tokens, items, most_tokens(angles, pairs), device);
  const DeviceScope scope(device);
  launch(kernel,
         {kernel.division.blocks, kernel.division.threads,
          shared_bytes(angles, pairs, kernel.division.tokens_per_block)},
         stream);
}

// check_angles(arguments, rows): returns the angles.
template <typename CheckAngles>
void rotate_to(const ConstTensor& x, const Tensor& out, Pairing pairing, std::int64_t offset,
               std::int64_t pairs, Direction direction, const CheckAngles& check_angles,
               Stream stream) {
  check_enums(pairing, direction);
  Arguments arguments(operation);
  const TokenShape rows = check_heads(arguments, "x", x, offset, 2 * pairs);
  arguments.check_rows("out", out, x.rank, x.rank);
  arguments.check_type("out", out, x.dtype);
  for (std::int32_t axis = 0; axis < x.rank; ++axis)
    if (out.extent(axis) != x.extent(axis))
      arguments.refuse_shape("out", "of the shape of x", out);
  const AnyAngles angles = check_angles(arguments, rows);
  const std::int64_t rest = axis_from_last(x, 0).extent - 2 * pairs;
  const int width = width_of({&x, &out}, pairs, offset);
  by_type(operation, "x", x, [&]<typename T>(T) {
    constexpr int whole = 16 / sizeof(T);
    const auto go = [&]<Pairing p>() {
      if (width == whole && rest % whole == 0 && in_vectors(angles))
        return launch_to<T, p, whole>(x, out, angles, rows, offset, pairs, direction,
                                      arguments.device(), stream);
      launch_to<T, p, 1>(x, out, angles, rows, offset, pairs, direction, arguments.device(),
                         stream);
    };
    if (pairing == Pairing::halves) return go.template operator()<Pairing::halves>();
    go.template operator()<Pairing::adjacent>();
  });
}

}  // namespace

TokenShape check_heads(Arguments& arguments, std::string_view name, const ConstTensor& x,
                       std::int64_t head_offset, std::int64_t rotary_dim) {
  arguments.check_rows(name, x, 3, 4);
  const std::int64_t size = axis_from_last(x, 0).extent;
  if (head_offset < 0)
    refuse(arguments.operation(), "head_offset must not be negative", head_offset);
  if (size - rotary_dim < head_offset)
    refuse(arguments.operation(),
           std::string(name) +
               " must have at least head_offset + rotary_dim = " + std::to_string(head_offset) +
               " + " + std::to_string(rotary_dim) + " elements per head",
           size);
  constexpr std::int64_t most_elements = 1 << 28;  // items of a token are counted in 32 bits
  const std::int64_t heads = axis_from_last(x, 1).extent;
  if (size > most_elements || heads > most_elements || heads * size > most_elements ||
      rotary_dim > 12 << 10)
    arguments.refuse_shape(
        name, "of at most 2^28 elements per token, with rotary_dim at most 12288", x);
  const TokenShape rows{axis_from_last(x, 3).extent, axis_from_last(x, 2).extent};
  constexpr std::int64_t most = 0x7fffffff;
  if (rows.batch > most || (rows.batch > 0 && rows.tokens > most / rows.batch))
    arguments.refuse_shape(name, "of fewer than 2^31 tokens", x);
  return rows;
}

TableAngles check_table(Arguments& arguments, const Rotation& rotation,
                        const TokenShape& rows) {
  const ConstTensor &cos = rotation.cos, &sin = rotation.sin, &positions = rotation.positions;
  arguments.check_rows("cos", cos, 2, 3);
  arguments.check_type("cos", cos, data_type_of<float>);
  arguments.check_rows("sin", sin, 2, 3);
  arguments.check_type("sin", sin, data_type_of<float>);
  bool same = sin.rank == cos.rank;
  for (std::int32_t axis = 0; same && axis < cos.rank; ++axis)
    same = sin.extent(axis) == cos.extent(axis) &&
           (sin.extent(axis) < 2 || sin.stride(axis) == cos.stride(axis));
  if (!same) arguments.refuse_shape("sin", "of the shape and the strides of cos", sin);
  const Axis token = axis_from_last(cos, 1), row = axis_from_last(cos, 2);
  TableAngles angles{.cos = data<const float>(cos),
                     .sin = data<const float>(sin),
                     .row = row.extent == 1 ? 0 : row.stride,
                     .token = token.stride,
                     .positions = nullptr,
                     .position_row = 0,
                     .position_token = 0,
                     .rows = token.extent};
  if (positions.shape) {
    if (cos.rank != 2) arguments.refuse_shape("cos", "[N, R/2] if positions are given", cos);
    arguments.check("positions", positions, 1, 2);
    arguments.check_type("positions", positions, data_type_of<std::int64_t>);
    const Axis at = axis_from_last(positions, 0), of = axis_from_last(positions, 1);
    if (at.extent != rows.tokens || (of.extent != 1 && of.extent != rows.batch))
      arguments.refuse_shape("positions",
                             "[B or 1, T] with B = " + std::to_string(rows.batch) +
                                 " and T = " + std::to_string(rows.tokens),
                             positions);
    angles.positions = data<const std::int64_t>(positions);
    angles.position_row = of.extent == 1 ? 0 : of.stride;
    angles.position_token = at.stride;
    return angles;
  }
  if (token.extent != rows.tokens || (row.extent != 1 && row.extent != rows.batch))
    arguments.refuse_shape("cos",
                           "[B or 1, T, R/2] with B = " + std::to_string(rows.batch) +
                               " and T = " + std::to_string(rows.tokens),
                           cos);
  return angles;
}

ComputedAngles check_positions(Arguments& arguments, const ConstTensor& positions,
                               const Frequencies& frequencies, const TokenShape& rows) {
  arguments.check("positions", positions, 1, 3);
  arguments.check_type("positions", positions, data_type_of<std::int64_t>);
  const Axis token = axis_from_last(positions, 0), row = axis_from_last(positions, 1),
             axis = axis_from_last(positions, 2);
  if (token.extent != rows.tokens || (row.extent != 1 && row.extent != rows.batch))
    arguments.refuse_shape("positions",
                           "[A, B or 1, T] with B = " + std::to_string(rows.batch) +
                               " and T = " + std::to_string(rows.tokens),
                           positions);
  for (const std::int32_t one : frequencies.host().axes)
    if (one >= axis.extent)
      refuse(arguments.operation(),
             "positions must have the axes of the frequencies, at least " +
                 std::to_string(one + 1),
             axis.extent);
  if (frequencies.device() != arguments.device())
    refuse(arguments.operation(),
           "frequencies must be on the device cuda:" + std::to_string(arguments.device()),
           "cuda:" + std::to_string(frequencies.device()));
  return {.positions = data<const std::int64_t>(positions),
          .axis = axis.stride,
          .row = row.extent == 1 ? 0 : row.stride,
          .token = token.stride,
          .inv_freq = frequencies.inv_freq(),
          .axes = frequencies.axes(),
          .scale = frequencies.host().table_scale};
}

int width_of(std::initializer_list<const ConstTensor*> tensors, std::int64_t pairs,
             std::int64_t head_offset) {
  for (const std::int64_t bytes : {16, 4}) {
    bool fits = true;
    std::int64_t elements = 1;
    for (const ConstTensor* const one : tensors) {
      if (!one->shape) continue;
      elements = bytes * 8 / one->dtype.bits;
      fits &= pairs % elements == 0 && head_offset % elements == 0 && aligned(*one, bytes);
    }
    if (fits) return static_cast<int>(elements);
  }
  return 1;
}

Division divide(std::int64_t tokens, std::int64_t items, std::int64_t most_tokens, int device) {
  constexpr int least_threads = 96, most_threads = 256;
  // If all items can be under way at once, no thread has more than one.
  const bool few = tokens * items <= busy * multiprocessors(device);
  Division best;
  std::int64_t parts = 1;
  double best_share = -1;
  for (int threads = least_threads; threads <= most_threads; threads += 32)
    for (std::int64_t some = 1; some <= std::min(most_tokens, tokens); ++some) {
      const std::int64_t rounds = (some * items + threads - 1) / threads;
      if (rounds > (few ? 1 : 2) && some > 1) break;  // smaller blocks are better balanced
      // The share of threads that have an item; fewer rounds win at equal shares.
      const double share =
          static_cast<double>(some * items) / static_cast<double>(rounds * threads) -
          0.01 * static_cast<double>(rounds) - 1e-5 * std::abs(threads - 160);
      if (share <= best_share) continue;
      best_share = share;
      best.threads = threads;
      best.tokens_per_block = static_cast<std::int32_t>(some);
      parts = few ? rounds : 1;
    }
  best.parts = Divisor(parts);
  best.blocks = (tokens + best.tokens_per_block - 1) / best.tokens_per_block * parts;
  return best;
}

Frequencies::Frequencies(const RotaryFrequencies& frequencies, int device)
    : host_(frequencies) {
  if (frequencies.inv_freq.empty())
    refuse(operation, "inv_freq must not be empty", "no frequencies");
  check_enums(frequencies.pairing, Direction::forward);
  internal::check_frequencies(frequencies.inv_freq);
  if (!frequencies.growth.empty())
    refuse(operation, "growth must be empty for rotation without a table",
           std::ssize(frequencies.growth));
  if (!frequencies.axes.empty() && frequencies.axes.size() != frequencies.inv_freq.size())
    refuse(operation, "axes must have the size of inv_freq", std::ssize(frequencies.axes));
  for (const std::int32_t axis : frequencies.axes)
    if (axis < 0) refuse(operation, "axes must not be negative", axis);
  inv_freq_ = Array<double>(frequencies.inv_freq, device);
  std::vector<std::int64_t> positions(anchor_step);
  std::iota(positions.begin(), positions.end(), 0);
  const auto pairs = static_cast<std::ptrdiff_t>(frequencies.inv_freq.size());
  std::vector<double> steps(2 * anchor_step * frequencies.inv_freq.size());
  fill_cos_sin<double>(std::span<const std::int64_t>(positions), frequencies.inv_freq,
                       {steps.data(), {anchor_step, pairs}},
                       {steps.data() + anchor_step * pairs, {anchor_step, pairs}});
  steps_ = Array<double>(steps, device);
  if (!frequencies.axes.empty()) axes_ = Array<std::int32_t>(frequencies.axes, device);
}

void rotate(const Tensor& q, const Tensor& k, const Rotation& rotation, Direction direction,
            Stream stream) {
  if (!k.shape) refuse(operation, "k must be given", "no tensor");
  rotate_pair("q", {q, k}, rotation, direction, stream);
}
void rotate(const Tensor& x, const Rotation& rotation, Direction direction, Stream stream) {
  rotate_pair("x", {x, Tensor()}, rotation, direction, stream);
}
void rotate(const ConstTensor& x, const Rotation& rotation, Direction direction,
            const Tensor& out, Stream stream) {
  Arguments before(operation);
  before.check_rows("cos", rotation.cos, 2, 3);
  rotate_to(
      x, out, rotation.pairing, rotation.head_offset, axis_from_last(rotation.cos, 0).extent,
      direction,
      [&](Arguments& arguments, const TokenShape& rows) {
        return AnyAngles{check_table(arguments, rotation, rows), {}, 1};
      },
      stream);
}
void rotate_at(const ConstTensor& x, const ConstTensor& positions,
               const Frequencies& frequencies, Direction direction, const Tensor& out,
               Stream stream) {
  const RotaryFrequencies& host = frequencies.host();
  rotate_to(
      x, out, host.pairing, host.head_offset, host.rotary_dim() / 2, direction,
      [&](Arguments& arguments, const TokenShape& rows) {
        return AnyAngles{{}, check_positions(arguments, positions, frequencies, rows), 0};
      },
      stream);
}
void rotate_at(const Tensor& q, const Tensor& k, const ConstTensor& positions,
               const Frequencies& frequencies, Direction direction, Stream stream) {
  if (!k.shape) refuse(operation, "k must be given", "no tensor");
  rotate_pair_at("q", {q, k}, positions, frequencies, direction, stream);
}
void rotate_at(const Tensor& x, const ConstTensor& positions, const Frequencies& frequencies,
               Direction direction, Stream stream) {
  rotate_pair_at("x", {x, Tensor()}, positions, frequencies, direction, stream);
}

}  // namespace gnomon::cuda
