#!/usr/bin/env bash
# Usage: headers_32_bits.sh WORK_FOLDER. Checks that the public headers, the C API and the arithmetic of sizes compile
# where pointers have 32 bits, with warnings as errors. The headers of the 64-bit system serve for the syntax alone:
# integers of 64 bits are aligned as on WebAssembly and ARM, and as on i386.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$1/gnu" && : >"$1/gnu/stubs-32.h"
{
  echo 'static_assert(sizeof(void*) == 4);'
  (cd include && find . -name '*.h' -not -path '*/cuda/*' | LC_ALL=C sort | sed 's|^\./\(.*\)|#include "\1"|')
  printf '#include "%s"\n' bindings/c/*.cc src/core/{overlap,size,tensor,memory}.cc
} >"$1/all.cc"
machine=/usr/include/$(g++ -print-multiarch)
version=$(g++ -dumpversion)
for alignment in -malign-double -mno-align-double; do
  g++ -m32 $alignment -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Werror "-I$1" -Iinclude -I. \
    -isystem "$machine/c++/$version" -isystem "$machine" "$1/all.cc"
done
