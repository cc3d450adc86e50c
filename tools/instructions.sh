#!/usr/bin/env bash
# Usage: instructions.sh PROGRAM [--update]. Counts with callgrind the instructions of each kernel
# of PROGRAM (gnomon_instructions), and compares them with bench/instructions/avx2.tsv. Unlike a
# time, a count shows on a busy machine, too, whether a kernel has become slower. Fails if a count
# has grown by more than 3 %. valgrind 3.19 does not support AVX-512, so AVX2 is counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly program=$1 kept=bench/instructions/avx2.tsv
readonly runs=2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export program scratch OMP_NUM_THREADS=1 GNOMON_ISA=avx2
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=gnomon_counted \
    "$program" "$1" "$2" >"$scratch/$1.log" 2>&1 || {
    cat "$scratch/$1.log" >&2
    return 1
  }
  sed -n 's/^==[0-9]*== Collected : //p' "$scratch/$1.log" >"$scratch/$1"
}
export -f count

compiler=$("$program" --compiler)
"$program" >"$scratch/kernels"
cut -f 1 "$scratch/kernels" |
  xargs -I % -P "$(nproc)" bash -euo pipefail -c 'count "$@"' count % "$runs"

while read -r kernel elements; do
  printf '%s\t%s\t%s\n' "$kernel" "$elements" "$(($(<"$scratch/$kernel") / runs))"
done <"$scratch/kernels" >"$scratch/counted"

if [[ ${2-} == --update ]]; then
  {
    echo "# Instructions of one run of each kernel on AVX2. \`make instructions\` compares,"
    echo "# \`make instructions UPDATE=--update\` writes."
    echo "# compiler: $compiler"
    printf '# kernel\telements\tinstructions\n'
    cat "$scratch/counted"
  } >"$kept"
  echo "wrote $kept"
  exit
fi

tolerance=3
recorded=$(sed -n 's/^# compiler: //p' "$kept")
if [[ $compiler != "$recorded" ]]; then
  tolerance=30
  echo "compiled by $compiler, recorded counts by $recorded: increases up to $tolerance % are accepted"
fi
awk -F '\t' -v tolerance="$tolerance" -v kept="$kept" '
  /^#/ { next }
  NR == FNR { was[$1] = $3; shape[$1] = $2; next }
  FNR == 1 { printf "%-24s %12s %10s %10s %8s\n", "kernel", "run", "element", "recorded", "change" }
  {
    printf "%-24s %12d %10.3f", $1, $3, $3 / $2
    if (!($1 in was) || shape[$1] != $2) { print "   not recorded"; bad++; next }
    change = 100 * ($3 / was[$1] - 1)
    grown = change > tolerance
    bad += grown; fallen += change < -tolerance
    printf " %10.3f %+7.1f%%%s\n", was[$1] / $2, change, grown ? "  INCREASED" : ""
    delete was[$1]
  }
  END {
    for (name in was) { print name ": recorded, but no such kernel"; bad++ }
    if (fallen) print fallen " kernels execute fewer instructions: `make instructions UPDATE=--update` records them"
    if (bad) {
      print bad " kernels differ from " kept ". Check changes of kernels and compiler options. If an"
      print "increase is intended, run `make instructions UPDATE=--update` and give the reason in the commit."
      exit 1
    }
  }' "$kept" "$scratch/counted"
