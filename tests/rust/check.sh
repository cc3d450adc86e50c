#!/usr/bin/env bash
# Tests the Rust crate (bindings/rust) with Debian's rustc, without a network: its declarations beside the headers, its build, lints
# and format, its tests and examples, its documentation and its package, with the static and with the shared library. Its examples
# must print the numbers of the examples in JavaScript, of the package that `make wasm` builds.
#
#   tests/rust/check.sh           everything
#   tests/rust/check.sh time      only the times beside plain loops
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

[[ -e build/wasm/gnomon.wasm ]] || {
  echo 'rust: requires build/wasm; run make wasm' >&2
  exit 1
}
readonly build=$PWD/build/rust crate=$PWD/bindings/rust jobs=${JOBS:-$(nproc)}
# Debian's compiler, also if another one precedes it.
export PATH=/usr/bin:$PATH CARGO_NET_OFFLINE=true RUSTFLAGS='-D warnings' RUSTDOCFLAGS='-D warnings'

die() {
  printf 'rust: %s\n' "$*" >&2
  exit 1
}

# Builds and installs the library: library NAME OPTION...
library() {
  local name=$1 log=$build/$1.log
  shift
  mkdir -p "$build"
  { [[ -e $build/$name-objects/build.ninja ]] ||
    cmake -S . -B "$build/$name-objects" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGNOMON_COMPONENTS='core;model' \
      -DGNOMON_PROGRAM=OFF -DGNOMON_LAB=OFF -DGNOMON_TESTS=OFF -DGNOMON_BENCH=OFF "$@"; } >"$log" 2>&1 &&
    cmake --build "$build/$name-objects" -j"$jobs" >>"$log" 2>&1 &&
    cmake --install "$build/$name-objects" --prefix "$build/$name" >>"$log" 2>&1 || die "cannot build the library (see $log)"
}

# Runs cargo for one of the libraries: with NAME COMMAND...
with() {
  local name=$1
  shift
  GNOMON_PREFIX=$build/$name CARGO_TARGET_DIR=$build/target-$name cargo "$1" --manifest-path "$crate/Cargo.toml" "${@:2}"
}

tools/setup.sh rust
library prefix
if [[ ${1-} == time ]]; then
  with prefix bench --quiet
  exit
fi
library shared -DBUILD_SHARED_LIBS=ON

tools/rust/write_sys.py --check
with prefix fmt --check
with prefix clippy --quiet --all-targets -- -D warnings
with prefix test --quiet
with prefix test --quiet --no-default-features --tests
with prefix doc --quiet --no-deps
with shared test --quiet --tests
for example in rotate llama; do
  with prefix run --quiet --release --example "$example" >"$build/$example.txt"
  with shared run --quiet --release --example "$example" | diff "$build/$example.txt" - ||
    die "example $example prints other numbers with the shared library"
done
with prefix run --quiet --release --example llama "$PWD/tests/rust/config.json" >"$build/windows.txt"
for example in rotate llama; do
  node build/wasm/examples/$example.mjs | diff "$build/$example.txt" - || die "example $example prints other numbers in JavaScript"
done
node build/wasm/examples/llama.mjs tests/rust/config.json | diff "$build/windows.txt" - ||
  die 'example llama prints other numbers of sliding windows in JavaScript'

# The declarations test the headers only if it can fail.
changed=$build/changed
rm -rf "$changed" && cp -r "$crate" "$changed"
sed -i 's/pub device_id: i32/pub device_id: i64/; s/fn gnomon_free(text: \*mut c_char)/fn gnomon_free(text: *mut c_char, size: i64)/' \
  "$changed/src/sys.rs"
GNOMON_PREFIX=$build/prefix CARGO_TARGET_DIR=$build/target-changed cargo test --quiet --no-default-features \
  --manifest-path "$changed/Cargo.toml" --test declarations >"$build/changed.log" 2>&1 &&
  die 'the test of declarations accepts a changed declaration'
for error in 'conflicting types for .gnomon_free' 'static assertion failed: "sizeof(gnomon_device)'; do
  grep -q "$error" "$build/changed.log" || die "the test of declarations does not report: $error (see $build/changed.log)"
done

with prefix package --quiet --no-verify --allow-dirty
[[ ! -e $crate/target ]] || die "$crate/target exists"
cat "$build"/{rotate,llama}.txt
tests=$(grep -rh '#\[test\]' "$crate/src" "$crate/tests" | wc -l)
printf 'rust: %d tests passed with rustc %s\n' "$tests" "$(rustc --version | cut -d' ' -f2)"
