"""The installed package: its files, what it imports and exports, the program, the stubs."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import runpy
import subprocess
import sys
import sysconfig

import pytest

import gnomon
from gnomon import _core, _program

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = pathlib.Path(gnomon.__file__).parent


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                          text=True).stdout


def test_import_loads_no_other_package() -> None:
    loaded = python("import gnomon, sys; print(*sorted(m for m in sys.modules if '.' not in m))")
    assert not {"numpy", "torch", "jax", "transformers", "pandas"} & set(loaded.split())


def test_every_exported_name_exists() -> None:
    assert [name for name in gnomon.__all__ if not hasattr(gnomon, name)] == []
    assert set(gnomon.__all__) <= set(dir(gnomon))


def test_version_is_that_of_the_header() -> None:
    header = (ROOT / "include/gnomon/version.h").read_text()
    assert f'"{gnomon.__version__}"' in header


def test_the_citation_has_the_version() -> None:
    text = (ROOT / "docs" / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, re.MULTILINE)[1] == gnomon.__version__


def test_the_module_exports_only_its_entry() -> None:
    symbols = subprocess.run(["nm", "-D", "--defined-only", _core.__file__], check=True,
                             capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in symbols.splitlines()}
    assert {name for name in names if "gnomon" in name or "hwy" in name} == set()
    assert "PyInit__core" in names


def test_the_module_has_no_openmp_runtime_and_no_highway_library() -> None:
    libraries = subprocess.run(["ldd", _core.__file__], check=True, capture_output=True,
                               text=True).stdout
    assert not re.search(r"libgomp|libomp|libhwy|libtorch", libraries)


def test_the_instruction_set_is_the_best_of_the_processor() -> None:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^flags\s*:(.*)$", info, re.M)
    if found is None:  # not x86
        assert gnomon.isa() in ("neon", "portable")
        return
    flags = set(found[1].split())
    expected = "portable"
    if {"sse4_2", "pclmulqdq", "aes"} <= flags:
        expected = "sse4"
        if {"avx2", "bmi1", "bmi2", "fma", "f16c"} <= flags:
            expected = "avx2"
            if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= flags:
                expected = "avx512"
    assert gnomon.isa() == expected


def test_the_program_is_in_the_package() -> None:
    script = pathlib.Path(sys.executable).parent / "gnomon"
    for program in (_program.path(), str(script)):
        shown = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
        assert shown.stdout.strip() == f"gnomon {gnomon.__version__}"
    refused = subprocess.run([str(script), "inspect", "nowhere"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("gnomon: ")


def test_pages_of_the_program_have_charts(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rotary.html"
    _program.run("plot", "rotary", "-o", str(file))
    assert len(file.read_text()) > 200_000  # the script that draws is in the page


def test_typing_files_are_installed_and_match_the_module(tmp_path: pathlib.Path) -> None:
    assert (PACKAGE / "py.typed").exists()
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "gnomon._core", "-p",
                    str(ROOT / "tools/python/stubs.txt"), "-o", str(tmp_path / "_core.pyi")],
                   check=True)
    written = (tmp_path / "_core.pyi").read_text()
    assert written == (ROOT / "bindings/python/gnomon/_core.pyi").read_text(), \
        "run tools/python.sh generated"
    assert written == (PACKAGE / "_core.pyi").read_text()


def test_the_wheel_is_small_and_for_all_versions() -> None:
    wheels = list((ROOT / "build/python/wheel").glob("*.whl"))
    assert len(wheels) == 1, "make test builds the wheel"
    assert "-cp310-abi3-linux" in wheels[0].name
    assert wheels[0].stat().st_size < 13_750_000


@pytest.mark.parametrize("free_threaded", [None, 0, 1])
def test_only_python_with_the_gil_requires_the_backend(
        monkeypatch: pytest.MonkeyPatch, free_threaded: int | None) -> None:
    provider = runpy.run_path(str(ROOT / "tools/cmake/python_dependencies.py"))
    settings = {"always": ["numpy"], "split_mode": ["nanobind-backend"]}
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": free_threaded}.get)
    assert provider["dynamic_metadata"](settings, {}) == {
        "dependencies": ["numpy"] + ([] if free_threaded else ["nanobind-backend"])}


def test_the_installed_package_requires_the_backend() -> None:
    requirements = importlib.metadata.requires("gnomon")
    assert {"numpy>=1.24", "nanobind-backend<2,>=1.0"} <= set(requirements)


def test_the_example_of_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        python(block)


def test_the_example_of_the_package_runs() -> None:
    text = gnomon.__doc__ or ""
    example = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    assert "rotate" in example
    python(example)
