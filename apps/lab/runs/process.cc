#include "apps/lab/runs/process.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

// A function of OpenBLAS. Null if another BLAS is loaded.
template <typename Function>
Function* openblas(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int never = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, never);
  mallopt(M_TRIM_THRESHOLD, never);
  mallopt(M_ARENA_MAX, 1);  // other arenas consist of 64 MB heaps, which are returned
#endif
}

void check_blas(int jobs) {
  const auto parallel = openblas<int()>("openblas_get_parallel");
  if (jobs > 1 && parallel && parallel() == 0)
    refuse("lab",
           "--jobs must be 1 with an OpenBLAS without threads, which is not thread-safe "
           "(Debian: install libopenblas0-pthread)",
           jobs);
}

void check_device(const std::string& device) {
  if (device != "cuda") return;
  if (!at::Context::hasCUDART())
    refuse("lab", "--device cuda requires a LibTorch with CUDA (make lab TORCH=pypi)",
           "LibTorch " TORCH_VERSION " without CUDA");
  if (!torch::cuda::is_available())
    refuse("lab", "--device cuda requires a GPU and its driver", "none");
}

void use_device(const std::string& device) {
  check_device(device);
  if (device == "cuda") use_deterministic_algorithms();
}

void use_deterministic_algorithms() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
}

void set_blas_threads() {
  if (const auto set = openblas<void(int)>("openblas_set_num_threads")) set(1);
}

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
  const auto start = [&] {
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
  };
  for (int j = 0; j < std::min(jobs, static_cast<int>(count)); ++j) try {
      start();
    } catch (const std::system_error&) {  // the system has no more threads
      if (threads.empty()) throw;
      break;
    }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gnomon::lab
