// The threads of a session, and the signals that stop it.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <functional>

namespace gnomon::lab {

// Set by SIGINT, SIGTERM or a failed thread: runs are stopped after their current step.
extern std::atomic<bool> stop_asked;

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
