// gnomon.rotate_append and gnomon.PagedKvCache.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/released_gil.h"
#include "gnomon/attention/paged_kv_cache.h"
#include "gnomon/error.h"
#include "gnomon/rotary/paged_append.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

constexpr Choice<CacheType> paged_types[] = {{"float32", CacheType::f32},
                                             {"float16", CacheType::f16},
                                             {"bfloat16", CacheType::bf16},
                                             {"int8", CacheType::int8},
                                             {"float8_e4m3fn", CacheType::e4m3}};

void append_rows(nb::handle k, nb::handle v, const RotaryTable* table, nb::handle key_cache,
                 nb::handle value_cache, nb::handle slots, nb::handle block_table,
                 nb::handle entries, nb::handle sequences, nb::handle key_scales,
                 nb::handle value_scales) {
  using Access = Array::Access;
  constexpr const char* name = "rotate_append";
  const Array new_keys(name, "k", k, Access::read), new_values(name, "v", v, Access::read),
      keys(name, "key_cache", key_cache, Access::write),
      values(name, "value_cache", value_cache, Access::write),
      of_slots(name, "slots", slots, Access::read),
      of_blocks(name, "block_table", block_table, Access::read),
      of_entries(name, "entries", entries, Access::read),
      of_sequences(name, "sequences", sequences, Access::read);
  // The scales of an int8 cache are written, those of E4M3 are read.
  const bool int8 = keys.tensor().holds<std::int8_t>();
  const Access access = int8 ? Access::write : Access::read;
  const Array of_keys(name, "key_scales", key_scales, access),
      of_values(name, "value_scales", value_scales, access);
  PagedCache cache;
  cache.keys = keys.tensor();
  cache.values = values.tensor();
  cache.slots = of_slots.tensor();
  cache.block_table = of_blocks.tensor();
  cache.entries = of_entries.tensor();
  cache.sequences = of_sequences.tensor();
  if (int8)
    cache.key_head_scales = of_keys.tensor(), cache.value_head_scales = of_values.tensor();
  else
    cache.key_scales = of_keys.tensor(), cache.value_scales = of_values.tensor();
  const ReleasedGil released;
  if (table)
    rotate_append(new_keys.tensor(), new_values.tensor(), *table, cache);
  else
    copy_append(new_keys.tensor(), new_values.tensor(), cache);
}

std::vector<std::int64_t> list_of(const char* name, nb::handle object) {
  if (const auto one = count_of("paged_kv_cache", name, object)) return {*one};
  return integers("paged_kv_cache", name, object).values;
}

// `starts` of a call: given, or one row for each sequence; one sequence gets all rows.
std::vector<std::int64_t> starts_of(nb::handle starts, std::size_t sequences, const Tensor& k) {
  if (!starts.is_none()) return list_of("starts", starts);
  if (sequences != 1 || (k.rank != 3 && k.rank != 4)) return {};
  return {0, k.shape[k.rank - 3]};
}

std::optional<RotaryFrequencies> frequencies_if(nb::handle encoding, std::int64_t length) {
  if (encoding.is_none()) return std::nullopt;
  return nb::cast<RotaryFrequencies>(
      nb::module_::import_("gnomon._core").attr("rotary_frequencies")(encoding, length));
}

void append_to(PagedKvCache& cache, nb::handle k, nb::handle v, nb::handle sequences,
               nb::handle starts, nb::handle positions, const RotaryTable* table,
               nb::handle rotated_with) {
  const Array keys("paged_kv_cache", "k", k, Array::Access::read),
      values("paged_kv_cache", "v", v, Array::Access::read);
  const auto numbers = list_of("sequences", sequences);
  const auto at = starts_of(starts, numbers.size(), keys.tensor());
  std::vector<Positions> axes;
  if (!positions.is_none()) axes = axes_of("paged_kv_cache", "positions", positions);
  if (rotated_with.is_none())
    cache.append(keys.tensor(), values.tensor(), numbers, at, axes, table);
  else
    cache.append_rotated(keys.tensor(), values.tensor(), numbers, at, axes,
                         *frequencies_if(rotated_with, 0));
}

