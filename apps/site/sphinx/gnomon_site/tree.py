"""A tree of source pages in memory, its navigation, and the folder that it is written to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Entry:
    """A line of the sidebar: a page, or an address (`href`) with a title, and lines below it."""

    page: str = ""
    title: str = ""  # of a page: empty for the title of the page
    href: str = ""
    children: list[Entry] = field(default_factory=list)

    def as_json(self) -> dict:
        return {
            "page": self.page,
            "title": self.title,
            "href": self.href,
            "children": [child.as_json() for child in self.children],
        }

    def pages(self) -> list[str]:
        own = [self.page] if self.page else []
        return own + [page for child in self.children for page in child.pages()]


@dataclass
class Section:
    caption: str
    entries: list[Entry]


class Tree:
    """Pages by path ('book/1-order.md'), and the sections of the sidebar."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.sections: list[Section] = []

    def add(self, path: str, text: str) -> None:
        if path in self.files:
            raise ValueError(f"two pages have the path {path}")
        self.files[path] = text.encode()

    def copy(self, path: str, source: Path) -> None:
        self.files[path] = source.read_bytes()

    def has_page(self, name: str) -> bool:
        return f"{name}.md" in self.files or f"{name}.rst" in self.files

    def pages(self) -> list[str]:
        """All pages, without their endings."""
        return [path.rsplit(".", 1)[0] for path in self.files if path.endswith((".md", ".rst"))]

    def finish(self) -> None:
        """Adds the hidden list of all pages to index.md. Each page must be in the sidebar."""
        listed: list[str] = []
        for section in self.sections:
            for entry in section.entries:
                for page in entry.pages():
                    if page not in listed:
                        listed.append(page)
        missing = set(self.pages()) - set(listed) - {"index"}
        if missing:
            raise ValueError("pages that are not in the sidebar: " + ", ".join(sorted(missing)))
        absent = [page for page in listed if not self.has_page(page)]
        if absent:
            raise ValueError("the sidebar names pages that do not exist: " + ", ".join(absent))
        lines = "\n".join(page for page in listed if page != "index")
        self.files["index.md"] += f"\n```{{toctree}}\n:hidden:\n\n{lines}\n```\n".encode()

    def navigation(self) -> list[dict]:
        return [
            {"caption": s.caption, "entries": [entry.as_json() for entry in s.entries]}
            for s in self.sections
        ]

    def write(self, folder: Path, **more: object) -> None:
        """Writes what changed, so that Sphinx reads only that, and removes the rest."""
        more["navigation"] = self.navigation()
        files = dict(self.files)
        files["site.json"] = json.dumps(more, ensure_ascii=False, indent=1).encode()
        for path, content in files.items():
            file = folder / path
            if not file.is_file() or file.read_bytes() != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        for file in sorted(folder.rglob("*"), reverse=True):
            if file.is_file() and file.relative_to(folder).as_posix() not in files:
                file.unlink()
            elif file.is_dir() and not any(file.iterdir()):
                file.rmdir()
