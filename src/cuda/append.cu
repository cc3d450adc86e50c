#include "gnomon/cuda/append.h"

#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "src/cuda/append_kernel.h"
#include "src/cuda/rotate.h"

namespace gnomon::cuda {
namespace {

constexpr const char* operation = "rotate_append";
constexpr DataType float8{TypeCode::float8_e4m3fn, 8}, byte = data_type_of<std::uint8_t>;

bool is_float8(DataType type) { return type == float8 || type == byte; }

// The arguments of a call, checked.
struct Append {
  const ConstTensor &q, &k, &v;
  const PagedCache& cache;
  TokenShape rows;
  Pairing pairing;
  std::int64_t head_offset, pairs;
  AnyAngles angles;
  Places places;
  int device;
};

// Checks an integer tensor [T] or [B, T] with a number for each token.
void check_tokens(Arguments& arguments, const char* name, const ConstTensor& tensor,
                  const TokenShape& rows, DataType type) {
  arguments.check(name, tensor, 1, 2);
  arguments.check_type(name, tensor, type);
  const Axis token = axis_from_last(tensor, 0), row = axis_from_last(tensor, 1);
  if (token.extent != rows.tokens || (row.extent != rows.batch && row.extent != 1))
    arguments.refuse_shape(name,
                           "[B, T] with B = " + std::to_string(rows.batch) +
                               " and T = " + std::to_string(rows.tokens),
                           tensor);
}
std::int64_t row_stride(const ConstTensor& tensor) {
  const Axis row = axis_from_last(tensor, 1);
  return row.extent == 1 ? 0 : row.stride;
}

Places check_places(Arguments& arguments, const PagedCache& cache, const ConstTensor& k,
                    const TokenShape& rows) {
  const bool by_table = cache.block_table.shape != nullptr;
  if (by_table == (cache.slots.shape != nullptr) ||
      by_table != (cache.entries.shape != nullptr))
    refuse(operation, "either slots, or block_table and entries must be given",
           by_table ? "block_table" : "no block_table");
  const ConstTensor& of_tokens = by_table ? cache.entries : cache.slots;
  check_tokens(arguments, by_table ? "entries" : "slots", of_tokens, rows,
               data_type_of<std::int64_t>);
  Places places{};
  places.of_tokens = data<const std::int64_t>(of_tokens);
  places.row = row_stride(of_tokens);
  places.token = axis_from_last(of_tokens, 0).stride;
  places.blocks = cache.keys.extent(0);
  const std::int64_t entries = cache.keys.extent(1);
  if (entries == 0 || entries >> 31)
    arguments.refuse_shape("keys", "of 1 to 2^31 - 1 entries", cache.keys);
  places.entries = Divisor(entries);
  if (!by_table) return places;
  arguments.check("block_table", cache.block_table, 2, data_type_of<std::int32_t>);
  places.block_table = data<const std::int32_t>(cache.block_table);
  places.table_row = cache.block_table.stride(0);
  places.table_block = cache.block_table.stride(1);
  places.sequence_count = cache.block_table.extent(0);
  places.blocks_per_sequence = cache.block_table.extent(1);
  if (cache.sequences.shape) {
    check_tokens(arguments, "sequences", cache.sequences, rows, data_type_of<std::int32_t>);
    places.sequences = data<const std::int32_t>(cache.sequences);
    places.sequence_row = row_stride(cache.sequences);
    places.sequence_token = axis_from_last(cache.sequences, 0).stride;
  } else {
    (k.rank == 4 ? places.of_row : places.of_index) = 1;
  }
  return places;
}

// Checks the keys or the values of the cache against the new ones.
void check_pages(Arguments& arguments, const char* name, const ConstTensor& pages,
                 const ConstTensor& x, const ConstTensor& scales, const char* scales_name) {
  arguments.check_rows(name, pages, 4, 4);
  const std::int64_t heads = axis_from_last(x, 1).extent, size = axis_from_last(x, 0).extent;
  if (pages.extent(2) != heads || pages.extent(3) != size)
    arguments.refuse_shape(
        name,
        "[P, S, Hk, D] with Hk = " + std::to_string(heads) + " and D = " + std::to_string(size),
        pages);
  const bool narrow = is_float8(pages.dtype);
  if (narrow && x.dtype.bits != 16)
    refuse(operation, std::string(name) + " of f8e4m3 requires k and v of f16 or bf16",
           gnomon::name(x.dtype));
  if (!narrow) arguments.check_type(name, pages, x.dtype);
  if (narrow != (scales.shape != nullptr))
    refuse(operation,
           std::string(scales_name) + " must be given if, and only if, the cache is f8e4m3",
           narrow ? "no scales" : "scales");
  if (!narrow) return;
  arguments.check(scales_name, scales, 1, data_type_of<float>);
  if (scales.extent(0) != 1 && scales.extent(0) != heads)
    arguments.refuse_shape(scales_name, "[1] or [Hk] with Hk = " + std::to_string(heads),
                           scales);
}

template <typename U>
Pages<U> pages_of(const ConstTensor& tensor, const ConstTensor& scales) {
  Pages<U> pages{data<U>(tensor), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
  if (scales.shape) {
    pages.scales = data<const float>(scales);
    pages.scale_step = scales.extent(0) == 1 ? 0 : static_cast<std::int32_t>(scales.stride(0));
  }
  return pages;
}

// Whether all tensors can be moved in vectors of `width` elements.
bool fits(const Append& call, std::int64_t width) {
  const auto one = [&](const ConstTensor& tensor) {
    return !tensor.shape || (axis_from_last(tensor, 0).extent % width == 0 &&
                             aligned(tensor, width * tensor.dtype.bits / 8));
  };
  return in_vectors(call.angles) && call.pairs % width == 0 && call.head_offset % width == 0 &&
         one(call.q) && one(call.k) && one(call.v) && one(call.cache.keys) &&
         one(call.cache.values);
}

template <typename T, typename U, Pairing pairing, int width, int group>
void launch_kernel(const Append& call, Stream stream) {
  AppendKernel<T, U, pairing, width, group> kernel{};
  if (call.q.shape) kernel.q = heads_of<T>(call.q, call.head_offset);
  kernel.k = heads_of<const T>(call.k, 0);
  kernel.keys = pages_of<U>(call.cache.keys, call.cache.key_scales);
  const std::int64_t vectors = call.pairs / width,
                     still = axis_from_last(call.k, 0).extent / width - 2 * vectors;
  std::int64_t value_vectors = 0;
  if (call.v.shape) {
    kernel.v = heads_of<const T>(call.v, 0);
    kernel.values = pages_of<U>(call.cache.values, call.cache.value_scales);
    value_vectors = axis_from_last(call.v, 0).extent / width;
  }
  kernel.places = call.places;
  kernel.angles = call.angles;
  kernel.pairs = static_cast<std::int32_t>(call.pairs);
  kernel.head_offset = static_cast<std::int32_t>(call.head_offset);
  const std::int32_t k_groups = (kernel.k.count + group - 1) / group;
  kernel.q_groups = (kernel.q.count + group - 1) / group;
  kernel.of_pairs = static_cast<std::int32_t>((kernel.q_groups + k_groups) * vectors);
  kernel.of_still = static_cast<std::int32_t>(k_groups * still);
  const std::int64_t items = kernel.of_pairs + kernel.of_still + k_groups * value_vectors;
  kernel.tokens = static_cast<std::uint32_t>(call.rows.batch * call.rows.tokens);
  if (kernel.tokens == 0 || items == 0) return;
  kernel.tokens_per_row = Divisor(call.rows.tokens);
  kernel.per_token = Divisor(items);
  kernel.vectors = Divisor(std::max<std::int64_t>(vectors, 1));
  kernel.still = Divisor(std::max<std::int64_t>(still, 1));
  kernel.value_vectors = Divisor(std::max<std::int64_t>(value_vectors, 1));
  kernel.division =
      divide(kernel.tokens, items, most_tokens(call.angles, call.pairs), call.device);
  const DeviceScope scope(call.device);
  launch(kernel,
         {kernel.division.blocks, kernel.division.threads,
          shared_bytes(call.angles, call.pairs, kernel.division.tokens_per_block)},
         stream);
}

template <typename T, typename U>
void by_pairing(const Append& call, Stream stream) {
  constexpr int whole = 16 / sizeof(T);
  const bool vectors = fits(call, whole);
  // Few tokens need more threads instead of more loads of each thread, as for rotations.
  constexpr int most_group = 2;
  const std::int64_t heads = axis_from_last(call.k, 1).extent * (call.v.shape ? 2 : 1) +
                             (call.q.shape ? axis_from_last(call.q, 1).extent : 0);
  const bool many = call.rows.batch * call.rows.tokens * heads * (call.pairs / whole) >=
                    busy * most_group * multiprocessors(call.device);
  const auto go = [&]<Pairing pairing>() {
    if (!vectors) return launch_kernel<T, U, pairing, 1, 1>(call, stream);
    if (many) return launch_kernel<T, U, pairing, whole, most_group>(call, stream);
    launch_kernel<T, U, pairing, whole, 1>(call, stream);
  };
  if (call.pairing == Pairing::halves) return go.template operator()<Pairing::halves>();
  go.template operator()<Pairing::adjacent>();
}

// check_angles(arguments, rows): returns the angles.
template <typename CheckAngles>
void append(const Tensor& q, const ConstTensor& k, const ConstTensor& v,
            const PagedCache& cache, Pairing pairing, std::int64_t head_offset,
            std::int64_t pairs, const CheckAngles& check_angles, Stream stream) {
  if (pairing != Pairing::halves && pairing != Pairing::adjacent)
    refuse(operation, "pairing must be halves or adjacent", static_cast<int>(pairing));
  Arguments arguments(operation);
  const TokenShape rows = check_heads(arguments, "k", k, head_offset, 2 * pairs);
  const auto like_k = [&](const char* name, const ConstTensor& x, std::int64_t rotated) {
    if (check_heads(arguments, name, x, rotated ? head_offset : 0, rotated) != rows ||
        x.rank != k.rank)
      arguments.refuse_shape(name, "of the rows and tokens of k", x);
    arguments.check_type(name, x, k.dtype);
  };
  if (q.shape) like_k("q", q, 2 * pairs);
  if ((v.shape != nullptr) != (cache.values.shape != nullptr))
    refuse(operation, "v and the values of the cache must both be given, or both left out",
           v.shape ? "v" : "values");
  check_pages(arguments, "keys", cache.keys, k, cache.key_scales, "key_scales");
  if (v.shape) {
    like_k("v", v, 0);
    check_pages(arguments, "values", cache.values, v, cache.value_scales, "value_scales");
    if (axis_from_last(v, 1).extent != axis_from_last(k, 1).extent)
      arguments.refuse_shape("v", "of the heads of k", v);
    if (cache.values.dtype != cache.keys.dtype ||
        cache.values.extent(0) != cache.keys.extent(0) ||
        cache.values.extent(1) != cache.keys.extent(1))
      arguments.refuse_shape("values", "of the type, blocks and entries of keys", cache.values);
  }
  const Places places = check_places(arguments, cache, k, rows);
  const AnyAngles angles = check_angles(arguments, rows);
  const Append call{
      q, k, v, cache, rows, pairing, head_offset, pairs, angles, places, arguments.device()};
  by_type(operation, "k", k, [&]<typename T>(T) {
    if constexpr (sizeof(T) == 2)
      if (is_float8(cache.keys.dtype)) return by_pairing<T, Float8>(call, stream);
    by_pairing<T, T>(call, stream);
  });
}

}  // namespace

void rotate_append(const Tensor& q, const ConstTensor& k, const ConstTensor& v,
                   const Rotation& rotation, const PagedCache& cache, Stream stream) {
  Arguments before(operation);
  before.check_rows("cos", rotation.cos, 2, 3);
  append(
      q, k, v, cache, rotation.pairing, rotation.head_offset,
      axis_from_last(rotation.cos, 0).extent,
      [&](Arguments& arguments, const TokenShape& rows) {
        return AnyAngles{check_table(arguments, rotation, rows), {}, 1};
      },
      stream);
}

void rotate_append_at(const Tensor& q, const ConstTensor& k, const ConstTensor& v,
                      const ConstTensor& positions, const Frequencies& frequencies,
                      const PagedCache& cache, Stream stream) {
  const RotaryFrequencies& host = frequencies.host();
  append(
      q, k, v, cache, host.pairing, host.head_offset, host.rotary_dim() / 2,
      [&](Arguments& arguments, const TokenShape& rows) {
        return AnyAngles{{}, check_positions(arguments, positions, frequencies, rows), 0};
      },
      stream);
}

}  // namespace gnomon::cuda
