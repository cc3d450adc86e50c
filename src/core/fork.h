// Functions that run when the process forks. Windows has no fork.
#pragma once

#ifndef _WIN32
#include <pthread.h>
#endif

namespace gnomon::internal {

// Registers functions that run before a fork, and after it in the parent and in the child. A
// null pointer is no function.
inline int at_fork([[maybe_unused]] void (*before)(), [[maybe_unused]] void (*parent)(),
                   [[maybe_unused]] void (*child)()) {
#ifdef _WIN32
  return 0;
#else
  return pthread_atfork(before, parent, child);
#endif
}

}  // namespace gnomon::internal
