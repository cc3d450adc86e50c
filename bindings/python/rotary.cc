// gnomon.RotaryFrequencies, gnomon.RotaryTable and gnomon.rotate.
#include "gnomon/rotary/rotary.h"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"
#include "src/core/angles.h"
#include "src/core/tensor.h"
#include "src/model/encodings/entry.h"
#include "src/rotary/check.h"
#include "src/rotary/rotate.h"

namespace gnomon::python {
namespace {

constexpr Choice<Pairing> pairings[] = {{"halves", Pairing::halves},
                                        {"adjacent", Pairing::adjacent}};

std::string name(Pairing pairing) {
  for (const auto& [text, value] : pairings)
    if (value == pairing) return text;
  return "?";
}

RotaryFrequencies frequencies_of(const model::Encoding& spec, std::int64_t length) {
  if (auto found = model::rotary_frequencies(spec, length)) return *std::move(found);
  std::string rule = "the encoding must be rotary with one set of frequencies";
  if (std::holds_alternative<XPos>(spec))
    rule += ": use query_rotary and key_rotary of the plan of gnomon.lower";
  if (std::holds_alternative<Vjepa2>(spec) || std::holds_alternative<RotaryPlusPlus>(spec) ||
      std::holds_alternative<RotaryMixed>(spec) || std::holds_alternative<ComRope>(spec))
    rule += ": use gnomon.attention with the plan of gnomon.lower";
  refuse("rotary", rule, model::info(spec).name);
}

RotaryFrequencies frequencies_from(nb::handle encoding, std::int64_t length) {
  RotaryFrequencies frequencies;
  if (nb::try_cast(encoding, frequencies, false)) return frequencies;
  return frequencies_of(encoding_of(encoding), length);
}

// The rows of a rotary spec or of frequencies, as `lower` computes them.
RotaryTable table_of(nb::handle encoding, nb::handle positions, std::int64_t length,
                     Angles angles) {
  std::optional<model::Encoding> spec;
  RotaryFrequencies frequencies;
  if (!nb::try_cast(encoding, frequencies, false))
    frequencies = frequencies_of(spec.emplace(encoding_of(encoding)), length);
  if (const auto coordinates = coordinates_of("rotary", "positions", positions)) {
    const ReleasedGil released;
    return {std::move(frequencies), coordinates->view(), angles};
  }
  std::vector<Positions> axes = axes_of("rotary", "positions", positions);
  if (spec) {
    if (const auto* axial = std::get_if<AxialRotary>(&*spec))
      axes = model::cells_or_axes(axes, axial->grid);
    // Text in a model with several axes.
    const std::int64_t count = rotary_internal::axis_count(frequencies);
    if (axes.size() == 1 && count > 1)
      axes.resize(static_cast<std::size_t>(count), Positions(axes.front()));
  }
  const ReleasedGil released;
  if (axes.size() == 1) return {std::move(frequencies), axes.front(), angles};
  return {std::move(frequencies), axes, angles};
}

std::string text(const RotaryFrequencies& f) {
  std::string text = "RotaryFrequencies(pairing='" + name(f.pairing) + "', " +
                     std::to_string(f.inv_freq.size()) + " pairs";
  if (f.head_offset) text += ", head_offset=" + std::to_string(f.head_offset);
  if (!f.axes.empty()) text += ", with axes";
  if (f.table_scale != 1) text += ", table_scale=" + std::to_string(f.table_scale);
  return text + ")";
}

std::size_t hash_of(const RotaryFrequencies& f) {
  std::size_t sum = static_cast<std::size_t>(f.pairing);
  add_hash(sum, f.head_offset);
  for (const double one : f.inv_freq) add_hash(sum, one);
  for (const std::int32_t axis : f.axes) add_hash(sum, axis);
  add_hash(sum, f.table_scale);
  for (const double one : f.growth) add_hash(sum, one);
  add_hash(sum, f.centre);
  return sum;
}

// Frequencies from Python, or from a pickle of another user.
RotaryFrequencies checked(RotaryFrequencies frequencies) {
  rotary_internal::check(frequencies, rotary_internal::axis_count(frequencies));
  internal::check_frequencies(frequencies.inv_freq);
  return frequencies;
}

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& axes) {
  for (const std::int64_t axis : axes)
    if (axis < 0 || axis > INT32_MAX)
      refuse("rotary", "axes must be numbers of position axes, from 0", axis);
  return {axes.begin(), axes.end()};
}

using FrequenciesState =
    std::tuple<std::string, std::int64_t, std::vector<double>, std::vector<std::int32_t>,
               double, std::vector<double>, std::int64_t>;

using TableState = std::tuple<RotaryFrequencies, nb::object, nb::object>;

void rotate_arrays(nb::handle x, const RotaryTable& table, std::string_view direction,
                   nb::handle k, nb::handle out) {
  using Access = Array::Access;
  const Direction sign = direction_of("rotate", direction);
  if (!out.is_none()) {
    if (!k.is_none()) refuse("rotate", "k and out must not be given together", "both");
    const Array from("rotate", "x", x, Access::read), to("rotate", "out", out, Access::write);
    ReleasedGil released;
    return rotate(from.tensor(), table, sign, to.tensor());
  }
  const Array q("rotate", "x", x, Access::write);
  if (k.is_none()) {
    ReleasedGil released;
    return rotate(q.tensor(), table, sign);
  }
  const Array keys("rotate", "k", k, Access::write);
  ReleasedGil released;
  rotate(q.tensor(), keys.tensor(), table, sign);
}

// Rotates x by cos and sin [B or 1, T, R/2]. Reads only the pairing, the offset and R from the
// frequencies.
void rotate_by(const Tensor& x, const Tensor& out, const RotaryFrequencies& frequencies,
               const View<const float, 3>& cos, const View<const float, 3>& sin, bool inverse) {
  using namespace rotary_internal;
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    const auto from = heads_of<T>("x", static_cast<const ConstTensor&>(x));
    const auto to = heads_of<T>("out", out);
    check_heads(from, frequencies);
    check_target("out", from, to);
    if (cos.extent(1) != from.extent(1))
      refuse("rotate",
             "cos and sin must have the tokens of x, " + std::to_string(from.extent(1)),
             std::int64_t{cos.extent(1)});
    if (cos.extent(0) != 1 && cos.extent(0) != from.extent(0))
      refuse("rotate",
             "cos and sin must have 1 row or the rows of x, " + std::to_string(from.extent(0)),
             std::int64_t{cos.extent(0)});
    const auto rows = [&](const View<const float, 3>& of) {
      return View<const float, 3>(of.data(), {from.extent(0), of.extent(1), of.extent(2)},
                                  {of.extent(0) == 1 ? 0 : of.stride(0), of.stride(1), 1});
    };
    rotate_together(frequencies, CosSin{rows(cos), rows(sin), inverse ? -1.0f : 1.0f},
                    InputOutput<T, T>(from, to));
  });
}

