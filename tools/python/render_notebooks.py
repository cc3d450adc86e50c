"""Writes docs/gallery: the notebooks of docs/notebooks with their outputs and pictures.

    python tools/python/render_notebooks.py            # all notebooks
    python tools/python/render_notebooks.py bias       # some

Requires gnomon[plot], jupytext, nbclient, ipykernel and pillow; own-encoding also the lab and
PyTorch. tests/python/notebooks/test_gallery.py checks that the pages are those of the notebooks.
"""

from __future__ import annotations

import base64
import html
import io
import pathlib
import re
import sys
import textwrap
from typing import Any

import jupytext
import nbclient
import nbformat
import vl_convert
from PIL import Image

DOCS = pathlib.Path(__file__).parents[2] / "docs"
NOTEBOOKS, GALLERY = DOCS / "notebooks", DOCS / "gallery"
NAMES = ["attention", "sinusoid", "learned", "bias", "rotary", "lab", "own-encoding"]
# The lab is not run: its notebook shows the results of an earlier run of the same cell.
STORED = {"run": "results = gnomon.lab.load('results')\nresults"}
LARGEST_SVG = 80_000  # bytes; a larger chart is a PNG of 128 colours
LARGEST_PNG = 90_000  # a larger one has 64 colours

Files = dict[str, bytes]


def execute(name: str, replace: dict[str, str]) -> nbformat.NotebookNode:
    """Executes a notebook. replace: the source of the cells with a tag, for this execution only."""
    notebook = jupytext.read(NOTEBOOKS / f"{name}.md")
    sources = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        for tag in set(cell.metadata.get("tags", ())) & replace.keys():
            cell.source = replace[tag]
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3",
                            resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    for cell, source in zip(notebook.cells, sources, strict=True):
        cell.source = source
    return notebook


def without_machine(text: str) -> str:
    """Returns the text without the times and the temporary folders of the machine of the run."""
    text = re.sub(r"about \d+ minutes? here", "about N minutes here", text)
    return re.sub(r"\n*<p>Report: <code>[^<]*</code></p>", "", text)


class Page:
    """The blocks of a page, and its pictures by file name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: list[str] = []
        self.files: Files = {}

    def text(self) -> str:
        return without_machine("\n\n".join(self.blocks)) + "\n"

    def picture(self, title: str, *, svg: str = "", png: bytes = b"") -> None:
        """Adds an image. A large SVG becomes a PNG with 2 pixels for each px."""
        width = _svg_width(svg)
        if svg and len(svg) <= LARGEST_SVG:
            suffix, content = "svg", svg.encode()
        else:
            png = vl_convert.svg_to_png(svg, scale=2) if svg else png
            image = Image.open(io.BytesIO(png)).convert("RGB")
            width = width if svg else image.width
            suffix, content = "png", _png(image, 128)
            if len(content) > LARGEST_PNG:
                content = _png(image, 64)
        file = f"{self.name}-{len(self.files) + 1}.{suffix}"
        self.files[file] = content
        self.blocks.append(f'<img src="{file}" alt="{html.escape(title)}" width="{width}">')

    def output(self, data: dict[str, Any]) -> None:
        text = data.get("text/plain", "")
        if spec := data.get("application/vnd.vegalite.v5+json"):
            # For narrow screens: at most 480 px, with the caption below the chart.
            title = {key: value for key, value in spec["title"].items() if key != "subtitle"}
            width = {"width": min(spec["width"], 480)} if "width" in spec else {}
            self.picture(title["text"], svg=vl_convert.vegalite_to_svg(
                {**spec, **width, "title": title}, allowed_base_urls=[]))
            if caption := " ".join(text.split("\n")[1:]):
                self.blocks.append(caption)
        elif "text/html" in data:
            self._html(data["text/html"], text.split("(")[0])
        else:
            self.blocks.append(_wrapped(text))

    def _html(self, source: str, title: str) -> None:
        """Tables without styles, which code hosts remove, and pictures as files."""
        picture = re.compile(r'<svg .*?</svg>|<img [^>]*src="data:image/png;base64,([^"]*)"[^>]*>',
                             re.DOTALL)
        end = 0
        for found in picture.finditer(source):
            self._markup(source[end:found.start()])
            end = found.end()
            if found[1]:
                self.picture(title, png=base64.b64decode(found[1]))
            else:
                own = re.search(r"role-title-text.*?<text[^>]*>([^<]+)<", found[0], re.DOTALL)
                self.picture(html.unescape(own[1]) if own else title, svg=found[0])
        self._markup(source[end:])

    def _markup(self, source: str) -> None:
        source = re.sub(r' style="[^"]*"|</?div[^>]*>', "", source)
        source = re.sub(r"<(t[hd])>(.*?)</\1>", lambda cell: cell[0].replace("\n", "<br>"), source,
                        flags=re.DOTALL)
        source = source.replace("<tr>", "\n<tr>").replace("</table>", "\n</table>")
        source = re.sub(r"\s*\n\s*", "\n", source).strip()
        if source:
            self.blocks.append(source)


def _png(image: Image.Image, colours: int) -> bytes:
    buffer = io.BytesIO()
    image.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _wrapped(text: str) -> str:
    """A block of output, whose long lines are broken."""
    lines = [textwrap.wrap(line, 96, subsequent_indent="    ", break_on_hyphens=False) or [""]
             if len(line) > 96 else [line] for line in text.rstrip().split("\n")]
    return "```text\n" + "\n".join(one for line in lines for one in line) + "\n```"


def _svg_width(svg: str) -> int:
    found = re.search(r'<svg [^>]*?\bwidth="([\d.]+)"', svg)
    return round(float(found[1])) if found else 640


def note(name: str) -> str:
    stored = (" The lab was not run for this page: the results are those of "
              "`docs/notebooks/results`.")
    return (f"A notebook with its outputs: [source](../notebooks/{name}.md), "
            f"[how to run it](../notebooks/README.md#running-them), [gallery](README.md)."
            + (stored if name == "lab" else ""))


def render(name: str, notebook: nbformat.NotebookNode) -> Page:
    """Returns the page of a notebook with its outputs, if it has been executed."""
    page = Page(name)
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            # Code hosts read \\ in a block of $$ as an escape.
            text = re.sub(r"\$\$(.*?)\$\$", r"```math\n\1\n```", cell.source, flags=re.DOTALL)
            if index == 0:
                title, _, rest = text.partition("\n")
                text = f"{title}\n\n{note(name)}\n{rest}"
            page.blocks.append(text)
            continue
        page.blocks.append(f"```python\n{cell.source}\n```")
        printed = "".join(one.text for one in cell.get("outputs", ())
                          if one.output_type == "stream" and one.name == "stdout")
        if printed:
            page.blocks.append(_wrapped(printed))
        for one in cell.get("outputs", ()):
            if "data" in one:
                page.output(one.data)
    return page


def main(names: list[str]) -> None:
    GALLERY.mkdir(exist_ok=True)
    for name in names or NAMES:
        page = render(name, execute(name, STORED))
        for old in GALLERY.glob(f"{name}-[0-9]*.*"):
            old.unlink()
        for file, content in page.files.items():
            (GALLERY / file).write_bytes(content)
        (GALLERY / f"{name}.md").write_text(page.text())


if __name__ == "__main__":
    main(sys.argv[1:])
