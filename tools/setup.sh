#!/usr/bin/env bash
# Installs what Gnomon needs on a Debian 12 machine, and writes the script that its pages embed.
#
#   tools/setup.sh lab     what the program and the lab need
#   tools/setup.sh test    that, and what tests, benchmarks and formatting need
#   tools/setup.sh neon    that of test, and a compiler, an emulator and libraries for 64-bit ARM
#   tools/setup.sh long    all of these, and what fuzzing and tools/clean_root.sh need
#
# Installs only what is missing and touches nothing when all is there. As root it calls apt-get,
# otherwise sudo where that asks no password; where neither works it names the packages in one
# line and exits 1.
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

# Packages that dpkg does not list as installed, of those named.
not_installed() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    sed -n 's/ installed$//p') || true
  grep -vxF -e "${installed:-none}" <<<"$(printf '%s\n' "$@")" || true
}

# LibTorch multiplies matrices with whatever BLAS is selected; Debian's reference BLAS is about
# ten times slower than OpenBLAS, and is what comes along when nothing is asked for.
blas_is_slow() {
  local library
  library=$(readlink -f /usr/lib/*/libblas.so.3) || return 0
  [[ $library != /* || $library == */blas/libblas.so* ]]
}

has_openblas() {
  dpkg-query -W -f '${db:Status-Status}\n' 'libopenblas0-*' 2>/dev/null | grep -qx installed
}

# A Python that can make a virtual environment: Debian's cannot without python3-venv.
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

missing_packages() {
  local tool need=(libhwy-dev nlohmann-json3-dev libeigen3-dev libspectra-dev libcli11-dev
    libfmt-dev libtorch-dev)
  local -A tools=([g++]=g++ [cmake]=cmake [ninja]=ninja-build)
  if [[ $1 != lab ]]; then
    need+=(libgtest-dev libgmock-dev libbenchmark-dev libmpfr-dev libdlpack-dev)
    tools+=([pkg-config]=pkg-config [clang-format-19]=clang-format-19 [valgrind]=valgrind)
  fi
  if [[ $1 == neon || $1 == long ]]; then
    tools+=([aarch64-linux-gnu-g++]=g++-aarch64-linux-gnu [qemu-aarch64]=qemu-user)
  fi
  if [[ $1 == long ]]; then
    need+=(libclang-rt-19-dev)
    tools+=([clang++-19]=clang-19 [ld.lld-19]=lld-19 [mmdebstrap]=mmdebstrap)
  fi
  not_installed "${need[@]}"
  for tool in "${!tools[@]}"; do
    command -v "$tool" >/dev/null || printf '%s\n' "${tools[$tool]}"
  done
  if blas_is_slow && ! has_openblas; then
    printf 'libopenblas0-serial\n'
  fi
  if [[ ! -s $vega ]] && ! find_python >/dev/null; then
    printf 'python3\npython3-venv\n'
  fi
}

install_packages() {
  local as_root=() log=$state/apt.log
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null ||
      die "not root: ask for  apt-get install --no-install-recommends $*"
    as_root=(sudo -n)
  fi
  say "installing $# packages: $*"
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300)
  mkdir -p "$state"
  # An update that fails for one source may still have read the one that matters.
  "${as_root[@]}" update >"$log" 2>&1 || say "apt-get update had errors (see $log); going on"
  "${as_root[@]}" install --no-install-recommends "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "apt-get install failed (see $log)"
  }
}

# Pages embed Vega and Vega-Lite so that they need no network; the wheel carries both.
write_vega() {
  local python venv=$state/venv
  python=$(find_python)
  say "writing $vega (with $vl_convert from PyPI)"
  mkdir -p "$state"
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$vl_convert" ||
    die "cannot install $vl_convert; with a network this step writes $vega"
  "$venv/bin/python" - "$vega.new" <<'PYTHON'
import sys
import vl_convert
with open(sys.argv[1], "w", encoding="utf-8") as bundle:
    bundle.write(vl_convert.javascript_bundle())
PYTHON
  mv "$vega.new" "$vega"
}

# Debian's libraries for ARM, unpacked and not installed: the system stays one of one
# architecture, and nothing of it can be replaced. apt-get keeps lists of its own for that.
fetch_arm64() {
  local log=$state/arm64.log lists=$PWD/$arm64/apt
  local apt=(apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64
    -o "Dir::State::Lists=$lists/lists" -o "Dir::State::status=$lists/status"
    -o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=root)
  say "unpacking ${#arm64_packages[@]} libraries for ARM into $arm64"
  rm -rf "$arm64"
  mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial" "$arm64/root.new"
  : >"$lists/status"
  "${apt[@]}" update >"$log" 2>&1 || say "apt-get update had errors (see $log); going on"
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
  lab | test | neon | long) ;;
  *) die "usage: tools/setup.sh lab|test|neon|long" ;;
esac

if command -v dpkg-query >/dev/null; then
  mapfile -t missing < <(missing_packages "$1")
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
  ! blas_is_slow ||
    say "the reference BLAS is selected: slow (update-alternatives --config libblas.so.3-\$(uname -m)-linux-gnu)"
else
  say "not a Debian system: going on with what is there"
fi
[[ -s $vega ]] || write_vega
if [[ $1 == neon || $1 == long ]] && [[ ! -d $arm64/root/usr/include/Spectra ]]; then
  fetch_arm64
fi
