#!/bin/sh
# Trains the models of the site and writes their files into docs/book/data. Takes half an hour on one idle
# core. Finished runs are not repeated.
#
#   tools/site_model.sh [OUT]
#
# $PYTHON (python3) requires NumPy and the package gnomon. Another processor gives other last digits.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
gnomon=${GNOMON:-$here/build/release/apps/cli/gnomon}
out=${1:-$here/build/site-model}
if [ -e "$out/settings.json" ]; then
  [ -e "$out/results.json" ] || "$gnomon" lab --resume --out "$out"
else
  "$gnomon" lab --encodings rotary,alibi,sinusoidal,none --layers 4 --width 64 --heads 4 \
    --train-length 128 --eval-lengths 128,256,512,1024 --steps 7000 --learning-rate 0.008 \
    --seeds 1 --jobs 1 --no-cost --out "$out"
fi
"${PYTHON:-python3}" "$here/apps/site/reader_data.py" "$out" --gnomon "$gnomon"
