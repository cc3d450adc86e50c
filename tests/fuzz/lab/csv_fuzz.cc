// Reader: apps/lab/data/csv.cc
#include "apps/lab/data/csv.h"
#include "apps/lab/tasks/classify_data.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace csv_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const auto rows = lab::parse_csv(text(bytes), "fuzz");
    for (const auto& row : rows) require(row.size() == rows[0].size());
    const MemoryFile file(text(bytes));
    answered([&] { lab::classify_examples::read_labelled_texts(file.path(), 1); });
  });
}

const Register registered("csv", read);

}  // namespace csv_fuzz
}  // namespace gnomon::fuzz
