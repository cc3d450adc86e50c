// The extension module gnomon._cuda: operations for arrays on a CUDA device. Built if the
// component cuda is built. Functions take DLPack arrays and the address of a stream (a
// cudaStream_t).
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/cuda/module.h"
#include "bindings/python/released_gil.h"
#include "gnomon/cuda/append.h"
#include "gnomon/cuda/device.h"
#include "gnomon/cuda/embedding.h"
#include "gnomon/cuda/rotate.h"
#include "gnomon/cuda/table.h"
#include "gnomon/error.h"

namespace gnomon::python {
namespace {

Pairing pairing_of(std::string_view name) {
  if (name == "halves") return Pairing::halves;
  if (name == "adjacent") return Pairing::adjacent;
  refuse("rotary", "pairing must be halves or adjacent", name);
}
Direction direction_of(bool inverse) {
  return inverse ? Direction::inverse : Direction::forward;
}

struct Tables {
  OnDevice cos, sin, positions;
  Tables(const char* operation, nb::handle cos, nb::handle sin, nb::handle positions)
      : cos(operation, "cos", cos, Access::read),
        sin(operation, "sin", sin, Access::read),
        positions(operation, "positions", positions, Access::read) {}
  cuda::Rotation rotation(const std::string& pairing, std::int64_t head_offset) const {
    return {.pairing = pairing_of(pairing),
            .head_offset = head_offset,
            .cos = cos.tensor(),
            .sin = sin.tensor(),
            .positions = positions.tensor()};
  }
};

void rotate(nb::handle x, nb::handle out, nb::handle k, nb::handle cos, nb::handle sin,
            nb::handle positions, const std::string& pairing, std::int64_t head_offset,
            bool heads_tokens, bool inverse, std::uintptr_t stream) {
  const OnDevice from("rotary", "x", x, out.is_none() ? Access::write : Access::read),
      to("rotary", "out", out, Access::write), keys("rotary", "k", k, Access::write);
  const Tables tables("rotary", cos, sin, positions);
  const cuda::Rotation rotation = tables.rotation(pairing, head_offset);
  const TokensFirst x_view(from.tensor(), heads_tokens), out_view(to.tensor(), heads_tokens),
      k_view(keys.tensor(), heads_tokens);
  const ReleasedGil released;
  if (out_view.tensor.shape)
    cuda::rotate(x_view.tensor, rotation, direction_of(inverse), out_view.tensor,
                 stream_of(stream));
  else if (k_view.tensor.shape)
    cuda::rotate(x_view.tensor, k_view.tensor, rotation, direction_of(inverse),
                 stream_of(stream));
  else
    cuda::rotate(x_view.tensor, rotation, direction_of(inverse), stream_of(stream));
}

void rotate_at(nb::handle x, nb::handle out, nb::handle k, nb::handle positions,
               const cuda::Frequencies& frequencies, bool heads_tokens, bool inverse,
               std::uintptr_t stream) {
  const OnDevice from("rotary", "x", x, out.is_none() ? Access::write : Access::read),
      to("rotary", "out", out, Access::write), keys("rotary", "k", k, Access::write),
      at("rotary", "positions", positions, Access::read);
  const TokensFirst x_view(from.tensor(), heads_tokens), out_view(to.tensor(), heads_tokens),
      k_view(keys.tensor(), heads_tokens);
  const ReleasedGil released;
  if (out_view.tensor.shape)
    cuda::rotate_at(x_view.tensor, at.tensor(), frequencies, direction_of(inverse),
                    out_view.tensor, stream_of(stream));
  else if (k_view.tensor.shape)
    cuda::rotate_at(x_view.tensor, k_view.tensor, at.tensor(), frequencies,
                    direction_of(inverse), stream_of(stream));
  else
    cuda::rotate_at(x_view.tensor, at.tensor(), frequencies, direction_of(inverse),
                    stream_of(stream));
}

struct Cache {
  OnDevice keys, values, slots, block_table, entries, sequences, key_scales, value_scales;
  Cache(nb::handle keys, nb::handle values, nb::handle slots, nb::handle block_table,
        nb::handle entries, nb::handle sequences, nb::handle key_scales,
        nb::handle value_scales)
      : keys(name, "key_cache", keys, Access::write),
        values(name, "value_cache", values, Access::write),
        slots(name, "slots", slots, Access::read),
        block_table(name, "block_table", block_table, Access::read),
        entries(name, "entries", entries, Access::read),
        sequences(name, "sequences", sequences, Access::read),
        key_scales(name, "key_scales", key_scales, Access::read),
        value_scales(name, "value_scales", value_scales, Access::read) {}
  cuda::PagedCache paged() const {
    return {.keys = keys.tensor(),
            .values = values.tensor(),
            .slots = slots.tensor(),
            .block_table = block_table.tensor(),
            .entries = entries.tensor(),
            .sequences = sequences.tensor(),
            .key_scales = key_scales.tensor(),
            .value_scales = value_scales.tensor()};
  }
  static constexpr const char* name = "rotate_append";
};

void rotate_append(nb::handle q, nb::handle k, nb::handle v, nb::handle cos, nb::handle sin,
                   nb::handle positions, const std::string& pairing, std::int64_t head_offset,
                   nb::handle key_cache, nb::handle value_cache, nb::handle slots,
                   nb::handle block_table, nb::handle entries, nb::handle sequences,
                   nb::handle key_scales, nb::handle value_scales, std::uintptr_t stream) {
  const OnDevice queries("rotate_append", "q", q, Access::write),
      keys("rotate_append", "k", k, Access::read),
      values("rotate_append", "v", v, Access::read);
  const Tables tables("rotate_append", cos, sin, positions);
  const Cache cache(key_cache, value_cache, slots, block_table, entries, sequences, key_scales,
                    value_scales);
  const cuda::Rotation rotation = tables.rotation(pairing, head_offset);
  const ReleasedGil released;
  cuda::rotate_append(queries.tensor(), keys.tensor(), values.tensor(), rotation, cache.paged(),
                      stream_of(stream));
}

void rotate_append_at(nb::handle q, nb::handle k, nb::handle v, nb::handle positions,
                      const cuda::Frequencies& frequencies, nb::handle key_cache,
                      nb::handle value_cache, nb::handle slots, nb::handle block_table,
                      nb::handle entries, nb::handle sequences, nb::handle key_scales,
                      nb::handle value_scales, std::uintptr_t stream) {
  const OnDevice queries("rotate_append", "q", q, Access::write),
      keys("rotate_append", "k", k, Access::read),
      values("rotate_append", "v", v, Access::read),
      at("rotate_append", "positions", positions, Access::read);
  const Cache cache(key_cache, value_cache, slots, block_table, entries, sequences, key_scales,
                    value_scales);
  const ReleasedGil released;
  cuda::rotate_append_at(queries.tensor(), keys.tensor(), values.tensor(), at.tensor(),
                         frequencies, cache.paged(), stream_of(stream));
}

void fill_cos_sin(const cuda::Frequencies& frequencies, std::int64_t begin,
                  nb::handle positions, nb::handle cos, nb::handle sin, std::uintptr_t stream) {
  const OnDevice at("angles", "positions", positions, Access::read),
      c("angles", "cos", cos, Access::write), s("angles", "sin", sin, Access::write);
  const ReleasedGil released;
  if (at.tensor().shape)
    cuda::fill_cos_sin(frequencies, at.tensor(), c.tensor(), s.tensor(), stream_of(stream));
  else
    cuda::fill_cos_sin(frequencies, begin, c.tensor(), s.tensor(), stream_of(stream));
}

// rows: None: row t of the table is that of token t.
void add_table(nb::handle x, nb::handle table, nb::handle rows, std::uintptr_t stream) {
  const OnDevice to("embedding", "x", x, Access::write),
      from("embedding", "table", table, Access::read),
      of("embedding", "rows", rows, Access::read);
  const ReleasedGil released;
  if (of.tensor().shape)
    cuda::add_rows(to.tensor(), from.tensor(), of.tensor(), stream_of(stream));
  else
    cuda::add_table(to.tensor(), from.tensor(), 1.0f, stream_of(stream));
}

void gather_rows(nb::handle table, nb::handle rows, nb::handle out, std::uintptr_t stream) {
  const OnDevice from("embedding", "table", table, Access::read),
      of("embedding", "rows", rows, Access::read), to("embedding", "out", out, Access::write);
  const ReleasedGil released;
  cuda::gather_rows(from.tensor(), of.tensor(), to.tensor(), stream_of(stream));
}

void add_table_backward(nb::handle grad, nb::handle rows, nb::handle table_grad,
                        nb::handle workspace, std::uintptr_t stream) {
  const OnDevice from("embedding", "grad", grad, Access::read),
      of("embedding", "rows", rows, Access::read),
      to("embedding", "table_grad", table_grad, Access::write),
      space("embedding", "workspace", workspace, Access::write);
  const ReleasedGil released;
  if (of.tensor().shape)
    cuda::add_rows_backward(from.tensor(), of.tensor(), to.tensor(), space.tensor(),
                            stream_of(stream));
  else
    cuda::add_table_backward(from.tensor(), 1.0f, to.tensor(), stream_of(stream));
}

}  // namespace
}  // namespace gnomon::python

