// Runs one kernel a number of times, for an instruction counter. `tools/instructions.sh` lets
// callgrind count only inside `gnomon_counted`, so the set-up is not counted.
//
//   gnomon_instructions                     lists the kernels, with their elements per run
//   gnomon_instructions --compiler          prints the compiler
//   gnomon_instructions rotate_f32_halves 3
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/kernels/kernels.h"

extern "C" [[gnu::noinline]] void gnomon_counted(const std::function<void()>& run, int times) {
  for (int left = times; left > 0; --left) run();
}

int main(int count, char** arguments) {
  const std::string_view first = count > 1 ? arguments[1] : "";
  if (first == "--compiler") {
    std::puts(GNOMON_COMPILER);
    return 0;
  }
  for (const auto& kernel : gnomon::bench::counted_kernels()) {
    if (count < 3) {
      std::printf("%s\t%lld\n", kernel.name, static_cast<long long>(kernel.elements));
    } else if (kernel.name == first) {
      const gnomon::bench::Kernel made = kernel.make();
      made.run();  // not counted: the choice of the instruction set, the first pages of scratch
      gnomon_counted(made.run, std::atoi(arguments[2]));
      return 0;
    }
  }
  if (count < 3) return 0;
  std::fprintf(stderr, "no kernel %s\n", arguments[1]);
  return 1;
}
