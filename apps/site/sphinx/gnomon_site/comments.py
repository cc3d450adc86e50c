"""Comments and docstrings of the tree as reStructuredText. They are plain text: paragraphs, lists
with hyphens, indented lines (formulas and code), names in backticks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection

_CODE = re.compile(r"``(?P<double>[^`]+)``|`(?P<code>[^`\n]+(?:\n[^`\n]+)?)`")
_HEADER = re.compile(r"\bgnomon(?:/\w+)+\.h\b|\bgnomon\.h\b")
_ADDRESS = re.compile(r"https?://[^\s)>]+[^\s)>.,]")
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")

# Names a page that shows a header, or None.
PageOfHeader = Callable[[str], str | None]


def no_page(header: str) -> str | None:
    return None


def escape(text: str) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def inline(text: str, page_of: PageOfHeader = no_page) -> str:
    """A run of prose as reStructuredText."""
    parts, at = [], 0

    def plain(run: str) -> str:
        spots = []
        for match in _HEADER.finditer(run):
            page = page_of(match[0])
            if page:
                spots.append((match.span(), f":doc:`{match[0]} </{page}>`"))
        spots += [(match.span(), match[0]) for match in _ADDRESS.finditer(run)]
        spots += [
            (match.span(), f"`{match[0]} <https://arxiv.org/abs/{match[1]}>`__")
            for match in _ARXIV.finditer(run)
        ]
        out, end = [], 0
        for (begin, stop), new in sorted(spots):
            before = escape(run[end:begin])
            out += [before, separator(before), new]
            end = stop
            if end < len(run) and not re.match(r"[\s.,;:)\]]", run[end]):
                out.append("\\ ")
        return "".join([*out, escape(run[end:])])

    for match in _CODE.finditer(text):
        before = plain(text[at : match.start()])
        code = " ".join((match["double"] or match["code"]).split())
        at = match.end()
        after = "\\ " if re.match(r"[\w(\[*'/]", text[at : at + 1]) else ""
        parts += [before, separator(before), f"``{code}``", after]
    return "".join([*parts, plain(text[at:])])


def separator(before: str) -> str:
    """Marks start after a space or an opening bracket; else `\\ ` separates them."""
    return "\\ " if before and not re.search(r"[\s(\[{<\"'/:-]$", before) else ""


def to_rst(text: str, page_of: PageOfHeader = no_page, names: Collection[str] = ()) -> str:
    """names: parameters and fields. Lines `name: meaning` become a list."""
    return "\n".join(
        block_to_rst(block, page_of, names) for block in blocks(textwrap.dedent(text).strip("\n"))
    )


def blocks(text: str) -> list[list[str]]:
    """Runs of lines: paragraphs, and literal blocks, which keep their indentation."""
    found: list[list[str]] = []
    literal = False
    for line in text.split("\n"):
        line = line.rstrip()
        if not line:
            if found and found[-1]:
                found[-1].append("")
            continue
        deeper = line.startswith("  ")
        fresh = not found or found[-1][-1:] == [""]
        continues = not fresh and found[-1][0].startswith("- ")
        if deeper and literal:
            found[-1].append(line)
        elif deeper and not continues and (fresh or not is_list(found[-1])):
            found.append([line])
            literal = True
        elif fresh or literal or starts_topic(line, found[-1][-1]):
            found.append([line])
            literal = False
        else:
            found[-1].append(line)
    return [strip(block) for block in found if any(block)]


def starts_topic(line: str, before: str) -> bool:
    """Lines like `Shapes: ...` and `Cost: ...` after a full stop begin a paragraph."""
    return bool(re.match(r"[A-Z][a-z-]+( [a-z]+)?: ", line)) and before.endswith(".")


def strip(block: list[str]) -> list[str]:
    while block and not block[-1]:
        block = block[:-1]
    return block


def is_list(block: list[str]) -> bool:
    """Whether deeper lines continue an item of a list, or of `name: meaning`."""
    return bool(re.match(r"(- |\d\. |[a-z_]\w*(, [a-z_]\w*)*: )", block[-1])) or (
        len(block) > 1 and block[-1].startswith("  ") and is_list(block[:-1])
    )


def block_to_rst(block: list[str], page_of: PageOfHeader, names: Collection[str]) -> str:
    if block[0].startswith("  "):
        code = textwrap.indent(textwrap.dedent("\n".join(block)), "   ")
        return f".. code-block:: {language_of(block)}\n\n{code}\n"
    if block[0].startswith("- "):
        items = re.split(r"^- ", "\n".join(block), flags=re.MULTILINE)[1:]
        return "".join(f"- {inline(join(item), page_of)}\n" for item in items)
    entries = named_lines(block, names)
    if entries:
        head = [inline(join("\n".join(entries[0][1])), page_of) + "\n"] if not entries[0][0] else []
        rest = entries[1:] if head else entries
        lines = [f"- ``{name}``: {inline(join(chr(10).join(t)), page_of)}" for name, t in rest]
        return "\n".join([*head, *lines]) + "\n"
    return inline(join("\n".join(block)), page_of) + "\n"


def named_lines(block: list[str], names: Collection[str]) -> list[tuple[str, list[str]]]:
    """Splits a paragraph at lines that begin with `name:` for names that are known."""
    entries: list[tuple[str, list[str]]] = []
    for line in block:
        match = re.match(r"((?:\*?[a-z_]\w*)(?:, [a-z_]\w*)*): (.*)", line)
        if match and all(name.strip("* ") in names for name in match[1].split(",")):
            entries.append((match[1], [match[2]]))
        elif entries:
            entries[-1][1].append(line)
        else:
            entries.append(("", [line]))
    return entries if any(name for name, _ in entries) else []


def join(text: str) -> str:
    return " ".join(text.split())


def language_of(block: list[str]) -> str:
    """Code in a comment is C++ or Python, formulas are text."""
    text = "\n".join(block)
    if re.search(r"^\s*(import |from \w+ import)|\bgnomon\.\w+\(", text, re.MULTILINE):
        return "python"
    if re.search(r";\s*(//.*)?$|::", text, re.MULTILINE):
        return "cpp"
    return "text"
