"""The English and the Chinese book have the same sections, figures, numbers and code."""

from __future__ import annotations

import re

import pytest
from book import DOCS, Chapter, chapter, chapters

PAIRS = sorted([*DOCS.glob("*.zh.md"), *DOCS.glob("book/*.zh.md")])


def differences(english: Chapter, chinese: Chapter) -> list[str]:
    return [
        f"{what}: {ours} and {theirs}"
        for what, ours, theirs in (
            ("headings", english.headings, chinese.headings),
            ("figures", english.images, chinese.images),
            ("numbers", sorted(english.markers), sorted(chinese.markers)),
            ("blocks of code", english.fences, chinese.fences),
            ("figure numbers", [f["number"] for f in english.figures],
             [f["number"] for f in chinese.figures]),
        )
        if ours != theirs
    ]  # fmt: skip


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: p.name)
def test_both_have_the_same_parts(path):
    assert differences(chapter(path.with_name(path.name.replace(".zh", ""))), chapter(path)) == []


def test_every_chapter_has_both_languages():
    names = {one.path.name for one in chapters()}
    english = {name for name in names if ".zh." not in name}
    assert len(english) == 8
    assert {name.replace(".md", ".zh.md") for name in english} == names - english


def test_figures_are_complete():
    """Each picture has a caption and three blocks; its names have the language of the page."""
    wrong = []
    for one in chapters():
        chinese = ".zh." in one.path.name
        for name in one.images:
            match = next((f for f in one.figures if f["name"] == name), None)
            if match is None:
                wrong.append(f"{one.path.name}: {name} lacks its caption or a block")
            elif (match["zh"] is not None) != chinese or (match["caption"] == "图") != chinese:
                wrong.append(f"{one.path.name}: {name} is not in the language of the page")
    assert not wrong


def test_figures_are_numbered():
    for one in chapters():
        number = int(one.path.name.split("-")[0])
        expected = [f"{number}.{i}" for i in range(1, len(one.images) + 1)]
        assert [figure["number"] for figure in one.figures] == expected, one.path.name


def test_pages_link_to_each_other(site):
    for path in PAIRS:
        name = path.relative_to(DOCS).as_posix().replace(".zh.md", ".html")
        english = (site / name).read_text(encoding="utf-8")
        chinese = (site / "zh" / name).read_text(encoding="utf-8")
        up = "../" * name.count("/")
        assert re.search(r'<html[^>]* lang="en"', english) and 'lang="zh-CN"' in english
        assert re.search(r'<html[^>]* lang="zh-CN"', chinese)
        assert english.count(f'href="{up}zh/{name}"') >= 2, name
        assert chinese.count(f'href="{up}../{name}"') >= 2, name


def test_a_difference_is_found():
    def made(text: str) -> Chapter:
        return Chapter(DOCS / "a.md", text)

    one = made("# A\n\n## B\n\n```sh\n# not a heading\n```\n\n1<!-- a.b -->\n")
    assert differences(one, one) == []
    assert len(differences(one, made("# A\n\n### B\n\n```cpp\n```\n\n2<!-- a.c -->\n"))) == 3
