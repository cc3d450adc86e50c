#include "gnomon/rotary/paged_append.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <type_traits>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/int8_keys.h"
#include "src/rotary/float8.h"
#include "src/rotary/rotate.h"
#include "src/rotary/rotated_floats.h"

namespace gnomon {
namespace {

using rotary_internal::CosSin;
using rotary_internal::named;
using std::int64_t;

constexpr DataType float8{TypeCode::float8_e4m3fn, 8}, byte = data_type_of<std::uint8_t>;

bool is_float8(DataType type) { return type == float8 || type == byte; }

// The keys or the values of a cache. U: float, Half, BFloat16, double, int8, or uint8 for E4M3.
template <typename U>
struct Pages {
  View<U, 4> elements;               // [P, S, Hk, D]
  View<float, 3> head_scales = {};   // int8: [P, S, Hk]
  View<const float, 1> scales = {};  // E4M3: [1] or [Hk]

  float scale(int64_t head) const { return scales(scales.extent(0) == 1 ? 0 : head); }
};

// Tokens t to t + count - 1 of row b, and their consecutive entries of the cache.
struct Run {
  int64_t b, t, count, block, entry;
};
template <typename U, std::size_t Rank>
View<U, Rank> entries_of(const View<U, Rank>& pages, const Run& run) {
  return pages.slice(0, run.block, 1).slice(1, run.entry, run.count);
}
template <typename T, std::size_t Rank>
View<const T, Rank> tokens_of(const View<const T, Rank>& rows, const Run& run) {
  return rows.slice(0, run.b, 1).slice(1, run.t, run.count);
}

// Where new tokens go.
struct Places {
  int64_t blocks = 0, entries = 0;          // P, S
  View<const int64_t, 2> of_tokens;         // [B, T], slots or entries of sequences
  View<const std::int32_t, 2> block_table;  // [N, M]; empty: of_tokens are slots
  View<const std::int32_t, 2> sequences;    // [B, T]; empty: the two numbers below
  int64_t of_row = 0, of_token = 0;         // row b of_row + t of_token of the table
  bool joined = false;                      // each block follows the one before it in memory

