"""The pages of the C++ and C APIs, from the XML that Doxygen writes for the headers.

Breathe is not used: it sorts the declarations of a header by their kind. The headers are written to
be read from top to bottom, so that a page has the order of its header: its first comment, its
sections, and each struct beside the functions that take it.
"""

from __future__ import annotations

import re
import textwrap
import xml.etree.ElementTree as xml
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from .comments import inline, to_rst
from .tree import Entry, Tree

MODULES = {
    "": "Core", "position": "Positions", "embedding": "Tables for embeddings",
    "rotary": "Rotary encodings", "bias": "Biases", "relative": "Relative vectors",
    "attention": "Attention", "graph": "Graphs", "model": "Models", "analysis": "Analysis",
    "verdicts": "Verdicts", "plot": "Charts", "io": "Files", "cuda": "CUDA devices",
}  # fmt: skip


@dataclass
class Item:
    """A declaration, or a comment that belongs to none (kind 'text')."""

    kind: str
    line: int
    name: str = ""
    scope: str = ""  # gnomon::rotary
    signatures: list[str] = field(default_factory=list)
    text: str = ""
    members: list[Item] = field(default_factory=list)


def text_of(node: xml.Element | None) -> str:
    return " ".join("".join(node.itertext()).split()) if node is not None else ""


def documentation(node: xml.Element) -> str:
    found = []
    for part in ("briefdescription", "detaileddescription"):
        for verbatim in node.findall(f"{part}//verbatim"):
            lines = re.sub(
                r"^ *(//[/!]<?|\*(?= |$)) ?", "", verbatim.text or "", flags=re.MULTILINE
            ).split("\n")
            found.append("\n".join([lines[0].strip(), *lines[1:]]).rstrip())
    return "\n\n".join(found)


def tidy(code: str) -> str:
    """Doxygen writes `std::vector< double >`."""
    code = code.replace("GNOMON_HOST_DEVICE ", "")
    # Sphinx does not read designated initializers; the header shows them.
    code = re.sub(r" ?= ?\{\.[^{}]*\}(?=[,)]|$)", "", code)
    code = re.sub(r"(?<=\d) ?'(?=\d{3})", "", code)
    code = re.sub(r"\s*<\s+", "<", code)
    code = re.sub(r"\s+>", ">", code)
    code = re.sub(r"(?<=[\w>]) +([*&]+)(?=[ )>,.]|$)", r"\1", code)
    code = re.sub(r"\s*=\s*(default|delete|0)$", r" = \1", code)
    return re.sub(r" {2,}", " ", code).strip()


def template_of(node: xml.Element) -> str:
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    parts = []
    for one in parameters.findall("param"):
        part = text_of(one.find("type"))
        name = text_of(one.find("declname"))
        if name and not part.endswith(name):
            part += f" {name}"
        if one.find("defval") is not None:
            part += f" = {text_of(one.find('defval'))}"
        parts.append(part)
    requires = text_of(node.find("requiresclause"))
    prefix = f"template<{', '.join(parts)}> "
    return prefix + (f"requires ({requires}) " if requires else "")


