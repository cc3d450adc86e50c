// gnomon.Positions.
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "gnomon/error.h"
#include "src/core/size.h"

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

Positions positions_of(const char* operation, const char* name, nb::handle object) {
  Positions positions;
  if (nb::try_cast(object, positions, false)) return positions;
  if (PyLong_Check(object.ptr()) && !PyBool_Check(object.ptr()))
    return consecutive(integer_of(operation, name, object));
  const Integers all = integers(operation, name, object);
  const bool one_row = all.shape.size() == 1;
  return explicit_ids(View<const std::int64_t, 2>(
      all.values.data(), {one_row ? 1 : all.shape[0], all.shape.back()}));
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
