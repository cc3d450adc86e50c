#!/usr/bin/env bash
# Builds, installs and uses the component core in a fresh Debian 12 root that has a compiler, CMake,
# Ninja, pkg-config and Highway, but none of the libraries of the other components. mmdebstrap makes
# the root in a temporary folder and removes it: as root with chroot, otherwise with user
# namespaces. `tools/setup.sh long` installs mmdebstrap.
#
#   GNOMON_MIRROR  a Debian mirror; default: that of mmdebstrap
#   CXXFLAGS       compiler flags; default -O0, because optimised kernels take minutes to compile
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly packages=g++,cmake,ninja-build,pkg-config,libhwy-dev
export CXXFLAGS=${CXXFLAGS--O0}
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER  # absent in the root
command -v mmdebstrap >/dev/null || {
  echo 'clean_root: mmdebstrap is missing; tools/setup.sh long installs it' >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Only the files from which core is built.
mkdir "$work/gnomon"
cp -R --parents CMakeLists.txt bindings tools/cmake include src "$work/gnomon"
cp -R tests/packaging "$work/gnomon"

# This script runs inside the root.
cat >"$work/gnomon/check.sh" <<'CHECK'
set -euxo pipefail
cd /gnomon
unwanted=$(find /usr/include /usr/local -iname 'nlohmann*' -o -iname eigen3 -o -iname Spectra \
  -o -iname torch)
[[ -z $unwanted ]]
for shared in OFF ON; do
  prefix=/prefix/$shared
  threads=openmp
  [[ $shared == OFF ]] || threads=std
  cmake -S . -B build/$shared -G Ninja -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=$shared \
    -DGNOMON_THREADS=$threads -DGNOMON_COMPONENTS=core -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build build/$shared
  cmake --install build/$shared --prefix $prefix >/dev/null
  modules=$(cd $prefix/include/gnomon && echo */)
  [[ $modules == "attention/ bias/ embedding/ position/ relative/ rotary/" ]]
  cmake -S packaging/core -B build/core-$shared -G Ninja -DCMAKE_PREFIX_PATH=$prefix
  cmake --build build/core-$shared
  build/core-$shared/core
  packaging/pkg_config.sh $prefix gnomon-core packaging/core/core.cc build/by_pkg_config
done
CHECK

echo "== clean root: $packages"
mmdebstrap --quiet --variant=apt --include="$packages" \
  --customize-hook="copy-in $work/gnomon /" \
  --customize-hook='chroot "$1" bash /gnomon/check.sh' \
  bookworm /dev/null ${GNOMON_MIRROR+"$GNOMON_MIRROR"}
echo '== clean root: core builds, installs and runs'
