#!/bin/sh
# Builds the LibTorch adapter, the lab and their tests with the LibTorch of PyPI's torch, and
# runs the tests.
#
#   tools/torch2.sh                        # the newest torch
#   tools/torch2.sh 2.15.0
#   TORCH_PYTHON=DIR/bin/python tools/torch2.sh    # an existing environment with torch
#
# The build is in build/torch2, the virtual environment in build/torch2/venv (the CPU wheel of 1 GB
# if its index can be reached, otherwise the wheel of PyPI with 6 GB).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$here/build/torch2
mkdir -p "$work"

python=${TORCH_PYTHON:-}
if [ -z "$python" ]; then
  python=$work/venv/bin/python
  wanted=torch${1:+==$1}
  [ -x "$python" ] || python3 -m venv "$work/venv"
  "$python" -m pip install --quiet --upgrade pip
  "$python" -m pip install --quiet --upgrade numpy
  "$python" -m pip install --quiet --retries 1 --upgrade "$wanted" \
    --index-url https://download.pytorch.org/whl/cpu ||
    "$python" -m pip install --quiet --upgrade "$wanted"
fi

torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
cuda=$("$python" -c 'import torch; print(torch.version.cuda or "")')
version=$("$python" -c 'import torch; print(torch.__version__)')
abi=$("$python" -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))')
if [ "$abi" != 1 ]; then
  # GoogleTest and the system's standard library are built with 1.
  echo "torch $version was built with _GLIBCXX_USE_CXX11_ABI=0; 2.7 and later have 1" >&2
  exit 1
fi
config=$torch/share/cmake/Torch
if [ -n "$cuda" ]; then
  # The configuration of a wheel with CUDA requires the CUDA toolkit. Its CPU libraries do not.
  config=$work/config
  mkdir -p "$config"
  cat > "$config/TorchConfig.cmake" <<END
set(TORCH_INCLUDE_DIRS "$torch/include" "$torch/include/torch/csrc/api/include")
set(TORCH_LIBRARIES "$torch/lib/libtorch_cpu.so" "$torch/lib/libc10.so")
set(Torch_FOUND TRUE)
END
fi

launcher=
command -v ccache > /dev/null && launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache
echo "torch $version"
cmake -S "$here" -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGNOMON_TESTS=ON \
  -DGNOMON_BENCH=OFF -DTorch_DIR="$config" ${launcher:+"$launcher"} > "$work/configure.txt"
cmake --build "$work" -j"${JOBS:-$(nproc)}" --target gnomon_torch_tests gnomon-lab
"$work/tests/gnomon_torch_tests" --gtest_brief=1
