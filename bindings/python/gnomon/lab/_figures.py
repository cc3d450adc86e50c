"""The charts of a report, as pictures and files for papers.

A report contains the Vega-Lite spec of each chart. It is read as text: nothing of it is executed.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

from .. import plot
from ..plot import Picture

_LARGEST = 256 << 20  # bytes of a report


class _Figures(HTMLParser):
    """Collects the figures of a report: id, title, caption and spec."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, dict[str, str]] = {}
        self._now: dict[str, str] = {}
        self._key = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "figure":
            self._now = {"title": "", "caption": "", "spec": ""}
        elif tag == "script" and given.get("type") == "application/json" and self._now:
            self.figures[(given.get("id") or "").removesuffix("-spec")] = self._now
            self._key = "spec"
        else:
            self._key = {"h3": "title", "figcaption": "caption"}.get(tag, self._key)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("h3", "figcaption", "script"):
            self._key = ""
        elif tag == "figure":
            self._now = {}

    def handle_data(self, data: str) -> None:
        if self._key in self._now:
            self._now[self._key] += data


def _urls(value: Any) -> Iterator[Any]:
    """The addresses that a Vega-Lite renderer would read."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if key == "url":
            yield one
        if isinstance(one, (dict, list)):
            yield from _urls(one)


def pictures(report: pathlib.Path) -> dict[str, Picture]:
    """Returns the charts of a report by their id, in its order."""
    try:
        if report.stat().st_size > _LARGEST:
            raise ValueError(f"[lab] a report must have at most {_LARGEST} bytes, got "
                             f"{report.stat().st_size}")
        reader = _Figures()
        reader.feed(report.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"[lab] folder must have a report, got {report}: {error}") from error
    config = plot.wavelengths(dim=2, length=2).config  # the colours and fonts of gnomon plot
    found = {}
    for name, figure in reader.figures.items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ValueError("[lab] an id in a report must consist of letters, digits, - and _, "
                             f"got {name[:60]!r}")
        try:
            spec = json.loads(figure["spec"])
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"[lab] the spec of {name} must be JSON, got {error}") from error
        if not isinstance(spec, dict) or any(True for _ in _urls(spec)):
            raise ValueError(f"[lab] the spec of {name} must be an object without url, got "
                             + figure["spec"][:60])
        found[name] = Picture(spec, title=figure["title"], caption=figure["caption"],
                              config=_with_legend(config, spec))
    return found


def _with_legend(config: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The config with as many names in a line of the legend as fit, as the page's script does."""
    hints = spec.get("usermeta", {}).get("gnomon", {})
    letters = hints.get("letters", 0) if isinstance(hints, dict) else 0
    changed = dict(config or {})
    if isinstance(letters, int) and letters > 0:
        names = (plot.DEFAULT_WIDTH - 70) // (7 * letters + 30)
        changed["legend"] = changed.get("legend", {}) | {
            "columns": max(1, names), "layout": {"bottom": {"direction": "vertical"}}}
    return changed


def is_main(name: str) -> bool:
    """Whether a chart compares encodings. Those of one encoding have its number in their id."""
    return re.match(r"(?!sizes-|extension-)[a-z]+(-[a-z]+)*-\d", name) is None


def save(report: pathlib.Path, folder: str | os.PathLike[str], formats: Sequence[str],
         names: Sequence[str] | None, titles: bool) -> list[pathlib.Path]:
    """Writes the charts, as in `LabResults.figures`."""
    every = pictures(report)
    chosen = [name for name in every if is_main(name)] if names is None else list(names)
    if unknown := [name for name in chosen if name not in every]:
        raise ValueError(f"[lab] names must be among {', '.join(every)}, got {unknown[0]}")
    if isinstance(formats, str) or not set(formats) <= {"svg", "pdf", "png", "json"}:
        raise ValueError(f"[lab] formats must be among svg, pdf, png, json, got {formats!r}")
    paths = {pathlib.Path(folder) / f"{name}.{format}": every[name]
             for name in chosen for format in formats}
    for path in paths:
        if path.exists():
            raise ValueError(f"[lab] a figure must be a new file, got {path}")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for path, picture in paths.items():
        (picture if titles else picture.untitled()).save(path)
    return list(paths)
