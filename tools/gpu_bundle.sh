#!/usr/bin/env bash
# Builds what `make gpu` requires on a machine with a GPU: the tests of the kernels, the Python package with
# gnomon._cuda, the Python tests and the benchmarks. Requires nvcc, no GPU.
#
#   tools/gpu_bundle.sh          writes build/gpu/bundle.tar.gz, and tests its contents
#   tools/gpu_bundle.sh folder   only the folder build/gpu/gnomon-gpu
#
# Uses the objects of build/release if it has the component cuda (`make test`), else builds in build/gpu/build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=$PWD/build/gpu
readonly stage=$work/gnomon-gpu bundle=$work/bundle.tar.gz wheels=$work/wheels
readonly pythons='3.10 3.11 3.12 3.13 3.14' most_mb=50
readonly backend='nanobind-backend>=1.0,<2'

say() { printf 'gpu-bundle: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# The interpreter for which CMake finds nanobind: $PYTHON if it has nanobind, else that of build/python/tools.
build_python() {
  if [[ -n ${PYTHON:-} ]] && "$PYTHON" -c 'import nanobind' 2>/dev/null; then
    printf '%s\n' "$PYTHON"
  else
    tools/python.sh tools >&2
    printf '%s\n' "$PWD/build/python/tools/bin/python"
  fi
}

build() {
  local folder=build/release
  if ! grep -qs '^GNOMON_COMPONENTS:STRING=.*cuda' $folder/CMakeCache.txt ||
    ! grep -qs '^GNOMON_PYTHON:BOOL=ON' $folder/CMakeCache.txt; then
    folder=build/gpu/build
    local python
    python=$(build_python)
    cmake -S . -B $folder -G Ninja -DCMAKE_BUILD_TYPE=Release \
      '-DGNOMON_COMPONENTS=core;graph;model;report;cuda' -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF \
      -DGNOMON_BENCH=OFF -DGNOMON_TESTS=ON -DGNOMON_PYTHON=ON "-DPython_EXECUTABLE=$python" \
      >"$work/configure.log" 2>&1 || {
      tail -n 5 "$work/configure.log" >&2
      die 'cannot configure: requires nvcc and the packages of tools/setup.sh, or build/gpu/bundle.tar.gz'
    }
  fi
  cmake --build $folder -j"${JOBS:-$(nproc)}" --target gnomon_python gnomon_python_cuda \
    gnomon_cuda_device_tests >"$work/build.log" 2>&1 || {
    grep -m 20 -A 5 -E 'FAILED|error' "$work/build.log" >&2
    die "cannot build, see build/gpu/build.log"
  }
  printf '%s\n' "$folder"
}

# nanobind-backend is compiled for each version of Python. Without a network, the machine must have it.
get_wheels() {
  local version python
  python=$(build_python)
  mkdir -p "$wheels"
  for version in $pythons; do
    compgen -G "$wheels/nanobind_backend-*-cp${version/./}-*.whl" >/dev/null ||
      timeout 60 "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
        --only-binary=:all: --python-version "$version" --platform manylinux_2_28_x86_64 \
        -d "$wheels" "$backend" || say "no wheel of nanobind-backend for Python $version"
  done
}

fill_stage() {
  local folder=$1
  rm -rf "$stage"
  mkdir -p "$stage"/{prebuilt/{bin,python,wheels},tools,bench/gpu,docs,tests/python/{core,gpu,torch}}
  cp "$folder/tests/cuda/gnomon_cuda_device_tests" "$stage/prebuilt/bin"
  cp -r bindings/python/gnomon "$stage/prebuilt/python"
  rm -rf "$stage/prebuilt/python/gnomon/bin"
  find "$stage/prebuilt/python" -name __pycache__ -prune -exec rm -r {} +
  find "$stage/prebuilt/python" -name '*.so' -delete
  cp "$folder"/python/gnomon/_{core,cuda}.abi3.so "$stage/prebuilt/python/gnomon"
  strip "$stage"/prebuilt/bin/* "$stage"/prebuilt/python/gnomon/*.so
  ! compgen -G "$wheels/*.whl" >/dev/null || cp "$wheels"/*.whl "$stage/prebuilt/wheels"
  tools/gpu.sh sources >"$stage/prebuilt/sources.txt"
  cp pyproject.toml "$stage"
  cp tools/gpu.sh "$stage/tools"
  cp bench/gpu/*.{py,md.in} "$stage/bench/gpu"
  cp tests/python/conftest.py "$stage/tests/python"
  cp tests/python/core/emulated.py "$stage/tests/python/core"
  cp tests/python/torch/test_{cuda,bias_gradient}.py "$stage/tests/python/torch"
  cp tests/python/gpu/*.py "$stage/tests/python/gpu"
}

# The archive must work without this repository, without its libraries, and without its environment.
test_bundle() {
  local folder python libraries tag tests file
  folder=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  tar -xzf "$bundle" -C "$folder"
  cd "$folder/gnomon-gpu"
  for file in tools/gpu.sh bench/gpu/{compare,report,cases,text}.py bench/gpu/benchmarks-gpu.md.in \
    pyproject.toml tests/python/{conftest.py,gpu/test_gpu.py,torch/test_cuda.py,torch/test_bias_gradient.py,core/emulated.py} \
    prebuilt/{bin/gnomon_cuda_device_tests,sources.txt} \
    prebuilt/python/gnomon/{__init__.py,_core.abi3.so,_cuda.abi3.so,torch/_device.py}; do
    [[ -s $file ]] || die "the archive has no $file"
  done
  tests=$(env -i prebuilt/bin/gnomon_cuda_device_tests --gtest_list_tests | grep -c '^  ') ||
    die 'the tests of the kernels cannot be listed'
  env -i CUDA_VISIBLE_DEVICES= prebuilt/bin/gnomon_cuda_device_tests --gtest_brief=1 \
    '--gtest_filter=CudaNoDevice.*' >/dev/null || die 'the tests of the kernels fail without a GPU'
  libraries=$(readelf -d prebuilt/bin/gnomon_cuda_device_tests prebuilt/python/gnomon/*.so |
    sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u |
    grep -vE '^(lib(c|m|pthread|dl|rt|stdc\+\+|gcc_s)\.so|ld-linux)' || true)
  [[ -z $libraries ]] || die "other machines may not have $libraries"
  python=$(command -v "${PYTHON:-python3}")
  tag=cp$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  "$python" -m zipfile -e prebuilt/wheels/nanobind_backend-*-"$tag"-*.whl backend
  env -i PYTHONPATH=prebuilt/python:backend CUDA_VISIBLE_DEVICES= "$python" -S -c '
import gnomon, gnomon._cuda as cuda
assert cuda.device_count() == 0
try:
    cuda.Frequencies("halves", 0, [1.0], [], 1.0, 0)
except cuda.Error as error:
    assert str(error).startswith("[cuda] "), error
else:
    raise SystemExit("no error without a GPU")
assert gnomon.RotaryTable(gnomon.Rotary(rotary_dim=8, pairing="halves"), 4)
' || die 'gnomon._cuda cannot be imported without the environment of this machine'
  say "tested: $tests tests of the kernels, gnomon._cuda with $("$python" --version)"
}

[[ ${1-} == '' || ${1-} == folder ]] || die 'usage: tools/gpu_bundle.sh [folder]'
mkdir -p "$work"
PATH=$PATH:/usr/local/cuda/bin
folder=$(build)
get_wheels
fill_stage "$folder"
[[ ${1-} != folder ]] || exit 0
tar -C "$work" --owner=0 --group=0 --sort=name -czf "$bundle" gnomon-gpu
megabytes=$(($(stat -c %s "$bundle") / 1000000 + 1))
((megabytes < most_mb)) || die "the archive has $megabytes MB, at most $most_mb are allowed"
(test_bundle)
say "wrote build/gpu/bundle.tar.gz, less than $megabytes MB, $(tar -tzf "$bundle" | grep -cv '/$') files"
