#!/usr/bin/env bash
# Builds, installs and uses the component core in a fresh Debian 12 root that has a compiler,
# CMake, Ninja, pkg-config and Highway, and none of the libraries of the other components.
# mmdebstrap makes the root in a temporary folder and removes it: as root with chroot, otherwise
# with user namespaces. `tools/setup.sh long` installs mmdebstrap.
#
#   GNOMON_MIRROR  a Debian mirror; none: that of mmdebstrap
#   GNOMON_FLAGS   compiler flags; default -O1, because the optimized kernels take minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly packages=g++,cmake,ninja-build,pkg-config,libhwy-dev
flags=${GNOMON_FLAGS--O1}
command -v mmdebstrap >/dev/null || {
  echo 'clean_root: mmdebstrap is missing; tools/setup.sh long installs it' >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What core is built from, and no more.
mkdir "$work/gnomon"
cp -R CMakeLists.txt cmake include src tests/packaging "$work/gnomon"

cat >"$work/gnomon/check.sh" <<CHECK
set -euxo pipefail
export CXXFLAGS='$flags'
cd /gnomon
! find /usr/include /usr/local -iname 'nlohmann*' -o -iname 'eigen3' -o -iname 'Spectra' -o \\
  -iname 'torch' | grep .
for shared in OFF ON; do
  cmake -S . -B build/\$shared -G Ninja -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=\$shared \\
    -DGNOMON_COMPONENTS=core -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build build/\$shared
  cmake --install build/\$shared --prefix /prefix/\$shared >/dev/null
  ls /prefix/\$shared/include/gnomon
  ! ls -d /prefix/\$shared/include/gnomon/{graph,model,analysis,io,plot} 2>/dev/null
  cmake -S packaging/core -B build/core-\$shared -G Ninja -DCMAKE_PREFIX_PATH=/prefix/\$shared
  cmake --build build/core-\$shared
  build/core-\$shared/core
  packaging/pkg_config.sh /prefix/\$shared gnomon-core packaging/core/core.cc build/by_pkg_config
done
CHECK

echo "== clean root: $packages"
mmdebstrap --quiet --variant=apt --include="$packages" \
  --customize-hook="copy-in $work/gnomon /" \
  --customize-hook='chroot "$1" bash /gnomon/check.sh' \
  bookworm /dev/null ${GNOMON_MIRROR+"$GNOMON_MIRROR"}
echo '== clean root: core builds, installs and runs'