// A read-only array of memory of the cache, which the array keeps alive.
template <std::size_t Rank>
nb::object view_of(const ConstTensor& tensor, nb::handle owner) {
  const auto as = [&]<typename T>(T) {
    ConstTensor same = tensor;
    same.dtype = data_type_of<T>;
    return numpy_view(view<const T, Rank>(same), owner);
  };
  if (tensor.holds<float>()) return as(float{});
  if (tensor.holds<std::int8_t>()) return as(std::int8_t{});
  if (tensor.dtype.bits == 8) return as(std::uint8_t{});
  const nb::object type = tensor.holds<Half>()
                              ? nb::object(nb::module_::import_("numpy").attr("float16"))
                              : nb::object(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  return as(std::uint16_t{}).attr("view")(type);
}
nb::object scales_of(const ConstTensor& scales, nb::handle owner) {
  if (!scales.has_data()) return nb::none();
  return scales.rank == 3 ? view_of<3>(scales, owner) : view_of<1>(scales, owner);
}

void bind_paged_kv_cache(nb::module_& module) {
  nb::class_<PagedKvCache>(
      module, "PagedKvCache",
      R"(The keys and values of many sequences of one layer, in one pool of blocks.

blocks: P, of all sequences together. block_size: S, entries of a block.
heads: Hk. head_dim, value_dim: D of keys, Dv of values (default: D; 0: the values are the
    keys, one tensor for both). axes: A, position axes (3 for M-RoPE).
encoding: the rotary spec, or RotaryFrequencies, by which the cache rotates keys; None: keys
    are stored as they are. length: declared context length for dynamic NTK and LongRoPE.
dtype: of the stored keys and values. key_scales, value_scales: of 'float8_e4m3fn', 1 or Hk
    numbers: a stored element is x / scale. 'int8' has a scale for each head vector.

Sequences share the blocks of a common prefix (`fork`). All keys of a cache have the same
frequencies. Memory: P S Hk (D + Dv) elements, allocated at once. A call that raises ValueError
changes nothing. Calls hold the GIL.)")
      .def(
          "__init__",
          [](PagedKvCache* self, std::int64_t blocks, std::int64_t heads, std::int64_t head_dim,
             std::optional<std::int64_t> value_dim, std::int64_t block_size, std::int64_t axes,
             nb::handle encoding, std::int64_t length, const std::string& dtype,
             std::vector<float> key_scales, std::vector<float> value_scales) {
            PagedKvCacheShape shape;
            shape.blocks = blocks;
            shape.block_size = block_size;
            shape.heads = heads;
            shape.head_dim = head_dim;
            shape.value_dim = value_dim.value_or(head_dim);
            shape.axes = axes;
            shape.type = chosen("paged_kv_cache", "dtype", dtype, paged_types);
            shape.key_scales = std::move(key_scales);
            shape.value_scales = std::move(value_scales);
            new (self) PagedKvCache(shape, frequencies_if(encoding, length));
          },
          nb::kw_only(), nb::arg("blocks"), nb::arg("heads"), nb::arg("head_dim"),
          nb::arg("value_dim") = nb::none(), nb::arg("block_size") = 16, nb::arg("axes") = 1,
          nb::arg("encoding") = nb::none(), nb::arg("length") = 0, nb::arg("dtype") = "float32",
          nb::arg("key_scales") = std::vector<float>(),
          nb::arg("value_scales") = std::vector<float>(),
          nb::sig("def __init__(self, *, blocks: int, heads: int, head_dim: int, value_dim: "
                  "int | None = None, block_size: int = 16, axes: int = 1, encoding: Encoding "
                  "| RotaryFrequencies | None = None, length: int = 0, dtype: PagedCacheType = "
                  "'float32', key_scales: Sequence[float] = (), value_scales: Sequence[float] "
                  "= ()) -> None"))
      .def("start", &PagedKvCache::start, nb::sig("def start(self) -> int"),
           "Starts a sequence without entries and returns its number.")
      .def(
          "fork",
          [](PagedKvCache& cache, std::int64_t sequence, std::optional<std::int64_t> tokens) {
            return tokens ? cache.fork(sequence, *tokens) : cache.fork(sequence);
          },
          nb::arg("sequence"), nb::arg("tokens") = nb::none(),
          nb::sig("def fork(self, sequence: int, tokens: int | None = None) -> int"),
          R"(Starts a sequence with the first `tokens` entries of another (default: all), and
returns its number. Both hold the same blocks; a shared block that is not full is copied when
one of them appends to it.)")
      .def("truncate", &PagedKvCache::truncate, nb::arg("sequence"), nb::arg("tokens"),
           nb::sig("def truncate(self, sequence: int, tokens: int) -> None"),
           "Keeps the first entries, for example without rejected drafts.")
      .def("end", &PagedKvCache::end, nb::arg("sequence"),
           nb::sig("def end(self, sequence: int) -> None"),
           "Ends a sequence. Blocks that no other sequence holds become free.")
      .def("clear", &PagedKvCache::clear, nb::sig("def clear(self) -> None"),
           "Ends all sequences.")
      .def_prop_ro("sequences", &PagedKvCache::sequences, nb::sig("def sequences(self) -> int"),
                   "The number of sequences that have not ended.")
      .def_prop_ro("free_blocks", &PagedKvCache::free_blocks,
                   nb::sig("def free_blocks(self) -> int"), "Blocks that no sequence holds.")
      .def_prop_ro(
          "frequencies",
          [](const PagedKvCache& cache) -> std::optional<RotaryFrequencies> {
            return cache.frequencies();
          },
          nb::sig("def frequencies(self) -> RotaryFrequencies | None"),
          "The frequencies by which all keys are rotated.")
      .def("tokens", &PagedKvCache::tokens, nb::arg("sequence"),
           nb::sig("def tokens(self, sequence: int) -> int"),
           "Returns the number of entries of a sequence.")
      .def("room", &PagedKvCache::room, nb::arg("sequence"),
           nb::sig("def room(self, sequence: int) -> int"),
           "Returns the entries that this sequence could get, if no other one gets any.")
      .def(
          "blocks_needed",
          [](const PagedKvCache& cache, nb::handle sequences, nb::handle starts) {
            std::vector<std::int64_t> at;
            if (!starts.is_none()) at = list_of("starts", starts);
            return cache.blocks_needed(list_of("sequences", sequences), at);
          },
          nb::arg("sequences"), nb::arg("starts") = nb::none(),
          nb::sig("def blocks_needed(self, sequences: int | Sequence[int] | Array, starts: "
                  "Sequence[int] | Array | None = None) -> int"),
          "Returns the free blocks that `append` with these arguments takes.")
      .def(
          "positions",
          [](const PagedKvCache& cache, std::int64_t sequence, std::int64_t axis) {
            return cache.positions(sequence, axis);
          },
          nb::arg("sequence"), nb::arg("axis") = 0,
          nb::sig("def positions(self, sequence: int, axis: int = 0) -> Positions"),
          "Returns the positions of the entries of a sequence.")
      .def("append", &append_to, nb::arg("k"), nb::arg("v").none(), nb::arg("sequences"),
           nb::arg("starts") = nb::none(), nb::arg("positions") = nb::none(), nb::kw_only(),
           nb::arg("table") = nb::none(), nb::arg("rotated_with") = nb::none(),
           nb::sig("def append(self, k: Array, v: Array | None, sequences: int | Sequence[int] "
                   "| Array, starts: Sequence[int] | Array | None = None, positions: "
                   "PositionsLike | None = None, *, table: RotaryTable | None = None, "
                   "rotated_with: Encoding | RotaryFrequencies | None = None) -> None"),
           R"(Rotates new keys and writes them after the last entry of each sequence; copies
the values.

k: [rows, Hk, D] or [1, rows, Hk, D], not rotated; v: the same with Dv, None if Dv is 0. Of the
    type of the cache, or float32 (float16 and bfloat16 too for 8-bit caches).
sequences: N numbers, each once, or one number, whose sequence gets all rows.
starts: N + 1 integers (`cu_seqlens`): sequence n gets rows starts[n] to starts[n + 1] - 1.
    Default: row n is the new token of sequence n.
positions: of the rows, [rows], Positions, or a tuple of them, one for each axis. Default: the
    index of each entry in its sequence.
table: the rows of these positions, shared between layers; default: computed here.
rotated_with: the encoding by which k is rotated already, that of the cache.)")
      .def(
          "block_table",
          [](PagedKvCache& cache, nb::handle sequences) {
            const auto table = cache.block_table(list_of("sequences", sequences));
            return numpy(std::vector<std::int32_t>(table.data(), table.data() + table.size()),
                         {static_cast<std::size_t>(table.extent(0)),
                          static_cast<std::size_t>(table.extent(1))});
          },
          nb::arg("sequences"),
          nb::sig("def block_table(self, sequences: int | Sequence[int] | Array) -> "
                  "numpy.typing.NDArray[numpy.int32]"),
          R"(Returns the blocks of sequences, int32 [N, M], as attention takes them. Blocks
beyond those of a sequence are -1.)")
      .def(
          "key_lengths",
          [](PagedKvCache& cache, nb::handle sequences) {
            const auto lengths = cache.key_lengths(list_of("sequences", sequences));
            return numpy(std::vector<std::int64_t>(lengths.begin(), lengths.end()),
                         {lengths.size()});
          },
          nb::arg("sequences"),
          nb::sig("def key_lengths(self, sequences: int | Sequence[int] | Array) -> "
                  "numpy.typing.NDArray[numpy.int64]"),
          "Returns the entries of each sequence, int64 [N], as attention takes them.")
      .def(
          "change_frequencies",
          [](PagedKvCache& cache, nb::handle to, std::int64_t length) {
            if (to.is_none())
              refuse("paged_kv_cache", "frequencies to change to must be given", "None");
            cache.change_frequencies(*frequencies_if(to, length));
          },
          nb::arg("to"), nb::arg("length") = 0,
          nb::sig("def change_frequencies(self, to: Encoding | RotaryFrequencies, length: int "
                  "= 0) -> None"),
          R"(Rotates all keys to other frequencies, as dynamic NTK and LongRoPE require when the
length exceeds a limit. Not for 8-bit caches.)")
      .def_prop_ro(
          "keys",
          [](nb::handle self) {
            return view_of<4>(nb::cast<PagedKvCache&>(self).keys(), self);
          },
          nb::sig("def keys(self) -> numpy.typing.NDArray[Any]"),
          R"(The keys, rotated: a read-only view [P, S, Hk, D] of all blocks; E4M3 as uint8.
Calls change its values.)")
      .def_prop_ro(
          "values",
          [](nb::handle self) {
            return view_of<4>(nb::cast<PagedKvCache&>(self).values(), self);
          },
          nb::sig("def values(self) -> numpy.typing.NDArray[Any]"),
          "The values: a read-only view [P, S, Hk, Dv] of all blocks.")
      .def_prop_ro(
          "key_scales",
          [](nb::handle self) {
            return scales_of(nb::cast<PagedKvCache&>(self).key_scales(), self);
          },
          nb::sig("def key_scales(self) -> numpy.typing.NDArray[numpy.float32] | None"),
          "The scales of int8 keys, [P, S, Hk], or of E4M3 keys, [1] or [Hk]; else None.")
      .def_prop_ro(
          "value_scales",
          [](nb::handle self) {
            return scales_of(nb::cast<PagedKvCache&>(self).value_scales(), self);
          },
          nb::sig("def value_scales(self) -> numpy.typing.NDArray[numpy.float32] | None"),
          "The scales of the values, as key_scales.")
      .def("__repr__", [](const PagedKvCache& cache) {
        const PagedKvCacheShape& s = cache.shape();
        return "PagedKvCache(" + std::to_string(cache.sequences()) + " sequences, " +
               std::to_string(s.blocks - cache.free_blocks()) + " of " +
               std::to_string(s.blocks) + " blocks of " + std::to_string(s.block_size) +
               " entries, " + std::to_string(s.heads) + " heads)";
      });
}

}  // namespace

