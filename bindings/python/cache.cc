// gnomon.KvCache and gnomon.SegmentMemory.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/attention/segment_memory.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using Access = Array::Access;

enum class Element { float32 = 1, float16, bfloat16, float64 };
constexpr Choice<Element> cache_elements[] = {{"float32", Element::float32},
                                              {"float16", Element::float16},
                                              {"bfloat16", Element::bfloat16}};
constexpr Choice<Element> memory_elements[] = {{"float32", Element::float32},
                                               {"float16", Element::float16},
                                               {"bfloat16", Element::bfloat16},
                                               {"float64", Element::float64}};

// One of the templates for each element type.
using Cache = std::variant<KvCache<float>, KvCache<Half>, KvCache<BFloat16>>;
using Memory = std::variant<SegmentMemory<float>, SegmentMemory<Half>, SegmentMemory<BFloat16>,
                            SegmentMemory<double>>;
template <typename Of>
struct ElementOf;
template <typename T>
struct ElementOf<KvCache<T>> {
  using type = T;
};
template <typename T>
struct ElementOf<SegmentMemory<T>> {
  using type = T;
};

std::optional<RotaryFrequencies> rotation_of(nb::handle encoding, std::int64_t length) {
  if (encoding.is_none()) return std::nullopt;
  return nb::cast<RotaryFrequencies>(
      nb::module_::import_("gnomon._core").attr("rotary_frequencies")(encoding, length));
}

// A read-only array of memory of a cache, which the array keeps alive.
template <typename T>
nb::object view_of(const View<const T, 4>& rows, nb::handle owner) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    return numpy_view(rows, owner);
  } else {
    const View<const std::uint16_t, 4> bits(reinterpret_cast<const std::uint16_t*>(rows.data()),
                                            rows.extents(), rows.strides());
    const nb::object type =
        std::is_same_v<T, Half>
            ? nb::object(nb::module_::import_("numpy").attr("float16"))
            : nb::object(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    return numpy_view(bits, owner).attr("view")(type);
  }
}

// Calls body(k, v) with the views of new keys and values of type T or float.
template <typename T, typename Body>
void with_rows(const char* operation, const Array& k, const Array& v, Body&& body) {
  const auto call = [&]<typename S>(S) {
    body(internal::read<S, 4>({operation, "k"}, k.tensor()),
         internal::read_if<S, 4>({operation, "v"}, v.tensor()));
  };
  if (!std::is_same_v<T, double> && k.tensor().holds<float>()) return call(float{});
  call(T{});
}

// Positions of new entries: given, or those after the last entry.
std::vector<Positions> positions_after(nb::handle positions, std::int64_t first,
                                       const Tensor& k) {
  if (!positions.is_none()) return axes_of("kv_cache", "positions", positions);
  internal::check_tensor({"kv_cache", "k"}, k, 4);
  return {consecutive(k.shape[1], first)};
}

void append(Cache& cache, nb::handle k, nb::handle v, nb::handle positions,
            const RotaryTable* table, nb::handle rotated_with) {
  const Array keys("kv_cache", "k", k, Access::read), values("kv_cache", "v", v, Access::read);
  std::visit(
      [&](auto& one) {
        using T = typename ElementOf<std::remove_cvref_t<decltype(one)>>::type;
        const auto axes =
            positions_after(positions, one.dropped() + one.tokens(), keys.tensor());
        with_rows<T>("kv_cache", keys, values,
                     [&]<typename S>(View<const S, 4> a, View<const S, 4> b) {
                       if (rotated_with.is_none())
                         one.template append<S>(a, b, std::span(axes), table);
                       else
                         one.template append_rotated<S>(a, b, std::span(axes),
                                                        *rotation_of(rotated_with, 0));
                     });
      },
      cache);
}

void insert(Cache& cache, std::int64_t at, nb::handle k, nb::handle v, nb::handle positions,
            const RotaryTable* table) {
  const Array keys("kv_cache", "k", k, Access::read), values("kv_cache", "v", v, Access::read);
  std::visit(
      [&](auto& one) {
        using T = typename ElementOf<std::remove_cvref_t<decltype(one)>>::type;
        const auto axes = positions_after(positions, one.dropped() + at, keys.tensor());
        with_rows<T>("kv_cache", keys, values,
                     [&]<typename S>(View<const S, 4> a, View<const S, 4> b) {
                       one.template insert<S>(at, a, b, std::span(axes), table);
                     });
      },
      cache);
}

