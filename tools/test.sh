#!/usr/bin/env bash
# Usage: test.sh BUILD_FOLDER [CTEST_OPTION...]. Runs the tests of a build folder with ctest. Then prints
# the number of cases (ctest counts programs and files of cases) and the reason of each skipped case.
set -uo pipefail
folder=$1
# Tests run at the same time: threads that wait for others must not keep a core.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
# Programs that link LibTorch start themselves again with this variable (src/core/openblas.h), which takes 0.3 s.
if [[ -z ${OPENBLAS_CORETYPE+set} && $(uname -m) == x86_64 ]]; then
  flags=" $(sed -n 's/^flags.*://p;T;q' /proc/cpuinfo) "
  has() { for one; do [[ $flags == *" $one "* ]] || return; done; }
  if has avx512f avx512cd avx512bw avx512dq avx512vl; then
    export OPENBLAS_CORETYPE=SkylakeX
  elif has avx2 fma; then
    export OPENBLAS_CORETYPE=Haswell
  fi
fi
ctest --test-dir "$folder" --output-on-failure "${@:2}"
status=$?
awk '
  /^\[  PASSED  \] [0-9]+ test/ { passed += $4 }
  / Skipped$/ { getline reason; skipped[++count] = $1 " " reason }
  END {
    printf "%d cases passed, %d skipped\n", passed, count
    for (i = 1; i <= count; ++i) print "skipped: " skipped[i]
  }' "$folder/Testing/Temporary/LastTest.log"
exit "$status"
