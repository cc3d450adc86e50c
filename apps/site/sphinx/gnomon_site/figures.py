"""Figures of the book: an image, its caption and three blocks of code become one element, in which
the program of the page draws."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

TARGET = re.compile(r"(?:book/)?figures/(?P<name>[a-z0-9-]+?)(?:\.zh)?\.png")
CAPTION = re.compile(r"(Figure|图) \d+\.\d+\.")
CODE = {"sh": "Shell", "python": "Python", "cpp": "C++"}
REPRODUCE = {"en": "Reproduce this figure", "zh": "复现这幅图"}

logger = logging.getLogger(__name__)


class gnomon_figure(nodes.General, nodes.Element):
    pass


class gnomon_body(nodes.General, nodes.Element):
    pass


class gnomon_caption(nodes.General, nodes.Element):
    pass


class gnomon_reproduce(nodes.General, nodes.Element):
    pass


class Figures(SphinxTransform):
    default_priority = 300  # before Sphinx collects the images

    def apply(self, **kwargs: object) -> None:
        for paragraph in list(self.document.findall(nodes.paragraph)):
            image = next(iter(paragraph.findall(nodes.image)), None)
            if image is None or len(paragraph.children) != 1:
                continue
            match = TARGET.fullmatch(image["uri"])
            if match:
                self.replace(paragraph, image, match["name"])

    def replace(self, paragraph: nodes.paragraph, image: nodes.image, name: str) -> None:
        siblings = paragraph.parent.children
        at = siblings.index(paragraph)
        following = [node for node in siblings[at + 1 : at + 5]]
        caption, blocks = following[:1], following[1:]
        if not caption or not CAPTION.match(caption[0].astext()):
            self.refuse(paragraph, f"figure {name} has no caption like **Figure 1.2.**")
            return
        if self.env.docname == "index":  # the front page shows a figure of a chapter
            following, blocks = following[:1], []
        languages = [b.get("language") for b in blocks if isinstance(b, nodes.literal_block)]
        if blocks and languages != list(CODE) or not blocks and self.env.docname != "index":
            self.refuse(paragraph, f"figure {name} must be followed by {', '.join(CODE)} blocks")
            return
        language = self.config.gnomon_language
        figure = gnomon_figure(name=name, language=language, ids=[f"fig-{name}"])
        body = gnomon_body(alt=image.get("alt", ""))
        folder = Path(self.env.doc2path(self.env.docname)).parent
        self.env.note_dependency(folder / image["uri"])  # it may come later
        if (folder / image["uri"]).is_file():
            image["classes"].append("gnomon-figure-picture")
            body += image
        text = gnomon_caption()
        text += caption[0].children
        figure += [body, text]
        if blocks:
            box = gnomon_reproduce(summary=REPRODUCE[language])
            box += blocks
            figure += box
        for node in following:
            if node.parent is not None and node in paragraph.parent.children:
                paragraph.parent.remove(node)
        paragraph.replace_self(figure)

    def refuse(self, node: nodes.Node, sentence: str) -> None:
        logger.warning(sentence, location=node, type="gnomon", subtype="figure")


def visit_figure(writer, node) -> None:
    writer.body.append(
        writer.starttag(
            node,
            "figure",
            CLASS="gnomon-figure",
            **{"data-figure": node["name"], "data-language": node["language"]},
        )
    )


def visit_body(writer, node) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="gnomon-figure-body"))
    if not node.children:  # the picture is not there yet
        attributes = {"role": "img", "aria-label": node["alt"]}
        writer.body.append(writer.starttag(node, "span", "", **attributes) + "</span>\n")


def visit_reproduce(writer, node) -> None:
    writer.body.append(writer.starttag(node, "details", CLASS="gnomon-reproduce"))
    writer.body.append(f"<summary>{node['summary']}</summary>\n")


def setup(app: Sphinx) -> None:
    app.add_config_value("gnomon_language", "en", "env")
    app.add_transform(Figures)

    def end(tag: str):
        return lambda writer, node: writer.body.append(f"</{tag}>\n")

    app.add_node(gnomon_figure, html=(visit_figure, end("figure")))
    app.add_node(gnomon_body, html=(visit_body, end("div")))
    app.add_node(
        gnomon_caption,
        html=(lambda writer, node: writer.body.append("<figcaption>"), end("figcaption")),
    )
    app.add_node(gnomon_reproduce, html=(visit_reproduce, end("details")))
