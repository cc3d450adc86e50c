// Calls of the C API while allocations fail.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "allocations.h"
#include "c/declared.h"
#include "c/placed.h"
#include "gnomon.h"

namespace gnomon {
namespace exhaustion {

using drawn::Placed;
using drawn::Type;
using std::int64_t;
using testing::Failing;

constexpr int64_t batch = 2, tokens = 130, heads = 4, key_heads = 2, size = 16;

class Exhaustion : public ::testing::Test {
 protected:
  void SetUp() override { gnomon_set_threads(2); }
  void TearDown() override {
    gnomon_set_threads(before_);
    std::printf("%lld failing allocations in %zu functions\n",
                static_cast<long long>(failures_), called_.size());
  }

  // Calls a function while its first allocation fails, its second, and so on, until it meets no
  // failure. unchanged: whether the objects are as before the call. undo: makes them so after a
  // call that succeeded without the memory.
  void call(const char* name, const std::function<gnomon_status()>& function,
            const std::function<bool()>& unchanged = {}, const std::function<void()>& undo = {},
            gnomon_status expected = GNOMON_OK) {
    called_.insert(std::string("gnomon_") + name);
    const bool all = std::getenv("GNOMON_LONG_TESTS") != nullptr;
    for (const Failing failing : {Failing::one, Failing::all_later}) {
      for (int64_t n = 0;; n += all ? 1 : 1 + n / 40, ++failures_) {
        if (undo && (n || failing == Failing::all_later)) undo();
        testing::fail_allocations(n, failing);
        const gnomon_status status = function();
        const bool failed = testing::end_failures();
        EXPECT_TRUE(status == expected || (failed && status == GNOMON_OUT_OF_MEMORY))
            << name << ", allocation " << n << ": " << status << ' ' << gnomon_error_message();
        const bool kept = status != GNOMON_OUT_OF_MEMORY || !unchanged || unchanged();
        EXPECT_TRUE(kept) << name << ", allocation " << n;
        if (!failed) break;
      }
    }
  }
  // The same for a function that changes tensors in place.
  void in_place(const char* name, const std::vector<Placed*>& written,
                const std::function<gnomon_status()>& function) {
    for (Placed* one : written) one->settle();
    call(
        name, function,
        [&] {
          return std::all_of(written.begin(), written.end(),
                             [](const Placed* one) { return one->is_unchanged(); });
        },
        [&] {
          for (Placed* one : written) one->restore();
        });
  }
  // The same for a function that makes a handle. Returns that of the last call.
  template <typename Handle>
  std::shared_ptr<Handle> make(const char* name,
                               const std::function<gnomon_status(Handle**)>& function,
                               void (*destroy)(Handle*)) {
    Handle* out = nullptr;
    call(
        name, [&] { return function(&out); }, [&] { return out == nullptr; },
        [&] { destroy(out), out = nullptr; });
    return {out, [destroy](Handle* one) { destroy(one); }};
  }
  void text(const char* name, const std::function<gnomon_status(char**)>& function) {
    make<char>(name, function, gnomon_free);
  }
  // Calls a function that returns no status while no allocation succeeds.
  void quiet(const char* name, const std::function<void()>& function) {
    called_.insert(std::string("gnomon_") + name);
    testing::fail_allocations(0, Failing::all_later);
    function();
    testing::end_failures();
  }
  // The function must have been called.
  void expect(const std::string& name) const {
    EXPECT_TRUE(called_.contains(name)) << name << " is not exhausted";
  }

  std::shared_ptr<gnomon_frequencies> frequencies(double base = 10000) {
    const gnomon_rotary_spec spec{.size = sizeof spec,
                                  .rotary_dim = size,
                                  .pairing = GNOMON_HALVES,
                                  .base = base,
                                  .head_offset = 0};
    return make<gnomon_frequencies>(
        "frequencies_create",
        [&](gnomon_frequencies** out) { return gnomon_frequencies_create(&spec, out); },
        gnomon_frequencies_destroy);
  }
  std::shared_ptr<gnomon_rotary_table> table(const gnomon_frequencies* of, int64_t rows) {
    const Placed positions(Type::i64, {rows}, counting());
    return make<gnomon_rotary_table>(
        "rotary_table_create",
        [&](gnomon_rotary_table** out) {
          return gnomon_rotary_table_create(of, positions.get(), out);
        },
        gnomon_rotary_table_destroy);
  }
  static Placed::Element counting() {
    return [n = 0.0]() mutable { return n++; };
  }
  static Placed::Element numbers() {
    return [n = 0]() mutable { return std::sin(1.0 + n++); };
  }

  std::set<std::string> called_;

 private:
  int before_ = gnomon_threads();
  int64_t failures_ = 0;
};

}  // namespace exhaustion
}  // namespace gnomon