NB_MODULE(GNOMON_MODULE, module) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using namespace gnomon;
  using namespace gnomon::python;
  nb::set_leak_warnings(false);  // caches of gnomon.torch hold frequencies
  nb::exception<cuda::Error>(module, "Error", PyExc_RuntimeError);
  module.def("device_count", &cuda::device_count);
  nb::class_<cuda::Frequencies>(module, "Frequencies",
                                "Rotary frequencies in the memory of a device.")
      .def(
          "__init__",
          [](cuda::Frequencies* self, const std::string& pairing, std::int64_t head_offset,
             std::vector<double> inv_freq, std::vector<std::int32_t> axes, double table_scale,
             int device) {
            const RotaryFrequencies host{.pairing = pairing_of(pairing),
                                         .head_offset = head_offset,
                                         .inv_freq = std::move(inv_freq),
                                         .axes = std::move(axes),
                                         .table_scale = table_scale};
            new (self) cuda::Frequencies(host, device);
          },
          "pairing"_a, "head_offset"_a, "inv_freq"_a, "axes"_a, "table_scale"_a, "device"_a);
  module.def("rotate", &python::rotate, "x"_a, "out"_a.none(), "k"_a.none(), "cos"_a, "sin"_a,
             "positions"_a.none(), "pairing"_a, "head_offset"_a, "heads_tokens"_a, "inverse"_a,
             "stream"_a, "Rotates x (and k) in place, or writes the rotation of x to out.");
  module.def("rotate_at", &python::rotate_at, "x"_a, "out"_a.none(), "k"_a.none(),
             "positions"_a, "frequencies"_a, "heads_tokens"_a, "inverse"_a, "stream"_a,
             "As rotate, without a table.");
  module.def("rotate_append", &python::rotate_append, "q"_a.none(), "k"_a, "v"_a.none(),
             "cos"_a, "sin"_a, "positions"_a.none(), "pairing"_a, "head_offset"_a,
             "key_cache"_a, "value_cache"_a.none(), "slots"_a.none(), "block_table"_a.none(),
             "entries"_a.none(), "sequences"_a.none(), "key_scales"_a.none(),
             "value_scales"_a.none(), "stream"_a,
             "Rotates q in place, writes rotated keys, and values, to a paged cache.");
  module.def("rotate_append_at", &python::rotate_append_at, "q"_a.none(), "k"_a, "v"_a.none(),
             "positions"_a, "frequencies"_a, "key_cache"_a, "value_cache"_a.none(),
             "slots"_a.none(), "block_table"_a.none(), "entries"_a.none(), "sequences"_a.none(),
             "key_scales"_a.none(), "value_scales"_a.none(), "stream"_a,
             "As rotate_append, without a table.");
  module.def("fill_cos_sin", &python::fill_cos_sin, "frequencies"_a, "begin"_a,
             "positions"_a.none(), "cos"_a, "sin"_a, "stream"_a,
             "Fills cos and sin [T, R/2] of the positions from begin on, or of given ones.");
  module.def("add_table", &python::add_table, "x"_a, "table"_a, "rows"_a.none(), "stream"_a,
             "Adds a table [T, C], or rows of a table [N, C], to x [B, T, C].");
  module.def("gather_rows", &python::gather_rows, "table"_a, "rows"_a, "out"_a, "stream"_a,
             "Writes rows of a table [N, C] to out [B, T, C].");
  module.def("add_table_backward", &python::add_table_backward, "grad"_a, "rows"_a.none(),
             "table_grad"_a, "workspace"_a.none(), "stream"_a,
             R"(Adds the gradient of add_table to table_grad. With rows: the workspace is uint8,
of add_rows_backward_workspace bytes.)");
  module.def("add_rows_backward_workspace", &cuda::add_rows_backward_workspace, "tokens"_a,
             "table_rows"_a);
  bind_bias_gradient(module);
}