class Xml:
    """Declarations of all headers, by the path below include/."""

    def __init__(self, folder: Path) -> None:
        self.items: dict[str, list[Item]] = defaultdict(list)
        self.compounds: dict[str, xml.Element] = {}
        for file in sorted(folder.glob("*.xml")):
            for compound in xml.parse(file).getroot().findall("compounddef"):
                self.compounds[compound.get("id", "")] = compound
        self.class_names = {
            text_of(compound.find("compoundname"))
            for compound in self.compounds.values()
            if compound.get("kind") in ("struct", "class", "union")
        }
        nested = {
            inner.get("refid")
            for compound in self.compounds.values()
            if compound.get("kind") in ("struct", "class", "union")
            for inner in compound.findall("innerclass")
        }
        seen: set[str] = set()
        for identifier, compound in self.compounds.items():
            kind = compound.get("kind")
            if kind in ("struct", "class", "union"):
                specialised = "<" in text_of(compound.find("compoundname"))
                if identifier not in nested and not specialised:
                    self._add(compound, self._class(compound))
            elif kind in ("namespace", "file"):
                for member in compound.findall("sectiondef/memberdef"):
                    if member.get("id") not in seen:
                        seen.add(member.get("id", ""))
                        scope = text_of(compound.find("compoundname"))
                        item = self._member(member, scope if kind == "namespace" else "")
                        if item:
                            self._add(member, item)

    def _add(self, node: xml.Element, item: Item) -> None:
        location = node.find("location")
        assert location is not None
        self.items[location.get("file", "")].append(item)

    def _line(self, node: xml.Element) -> int:
        location = node.find("location")
        return int(location.get("line", "0")) if location is not None else 0

    def _class(self, compound: xml.Element) -> Item:
        full = text_of(compound.find("compoundname"))
        scope, _, name = full.rpartition("::")
        bases = [
            tidy(f"{base.get('prot')} {text_of(base)}")
            for base in compound.findall("basecompoundref")
        ]
        signature = tidy(template_of(compound) + name)
        if bases:
            signature += " : " + ", ".join(bases)
        item = Item(
            compound.get("kind", "struct"), self._line(compound), name, scope, [signature],
            documentation(compound),
        )  # fmt: skip
        for member in compound.findall("sectiondef/memberdef"):
            if member.get("prot") == "public":
                made = self._member(member, full)
                if made:
                    item.members.append(made)
        for inner in compound.findall("innerclass"):
            if inner.get("prot") == "public" and inner.get("refid") in self.compounds:
                item.members.append(self._class(self.compounds[inner.get("refid", "")]))
        item.members.sort(key=lambda member: member.line)
        return item

    def _member(self, node: xml.Element, scope: str) -> Item | None:
        kind = node.get("kind", "")
        name = text_of(node.find("name"))
        type_text = tidy(text_of(node.find("type")))
        arguments = tidy(text_of(node.find("argsstring")))
        initializer = text_of(node.find("initializer"))
        item = Item(kind, self._line(node), name, scope, [], documentation(node))
        if "<" in name and not name.startswith("operator"):
            return None  # a specialisation
        if kind in ("function", "friend"):
            # Comparisons and copies that the compiler writes say nothing.
            if re.search(r"= ?(default|delete)$", arguments) and not item.text:
                return None
            words = [word for word in ("static", "explicit") if node.get(word) == "yes"]
            type_text = re.sub(r"\b(inline|friend)\b ?", "", type_text)
            words += [type_text] if type_text else []
            item.kind = "function"
            item.signatures = [template_of(node) + tidy(" ".join([*words, name + arguments]))]
        elif kind == "variable":
            start = f" {initializer}" if initializer and len(initializer) < 60 else ""
            static = "static " if node.get("static") == "yes" else ""
            item.signatures = [tidy(f"{static}{type_text} {name}{arguments}{start}")]
        elif kind == "typedef":
            definition = text_of(node.find("definition"))
            if re.fullmatch(rf"(struct|enum) {name}", type_text):  # C: typedef struct a {...} a;
                if type_text.startswith("enum") or name in self.class_names:
                    return None
                item.kind = "struct"
                item.signatures = [name]
                return item
            if definition.startswith("using"):
                item.signatures = [template_of(node) + tidy(f"{name} = {type_text}")]
            else:
                item.signatures = [tidy(f"{type_text} {name}{arguments}")]
        elif kind == "enum":
            item.kind = "enum-class" if node.get("strong") == "yes" else "enum"
            item.signatures = [name]
            for value in node.findall("enumvalue"):
                value_name = text_of(value.find("name"))
                start = text_of(value.find("initializer"))
                signature = f"{value_name} {start}".strip()
                item.members.append(
                    Item("enumerator", 0, value_name, "", [signature], documentation(value))
                )
        elif kind == "define":
            if name.endswith("_H_"):
                return None
            item.signatures = [name]
        else:
            return None
        return item


def source_texts(lines: list[str]) -> tuple[str, list[Item]]:
    """The first comment of a header, and its comments that belong to no declaration."""
    first: list[str] = []
    at = 0
    while at < len(lines) and lines[at].startswith("//"):
        first.append(lines[at][2:].removeprefix(" "))
        at += 1
    found = []
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].startswith("//"):
            end += 1
        if end > at:
            text = "\n".join(line[2:].removeprefix(" ") for line in lines[at:end])
            free = end < len(lines) and lines[end].strip() == ""
            if text.startswith("----") or free:
                found.append(Item("text", at + 1, text=text))
        at = max(end, at + 1)
    return "\n".join(first), found


DIRECTIVES = {
    "function": "function", "variable": "member", "typedef": "type", "enum": "enum",
    "enum-class": "enum-class", "enumerator": "enumerator", "struct": "struct", "class": "class",
    "union": "union", "define": "macro",
}  # fmt: skip


