#!/usr/bin/env bash
# Usage: fuzz.sh FUZZ_FOLDER [NAME...]. Runs each fuzzer of tests/fuzz, or those named, for
# GNOMON_FUZZ_SECONDS (60), one on each core at a time. 0: only what it has found so far. A fuzzer keeps new
# inputs in FUZZ_FOLDER/found/NAME/corpus for the next run. An input that fails is stored in
# FUZZ_FOLDER/found/NAME under the name at the end of the report.
#
# Then writes FUZZ_FOLDER/coverage.txt: the share of the lines of each reader that all inputs together reach.
# The first lines of NAME_fuzz.cc name the files: "// Reader: FILE...". Fails below 90 %.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly least=90
fuzzers=$1 seconds=${GNOMON_FUZZ_SECONDS:-60}
shift
if (($#)); then names=("$@"); else
  mapfile -t names < <(printf '%s\n' tests/fuzz/*_fuzz.cc tests/fuzz/lab/*_fuzz.cc | sed 's|.*/\(.*\)_fuzz\.cc|\1|')
fi

# The source of a fuzzer and the folder of its seeds.
source_of() { ls "tests/fuzz/${1}_fuzz.cc" "tests/fuzz/lab/${1}_fuzz.cc" 2>/dev/null; }
seeds_of() { echo "$(dirname "$(source_of "$1")")/corpus/$1"; }

fuzz() {
  local name=$1 folder=$fuzzers/found/$1
  mkdir -p "$folder/corpus"
  if LLVM_PROFILE_FILE=/dev/null "$fuzzers/tests/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=3072 -max_len=16384 -print_final_stats=1 -artifact_prefix="$folder/" \
    "$folder/corpus" "$(seeds_of "$name")" >"$folder/log" 2>&1; then
    local inputs
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")
    echo "$inputs" >>"$folder/executions"
    echo "== fuzzed $name: $inputs inputs"
  else
    tail -n 40 "$folder/log"
    echo "== fuzzing $name failed"
    return 1
  fi
}

# One line: the share of the lines of a reader that its inputs reach, and the reader.
cover() {
  local name=$1 folder=$fuzzers/found/$1 program=$fuzzers/tests/fuzz/${1}_fuzz files total
  read -ra files <<<"$(sed -n 's|^// Reader: ||p' "$(source_of "$name")" | tr '\n' ' ')"
  mkdir -p "$folder/corpus"
  LLVM_PROFILE_FILE=$folder/raw "$program" -runs=0 "$folder/corpus" "$(seeds_of "$name")" >"$folder/log" 2>&1
  llvm-profdata-19 merge -o "$folder/profile" "$folder/raw"
  llvm-cov-19 report "$program" -instr-profile "$folder/profile" -show-region-summary=false \
    -show-branch-summary=false -show-functions=false "${files[@]}" >"$folder/coverage" 2>/dev/null
  total=$(awk '$1 == "TOTAL" { sub("%", "", $NF); print $NF }' "$folder/coverage")
  printf '%6.2f %% of %s: %s\n' "${total:-0}" "$name" "${files[*]}"
  awk -v share="${total:-0}" -v least="$least" 'BEGIN { exit !(share >= least) }'
}

export -f fuzz cover source_of seeds_of
export fuzzers seconds least
# File names and lines in reports without LLVM's symbolizer.
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH-$(command -v addr2line)}
export ASAN_OPTIONS=${ASAN_OPTIONS-quarantine_size_mb=64}
((seconds == 0)) ||
  printf '%s\n' "${names[@]}" | xargs -n 1 -P "$(nproc)" bash -euo pipefail -c 'fuzz "$1"' fuzz
status=0
printf '%s\n' "${names[@]}" | xargs -n 1 -P "$(nproc)" bash -euo pipefail -c 'cover "$1"' cover \
  >"$fuzzers/coverage.txt" || status=1
sort -k 4 "$fuzzers/coverage.txt" | tee "$fuzzers/coverage.sorted"
mv "$fuzzers/coverage.sorted" "$fuzzers/coverage.txt"
((status == 0)) || echo "== a reader has less than $least % of its lines reached"
exit $status
