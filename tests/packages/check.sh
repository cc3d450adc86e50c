#!/usr/bin/env bash
# Installs and uses the packages of build/dist in fresh Debian 12 roots, which mmdebstrap makes in a temporary
# folder, and checks the recipes. Writes build/dist if it is absent (tools/dist.sh).
#
#   tests/packages/check.sh [TEST...]   debian, wheel, fetch_content, conan, recipes; default: all
#
#   GNOMON_DIST    the folder with the packages; default: build/dist
#   JOBS           compilers at the same time; default: the number of processors
#   GNOMON_MIRROR  a Debian mirror; default: that of mmdebstrap
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly here=tests/packages dist=${GNOMON_DIST:-build/dist} state=build/packages
version=$(sed -n 's/.*GNOMON_VERSION "\(.*\)"/\1/p' include/gnomon/version.h)
readonly version jobs=${JOBS:-$(nproc)}
say() { printf 'packages: %s\n' "$*" >&2; }

tests=("$@")
((${#tests[@]})) || tests=(debian wheel fetch_content conan recipes)
tools/setup.sh dist
[[ -n ${GNOMON_DIST-} || -s $dist/SHA256SUMS ]] || tools/dist.sh
(cd "$dist" && sha256sum --check --quiet SHA256SUMS)

# The packages that the roots install from PyPI, so that the roots need no network for them: for Debian's Python.
readonly wheels=$state/wheels
if ! cmp -s "$here/requirements.txt" "$wheels/requirements.txt"; then
  rm -rf "$state"
  mkdir -p "$wheels"
  /usr/bin/python3 -m venv "$state/env"
  "$state/env/bin/python" -m pip wheel --quiet --disable-pip-version-check -w "$wheels" -r "$here/requirements.txt"
  "$state/env/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/host.txt"
  cp "$here/requirements.txt" "$wheels"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Usage: in_root TEST PACKAGES. Runs $here/TEST.sh in a fresh root that has only these packages and /share, without
# the environment of the caller.
in_root() {
  local share=$work/share
  rm -rf "$share"
  mkdir "$share"
  cp -R "$dist" "$share/dist"
  cp -R "$wheels" "$here" docs/examples/first.cc docs/examples/rotary.c "$share"
  cp -R tests/packaging "$share/packaging"
  /usr/bin/python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["config"], sys.stdout)' \
    <tests/model/released/llama-3.1-8b.json >"$share/config.json"
  mmdebstrap --quiet --variant=apt ${2:+--include="$2"} --customize-hook="copy-in $share /" \
    --customize-hook="chroot \"\$1\" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 VERSION=$version JOBS=$jobs bash /share/packages/$1.sh" \
    bookworm /dev/null ${GNOMON_MIRROR+"$GNOMON_MIRROR"} >"$state/$1.log" 2>&1 || {
    tail -n 40 "$state/$1.log" >&2
    say "$1: failed; all output is in $state/$1.log"
    return 1
  }
  grep '^packages: ' "$state/$1.log" >&2
}

for test in "${tests[@]}"; do
  case $test in
    debian) in_root debian '' ;;
    wheel) in_root wheel python3-venv ;;
    fetch_content) in_root fetch_content g++,cmake,ninja-build,libhwy-dev ;;
    conan) in_root conan g++,cmake,ninja-build,libhwy-dev,libeigen3-dev,libspectra-dev,nlohmann-json3-dev,python3-venv ;;
    recipes) "$state/env/bin/python" "$here/recipes.py" "$dist" "$version" ;;
    *)
      say "no test $test"
      exit 1
      ;;
  esac
done
say "all passed: ${tests[*]}"
