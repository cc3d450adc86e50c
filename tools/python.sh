#!/usr/bin/env bash
# Builds and tests the Python package, in virtual environments below build/python.
#
#   tools/python.sh tools            environment with what builds the wheel, for tools/cmake and `wheel`
#   tools/python.sh wheel [FOLDER]   the wheel, from the objects of a build folder (build/release), installed
#                                    into a new environment with NumPy, pytest and hypothesis
#   tools/python.sh core             runs the tests that require NumPy only, with that wheel
#   tools/python.sh all              installs PyTorch, JAX, transformers and others, runs all tests
#   tools/python.sh stubs            writes the stubs of the extension module and the specs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=$PWD/build/python
readonly tools=$work/tools clean=$work/clean full=$work/full
readonly wheels=$work/wheel

say() { printf 'python: %s\n' "$*" >&2; }

base_python() {
  local candidate
  for candidate in "${PYTHON:-}" /usr/bin/python3 python3; do
    if [[ -n $candidate ]] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  say 'needs python3 with venv (Debian: python3-venv)'
  return 1
}

# Makes an environment and installs the packages of a requirements file, unless it has them already.
environment() {
  local folder=$1 requirements=$2
  if ! cmp -s "$requirements" "$folder/requirements.txt"; then
    say "installing the packages of $requirements"
    rm -rf "$folder"
    "$(base_python)" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$folder/requirements.txt"
  fi
}

build_wheel() {
  environment "$tools" tools/python/build.txt
  rm -rf "$wheels"
  PATH=$tools/bin:$PATH "$tools/bin/python" -m pip wheel . --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation -w "$wheels" "$@" || return
  ls -l "$wheels"/*.whl
}

# Installs the wheel in place of an earlier one.
install_wheel() {
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheels"/*.whl
}

case ${1-} in
  tools)
    environment "$tools" tools/python/build.txt
    ;;
  wheel)
    # The options of the folder stay as they are, so that its objects are used.
    folder=${2:-build/release}
    options=(-C "build-dir=$folder")
    for option in GNOMON_TESTS GNOMON_BENCH GNOMON_LAB GNOMON_THREADS; do
      value=$(sed -n "s/^$option:[A-Z]*=//p" "$folder/CMakeCache.txt")
      options+=(-C "cmake.define.$option=$value")
    done
    build_wheel "${options[@]}"
    environment "$clean" tools/python/core.txt
    install_wheel "$clean"
    ;;
  core)
    exec "$clean/bin/python" -m pytest -q tests/python/core
    ;;
  all)
    build_wheel
    environment "$full" tools/python/all.txt
    install_wheel "$full"
    exec "$full/bin/python" -m pytest -q tests/python "${@:2}"
    ;;
  stubs)
    PYTHONPATH=bindings/python "$clean/bin/python" tools/python/write_specs.py
    ;;
  *)
    say 'usage: tools/python.sh tools|wheel|core|all|stubs'
    exit 1
    ;;
esac