void shift(Cache& cache, std::int64_t begin, std::int64_t end, nb::handle delta) {
  std::vector<std::int64_t> deltas;
  if (const auto one = count_of("kv_cache", "delta", delta))
    deltas = {*one};
  else
    deltas = integers("kv_cache", "delta", delta).values;
  std::visit(
      [&](auto& one) {
        if (deltas.size() == 1) return one.shift(begin, end, deltas.front());
        one.shift(begin, end, std::span<const std::int64_t>(deltas));
      },
      cache);
}

nb::object segment_of(nb::handle self, nb::handle k, nb::handle v, const RotaryTable* table) {
  const Array keys("segment_memory", "k", k, Access::read),
      values("segment_memory", "v", v, Access::read);
  return std::visit(
      [&](auto& one) -> nb::object {
        using T = typename ElementOf<std::remove_cvref_t<decltype(one)>>::type;
        const Segment<T> segment =
            one.append(internal::read<T, 4>({"segment_memory", "k"}, keys.tensor()),
                       internal::read<T, 4>({"segment_memory", "v"}, values.tensor()), table);
        return nb::module_::import_("gnomon._typing")
            .attr("Segment")(view_of<T>(segment.keys, self), view_of<T>(segment.values, self),
                             segment.offset, segment.first);
      },
      nb::cast<Memory&>(self));
}

template <typename Of, typename Value>
auto get(Value value) {
  return [value](const Of& of) {
    return std::visit([&](const auto& one) { return value(one); }, of);
  };
}

