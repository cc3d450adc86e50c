#!/usr/bin/env bash
# Checks and times the component cuda on a machine with a GPU, and writes docs/benchmarks-gpu.md.
#
#   tools/gpu.sh [--quick] [--only TEXT]   options of bench/gpu/compare.py
#   tools/gpu.sh sources                   prints the checksum of the sources that a bundle was built from
#
# Takes what tools/gpu_bundle.sh has built from build/gpu/bundle.tar.gz, or from the unpacked archive that
# contains this script, or builds it. Uses $PYTHON, or python3, with PyTorch, NumPy and pytest.
# Exit status 1: a check has failed; the page is written nevertheless. 2: nothing can be checked here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=$PWD/build/gpu limit=520  # seconds, of all steps
readonly logs=$work/logs checks=$work/checks.tsv page=docs/benchmarks-gpu.md
readonly python=${PYTHON:-python3}
# One test of each kernel, for the sanitizers.
readonly sanitized='CudaAppend.EqualsTheOracleIn*:CudaRotate/2.EqualsTheOracle:CudaRotateAt.*:CudaTable/0.*:*Embedding*:*BiasGradient*'

say() { printf 'gpu: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 2
}

sources() {
  find include src bindings/python tests/cuda -type f \
    \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.py' -o -name '*.json' -o -name '*.txt' \) \
    -not -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}
if [[ ${1-} == sources ]]; then
  sources
  exit
fi

failed=0
# Records a check: record NAME passed|failed|skipped SECONDS TEXT
record() {
  say "$1: $2, $3 s${4:+ ($4)}"
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(tr '\t\n' '  ' <<<"$4" | sed 's/ *$//')" >>"$checks"
  [[ $2 != failed ]] || failed=1
}

# Runs a command as a check of at most some seconds: check NAME SECONDS COMMAND...
check() {
  local name=$1 most=$2 begin=$SECONDS status=0 text=''
  local left=$((limit - SECONDS)) log=$logs/${1// /_}.log
  shift 2
  if ((left < 5)); then
    record "$name" failed 0 'no time was left'
    return
  fi
  timeout -k 5 $((most < left ? most : left)) "$@" >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    record "$name" passed $((SECONDS - begin)) ''
    return
  fi
  tail -n 15 "$log" >&2
  text="exit status $status"
  ((status != 124)) || text="stopped after $((SECONDS - begin)) s"
  record "$name" failed $((SECONDS - begin)) "$text"
}

# Sets `parts` to the folder of the built files.
find_parts() {
  parts=$PWD/prebuilt
  [[ ! -d $parts ]] || return 0
  parts=$work/gnomon-gpu/prebuilt
  local archive
  for archive in "$work"/bundle.tar.*; do
    [[ -e $archive ]] || continue
    rm -rf "$work/gnomon-gpu"
    tar -xf "$archive" -C "$work"
    return
  done
  say 'no bundle: building'
  tools/gpu_bundle.sh folder || die 'no build/gpu/bundle.tar.gz (make gpu-bundle on another machine), and nothing could be built'
}

# Sets `backend` to the folder of nanobind-backend for this Python, or to nothing if Python has it.
find_backend() {
  local tag wheel
  backend=
  ! "$python" -c 'import nanobind_backend' 2>/dev/null || return 0
  tag=cp$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  for wheel in "$parts"/wheels/nanobind_backend-*-"$tag"-*.whl; do
    [[ -e $wheel ]] || die "the bundle has no nanobind-backend for $("$python" --version)"
    backend=$work/backend
    rm -rf "$backend"
    "$python" -m zipfile -e "$wheel" "$backend"
  done
}

# Packages of peers, if the package index can be reached. Those that the machine has are preferred.
install_peers() {
  local package
  [[ ! -d $work/peers ]] || return 0
  mkdir -p "$work/peers"
  for package in liger-kernel flashinfer-python apache-tvm-ffi; do
    timeout 25 "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
      --timeout 3 --retries 0 --target "$work/peers" "$package" >>"$logs/peers.log" 2>&1 || return 0
  done
}

mkdir -p "$work" "$logs" docs
: >"$checks"
PATH=$PATH:/usr/local/cuda/bin
"$python" -c 'import torch' 2>/dev/null || die "$python has no PyTorch; set PYTHON"
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
  die "no GPU: PyTorch finds none (nvidia-smi: $( (nvidia-smi -L || echo 'not installed') 2>/dev/null | head -n 1))"
find_parts
find_backend
export PYTHONPATH=$parts/python${backend:+:$backend}${PYTHONPATH:+:$PYTHONPATH}:$work/peers
export PYTHONDONTWRITEBYTECODE=1 TORCHINDUCTOR_CACHE_DIR=$work/inductor
record 'built files' passed $SECONDS ''
if [[ -d src && $(sources) != "$(<"$parts/sources.txt")" ]]; then
  record 'sources of the bundle' failed 0 'the bundle was built from other sources'
fi
readonly tests=$parts/bin/gnomon_cuda_device_tests

check 'Python package' 60 "$python" -c 'import gnomon._cuda as cuda; assert cuda.device_count() > 0'
check 'tests of the kernels' 120 "$tests"  # the log names the test that ends the process
for tool in memcheck racecheck; do
  if command -v compute-sanitizer >/dev/null; then
    check "$tool" 60 compute-sanitizer --tool $tool --error-exitcode 3 "$tests" --gtest_brief=1 \
      "--gtest_filter=$sanitized"
  else
    record $tool skipped 0 'compute-sanitizer is not installed'
  fi
done
check 'Python tests' 150 "$python" -m pytest -q tests/python/gpu tests/python/torch/test_cuda.py \
  tests/python/torch/test_bias_gradient.py
install_peers
left=$((limit - SECONDS))
rm -f "$work/results.json"
check 'benchmarks' 330 "$python" bench/gpu/compare.py "$work/results.json" \
  --seconds $((left > 330 ? 240 : left > 90 ? left - 80 : 10)) --command "make gpu${*:+ GPU_FLAGS='$*'}" "$@"
if [[ -e $work/results.json ]]; then
  "$python" bench/gpu/report.py "$work/results.json" $page --checks "$checks"
  say "wrote $page after $SECONDS s"
else
  "$python" bench/gpu/report.py --not-measured $page --checks "$checks"
  say "no times; wrote $page with the checks"
fi
exit $failed
