// gnomon_ragged.h: sequences of different lengths and paged caches.
#include "gnomon_ragged.h"

#include <span>

#include "bindings/c/handles.h"
#include "gnomon/position/positions.h"
#include "src/attention/ragged.h"
#include "src/core/overlap.h"
#include "src/core/tensor.h"

using gnomon::c::given;
using gnomon::c::guarded;
using gnomon::c::tensor;
using gnomon::c::tensor_if;

namespace gnomon::c {
namespace {

// Returns the elements of a contiguous tensor [N]; none for NULL.
std::span<const std::int64_t> numbers(const char* name, const gnomon_tensor* from) {
  if (!from) return {};
  const auto view = internal::read<std::int64_t, 1>({"c", name}, tensor_if(from));
  if (!view.contiguous())
    refuse("c", std::string(name) + " must be contiguous, with stride 1", view.stride(0));
  return {view.data(), static_cast<std::size_t>(view.extent(0))};
}

}  // namespace
}  // namespace gnomon::c

gnomon_status gnomon_attention_ragged(const gnomon_attention_input* input,
                                      const gnomon_ragged_batch* batch,
                                      const gnomon_layer_plan* plan, const gnomon_tensor* out,
                                      const gnomon_tensor* lse) {
  using gnomon::c::numbers;
  return guarded([&] {
    const gnomon_ragged_batch& rows = gnomon::c::sized("gnomon_ragged_batch", "batch", batch);
    const gnomon::RaggedBatch ragged{
        .query_starts = numbers("query_starts", rows.query_starts),
        .query_lengths = numbers("query_lengths", rows.query_lengths),
        .key_starts = numbers("key_starts", rows.key_starts),
        .key_lengths = numbers("key_lengths", rows.key_lengths),
        .offsets = numbers("offsets", rows.offsets),
        .block_table = tensor_if(rows.block_table)};
    gnomon::c::attend(input, given("plan", plan).plan, ragged, tensor("out", out),
                      tensor_if(lse));
  });
}

gnomon_status gnomon_ragged_positions(const gnomon_tensor* starts, const gnomon_tensor* lengths,
                                      const gnomon_tensor* offsets, const gnomon_tensor* ids,
                                      const gnomon_tensor* sequences) {
  using gnomon::c::numbers;
  return guarded([&] {
    const auto to = gnomon::internal::write<std::int64_t, 2>({"c", "ids"}, tensor("ids", ids));
    const auto to_sequences =
        gnomon::internal::write_if<std::int32_t, 2>({"c", "sequences"}, tensor_if(sequences));
    if (to_sequences.data() && to_sequences.extents() != to.extents())
      gnomon::refuse(
          "c", "sequences must have the shape of ids, " + gnomon::shape_text(to.extents()),
          gnomon::shape_text(to_sequences.extents()));
    if (to_sequences.data())
      gnomon::internal::check_disjoint({"c", "sequences"}, to_sequences, "ids", to);
    const gnomon::RaggedRows rows{.starts = numbers("starts", starts),
                                  .lengths = numbers("lengths", lengths),
                                  .offsets = numbers("offsets", offsets),
                                  .tokens = to.extent(1)};
    const std::int64_t batch =
        rows.starts.empty() ? static_cast<std::int64_t>(rows.lengths.size()) : 1;
    if (to.extent(0) != batch)
      gnomon::refuse("c", "axis 0 of ids must be " + std::to_string(batch),
                     std::int64_t{to.extent(0)});
    const gnomon::Positions positions = gnomon::ragged_positions(rows);
    std::size_t n = 0;
    for (std::ptrdiff_t b = 0; b < to.extent(0); ++b)
      for (std::ptrdiff_t t = 0; t < to.extent(1); ++t, ++n) {
        to(b, t) = positions.ids[n];
        if (to_sequences.data()) to_sequences(b, t) = positions.sequences[n];
      }
  });
}