void bind_kv_cache(nb::module_& module) {
  nb::class_<Cache>(module, "KvCache",
                    R"(The keys and values of past tokens of one layer, for decoding.

capacity: C, entries of each row. heads: Hk. head_dim, value_dim: D of keys, Dv of values
    (default: D; 0: the values are the keys, one tensor for both). batch: B.
axes: A, position axes (3 for M-RoPE).
encoding: the rotary spec, or RotaryFrequencies, by which the cache rotates keys; None: keys
    are stored as they are. length: declared context length for dynamic NTK and LongRoPE.
dtype: of the stored keys and values.
window: for layers with a sliding window: a query sees at most the last `window` entries, its
    own included. `append` overwrites the entries that no later query sees, if new tokens
    exceed the room. 0: keeps all.

All keys of a cache have the same frequencies: a call that changes them rotates the keys again.
Memory: B C Hk (D + Dv) elements, allocated at once. A call that raises ValueError changes
nothing. Calls hold the GIL.)")
      .def(
          "__init__",
          [](Cache* self, std::int64_t capacity, std::int64_t heads, std::int64_t head_dim,
             std::optional<std::int64_t> value_dim, std::int64_t batch, std::int64_t axes,
             nb::handle encoding, std::int64_t length, const std::string& dtype,
             std::int64_t window) {
            const KvCacheShape shape{.batch = batch,
                                     .capacity = capacity,
                                     .heads = heads,
                                     .head_dim = head_dim,
                                     .value_dim = value_dim.value_or(head_dim),
                                     .axes = axes,
                                     .window = window};
            auto frequencies = rotation_of(encoding, length);
            const Element element = chosen("kv_cache", "dtype", dtype, cache_elements);
            if (element == Element::float32)
              new (self) Cache(std::in_place_index<0>, shape, std::move(frequencies));
            else if (element == Element::float16)
              new (self) Cache(std::in_place_index<1>, shape, std::move(frequencies));
            else
              new (self) Cache(std::in_place_index<2>, shape, std::move(frequencies));
          },
          nb::kw_only(), nb::arg("capacity"), nb::arg("heads"), nb::arg("head_dim"),
          nb::arg("value_dim") = nb::none(), nb::arg("batch") = 1, nb::arg("axes") = 1,
          nb::arg("encoding") = nb::none(), nb::arg("length") = 0, nb::arg("dtype") = "float32",
          nb::arg("window") = 0,
          nb::sig("def __init__(self, *, capacity: int, heads: int, head_dim: int, value_dim: "
                  "int | None = None, batch: int = 1, axes: int = 1, encoding: Encoding | "
                  "RotaryFrequencies | None = None, length: int = 0, dtype: CacheType = "
                  "'float32', window: int = 0) -> None"))
      .def_prop_ro("tokens", get<Cache>([](const auto& one) { return one.tokens(); }),
                   nb::sig("def tokens(self) -> int"), "S, the entries of each row.")
      .def_prop_ro("room", get<Cache>([](const auto& one) { return one.room(); }),
                   nb::sig("def room(self) -> int"),
                   "The number of new tokens that `append` takes.")
      .def_prop_ro("dropped", get<Cache>([](const auto& one) { return one.dropped(); }),
                   nb::sig("def dropped(self) -> int"),
                   "Entries that `append` has overwritten, those of a window.")
      .def_prop_ro("frequencies",
                   get<Cache>([](const auto& one) -> std::optional<RotaryFrequencies> {
                     return one.frequencies();
                   }),
                   nb::sig("def frequencies(self) -> RotaryFrequencies | None"),
                   "The frequencies by which all keys are rotated.")
      .def_prop_ro(
          "keys",
          [](nb::handle self) {
            return std::visit([&](auto& one) { return view_of(one.keys(), self); },
                              nb::cast<Cache&>(self));
          },
          nb::sig("def keys(self) -> numpy.typing.NDArray[Any]"),
          "The keys, rotated: a read-only view [B, S, Hk, D]. Calls change its values.")
      .def_prop_ro(
          "values",
          [](nb::handle self) {
            return std::visit([&](auto& one) { return view_of(one.values(), self); },
                              nb::cast<Cache&>(self));
          },
          nb::sig("def values(self) -> numpy.typing.NDArray[Any]"),
          "The values: a read-only view [B, S, Hk, Dv]. Calls change its values.")
      .def(
          "positions",
          [](const Cache& cache, std::int64_t axis) {
            return std::visit([&](const auto& one) { return one.positions(axis); }, cache);
          },
          nb::arg("axis") = 0, nb::sig("def positions(self, axis: int = 0) -> Positions"),
          "Returns the positions of the entries, for the keys of `gnomon.lower`.")
      .def("append", &append, nb::arg("k"), nb::arg("v").none(),
           nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("table") = nb::none(),
           nb::arg("rotated_with") = nb::none(),
           nb::sig(
               "def append(self, k: Array, v: Array | None, positions: PositionsLike | None = "
               "None, *, table: RotaryTable | None = None, rotated_with: Encoding | "
               "RotaryFrequencies | None = None) -> None"),
           R"(Rotates new keys and writes them after the last entry; copies the values.

k: [B, T, Hk, D], not rotated; v: [B, T, Hk, Dv], None if Dv is 0. Of the type of the cache,
    or float32.
positions: of the new tokens, [T] or [B, T], Positions, or a tuple of them, one for each axis.
    Default: those after the entries so far, from dropped + S on.
table: the rows of these positions, shared between layers; default: computed here.
rotated_with: the encoding by which k is rotated already, that of the cache.)")
      .def(
          "insert", &insert, nb::arg("at"), nb::arg("k"), nb::arg("v"),
          nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("table") = nb::none(),
          nb::sig("def insert(self, at: int, k: Array, v: Array, positions: PositionsLike | "
                  "None = None, *, table: RotaryTable | None = None) -> None"),
          R"(Inserts entries before entry `at`, as `append`. Positions of later entries increase
by the number of new entries of their sequence, and their keys are rotated. Default positions:
at, at + 1, ...)")
      .def(
          "remove",
          [](Cache& cache, std::int64_t begin, std::int64_t end) {
            std::visit([&](auto& one) { one.remove(begin, end); }, cache);
          },
          nb::arg("begin"), nb::arg("end"),
          nb::sig("def remove(self, begin: int, end: int) -> None"),
          R"(Removes entries [begin, end). Positions of later entries decrease by the number of
removed entries of their sequence, and their keys are rotated.)")
      .def(
          "drop",
          [](Cache& cache, std::int64_t begin, std::int64_t end) {
            std::visit([&](auto& one) { one.drop(begin, end); }, cache);
          },
          nb::arg("begin"), nb::arg("end"),
          nb::sig("def drop(self, begin: int, end: int) -> None"),
          "Removes entries [begin, end). All positions stay, so no key is rotated.")
      .def("shift", &shift, nb::arg("begin"), nb::arg("end"), nb::arg("delta"),
           nb::sig("def shift(self, begin: int, end: int, delta: int | Sequence[int]) -> None"),
           R"(Adds delta to the positions of entries [begin, end) and rotates their keys. A
sequence: one delta for each axis.)")
      .def(
          "change_frequencies",
          [](Cache& cache, nb::handle to, std::int64_t length) {
            const auto frequencies = rotation_of(to, length);
            std::visit([&](auto& one) { one.change_frequencies(*frequencies); }, cache);
          },
          nb::arg("to"), nb::arg("length") = 0,
          nb::sig("def change_frequencies(self, to: Encoding | RotaryFrequencies, length: int "
                  "= 0) -> None"),
          R"(Rotates all keys to other frequencies, as dynamic NTK and LongRoPE require when the
length exceeds a limit.)")
      .def(
          "truncate",
          [](Cache& cache, std::int64_t tokens) {
            std::visit([&](auto& one) { one.truncate(tokens); }, cache);
          },
          nb::arg("tokens"), nb::sig("def truncate(self, tokens: int) -> None"),
          "Keeps the first entries.")
      .def(
          "clear", [](Cache& cache) { std::visit([](auto& one) { one.clear(); }, cache); },
          nb::sig("def clear(self) -> None"), "Removes all entries.")
      .def("__repr__", get<Cache>([](const auto& one) {
             const KvCacheShape& s = one.shape();
             return "KvCache(" + std::to_string(one.tokens()) + " of " +
                    std::to_string(s.capacity) + " entries, batch " + std::to_string(s.batch) +
                    ", " + std::to_string(s.heads) + " heads)";
           }),
           nb::sig("def __repr__(self) -> str"));
}

