#!/usr/bin/env bash
# Usage: reliability.sh BUILD_FOLDER [NAME...]. The long checks of docs/reliability.md, all or those named:
#
#   memory       each allocation of each public function fails once
#   calls        a million drawn calls of C on each instruction set, 100000 drawn cases of Python
#   kernels      200000 drawn configurations of rotation and attention on each instruction set
#   processes    1000 repeats of forks, exits and signals in Python, and in each of GNOMON_PYTHONS (programs)
#   faults       each system call of each command fails once; full disks; traces of all calls
#   kills        1000 runs of the lab and 200 conversions are killed
#   soak         a million calls by several threads of one process
#   valgrind     the tests of less than 10 ms under memcheck
#   repeats      the ordinary tests GNOMON_REPEATS (10) times, with three times as many jobs as cores
#
# The fuzzers are tools/fuzz.sh, changes of the sources tools/mutation/mutate.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
shift
tests=$build/tests/gnomon_tests

memory() {
  GNOMON_LONG_TESTS=1 "$build/tests/gnomon_allocation_tests" --gtest_brief=1
}
calls() {
  GNOMON_DRAWN_CALLS=1000000 tools/each_isa.sh "$build" "$tests" --gtest_brief=1 --gtest_filter='Arguments*:Results*'
  GNOMON_DRAWN_CASES=100000 tools/python.sh core -k 'arguments or capsules or drawn'
}
kernels() {
  GNOMON_DRAWN=100000 "$tests" --gtest_brief=1 --gtest_filter=Corpus.KernelsAreRightOnDrawnInputs
}
processes() {
  local python
  export GNOMON_EDGE_REPEATS=${GNOMON_EDGE_REPEATS:-1000}
  tools/python.sh core -k 'exit or edges'
  for python in ${GNOMON_PYTHONS-}; do tools/python.sh edges "$python"; done
}
faults() {
  python3 tests/faults/faults.py "$build" --every
  python3 tests/faults/disks.py "$build"
  python3 tests/faults/traces.py "$build"
}
kills() { python3 tests/faults/kills.py "$build" --lab 1000 --convert 200; }
soak() { GNOMON_SOAK_CALLS=1000000 "$tests" --gtest_brief=1 --gtest_filter='*Soak*'; }
# memcheck has no AVX-512, and finds what the sanitizers do not: values that were never written. The file of
# suppressions lists what is not an error. Bounds of an oracle in long double, which memcheck computes in
# double, may fail (status 1).
valgrind_sample() {
  local sample status=0
  sample=$(mktemp)
  "$tests" --gtest_brief=1 --gtest_output="json:$sample" >/dev/null
  python3 - "$sample" <<'END'
import json, sys
names = [f"{suite['name']}.{one['name']}" for suite in json.load(open(sys.argv[1]))["testsuites"]
         for one in suite["testsuite"] if float(one["time"].rstrip("s")) < 0.01]
open(sys.argv[1], "w").write("--gtest_filter=" + ":".join(names))
END
  OMP_NUM_THREADS=2 valgrind --quiet --error-exitcode=9 --suppressions=tests/memcheck.supp \
    "$tests" --gtest_brief=1 --gtest_flagfile="$sample" || status=$?
  rm "$sample"
  ((status < 2))
}
repeats() {
  OMP_NUM_THREADS=1 ctest --test-dir "$build" -j "$((3 * $(nproc)))" --output-on-failure \
    --repeat "until-fail:${GNOMON_REPEATS:-10}" | tail -n 12
}

(($#)) || set -- memory calls kernels processes faults kills soak valgrind repeats
for name in "$@"; do
  begin=$SECONDS
  echo "== $name"
  [[ $name == valgrind ]] && name=valgrind_sample
  "$name"
  echo "== $name: $((SECONDS - begin)) s"
done
