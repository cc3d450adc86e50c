#!/usr/bin/env bash
# Usage: additions.sh BUILD_FOLDER [--edits]. Adds an encoding and a family of models to a copy of the tree in
# build/additions, by the steps of docs/contributing.md and by no other. Builds the program and the
# tests there without optimization, runs those that read the list of encodings, the families or the
# pages, and prints how many files each addition takes. Writes the Python spec of the encoding too, if
# BUILD_FOLDER has the Python module. --edits: only the changes by hand, in a temporary folder.
set -Eeuo pipefail
trap 'echo "additions: line $LINENO failed: $BASH_COMMAND" >&2' ERR
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD copy=$PWD/build/additions
if [[ ${2-} == --edits ]]; then
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
fi
readonly root copy
module=OFF
[[ ! -e $1/python/gnomon/_core.abi3.so ]] || module=ON

mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +  # objects are kept
git ls-files -z --cached --others --exclude-standard --deduplicate |
  tar -c --null -T - --ignore-failed-read | tar -x -C "$copy"
cd "$copy"

# Commits the changes in the copy, and prints the number of files.
commit() {
  git add -Af -- . ':!build'
  git diff --cached --name-only | wc -l
  git -c user.name=additions -c user.email= -c commit.gpgsign=false commit -qm "$1"
}
git init -q
commit tree >/dev/null

# "Add an encoding": Sandwich under the name Tent, beside Sandwich in each file of the table.
for file in include/gnomon/bias/sandwich.h src/bias/sandwich.cc tests/bias/sandwich_test.cc \
  docs/bias/sandwich.md src/model/encodings/sandwich.h; do
  sed 's/Sandwich/Tent/g; s/sandwich/tent/g; s/compression_ratios/tent_ratios/g' "$file" \
    >"${file/sandwich/tent}"
done
python3 - <<'END'
def add(path, beside):
    text = open(path).read()
    assert text.count(beside) == 1, f"{path} has {text.count(beside)} times {beside!r}, not once"
    new = beside.replace("Sandwich", "Tent").replace("sandwich", "tent")
    open(path, "w").write(text.replace(beside, beside + new))

add("include/gnomon/model/encoding.h", '#include "gnomon/bias/sandwich.h"\n')
add("include/gnomon/model/encoding.h", " Sandwich,")
add("src/model/encodings/all.h", '#include "src/model/encodings/sandwich.h"\n')
add("bindings/python/gnomon/torch/_named.py",
    "class Sandwich(Named):\n    spec_type = specs.Sandwich\n\n\n")
add("bindings/python/gnomon/torch/_named.py", '    "Sandwich",\n')
add("README.md", " [Sandwich](docs/bias/sandwich.md),")
add("docs/README.md", ", [Sandwich](bias/sandwich.md)")
add("docs/bias/form.md", " [Sandwich](sandwich.md),")
add("docs/model/shard.md", "Sandwich and ")
add("docs/changes.md", " Sandwich;")
END
encoding_files=$(commit encoding)

# "Add a family of models": a row, and a config with the values that follow from it.
python3 - <<'END'
import json

path = "src/model/families/llama.cc"
text = open(path).read()
row = '  add(rotary, {"llama"}'
assert text.count(row) == 1, f"{path} has another row of llama"
new = """  add(rotary, {"example_decoder"}, base(250'000), length(4096), sizes(4, 8, 256),
      gguf("example", RopeType::halves));
"""
open(path, "w").write(text.replace(row, new + row))
expected = {"pairing": "halves", "head_dim": 32, "rotary_dim": 32, "base": 250000.0,
            "inv_freq": [250000.0 ** (-i / 16) for i in range(16)], "table_scale": 1.0,
            "softmax_scale": 32**-0.5}
with open("tests/model/released/example_decoder.json", "w") as out:
    json.dump({"config": {"model_type": "example_decoder"}, "expected": [expected]}, out)
    out.write("\n")
END
family_files=$(commit family)
echo "== files by hand: $encoding_files for an encoding, $family_files for a family"
[[ ${2-} != --edits ]] || exit 0

cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -DNDEBUG" \
  -DGNOMON_LAB=OFF -DGNOMON_BENCH=OFF -DGNOMON_PYTHON=$module \
  -DPython_EXECUTABLE="$root/build/python/tools/bin/python" \
  -DGNOMON_VEGA_BUNDLE="$root/build/setup/vega.js" >/dev/null
targets=(gnomon-program gnomon_tests gnomon_cli_tests)
[[ $module = OFF ]] || targets+=(gnomon_python)
cmake --build build/release -j"${JOBS:-$(nproc)}" --target "${targets[@]}" >build/log ||
  { tail -n 60 build/log; exit 1; }
gnomon=build/release/apps/cli/gnomon
check() {
  "build/release/tests/$1" --gtest_brief=1 --gtest_filter="$2" | grep -vE '^$|Running main'
}

# The files that the library writes. No other family may change in the recording.
GNOMON_RECORD=tests/model/recorded check gnomon_tests 'RecordedFacts.*'
rm tests/model/recorded/all.txt
if git diff tests/model/recorded | grep -E '^-[^-]'; then
  echo "additions: the record of other families changed"
  exit 1
fi
for list in families architectures; do
  page=$list
  [[ $list = families ]] || page=gguf_architectures
  "$gnomon" inspect "--$list" | python3 -c '
import sys
path, table = sys.argv[1], sys.stdin.read()
text = open(path).read()
begin = text.index(table[:table.index("\n")])
end = text.index("\n\n", begin) + 1 if "\n\n" in text[begin:] else len(text)
open(path, "w").write(text[:begin] + table + text[end:])' "docs/model/$page.md"
done
family_written=$(commit recorded)
encoding_written="none (the Python module is not built)"
if [[ $module = ON ]]; then
  mkdir -p build/python
  ln -sfn "$root/build/python/tools" "$root/build/python/core" build/python
  tools/python.sh generated
  encoding_written=$(commit generated)
fi
echo "== files written by tools: $encoding_written for an encoding, $family_written for a family"

# The program.
"$gnomon" list | grep -w tent >/dev/null
"$gnomon" explain tent | grep -F 'score(h, i, j) +=' >/dev/null
"$gnomon" check tent >/dev/null
for name in tent sandwich; do
  "$gnomon" bias "$name" --heads 8 --queries 16 --keys 16 -o "build/$name.npy" >/dev/null
done
cmp build/tent.npy build/sandwich.npy
"$gnomon" inspect - --json <<<'{"model_type": "example_decoder"}' | python3 -c '
import json, sys
(group,) = json.load(sys.stdin)["groups"]
assert (group["kind"], group["base"], group["heads"]) == ("rotary", 250000, 8), group'

# The tests of the structure, of pages, of each encoding and of each family.
check gnomon_tests 'Structure.*:Docs.*:Tent.*:*Encoding*:Json.*:Lower*:Invariance.*:Shard.*'\
':Scheme.*:Text*:Families.*:Family.*:RecordedFacts.*:LayerFamilies.*:*example*'
check gnomon_cli_tests 'Check.*:Completion.*:Help.*:Inspect.*:Pages.*'
