"""Links of the built site, and the pages that are made from the program and the headers."""

from __future__ import annotations

import json
import subprocess

from browsing import program
from check_links import Site


def test_links(site):
    assert Site(site.resolve()).problems() == []


def test_the_checker_finds_problems(tmp_path):
    (tmp_path / "index.html").write_text(
        '<p id="here"><a href="a.html#there">a</a> <a href="gone.html">b</a> <a href="#here">c</a>'
        '<script src="https://example.invalid/x.js"></script><a href="https://example.org">d</a>',
        encoding="utf-8",
    )
    (tmp_path / "a.html").write_text('<p id="other">', encoding="utf-8")
    (tmp_path / "alone.html").write_text("<p>", encoding="utf-8")
    assert Site(tmp_path).problems() == [
        "index.html: a.html#there: no such anchor",
        "index.html: gone.html does not exist",
        "index.html: <script> loads https://example.invalid/x.js",
        "alone.html: no link leads here",
    ]


def test_every_page_is_in_its_sidebar(site):
    missing = []
    for page in site.rglob("*.html"):
        name = page.relative_to(site).as_posix().removeprefix("zh/")
        if name in ("search.html", "index.html"):
            continue
        if (
            'aria-current="page"' not in page.read_text(encoding="utf-8")
            and name != "genindex.html"
        ):
            missing.append(name)
    assert not missing


def test_every_encoding_has_a_page(site):
    listed = json.loads(subprocess.check_output([program(), "list", "--json"]))["encodings"]
    index = (site / "encodings/all.html").read_text(encoding="utf-8")
    for one in listed:
        page = (site / f"encodings/{one['name']}.html").read_text(encoding="utf-8")
        assert f'data-encoding="{one["name"]}"' in page, one["name"]
        assert f'href="{one["name"]}.html"' in index, one["name"]
        guide = one["page"].removeprefix("docs/").replace(".md", ".html")
        assert f"encodings/{one['name']}.html" in (site / guide).read_text(encoding="utf-8")


def test_every_header_has_a_page(site):
    from browsing import ROOT

    for header in (ROOT / "include/gnomon").rglob("*.h"):
        name = header.relative_to(ROOT / "include/gnomon").with_suffix(".html")
        page = (site / "api/cpp" / name).read_text(encoding="utf-8")
        first = header.read_text(encoding="utf-8").split("\n")[0].removeprefix("// ")
        assert first.split("`")[0].split("<")[0].split("&")[0].split("arXiv")[0][:40] in page, (
            header
        )