  // Returns the slot of a token, block x S + entry; -1: not written.
  int64_t slot(int64_t b, int64_t t) const {
    const int64_t at = of_tokens(b, t);
    if (at < 0) return -1;
    if (!block_table.data()) return at < blocks * entries ? at : -1;
    const int64_t row = sequences.data() ? sequences(b, t) : b * of_row + t * of_token;
    const int64_t page = at / entries;
    if (row < 0 || row >= block_table.extent(0) || page >= block_table.extent(1)) return -1;
    const int64_t block = block_table(row, page);
    return block < 0 || block >= blocks ? -1 : block * entries + (at - page * entries);
  }
};

// Calls body(run) for the runs of tokens [t, t + count) of row b.
template <typename Body>
void for_runs(const Places& places, int64_t b, int64_t t, int64_t count, const Body& body) {
  Run run{b, t, 0, 0, 0};
  int64_t next = 0;  // the slot after the run
  for (int64_t at = t; at < t + count; ++at) {
    const int64_t slot = places.slot(b, at);
    if (run.count && slot == next && (places.joined || next % places.entries)) {
      ++run.count, ++next;
      continue;
    }
    if (run.count) body(run);
    run = {b, at, slot < 0 ? 0 : 1, slot / places.entries, slot % places.entries};
    next = slot + 1;
  }
  if (run.count) body(run);
}

// Returns whether all tokens have consecutive slots.
bool is_one_run(const Places& places, int64_t tokens) {
  const int64_t first = places.slot(0, 0);
  if (first < 0 || (!places.joined && first % places.entries + tokens > places.entries))
    return false;
  for (int64_t t = 1; t < tokens; ++t)
    if (places.slot(0, t) != first + t) return false;
  return true;
}

// Writes tokens without rotation.
template <typename T, typename U>
void write(const View<const T, 4>& x, const Pages<U>& pages, const Run& run) {
  const auto from = tokens_of(x, run);
  const auto to = entries_of(pages.elements, run);
  if constexpr (std::is_same_v<U, std::int8_t>) {
    copy_append(from, to, entries_of(pages.head_scales, run));
  } else if constexpr (std::is_same_v<U, std::uint8_t>) {
    const auto round = rotary_internal::float8_kernel<T>();
    for (int64_t t = 0; t < run.count; ++t)
      for (int64_t h = 0; h < from.extent(2); ++h)
        round(from.data() + t * from.stride(1) + h * from.stride(2), from.extent(3),
              pages.scale(h), to.data() + t * to.stride(1) + h * to.stride(2));
  } else {
    copy_append(from, to);
  }
}

template <typename T, typename U>
void write_rotated(const View<const T, 4>& k, const RotaryFrequencies& frequencies,
                   const CosSin& cos_sin, const Pages<U>& pages, const Run& run) {
  const auto from = tokens_of(k, run);
  const auto to = entries_of(pages.elements, run);
  const CosSin factors{tokens_of(cos_sin.cos, run), tokens_of(cos_sin.sin, run), cos_sin.sign};
  if constexpr (sizeof(U) > 1) {
    rotary_internal::rotate_together(frequencies, factors,
                                     rotary_internal::InputOutput<T, U>(from, to));
  } else {
    rotary_internal::in_floats(
        from, frequencies, factors,
        [&](int64_t t, int64_t count, int64_t head, int64_t heads, const float* x) {
          const View<const float, 4> rotated(x, {1, count, heads, from.extent(3)});
          const Run part{0, 0, count, run.block, run.entry + t};
          Pages<U> those = pages;
          those.elements = pages.elements.slice(2, head, heads);
          if constexpr (std::is_same_v<U, std::int8_t>)
            those.head_scales = pages.head_scales.slice(2, head, heads);
          else if (pages.scales.extent(0) != 1)
            those.scales = pages.scales.slice(0, head, heads);
          write(rotated, those, part);
        });
  }
}

// Numbers of tokens, [T] or [B, T], as [B, T].
template <typename T, typename K>
View<const T, 2> of_tokens(const char* name, const ConstTensor& tensor,
                           const View<const K, 4>& k) {
  const auto all = internal::read_batch<T, 2>(named(name), tensor);
  if (all.extent(1) != k.extent(1) || (all.extent(0) != 1 && all.extent(0) != k.extent(0)))
    refuse("rotary",
           std::string(name) + " must be [T] or [B, T] with B = " +
               std::to_string(k.extent(0)) + " and T = " + std::to_string(k.extent(1)),
           shape_text(all.extents()));
  return {all.data(),
          {k.extent(0), k.extent(1)},
          {all.extent(0) == 1 ? 0 : all.stride(0), all.stride(1)}};
}

template <typename T>
Places places_of(const PagedCache& cache, const View<const T, 4>& k, bool one_row) {
  const bool by_table = cache.block_table.has_data();
  if (by_table == cache.slots.has_data() || by_table != cache.entries.has_data())
    refuse("rotary", "either slots, or block_table and entries must be given",
           by_table ? "block_table" : "no block_table");
  Places places;
  places.blocks = cache.keys.extent(0);
  places.entries = cache.keys.extent(1);
  places.of_tokens = by_table ? of_tokens<int64_t>("entries", cache.entries, k)
                              : of_tokens<int64_t>("slots", cache.slots, k);
  if (!by_table) return places;
  places.block_table = internal::read<std::int32_t, 2>(named("block_table"), cache.block_table);
  if (cache.sequences.has_data())
    places.sequences = of_tokens<std::int32_t>("sequences", cache.sequences, k);
  else
    (one_row ? places.of_token : places.of_row) = 1;
  return places;
}

// Returns the keys or the values of the cache, checked against the new ones.
template <typename U, typename T>
Pages<U> pages_of(const char* name, const Tensor& tensor, const View<const T, 4>& x,
                  const ConstTensor& scales, const Tensor& head_scales) {
  Tensor bytes = tensor;
  if constexpr (std::is_same_v<U, std::uint8_t>) bytes.dtype = byte;
  Pages<U> pages{internal::write<U, 4>(named(name), bytes)};
  const auto& all = pages.elements;
  if (all.extent(2) != x.extent(2) || all.extent(3) != x.extent(3))
    refuse("rotary",
           std::string(name) + " must be [P, S, Hk, D] with Hk = " +
               std::to_string(x.extent(2)) + " and D = " + std::to_string(x.extent(3)),
           shape_text(all.extents()));
  if (all.extent(1) < 1)
    refuse("rotary", std::string(name) + " must have at least 1 entry in a block",
           all.extent(1));
  for (const int64_t stride : {all.stride(3), x.stride(3)})
    if (stride != 1)
      refuse("rotary",
             std::string("the elements of a head of ") + name + " must be contiguous: stride 1",
             stride);
  internal::check_disjoint(named(name), all, "the new rows", x);
  constexpr bool is_int8 = std::is_same_v<U, std::int8_t>,
                 is_e4m3 = std::is_same_v<U, std::uint8_t>;
  const auto only = [&](const char* what, bool needed, bool given, const char* type) {
    if (needed != given)
      refuse("rotary",
             std::string(what) + " of " + name + " must be given if, and only if, they are " +
                 type,
             gnomon::name(tensor.dtype));
  };
  only("scales", is_e4m3, scales.has_data(), "f8e4m3");
  only("head_scales", is_int8, head_scales.has_data(), "i8");
  if constexpr (is_e4m3) {
    pages.scales = internal::read<float, 1>(named("scales"), scales);
    const int64_t count = pages.scales.extent(0);
    if (count != 1 && count != x.extent(2))
      refuse("rotary",
             std::string("scales of ") + name +
                 " must be [1] or [Hk] with Hk = " + std::to_string(x.extent(2)),
             shape_text(pages.scales.extents()));
    for (int64_t h = 0; h < count; ++h)
      if (const float scale = pages.scales(h); !(scale > 0 && std::isfinite(scale)))
        refuse("rotary", std::string("scales of ") + name + " must be positive and finite",
               double{scale});
  }
  if constexpr (is_int8) {
    pages.head_scales = internal::write<float, 3>(named("head_scales"), head_scales);
    const std::array<int64_t, 3> wanted{all.extent(0), all.extent(1), all.extent(2)};
    if (pages.head_scales.extents() != wanted)
      refuse("rotary", std::string("head_scales of ") + name + " must be " + shape_text(wanted),
             shape_text(pages.head_scales.extents()));
  }
  if (sizeof(U) == 1 && all.extent(3) > rotary_internal::rotated_elements)
    refuse("rotary",
           "head_dim of an 8-bit cache must be at most " +
               std::to_string(rotary_internal::rotated_elements) + " elements",
           all.extent(3));
  return pages;
}

// Whether each block follows the one before it in memory. Gives the only entry of a block the
// stride of blocks.
template <typename U, std::size_t Rank>
bool join(View<U, Rank>& pages) {
  auto strides = pages.strides();
  if (pages.extent(1) == 1) strides[1] = strides[0];
  pages = {pages.data(), pages.extents(), strides};
  return pages.extent(0) < 2 || strides[0] == pages.extent(1) * strides[1];
}

// table: null: keys are not rotated.
template <typename T, typename U>
void append(const View<const T, 4>& k, const View<const T, 4>& v, const RotaryTable* table,
            const PagedCache& cache, bool one_row) {
  auto keys = pages_of<U>("keys", cache.keys, k, cache.key_scales, cache.key_head_scales);
  Pages<U> values;
  const bool with_values = cache.values.has_data();
  if (with_values) {
    values =
        pages_of<U>("values", cache.values, v, cache.value_scales, cache.value_head_scales);
    for (const std::size_t axis : {0u, 1u})
      if (values.elements.extent(axis) != keys.elements.extent(axis))
        refuse("rotary", "values must have the blocks and entries of keys",
               shape_text(values.elements.extents()));
    internal::check_disjoint(named("values"), values.elements, "keys", keys.elements);
    internal::check_disjoint(named("keys"), keys.elements, "v", v);
    internal::check_disjoint(named("values"), values.elements, "k", k);
  }
  Places places = places_of(cache, k, one_row);
  places.joined = join(keys.elements) && (!with_values || join(values.elements));
  if constexpr (std::is_same_v<U, std::int8_t>)
    places.joined =
        join(keys.head_scales) && (!with_values || join(values.head_scales)) && places.joined;
  const CosSin cos_sin = table ? rotary_internal::cos_sin_of(*table, k.extent(0)) : CosSin{};
  const int64_t tokens = k.extent(1), rows = k.extent(0) * tokens;
  const int64_t elements = k.extent(2) * (k.extent(3) + (with_values ? v.extent(3) : 0));
  if (rows == 0 || elements == 0) return;
  constexpr int64_t worth = 1 << 16, most = 64;  // elements of a piece; pieces
  const int64_t pieces = std::clamp<int64_t>(rows * elements / worth, 1, most);
  if constexpr (!std::is_same_v<U, std::uint8_t>)
    if (pieces > 1 && k.extent(0) == 1 && is_one_run(places, tokens)) {
      // The functions for contiguous caches divide the tokens among threads themselves.
      const int64_t slot = places.slot(0, 0);
      const Run all{0, 0, tokens, slot / places.entries, slot % places.entries};
      if (!table)
        write(k, keys, all);
      else if constexpr (std::is_same_v<U, std::int8_t>)
        rotate_append(k, *table, entries_of(keys.elements, all),
                      entries_of(keys.head_scales, all));
      else
        rotate_append(k, *table, entries_of(keys.elements, all));
      if (with_values) write(v, values, all);
      return;
    }
  parallel_for(
      rows, (rows + pieces - 1) / pieces,
      [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t b = begin / tokens, t = begin % tokens;
          const int64_t count = std::min(end - begin, tokens - t);
          for_runs(places, b, t, count, [&](const Run& run) {
            if (table)
              write_rotated(k, table->frequencies(), cos_sin, keys, run);
            else
              write(k, keys, run);
            if (with_values) write(v, values, run);
          });
          begin += count;
        }
      },
      Share::contiguous);
}

template <typename T>
void append_rows(const ConstTensor& k, const ConstTensor& v, const RotaryTable* table,
                 const PagedCache& cache) {
  const auto keys = rotary_internal::heads_of<T>("k", k);
  View<const T, 4> values;
  if (v.has_data() != cache.values.has_data())
    refuse("rotary", "v and the values of the cache must both be given, or both left out",
           v.has_data() ? "v" : "values");
  if (v.has_data()) {
    values = rotary_internal::heads_of<T>("v", v);
    for (const std::size_t axis : {0u, 1u, 2u})
      if (values.extent(axis) != keys.extent(axis))
        refuse("rotary",
               "v must have the rows, tokens and heads of k, " + shape_text(keys.extents()),
               shape_text(values.extents()));
    if (cache.values.dtype != cache.keys.dtype)
      refuse("rotary",
             "values must have elements of " + name(cache.keys.dtype) + ", as keys have",
             name(cache.values.dtype));
  }
  if (table) rotary_internal::check_fits(keys, *table);
  const bool one_row = k.rank == 3;
  if (cache.keys.holds<T>()) return append<T, T>(keys, values, table, cache, one_row);
  if constexpr (std::is_same_v<T, float> && internal::has_16_bit_types) {
    if (cache.keys.holds<Half>()) return append<T, Half>(keys, values, table, cache, one_row);
    if (cache.keys.holds<BFloat16>())
      return append<T, BFloat16>(keys, values, table, cache, one_row);
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (cache.keys.holds<std::int8_t>())
      return append<T, std::int8_t>(keys, values, table, cache, one_row);
    if (is_float8(cache.keys.dtype))
      return append<T, std::uint8_t>(keys, values, table, cache, one_row);
  }
  internal::refuse_type(
      named("keys"),
      name(k.dtype) + (std::is_same_v<T, double>  ? ""
                       : std::is_same_v<T, float> ? ", f16, bf16, i8 or f8e4m3"
                                                  : ", i8 or f8e4m3"),
      cache.keys.dtype);
}

void append(const ConstTensor& k, const ConstTensor& v, const RotaryTable* table,
            const PagedCache& cache) {
  internal::by_type(named("k"), k, [&]<typename T>(T) { append_rows<T>(k, v, table, cache); });
}

}  // namespace

void rotate_append(const ConstTensor& k, const ConstTensor& v, const RotaryTable& table,
                   const PagedCache& cache) {
  append(k, v, &table, cache);
}

void copy_append(const ConstTensor& k, const ConstTensor& v, const PagedCache& cache) {
  append(k, v, nullptr, cache);
}

}  // namespace gnomon