class Headers:
    def __init__(self, root: Path, xml_folder: Path, tree: Tree) -> None:
        self.root = root
        self.xml = Xml(xml_folder)
        self.tree = tree
        include = root / "include"
        self.headers = sorted(p.relative_to(include).as_posix() for p in include.rglob("*.h"))

    def page_of(self, header: str) -> str | None:
        if header not in self.headers:
            return None
        return "api/c" if is_c(header) else self.name_of(header)

    def name_of(self, header: str) -> str:
        return "api/cpp/" + header.removeprefix("gnomon/").removesuffix(".h")

    def add_pages(self) -> list[Entry]:
        """Adds all pages. Returns the lines of the sidebar for C++ and C."""
        by_module: dict[str, list[str]] = defaultdict(list)
        for header in self.headers:
            if not is_c(header):
                module = header.split("/")[1] if header.count("/") == 2 else ""
                by_module[module].append(header)
        unknown = set(by_module) - set(MODULES)
        if unknown:
            raise ValueError(f"modules without a title in headers.py: {', '.join(unknown)}")
        entries = []
        rows = []
        for module, title in MODULES.items():
            if module not in by_module:
                continue
            page = f"api/cpp/{module or 'core'}-module"
            pages = []
            for header in by_module[module]:
                self.tree.add(f"{self.name_of(header)}.rst", self.page(header))
                pages.append(Entry(self.name_of(header), header.rsplit("/", 1)[1]))
            self.tree.add(f"{page}.rst", self.module_page(title, by_module[module]))
            entries.append(Entry(page, title, children=pages))
            rows.append(f"- :doc:`{title} </{page}>`: {len(pages)} headers")
        self.tree.add(
            "api/cpp/index.rst",
            heading("C++", "=")
            + "The public headers, by module. :doc:`Design </design>` describes the modules,"
            " :doc:`Components </components>` the libraries to link.\n\n" + "\n".join(rows) + "\n",
        )
        self.tree.add("api/c.rst", self.c_page())
        return [Entry("api/cpp/index", "C++", children=entries), Entry("api/c", "C")]

    def module_page(self, title: str, headers: list[str]) -> str:
        rows = []
        for header in headers:
            comment, _ = source_texts(self.lines(header))
            first = comment.split("\n\n")[0].replace("\n", " ").split(": ")[0]
            sentence = re.split(r"(?<=[a-z0-9)])\. ", first)[0].rstrip(".")
            rows.append(f":doc:`{header} </{self.name_of(header)}>`\n   {inline(sentence)}.\n")
        return heading(title, "=") + "\n".join(rows)

    def lines(self, header: str) -> list[str]:
        return (self.root / "include" / header).read_text(encoding="utf-8").split("\n")

    def guide_of(self, header: str) -> str | None:
        name = header.removeprefix("gnomon/").removesuffix(".h")
        return name if (self.root / "docs" / f"{name}.md").is_file() else None

    def page(self, header: str) -> str:
        lines = self.lines(header)
        comment, texts = source_texts(lines)
        items = sorted([*self.xml.items[header], *texts], key=lambda item: item.line)
        guide = self.guide_of(header)
        parts = [heading(header, "="), to_rst(comment, self.page_of)]
        parts.append(f'.. code-block:: cpp\n\n   #include "{header}"\n')
        if guide:
            parts.append(f"Guide: :doc:`/{guide}`.\n")
        scope = ""
        for item in grouped(items, lines):
            if item.kind == "text":
                parts.append(self.free_text(item.text))
                continue
            if item.scope != scope:
                scope = item.scope
                parts.append(f".. cpp:namespace:: {scope or 'NULL'}\n")
            parts.append(self.declaration(item, "cpp"))
        return "\n".join(parts)

    def free_text(self, text: str) -> str:
        """A comment that starts with hyphens is a heading: its first sentence."""
        if not text.startswith("----"):
            return to_rst(text, self.page_of)
        title, _, rest = text.lstrip("- ").replace("\n", " ").partition(". ")
        return heading(title.rstrip(". -"), "-") + to_rst(rest, self.page_of)

    def declaration(self, item: Item, domain: str) -> str:
        directive = DIRECTIVES[item.kind]
        domain = "c" if directive == "macro" else domain
        start = f".. {domain}:{directive}:: "
        lines = [start + item.signatures[0]]
        lines += [" " * len(start) + signature for signature in item.signatures[1:]]
        parts = ["\n".join(lines) + "\n"]
        if item.text:
            parts.append(textwrap.indent(to_rst(item.text, self.page_of), "   "))
        for member in grouped(item.members, []):
            parts.append(textwrap.indent(self.declaration(member, domain), "   "))
        return "\n".join(parts)

    def c_page(self) -> str:
        from .c_header import c_comment, c_sections

        parts = []
        for header in sorted(filter(is_c, self.headers), key=lambda name: name != "gnomon.h"):
            lines = self.lines(header)
            parts.append(heading(header, "-") if parts else heading("C", "="))
            parts.append(to_rst(c_comment(lines), self.page_of))
            if header == "gnomon.h":
                parts.append("Guide: :doc:`/c`.\n")
            items = [*self.xml.items[header], *c_sections(lines)]
            for item in sorted(items, key=lambda item: item.line):
                if item.kind == "heading":
                    parts.append(heading(item.text, "-"))
                elif item.kind == "text":
                    parts.append(to_rst(item.text))
                else:
                    parts.append(self.declaration(item, "c"))
        return "\n".join(parts)


def is_c(header: str) -> bool:
    """Whether a path below include/ is a header of the C API."""
    return "/" not in header


def grouped(items: list[Item], lines: list[str]) -> list[Item]:
    """Joins overloads that share a comment, and members of one line."""
    found: list[Item] = []
    last_line = 0
    for item in items:
        previous = found[-1] if found else None
        if previous and previous.kind == item.kind and not item.text and not item.members:
            same_line = item.line == last_line and item.kind == "variable"
            overload = item.kind == "function" and item.name == previous.name
            if (same_line or overload) and previous.scope == item.scope:
                previous.signatures += item.signatures
                last_line = item.line
                continue
        found.append(
            Item(
                item.kind,
                item.line,
                item.name,
                item.scope,
                list(item.signatures),
                item.text,
                item.members,
            )  # fmt: skip
        )
        last_line = item.line
    return found


def heading(title: str, mark: str) -> str:
    return f"{inline(title)}\n{mark * (len(title) + 4)}\n\n"
