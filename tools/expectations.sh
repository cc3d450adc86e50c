#!/bin/sh
# Runs the protocols of docs/lab/protocols and prints the table of docs/lab/expectations.md. Takes about two
# hours on 2 cores. Finished runs are not repeated.
#
#   tools/expectations.sh [OUT]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
gnomon=${GNOMON:-$here/build/release/apps/cli/gnomon}
out=${1:-$here/build/expectations}
mkdir -p "$out"
for name in text depth interpolation masked copy addition; do
  [ -e "$out/$name/results.json" ] ||
    "$gnomon" lab --resume --protocol "$here/docs/lab/protocols/$name.json" --out "$out/$name" --no-cost
done
# The context of each byte in random order: all of it, and all but the last byte.
for kept in 0 1; do
  "$gnomon" evaluate "$out/depth/models/none-seed1" "$here/apps/lab/data/austen/northanger_abbey.txt" \
    --lengths 128 --segments 800 --shuffle $kept --json > "$out/shuffle-$kept.json"
done
python3 "$here/tools/expectations.py" "$out"
