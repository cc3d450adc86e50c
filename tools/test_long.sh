#!/usr/bin/env bash
# Usage: test_long.sh BUILD_FOLDER FUZZ_FOLDER. Runs the whole test binary on each instruction set
# that this machine supports, with 1, 2 and 7 threads, in shuffled order. Then compiles the CUDA
# kernels for all devices and checks them, if the component cuda is built. Then adds an encoding and a
# family of models to a copy of the tree. Then kills 20 nodes of a cluster that trains runs of the lab, if
# the lab is built. Then runs the long checks of docs/reliability.md, and each fuzzer for GNOMON_FUZZ_SECONDS (60).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tests=$1/tests/gnomon_tests

for threads in 1 2 7; do
  echo "== $threads threads"
  OMP_NUM_THREADS=$threads tools/each_isa.sh "$1" "$tests" --gtest_brief=1 --gtest_shuffle |
    grep -vE '^$|Note: Randomizing'
done
echo "== passed on all"

# `make test` compiles the CUDA kernels for one device only.
if grep -qs '^GNOMON_COMPONENTS:STRING=.*cuda' "$1/CMakeCache.txt"; then
  echo "== CUDA kernels for all devices"
  cmake -S . -B build/cuda -G Ninja -DCMAKE_BUILD_TYPE=Release '-DGNOMON_COMPONENTS=core;cuda' \
    -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF -DGNOMON_BENCH=OFF >/dev/null
  cmake --build build/cuda --target gnomon_cuda >/dev/null
  tools/cuda_kernels.py build/cuda/libgnomon_cuda.so \
    "$(sed -n 's/.*CMAKE_CUDA_COMPILER_VERSION "\(.*\)".*/\1/p' build/cuda/CMakeFiles/*/CMakeCUDACompiler.cmake)"
fi

echo "== an encoding and a family, added to a copy"
tools/additions.sh "$1"

lab_tests=$1/tests/gnomon_torch_tests
if [ -x "$lab_tests" ]; then
  echo "== benchmarks of the lab"
  cmake --build "$1" --target gnomon_parallel >/dev/null
  OPENBLAS_NUM_THREADS=1 "$1/bench/gnomon_parallel" 2
  echo "== lost nodes of a cluster"
  GNOMON_LONG_TESTS=1 tools/python.sh cluster -k lost_nodes
fi

tools/reliability.sh "$1"
echo "== fuzzing"
tools/fuzz.sh "$2"
