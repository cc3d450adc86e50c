// gnomon.Positions.
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/ragged.h"
#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

Positions from_ids(nb::handle ids, nb::handle sequences) {
  const Integers all = integers("positions", "ids", ids);
  const bool one_row = all.shape.size() == 1;
  Positions positions = explicit_ids(View<const std::int64_t, 2>(
      all.values.data(), {one_row ? 1 : all.shape[0], all.shape.back()}));
  if (sequences.is_none()) return positions;
  const Integers given = integers("positions", "sequences", sequences);
  if (given.shape != all.shape)
    refuse("positions", "sequences must have the shape of ids, " + shape_text(all.shape),
           shape_text(given.shape));
  for (std::size_t i = 0; i < given.values.size(); ++i) {
    const std::int64_t one = given.values[i];
    if (one < Positions::padding || one > INT32_MAX)
      refuse("positions", "sequences must be -1 (padding) or a number from 0 to 2^31 - 1", one);
    positions.sequences[i] = static_cast<std::int32_t>(one);
  }
  return positions;
}

Positions ragged_of(nb::handle starts, nb::handle lengths, nb::handle offsets,
                    std::optional<std::int64_t> tokens) {
  const auto from = integers_if("positions", "starts", starts);
  const auto counts = integers_if("positions", "lengths", lengths);
  const auto past = integers_if("positions", "offsets", offsets);
  if (tokens && *tokens < 0) refuse("positions", "tokens must not be negative", *tokens);
  RaggedRows rows{.tokens = tokens.value_or(-1)};
  if (from) rows.starts = *from;
  if (counts) rows.lengths = *counts;
  if (past) rows.offsets = *past;
  return ragged_positions(rows);
}

Positions from_mask(nb::handle mask) {
  const Integers all = integers("positions", "mask", mask);
  std::vector<std::uint8_t> flags;
  flags.reserve(all.values.size());
  for (const std::int64_t one : all.values) flags.push_back(one != 0);
  const std::int64_t rows = all.shape.size() == 1 ? 1 : all.shape[0];
  return from_padding_mask(View<const std::uint8_t, 2>(flags.data(), {rows, all.shape.back()}));
}

// The state of pickle, which may come from a file of another user.
using PositionsState = std::tuple<std::int64_t, std::int64_t, std::vector<std::int64_t>,
                                  std::vector<std::int32_t>>;
Positions from_state(PositionsState& state) {
  auto& [batch, tokens, ids, sequences] = state;
  if (!internal::holds(ids.size(), batch, tokens) || sequences.size() != ids.size())
    refuse("positions",
           "a state must have ids and sequences for " + std::to_string(batch) + " x " +
               std::to_string(tokens) + " tokens",
           std::to_string(ids.size()) + " and " + std::to_string(sequences.size()));
  for (const std::int32_t one : sequences)
    if (one < Positions::padding)
      refuse("positions", "sequences must be -1 (padding) or a number from 0 to 2^31 - 1", one);
  return {batch, tokens, std::move(ids), std::move(sequences)};
}

std::string text(const Positions& p) {
  constexpr std::int64_t most = 8;
  std::string ids;
  for (std::int64_t i = 0; i < std::min(most, p.tokens) && p.batch > 0; ++i)
    ids += (ids.empty() ? "" : ", ") + std::to_string(p.ids[static_cast<std::size_t>(i)]);
  if (p.tokens > most) ids += ", ...";
  return "Positions([" + std::to_string(p.batch) + ", " + std::to_string(p.tokens) + "], ids " +
         (p.batch > 1 ? "of row 0 " : "") + "[" + ids + "])";
}

std::size_t hash_of(const Positions& p) {
  std::size_t sum = 0;
  add_hash(sum, p.batch);
  for (const std::int64_t id : p.ids) add_hash(sum, id);
  for (const std::int32_t sequence : p.sequences) add_hash(sum, sequence);
  return sum;
}

nb::object ids_of(const Positions& p) {
  return numpy(p.ids, {static_cast<std::size_t>(p.batch), static_cast<std::size_t>(p.tokens)});
}
nb::object sequences_of(const Positions& p) {
  return numpy(p.sequences,
               {static_cast<std::size_t>(p.batch), static_cast<std::size_t>(p.tokens)});
}

}  // namespace

