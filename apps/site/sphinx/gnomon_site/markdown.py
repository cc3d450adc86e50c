"""Rewrites links of Markdown pages, and nothing in their code."""

from __future__ import annotations

import re
from collections.abc import Callable

# A fence, a code span, an HTML comment, or a link. Alternatives are tried in this order, so that
# a link within code is not seen.
_TOKEN = re.compile(
    r"(?P<fence>^(?P<mark>```+|~~~+)[^\n]*\n.*?^(?P=mark)[ \t]*$)"
    r"|(?P<indented>(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*(?:\n|\Z)(?:[ \t]*\n(?= {4}))*)+)"
    r"|(?P<code>(?P<tick>`+)(?!`)(?:.|\n(?!\n))+?(?<!`)(?P=tick)(?!`))"
    r"|(?P<comment><!--.*?-->)"
    r"|(?P<html><a [^>]*href=\"(?P<href>[^\"]*)\"[^>]*>)"
    r"|(?P<image>!\[(?P<alt>[^\]]*)\]\((?P<source>[^)\s]+)\))"
    r"|\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_FULL = re.compile(
    r"\[(?P<text>(?:`[^`]*`|!\[[^\]]*\]\([^)]*\)|[^\[\]`])*)\]\((?P<target>[^)\s]+)\)"
)


def rewrite_links(text: str, new: Callable[[str], str]) -> str:
    """Returns the page with each target of a link replaced by new(target)."""

    def one(match: re.Match[str]) -> str:
        if match["target"] is not None:
            return f"]({new(match['target'])})"
        if match["html"] is not None:
            return match["html"].replace(f'"{match["href"]}"', f'"{new(match["href"])}"')
        return match[0]

    return _TOKEN.sub(one, text)


def rewrite_prose(text: str, new: Callable[[str], str]) -> str:
    """Returns the page with each run of text outside of code replaced by new(run)."""
    parts, at = [], 0
    for match in _TOKEN.finditer(text):
        if match["fence"] or match["indented"] or match["code"]:
            parts += [new(text[at : match.start()]), match[0]]
            at = match.end()
    return "".join([*parts, new(text[at:])])


def links(text: str) -> list[str]:
    """Returns the targets of the links of a page, in order."""
    found: list[str] = []

    def one(target: str) -> str:
        found.append(target)
        return target

    rewrite_links(text, one)
    return found


def link_to_html(text: str, is_other: Callable[[str], str | None]) -> str:
    """Returns the page with the links that is_other gives an address as HTML: links to another
    site, whose pages Sphinx does not know."""

    def run(prose: str) -> str:
        def one(match: re.Match[str]) -> str:
            address = is_other(match["target"])
            if address is None or (match.start() and prose[match.start() - 1] == "!"):
                return match[0]
            return f'<a class="reference external" href="{address}">{match["text"]}</a>'

        return _FULL.sub(one, prose)

    # Code spans within the text of a link belong to the link: only blocks of code are left out.
    parts, at = [], 0
    for match in _TOKEN.finditer(text):
        if match["fence"] or match["indented"]:
            parts += [run(text[at : match.start()]), match[0]]
            at = match.end()
    return "".join([*parts, run(text[at:])])


def title(text: str) -> str:
    """Returns the text of the first heading, without marks."""
    match = re.search(r"^# +(.+?) *$", text, re.MULTILINE)
    if match is None:
        raise ValueError("a page without a heading: " + text[:60])
    return re.sub(r"[`*]", "", match[1])


def heading_slug(heading: str) -> str:
    """The anchor that code hosts give a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.lower())
    return text.strip().replace(" ", "-")
