#!/usr/bin/env bash
# Makes a release of the commit HEAD: tests, the files in build/dist, and an annotated tag. Never pushes and never
# uploads; docs/releasing.md has the steps before and after.
#
#   tools/release.sh VERSION            checks, make test, make test-long, two equal builds, the tag vVERSION
#   tools/release.sh VERSION --checks   only the checks that take no time
#
#   GNOMON_SIGN   1: signs the tag (git tag -s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'release: %s\n' "$*" >&2; }
failed=0
# Usage: require MESSAGE COMMAND...
require() {
  local message=$1
  shift
  "$@" >/dev/null 2>&1 || {
    say "$message"
    failed=1
  }
}
not() { ! "$@"; }
is_clean() { [[ -z $(git status --porcelain) ]]; }

version=${1-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ && ${2-} =~ ^(--checks)?$ ]] || {
  say 'usage: tools/release.sh VERSION [--checks], with a version like 0.1.0'
  exit 1
}
require 'the working tree must be clean' is_clean
require "include/gnomon/version.h must have the version $version" grep -qF "GNOMON_VERSION \"$version\"" include/gnomon/version.h
require "docs/CITATION.cff must have the version $version" grep -qx "version: $version" docs/CITATION.cff
require "docs/changes.md must begin with '## $version, DATE', with the date of the release" \
  grep -qE "^## ${version//./\\.}, [0-9]{4}-[0-9]{2}-[0-9]{2}$" <(grep -m 1 '^## ' docs/changes.md)
require "the tag v$version must not exist" not git rev-parse -q --verify "refs/tags/v$version"
((failed == 0)) || exit 1
say "the checks of $version pass"
[[ ${2-} != --checks ]] || exit 0

make test
tools/dist.sh --check
make test-long
git tag "$([[ ${GNOMON_SIGN-} == 1 ]] && echo -s || echo -a)" "v$version" -m "Gnomon $version

SHA256SUMS of the release:
$(cat build/dist/SHA256SUMS)"
say "tagged v$version; next: the steps after the command in docs/releasing.md"
