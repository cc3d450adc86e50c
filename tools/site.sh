#!/usr/bin/env bash
# Builds the site: the book, the guides, the encodings, the APIs and the playground, in build/site. It works from file://.
#
#   tools/site.sh [build]        builds the program and the site; requires build/wasm (tools/wasm.sh)
#   tools/site.sh test [OPTION]  builds also the libraries and the wheel, runs tests/site; OPTION: of pytest
#   tools/site.sh numbers        writes the numbers of the book's prose again (docs/book)
#   tools/site.sh python ARG...  runs the Python of the site's tools
#
# GNOMON_PROGRAM names a program to use instead of that of build/release, GNOMON_PYTHON a Python that has the package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly tools=build/site-tools work=build/site-work site=build/site
readonly requirements=apps/site/sphinx/requirements.txt
readonly program=${GNOMON_PROGRAM:-build/release/apps/cli/gnomon}

say() { printf 'site: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# Makes the environment of Sphinx and of the tests, unless it has the packages already.
install_tools() {
  cmp -s "$requirements" "$tools/requirements.txt" && return
  local candidate base=
  for candidate in "${PYTHON:-}" /usr/bin/python3 python3; do
    if [[ -n $candidate ]] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      base=$candidate
      break
    fi
  done
  [[ $base ]] || die 'requires python3 with venv (Debian: python3-venv)'
  say "installing the packages of $requirements"
  rm -rf "$tools"
  "$base" -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$tools/requirements.txt"
}

# Builds the program, with the lab, whose commands the reference describes, and the other targets given.
build_program() {
  [[ ${GNOMON_PROGRAM:-} ]] ||
    cmake --build build/release -j"${JOBS:-$(nproc)}" --target gnomon-program gnomon-lab "$@"
  [[ -x $program ]] || die "there is no program $program"
}

# The scripts and their data; Sphinx copies them to _static.
build_scripts() {
  [[ -s build/wasm/gnomon.wasm ]] || die 'build/wasm is missing: make wasm'
  rm -rf "$work/static"
  mkdir -p "$work/static"
  "$tools/bin/python" apps/site/bundle.py "$work/static"
  "$tools/bin/python" apps/site/reader_bundle.py "$work/static"
  node apps/site/numbers.mjs --program "$program" --out "$work/numbers.json"
}

# The declarations of the headers. Doxygen runs if a header or the filter of comments has changed.
read_headers() {
  local out=$work/doxygen settings
  [[ -s $out/xml/index.xml ]] && [[ -z $(find include apps/site/sphinx/Doxyfile apps/site/sphinx/doxygen_filter.py \
    -newer "$out/xml/index.xml" -print -quit) ]] && return
  rm -rf "$out"
  mkdir -p "$out"
  settings=$(<apps/site/sphinx/Doxyfile)
  doxygen - <<<"$settings
OUTPUT_DIRECTORY = $out
INPUT = include"
}

build_pages() {
  "$tools/bin/python" apps/site/sphinx/stage.py --program "$program" --out "$work" \
    --doxygen "$work/doxygen/xml" --numbers "$work/numbers.json"
  rm -rf "$work/locale"
  cp -r apps/site/sphinx/locale "$work/locale"  # Sphinx writes the compiled messages beside them
  export GNOMON_SITE_STATIC=$PWD/$work/static GNOMON_SITE_LOCALE=$PWD/$work/locale GNOMON_VERSION
  GNOMON_VERSION=$("$program" --version | sed 's/.* //')
  run_sphinx en "$work/src" "$site"
  run_sphinx zh "$work/src-zh" "$site/zh"
}

# Sphinx reads pages that have changed, all of them after a change of its extension, and writes all: each shows the
# titles of others.
run_sphinx() {
  local doctrees=$work/doctrees-$1 fresh=()
  say "Sphinx: $1"
  [[ -e $doctrees/read && -z $(find apps/site/sphinx "$2/site.json" -newer "$doctrees/read" -type f \
    -not -path '*/__pycache__/*' -print -quit) ]] || fresh=(-E)
  GNOMON_SITE_LANGUAGE=$1 "$tools/bin/python" -m sphinx -b html -q -W --keep-going -a "${fresh[@]}" \
    -j "${JOBS:-$(nproc)}" -c apps/site/sphinx -d "$doctrees" "$2" "$3"
  touch "$doctrees/read"
}

build() {
  mkdir -p "$work"
  install_tools
  build_program
  build_scripts
  read_headers
  build_pages
  "$tools/bin/python" apps/site/sphinx/check_links.py "$site"
  say "$site/index.html"
}

case ${1-build} in
  build) build ;;
  test)
    build
    build_program gnomon_core gnomon_graph gnomon_model gnomon_report
    [[ ${GNOMON_PYTHON:-} ]] || tools/python.sh wheel build/release
    GNOMON=$PWD/$program node --test tests/site/*.mjs
    "$tools/bin/python" apps/site/data.py --check
    exec "$tools/bin/python" -m pytest -q -c tests/site/pytest.ini tests/site "${@:2}"
    ;;
  numbers)
    build_program
    node apps/site/numbers.mjs --program "$program" --write
    ;;
  python)
    install_tools
    exec "$tools/bin/python" "${@:2}"
    ;;
  *) die 'usage: tools/site.sh build|test|numbers|python' ;;
esac
