// Conversions of Python objects to the values of the library.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/plan.h"
#include "gnomon/model/encoding.h"
#include "gnomon/position/positions.h"

namespace gnomon::python {

namespace nb = nanobind;

// A spec (an object with to_json()), its JSON text, or a sequence of either.
model::Mixture mixture_of(nb::handle object);
model::Encoding encoding_of(nb::handle object);

// Returns a Python integer. Throws std::invalid_argument if it does not fit 64 bits.
std::int64_t integer_of(const char* operation, const char* name, nb::handle object);

// Returns an integer of Python, NumPy or another package; nothing for other objects.
std::optional<std::int64_t> count_of(const char* operation, const char* name,
                                     nb::handle object);

// Positions, integers [T] or [B, T], or a number of tokens: 0 to T - 1.
Positions positions_of(const char* operation, const char* name, nb::handle object);
// The same, or a tuple of them: one for each position axis (M-RoPE).
std::vector<Positions> axes_of(const char* operation, const char* name, nb::handle object);

// Continuous positions [T] on A axes, [T, A].
struct Coordinates {
  std::int64_t tokens = 0, axes = 0;
  std::vector<double> values;
  View<const double, 2> view() const noexcept { return {values.data(), {tokens, axes}}; }
};
// Returns positions that are no integers: float64 [T], a list with a float, or a tuple with
// such an axis. Nothing for other objects.
std::optional<Coordinates> coordinates_of(const char* operation, const char* name,
                                          nb::handle object);

// Returns the value of an enum by its name in `choices`. Throws std::invalid_argument with the
// list.
template <typename E>
struct Choice {
  const char* name;
  E value;
};
[[noreturn]] void refuse_choice(const char* operation, const char* name,
                                const std::string& list, std::string_view got);
template <typename E, std::size_t n>
E chosen(const char* operation, const char* name, std::string_view text,
         const Choice<E> (&choices)[n]) {
  std::string list;
  for (const Choice<E>& one : choices) {
    if (text == one.name) return one.value;
    list += (list.empty() ? "" : ", ") + std::string(one.name);
  }
  refuse_choice(operation, name, list, text);
}

// Adds a value to a hash.
template <typename T>
void add_hash(std::size_t& sum, const T& value) {
  sum = 31 * sum + std::hash<T>()(value);
}

Direction direction_of(const char* operation, std::string_view text);
Visibility visibility_of(const char* operation, const std::string& text);
std::string name(Visibility visibility);
Angles angles_of(const std::string& text);

// Copies of float32 matrices [rows, columns]; None: without data.
std::vector<Matrix> matrices_of(const char* operation, nb::handle parameters);

void bind_positions(nb::module_& module);
void bind_rotary(nb::module_& module);
void bind_encodings(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_plan_class(nb::module_& module);
void bind_model(nb::module_& module);
void bind_cache(nb::module_& module);
void bind_paged_cache(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_resize(nb::module_& module);
void bind_compression(nb::module_& module);
void bind_convolution(nb::module_& module);
void bind_dape(nb::module_& module);
void bind_jax(nb::module_& module);
void bind_wrong_calls(nb::module_& module);  // after all others

}  // namespace gnomon::python
