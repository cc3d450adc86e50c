"""The lines that reproduce each figure run without an error: shell, Python and C++."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from book import blocks
from browsing import ROOT, program

# The wheel's environment (tools/python.sh wheel), or another Python that has the package.
PYTHON = os.environ.get("GNOMON_PYTHON", str(ROOT / "build/python/core/bin/python"))
# The folder of the static libraries.
LIBRARIES = Path(os.environ.get("GNOMON_LIBRARIES", ROOT / "build/release"))


def run(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "2", **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="session")
def path_with_program(tmp_path_factory) -> str:
    """A PATH whose `gnomon` is the built program."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "gnomon").symlink_to(Path(program()).resolve())
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("name", blocks("sh"))
def test_shell(name, tmp_path, path_with_program):
    run(["bash", "-euo", "pipefail", "-c", blocks("sh")[name]], tmp_path, PATH=path_with_program)


@pytest.mark.parametrize("name", blocks("python"))
def test_python(name, tmp_path):
    (tmp_path / "figure.py").write_text(blocks("python")[name], encoding="utf-8")
    run([PYTHON, "figure.py"], tmp_path)


def one_program(parts: dict[str, str]) -> str:
    """A C++ program that runs the block that its argument names."""
    includes, functions = [], []
    for name, code in parts.items():
        lines = code.split("\n")
        includes += [line for line in lines if line.startswith("#include")]
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        functions.append(f"void {identifier(name)}() {{\n{body}\n}}\n")
    calls = "".join(f'  if (name == "{name}") return {identifier(name)}(), 0;\n' for name in parts)
    return (
        "\n".join(dict.fromkeys(["#include <string>", *includes]))
        + "\nnamespace {\n" + "".join(functions) + "}\n"
        + "int main(int, char** arguments) {\n  const std::string name = arguments[1];\n"
        + calls + "  return 2;\n}\n"
    )  # fmt: skip


def identifier(name: str) -> str:
    return "figure_" + re.sub(r"\W", "_", name)


def compile_blocks(parts: dict[str, str], folder: Path) -> Path:
    source = folder / "blocks.cc"
    source.write_text(one_program(parts), encoding="utf-8")
    libraries = [LIBRARIES / f"libgnomon_{n}.a" for n in ("report", "model", "graph", "core")]
    run(["g++", "-std=c++20", f"-I{ROOT / 'include'}", str(source), "-o", str(folder / "blocks"),
         *[str(library) for library in libraries if library.is_file()], "-lhwy", "-fopenmp"],
        folder)  # fmt: skip
    return folder / "blocks"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    return compile_blocks(blocks("cpp"), tmp_path_factory.mktemp("cpp"))


@pytest.mark.parametrize("name", blocks("cpp"))
def test_cpp(name, tmp_path, compiled):
    run([str(compiled), name], tmp_path)


def test_a_block_that_fails_is_found(tmp_path, path_with_program):
    with pytest.raises(AssertionError, match="name must be one of"):
        run(
            ["bash", "-euo", "pipefail", "-c", "gnomon explain rotori"],
            tmp_path,
            PATH=path_with_program,
        )
    with pytest.raises(AssertionError, match="unknown_name"):
        compile_blocks({"a-b": "#include <vector>\nunknown_name();"}, tmp_path)
