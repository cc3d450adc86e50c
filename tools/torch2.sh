#!/bin/sh
# Builds with the LibTorch inside PyPI's torch instead of Debian's.
#
#   tools/torch2.sh test [VERSION]   builds and runs the tests of the LibTorch adapter and the lab
#   tools/torch2.sh install          installs torch
#   tools/torch2.sh build            installs torch if necessary, and builds the program and the lab
#   tools/torch2.sh lab [OPTION...]  builds the lab and runs it, on the GPU if there is one
#   TORCH_PYTHON=DIR/bin/python tools/torch2.sh ...    an existing environment with torch
#
# The build folder is build/torch2 (test) or build/pypi (all others), and the virtual environment is
# in its folder venv. `test` installs the newest torch, or VERSION: the CPU wheel of 1 GB if its
# index can be reached, otherwise the wheel of PyPI with 6 GB. The others install the wheel of PyPI,
# which has CUDA on x86-64, unless torch is already in their environment.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
mode=${1:-}
case $mode in
  test) work=$here/build/torch2 ;;
  install | build | lab) work=$here/build/pypi ;;
  *)
    echo "usage: tools/torch2.sh test [VERSION] | install | build | lab [OPTION...]" >&2
    exit 2
    ;;
esac
shift
mkdir -p "$work"

# Prints an expression of Python, evaluated in the environment.
ask() { "$python" -c "import os, torch; print($1)"; }

install_torch() {
  [ -x "$python" ] || python3 -m venv "$work/venv"
  install="$python -m pip install --quiet --disable-pip-version-check"
  if [ "$mode" = test ]; then
    wanted=torch${1:+==$1}
    $install --upgrade numpy
    $install --retries 1 --upgrade "$wanted" --index-url https://download.pytorch.org/whl/cpu ||
      $install --upgrade "$wanted"
  elif ! "$python" -c 'import torch' 2> /dev/null; then
    echo "Installing torch from PyPI in $work/venv (6 GB on x86-64)."
    $install numpy torch
  fi
}

python=${TORCH_PYTHON:-}
if [ -z "$python" ]; then
  python=$work/venv/bin/python
  if [ "$mode" = test ]; then install_torch "$@"; else install_torch; fi
fi

[ "$mode" != install ] || exit 0

torch=$(ask 'os.path.dirname(torch.__file__)')
cuda=$(ask 'torch.version.cuda or ""')
version=$(ask 'torch.__version__')
if [ "$(ask 'int(torch.compiled_with_cxx11_abi())')" != 1 ]; then
  # GoogleTest and the system's standard library are built with 1.
  echo "torch $version was built with _GLIBCXX_USE_CXX11_ABI=0; 2.7 and later have 1" >&2
  exit 1
fi

# A configuration of its own. That of a wheel with CUDA requires the CUDA toolkit, but its libraries
# do not: those of CUDA are in other wheels, which libtorch_cuda.so finds by its RPATH. No symbol of
# libtorch_cuda.so is used, but it registers the operators for CUDA when it is loaded. The wheel
# also has headers of a newer fmt than the system's library, so they are left out.
config=$work/config
rm -rf "$config"
mkdir -p "$config/include"
for one in "$torch"/include/*; do
  [ "${one##*/}" = fmt ] || ln -s "$one" "$config/include/"
done
libraries="$torch/lib/libtorch_cpu.so;$torch/lib/libc10.so"
if [ -n "$cuda" ] && [ "$mode" != test ]; then  # the tests require no GPU and no driver
  libraries="$libraries;-Wl,--push-state,--no-as-needed"
  libraries="$libraries,$torch/lib/libtorch_cuda.so,$torch/lib/libc10_cuda.so,--pop-state"
  for one in "${torch%/*}"/nvidia/*/lib; do
    [ ! -d "$one" ] || libraries="$libraries;-Wl,-rpath,$one"
  done
fi
cat > "$config/TorchConfig.cmake" << END
set(TORCH_INCLUDE_DIRS "\$<BUILD_INTERFACE:$config/include>"
    "\$<BUILD_INTERFACE:$torch/include/torch/csrc/api/include>")
set(TORCH_LIBRARIES "$libraries")
set(Torch_FOUND TRUE)
END

tests=OFF
targets="gnomon-program gnomon-lab"
[ "$mode" != lab ] || targets=gnomon-lab
if [ "$mode" = test ]; then
  tests=ON
  targets="gnomon_torch_tests gnomon-lab"
fi
# Kernels of the library for CUDA, if nvcc is there.
components="core;graph;model;report"
if [ -n "$cuda" ] && [ "$mode" != test ]; then
  if command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    components="$components;cuda"
  fi
fi
launcher=
command -v ccache > /dev/null && launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache
echo "torch $version"
cmake -S "$here" -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGNOMON_TESTS=$tests \
  "-DGNOMON_COMPONENTS=$components" \
  -DGNOMON_BENCH=OFF -DTorch_DIR="$config" ${launcher:+"$launcher"} > "$work/configure.txt"
# shellcheck disable=SC2086 # several targets
cmake --build "$work" -j"${JOBS:-$(nproc)}" --target $targets

case $mode in
  test) exec "$work/tests/gnomon_torch_tests" --gtest_brief=1 ;;
  build) echo "Built $work/apps/cli/gnomon" ;;
  lab)
    device=
    case " $* " in
      *" --device"*) ;;
      *)
        if [ "$(ask 'int(torch.cuda.is_available())' 2> /dev/null)" = 1 ]; then
          device=--device=cuda
        elif [ -n "$cuda" ]; then
          echo "No GPU with a driver for CUDA $cuda: the lab runs on the CPU."
        else
          echo "torch $version has no CUDA: the lab runs on the CPU."
        fi
        ;;
    esac
    exec "$work/apps/lab/gnomon-lab" "$@" ${device:+"$device"}
    ;;
esac
