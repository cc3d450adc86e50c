"""The sidebar: sections with captions, from site.json. Sphinx's own tree would put every page of
the site into every page."""

from __future__ import annotations

import html
import json
import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

ARROW = '<span class="icon"><svg><use href="#svg-arrow-right"></use></svg></span>'
TOGGLE = {"en": "Show the pages below {}", "zh": "展开“{}”"}


class Sidebar:
    """HTML of the sidebar of a page. A page shows the first lines of all sections, all lines but
    the third level of its own section, and everything on its own path."""

    def __init__(self, sections: list[dict], titles: dict[str, str], language: str) -> None:
        self.sections = sections
        self.titles = titles
        self.language = language
        self.count = 0

    def of(self, page: str, address) -> str:
        """address: the function that gives the relative address of a page."""
        self.count = 0
        parts = []
        for section in self.sections:
            own = any(self.holds(entry, page) for entry in section["entries"])
            parts.append(
                f'<p class="caption" role="heading" aria-level="2"><span class="caption-text">'
                f"{html.escape(section['caption'])}</span></p>\n"
            )
            parts.append(self.lines(section["entries"], page, address, 1, own))
        return "".join(parts)

    def holds(self, entry: dict, page: str) -> bool:
        return entry["page"] == page or any(self.holds(c, page) for c in entry["children"])

    def lines(self, entries: list[dict], page: str, address, level: int, own: bool) -> str:
        parts = ["<ul>\n"]
        for entry in entries:
            current = self.holds(entry, page)
            below = entry["children"] and (current or (own and level == 1))
            classes = [f"toctree-l{level}"]
            classes += ["current"] if current else []
            classes += ["has-children"] if below else []
            classes += ["current-page"] if entry["page"] == page else []
            link = "current reference internal" if current else "reference internal"
            here = ' aria-current="page"' if entry["page"] == page else ""
            title = html.escape(entry["title"] or self.titles.get(entry["page"], entry["page"]))
            href = address(entry)
            parts.append(
                f'<li class="{" ".join(classes)}"><a class="{link}" href="{href}"{here}>{title}</a>'
            )
            if below:
                self.count += 1
                name = f"toctree-checkbox-{self.count}"
                label = TOGGLE[self.language].format(title)
                checked = " checked" if current else ""
                parts.append(
                    f'<input class="toctree-checkbox" id="{name}" name="{name}" role="switch"'
                    f' type="checkbox" aria-label="{label}"{checked}>'
                    f'<label for="{name}">{ARROW}</label>'
                )
                parts.append(self.lines(entry["children"], page, address, level + 1, own))
            parts.append("</li>\n")
        return "".join([*parts, "</ul>\n"])


def site_of(app: Sphinx) -> dict:
    if not hasattr(app, "gnomon_site"):
        text = (Path(app.srcdir) / "site.json").read_text(encoding="utf-8")
        app.gnomon_site = json.loads(text)
    return app.gnomon_site


SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)


def accessible(body: str) -> str:
    """Code and tables that are wider than the page can be reached with the keyboard. The lines of
    a signature are no list of definitions."""

    def signature(match: re.Match[str]) -> str:
        lines = match[0].replace("<dl>", '<span class="gnomon-lines">').replace("</dl>", "</span>")
        return lines.replace("<dd>", "<span>").replace("</dd>", "</span>")

    body = re.sub(
        r'<(pre(?=>)|table(?=>)|div class="table-wrapper[^"]*")', r'<\1 tabindex="0"', body
    )
    return SIGNATURE.sub(signature, body)


def before_theme(app, pagename, templatename, context, doctree) -> None:
    context.pop("toctree", None)  # the theme would compute its own tree


def after_theme(app, pagename, templatename, context, doctree) -> None:
    site = site_of(app)
    up = "../" * pagename.count("/")
    here = posixpath.dirname(pagename) or "."

    def address(entry: dict) -> str:
        if entry["href"]:
            return up + entry["href"]
        return posixpath.relpath(f"{entry['page']}.html", here)

    titles = {page: node.astext() for page, node in app.env.titles.items()}
    sidebar = Sidebar(site["navigation"], titles, site["language"])
    context["furo_navigation_tree"] = sidebar.of(pagename, address)
    # The scripts, their data and their styles lie once, in the folder of the English pages.
    chinese = site["language"] == "zh"
    context["gnomon_static"] = up + ("../" if chinese else "") + "_static/"
    context["gnomon_other"] = ""
    if pagename in site["counterparts"]:
        other = f"{pagename}.html"
        context["gnomon_other"] = up + (f"../{other}" if chinese else f"zh/{other}")
    context["gnomon_language"] = site["language"]
    context["body"] = accessible(context.get("body", ""))


def remove_old_pages(app: Sphinx, exception: Exception | None) -> None:
    """Sphinx keeps the HTML of a page whose source is gone."""
    if exception is not None:
        return
    out = Path(app.outdir)
    kept = {f"{page}.html" for page in app.env.found_docs} | {"search.html"}
    kept |= {"genindex.html"} if app.config.html_use_index else set()
    for file in out.rglob("*.html"):
        name = file.relative_to(out).as_posix()
        if name not in kept and not name.startswith(("_static/", "zh/")):
            file.unlink()


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", before_theme, priority=400)
    app.connect("html-page-context", after_theme, priority=600)
    app.connect("build-finished", remove_old_pages)
