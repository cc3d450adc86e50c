#!/usr/bin/env bash
# Usage: write.sh BUILD_FOLDER. Writes tests/kept/VERSION, the files that tests/lab/kept_test.cc reads in
# this and in all later versions. Called once for each version, before its release.
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
version=$(sed -n 's/.*GNOMON_VERSION "\(.*\)"/\1/p' ../../include/gnomon/version.h)
folder=$PWD/$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp words.txt "$work"
mkdir -p "$folder"
GNOMON_RECORD=$folder "$build/tests/gnomon_torch_tests" --gtest_brief=1 \
  --gtest_filter=Kept.FilesOfThisVersionAreComplete || true  # the files of the lab are still missing

cd "$work"
small=(--layers 1 --width 8 --heads 2 --batch 2 --seeds 1 --no-cost)
text=(--train-length 16 --eval-lengths '16,32')
lab() { "$build/apps/lab/gnomon-lab" "$@" >/dev/null 2>&1; }
lab words.txt "${small[@]}" "${text[@]}" --steps 4 --encodings t5 --out text
lab words.txt "${small[@]}" "${text[@]}" --steps 4 --encodings rotary --extend yarn --out extend
lab "${small[@]}" "${text[@]}" --steps 4 --task copy --encodings alibi --out copy
lab "${small[@]}" --steps 2 --task graph --encodings degree --out graph
lab "${small[@]}" --steps 2 --task image --encodings sinusoidal-grid --out image
timeout -s INT 20 "$build/apps/lab/gnomon-lab" words.txt "${small[@]}" "${text[@]}" --steps 1000000 \
  --encodings t5 --checkpoint 0.02 --out interrupted >/dev/null 2>&1 || true
"$build/apps/lab/gnomon-lab" words.txt "${small[@]}" "${text[@]}" --steps 4 --encodings t5 --list-runs \
  >"$folder/plan.json"
for task in text extend copy graph image; do
  mkdir -p "$folder/lab/$task"
  cp "$task/settings.json" "$task/results.json" "$task/results.csv" "$folder/lab/$task"
done
mkdir -p "$folder/lab/text/runs" "$folder/lab/interrupted/checkpoints"
cp text/runs/*.json "$folder/lab/text/runs"
cp -R text/models "$folder/lab/text"
cp interrupted/settings.json "$folder/lab/interrupted"
cp interrupted/checkpoints/*.safetensors "$folder/lab/interrupted/checkpoints"
