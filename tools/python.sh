#!/usr/bin/env bash
# Builds and tests the Python package, in virtual environments below build/python.
#
#   tools/python.sh tools            the environment that builds the extension module
#   tools/python.sh cuda             the environment with cuobjdump, for tools/cuda_kernels.py
#   tools/python.sh wasm             the environment with the compiler for WebAssembly, for tools/wasm.sh
#   tools/python.sh publish          the environment that checks the files of a release, for tools/dist.sh
#   tools/python.sh wheel [FOLDER]   the wheel, from the objects of a build folder (build/release), installed
#                                    into an environment with NumPy, pytest and hypothesis
#   tools/python.sh core [OPTION...] with that wheel, runs the tests that require NumPy only
#   tools/python.sh edges PYTHON     with that wheel and another Python, runs the repeats of processes (test_exit.py)
#   tools/python.sh cluster [OPTION...]  the same for tests/python/cluster, with Ray
#   tools/python.sh all [OPTION...]  installs PyTorch, JAX, transformers and others, runs all tests
#   tools/python.sh gguf [OPTION...] the same for tests/python/gguf: the GGUF reader against llama.cpp
#   tools/python.sh release          writes a manylinux wheel and the source distribution to build/python/dist
#   tools/python.sh generated        writes the specs and the stubs from the module of build/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=$PWD/build/python
readonly wheels=$work/wheel dist=$work/dist

say() { printf 'python: %s\n' "$*" >&2; }

base_python() {
  local candidate
  for candidate in "${PYTHON:-}" /usr/bin/python3 python3; do
    if [[ -n $candidate ]] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  say 'requires python3 with venv (Debian: python3-venv)'
  return 1
}

# Makes the environment $work/NAME with the packages of tools/python/NAME.txt, unless it has them already.
environment() {
  local folder=$work/$1 requirements=tools/python/$1.txt
  cmp -s "$requirements" "$folder/requirements.txt" && return
  say "installing the packages of $requirements"
  rm -rf "$folder"
  "$(base_python)" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$folder/requirements.txt"
}

# The options of the folder stay as they are, so that its objects are used.
build_wheel() {
  local folder=$1 option options=()
  environment tools
  for option in GNOMON_C GNOMON_TESTS GNOMON_BENCH GNOMON_LAB GNOMON_THREADS; do
    [[ ! -e $folder/CMakeCache.txt ]] ||
      options+=(--config-settings "cmake.define.$option=$(sed -n "s/^$option:[A-Z]*=//p" "$folder/CMakeCache.txt")")
  done
  rm -rf "$wheels"
  PATH=$work/tools/bin:$PATH "$work/tools/bin/python" -m pip wheel . --quiet --disable-pip-version-check \
    --no-deps --no-build-isolation -w "$wheels" --config-settings "build-dir=$folder" "${options[@]}"
}

# Installs the wheel in place of an earlier one.
install_wheel() {
  environment "$1"
  "$work/$1/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    "$wheels"/*.whl
}

case ${1-} in
  tools | cuda | wasm | publish)
    environment "$1"
    ;;
  wheel)
    build_wheel "${2:-build/release}"
    install_wheel core
    ;;
  core)
    exec "$work/core/bin/python" -m pytest -q tests/python/core "${@:2}"
    ;;
  edges)
    folder=$work/edges/$("$2" -c 'import platform; print(platform.python_version())')
    [[ -d $folder ]] || "$2" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/python/core.txt
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheels"/*.whl
    exec "$folder/bin/python" -m pytest -q tests/python/core/test_exit.py "${@:3}"
    ;;
  cluster)
    build_wheel build/release
    install_wheel cluster
    exec "$work/cluster/bin/python" -m pytest -q tests/python/cluster "${@:2}"
    ;;
  all)
    build_wheel build/release
    install_wheel all
    # A GPU: make gpu. Minutes of llama.cpp: make test-gguf.
    exec "$work/all/bin/python" -m pytest tests/python --ignore=tests/python/gpu --ignore=tests/python/gguf "${@:2}"
    ;;
  gguf)
    build_wheel build/release
    install_wheel all
    exec "$work/all/bin/python" -m pytest -q tests/python/gguf "${@:2}"
    ;;
  release)
    environment tools
    rm -rf "$dist"
    "$work/tools/bin/python" -m build --quiet --outdir "$dist/local" .
    PATH=$work/tools/bin:$PATH "$work/tools/bin/auditwheel" repair --wheel-dir "$dist" "$dist"/local/*.whl
    mv "$dist"/local/*.tar.gz "$dist"
    rm -r "$dist/local"
    ls -l "$dist"
    ;;
  generated)
    export PYTHONPATH=$work/generated
    rm -rf "$PYTHONPATH" && mkdir -p "$PYTHONPATH"
    cp -r bindings/python/gnomon "$PYTHONPATH"
    cp --remove-destination build/release/python/gnomon/_core.abi3.so "$PYTHONPATH/gnomon"
    environment core
    "$work/core/bin/python" tools/python/write_specs.py
    "$work/core/bin/python" -m nanobind.stubgen -q -m gnomon._core -p tools/python/stubs.txt \
      -o bindings/python/gnomon/_core.pyi
    ;;
  *)
    say 'usage: tools/python.sh tools|wheel|core|all|release|generated'
    exit 1
    ;;
esac
