#!/usr/bin/env bash
# Compiles the components core and model for each system, with warnings as errors, links C programs and runs them where
# possible (docs/systems.md has the table). Then checks the symbols of the shared libraries, the size and the
# dependencies of C programs, and the syntax in a mode without the extensions of GCC.
#
#   tests/systems/check.sh             everything, below build/systems
#   tests/systems/check.sh SYSTEM...   some of: gcc clang x86_64-linux-musl aarch64-linux-musl x86_64-windows-gnu
#                                      aarch64-macos wasm32 shared static msvc
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD work=$PWD/build/systems
mkdir -p "$work"
all=(gcc clang x86_64-linux-musl aarch64-linux-musl x86_64-windows-gnu aarch64-macos wasm32 shared static msvc)
systems=("$@")
((${#systems[@]})) || systems=("${all[@]}")
tools/setup.sh systems
JOBS=${JOBS:-2} tools/wasm.sh tools
export WINEDEBUG=-all WINEPREFIX=$work/wine

# The kernels are portable and AVX2: the other instruction sets are compiled by `make test`, and for ARM NEON.
configure() {
  local name=$1
  shift
  cmake -S tests/systems -B "$work/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" \
    -DCMAKE_COMPILE_WARNING_AS_ERROR=ON '-DGNOMON_LEFT_OUT=|HWY_SSE4|HWY_AVX3' "$@" >"$work/$name.txt" 2>&1
}
build() { cmake --build "$work/$1" -j"${JOBS:-2}" -- -k 0 >>"$work/$1.txt" 2>&1; }
run() { ctest --test-dir "$work/$1" --output-on-failure >>"$work/$1.txt" 2>&1; }
zig() {
  configure "$1" --toolchain "$root/tools/cmake/zig.cmake" "-DGNOMON_ZIG_TARGET=$1" "${@:2}" && build "$1"
}

check() {
  case $1 in
    gcc) configure gcc && build gcc && run gcc ;;
    clang) configure clang -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DGNOMON_THREADS=std && build clang && run clang ;;
    x86_64-linux-musl | aarch64-linux-musl) zig "$1" -DGNOMON_SYSTEMS_GTEST=ON && run "$1" ;;
    x86_64-windows-gnu) zig "$1" -DGNOMON_SYSTEMS_GTEST=ON && run "$1" ;;
    aarch64-macos) zig "$1" && file -b "$work/$1/rotary" | grep -q 'Mach-O 64-bit arm64' ;;
    wasm32) configure wasm32 --toolchain "$root/tools/cmake/wasm.cmake" -DGNOMON_WASM=ON -DGNOMON_THREADS=none && build wasm32 && run wasm32 ;;
    shared) library shared ON && symbols && c_programs shared ;;
    static) library static OFF && c_programs static ;;
    msvc) msvc ;;
    *) echo "unknown system $1" && return 1 ;;
  esac
}

# The library alone, as a package has it.
library() {
  cmake -S . -B "$work/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DBUILD_SHARED_LIBS=$2" '-DGNOMON_COMPONENTS=core;model' \
    -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF -DGNOMON_TESTS=OFF -DGNOMON_BENCH=OFF "-DCMAKE_INSTALL_PREFIX=$work/$1-prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib >"$work/$1.txt" 2>&1
  build "$1" && cmake --install "$work/$1" >>"$work/$1.txt"
}

# Each function that a library calls is exported by another one.
symbols() {
  ! ldd -r "$work"/shared/libgnomon_{core,model}.so 2>&1 | grep 'undefined symbol' &&
    tests/systems/exports.py include "$work"/shared/libgnomon_{core,model}.so
}

# C programs by gcc and pkg-config, which depend neither on libhwy.so nor, if shared, directly on libstdc++.
c_programs() {
  local program prefix=$work/$1-prefix
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
  for program in docs/examples/rotary.c tests/systems/least.c; do
    # shellcheck disable=SC2046
    gcc -O2 $program -Wl,--gc-sections,--as-needed -s -o "$work/$1-$(basename $program .c)" \
      $(pkg-config --cflags --libs gnomon-core) -lm
  done
  [[ $("$work/$1-rotary") == "$expected" ]] && "$work/$1-least"
  # shellcheck disable=SC2046
  gcc -O2 tests/c/model_test.c -o "$work/$1-model" $(pkg-config --cflags --libs gnomon-model) -lm && "$work/$1-model" || return 1
  ! ldd "$work/$1-least" | grep libhwy || return 1
  [[ $1 == static ]] || ! readelf -d "$work/shared-least" | grep 'NEEDED.*stdc++' || return 1
  printf '%s: least.c has %d bytes, the library of core %d\n' "$1" "$(stat -c %s "$work/$1-least")" \
    "$(cat "$prefix"/lib/libgnomon_core.{a,so} 2>/dev/null | wc -c)"
}
readonly expected=0.648547

# MSVC itself is not run, and its headers are absent. Clang compiles the public headers and the sources of Windows with
# Microsoft's extensions and the headers of MinGW, which do not permit -fms-compatibility.
msvc() {
  {
    (cd include && find . -name '*.h' -not -path '*/cuda/*' | LC_ALL=C sort | sed 's|^\./\(.*\)|#include "\1"|')
    cat tests/systems/msvc.cc
  } >"$work/msvc.cc"
  "$work/../wasm-tools/bin/zig-c++" --target=x86_64-windows-gnu -fms-extensions -std=c++20 -c -Wall -Wextra -Werror \
    -DNOMINMAX -DWIN32_LEAN_AND_MEAN -D_USE_MATH_DEFINES -Iinclude -I. "$work/msvc.cc" -o "$work/msvc.obj"
}

failed=()
for system in "${systems[@]}"; do
  if check "$system"; then echo "systems: $system: passed"; else
    failed+=("$system")
    tail -n 30 "$work/$system.txt" 2>/dev/null || true
    echo "systems: $system: FAILED (log: $work/$system.txt)"
  fi
done
echo "systems: $((${#systems[@]} - ${#failed[@]})) of ${#systems[@]} passed${failed[*]:+; failed: ${failed[*]}}"
((${#failed[@]} == 0))
