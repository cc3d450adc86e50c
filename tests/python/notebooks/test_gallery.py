"""docs/gallery has the present notebooks with the outputs that they have when they are executed."""

from __future__ import annotations

import pathlib
import re

import jupytext
import nbformat
import pytest
import render_notebooks as gallery

NUMBER = re.compile(r"(?<![\w.])([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])")
LARGEST_FILE, LARGEST_FOLDER = 100_000, 3_000_000  # bytes


def pieces(text: str) -> tuple[list[str], list[float]]:
    """The text without its numbers and runs of spaces, and the numbers."""
    parts = NUMBER.split(text)
    return [" ".join(one.split()) for one in parts[::2]], [float(one) for one in parts[1::2]]


def check(name: str, notebook: nbformat.NotebookNode) -> None:
    """Compares an executed notebook with its page: numbers up to 1 % or 0.005, pictures by their
    labels. Instruction sets and fonts change the rest."""
    page, again = (gallery.GALLERY / f"{name}.md").read_text(), gallery.render(name, notebook)
    words, numbers = pieces(page)
    expected_words, expected = pieces(again.text())
    assert words == expected_words, "python tools/python/render_notebooks.py " + name
    assert numbers == pytest.approx(expected, rel=0.01, abs=0.005)
    for file, content in again.files.items():
        stored = (gallery.GALLERY / file).read_bytes()
        if file.endswith(".svg"):
            labels = [re.findall(r"<text[^>]*>([^<]+)<", one.decode()) for one in (stored, content)]
            assert labels[0] == labels[1], file


@pytest.mark.parametrize("name", gallery.NAMES)
def test_the_page_has_the_cells_of_the_notebook(name: str) -> None:
    """Texts and sources, without executing them."""
    notebook = jupytext.read(gallery.NOTEBOOKS / f"{name}.md")
    page = (gallery.GALLERY / f"{name}.md").read_text()
    begin = 0
    for block in gallery.render(name, notebook).blocks:
        begin = page.find(block + "\n", begin)
        assert begin >= 0, f"{block}\n\npython tools/python/render_notebooks.py {name}"
        begin += len(block)
    assert page.count("```python\n") == sum(one.cell_type == "code" for one in notebook.cells)


def test_all_notebooks_are_in_the_gallery() -> None:
    sources = {one.stem for one in gallery.NOTEBOOKS.glob("*.md")} - {"README"}
    index = (gallery.GALLERY / "README.md").read_text()
    assert set(gallery.NAMES) == sources
    assert all(f"]({name}.md)" in index for name in gallery.NAMES)


def test_pages_name_no_folder_of_a_machine() -> None:
    for page in gallery.GALLERY.glob("*.md"):
        assert not re.search(r"(?<![\w.])/(?:tmp|home|root|work)\b", page.read_text()), page


def test_pictures_are_shown_small_and_complete() -> None:
    shown = set()
    for page in gallery.GALLERY.glob("*.md"):
        names = re.findall(r'<img src="([^"]+)" alt="[^"]+"', page.read_text())
        assert page.stem in ("README", "own-encoding") or names
        shown |= set(names)
    files = [one for one in gallery.GALLERY.iterdir() if one.suffix != ".md"]
    assert {one.name for one in files} == shown
    assert max(one.stat().st_size for one in files) < LARGEST_FILE
    assert sum(one.stat().st_size for one in gallery.GALLERY.iterdir()) < LARGEST_FOLDER
    for one in files:
        start = one.read_bytes()[:8]
        assert start.startswith(b"<svg") if one.suffix == ".svg" else start == b"\x89PNG\r\n\x1a\n"


def test_a_stale_page_is_noticed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell("# A\n\ntext"), nbformat.v4.new_code_cell("1 / 3")])
    output = nbformat.v4.new_output("execute_result", {"text/plain": "0.3333"})
    notebook.cells[1].outputs = [output]
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    (tmp_path / "a.md").write_text(gallery.render("a", notebook).text())
    check("a", notebook)
    output.data["text/plain"] = "0.3335"
    check("a", notebook)
    output.data["text/plain"] = "0.35"
    with pytest.raises(AssertionError):
        check("a", notebook)
    output.data["text/plain"] = "0.3333"
    notebook.cells[1].source = "1 / 4"
    with pytest.raises(AssertionError):
        check("a", notebook)
