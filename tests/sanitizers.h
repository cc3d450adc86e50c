// Whether a program runs under a sanitizer, which has its own allocator and shadow memory.
#pragma once

// Defined in programs under the sanitizer of addresses or of threads.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace gnomon::testing {

inline bool sanitized() { return __asan_init || __tsan_init; }

}  // namespace gnomon::testing
