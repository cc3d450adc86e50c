// The assembler includes the script (0.9 MB) at no cost. An array in C++ would take seconds to
// compile.
#include "src/plot/bundle.h"

#ifdef GNOMON_VEGA_BUNDLE
#if defined(__APPLE__)
#define GNOMON_SECTION ".section __DATA,__const\n"
#define GNOMON_SYMBOL(name) "_" #name
#define GNOMON_HIDDEN ".private_extern "
#else
#define GNOMON_SECTION ".section .rodata\n"
#define GNOMON_SYMBOL(name) #name
#define GNOMON_HIDDEN ".hidden "
#endif
// clang-format off
__asm__(GNOMON_SECTION
        ".global " GNOMON_SYMBOL(gnomon_vega_begin) "\n"
        GNOMON_HIDDEN GNOMON_SYMBOL(gnomon_vega_begin) "\n"
        GNOMON_SYMBOL(gnomon_vega_begin) ":\n"
        ".incbin \"" GNOMON_VEGA_BUNDLE "\"\n"
        ".global " GNOMON_SYMBOL(gnomon_vega_end) "\n"
        GNOMON_HIDDEN GNOMON_SYMBOL(gnomon_vega_end) "\n"
        GNOMON_SYMBOL(gnomon_vega_end) ":\n"
        ".byte 0\n"
        ".text\n");
// clang-format on
extern "C" {
__attribute__((visibility("hidden"))) extern const char gnomon_vega_begin[];
__attribute__((visibility("hidden"))) extern const char gnomon_vega_end[];
}
#endif

namespace gnomon::plot::internal {

std::string_view bundle() noexcept {
#ifdef GNOMON_VEGA_BUNDLE
  return {gnomon_vega_begin, static_cast<std::size_t>(gnomon_vega_end - gnomon_vega_begin)};
#else
  return {};
#endif
}

}  // namespace gnomon::plot::internal
