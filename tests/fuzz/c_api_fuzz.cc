// Calls of every function of gnomon::core in C, whose arguments the bytes choose.
#include "c/attack.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace c_api_fuzz {

bool read(std::span<const std::byte> bytes) {
  int succeeded = 0;
  const std::int32_t threads = gnomon_threads();
  if (__lsan_disable) __lsan_disable();  // drawn calls overwrite handles
  {
    drawn::Attack attack(bytes);
    for (int calls = 0; calls < 50 && attack.more(); ++calls) attack.call();
    for (const auto& [name, counts] : attack.counts) succeeded += counts[1];
  }
  gnomon_set_executor(nullptr, nullptr, 0);
  gnomon_set_threads(threads);
  if (__lsan_enable) __lsan_enable();
  return succeeded > 0;
}

const Register registered("c_api", read);

}  // namespace c_api_fuzz
}  // namespace gnomon::fuzz
