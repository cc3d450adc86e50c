#!/usr/bin/env bash
# Writes the files of a release to build/dist, from the commit HEAD: the source archive, the wheel and the source
# distribution, the Debian packages, the recipes of other package managers, a list of all parts in the format SPDX,
# and checksums. `tools/setup.sh dist` installs what it requires.
#
#   tools/dist.sh           writes the files
#   tools/dist.sh --check   writes them twice, in two folders, and fails if a bit differs
#
#   GNOMON_URL    the address below which the files will be published, for the recipes
#   DEBFULLNAME, DEBEMAIL   the maintainer of the Debian packages
#   JOBS          compilers at the same time; default: the number of processors
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly root=$PWD cache=$PWD/build/dist-cache
readonly python=$root/build/python/tools/bin tools=$root/build/python/publish/bin
readonly url=${GNOMON_URL:-https://gnomon.invalid/releases} jobs=${JOBS:-$(nproc)}
readonly maintainer="${DEBFULLNAME:-The Gnomon authors} <${DEBEMAIL:-gnomon@gnomon.invalid}>"
version=$(sed -n 's/.*GNOMON_VERSION "\(.*\)"/\1/p' include/gnomon/version.h)
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
readonly version commit name=gnomon-$version
# The bits must not depend on the language, the time zone and the mode of files of the caller.
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
umask 022

say() { printf 'dist: %s\n' "$*" >&2; }

# Usage: fill OUT FILE PATH. Writes a file of tools/packages, with the facts of the source archive, to the path.
fill() {
  mkdir -p "$(dirname "$3")"
  sed -e "s|@VERSION@|$version|g" -e "s|@URL@|$url|g" -e "s|@MAINTAINER@|$maintainer|g" \
    -e "s|@SHA256@|$(sha256sum "$1/$name.tar.gz" | cut -d' ' -f1)|g" \
    -e "s|@SHA512@|$(sha512sum "$1/$name.tar.gz" | cut -d' ' -f1)|g" \
    -e "s|@DATE@|$(date -Rd "@$SOURCE_DATE_EPOCH")|g" "$packages/$2" >"$3"
}

# What does not depend on the folder of the build, downloaded once.
fetch() {
  tools/python.sh tools
  tools/python.sh publish
  mkdir -p "$cache/pypi"
  "$python/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation \
    --require-hashes -d "$cache/pypi" -r tools/packages/sources.txt
  rm -rf "$cache/vega"
  mkdir "$cache/vega"
  "$python/python" - "$cache" <<'PYTHON'
import importlib.metadata, json, pathlib, sys
import vl_convert
cache = pathlib.Path(sys.argv[1])
script = vl_convert.javascript_bundle()
(cache / "vega/vega.js").write_text(script, encoding="utf-8")
(cache / "vega.json").write_text(json.dumps({
    "vl-convert-python": vl_convert.__version__, "vega": vl_convert.get_vega_version(),
    "vega-lite": vl_convert.get_vegalite_versions()[-1], "vega-embed": vl_convert.get_vega_embed_version(),
    "vega-themes": vl_convert.get_vega_themes_version()}))
used = importlib.metadata.version("nanobind")
if not (cache / f"pypi/nanobind-{used}.tar.gz").exists():
    sys.exit(f"dist: the wheel uses nanobind {used}: write this version into tools/packages/sources.txt")
PYTHON
}

# The source archive: the files of the commit. Everything else is made from it.
write_source() {
  git -c tar.umask=0022 archive --format=tar --prefix="$name/" "$commit" | gzip -9n >"$1/$name.tar.gz"
  mkdir "$2/source"
  tar -xzf "$1/$name.tar.gz" -C "$2/source"
  packages=$2/source/$name/tools/packages
}

# The wheel for manylinux and the source distribution, from the unpacked source archive. In a folder of their own,
# because the source distribution, a part of the source archive, has the same name.
write_wheel() {
  local out=$1 pypi=$1/pypi work=$2/wheel
  mkdir -p "$work"
  tar -xzf "$out/$name.tar.gz" -C "$work"
  local source=$work/$name
  export CXXFLAGS="-ffile-prefix-map=$source=/gnomon" CMAKE_GENERATOR=Ninja CMAKE_BUILD_PARALLEL_LEVEL=$jobs
  PATH=$python:$PATH "$python/python" -m build --sdist --no-isolation --outdir "$pypi" "$source" >"$work/log"
  PATH=$python:$PATH "$python/python" -m build --wheel --no-isolation --outdir "$work/local" \
    -Ccmake.define.GNOMON_SETUP_PYTHON=python3 "-Ccmake.define.GNOMON_VEGA_BUNDLE=$cache/vega/vega.js" \
    "$source" >>"$work/log"
  PATH=$python:$PATH "$python/auditwheel" repair --wheel-dir "$pypi" "$work"/local/*.whl >>"$work/log" 2>&1
  unset CXXFLAGS CMAKE_GENERATOR
  "$tools/twine" check --strict "$pypi"/* >&2
}

# The Debian source package and the binary packages, from the source archive, with the programs of Debian only.
write_debian() {
  local out=$1 work=$2/debian source=$2/debian/$name
  mkdir -p "$work"
  cp "$out/$name.tar.gz" "$work/gnomon_$version.orig.tar.gz"
  cp "$cache"/pypi/nanobind-*.tar.gz "$work/gnomon_$version.orig-nanobind.tar.gz"
  tar -C "$cache" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c vega |
    gzip -9n >"$work/gnomon_$version.orig-vega.tar.gz"
  local part
  tar -xzf "$out/$name.tar.gz" -C "$work"
  for part in nanobind vega; do
    mkdir "$source/$part"
    tar -xzf "$work/gnomon_$version.orig-$part.tar.gz" -C "$source/$part" --strip-components=1
  done
  cp -R "$packages/debian" "$source/debian"
  rm "$source"/debian/*.in
  fill "$out" debian/control.in "$source/debian/control"
  fill "$out" debian/changelog.in "$source/debian/changelog"
  (
    cd "$source"
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin
    DEB_BUILD_OPTIONS="noautodbgsym parallel=$jobs" DEB_CXXFLAGS_STRIP=-g dpkg-buildpackage -us -uc >"$work/log" 2>&1
  ) || {
    tail -n 40 "$work/log" >&2
    return 1
  }
  mkdir "$out/debian"
  mv "$work"/*.dsc "$work"/*.orig*.tar.gz "$work"/*.debian.tar.xz "$work"/*.deb "$out/debian"
  local ignored=()
  [[ -n ${DEBEMAIL-} ]] || ignored=(--suppress-tags bogus-mail-host)
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 "${ignored[@]}" "$out"/debian/*.dsc \
    "$out"/debian/*.deb >&2
}

# The recipes of other package managers, with the version and the checksum of the source archive.
write_recipes() {
  local file
  while read -r file; do
    if [[ $file == *.in ]]; then
      fill "$1" "$file" "$1/recipes/${file%.in}"
    else
      mkdir -p "$1/recipes/$(dirname "$file")"
      cp "$packages/$file" "$1/recipes/$file"
    fi
  done < <(cd "$packages" && find conan conda homebrew vcpkg -type f | sort)
}

write_spdx() {
  "$tools/python" "$packages/spdx.py" "$1" "$version" "$cache" >"$1/$name.spdx.json"
  "$tools/python" "$packages/check_spdx.py" "$1/$name.spdx.json"
  "$tools/pyspdxtools" -i "$1/$name.spdx.json" >&2
}

# Usage: write_all OUT WORK.
write_all() {
  local out=$1 work=$2 step
  rm -rf "$out" "$work"
  mkdir -p "$out" "$work"
  for step in source wheel debian recipes spdx; do
    say "$step"
    "write_$step" "$out" "$work"
  done
  (cd "$out" && find . -type f -printf '%P\n' | sort | xargs sha256sum) >"$work/sums"
  mv "$work/sums" "$out/SHA256SUMS"
  rm -rf "$work"
}

[[ $# == 0 || $* == --check ]] || {
  say 'usage: tools/dist.sh [--check]'
  exit 1
}
tools/setup.sh dist
git diff --quiet HEAD -- || say 'the working tree has changes that the commit HEAD, and so the release, does not contain'
fetch
write_all "$root/build/dist" "$root/build/dist-work"
if [[ ${1-} == --check ]]; then
  say 'the same again, in another folder'
  write_all "$root/build/dist-check/dist" "$root/build/dist-check/a/longer/folder/of/work"
  diff build/dist/SHA256SUMS build/dist-check/dist/SHA256SUMS >&2 || {
    say 'the two builds differ'
    exit 1
  }
  rm -rf build/dist-check
  say "the two builds have the same bits: $(wc -l <build/dist/SHA256SUMS) files"
fi
say "$(wc -l <build/dist/SHA256SUMS) files in build/dist"
