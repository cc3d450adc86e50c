#!/usr/bin/env bash
# Lists the C++ files that differ from the format of clang-format-19; exits with 1 if there are any.
# --fix rewrites them. The version is fixed because versions format differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

how=(--dry-run -Werror)
[[ ${1-} != --fix ]] || how=(-i)
command -v clang-format-19 >/dev/null || {
  echo 'check_format: clang-format-19 is missing; tools/setup.sh test installs it' >&2
  exit 1
}
find apps bench bindings docs/examples include src tests \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \) -print0 |
  xargs -0 -n 20 -P "$(nproc)" clang-format-19 "${how[@]}"
