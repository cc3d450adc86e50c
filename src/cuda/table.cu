#include "gnomon/cuda/table.h"

#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "src/cuda/arguments.h"
#include "src/cuda/launch.h"
#include "src/cuda/table_kernel.h"

namespace gnomon::cuda {
namespace {

constexpr const char* operation = "angles";

// Checks the table [T, R/2], and returns T.
std::int64_t check_table(Arguments& arguments, const Frequencies& frequencies,
                         const Tensor& cos, const Tensor& sin) {
  const std::int64_t pairs = frequencies.host().rotary_dim() / 2;
  arguments.check_rows("cos", cos, 2, 2);
  arguments.check_rows("sin", sin, 2, 2);
  arguments.check_type("sin", sin, cos.dtype);
  if (cos.extent(1) != pairs)
    arguments.refuse_shape("cos", "[T, R/2] with R/2 = " + std::to_string(pairs), cos);
  if (sin.extent(0) != cos.extent(0) || sin.extent(1) != pairs)
    arguments.refuse_shape("sin", "of the shape of cos", sin);
  if (frequencies.device() != arguments.device())
    refuse(operation,
           "frequencies must be on the device cuda:" + std::to_string(arguments.device()),
           "cuda:" + std::to_string(frequencies.device()));
  return cos.extent(0);
}

// Calls body with the element type and the width of vectors.
template <typename Body>
void by_width(const Tensor& cos, const Tensor& sin, const Body& body) {
  by_type(operation, "cos", cos, [&]<typename T>(T) {
    constexpr int whole = 16 / sizeof(T);
    if (cos.extent(1) % whole == 0 && aligned(cos, 16) && aligned(sin, 16))
      return body.template operator()<T, whole>();
    body.template operator()<T, 1>();
  });
}

// Returns a kernel with the table and the frequencies.
template <class Kernel, typename T>
Kernel kernel_of(const Frequencies& frequencies, const Tensor& cos, const Tensor& sin) {
  Kernel kernel{};
  kernel.cos = data<T>(cos);
  kernel.sin = data<T>(sin);
  kernel.cos_row = cos.stride(0);
  kernel.sin_row = sin.stride(0);
  kernel.inv_freq = frequencies.inv_freq();
  kernel.steps = frequencies.steps();
  kernel.scale = frequencies.host().table_scale;
  kernel.tokens = cos.extent(0);
  kernel.pairs = static_cast<std::int32_t>(cos.extent(1));
  return kernel;
}

}  // namespace

void fill_cos_sin(const Frequencies& frequencies, std::int64_t begin, const Tensor& cos,
                  const Tensor& sin, Stream stream) {
  Arguments arguments(operation);
  const std::int64_t tokens = check_table(arguments, frequencies, cos, sin);
  constexpr auto most = static_cast<std::int64_t>(farthest);
  if (begin < -most || begin > most || tokens - 1 > most - begin)
    refuse(operation, "positions must be at most 2^31 in magnitude",
           begin < -most || begin > most ? begin : begin + tokens - 1);
  if (tokens == 0) return;
  by_width(cos, sin, [&]<typename T, int width>() {
    auto kernel = kernel_of<FillRunKernel<T, width>, T>(frequencies, cos, sin);
    kernel.begin = begin;
    constexpr int most_vectors = 64, shared_entries = 3072;  // 48 KB, without opting in
    kernel.pairs_per_block = std::min(kernel.pairs, most_vectors * width);
    const int vectors = kernel.pairs_per_block / width;
    kernel.steps_per_block = std::min(anchor_step, kernel.max_threads / vectors);
    kernel.columns = (kernel.pairs + kernel.pairs_per_block - 1) / kernel.pairs_per_block;
    kernel.parts = (anchor_step + kernel.steps_per_block - 1) / kernel.steps_per_block;
    const std::int64_t first = begin & ~static_cast<std::int64_t>(anchor_step - 1);
    const std::int64_t anchors = (begin + tokens - 1 - first) / anchor_step + 1;
    // Few anchors for each block of a short table, so that all multiprocessors have work.
    // Rounded up: one block more than these would wait for the others.
    const std::int64_t at_once = 2 * std::int64_t{multiprocessors(arguments.device())};
    const std::int64_t share =
        (anchors * kernel.columns * kernel.parts + at_once - 1) / at_once;
    kernel.anchors_per_block = static_cast<std::int32_t>(std::clamp<std::int64_t>(
        share, 1, std::min(16, shared_entries / kernel.pairs_per_block)));
    const std::int64_t groups =
        (anchors + kernel.anchors_per_block - 1) / kernel.anchors_per_block;
    const int threads =
        (vectors * kernel.steps_per_block + warp_size - 1) / warp_size * warp_size;
    const DeviceScope scope(arguments.device());
    launch(kernel,
           {groups * kernel.parts * kernel.columns, threads,
            sizeof(CosSin) *
                static_cast<std::size_t>(kernel.anchors_per_block * kernel.pairs_per_block)},
           stream);
  });
}

void fill_cos_sin(const Frequencies& frequencies, const ConstTensor& positions,
                  const Tensor& cos, const Tensor& sin, Stream stream) {
  Arguments arguments(operation);
  const std::int64_t tokens = check_table(arguments, frequencies, cos, sin);
  arguments.check("positions", positions, 1, 2);
  arguments.check_type("positions", positions, data_type_of<std::int64_t>);
  const Axis token = axis_from_last(positions, 0), axis = axis_from_last(positions, 1);
  if (token.extent != tokens)
    arguments.refuse_shape("positions", "[A, T] with T = " + std::to_string(tokens), positions);
  for (const std::int32_t one : frequencies.host().axes)
    if (one >= axis.extent)
      refuse(operation,
             "positions must have the axes of the frequencies, at least " +
                 std::to_string(one + 1),
             axis.extent);
  if (tokens == 0) return;
  by_width(cos, sin, [&]<typename T, int width>() {
    auto kernel = kernel_of<FillAtKernel<T, width>, T>(frequencies, cos, sin);
    kernel.axes = frequencies.axes();
    kernel.positions = data<const std::int64_t>(positions);
    kernel.axis = axis.stride;
    kernel.token = token.stride;
    constexpr int threads = 128;
    const std::int64_t items = tokens * (kernel.pairs / width);
    const DeviceScope scope(arguments.device());
    launch(kernel, {(items + threads - 1) / threads, threads}, stream);
  });
}

RotaryTable::RotaryTable(const gnomon::RotaryTable& table, int device)
    : pairing_(table.frequencies().pairing),
      head_offset_(table.frequencies().head_offset),
      extents_{table.batch(), table.tokens(), table.frequencies().rotary_dim() / 2},
      // The cosines of a table are followed by its sines.
      values_(std::span(table.cos().data(), 2 * static_cast<std::size_t>(table.cos().size())),
              device) {}

RotaryTable::RotaryTable(const RotaryFrequencies& frequencies, std::int64_t begin,
                         std::int64_t tokens, int device)
    : pairing_(frequencies.pairing),
      head_offset_(frequencies.head_offset),
      extents_{1, tokens, frequencies.rotary_dim() / 2} {
  if (tokens < 0) refuse(operation, "the number of tokens must not be negative", tokens);
  const Frequencies there(frequencies, device);
  values_ = Array<float>(static_cast<std::size_t>(2 * tokens * extents_[2]), device);
  const View<float, 2> cos(values_.data(), {tokens, extents_[2]}),
      sin(values_.data() + tokens * extents_[2], {tokens, extents_[2]});
  const DeviceScope scope(device);
  fill_cos_sin(there, begin, on_device(cos, device), on_device(sin, device));
  synchronize();  // the frequencies are freed
}

ConstTensor RotaryTable::part(std::int64_t begin, std::int32_t rank) const noexcept {
  ConstTensor tensor;
  tensor.data = values_.data() + begin;
  tensor.device = {DeviceType::cuda, values_.device()};
  tensor.rank = rank;
  tensor.dtype = data_type_of<float>;
  tensor.shape = const_cast<std::int64_t*>(extents_) + 3 - rank;
  return tensor;
}

Rotation RotaryTable::rotation(const ConstTensor& positions) const noexcept {
  const std::int32_t rank = extents_[0] == 1 ? 2 : 3;
  return {.pairing = pairing_,
          .head_offset = head_offset_,
          .cos = part(0, rank),
          .sin = part(extents_[0] * extents_[1] * extents_[2], rank),
          .positions = positions};
}

}  // namespace gnomon::cuda
