"""The Python examples of the README and of all pages of docs. A page is one program."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def languages(page: str) -> list[str]:
    """The words after the opening fences of a page."""
    return re.findall(r"^ *```(?:`*)([^`\n]*)\n.*?^ *```", (ROOT / page).read_text(),
                      re.MULTILINE | re.DOTALL)


def source(page: str) -> str:
    """The Python blocks of a page, on the lines where they are in the page."""
    lines = (ROOT / page).read_text().splitlines()
    inside = False
    for index, line in enumerate(lines):
        fence = line.startswith("```")
        if fence:
            inside = line == "```python"
        if fence or not inside:
            lines[index] = ""
    return "\n".join(lines)


def modules(page: str) -> set[str]:
    """The modules that a page imports: numpy, gnomon.torch, ..."""
    found = set()
    for node in ast.walk(ast.parse(source(page), page)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{one.name}" for one in node.names} | {node.module or ""}
    return found


def requires_numpy_only(page: str) -> bool:
    extra = {"gnomon.torch", "gnomon.jax", "gnomon.lab"}
    return not modules(page) & extra and all(
        one.split(".")[0] in {"gnomon", "numpy"} | sys.stdlib_module_names
        for one in modules(page))


# The gallery is written from the notebooks, which tests/python/notebooks executes.
EVERY = ["README.md", *(str(one.relative_to(ROOT)) for one in sorted((ROOT / "docs").rglob("*.md"))
                        if one.parent.name != "gallery")]
PAGES = [page for page in EVERY if source(page).strip()]


def run(page: str, folder: pathlib.Path) -> None:
    """Runs a page in a fresh process, so that it has its own imports only."""
    program = folder / "page.py"
    program.write_text(source(page))
    done = subprocess.run([sys.executable, "-W", "ignore", program], cwd=folder, check=False,
                          capture_output=True, encoding="utf-8", errors="replace")
    assert done.returncode == 0, f"{page}\n{done.stderr.replace(str(program), page)[-3000:]}"
