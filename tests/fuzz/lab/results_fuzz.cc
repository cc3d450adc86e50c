// Reader: apps/lab/statistics/results_json.cc
#include "apps/lab/statistics/results.h"
#include "fuzz/target.h"
#include "src/core/json.h"

namespace gnomon::fuzz {
namespace results_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const auto json = internal::parse_json<lab::Json>(text(bytes), "lab", "the file");
    const lab::Json written = lab::to_json(lab::read_results(json));
    require(lab::to_json(lab::read_results(written)) == written);
  });
}

const Register registered("results", read);

}  // namespace results_fuzz
}  // namespace gnomon::fuzz
