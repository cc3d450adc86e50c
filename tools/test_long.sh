#!/usr/bin/env bash
# Usage: test_long.sh BUILD_FOLDER. The whole test binary on each instruction set that this
# machine can be forced to, with 1, 2 and 7 threads, three times over in shuffled order.
set -euo pipefail
tests=$1/tests/gnomon_tests

for isa in portable sse4 avx2 avx512 neon; do
  GNOMON_ISA=$isa GNOMON_REPORT_ISA=1 "$tests" --gtest_filter=Isa.ReportsWhenAsked |
    grep -q "^runs=$isa$" || continue
  for threads in 1 2 7; do
    echo "== $isa, $threads threads"
    GNOMON_ISA=$isa OMP_NUM_THREADS=$threads "$tests" --gtest_brief=1 --gtest_shuffle \
      --gtest_repeat=3 --gtest_throw_on_failure=0 | grep -vE '^$|Note: Randomizing|Repeating all'
  done
done
echo "== passed on all"
