"""The sources of the book: headings, figures, blocks of code and markers of numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from browsing import ROOT

DOCS = ROOT / "docs"
FENCE = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(
    r"^!\[(?P<alt>[^\]]+)\]\(figures/(?P<name>[a-z0-9-]+?)(?P<zh>\.zh)?\.png\)\n\n"
    r"\*\*(?P<caption>Figure|图) (?P<number>\d+\.\d+)\.\*\*(?P<rest>(?:[^\n]+\n)+)\n"
    r"```sh\n(?P<sh>.*?)^```\n\n```python\n(?P<python>.*?)^```\n\n```cpp\n(?P<cpp>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
IMAGE = re.compile(r"^!\[[^\]]*\]\(figures/([a-z0-9-]+?)(?:\.zh)?\.png\)", re.MULTILINE)
MARKER = re.compile(r"<!--\s*([\w-]+\.[\w.-]+)\s*-->")


@dataclass
class Chapter:
    path: Path
    text: str

    @property
    def headings(self) -> list[int]:
        return [len(m[1]) for m in re.finditer(r"^(#+) ", FENCE.sub("", self.text), re.MULTILINE)]

    @property
    def images(self) -> list[str]:
        return IMAGE.findall(self.text)

    @property
    def figures(self) -> list[re.Match[str]]:
        return list(FIGURE.finditer(self.text))

    @property
    def markers(self) -> list[str]:
        return MARKER.findall(self.text)

    @property
    def fences(self) -> list[str]:
        return re.findall(r"^```(\w+)$", self.text, re.MULTILINE)


def chapter(path: Path) -> Chapter:
    return Chapter(path, path.read_text(encoding="utf-8"))


def chapters() -> list[Chapter]:
    return [chapter(p) for p in sorted((DOCS / "book").glob("[0-9]*.md"))]


def blocks(language: str) -> dict[str, str]:
    """The blocks of a language by the figure, in English, and in Chinese if they differ."""
    found: dict[str, str] = {}
    for one in sorted(chapters(), key=lambda c: ".zh." in c.path.name):
        for figure in one.figures:
            code, name = figure[language], figure["name"]
            if found.get(name) != code:
                found[f"{name}-zh" if figure["zh"] else name] = code
    return found