std::int64_t integer_of(const char* operation, const char* name, nb::handle object) {
  std::int64_t value = 0;
  if (!nb::try_cast(object, value, false))
    refuse(operation, std::string(name) + " must be an integer of 64 bits",
           nb::cast<std::string>(nb::str(object.type())));
  return value;
}

std::optional<std::int64_t> count_of(const char* operation, const char* name,
                                     nb::handle object) {
  if (PyLong_CheckExact(object.ptr())) return integer_of(operation, name, object);
  if (!PyIndex_Check(object.ptr()) || PyBool_Check(object.ptr())) return std::nullopt;
  // Arrays with axes also have __index__.
  std::int64_t axes = 0;
  if (nb::hasattr(object, "ndim") && (!nb::try_cast(object.attr("ndim"), axes) || axes))
    return std::nullopt;
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (number.is_valid()) return integer_of(operation, name, number);
  PyErr_Clear();
  return std::nullopt;
}

Positions positions_of(const char* operation, const char* name, nb::handle object) {
  Positions positions;
  if (nb::try_cast(object, positions, false)) return positions;
  if (const auto count = count_of(operation, name, object)) return consecutive(*count);
  const Integers all = integers(operation, name, object);
  const bool one_row = all.shape.size() == 1;
  return explicit_ids(View<const std::int64_t, 2>(
      all.values.data(), {one_row ? 1 : all.shape[0], all.shape.back()}));
}

namespace {

// The elements of an array [T] of float64, or of a list with a float; nothing for others.
std::optional<std::vector<double>> reals_of(const char* operation, const char* name,
                                            nb::handle object) {
  std::vector<double> values;
  if (nb::isinstance<Positions>(object) || count_of(operation, name, object)) return {};
  if (!nb::hasattr(object, "__dlpack__")) {
    bool some = false;
    if (!PyList_Check(object.ptr())) return {};
    for (nb::handle one : nb::borrow<nb::list>(object)) {
      double value = 0;
      if (!nb::try_cast(one, value, true)) return {};
      some = some || PyFloat_Check(one.ptr());
      values.push_back(value);
    }
    return some ? std::optional(std::move(values)) : std::nullopt;
  }
  const Array array(operation, name, object, Array::Access::read);
  const ConstTensor at = array.tensor();
  if (at.dtype.code != TypeCode::floating && at.dtype.code != TypeCode::bfloat) return {};
  if (!at.holds<double>())
    refuse(operation, std::string(name) + " must be integers, or float64: others are rounded",
           gnomon::name(at.dtype));
  if (at.rank != 1)
    refuse(operation,
           std::string(name) +
               " that are no integers must have 1 axis, [T]: make one table "
               "for each row",
           std::int64_t{at.rank});
  const auto view = internal::read<double, 1>({operation, name}, at);
  values.reserve(internal::checked_size(operation, name, {view.extent(0)}));
  for (std::ptrdiff_t t = 0; t < view.extent(0); ++t) values.push_back(view(t));
  return values;
}

}  // namespace

std::optional<Coordinates> coordinates_of(const char* operation, const char* name,
                                          nb::handle object) {
  std::vector<nb::handle> axes = {object};
  if (PyTuple_Check(object.ptr())) {
    const auto all = nb::borrow<nb::tuple>(object);
    axes.assign(all.begin(), all.end());
  }
  std::vector<std::optional<std::vector<double>>> columns;
  bool some = false;
  for (const nb::handle axis : axes) {
    columns.push_back(reals_of(operation, name, axis));
    some = some || columns.back();
  }
  if (!some) return std::nullopt;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (!columns[i]) {
      const Positions positions = positions_of(operation, name, axes[i]);
      columns[i].emplace(positions.ids.begin(), positions.ids.end());
    }
  Coordinates all{std::ssize(*columns[0]), std::ssize(columns), {}};
  for (const auto& column : columns)
    if (std::ssize(*column) != all.tokens)
      refuse(operation,
             std::string(name) + " must have " + std::to_string(all.tokens) +
                 " tokens on each axis",
             static_cast<std::int64_t>(column->size()));
  for (std::int64_t t = 0; t < all.tokens; ++t)
    for (const auto& column : columns) {
      const double value = (*column)[static_cast<std::size_t>(t)];
      if (!(std::abs(value) <= 0x1p31))
        refuse(operation, std::string(name) + " must be at most 2^31 in magnitude", value);
      all.values.push_back(value);
    }
  return all;
}

