#!/usr/bin/env bash
# Installs the peers, builds the library, times all cases and writes docs/benchmarks.md.
# Installations and builds are kept under build/ for the next run.
#
#   bench/peers/run.sh [--quick] [--only TEXT] [--threads 1 2]
#
# With --only, cases of an earlier run keep their numbers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly here=bench/peers release=build/release folder=build/peers
readonly python=build/setup/venv/bin/python  # made by tools/setup.sh
readonly library=$PWD/$release/bench/peers/gnomon_peers.so

grep -qs '^GNOMON_BENCH:BOOL=ON' $release/CMakeCache.txt || cmake --preset dev
cmake --build $release --target gnomon_peers
$python $here/install.py $folder
$folder/venvs/numbers/bin/python $here/compare.py $folder "$library" "$@"
$python $here/report.py $folder/results.json docs/benchmarks.md
echo "peers: wrote docs/benchmarks.md" >&2
