#!/usr/bin/env bash
# Tests the operators of bindings/ggml with the ggml of the PyPI package ggml-python, below build/ggml.
#
#   tests/ggml/check.sh                          builds, tests
#   tests/ggml/check.sh measure [--errors] [--times]   prints the tables of docs/integrations/ggml.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly work=$PWD/build/ggml
readonly python=$work/venv/bin/python
readonly packages=(ggml-python==0.0.45 gguf==0.19.0 numpy==2.4.6 pytest==9.2.0)

say() { printf 'ggml: %s\n' "$*" >&2; }

# ggml-python has no wheel for Linux: pip compiles ggml for the processor of this machine.
if [[ ${packages[*]} != "$(cat "$work/packages.txt" 2>/dev/null)" ]]; then
  say "installing ${packages[*]}"
  rm -rf "$work/venv"
  mkdir -p "$work"
  "${PYTHON:-python3}" -m venv "$work/venv"
  "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
  printf '%s\n' "${packages[*]}" >"$work/packages.txt"
fi
ggml=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
readonly ggml

say 'building'
cmake -S . -B "$work/lib" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGNOMON_COMPONENTS='core;model' \
  -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF -DGNOMON_TESTS=OFF -DGNOMON_BENCH=OFF \
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON >"$work/lib.log"
cmake --build "$work/lib" -j"${JOBS:-$(nproc)}" >>"$work/lib.log"
cmake --install "$work/lib" --prefix "$work/gnomon" >>"$work/lib.log"
cmake -S bindings/ggml -B "$work/bindings" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  "-DCMAKE_PREFIX_PATH=$work/gnomon;$ggml" >"$work/bindings.log"
cmake --build "$work/bindings" >>"$work/bindings.log" || {
  cat "$work/bindings.log" >&2
  exit 1
}
export GNOMON_GGML=$work/bindings/libgnomon_ggml.so

if [[ ${1-} == measure ]]; then
  exec "$python" tests/ggml/measure.py "${@:2}"
fi
"$python" -m pytest -q -o pythonpath=tests/ggml tests/ggml
say "all tests passed, with ggml of ${packages[0]}"