void bind_segment_memory(nb::module_& module) {
  nb::class_<Memory>(module, "SegmentMemory",
                     R"(The keys and values of earlier segments of a long text (Transformer-XL).

memory: M, tokens that are kept. segment: the longest T of a call. heads, head_dim, value_dim,
    batch, encoding, length, dtype: as KvCache; dtype may also be 'float64'.

If queries see at most M keys back (left=M), attention by segments equals attention over the
whole text. Memory: B (2 M + segment) Hk (D + Dv) elements. Source: Dai et al. 2019,
arXiv:1901.02860, section 3.2.)")
      .def(
          "__init__",
          [](Memory* self, std::int64_t memory, std::int64_t segment, std::int64_t heads,
             std::int64_t head_dim, std::optional<std::int64_t> value_dim, std::int64_t batch,
             nb::handle encoding, std::int64_t length, const std::string& dtype) {
            const SegmentMemoryShape shape{.batch = batch,
                                           .memory = memory,
                                           .segment = segment,
                                           .heads = heads,
                                           .head_dim = head_dim,
                                           .value_dim = value_dim.value_or(head_dim)};
            auto frequencies = rotation_of(encoding, length);
            const Element element = chosen("segment_memory", "dtype", dtype, memory_elements);
            if (element == Element::float32)
              new (self) Memory(std::in_place_index<0>, shape, std::move(frequencies));
            else if (element == Element::float16)
              new (self) Memory(std::in_place_index<1>, shape, std::move(frequencies));
            else if (element == Element::bfloat16)
              new (self) Memory(std::in_place_index<2>, shape, std::move(frequencies));
            else
              new (self) Memory(std::in_place_index<3>, shape, std::move(frequencies));
          },
          nb::kw_only(), nb::arg("memory"), nb::arg("segment"), nb::arg("heads"),
          nb::arg("head_dim"), nb::arg("value_dim") = nb::none(), nb::arg("batch") = 1,
          nb::arg("encoding") = nb::none(), nb::arg("length") = 0, nb::arg("dtype") = "float32",
          nb::sig("def __init__(self, *, memory: int, segment: int, heads: int, head_dim: int, "
                  "value_dim: int | None = None, batch: int = 1, encoding: Encoding | "
                  "RotaryFrequencies | None = None, length: int = 0, dtype: MemoryType = "
                  "'float32') -> None"))
      .def_prop_ro("kept", get<Memory>([](const auto& one) { return one.kept(); }),
                   nb::sig("def kept(self) -> int"), "Rows that the next segment will see.")
      .def_prop_ro("next", get<Memory>([](const auto& one) { return one.next(); }),
                   nb::sig("def next(self) -> int"), "The position of the next token.")
      .def("append", &segment_of, nb::arg("k"), nb::arg("v"), nb::kw_only(),
           nb::arg("table") = nb::none(),
           nb::sig("def append(self, k: Array, v: Array, *, table: RotaryTable | None = None) "
                   "-> Segment"),
           R"(Appends a segment and returns what its queries attend to.

k: [B, T, Hk, D]; v: [B, T, Hk, Dv], of the type of the memory. The result has read-only views
keys and values [B, offset + T, Hk, D or Dv], valid until the next call; offset, the rows of
memory; first, the position of row 0 in the text.)")
      .def(
          "clear", [](Memory& memory) { std::visit([](auto& one) { one.clear(); }, memory); },
          nb::sig("def clear(self) -> None"),
          "Removes all tokens. The next one has position 0.");
}

}  // namespace

void bind_cache(nb::module_& module) {
  bind_kv_cache(module);
  bind_segment_memory(module);
}

}  // namespace gnomon::python