void check_axes(const Tensor& x) {
  if (x.rank != 4) refuse("rotate", "x must have 4 axes", std::int64_t{x.rank});
}

void rotate_rows(nb::handle x, nb::handle out, const RotaryTable& table,
                 std::optional<std::int64_t> first, bool heads_tokens, bool inverse) {
  const Array from("rotate", "x", x, Array::Access::read);
  const Array to("rotate", "out", out, Array::Access::write);
  check_axes(from), check_axes(to);
  const TokensFirst input(from, heads_tokens), output(to, heads_tokens);
  const std::int64_t tokens = input.tensor.shape[1], begin = first.value_or(0);
  if (!first && tokens != table.tokens())
    refuse("rotate", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           tokens);
  if (begin < 0 || tokens > table.tokens() - begin)
    refuse("rotate",
           "x must have at most " + std::to_string(table.tokens() - begin) + " tokens", tokens);
  const auto rows = [&](const View<const float, 3>& of) {
    return View<const float, 3>(of.data() + begin * of.stride(1),
                                {of.extent(0), tokens, of.extent(2)},
                                {of.stride(0), of.stride(1), 1});
  };
  ReleasedGil released;
  rotate_by(input.tensor, output.tensor, table.frequencies(), rows(table.cos()),
            rows(table.sin()), inverse);
}

