// The pool of std::threads behind thread_pool_executor().
#pragma once

#include <cstdint>
#include <memory>

namespace gnomon::internal {

using Task = void (*)(void* data, std::int64_t i);

// Calls task(data, i) for i from 0 to count - 1. Task i runs on thread i of the pool, or on the
// caller (thread 0) if that thread has not started it in time. pool: of make_pool; null: that
// of the process.
void run_on_pool(std::int64_t count, Task task, void* data, void* pool = nullptr) noexcept;

class Pool;
// Makes a pool of its own, whose threads end with it.
std::shared_ptr<Pool> make_pool();

// Returns OMP_NUM_THREADS if it is a number, else the number of hardware threads.
int default_threads() noexcept;

}  // namespace gnomon::internal
