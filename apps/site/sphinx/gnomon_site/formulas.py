"""Formulas as MathML, converted when the site is built: a page needs no script for them."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(latex: str, display: str, node: nodes.Node) -> str:
    try:
        return convert(latex.strip(), display=display)
    except Exception as error:  # latex2mathml raises its own classes, IndexError and others
        logger.warning(
            "formula that is not converted (%s): %s",
            type(error).__name__,
            latex,
            location=node,
            type="gnomon",
            subtype="formula",
        )
        return ""


def visit_inline(writer, node) -> None:
    writer.body.append(mathml(node.astext(), "inline", node))
    raise nodes.SkipNode


def visit_block(writer, node) -> None:
    # A wide formula scrolls in its own box; the box can be reached with the keyboard.
    writer.body.append('<div class="gnomon-formula" tabindex="0">')
    writer.body.append(mathml(node.astext(), "block", node))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
