#!/usr/bin/env bash
# Usage: test_long.sh [PART...]. Runs the long tests, all parts or those named, after `make build-tests`:
#
#   asan tsan           all tests under the sanitizers, built for them
#   neon wasm rust systems site onnx ggml vllm packages
#                       make test-PART
#   lab                 the slow tests of the lab and of packaging
#   isa                 the test binary on each instruction set of this machine, shuffled, with 1, 2, 7 threads
#   cuda                the CUDA kernels, compiled for all devices, if the component is built
#   additions           an encoding and a family of models, added to a copy of the tree
#   cluster             20 lost nodes of a cluster that trains runs of the lab
#   memory calls kernels processes faults kills soak valgrind repeats
#                       tools/reliability.sh PART
#   fuzz                each fuzzer for GNOMON_FUZZ_SECONDS (60)
#   clean_root          the two main commands in a fresh Debian root
#
# The whole takes hours. build/long has the output of each part and the seconds of those that passed. A part
# that passed is not run again for the same commit, so that a call goes on behind a part that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=build/release
tests=$release/tests/gnomon_tests
jobs=${JOBS:-$(nproc)}
export JOBS=$jobs

asan() {
  make asan  # a part of all, in the build folder of the release
  make build-asan
  tools/test.sh build/asan "-j$jobs"
}
tsan() {
  make build-tsan
  TSAN_OPTIONS=die_after_fork=0 OMP_NUM_THREADS=4 tools/test.sh build/tsan "-j$jobs"
}
lab() {
  tools/test.sh $release -C long \
    -R '^(packaging[.](add_subdirectory_program|find_torch)|lab[.](every_task|one_run|run_team|device))$'
  cmake --build $release --target gnomon_parallel >/dev/null
  OPENBLAS_NUM_THREADS=1 $release/bench/gnomon_parallel 2
}
isa() {
  local threads seed
  for threads in 1 2 7; do
    seed=$((1 + RANDOM % 99999))
    echo "$threads threads, --gtest_random_seed=$seed"
    OMP_NUM_THREADS=$threads tools/each_isa.sh $release $tests --gtest_brief=1 --gtest_shuffle \
      "--gtest_random_seed=$seed" | grep -v '^$'
  done
}
# `make test` compiles the CUDA kernels for one device only.
cuda() {
  grep -qs '^GNOMON_COMPONENTS:STRING=.*cuda' $release/CMakeCache.txt || { echo 'not built' && return; }
  cmake -S . -B build/cuda -G Ninja -DCMAKE_BUILD_TYPE=Release '-DGNOMON_COMPONENTS=core;cuda' \
    -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF -DGNOMON_BENCH=OFF >/dev/null
  cmake --build build/cuda --target gnomon_cuda >/dev/null
  tools/cuda_kernels.py build/cuda/libgnomon_cuda.a \
    "$(sed -n 's/.*CMAKE_CUDA_COMPILER_VERSION "\(.*\)".*/\1/p' build/cuda/CMakeFiles/*/CMakeCUDACompiler.cmake)"
}
additions() { tools/additions.sh $release; }
cluster() { GNOMON_LONG_TESTS=1 tools/python.sh cluster -k lost_nodes; }
fuzz() { make build-fuzz && tools/fuzz.sh build/fuzz; }
clean_root() { tools/clean_root.sh; }

run() {
  case $1 in
    neon | wasm | rust | systems | site | onnx | ggml | vllm | packages) make "test-$1" ;;
    memory | calls | kernels | processes | faults | kills | soak | valgrind | repeats)
      tools/reliability.sh $release "$1" ;;
    *) "$1" ;;
  esac
}

# One part, in a process of its own: `set -e` has no effect in a condition.
if [[ ${1-} == --part ]]; then
  run "$2"
  exit
fi
(($#)) || set -- asan tsan neon wasm rust systems site onnx ggml vllm packages lab isa cuda additions cluster \
  memory calls kernels processes faults kills soak valgrind repeats fuzz clean_root
state=$(git rev-parse HEAD)$(git diff HEAD | sha256sum)
mkdir -p build/long
failed=()
for part in "$@"; do
  passed=build/long/$part.passed
  if [[ $(head -n 1 "$passed" 2>/dev/null) == "$state" ]]; then continue; fi
  echo "== $part"
  begin=$SECONDS
  if "$0" --part "$part" 2>&1 | tee "build/long/$part.log"; then
    printf '%s\n%s\n' "$state" "$((SECONDS - begin))" >"$passed"
  else
    failed+=("$part")
  fi
done
total=0
for part in "$@"; do
  [[ " ${failed[*]-} " == *" $part "* ]] && echo "== $part FAILED, build/long/$part.log" && continue
  seconds=$(tail -n 1 "build/long/$part.passed")
  echo "== $part passed, $seconds s"
  ((total += seconds))
done
echo "== $((total / 60)) minutes"
((${#failed[@]} == 0))
