"""The Python examples of pages run as they stand. Those that require more than NumPy:
tests/python/upstream/test_pages.py."""

from __future__ import annotations

import pathlib

import pytest
from pages import EVERY, PAGES, ROOT, languages, requires_numpy_only, run


def test_no_example_is_forgotten() -> None:
    """Python is in blocks that begin with ```python, or in the notebooks, which have a test."""
    assert {"README.md", "docs/python/package.md", "docs/python/torch.md"} <= set(PAGES)
    others = {"", "bash", "c", "cmake", "cpp", "csv", "cuda", "html", "js", "rust", "sh", "text",
              "toml"}
    for page in EVERY:
        cells = {"{code-cell} ipython3"} if page.startswith("docs/notebooks/") else set()
        assert set(languages(page)) <= {"python"} | others | cells, page
        text = (ROOT / page).read_text()
        assert ">>> " not in text, page
        assert text.count("```python") == languages(page).count("python"), page


@pytest.mark.parametrize("page", [page for page in PAGES if requires_numpy_only(page)])
def test_examples_run(page: str, tmp_path: pathlib.Path) -> None:
    run(page, tmp_path)
