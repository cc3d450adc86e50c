// The default mode of floating-point arithmetic: rounding to the nearest, denormal numbers
// kept, no traps. The caller's thread may have another one, and a thread of a pool has that of
// the thread that started it.
#pragma once

#include <cstdint>

#ifndef __wasm__
#include <cfenv>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace gnomon::internal {

// While it lives, the thread computes in the default mode. Takes 1 ns if it does so already;
// then flags of exceptions are raised as usual. Otherwise the caller's flags do not change.
class DefaultFloatMode {
 public:
  DefaultFloatMode() noexcept : before_(mode()) {
    if (differs(before_)) [[unlikely]]
      change();
  }
  ~DefaultFloatMode() {
    if (differs(before_)) [[unlikely]]
      restore();
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__x86_64__) || defined(_M_X64)
  using Mode = unsigned;
  static constexpr Mode standard = 0x1F80, flags = 0x3F;  // of MXCSR
  static Mode mode() noexcept { return _mm_getcsr(); }
  static bool differs(Mode mode) noexcept { return (mode & ~flags) != standard; }
  // strtod and printf of glibc read the rounding mode of the x87, which fesetround sets, too.
  void change() noexcept {
    rounding_ = std::fegetround();
    std::fesetround(FE_TONEAREST);
    _mm_setcsr(standard);
  }
  void restore() const noexcept {
    std::fesetround(rounding_);
    _mm_setcsr(before_);
  }
  int rounding_ = FE_TONEAREST;
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static Mode mode() noexcept {
    Mode mode = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static bool differs(Mode mode) noexcept { return mode != 0; }  // FPCR has no flags
  static void set(Mode mode) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
  void change() noexcept { set(0); }
  void restore() const noexcept { set(before_); }
#elif defined(__wasm__)  // has the default mode only
  using Mode = int;
  static Mode mode() noexcept { return 0; }
  static bool differs(Mode) noexcept { return false; }
  void change() noexcept {}
  void restore() const noexcept {}
#else
  using Mode = int;
  static Mode mode() noexcept { return std::fegetround(); }
  static bool differs(Mode mode) noexcept { return mode != FE_TONEAREST; }
  void change() noexcept { std::fesetround(FE_TONEAREST); }
  void restore() const noexcept { std::fesetround(before_); }
#endif

  Mode before_;
};

}  // namespace gnomon::internal
