#!/usr/bin/env bash
# Usage: test.sh BUILD_FOLDER [CTEST_OPTION...]. Runs the tests of a build folder with ctest. Then prints
# the number of cases (ctest counts programs and files of cases) and the reason of each skipped case.
set -uo pipefail
folder=$1
# Tests run at the same time: threads that wait for others must not keep a core.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
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
