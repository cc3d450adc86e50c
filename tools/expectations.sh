#!/bin/sh
# Runs the lab for all rows of docs/lab/expectations.md and prints the table of that page. Takes
# about 40 minutes on 2 cores. Finished runs are not repeated.
#
#   tools/expectations.sh [OUT] [options of gnomon lab, for all of them]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
gnomon=${GNOMON:-$here/build/release/apps/cli/gnomon}
out=${1:-$here/build/expectations}
[ $# -eq 0 ] || shift
common="$*"

run() {
  name=$1
  shift
  [ -e "$out/$name/done" ] && return
  # shellcheck disable=SC2086
  "$gnomon" lab --resume --out "$out/$name" "$@" $common && touch "$out/$name/done"
}

mkdir -p "$out"
classics=none,sinusoidal,learned,rotary,alibi,t5
run text --encodings $classics,kerple,fire --eval-lengths 256,512,1024,2048 --steps 800 --extend all
run masked --task masked --encodings $classics --steps 400
letters=none,sinusoidal,rotary,alibi,t5,sinusoidal@random
run copy --task copy --train-length 10 --steps 2000 --encodings $letters
run addition --task addition --train-length 10 --steps 1000 --encodings $letters
# The context of each byte in random order: all of it, and all but the last byte.
for kept in 0 1; do
  "$gnomon" evaluate "$out/text/models/none-seed1" "$here/apps/lab/data/austen/northanger_abbey.txt" \
    --lengths 128 --segments 800 --shuffle $kept --json > "$out/shuffle-$kept.json"
done
python3 "$here/tools/expectations.py" "$out"
