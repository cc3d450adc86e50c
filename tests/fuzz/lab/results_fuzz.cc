// Reader: apps/lab/statistics/results_json.cc
#include "apps/lab/statistics/compare.h"
#include "apps/lab/statistics/results.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace results_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const MemoryFile file(text(bytes));
    lab::Results results = lab::read_results(file.path());
    lab::compare_encodings(results);
    // What only a session measures.
    results.cost.resize(results.encodings.size());
    results.sizes.resize(results.encodings.size());
    const lab::Json written = lab::to_json(results);
    lab::Results again = lab::read_results(written);
    lab::compare_encodings(again);
    require(lab::to_json(again).at("answer") == written.at("answer"));
    if (!results.encodings.empty()) lab::compare(results, again, lab::Texts::same);
  });
}

const Register registered("results", read);

}  // namespace results_fuzz
}  // namespace gnomon::fuzz