void bind_paged_cache(nb::module_& module) {
  module.def("rotate_append", &append_rows, nb::arg("k"), nb::arg("v").none(),
             nb::arg("table").none(), nb::arg("key_cache"), nb::arg("value_cache") = nb::none(),
             nb::kw_only(), nb::arg("slots") = nb::none(), nb::arg("block_table") = nb::none(),
             nb::arg("entries") = nb::none(), nb::arg("sequences") = nb::none(),
             nb::arg("key_scales") = nb::none(), nb::arg("value_scales") = nb::none(),
             nb::sig("def rotate_append(k: Array, v: Array | None, table: RotaryTable | None, "
                     "key_cache: Array, value_cache: Array | None = None, *, slots: Array | "
                     "None = None, block_table: Array | None = None, entries: Array | None = "
                     "None, sequences: Array | None = None, key_scales: Array | None = None, "
                     "value_scales: Array | None = None) -> None"),
             R"(Rotates new keys and writes them, with the values, to a paged KV cache.

k: [B, T, Hk, D] or [T, Hk, D]; v: the same with Dv, or None (MLA). table: the rows of the
    positions of k; None: keys are not rotated.
key_cache, value_cache: [P, S, Hk, D] and [P, S, Hk, Dv], P blocks of S entries, any strides;
    of the type of k, or float16 or bfloat16 for float32, or int8, or float8_e4m3fn or uint8
    (E4M3).
slots: int64 [T] or [B, T], block * S + entry of each token (vLLM); a negative slot is not
    written. Or instead:
block_table: int32 [N, M], the blocks of N sequences; entries: int64 [T] or [B, T], the index of
    each token in its sequence; sequences: int32, the row of block_table of each token; default:
    the batch row, or the token for [T, H, D].
key_scales, value_scales: E4M3: float32 [1] or [Hk], a stored element is x / scale; int8:
    float32 [P, S, Hk], written.

No two tokens may have one slot. A cache [N, C, Hk, D] of sequences of different lengths has the
slots n * C + entry.)");
  bind_paged_kv_cache(module);
}

}  // namespace gnomon::python
