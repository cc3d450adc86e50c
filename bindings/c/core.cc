// gnomon.h: errors, threads, rotary, tables.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "bindings/c/handles.h"
#include "gnomon/angles.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/decoding.h"
#include "gnomon/rotary/int8_keys.h"
#include "gnomon/version.h"
#include "src/core/angles.h"
#include "src/core/overlap.h"
#include "src/core/tensor.h"
#include "src/rotary/check.h"

using gnomon::c::given;
using gnomon::c::guarded;
using gnomon::c::make;
using gnomon::c::tensor;
using gnomon::c::tensor_if;

namespace gnomon::c {
namespace {

thread_local std::string message;

constexpr std::int64_t most_axes = 1024;  // limit for axes of positions

Direction direction_of(int32_t direction) { return static_cast<Direction>(direction); }

Rotary rotary_of(const gnomon_rotary_spec* given_spec) {
  const gnomon_rotary_spec& spec = sized("gnomon_rotary_spec", "spec", given_spec);
  return {.rotary_dim = spec.rotary_dim,
          .pairing = static_cast<Pairing>(spec.pairing),
          .base = spec.base == 0 ? 10'000.0 : spec.base,
          .head_offset = spec.head_offset};
}

// Checks an output for the elements of a view.
View<float, 3> output_of(const char* name, View<const float, 3> from, const Tensor& out) {
  const auto to = internal::write<float, 3>({"c", name}, out);
  if (to.extents() != from.extents())
    refuse("c", std::string(name) + " must have the shape " + shape_text(from.extents()),
           shape_text(to.extents()));
  return to;
}
void copy(View<const float, 3> from, View<float, 3> to) {
  for (std::ptrdiff_t b = 0; b < from.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < from.extent(1); ++t)
      for (std::ptrdiff_t i = 0; i < from.extent(2); ++i) to(b, t, i) = from(b, t, i);
}

}  // namespace

std::vector<Positions> axes_of(const char* name, const gnomon_tensor* ids,
                               const gnomon_tensor* sequences) {
  const internal::Argument named{"c", name};
  const Tensor from = tensor(name, ids);
  std::vector<Positions> axes;
  if (from.rank == 1) {
    axes.push_back(explicit_ids(elements_of<std::int64_t>(name, ids)));
  } else if (from.rank == 2) {
    axes.push_back(explicit_ids(internal::read<std::int64_t, 2>(named, from)));
  } else {
    const auto all = internal::read<std::int64_t, 3>(named, from);
    if (all.extent(0) > most_axes)
      refuse("c", std::string(name) + " must have at most 1024 axes",
             std::int64_t{all.extent(0)});
    for (std::ptrdiff_t axis = 0; axis < all.extent(0); ++axis)
      axes.push_back(explicit_ids(all[axis]));
  }
  if (!sequences) return axes;
  const auto rows = internal::read<std::int32_t, 2>(named, tensor_if(sequences));
  for (Positions& axis : axes) {
    if (rows.extent(0) != axis.batch || rows.extent(1) != axis.tokens)
      refuse("c", std::string(name) + " must have sequences shaped as the ids",
             shape_text(rows.extents()));
    for (std::ptrdiff_t b = 0; b < axis.batch; ++b)
      for (std::ptrdiff_t t = 0; t < axis.tokens; ++t)
        axis.sequences[static_cast<std::size_t>(b * axis.tokens + t)] = rows(b, t);
  }
  return axes;
}

gnomon_status failed(gnomon_status status, const char* text) noexcept {
  try {
    message = text;
  } catch (...) {
    message.clear();
  }
  return status;
}

}  // namespace gnomon::c

const char* gnomon_error_message(void) { return gnomon::c::message.c_str(); }

namespace {

// "1.2.3" as 10203.
constexpr int32_t number_of(std::string_view version) {
  int32_t number = 0, part = 0;
  for (const char digit : version) {
    if (digit == '.')
      number = 100 * (number + part), part = 0;
    else
      part = 10 * part + (digit - '0');
  }
  return number + part;
}
static_assert(number_of(GNOMON_VERSION) == GNOMON_VERSION_NUMBER,
              "gnomon.h must have the version of gnomon/version.h");

}  // namespace

int32_t gnomon_version_number(void) { return GNOMON_VERSION_NUMBER; }
const char* gnomon_version(void) { return GNOMON_VERSION; }

const char* gnomon_isa(void) {
  const char* text = "";
  guarded([&] { text = gnomon::name(gnomon::current_isa()).data(); });  // pointer to a literal
  return text;
}

void gnomon_free(char* text) { std::free(text); }

gnomon_status gnomon_set_threads(int32_t count) {
  return guarded([&] { gnomon::set_threads(count); });
}
int32_t gnomon_threads(void) { return gnomon::threads(); }

