#!/usr/bin/env bash
# Installs the packages that Gnomon requires on Debian 12 (Ubuntu 24.04 has the same names), and writes the script that HTML pages
# embed.
#
#   tools/setup.sh lab     packages for the program and the lab
#   tools/setup.sh pypi    as lab, for the LibTorch of PyPI's torch instead of Debian's
#   tools/setup.sh test    also those for tests and formatting
#   tools/setup.sh neon    as test, and a compiler, an emulator and libraries for 64-bit ARM
#   tools/setup.sh wasm    packages for the JavaScript package and its tests (Node, TypeScript, Chromium)
#   tools/setup.sh rust    packages for the library and the Rust crate (rustc, cargo, clippy, rustfmt)
#   tools/setup.sh systems packages for tests/systems/check.sh: as wasm, Clang, Wine, an emulator of ARM, libabigail
#   tools/setup.sh site    as lab, and Doxygen, esbuild, Node, Chromium and a Chinese font
#   tools/setup.sh dist    packages for tools/dist.sh and tests/packages: Debian packages and fresh roots
#   tools/setup.sh long    all of these, and those for fuzzing and tools/clean_root.sh
#
# Installs only missing packages; changes nothing if all are installed. Runs apt-get as root, or
# with sudo if sudo requires no password. If neither is possible, prints the names of the packages
# in one line and exits with 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly state=build/setup
readonly vega=$state/vega.js
readonly vl_convert=vl-convert-python==1.9.0
readonly arm64=$state/arm64
readonly arm64_packages=(libhwy-dev libhwy1 libgtest-dev libgmock-dev libmpfr-dev libmpfr6
  libgmp-dev libgmp10 nlohmann-json3-dev libeigen3-dev libspectra-dev libdlpack-dev)

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# Prints those of the given packages that are not installed according to dpkg.
not_installed() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    sed -n 's/ installed$//p') || true
  grep -vxF -e "${installed:-none}" <<<"$(printf '%s\n' "$@")" || true
}

