"""Imports between the modules of the package: no module imports itself through others.

An import inside a function or under TYPE_CHECKING counts: it hides a circle, and does not remove it.
"""

from __future__ import annotations

import ast
import pathlib

import pytest

import gnomon


def imported(tree: ast.AST, package: str, modules: set[str]) -> set[str]:
    """Returns the modules that a module in a package imports, anywhere in its source."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[:len(package.split(".")) + 1 - node.level]
            base = ".".join([*parents * (node.level > 0), *filter(None, [node.module])])
            names = {f"{base}.{name.name}" for name in node.names}
            found |= names & modules | ({base} if names - modules else set())
    return found & modules


def graph(folder: pathlib.Path) -> dict[str, set[str]]:
    """Returns the imports of each module of a package. A stub stands for its extension module."""
    files = {}
    for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.pyi")]):
        parts = file.relative_to(folder.parent).with_suffix("").parts
        package = ".".join(parts[:-1])
        module = package if parts[-1] == "__init__" else ".".join(parts)
        files[module] = package, ast.parse(file.read_text(encoding="utf-8"))
    return {name: imported(tree, package, set(files)) for name, (package, tree) in files.items()}


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Returns the groups of modules that import each other, directly or through others."""
    reached = {}
    for module in imports:
        seen: set[str] = set()
        rest = set(imports[module])
        while rest:
            seen |= rest
            rest = set().union(*(imports[one] for one in rest)) - seen
        reached[module] = seen
    groups = {tuple(sorted(one for one in reached[module] if module in reached[one]))
              for module in reached if module in reached[module]}
    return [list(group) for group in sorted(groups)]


def test_no_module_imports_itself_through_others() -> None:
    imports = graph(pathlib.Path(gnomon.__file__).parent)
    assert {"gnomon._core", "gnomon.specs.bias", "gnomon.torch"} <= set(imports)
    assert circles(imports) == []


@pytest.mark.parametrize("text", [
    "from . import b", "import p.b", "from p.b import x", "from .b import x",
    "def f():\n    from .b import x",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import x",
])
def test_a_circle_is_found(tmp_path: pathlib.Path, text: str) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    for name, source in {"__init__": "from . import a", "a": text, "b": "from .c import y",
                         "c": "from . import a"}.items():
        (folder / f"{name}.py").write_text(source)
    assert circles(graph(folder)) == [["p.a", "p.b", "p.c"]]
