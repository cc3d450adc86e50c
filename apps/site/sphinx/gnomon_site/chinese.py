"""Stages the Chinese pages: the book (docs/book/*.zh.md) and the front page (docs/index.zh.md).

Their links to other pages lead to the English site, which is the folder above.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from . import markdown
from .english import SITE, English, site_only
from .numbers import Numbers
from .tree import Entry, Section, Tree

OTHERS = {
    "encodings/all": "各种编码",
    "guides/index": "指南",
    "api/cpp/index": "C++ 参考",
    "api/python/index": "Python 参考",
    "cli/index": "命令行程序",
}


class Chinese:
    def __init__(self, root: Path, english: English, numbers: Numbers) -> None:
        self.docs = root / "docs"
        self.english = english
        self.numbers = numbers
        self.tree = Tree()

    def add_pages(self) -> None:
        for path in sorted([*self.docs.glob("*.zh.md"), *self.docs.glob("book/*.zh.md")]):
            name = path.relative_to(self.docs).as_posix().replace(".zh.md", ".md")
            self.tree.add(name, self.page(name, path.read_text(encoding="utf-8")))
        for path in sorted(self.docs.glob("book/**/*.png")):
            self.tree.copy(path.relative_to(self.docs).as_posix(), path)

    def finish(self) -> None:
        pages = self.tree.pages()
        playground = [p for p in ("book/playground", "book/reader") if p in pages]
        others = [p for p in pages if p != "index" and p not in playground]
        self.tree.sections = [
            Section("书", [Entry(page) for page in sorted(others)]),
            Section("演练场", [Entry(page) for page in playground]),
            Section(
                "英文页面",
                [
                    Entry(title=title, href=f"../{page}.html")
                    for page, title in OTHERS.items()
                    if self.english.tree.has_page(page)
                ],
            ),
        ]
        self.tree.finish()

    def page(self, name: str, text: str) -> str:
        text = site_only(text)
        text = self.numbers.insert(f"docs/{name.replace('.md', '.zh.md')}", text)
        return markdown.link_to_html(
            markdown.rewrite_links(text, lambda target: self._own(name, target)),
            lambda target: self._english(name, target),
        )

    def _own(self, name: str, target: str) -> str:
        """A link to a Chinese page, by the name that it has on the site."""
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path.endswith(".zh.md"):
            return target
        return path.replace(".zh.md", ".md") + (f"#{anchor}" if anchor else "")

    def _english(self, name: str, target: str) -> str | None:
        """The address of an English page, None for other links."""
        path, _, anchor = target.partition("#")
        other = re.match(r"[a-z]+:", target) and not target.startswith(SITE)
        if not path or other or path.startswith(("figures/", "book/figures/")):
            return None
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if page.endswith(".md") and (self.docs / f"{page[:-3]}.zh.md").is_file():
            return None
        source = self.english.target(f"docs/{name}", name, target)
        path, _, anchor = source.partition("#")
        up = "../" * (name.count("/") + 1)
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        page = re.sub(r"\.(md|rst)$", ".html", page)
        return up + page + (f"#{anchor}" if anchor else "")
