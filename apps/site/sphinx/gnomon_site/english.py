"""Stages the English pages: the pages of docs/, and those that are made from other files."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from . import commands, encodings, javascript_api, markdown
from .headers import Headers
from .numbers import Numbers
from .program import Program
from .python_api import PythonApi
from .tree import Entry, Section, Tree

# Only these pages have formulas between dollar signs. In the others a dollar sign is a character.
WITH_FORMULAS = ("book/", "gallery/", "notebooks/", "index")

LANGUAGES = {
    ".cc": "cpp", ".h": "cpp", ".c": "c", ".cu": "cuda", ".py": "python", ".sh": "bash",
    ".json": "json", ".yaml": "yaml", ".mjs": "javascript", ".js": "javascript",
    ".ts": "typescript", ".cmake": "cmake",
}  # fmt: skip
LONGEST_FILE = 100_000  # bytes of a file that gets a page; longer ones are offered as they are
BOOK = "book/"
SITE = "site://"
PLAYGROUND = ("book/playground", "book/reader")
IMAGE = re.compile(
    r'<a href="(?P<target>[^"]+)">\s*<img src="(?P<in>[^"]+)" alt="(?P<alt>[^"]*)"'
    r'(?: width="(?P<width>\d+)")?>\s*</a>|<img src="(?P<source>[^"]+)" alt="(?P<name>[^"]*)"'
    r'(?: width="(?P<size>\d+)")?>'
)


def site_only(text: str) -> str:
    """Shows `<!-- site ... -->`, and hides what is between `<!-- host -->` and `<!-- /host -->`."""
    text = re.sub(r"<!-- site\n(.*?)-->", r"\1", text, flags=re.DOTALL)
    return re.sub(r"<!-- host -->\n.*?<!-- /host -->\n?", "", text, flags=re.DOTALL)


def html_images(text: str) -> str:
    """`<img>` of the notebooks as Markdown, so that Sphinx copies the files."""

    def one(match: re.Match[str]) -> str:
        inner = match["in"] or match["source"]
        alt = (match["alt"] or match["name"] or "").replace("[", "(").replace("]", ")")
        width = match["width"] or match["size"]
        image = f"![{alt}]({inner})" + (f"{{width={width}px}}" if width else "")
        return f"[{image}]({match['target']})" if match["target"] else image

    return IMAGE.sub(one, text)


def plain_blocks(text: str) -> str:
    """Blocks of notebooks and of code hosts in the form that MyST reads."""
    text = re.sub(r"\A---\n.*?^---\n+", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(
        r"^```\{code-cell\} \w+\n(?::\w+:.*\n)*\n?", "```python\n", text, flags=re.MULTILINE
    )
    text = re.sub(r"^```math$", "```{math}", text, flags=re.MULTILINE)
    return re.sub(r"^```csv$", "```text", text, flags=re.MULTILINE)


class English:
    def __init__(
        self, root: Path, program: Program, numbers: Numbers, doxygen: Path | None
    ) -> None:
        self.root = root
        self.doxygen = doxygen
        self.program = program
        self.numbers = numbers
        self.tree = Tree()
        self.files: list[str] = []  # paths of files that get a page
        self.topics: dict[str, str] = {}  # heading of docs/README.md: page
        self._index_topics()

    def stage(self) -> None:
        self._add_references()
        docs = self.root / "docs"
        for path in sorted(docs.rglob("*.md")):
            name = path.relative_to(docs).as_posix()
            if not name.endswith(".zh.md") and name != "README.md":
                self.tree.add(name, self.page(name, path.read_text(encoding="utf-8")))
        for path in sorted(docs.rglob("*")):
            if path.suffix in (".png", ".svg") and not path.name.endswith(".zh.png"):
                self.tree.copy(path.relative_to(docs).as_posix(), path)
        entries = encodings.add_pages(self.tree, self.program, self.root)
        guides = self._add_topics()
        files = self._add_files()
        self.reference += [files, Entry(title="Index of names", href="genindex.html")]
        chapters = sorted(p for p in self.tree.pages() if re.match(r"book/\d", p))
        book = [Entry(page) for page in (*chapters, "book/statements")]
        self.tree.sections = [
            Section("Book", book),
            Section("Playground", [Entry(page) for page in PLAYGROUND]),
            Section("Encodings", entries),
            Section("Guides", guides),
            Section("Reference", self.reference),
        ]
        self.tree.finish()

    # ---- Pages of docs/

    def page(self, name: str, text: str) -> str:
        """A page of docs/ as a page of the site."""
        text = html_images(plain_blocks(site_only(text)))
        text = self.linked(f"docs/{name}", name, text)
        if not name.startswith(WITH_FORMULAS):
            text = markdown.rewrite_prose(text, lambda prose: prose.replace("$", "\\$"))
        text = self.numbers.insert(f"docs/{name}", text)
        return text + self._see_also(name)

    def linked(self, file: str, page: str, text: str) -> str:
        """The text of a file of the tree with the links of its page on the site."""
        return markdown.rewrite_links(text, lambda target: self.target(file, page, target))

    def target(self, file: str, page: str, target: str) -> str:
        """The target of a link of a file of the tree on its page."""
        if file == "docs/README.md" and target.startswith("#"):
            target = f"README.md{target}"  # its sections are pages of their own
        if target.startswith(SITE):  # a page that is made from other files
            return posixpath.relpath(target.removeprefix(SITE), posixpath.dirname(page) or ".")
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return target
        path, _, anchor = target.partition("#")
        to = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        to_page, anchor = self.page_of(to, anchor) or (to.removeprefix("docs/"), anchor)
        here = posixpath.dirname(page) or "."
        return posixpath.relpath(to_page, here) + (f"#{anchor}" if anchor else "")

    def page_of(self, file: str, anchor: str = "") -> tuple[str, str] | None:
        """The source page that shows a file of the tree, and the anchor in it. None: the link is
        right as it is."""
        if file == "docs/README.md":
            return self.topics.get(anchor, "guides/index.md"), ""
        if file == "README.md":
            return "index.md", ""
        if file.startswith("docs/") and file.endswith((".md", ".png", ".svg")):
            return None
        if file.startswith("include/") and file.count("/") == 1:
            return "api/c.rst", ""
        if file.startswith("include/gnomon/"):
            return self.header_page(file), ""
        source = self.root / file
        if not source.exists():
            return None  # Sphinx reports it
        if source.is_file() and source.stat().st_size > LONGEST_FILE:
            self.tree.copy(f"files/{file}", source)
            return f"files/{file}", ""
        if file not in self.files:
            self.files.append(file)
        if source.is_dir():
            return f"files/{file}/index.md", ""
        return f"files/{file}" + ("" if file.endswith(".md") else ".md"), ""

    def header_page(self, file: str) -> str:
        return "api/cpp/" + file.removeprefix("include/gnomon/").removesuffix(".h") + ".rst"

    def _see_also(self, name: str) -> str:
        """Links from the guide of a header or an encoding to their pages of the site."""
        here = posixpath.dirname(name) or "."
        found = []
        header = f"include/gnomon/{name.removesuffix('.md')}.h"
        if (self.root / header).is_file() and self.tree.has_page(self.header_page(header)[:-4]):
            address = posixpath.relpath(self.header_page(header), here)
            found.append(f"[`{header.removeprefix('include/')}`]({address})")
        folder = posixpath.relpath("encodings", here)
        found += [
            f"[{encodings.prose(e['title'])}]({folder}/{e['name']}.md)"
            for e in self.program.encodings
            if e["page"] == f"docs/{name}"
        ]
        return "\n\n---\n\nOn this site: " + ", ".join(found) + ".\n" if found else ""

    # ---- Guides by topic: the sections of docs/README.md

    def _index_topics(self) -> None:
        text = (self.root / "docs/README.md").read_text(encoding="utf-8")
        self.sections = {"Start": ""}
        for part in re.split(r"^## ", text.partition("\n")[2], flags=re.MULTILINE):
            heading, _, rest = part.partition("\n")
            if part.startswith("\n"):
                self.sections["Start"] = part
            else:
                self.sections[heading.strip()] = rest
        self.sections.pop("Book", None)  # the sidebar has it
        self.topics["book"] = "index.md"
        for heading in self.sections:
            slug = markdown.heading_slug(heading)
            self.topics[slug] = f"guides/{slug}.md"

    def _add_topics(self) -> list[Entry]:
        taken = {page for page in self.tree.pages() if page.startswith(BOOK)}
        entries = []
        for heading, text in self.sections.items():
            page = self.topics[markdown.heading_slug(heading)].removesuffix(".md")
            moved = self.linked("docs/README.md", f"{page}.md", text)
            title = "Getting started" if heading == "Start" else heading
            self.tree.add(f"{page}.md", f"# {title}\n\n{moved.strip()}\n")
            children = []
            for target in markdown.links(text):
                name = target.partition("#")[0].removesuffix(".md")
                if target.endswith(".md") and self.tree.has_page(name) and name not in taken:
                    taken.add(name)
                    children.append(Entry(name))
            entries.append(Entry(page, children=children))
        list_of = "\n".join(
            f"- [{entry.page and markdown.title(self.tree.files[entry.page + '.md'].decode())}]"
            f"({posixpath.basename(entry.page)}.md)"
            for entry in entries
        )
        self.tree.add(
            "guides/index.md",
            f"# Guides\n\nA page for each part of Gnomon, by topic.\n\n{list_of}\n",
        )
        return [Entry("guides/index", "All topics"), *entries]

    # ---- References and files

    def _add_references(self) -> None:
        self.reference = []
        if self.doxygen:
            self.reference += Headers(self.root, self.doxygen, self.tree).add_pages()
        self.reference.append(PythonApi(self.root, self.tree).add_pages())
        self.reference.append(commands.add_pages(self.tree, self.program))
        self.reference.append(javascript_api.add_page(self.tree, self.root))

    def _add_files(self) -> Entry:
        """A page for each linked file that is not a page, and an index of them."""
        pages = []
        at = 0
        while at < len(self.files):  # a folder adds its files
            file = self.files[at]
            at += 1
            source = self.root / file
            if source.is_dir():
                inside = sorted(p for p in source.iterdir() if p.is_file())
                lines = "\n".join(f"- [{p.name}]({self._from_folder(file, p)})" for p in inside)
                self.tree.add(f"files/{file}/index.md", f"# {file}\n\n{lines}\n")
                pages.append((f"{file}/", f"files/{file}/index"))
                continue
            text = source.read_text(encoding="utf-8")
            if source.suffix == ".md":
                self.tree.add(f"files/{file}", self.linked(file, f"files/{file}", text))
                pages.append((file, f"files/{file}".removesuffix(".md")))
                continue
            language = LANGUAGES.get(source.suffix, "text")
            fence = "`" * max(4, *(len(run) + 1 for run in re.findall(r"`+", text) or ["`"]))
            self.tree.add(
                f"files/{file}.md",
                f"# {source.name}\n\nThe file `{file}`.\n\n{fence}{language}\n{text}"
                + ("" if text.endswith("\n") else "\n")
                + f"{fence}\n",
            )
            pages.append((file, f"files/{file}"))
        pages.sort()
        lines = "\n".join(f"- [`{file}`]({page.removeprefix('files/')}.md)" for file, page in pages)
        self.tree.add(
            "files/index.md",
            "# Files\n\nThe files of the source tree that pages of this site link to.\n\n"
            f"{lines}\n",
        )
        children = [Entry(page, file.rsplit("/", 1)[-1] or file) for file, page in pages]
        return Entry("files/index", "Files", children=children)

    def _from_folder(self, folder: str, path: Path) -> str:
        file = path.relative_to(self.root).as_posix()
        page = self.page_of(file)
        assert page is not None
        return posixpath.relpath(page[0], f"files/{folder}")
