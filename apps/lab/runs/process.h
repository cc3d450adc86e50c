// The process: its settings before training, its threads, and the signals that stop it.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace gnomon::lab {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Keeps freed memory in the process. Each training step frees and allocates the same tens of
// megabytes. Otherwise glibc returns them to the system in between, and the system clears every
// page again. Call it before other threads are started.
void keep_freed_memory();

// Throws std::invalid_argument if runs are concurrent (jobs > 1) and the loaded BLAS is an
// OpenBLAS that was built without threads. It has no locks (Debian's libopenblas0-serial
// 0.3.21), so concurrent products of 160 x 160 matrices are wrong in 0.1 to 6 % of the calls.
void check_blas(int jobs);

// Throws std::invalid_argument if `device` is cuda and cannot be used.
void check_device(const std::string& device);

// Throws like check_device. For cuda: makes every operator deterministic. Call it before the
// first operator on the device.
void use_device(const std::string& device);

// The operators of LibTorch use deterministic algorithms or throw c10::Error. Products are
// computed in float32, not in TF32. cuBLAS is deterministic with a workspace of fixed size,
// which it reads from the environment: CUBLAS_WORKSPACE_CONFIG, :4096:8 unless it is set.
void use_deterministic_algorithms();

// Products of OpenBLAS use one thread, like the rest of a run.
void set_blas_threads();

// Set by SIGINT, SIGTERM or a failed thread: runs are stopped after their current step.
extern std::atomic<bool> stop_asked;
inline bool stop_is_asked() { return stop_asked; }

// Catches the first SIGINT or SIGTERM. The second one has its default effect.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction before_interrupt_{}, before_terminate_{};
};

// Runs `work(i)` for i in [0, count) on `jobs` threads of one core each. The first exception
// stops the others and is rethrown.
void on_threads(int jobs, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace gnomon::lab
