// The assembler includes the file, as for the script of pages (src/plot/bundle.cc).
#include <cstring>

#include "apps/cli/drawings.h"

#if defined(__APPLE__)
#define GNOMON_DATA ".section __DATA,__const\n"
#define GNOMON_NAME "_gnomon_vit_positions"
#else
#define GNOMON_DATA ".section .rodata\n"
#define GNOMON_NAME "gnomon_vit_positions"
#endif
// clang-format off
__asm__(GNOMON_DATA
        ".global " GNOMON_NAME "\n"
        GNOMON_NAME ":\n"
        ".incbin \"" GNOMON_VIT_POSITIONS "\"\n"
        ".text\n");
// clang-format on
extern "C" const unsigned char gnomon_vit_positions[];

namespace gnomon::cli {

std::vector<float> vit_positions() {
  // A .npy file of version 1.0: 10 bytes, of which the last two are the size of the header.
  const std::size_t header = gnomon_vit_positions[8] + 256u * gnomon_vit_positions[9];
  std::vector<float> values(vit_side * vit_side * vit_width);
  std::memcpy(values.data(), gnomon_vit_positions + 10 + header, sizeof(float) * values.size());
  return values;
}

}  // namespace gnomon::cli
