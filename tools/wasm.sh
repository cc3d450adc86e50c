#!/usr/bin/env bash
# Builds the JavaScript package, build/wasm: gnomon.wasm, index.js, index.d.ts, package.json, README.md, examples (docs/wasm.md).
#
#   tools/wasm.sh          builds what has changed
#   tools/wasm.sh tools    installs the compiler and the headers only, also for tools/cmake/zig.cmake
#   JOBS=N tools/wasm.sh   with N jobs
#
# The compiler is Clang of PyPI's ziglang, which also contains the sources of libc and libc++. Highway is that of
# NumPy's source distribution, because Debian 12 has 1.0.3, whose WebAssembly target has no double. Both are
# installed into build/, once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly tools=$PWD/build/wasm-tools out=build/wasm objects=build/wasm-objects
readonly numpy=2.5.5 numpy_sha256=5cddc243c75114ba845f01b1f87aca1572dbf7b6c2d88636ed3e1d2bccd7f1bf

say() { printf 'wasm: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# Clang and its tools under their own names, for CMake.
write_programs() {
  local name
  mkdir -p "$tools/bin"
  ln -sfn "$(build/python/wasm/bin/python -c 'import ziglang; print(*ziglang.__path__)')" "$tools/zig"
  for name in clang ar ranlib wasm-ld; do
    printf '#!/bin/sh\nexec "%s/zig/zig" %s "$@"\n' "$tools" "$name" >"$tools/bin/$name"
    chmod +x "$tools/bin/$name"
  done
  # The same with zig's own libraries, which it compiles once for each system (tools/cmake/zig.cmake).
  for name in cc c++; do
    printf '#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR="%s/cache" ZIG_LOCAL_CACHE_DIR="%s/cache"\nexec "%s/zig/zig" %s "$@"\n' \
      "$tools" "$tools" "$tools" "$name" >"$tools/bin/zig-$name"
    chmod +x "$tools/bin/zig-$name"
  done
}

# zig compiles its libc for a program that it links, and prints where the archives are.
write_libc() {
  local work=$tools/libc.new file
  say 'compiling libc'
  rm -rf "$work" && mkdir -p "$work"
  echo 'int main(void) { return 0; }' >"$work/main.c"
  for file in command reactor; do
    (cd "$work" && ZIG_VERBOSE_LINK=1 ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache \
      "$tools/zig/zig" cc --target=wasm32-wasi -mexec-model=$file -O2 main.c -o main.wasm >>link.txt 2>&1) ||
      die "cannot compile libc (see $work/link.txt)"
  done
  for file in crt1-command.o crt1-reactor.o libc.a libzigc.a libcompiler_rt.a; do
    (cd "$work" && cp "$(grep '^wasm-ld' link.txt | tr ' ' '\n' | grep -m 1 "/$file\$")" .)
  done
  rm -rf "$work/cache" "$tools/libc"
  mv "$work" "$tools/libc"
}

# Only headers and two sources of NumPy's archive are used. pip would build it, so it is read from the index.
write_highway() {
  say "unpacking Highway of numpy $numpy"
  rm -rf "$tools/highway" "$tools/highway.new"
  build/python/wasm/bin/python - "$numpy" "$numpy_sha256" "$tools/highway.new" <<'PYTHON'
import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.parse
import urllib.request

version, sha256, to = sys.argv[1:]
page = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/numpy/"
accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
with urllib.request.urlopen(urllib.request.Request(page, headers=accept)) as answer:
    files = json.load(answer)["files"]
    page = answer.url
name = f"numpy-{version}.tar.gz"
url = next(file["url"] for file in files if file["filename"] == name)
with urllib.request.urlopen(urllib.parse.urljoin(page, url)) as answer:
    archive = answer.read()
if hashlib.sha256(archive).hexdigest() != sha256:
    sys.exit(f"wasm: {name} has another checksum than {sha256}")
prefix = f"numpy-{version}/numpy/_core/src/highway/"
with tarfile.open(fileobj=io.BytesIO(archive)) as members:
    for member in members:
        path = member.name.removeprefix(prefix)
        if member.isfile() and path != member.name and (path.startswith("hwy/") or path == "LICENSE"):
            os.makedirs(os.path.dirname(os.path.join(to, path)), exist_ok=True)
            with open(os.path.join(to, path), "wb") as file:
                file.write(members.extractfile(member).read())
PYTHON
  mv "$tools/highway.new" "$tools/highway"
}

# nlohmann-json consists of headers, which are the same for all processors.
write_json() {
  local folder
  for folder in /usr/include /usr/local/include; do
    if [[ -e $folder/nlohmann/json.hpp ]]; then
      mkdir -p "$tools/json"
      ln -sfn "$folder/nlohmann" "$tools/json/nlohmann"
      return
    fi
  done
  die 'requires nlohmann-json (Debian: nlohmann-json3-dev)'
}

# One module of JavaScript, because a page may embed it as text.
write_script() {
  local folder=bindings/wasm
  {
    sed -e "/^import .* from '\.\//d" -e 's/^export //' $folder/memory.js $folder/handles.js
    sed -e "/^import .* from '\.\//d" $folder/index.js
  } >"$out/index.js"
}

tools/python.sh wasm
wanted="$(cat tools/python/wasm.txt) $numpy_sha256 $tools zig-cc"
if [[ $(cat "$tools/installed" 2>/dev/null) != "$wanted" ]]; then
  rm -rf "$tools" "$objects"
  write_programs
  write_libc
  write_highway
  write_json
  echo "$wanted" >"$tools/installed"
fi
[[ ${1-} != tools ]] || exit 0
mkdir -p "$out"
[[ $objects/build.ninja -nt CMakePresets.json ]] || cmake --preset wasm >"$tools/configure.txt" 2>&1 ||
  die "cannot configure (see $tools/configure.txt)"
cmake --build "$objects" -j"${JOBS:-$(nproc)}" --target gnomon-wasm
cp "$objects/bindings/wasm/gnomon.wasm" bindings/wasm/{index.d.ts,package.json,README.md} "$out/"
rm -rf "$out/examples" && cp -r bindings/wasm/examples "$out/"
write_script
say "gnomon.wasm has $(wc -c <"$out/gnomon.wasm") bytes, $(gzip -9 -c "$out/gnomon.wasm" | wc -c) after gzip -9"
