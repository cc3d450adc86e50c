"""The page of the JavaScript package, from its declarations (bindings/wasm/index.d.ts)."""

from __future__ import annotations

import re
from pathlib import Path

from .encodings import prose
from .tree import Entry, Tree


def add_page(tree: Tree, root: Path) -> Entry:
    path = root / "bindings/wasm/index.d.ts"
    text = path.read_text(encoding="utf-8")
    head = re.match(r"(?://[^\n]*\n)+", text)
    if head is None:
        raise ValueError(f"{path} does not begin with a comment")
    parts = ["# JavaScript\n", first_comment(head[0])]
    parts.append("Guide: [the JavaScript package](../wasm.md).\n")
    seen: dict[str, str] = {}
    for one in declarations(text[head.end() :]):
        match = re.search(
            r"^export (?:declare )?(?:interface|class|function|type|const) (\w+)", one, re.MULTILINE
        )
        name = match[1] if match else ""
        if name in seen:  # an interface in several parts
            seen[name] += "\n" + one
        else:
            seen[name] = one
    for name, code in seen.items():
        parts.append(f"## {name}\n\n```typescript\n{code.strip()}\n```\n")
    tree.add("api/javascript.md", "\n".join(parts))
    return Entry("api/javascript", "JavaScript")


def first_comment(text: str) -> str:
    """Paragraphs, and indented lines as code."""
    lines = [line[2:].removeprefix(" ") for line in text.strip().split("\n")]
    parts: list[str] = []
    for block in re.split(r"\n\n+", "\n".join(lines)):
        if block.startswith("  "):
            code = "\n".join(line.removeprefix("  ") for line in block.split("\n"))
            parts.append(f"```javascript\n{code}\n```\n")
        else:
            parts.append(prose(block) + "\n")
    return "\n".join(parts)


def declarations(text: str) -> list[str]:
    """The exported declarations, each with the comment before it."""
    starts = [
        m.start()
        for m in re.finditer(
            r"^(?:/\*\*(?:(?!\*/).)*?\*/\n)?export ", text, re.MULTILINE | re.DOTALL
        )
    ]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
