#!/bin/bash
# ONNX: exported layers in ONNX Runtime, ONNX's node cases through the C API, and all encodings
# through the custom operators.
#
#   tests/onnx/check.sh          everything; packages and the library are made below build/
#   tests/onnx/check.sh times    times ONNX Runtime's operators beside the custom operators
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly work=build/onnx python=build/onnx/venv/bin/python release=build/release
readonly library=build/onnx/libgnomon_onnx.so packages='onnx==1.23.2 onnxruntime==1.32.0 numpy ml_dtypes'

mkdir -p "$work"
[ -x "$python" ] || python3 -m venv "$work/venv"
# shellcheck disable=SC2086
"$python" -m pip install --quiet --disable-pip-version-check $packages
tools/python.sh wheel "$release" >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log"; exit 1; }
"$python" -m pip install --quiet --disable-pip-version-check build/python/wheel/*.whl
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
  build/python/wheel/*.whl

# The custom operators: a build folder of their own, without programs and tests.
cmake -S . -B "$work/library" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGNOMON_ONNX=ON \
  -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF -DGNOMON_TESTS=OFF -DGNOMON_BENCH=OFF >"$work/cmake.log"
cmake --build "$work/library" --target gnomon_onnx >"$work/build.log" || { cat "$work/build.log"; exit 1; }
cp "$work/library/onnx/libgnomon_onnx.so" "$library"

if [ "${1:-}" = times ]; then
  exec "$python" tests/onnx/times.py "$library" "${@:2}"
fi

cmake --build "$release" --target gnomon-program >"$work/program.log" || { cat "$work/program.log"; exit 1; }
failed=0
"$python" tests/onnx/layers.py "$release/apps/cli/gnomon" || failed=1
"$python" tests/onnx/layers.py "$release/apps/cli/gnomon" --operators microsoft || failed=1
"$python" tests/onnx/node_cases.py "$library" || failed=1
"$python" tests/onnx/operators.py "$library" || failed=1
[ "$failed" = 0 ] && echo 'ONNX: all checks passed' || echo 'ONNX: checks FAILED'
exit "$failed"
