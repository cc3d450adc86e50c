"""Filter of Doxygen for the headers of Gnomon: plain comments become comments of Doxygen.

    // About a      ->  /// \\verbatim About a \\endverbatim
    int a;  // it   ->  int a;  ///< \\verbatim it \\endverbatim

The text stays as it is (verbatim), because it is not written for Doxygen; gnomon_site/comments.py
formats it. The number of lines does not change. Comments that are followed by an empty line belong
to no declaration, and stay as they are; gnomon_site/headers.py reads them itself. The C header has
the comments of C, which become comments of Doxygen in the same way.
"""

import re
import sys
from pathlib import Path

LINE = re.compile(r"^(?P<space> *)//(?P<text>.*)$")
# A comment after code. The code has no string with two slashes, except in #include lines.
AFTER = re.compile(r'^(?P<code> *[^ /#](?:[^/"]|/(?!/)|"[^"]*")*?)(?P<space> +)// ?(?P<text>.*)$')


def filtered(lines: list[str]) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        after = AFTER.match(lines[at])
        before = LINE.match(lines[at])
        if after:
            column = len(after["code"]) + len(after["space"])
            end = at + 1
            while end < len(lines) and re.match(rf"^ {{{column}}}//", lines[end]):
                end += 1
            texts = [after["text"]] + [lines[i][column + 2 :] for i in range(at + 1, end)]
            marked = verbatim(texts, "///< ")
            out.append(after["code"] + after["space"] + marked[0])
            out += [" " * column + text for text in marked[1:]]
            at = end
        elif before:
            end = at
            while end < len(lines) and (match := LINE.match(lines[end])):
                if match["space"] != before["space"]:
                    break
                end += 1
            attached = end < len(lines) and lines[end].strip() not in ("", "}", "#pragma once")
            section = before["text"].startswith(" ----")
            if attached and not section:
                texts = [LINE.match(line)["text"] for line in lines[at:end]]
                out += [before["space"] + text for text in verbatim(texts, "/// ")]
            else:
                out += lines[at:end]
            at = end
        else:
            out.append(lines[at])
            at += 1
    return out


def verbatim(texts: list[str], mark: str) -> list[str]:
    lines = [mark + text.rstrip() for text in texts]
    lines[0] = mark + "\\verbatim" + (" " + texts[0].strip())
    lines[-1] += " \\endverbatim"
    return lines


C_BEFORE = re.compile(
    r"^(?P<space> *)/\* (?!---)(?P<text>(?:(?!\*/).)*)\*/$\n(?=[^\n#])", re.DOTALL | re.MULTILINE
)
C_AFTER = re.compile(r"(?P<code>^.*\S +)/\* (?P<text>[^*]*(?:\n +\* [^*]*)?)\*/$", re.MULTILINE)


def filtered_c(text: str) -> str:
    first = text.index("*/") + 2  # of the file
    head, text = text[:first], text[first:]
    text = C_AFTER.sub(r"\g<code>/**< \\verbatim \g<text>\\endverbatim */", text)
    return head + C_BEFORE.sub(r"\g<space>/** \\verbatim \g<text>\\endverbatim */\n", text)


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(
        filtered_c(text) if text.startswith("/*") else "\n".join(filtered(text.split("\n")))
    )
