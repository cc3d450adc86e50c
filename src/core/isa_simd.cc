// Choice of the instruction set on top of Highway, and the kernel that returns which one ran.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gnomon/error.h"
#include "gnomon/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/core/isa_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

std::int64_t Target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(Target);

namespace {

struct Known {
  Isa isa;
  std::int64_t target;
  std::string_view name;
};
constexpr Known known[] = {
    {Isa::portable, HWY_EMU128 | HWY_SCALAR, "portable"},
#if HWY_ARCH_X86
    {Isa::sse4, HWY_SSE4, "sse4"},
    {Isa::avx2, HWY_AVX2, "avx2"},
    {Isa::avx512, HWY_AVX3, "avx512"},
#elif HWY_ARCH_ARM
    {Isa::neon, HWY_NEON, "neon"},
#elif HWY_ARCH_WASM
    {Isa::wasm, HWY_WASM, "wasm"},
#endif
};

const Known& find(Isa isa) {
  for (const Known& one : known)
    if (one.isa == isa) return one;
  refuse("isa", "must be an instruction set of this build", static_cast<int>(isa));
}

void force(const Known& one) {
  // Highway reads this mask at every dispatch. Its scalar bit is always set, as the fallback.
  hwy::GetChosenTarget().Update(one.isa == Isa::portable ? 0 : one.target);
}

std::string list_of_available() {
  std::string list;
  for (Isa isa : available_isas()) list += (list.empty() ? "" : ", ") + std::string(name(isa));
  return list;
}

void choose_first() {
  Isa choice = available_isas().back();
  if (const char* wanted = std::getenv("GNOMON_ISA"); wanted && *wanted) {
    bool found = false;
    for (Isa isa : available_isas())
      if (name(isa) == wanted) choice = isa, found = true;
    if (!found) refuse("isa", "GNOMON_ISA must be one of " + list_of_available(), wanted);
  }
  force(find(choice));
}

}  // namespace

std::string_view name(Isa isa) noexcept {
  for (const Known& one : known)
    if (one.isa == isa) return one.name;
  return "?";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Known& one : known)
    if (HWY_TARGETS & one.target &&
        (one.isa == Isa::portable || hwy::SupportedTargets() & one.target))
      isas.push_back(one.isa);
  return isas;
}

void internal::honour_isa() {
  // There is no mutex, which a forked child might find locked: threads that choose at the same
  // time choose the same.
  static std::atomic<bool> done{false};
  if (done.load(std::memory_order_acquire)) return;
  choose_first();
  done.store(true, std::memory_order_release);
}

Isa running_isa() {
  const std::int64_t target = GNOMON_DISPATCH(Target)();
  for (const Known& one : known)
    if (one.target & target) return one.isa;
  return Isa::portable;
}

Isa current_isa() { return running_isa(); }

ScopedIsa::ScopedIsa(Isa isa) : before_(current_isa()) {
  for (Isa available : available_isas())
    if (available == isa) {
      force(find(isa));
      return;
    }
  refuse("isa", "must be one of " + list_of_available(), name(isa));
}

ScopedIsa::~ScopedIsa() { force(find(before_)); }

}  // namespace gnomon
#endif  // HWY_ONCE