gnomon_status gnomon_set_executor(gnomon_run run, void* context, int32_t threads) {
  return guarded([&] { gnomon::set_executor({run, context, threads}); });
}

gnomon_status gnomon_frequencies_create(const gnomon_rotary_spec* spec,
                                        gnomon_frequencies** out) {
  return guarded([&] { make(out, gnomon::lower(gnomon::c::rotary_of(spec))); });
}

gnomon_status gnomon_frequencies_from(const gnomon_rotary_spec* spec,
                                      const gnomon_tensor* inv_freq, const gnomon_tensor* axes,
                                      double table_scale, gnomon_frequencies** out) {
  return guarded([&] {
    const gnomon::Rotary rotary = gnomon::c::rotary_of(spec);
    gnomon::RotaryFrequencies frequencies{
        .pairing = rotary.pairing,
        .head_offset = rotary.head_offset,
        .inv_freq = gnomon::c::elements_of<double>("inv_freq", inv_freq),
        .table_scale = table_scale};
    if (axes) frequencies.axes = gnomon::c::elements_of<std::int32_t>("axes", axes);
    if (frequencies.rotary_dim() != rotary.rotary_dim)
      gnomon::refuse("c",
                     "inv_freq must have rotary_dim / 2 = " +
                         std::to_string(rotary.rotary_dim / 2) + " elements",
                     frequencies.rotary_dim() / 2);
    gnomon::rotary_internal::check(frequencies,
                                   gnomon::rotary_internal::axis_count(frequencies));
    gnomon::internal::check_frequencies(frequencies.inv_freq);
    make(out, std::move(frequencies));
  });
}

gnomon_status gnomon_frequencies_get(const gnomon_frequencies* frequencies,
                                     const gnomon_tensor* inv_freq) {
  return guarded([&] {
    const auto& from = given("frequencies", frequencies).frequencies.inv_freq;
    const auto to =
        gnomon::internal::write<double, 1>({"c", "inv_freq"}, tensor("inv_freq", inv_freq));
    if (to.extent(0) != std::ssize(from))
      gnomon::refuse("c", "inv_freq must have " + std::to_string(from.size()) + " elements",
                     std::int64_t{to.extent(0)});
    for (std::size_t i = 0; i < from.size(); ++i) to(static_cast<std::int64_t>(i)) = from[i];
  });
}

int64_t gnomon_frequencies_count(const gnomon_frequencies* frequencies) {
  return frequencies ? std::ssize(frequencies->frequencies.inv_freq) : 0;
}

void gnomon_frequencies_destroy(gnomon_frequencies* frequencies) { delete frequencies; }

gnomon_status gnomon_rotary_table_create(const gnomon_frequencies* frequencies,
                                         const gnomon_tensor* positions,
                                         gnomon_rotary_table** out) {
  return guarded([&] {
    make(out, gnomon::RotaryTable(given("frequencies", frequencies).frequencies,
                                  gnomon::c::axes_of("positions", positions, nullptr)));
  });
}

gnomon_status gnomon_rotary_table_get(const gnomon_rotary_table* table,
                                      const gnomon_tensor* cos, const gnomon_tensor* sin) {
  return guarded([&] {
    const gnomon::RotaryTable& from = given("table", table).table;
    const gnomon::Tensor cosines = tensor("cos", cos), sines = tensor("sin", sin);
    const auto to_cos = gnomon::c::output_of("cos", from.cos(), cosines);
    const auto to_sin = gnomon::c::output_of("sin", from.sin(), sines);
    gnomon::internal::check_disjoint({"c", "sin"}, sines, "cos", cosines);
    gnomon::c::copy(from.cos(), to_cos);
    gnomon::c::copy(from.sin(), to_sin);
  });
}

void gnomon_rotary_table_destroy(gnomon_rotary_table* table) { delete table; }

gnomon_status gnomon_cos_sin(const gnomon_tensor* positions,
                             const gnomon_frequencies* frequencies, const gnomon_tensor* cos,
                             const gnomon_tensor* sin) {
  return guarded([&] {
    const auto ids = gnomon::c::elements_of<std::int64_t>("positions", positions);
    const gnomon::RotaryFrequencies& by = given("frequencies", frequencies).frequencies;
    if (!by.axes.empty()) gnomon::refuse("c", "frequencies must have one axis", "several");
    if (!by.growth.empty())
      gnomon::refuse("c", "frequencies must have no growth", "those of xPos");
    const gnomon::Tensor cosines = tensor("cos", cos), sines = tensor("sin", sin);
    constexpr gnomon::internal::Argument of_cos{"c", "cos"}, of_sin{"c", "sin"};
    gnomon::internal::by_type(of_cos, cosines, [&]<typename T>(T) {
      const auto to_cos = gnomon::internal::write<T, 2>(of_cos, cosines);
      const auto to_sin = gnomon::internal::write<T, 2>(of_sin, sines);
      gnomon::internal::check_disjoint(of_sin, sines, "cos", cosines);
      gnomon::fill_cos_sin(std::span<const std::int64_t>(ids),
                           std::span<const double>(by.inv_freq), to_cos, to_sin,
                           gnomon::Angles::exact, by.table_scale);
    });
  });
}

