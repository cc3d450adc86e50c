#!/bin/sh
# Regenerates the tests of released models with a release of transformers, and lists the changes.
#
#   tools/released.sh              # the newest transformers
#   tools/released.sh 5.23.0
#
# Installs transformers and torch (CPU) into build/released/venv. Writes tests/model/layers,
# tests/model/engine, tests/model/released and tests/model/tiny_configs.json. Files that differ
# only by rounding are kept.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$here/build/released
python=$work/venv/bin/python
cpu=https://download.pytorch.org/whl/cpu
mkdir -p "$work"
[ -x "$python" ] || python3 -m venv "$work/venv"
"$python" -m pip install --quiet --upgrade pip
"$python" -m pip install --quiet --upgrade torch --index-url $cpu ||
  "$python" -m pip install --quiet --upgrade torch
"$python" -m pip install --quiet --upgrade numpy safetensors pillow "transformers${1:+==$1}"

failed=
"$python" "$here/tools/released/layers.py" > "$work/layers.txt" 2> "$work/errors.txt" ||
  failed="$failed layers.py"
"$python" "$here/tools/released/engine.py" > "$work/engine.txt" 2>> "$work/errors.txt" ||
  failed="$failed engine.py"
if [ -e "$here/tools/released/expectations.py" ]; then
  "$python" "$here/tools/released/expectations.py" > "$work/expectations.txt" 2>&1 ||
    failed="$failed expectations.py"
fi

"$python" "$here/tools/released/tiny_configs.py" > "$work/tiny_configs.txt" \
  2>> "$work/errors.txt" || failed="$failed tiny_configs.py"

# Drawn configs, other ones in each run.
"$python" -W ignore "$here/tools/released/drawn_configs.py" 2000 "$work/drawn_configs.json" --seed "$(date +%s)" \
  > "$work/drawn_configs.txt" 2>> "$work/errors.txt" || failed="$failed drawn_configs.py"
tests=$here/build/release/tests/gnomon_tests
if [ -x "$tests" ]; then
  GNOMON_DRAWN_CONFIGS=$work/drawn_configs.json "$tests" --gtest_filter='DrawnConfigs*' \
    >> "$work/drawn_configs.txt" || failed="$failed DrawnConfigs"
fi

"$python" -m pip list 2>/dev/null | grep -E '^(torch|transformers) '
echo
echo "Layers, all in build/released/layers.txt:"
echo "  kept: $(grep -c ': kept' "$work/layers.txt" || true)"
grep -v ': kept' "$work/layers.txt" | sed 's/, [0-9]* bytes.*//; s/^/  /' || true
echo
echo "Whole models:"
sed 's/^/  /' "$work/engine.txt"
if [ -e "$work/expectations.txt" ]; then
  echo
  echo "Expectations:"
  sed 's/^/  /' "$work/expectations.txt"
fi
echo
echo "Tiny configs:"
sed 's/^/  /' "$work/tiny_configs.txt"
echo
echo "Drawn configs:"
grep -E 'refused|drawn configs' "$work/drawn_configs.txt" | sed 's/^/  /'
echo
echo "Files:"
files="released layers engine tiny_configs.json"
(cd "$here/tests/model" && git status --short $files && git diff --stat $files)
if [ -n "$failed" ]; then
  echo "failed:$failed" >&2
  tail -n 3 "$work/errors.txt" >&2
  exit 1
fi
