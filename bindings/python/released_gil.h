// The interpreter lock, released while the library computes.
#pragma once

#include <Python.h>

#include <chrono>
#include <thread>

namespace gnomon::python {

// Unlike nanobind::gil_scoped_release, it may be destroyed in a daemon thread while the
// interpreter ends: Python before 3.14 ends such a thread by pthread_exit(), which unwinds its
// stack as an exception does, and ends the process at the first noexcept function. From 3.14
// on, the thread waits in Python until the process ends. So does this class, for all versions.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // no exception of C++
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace gnomon::python