gnomon_status gnomon_rotate(const gnomon_tensor* q, const gnomon_tensor* k,
                            const gnomon_rotary_table* table, int32_t direction) {
  return guarded([&] {
    const gnomon::RotaryTable& by = given("table", table).table;
    const auto way = gnomon::c::direction_of(direction);
    if (k)
      gnomon::rotate(tensor("q", q), tensor("k", k), by, way);
    else
      gnomon::rotate(tensor("q", q), by, way);
  });
}

gnomon_status gnomon_rotate_to(const gnomon_tensor* x, const gnomon_rotary_table* table,
                               int32_t direction, const gnomon_tensor* out) {
  return guarded([&] {
    gnomon::rotate(tensor("x", x), given("table", table).table,
                   gnomon::c::direction_of(direction), tensor("out", out));
  });
}

gnomon_status gnomon_rotate_at(const gnomon_tensor* q, const gnomon_tensor* k,
                               const gnomon_tensor* positions,
                               const gnomon_frequencies* frequencies) {
  return guarded([&] {
    const gnomon::RotaryFrequencies& by = given("frequencies", frequencies).frequencies;
    const gnomon::Tensor ids = tensor("positions", positions);
    if (k)
      gnomon::rotate_at(tensor("q", q), tensor("k", k), ids, by);
    else
      gnomon::rotate_at(tensor("q", q), ids, by);
  });
}

gnomon_status gnomon_append(const gnomon_tensor* k, const gnomon_rotary_table* table,
                            const gnomon_tensor* slot, const gnomon_tensor* scales) {
  return guarded([&] {
    const gnomon::Tensor from = tensor("k", k), to = tensor("slot", slot);
    if (table && scales)
      gnomon::rotate_append(from, table->table, to, tensor_if(scales));
    else if (table)
      gnomon::rotate_append(from, table->table, to);
    else if (scales)
      gnomon::copy_append(from, to, tensor_if(scales));
    else
      gnomon::copy_append(from, to);
  });
}

gnomon_status gnomon_shift_keys(const gnomon_tensor* cached,
                                const gnomon_frequencies* frequencies, int64_t delta) {
  return guarded([&] {
    gnomon::shift_keys(tensor("cached", cached), given("frequencies", frequencies).frequencies,
                       delta);
  });
}

gnomon_status gnomon_sinusoidal(const gnomon_tensor* positions, int32_t layout, double base,
                                const gnomon_tensor* out) {
  return guarded([&] {
    const gnomon::Tensor to = tensor("out", out);
    const auto ids = gnomon::c::elements_of<std::int64_t>("positions", positions);
    constexpr gnomon::internal::Argument named{"c", "out"};
    gnomon::internal::by_type(named, to, [&]<typename T>(T) {
      const auto view = gnomon::internal::write<T, 2>(named, to);
      if (view.extent(0) != std::ssize(ids))
        gnomon::refuse("c", "out must have " + std::to_string(ids.size()) + " rows",
                       std::int64_t{view.extent(0)});
      const gnomon::Sinusoidal spec{.width = view.extent(1),
                                    .recipe = static_cast<gnomon::SinusoidalRecipe>(layout),
                                    .base = base == 0 ? 10'000.0 : base};
      if (spec.recipe == gnomon::SinusoidalRecipe::timestep)
        gnomon::refuse("c", "layout must be interleaved, half_split or tensor2tensor", layout);
      gnomon::fill(spec, std::span<const std::int64_t>(ids), view);
    });
  });
}

gnomon_status gnomon_add_table(const gnomon_tensor* x, const gnomon_tensor* table,
                               float scale) {
  return guarded([&] { gnomon::add_table(tensor("x", x), tensor("table", table), scale); });
}

gnomon_status gnomon_add_rows(const gnomon_tensor* x, const gnomon_tensor* table,
                              const gnomon_tensor* rows) {
  return guarded(
      [&] { gnomon::add_rows(tensor("x", x), tensor("table", table), tensor("rows", rows)); });
}

gnomon_status gnomon_add_rows_backward(const gnomon_tensor* grad, const gnomon_tensor* rows,
                                       const gnomon_tensor* table_grad) {
  return guarded([&] {
    gnomon::add_rows_backward(tensor("grad", grad), tensor("rows", rows),
                              tensor("table_grad", table_grad));
  });
}
