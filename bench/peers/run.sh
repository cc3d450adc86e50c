#!/usr/bin/env bash
# Installs the peers, builds the bridge, times everything and writes docs/benchmarks.md. What is
# installed or built is kept under build/ for the next time.
#
#   bench/peers/run.sh [--quick] [--only TEXT] [--threads 1 2]
#
# With --only no page is written: results stay in build/peers/results.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly here=bench/peers release=build/release folder=build/peers
readonly bridge=$PWD/$release/bench/peers/gnomon_peers_bridge.so

grep -qs '^GNOMON_BENCH:BOOL=ON' $release/CMakeCache.txt || cmake --preset dev
cmake --build $release --target gnomon_peers_bridge
python3 $here/install.py $folder
$folder/venvs/numbers/bin/python $here/compare.py $folder "$bridge" "$@"
if [[ " $* " != *" --only "* ]]; then
  build/setup/venv/bin/python $here/report.py $folder/results.json docs/benchmarks.md
  echo "peers: wrote docs/benchmarks.md" >&2
fi