std::vector<Positions> axes_of(const char* operation, const char* name, nb::handle object) {
  std::vector<Positions> axes;
  if (!PyTuple_Check(object.ptr())) {
    axes.push_back(positions_of(operation, name, object));
    return axes;
  }
  for (nb::handle one : nb::borrow<nb::tuple>(object))
    axes.push_back(positions_of(operation, name, one));
  return axes;
}

void bind_positions(nb::module_& module) {
  nb::class_<Positions>(module, "Positions",
                        R"(Positions of the tokens of a batch, and the sequence of each token.

ids: integers, [T] or [B, T].
sequences: the same shape. Tokens of a row attend to each other if they have the same
number; -1 is padding. Default: one sequence for each row.)")
      .def(
          "__init__",
          [](Positions* self, nb::handle ids, nb::handle sequences) {
            new (self) Positions(from_ids(ids, sequences));
          },
          nb::arg("ids"), nb::arg("sequences") = nb::none(),
          nb::sig(
              "def __init__(self, ids: IntegerArray, sequences: IntegerArray | None = None) "
              "-> None"))
      .def_static("consecutive", &consecutive, nb::arg("tokens"), nb::arg("offset") = 0,
                  nb::arg("batch") = 1,
                  "Returns the positions offset, offset + 1, ... in each row of the batch.")
      .def_static(
          "packed",
          [](const std::vector<std::int64_t>& lengths, std::optional<std::int64_t> tokens) {
            return tokens ? packed(lengths, *tokens) : packed(lengths);
          },
          nb::arg("lengths"), nb::arg("tokens") = nb::none(),
          R"(Returns one row of packed sequences, each with positions from 0. Remaining tokens
are padding.)")
      .def_static(
          "ragged", &ragged_of, nb::kw_only(), nb::arg("starts") = nb::none(),
          nb::arg("lengths") = nb::none(), nb::arg("offsets") = nb::none(),
          nb::arg("tokens") = nb::none(),
          nb::sig(
              "def ragged(*, starts: IntegerArray | None = None, lengths: IntegerArray | None "
              "= None, offsets: IntegerArray | None = None, tokens: int | None = None) -> "
              "Positions"),
          R"(Returns the positions of sequences of different lengths, after cached tokens.
Row i of sequence n is at offsets[n] + i (default: 0).

starts [N + 1]: one row of the batch, where sequence n has the tokens starts[n] to
    starts[n + 1]. lengths [N]: N rows, where sequence n has the first lengths[n] tokens. Other
    tokens are padding. tokens: of a row; default: the last start, or the greatest length.)")
      .def_static(
          "from_padding_mask", &from_mask, nb::arg("mask"),
          nb::sig("def from_padding_mask(mask: IntegerArray) -> Positions"),
          R"(Returns the positions for a padding mask [B, T], nonzero for tokens. The tokens
of a row have the positions 0, 1, 2, ...)")
      .def_ro("batch", &Positions::batch, "B, the rows of the batch.")
      .def_ro("tokens", &Positions::tokens, "T, the tokens of a row.")
      .def_prop_ro("ids", &ids_of,
                   nb::sig("def ids(self) -> numpy.typing.NDArray[numpy.int64]"),
                   "A copy of the positions, int64 [B, T].")
      .def_prop_ro("sequences", &sequences_of,
                   nb::sig("def sequences(self) -> numpy.typing.NDArray[numpy.int32]"),
                   "A copy of the sequence numbers, int32 [B, T]; -1 is padding.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", &hash_of, nb::sig("def __hash__(self) -> int"))
      .def("__repr__", &text)
      .def(
          "__getstate__",
          [](const Positions& p) {
            return nb::make_tuple(p.batch, p.tokens, p.ids, p.sequences);
          },
          nb::sig("def __getstate__(self) -> tuple[int, int, list[int], list[int]]"))
      .def(
          "__setstate__",
          [](Positions* self, PositionsState state) {
            new (self) Positions(from_state(state));
          },
          nb::sig(
              "def __setstate__(self, state: tuple[int, int, list[int], list[int]]) -> None"));
}

}  // namespace gnomon::python