// The first `pairs` columns of cos or sin as float. Elements of other types are converted.
class Factors {
 public:
  Factors(const char* name, const ConstTensor& given, std::optional<std::int64_t> pairs) {
    internal::by_type({"rotate", name}, given, [&]<typename T>(T) {
      const auto all = internal::read_batch<T, 3>({"rotate", name}, given);
      const auto [batch, tokens, columns] = all.extents();
      const std::int64_t used = pairs.value_or(columns);
      if (used < 0 || used > columns)
        refuse("rotate",
               std::string(name) + " must have at least " + std::to_string(used) + " columns",
               std::int64_t{columns});
      if constexpr (std::is_same_v<T, float>)
        if (used <= 1 || all.stride(2) == 1) {
          view_ = {all.data(), {batch, tokens, used}, all.strides()};
          return;
        }
      values_.resize(internal::checked_size("rotate", name, {batch, tokens, used}));
      float* to = values_.data();
      const std::int64_t step = all.stride(2);
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < tokens; ++t, to += used) {
          const T* const row = all.data() + b * all.stride(0) + t * all.stride(1);
          if (step == 1)
            for (std::int64_t i = 0; i < used; ++i) to[i] = static_cast<float>(row[i]);
          else
            for (std::int64_t i = 0; i < used; ++i) to[i] = static_cast<float>(row[i * step]);
        }
      view_ = {values_.data(), {batch, tokens, used}};
    });
  }
  Factors(const Factors&) = delete;
  Factors& operator=(const Factors&) = delete;
  const View<const float, 3>& view() const noexcept { return view_; }

 private:
  std::vector<float> values_;
  View<const float, 3> view_;
};

void rotate_with(nb::handle x, nb::handle out, nb::handle cos, nb::handle sin,
                 const std::string& pairing, std::int64_t head_offset, bool heads_tokens,
                 bool inverse, std::optional<std::int64_t> pairs) {
  const Array from("rotate", "x", x, Array::Access::read);
  const Array to("rotate", "out", out, Array::Access::write);
  check_axes(from), check_axes(to);
  const TokensFirst input(from, heads_tokens), output(to, heads_tokens);
  const Array cosines("rotate", "cos", cos, Array::Access::read);
  const Array sines("rotate", "sin", sin, Array::Access::read);
  const Factors cos_factors("cos", cosines.tensor(), pairs);
  const Factors sin_factors("sin", sines.tensor(), pairs);
  const auto &c = cos_factors.view(), &s = sin_factors.view();
  if (c.extents() != s.extents())
    refuse("rotate", "sin must have the shape of cos, " + shape_text(c.extents()),
           shape_text(s.extents()));
  if (head_offset < 0) refuse("rotate", "head_offset must not be negative", head_offset);
  const RotaryFrequencies frequencies{
      .pairing = chosen("rotate", "pairing", pairing, pairings),
      .head_offset = head_offset,
      .inv_freq = std::vector<double>(static_cast<std::size_t>(c.extent(2)))};
  ReleasedGil released;
  rotate_by(input.tensor, output.tensor, frequencies, c, s, inverse);
}

}  // namespace

