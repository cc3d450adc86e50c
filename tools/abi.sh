#!/usr/bin/env bash
# Compares the ABI of the library with that of the last tag, by libabigail (docs/versions.md). Without a tag, the C API
# is compared with tests/systems/c_api.abi.
#
#   tools/abi.sh            fails if anything differs from the record, or is incompatible with the tag
#   tools/abi.sh --update   writes the record, after a change that is intended
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly record=tests/systems/c_api.abi
work=$PWD/build/abi
mkdir -p "$work"
command -v abidw >/dev/null || {
  echo 'abi: abidw is missing (Debian: abigail-tools)' >&2
  exit 1
}

# A library of the functions that the C headers declare, with empty bodies. Its debugging information has their types.
c_library() {
  cat "$1"/include/*.h | gcc -E -P -I"$1/include" -x c - |
    perl -0pe 's/^((?!typedef)[\w\s*]+\bgnomon_\w+\([^;{]*\));/$1 { __builtin_trap(); }/mg' >"$work/c.c"
  gcc -std=c2x -g -O0 -fPIC -shared -w "-ffile-prefix-map=$work/=" "$work/c.c" -o "$2"
}
# Core as a shared library with its public symbols, kernels for one instruction set.
core_library() {
  cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS='-g -O0' -DBUILD_SHARED_LIBS=ON -DGNOMON_COMPONENTS=core \
    -DGNOMON_PCH=OFF '-DGNOMON_LEFT_OUT=|HWY_SSE4|HWY_AVX2|HWY_AVX3' >"$2.txt"
  cmake --build "$2" --target gnomon_core -j"${JOBS:-$(nproc)}" >>"$2.txt"
}

c_library "$PWD" "$work/libgnomon_c.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --type-id-style hash "$work/libgnomon_c.so" \
  --out-file "$work/c_api.abi"
if [[ ${1-} == --update ]]; then
  cp "$work/c_api.abi" $record
  exit
fi
if tag=$(git describe --tags --abbrev=0 2>/dev/null); then
  old=$work/tag
  rm -rf "$old" && mkdir "$old" && git archive "$tag" | tar -x -C "$old"
  c_library "$old" "$work/old_c.so"
  abidiff --no-added-syms "$work/old_c.so" "$work/libgnomon_c.so"
  core_library "$old" "$work/old_core"
  core_library "$PWD" "$work/core"
  abidiff --no-added-syms "$work/old_core/libgnomon_core.so" "$work/core/libgnomon_core.so"
  echo "abi: compatible with $tag"
else
  abidiff $record "$work/c_api.abi" || {
    echo "abi: the C API differs from $record; after an intended change: tools/abi.sh --update" >&2
    exit 1
  }
  echo "abi: the C API is as in $record ($(grep -c '<elf-symbol ' $record) functions)"
fi
