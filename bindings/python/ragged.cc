#include "bindings/python/ragged.h"

#include <string>

#include "gnomon/error.h"

namespace gnomon::python {
namespace {

constexpr const char* ragged_operation = "attention";

std::span<const std::int64_t> span_of(const std::optional<std::vector<std::int64_t>>& from) {
  return from ? std::span<const std::int64_t>(*from) : std::span<const std::int64_t>();
}

}  // namespace

std::optional<std::vector<std::int64_t>> integers_if(const char* operation, const char* name,
                                                     nb::handle object) {
  if (object.is_none()) return std::nullopt;
  Integers all = integers(operation, name, object);
  if (all.shape.size() != 1)
    refuse(operation, std::string(name) + " must have 1 axis", shape_text(all.shape));
  return std::move(all.values);
}

RaggedArguments::RaggedArguments(nb::handle query_starts, nb::handle query_lengths,
                                 nb::handle key_starts, nb::handle key_lengths,
                                 nb::handle offsets, nb::handle block_table)
    : query_starts_(integers_if(ragged_operation, "query_starts", query_starts)),
      query_lengths_(integers_if(ragged_operation, "query_lengths", query_lengths)),
      key_starts_(integers_if(ragged_operation, "key_starts", key_starts)),
      key_lengths_(integers_if(ragged_operation, "key_lengths", key_lengths)),
      offsets_(integers_if(ragged_operation, "offsets", offsets)),
      block_table_(ragged_operation, "block_table", block_table, Array::Access::read) {}

RaggedBatch RaggedArguments::batch() const {
  return {.query_starts = span_of(query_starts_),
          .query_lengths = span_of(query_lengths_),
          .key_starts = span_of(key_starts_),
          .key_lengths = span_of(key_lengths_),
          .offsets = span_of(offsets_),
          .block_table = block_table_.tensor()};
}

}  // namespace gnomon::python