void bind_rotary(nb::module_& module) {
  nb::class_<RotaryFrequencies>(
      module, "RotaryFrequencies",
      R"(The angle of each pair of a head for one position. Every rotary spec lowers to it.

pairing: 'halves' (i, i + R/2) or 'adjacent' (2i, 2i + 1).
inv_freq: radians per position, [R/2].
head_offset: the first rotated element of the head.
axes: the position axis of each pair, [R/2] (M-RoPE); empty: axis 0.
table_scale: a factor on cos and sin (the attention factor of YaRN).)")
      .def(
          "__init__",
          [](RotaryFrequencies* self, const std::string& pairing, std::vector<double> inv_freq,
             std::int64_t head_offset, const std::vector<std::int64_t>& axes,
             double table_scale) {
            new (self) RotaryFrequencies(
                checked({.pairing = chosen("rotary", "pairing", pairing, pairings),
                         .head_offset = head_offset,
                         .inv_freq = std::move(inv_freq),
                         .axes = narrowed(axes),
                         .table_scale = table_scale}));
          },
          nb::kw_only(), nb::arg("pairing"), nb::arg("inv_freq"), nb::arg("head_offset") = 0,
          nb::arg("axes") = std::vector<std::int64_t>{}, nb::arg("table_scale") = 1.0,
          nb::sig("def __init__(self, *, pairing: Pairing, inv_freq: Sequence[float], "
                  "head_offset: int = 0, axes: Sequence[int] = (), table_scale: float = 1.0) "
                  "-> None"))
      .def_prop_ro(
          "pairing", [](const RotaryFrequencies& f) { return name(f.pairing); },
          nb::sig("def pairing(self) -> Pairing"))
      .def_ro("head_offset", &RotaryFrequencies::head_offset)
      .def_prop_ro("rotary_dim", &RotaryFrequencies::rotary_dim,
                   "R, the rotated elements of a head.")
      .def_prop_ro(
          "inv_freq",
          [](const RotaryFrequencies& f) { return numpy(f.inv_freq, {f.inv_freq.size()}); },
          nb::sig("def inv_freq(self) -> numpy.typing.NDArray[numpy.float64]"),
          "A copy of the frequencies, float64 [R/2], in radians per position.")
      .def_prop_ro(
          "axes", [](const RotaryFrequencies& f) { return numpy(f.axes, {f.axes.size()}); },
          nb::sig("def axes(self) -> numpy.typing.NDArray[numpy.int32]"))
      .def_ro("table_scale", &RotaryFrequencies::table_scale)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", &hash_of, nb::sig("def __hash__(self) -> int"))
      .def("__repr__", &text)
      .def(
          "__getstate__",
          [](const RotaryFrequencies& f) {
            return FrequenciesState(name(f.pairing), f.head_offset, f.inv_freq, f.axes,
                                    f.table_scale, f.growth, f.centre);
          },
          nb::sig("def __getstate__(self) -> tuple[Any, ...]"))
      .def(
          "__setstate__",
          [](RotaryFrequencies* self, const FrequenciesState& s) {
            new (self) RotaryFrequencies(
                checked({.pairing = chosen("rotary", "pairing", std::get<0>(s), pairings),
                         .head_offset = std::get<1>(s),
                         .inv_freq = std::get<2>(s),
                         .axes = std::get<3>(s),
                         .table_scale = std::get<4>(s),
                         .growth = std::get<5>(s),
                         .centre = std::get<6>(s)}));
          },
          nb::sig("def __setstate__(self, state: tuple[Any, ...]) -> None"));

  module.def(
      "rotary_frequencies", &frequencies_from, nb::arg("encoding"), nb::arg("length") = 0,
      nb::sig("def rotary_frequencies(encoding: Encoding | RotaryFrequencies, length: int = "
              "0) -> RotaryFrequencies"),
      R"(Returns the frequencies of a rotary encoding at a declared context length.

length: for scalings that depend on it (dynamic NTK, LongRoPE); 0: that of the spec.
Each frequency is within one ulp of the formula. Raises ValueError if the encoding
has no single set of frequencies.)");

  nb::class_<RotaryTable>(
      module, "RotaryTable",
      R"(Cos and sin of every angle of a rotary encoding, for given positions.

encoding: a rotary spec or RotaryFrequencies.
positions: a number T of tokens (positions 0 to T - 1), integers [T] or [B, T], Positions,
    or a tuple of them, one for each position axis (M-RoPE). Continuous positions: float64
    [T], or a tuple of them. A spec with a grid takes the numbers of cells.
length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.
angles: 'exact', or 'float32' to follow engines that compute position * inv_freq in float32.

Each entry is within half an ulp + 2^-46 of the true value for positions up to 2^31.
Cost: O(B T R) time, 4 B T R bytes. Source: Su et al. 2021, arXiv:2104.09864.)")
      .def(
          "__init__",
          [](RotaryTable* self, nb::handle encoding, nb::handle positions, std::int64_t length,
             const std::string& angles) {
            new (self) RotaryTable(table_of(encoding, positions, length, angles_of(angles)));
          },
          nb::arg("encoding"), nb::arg("positions"), nb::kw_only(), nb::arg("length") = 0,
          nb::arg("angles") = "exact",
          nb::sig("def __init__(self, encoding: Encoding | RotaryFrequencies, positions: "
                  "PositionsLike, *, length: int = 0, angles: Angles = 'exact') -> None"))
      .def_prop_ro("batch", &RotaryTable::batch, "1, or the rows of the batch.")
      .def_prop_ro("tokens", &RotaryTable::tokens)
      .def_prop_ro("frequencies", [](const RotaryTable& table) { return table.frequencies(); })
      .def_prop_ro(
          "cos",
          [](nb::handle self) {
            return numpy_view(nb::cast<const RotaryTable&>(self).cos(), self);
          },
          nb::sig("def cos(self) -> numpy.typing.NDArray[numpy.float32]"),
          "Cosines, read-only float32 [B or 1, T, R/2]; no copy.")
      .def_prop_ro(
          "sin",
          [](nb::handle self) {
            return numpy_view(nb::cast<const RotaryTable&>(self).sin(), self);
          },
          nb::sig("def sin(self) -> numpy.typing.NDArray[numpy.float32]"),
          "Sines, read-only float32 [B or 1, T, R/2]; no copy.")
      .def(
          "__copy__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __copy__(self) -> RotaryTable"))
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); },
          nb::sig("def __deepcopy__(self, memo: object) -> RotaryTable"))
      .def(
          "__getstate__",
          [](nb::handle self) {
            return nb::make_tuple(self.attr("frequencies"), self.attr("cos"), self.attr("sin"));
          },
          nb::sig("def __getstate__(self) -> tuple[Any, ...]"))
      .def(
          "__setstate__",
          [](RotaryTable* self, const TableState& state) {
            const auto& [frequencies, cos, sin] = state;
            const Array cosines("rotary", "cos", cos, Array::Access::read),
                sines("rotary", "sin", sin, Array::Access::read);
            new (self) RotaryTable(
                frequencies, internal::read<float, 3>({"rotary", "cos"}, cosines.tensor()),
                internal::read<float, 3>({"rotary", "sin"}, sines.tensor()));
          },
          nb::sig("def __setstate__(self, state: tuple[Any, ...]) -> None"))
      .def("__repr__", [](const RotaryTable& table) {
        return "RotaryTable(" + text(table.frequencies()) + ", [" +
               std::to_string(table.batch()) + ", " + std::to_string(table.tokens()) +
               "] positions)";
      });

  module.def(
      "rotate", &rotate_arrays, nb::arg("x"), nb::arg("table"),
      nb::arg("direction") = "forward", nb::kw_only(), nb::arg("k") = nb::none(),
      nb::arg("out") = nb::none(),
      nb::sig("def rotate(x: Array, table: RotaryTable, direction: Direction = 'forward', "
              "*, k: Array | None = None, out: Array | None = None) -> None"),
      R"(Rotates queries or keys in place.

x: [B, T, H, D] or [T, H, D], any strides (x.transpose(1, 2) of [B, H, T, D]), D
    contiguous; float32, float16, bfloat16 or float64.
direction: 'forward', or 'inverse' for the gradient.
k: keys that are rotated in the same pass; heads and D may differ from those of x.
out: if given, receives the result, and x is not changed.

|x' - exact| <= 3 * 2^-24 (|a| + |b|) for the pair (a, b); 16-bit types are rounded
once more. Memory-bound, no copies; releases the GIL. Raises ValueError if shapes do
not fit the table or an array that is changed is read-only.)");

  module.def(
      "rotate_rows", &rotate_rows, nb::arg("x"), nb::arg("out"), nb::arg("table"),
      nb::arg("begin").none(), nb::arg("heads_tokens"), nb::arg("inverse"),
      nb::sig("def rotate_rows(x: Array, out: Array, table: RotaryTable, begin: int | None, "
              "heads_tokens: bool, inverse: bool) -> None"),
      R"(Writes the rotation of x by rows begin to begin + T - 1 of a table to out. x and out
may be the same array. None: all rows. Shapes: [B, T, H, D], or [B, H, T, D] if
heads_tokens.)");
  module.def(
      "rotate_with", &rotate_with, nb::arg("x"), nb::arg("out"), nb::arg("cos"), nb::arg("sin"),
      nb::arg("pairing"), nb::arg("head_offset"), nb::arg("heads_tokens"), nb::arg("inverse"),
      nb::arg("pairs") = nb::none(),
      nb::sig("def rotate_with(x: Array, out: Array, cos: Array, sin: Array, pairing: Pairing, "
              "head_offset: int, heads_tokens: bool, inverse: bool, pairs: int | None = None) "
              "-> None"),
      R"(Writes the rotation of x by given cos and sin to out. cos, sin: [T, R/2] or [B or 1, T,
R/2]; types other than float32 are converted. pairs: if given, only the first `pairs`
columns are read. Shapes of x and out as in rotate_rows.)");
}

}  // namespace gnomon::python
