#!/usr/bin/env bash
# Usage: fuzz.sh FUZZ_FOLDER [NAME...]. Runs each fuzzer of tests/fuzz, or those named, for
# GNOMON_FUZZ_SECONDS (60), one on each core at a time. 0: only what it has found so far. A fuzzer keeps new
# inputs in FUZZ_FOLDER/found/NAME/corpus for the next run. An input that fails is stored in
# FUZZ_FOLDER/found/NAME under the name at the end of the report.
#
# Then writes FUZZ_FOLDER/coverage.txt: for each file of a reader, the share of its lines that the inputs of all
# fuzzers reach. The first lines of NAME_fuzz.cc name the files: "// Reader: FILE...". Fails below 90 %.
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

# Inputs that other tests have: the configs of released models, results that were kept, and the GGUF files that
# tests build.
mkdir -p "$fuzzers/found/"{config,gguf_model,results}/corpus
if [ -x build/release/tests/gnomon_tests ]; then
  GNOMON_KEEP_GGUF=$fuzzers/found/gguf_model/corpus build/release/tests/gnomon_tests \
    --gtest_brief=1 --gtest_filter='*Gguf*:*GGUF*' >/dev/null
fi
python3 - "$fuzzers/found" <<'END'
import json, pathlib, sys
def add(reader, name, text):
    if len(text) < 16384:
        pathlib.Path(sys.argv[1], reader, "corpus", name).write_text(text)
for path in [*pathlib.Path("tests/model/released").glob("*.json"), *pathlib.Path("tests/model/layers").glob("*.json")]:
    add("config", "released-" + path.stem, json.dumps(json.loads(path.read_text()).get("config", {})))
for path in pathlib.Path("tests/kept").rglob("results*.json"):
    name = "-".join(path.relative_to("tests/kept").parts)
    add("results", name, json.dumps(json.loads(path.read_text()), separators=(",", ":")))
END

# The lines that the inputs of one fuzzer reach.
cover() {
  local folder=$fuzzers/found/$1
  mkdir -p "$folder/corpus"
  LLVM_PROFILE_FILE=$folder/raw "$fuzzers/tests/fuzz/${1}_fuzz" -runs=0 "$folder/corpus" "$(seeds_of "$1")" \
    >"$folder/cover.log" 2>&1
}

export -f fuzz cover source_of seeds_of
export fuzzers seconds
# File names and lines in reports without LLVM's symbolizer.
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH-$(command -v addr2line)}
export ASAN_OPTIONS=${ASAN_OPTIONS-quarantine_size_mb=64}
status=0
((seconds == 0)) ||
  printf '%s\n' "${names[@]}" | xargs -n 1 -P "$(nproc)" bash -euo pipefail -c 'fuzz "$1"' fuzz || status=1
printf '%s\n' "${names[@]}" | xargs -n 1 -P "$(nproc)" bash -euo pipefail -c 'cover "$1"' cover || status=1
llvm-profdata-19 merge -o "$fuzzers/profile" "$fuzzers"/found/*/raw
programs=() files=()
for source in tests/fuzz/*_fuzz.cc tests/fuzz/lab/*_fuzz.cc; do
  programs+=(${programs[0]:+-object} "$fuzzers/tests/fuzz/$(basename "$source" .cc)")
  # Patterns are expanded.
  # shellcheck disable=SC2207
  files+=($(sed -n 's|^// Reader: ||p' "$source"))
done
llvm-cov-19 report "${programs[@]}" -instr-profile "$fuzzers/profile" -show-region-summary=false \
  -show-branch-summary=false -show-functions=false "${files[@]}" 2>/dev/null |
  awk -v least="$least" '
    / [0-9.]+%/ && $1 != "TOTAL" { share = $NF; sub("%", "", share); printf "%6.2f %% of the %d lines of %s\n", share, $(NF - 2), $1
                  if (share + 0 < least) low = 1 }
    END { exit low }' | sort -u -k 8 | tee "$fuzzers/coverage.txt" ||
  { echo "== a reader has less than $least % of its lines reached" && status=1; }
exit $status
