#include "src/core/thread_pool.h"

#if defined(GNOMON_THREADS_NONE)

namespace gnomon::internal {

void run_on_pool(std::int64_t count, Task task, void* data, void*) noexcept {
  for (std::int64_t i = 0; i < count; ++i) task(data, i);
}

class Pool {};
std::shared_ptr<Pool> make_pool() { return nullptr; }

int default_threads() noexcept { return 1; }

}  // namespace gnomon::internal

#else

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "src/core/fork.h"

namespace gnomon::internal {
namespace {

constexpr int spins = 2000;  // about 10 us before a thread sleeps: longer than between loops

// Counts forks: a forked child has no threads of pools that were made before.
std::atomic<int> forks{0};
[[maybe_unused]] const int counted = at_fork(nullptr, nullptr, [] { ++forks; });

}  // namespace

class Pool {
 public:
  ~Pool() {
    if (forks.load() != forks_) return;  // the threads do not exist here
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    std::destroy_at(&threads_);
  }
  // Returns false, without running the tasks, if the pool is in use or memory is exhausted.
  bool run(std::int64_t count, Task task, void* data) noexcept {
    if (forks.load(std::memory_order_relaxed) != forks_) return false;
    const std::unique_lock owner(owner_, std::try_to_lock);
    if (!owner) return false;
    if (!reserve(count)) return false;
    const std::int64_t workers = grow(count - 1);
    {
      const std::lock_guard lock(mutex_);
      task_ = task, data_ = data, count_ = count;
      for (std::int64_t i = 0; i < count; ++i)
        claimed_[i].store(false, std::memory_order_relaxed);
      left_.store(count, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (workers) wake_.notify_all();
    // Task 0, then the tasks whose threads have not started them.
    for (std::int64_t i = 0; i < count; ++i) try_task(i);
    for (int spin = 0; left_.load(std::memory_order_acquire) > 0; ++spin)
      if (spin > spins) std::this_thread::yield();
    {  // a worker that wakes up later finds no loop
      const std::lock_guard lock(mutex_);
      count_ = 0;
    }
    while (inside_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    return true;
  }

 private:
  bool reserve(std::int64_t count) noexcept {
    if (capacity_ >= count) return true;
    // Workers read claimed_ only inside a loop, and none is running.
    const std::lock_guard lock(mutex_);
    claimed_.reset(new (std::nothrow) std::atomic<bool>[static_cast<std::size_t>(count)]);
    capacity_ = claimed_ ? count : 0;
    return claimed_ != nullptr;
  }

  // Starts threads up to `wanted`, or fewer if the system refuses. Returns the number of
  // threads.
  std::int64_t grow(std::int64_t wanted) noexcept {
    try {
      while (std::ssize(threads_) < wanted)
        threads_.emplace_back([this, own = std::ssize(threads_) + 1,
                               seen = generation_.load()] { work(own, seen); });
    } catch (const std::exception&) {  // the caller runs the remaining tasks
    }
    return std::ssize(threads_);
  }

  void try_task(std::int64_t i) noexcept {
    if (claimed_[i].exchange(true, std::memory_order_acq_rel)) return;
    task_(data_, i);
    left_.fetch_sub(1, std::memory_order_release);
  }

  void work(std::int64_t own, std::uint64_t seen) noexcept {
    for (;;) {
      for (int spin = 0; spin < spins; ++spin)
        if (generation_.load(std::memory_order_acquire) != seen) break;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load() != seen; });
        if (ending_) return;
        seen = generation_.load();
        if (own >= count_) continue;
        inside_.fetch_add(1, std::memory_order_acquire);
      }
      try_task(own);
      inside_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex owner_;  // held by the loop that runs
  std::mutex mutex_;  // protects the description of the loop
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  Task task_ = nullptr;
  void* data_ = nullptr;
  std::int64_t count_ = 0;
  std::unique_ptr<std::atomic<bool>[]> claimed_;
  std::int64_t capacity_ = 0;
  // In a union, because after a fork it is not destroyed: that of a std::thread which was not
  // joined ends the process.
  union {
    std::vector<std::thread> threads_ = {};
  };
  bool ending_ = false;
  const int forks_ = forks.load();
  std::atomic<std::int64_t> left_{0}, inside_{0};
};

namespace {

// Never destroyed, because its threads run until the process ends. A forked child has no
// threads, so it starts with a new pool.
std::atomic<Pool*> pool{nullptr};
[[maybe_unused]] const int renewed_by_fork =
    at_fork(nullptr, nullptr, [] { pool.store(nullptr, std::memory_order_release); });

Pool* the_pool() noexcept {
  Pool* current = pool.load(std::memory_order_acquire);
  if (current) return current;
  auto* const made = new (std::nothrow) Pool;
  if (made && !pool.compare_exchange_strong(current, made)) {
    delete made;  // another thread has created the pool
    return current;
  }
  return made;
}

}  // namespace

std::shared_ptr<Pool> make_pool() { return std::make_shared<Pool>(); }

void run_on_pool(std::int64_t count, Task task, void* data, void* pool) noexcept {
  Pool* const runs = pool ? static_cast<Pool*>(pool) : the_pool();
  if (count > 1 && runs && runs->run(count, task, data)) return;
  for (std::int64_t i = 0; i < count; ++i) task(data, i);
}

int default_threads() noexcept {
  if (const char* const text = std::getenv("OMP_NUM_THREADS")) {
    const long count = std::strtol(text, nullptr, 10);
    if (count >= 1) return static_cast<int>(std::min(count, 4096L));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace gnomon::internal

#endif
