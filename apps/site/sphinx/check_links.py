"""Checks the links of a built site: files, anchors, and that each page can be reached. Nothing but
a link that a reader follows may lead to another host.

    check_links.py build/site
"""

import re
import sys
from collections import deque
from functools import cached_property
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

# HTML comes from Sphinx: attributes have double quotes, and text has none.
LINK = re.compile(r'<(?P<tag>[a-z]+)\b[^<>]*?\b(?P<name>href|src|action)="(?P<target>[^"]*)"')
ID = re.compile(r'\bid="([^"]*)"')
READ_BY_READERS = {("a", "href")}  # may lead to other hosts


class Page:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = re.sub(
            r"<script(?![^>]*\bsrc=)[^>]*>.*?</script>", "", path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )  # fmt: skip

    @cached_property
    def ids(self) -> set[str]:
        return set(ID.findall(self.text))

    @cached_property
    def links(self) -> list[tuple[str, str, str]]:
        return [(m["tag"], m["name"], unescape(m["target"])) for m in LINK.finditer(self.text)]


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
        if not self.pages:
            raise ValueError(f"{folder} has no page")

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def problems(self) -> list[str]:
        found = []
        for page in self.pages.values():
            for tag, attribute, target in page.links:
                problem = self.problem(page, tag, attribute, target)
                if problem:
                    found.append(f"{self.name(page.path)}: {problem}")
        found += [f"{self.name(path)}: no link leads here" for path in self.unreachable()]
        return found

    def problem(self, page: Page, tag: str, attribute: str, target: str) -> str:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            if parts.scheme == "data" or (tag, attribute) in READ_BY_READERS:
                return ""
            return f"<{tag}> loads {target}"
        file = self.file(page, target)
        if not file.is_file():
            return f"{target} does not exist"
        anchor = unquote(parts.fragment)
        if anchor and file in self.pages and anchor not in self.pages[file].ids:
            return f"{target}: no such anchor"
        return ""

    def file(self, page: Page, target: str) -> Path:
        path = unquote(urlsplit(target).path)
        return (page.path.parent / path).resolve() if path else page.path

    def unreachable(self) -> list[Path]:
        """Pages that no chain of links from index.html leads to."""
        start = self.folder / "index.html"
        seen = {start}
        queue = deque([start])
        while queue:
            page = self.pages[queue.popleft()]
            for tag, _, target in page.links:
                if tag in ("a", "form") and not urlsplit(target).scheme:
                    file = self.file(page, target)
                    if file in self.pages and file not in seen:
                        seen.add(file)
                        queue.append(file)
        return sorted(set(self.pages) - seen)


def main() -> int:
    site = Site(Path(sys.argv[1]).resolve())
    found = site.problems()
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(site.pages)} pages, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
