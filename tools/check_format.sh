#!/usr/bin/env bash
# Lists the C++ files that differ from the format of clang-format-19, and their lines of more than
# 96 characters: clang-format breaks neither comments nor strings. Exits with 1 if there are any.
# --fix rewrites the files, except for long lines. The version of clang-format is fixed because
# versions format differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

how=(--dry-run -Werror)
[[ ${1-} != --fix ]] || how=(-i)
command -v clang-format-19 >/dev/null || {
  echo 'check_format: clang-format-19 is missing; tools/setup.sh test installs it' >&2
  exit 1
}
sources() {
  find apps bench bindings docs/examples include src tests tools \
    \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.c' \) "$@" -print0
}
status=0
sources | xargs -0 -n 20 -P "$(nproc)" clang-format-19 "${how[@]}" || status=1

# A line with a URL may be longer.
if sources | xargs -0 env LC_ALL=C.UTF-8 grep -nHE "^.{97}" | grep -vE "https?://" |
  sed 's/:\([0-9]*\):.*/:\1: more than 96 characters/'; then
  status=1
fi
exit $status
