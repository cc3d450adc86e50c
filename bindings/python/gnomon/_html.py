"""HTML of tables and images, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plot import Picture

Bundle = dict[str, Any]


def text_of(value: Any) -> str:
    """The text of a field."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"{len(value)} values, {text_of(value[0])} to {text_of(value[-1])}"
    return "" if value is None else str(value)


def bundle(text: str, html: str) -> Bundle:
    """The forms of an object, by MIME type, for `_repr_mimebundle_`."""
    return {"text/plain": text, "text/html": html}


def image(picture: Picture | None) -> str:
    """A static image; empty without vl-convert-python."""
    for kind, data in (picture.image() if picture is not None else {}).items():
        if kind == "image/svg+xml":
            return data.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
        return f'<img style="max-width:100%;width:640px" src="data:{kind};base64,{data}">'
    return ""


_CELL = 'style="text-align:left;vertical-align:top;white-space:pre-wrap"'


def _cells(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag} {_CELL}>{escape(one)}</{tag}>" for one in cells) + "</tr>"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a header."""
    caption = f"<p><b>{escape(title)}</b></p>" if title else ""
    body = "".join(_cells("td", row) for row in rows)
    return (f'{caption}<div style="overflow-x:auto"><table><thead>{_cells("th", columns)}</thead>'
            f"<tbody>{body}</tbody></table></div>")


def pairs(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of names and values."""
    body = "".join(f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(text)}</td></tr>"
                   for name, text in rows)
    return (f'<p><b>{escape(title)}</b></p><div style="overflow-x:auto"><table><tbody>{body}'
            "</tbody></table></div>")