# LibTorch uses the selected BLAS for matrix products. Debian's reference BLAS is installed by
# default and about ten times slower than OpenBLAS. OpenBLAS without threads
# (libopenblas0-serial 0.3.21) has no locks: concurrent products of two threads can be wrong.
blas_is_unfit() {
  local library
  library=$(readlink -f /usr/lib/*/libblas.so.3) || return 0
  [[ $library != /* || $library == */blas/libblas.so* || $library == */openblas-serial/* ]]
}

# Finds a Python that can make a virtual environment. Debian's requires python3-venv for that.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# Whether LibTorch of Debian is used, whose BLAS is another package; the wheel contains a BLAS.
uses_blas() {
  [[ $1 != pypi && $1 != wasm && $1 != rust && $1 != systems && $1 != dist ]]
}

missing_packages() {
  local tool need=(libhwy-dev nlohmann-json3-dev libeigen3-dev libspectra-dev
    libfmt-dev libpng-dev libicu-dev libgloo-dev libsentencepiece-dev)
  local -A tools=([g++]=g++ [cmake]=cmake [ninja]=ninja-build)
  [[ $1 == pypi || $1 == dist ]] || need+=(libtorch-dev)
  if [[ $1 == site ]]; then
    need+=(fonts-droid-fallback)
    tools+=([doxygen]=doxygen [esbuild]=esbuild [node]=nodejs [chromium]=chromium)
  fi
  if [[ $1 == dist ]]; then
    need+=(debhelper dh-python libarchive-zip-perl python3-dev python3-venv)
    tools+=([dpkg-buildpackage]=dpkg-dev [lintian]=lintian [mmdebstrap]=mmdebstrap [ruby]=ruby)
  fi
  if [[ $1 == wasm ]]; then
    need=(nlohmann-json3-dev)
    tools=([cmake]=cmake [ninja]=ninja-build [node]=nodejs [tsc]=node-typescript [chromium]=chromium)
  elif [[ $1 == rust ]]; then
    need=(libhwy-dev nlohmann-json3-dev)
    tools=([g++]=g++ [cmake]=cmake [ninja]=ninja-build [pkg-config]=pkg-config [/usr/bin/rustc]=rustc
      [/usr/bin/cargo]=cargo [/usr/bin/cargo-clippy]=rust-clippy [/usr/bin/rustfmt]=rustfmt)
  elif [[ $1 == systems ]]; then
    need=(libhwy-dev nlohmann-json3-dev googletest libdlpack-dev wine64)
    tools=([cmake]=cmake [ninja]=ninja-build [node]=nodejs [g++]=g++ [clang++-19]=clang-19 [wine]=wine
      [qemu-aarch64]=qemu-user [abidw]=abigail-tools [pkg-config]=pkg-config [file]=file)
  elif [[ $1 != lab && $1 != pypi && $1 != site && $1 != dist ]]; then
    need+=(libgtest-dev libgmock-dev libmpfr-dev libdlpack-dev)
    tools+=([pkg-config]=pkg-config [clang-format-19]=clang-format-19 [valgrind]=valgrind
      [zsh]=zsh [fish]=fish [groff]=groff-base [parallel]=parallel)
  fi
  if [[ $1 == neon || $1 == long ]]; then
    tools+=([aarch64-linux-gnu-g++]=g++-aarch64-linux-gnu [qemu-aarch64]=qemu-user)
  fi
  if [[ $1 == long ]]; then
    need+=(libclang-rt-19-dev)
    tools+=([clang++-19]=clang-19 [ld.lld-19]=lld-19 [llvm-cov-19]=llvm-19 [mmdebstrap]=mmdebstrap)
  fi
  not_installed "${need[@]}"
  for tool in "${!tools[@]}"; do
    command -v "$tool" >/dev/null || printf '%s\n' "${tools[$tool]}"
  done
  if uses_blas "$1" && blas_is_unfit; then
    not_installed libopenblas0-pthread
  fi
  if [[ ! -s $vega || $1 == pypi || $1 == wasm ]] && [[ $1 != rust && $1 != systems ]] && ! find_python >/dev/null; then
    printf 'python3\npython3-venv\n'
  fi
}

install_packages() {
  local as_root=() log=$state/apt.log
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null ||
      die "not root, run as root: apt-get install --no-install-recommends $*"
    as_root=(sudo -n)
  fi
  say "installing $# packages: $*"
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300)
  mkdir -p "$state"
  # If an update fails for one source, the required lists may still have been read.
  "${as_root[@]}" update >"$log" 2>&1 || say "apt-get update failed (see $log); continuing"
  "${as_root[@]}" install --no-install-recommends "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "apt-get install failed (see $log)"
  }
}

# HTML pages embed Vega and Vega-Lite, so that they need no network. The wheel contains both.
write_vega() {
  local python venv=$state/venv
  python=$(find_python)
  say "writing $vega (with $vl_convert from PyPI)"
  mkdir -p "$state"
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$vl_convert" ||
    die "cannot install $vl_convert; run again with a network connection to write $vega"
  "$venv/bin/python" - "$vega.new" <<'PYTHON'
import sys
import vl_convert
with open(sys.argv[1], "w", encoding="utf-8") as bundle:
    bundle.write(vl_convert.javascript_bundle())
PYTHON
  mv "$vega.new" "$vega"
}

# Unpacks Debian's libraries for ARM without installing them, so that the system keeps one
# architecture and none of its packages is replaced. apt-get uses separate lists for this.
fetch_arm64() {
  local log=$state/arm64.log lists=$PWD/$arm64/apt
  local apt=(apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64
    -o "Dir::State::Lists=$lists/lists" -o "Dir::State::status=$lists/status"
    -o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=root)
  say "unpacking ${#arm64_packages[@]} libraries for ARM into $arm64"
  rm -rf "$arm64"
  mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial" "$arm64/root.new"
  : >"$lists/status"
  "${apt[@]}" update >"$log" 2>&1 || say "apt-get update failed (see $log); continuing"
  (cd "$lists" && "${apt[@]}" download "${arm64_packages[@]}") >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "cannot download packages for arm64 (see $log)"
  }
  local package
  for package in "$lists"/*.deb; do dpkg -x "$package" "$arm64/root.new"; done
  rm -rf "$lists"
  mv "$arm64/root.new" "$arm64/root"
}

case ${1-} in
  lab | pypi | test | neon | wasm | rust | systems | site | dist | long) ;;
  *) die "usage: tools/setup.sh lab|pypi|test|neon|wasm|rust|systems|site|dist|long" ;;
esac

if command -v dpkg-query >/dev/null; then
  mapfile -t missing < <(missing_packages "$1")
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
  ! uses_blas "$1" || ! blas_is_unfit ||
    say "the selected BLAS is slow or not safe with threads (change: update-alternatives --config libblas.so.3-\$(uname -m)-linux-gnu)"
else
  say "not a Debian system: no packages are installed"
fi
[[ $1 == wasm || $1 == rust || $1 == systems || $1 == dist || -s $vega ]] || write_vega
if [[ $1 == neon || $1 == long ]] && [[ ! -d $arm64/root/usr/include/Spectra ]]; then
  fetch_arm64
fi
