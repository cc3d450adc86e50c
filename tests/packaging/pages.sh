#!/usr/bin/env bash
# Usage: pages.sh COMPILER. Compiles the C++ examples of README.md and docs/, except those of
# changes.md, as one source. pages.txt has the declarations that they omit. An error names the page and its line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source=$(mktemp --suffix=.cc)
trap 'rm -f "$source"' EXIT

mapfile -t pages < <(find README.md docs -name '*.md' ! -path docs/changes.md | sort)
awk '
  # Includes come first, the rest of an example into a function (or, if it has definitions, a namespace).
  function end_page() {
    if (examples != "") body = body "namespace page_" ++count " {\n" given[page] examples "}\n"
    examples = ""
  }
  function end_example() {
    if (is_file)
      examples = examples "namespace file_" start " {\n#line " start " \"" page "\"\n" code "}\n"
    else
      examples = examples "inline void example_" start "() {\n#line " start " \"" page "\"\n" code "}\n"
  }
  function include(line) { if (!(line in included)) { included[line]; print line } }
  FILENAME ~ /pages[.]txt$/ {
    if (/^# /) next
    if (/^(all|[^ ]*[.]md)$/) { name = $0; named[name] }
    else if (/^not compiled: /) skipped[name]
    else if (/^#include/) includes[name] = includes[name] $0 "\n"
    else given[name] = given[name] $0 "\n"
    next
  }
  FNR == 1 { end_page(); page = FILENAME; inside = 0 }
  page in skipped { seen[page]; next }
  /^```/ {
    if (inside == 2) end_example()
    inside = inside ? 0 : $0 == "```cpp" ? 2 : 1
    start = FNR + 1; code = ""; is_file = 0
    if (inside == 2) {
      seen[page]
      n = split(includes[page], lines, "\n")
      for (i = 1; i < n; ++i) include(lines[i])
    }
    next
  }
  inside == 2 && /^#include/ { include($0); code = code "\n"; next }
  inside == 2 {
    if (/^(int main|struct |class |template|inline )/) is_file = 1
    code = code $0 "\n"
  }
  END {
    end_page()
    for (name in named)
      if (name != "all" && !(name in seen)) {
        print "pages.txt: " name " has no example in C++" > "/dev/stderr"
        exit 1
      }
    print includes["all"] given["all"] body
  }' tests/packaging/pages.txt "${pages[@]}" > "$source"
"$1" -std=c++20 -fsyntax-only -w -Iinclude "$source"
printf '%d examples\n' "$(grep -cE '^(inline void example_|namespace file_)' "$source")"
