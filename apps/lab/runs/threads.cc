#include "apps/lab/runs/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gnomon::lab {

std::atomic<bool> stop_asked{false};

StopOnSignal::StopOnSignal() {
  stop_asked = false;
  struct sigaction action{};
  action.sa_handler = [](int) { stop_asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_interrupt_);
  sigaction(SIGTERM, &action, &before_terminate_);
}

StopOnSignal::~StopOnSignal() {
  sigaction(SIGINT, &before_interrupt_, nullptr);
  sigaction(SIGTERM, &before_terminate_, nullptr);
}

void on_threads(int jobs, std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int j = 0; j < std::min(jobs, static_cast<int>(count)); ++j)
    threads.emplace_back([&] {
      at::set_num_threads(1);  // LibTorch and the kernels both read OpenMP's setting
      at::globalContext().setFlushDenormal(true);
      try {
        for (std::size_t i; (i = next++) < count;) work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
        stop_asked = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gnomon::lab
