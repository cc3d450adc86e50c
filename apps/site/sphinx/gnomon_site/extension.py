"""The extension of Sphinx: figures, formulas, the sidebar and search."""

from __future__ import annotations

from sphinx.application import Sphinx

from . import figures, formulas, search, sidebar


def setup(app: Sphinx) -> dict:
    for part in (figures, formulas, search, sidebar):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
