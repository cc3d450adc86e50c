#!/usr/bin/env bash
# Usage: each_isa.sh BUILD_FOLDER COMMAND... Runs the command with each instruction set that this machine
# supports in GNOMON_ISA.
set -euo pipefail
tests=$1/tests/gnomon_tests
shift
for isa in portable sse4 avx2 avx512 neon; do
  report=$(GNOMON_ISA=$isa GNOMON_REPORT_ISA=1 "$tests" --gtest_filter=Isa.ReportsWhenAsked) || true
  grep -q "^runs=$isa$" <<<"$report" || continue
  echo "== $isa"
  GNOMON_ISA=$isa "$@"
done
