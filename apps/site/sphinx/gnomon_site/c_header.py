"""Comments of the headers of the C API, which are those of C."""

from __future__ import annotations

import re

from .headers import Item


def plain(comment: str) -> str:
    """The text between /* and */, without the stars of its lines."""
    return "\n".join(re.sub(r"^ \* ?", "", line) for line in comment.strip().split("\n"))


def c_comment(lines: list[str]) -> str:
    """The first comment of the header."""
    match = re.match(r"/\*(.*?)\*/", "\n".join(lines), re.DOTALL)
    if match is None:
        raise ValueError("a header of the C API does not begin with a comment")
    return plain(match[1])


def c_sections(lines: list[str]) -> list[Item]:
    """The headings `/* --- Errors --- */`, and the comments before a condition (#if), without the
    first comment of the header."""
    text = "\n".join(lines)
    found = []
    for match in re.finditer(
        r"^/\* (?:--- (.+?) -+\s*\*/$|((?:(?!\*/).)*?)\*/\n#if)", text, re.MULTILINE | re.DOTALL
    ):
        if match.start() == 0:
            continue
        line = text.count("\n", 0, match.start()) + 1
        if match[1]:
            found.append(Item("heading", line, text=match[1]))
        else:
            found.append(Item("text", line, text=plain(match[2])))
    return found
