#!/usr/bin/env bash
# Runs in a fresh root with Python but no compiler: installs the wheel with pip, uses it, removes it.
set -euxo pipefail
[[ -z $(command -v cc g++ cmake) ]]
python3 -m venv /venv
pip=(/venv/bin/python -m pip --disable-pip-version-check)
"${pip[@]}" install --no-index --find-links /share/wheels /share/dist/pypi/*.whl
/venv/bin/python /share/packages/use.py /share/config.json
lines=$(/venv/bin/gnomon list | wc -l)
/venv/bin/gnomon inspect /share/config.json | grep -q 500000
echo "packages: wheel: gnomon list prints $lines lines"
"${pip[@]}" uninstall -y gnomon
[[ -z $(find /venv -name '*gnomon*') ]]
echo 'packages: wheel: nothing is left after pip uninstall'
