// The pool of std::threads behind thread_pool_executor().
#pragma once

#include <cstdint>

namespace gnomon::internal {

using Task = void (*)(void* data, std::int64_t i);

// Calls task(data, i) for i from 0 to count - 1, i on thread i of the pool where that thread
// comes in time; thread 0 is the caller.
void run_on_pool(std::int64_t count, Task task, void* data) noexcept;

// Threads of the machine, or OMP_NUM_THREADS where it is a number.
int default_threads() noexcept;

}  // namespace gnomon::internal
