// The arrays of a ragged batch of a call.
#pragma once

#include <optional>

#include "bindings/python/arrays.h"
#include "gnomon/attention/ragged.h"

namespace gnomon::python {

// Borrows block_table, and copies the others. Each may be None.
class RaggedArguments {
 public:
  RaggedArguments(nb::handle query_starts, nb::handle query_lengths, nb::handle key_starts,
                  nb::handle key_lengths, nb::handle offsets, nb::handle block_table);
  RaggedBatch batch() const;

 private:
  std::optional<std::vector<std::int64_t>> query_starts_, query_lengths_, key_starts_,
      key_lengths_, offsets_;
  Array block_table_;
};

// Returns integers [N]; nullopt for None.
std::optional<std::vector<std::int64_t>> integers_if(const char* operation, const char* name,
                                                     nb::handle object);

}  // namespace gnomon::python
