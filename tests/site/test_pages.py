"""Every page at the widths of a phone and a desktop: no errors, no scrolling sideways, headings."""

from __future__ import annotations

import pytest
from browsing import ROOT, Tab, all_pages, pages_with

SCREENSHOTS = ROOT / "build/site-screenshots"

# What is wrong with a page that is loaded: {width, headings}.
LOOK = """() => ({
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  headings: [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(h => Number(h.tagName[1])),
  title: document.title,
  language: document.documentElement.lang,
})"""


def heading_problems(levels: list[int]) -> list[str]:
    found = []
    if levels.count(1) != 1:
        found.append(f"{levels.count(1)} headings of the first level")
    if levels and levels[0] != 1:
        found.append("the first heading is not of the first level")
    for before, after in zip(levels, levels[1:], strict=False):
        if after > before + 1:
            found.append(f"a heading of level {after} after one of level {before}")
    return found


def problems_of(tab: Tab, url: str, page: str) -> list[str]:
    found = tab.open(url)
    look = tab.page.evaluate(LOOK)
    if look["wide"] > 0:
        found.append(f"{look['wide']} pixels wider than the window")
    found += heading_problems(look["headings"])
    if not look["title"]:
        found.append("no title")
    if look["language"] != ("zh-CN" if page.startswith("zh/") else "en"):
        found.append(f"its language is {look['language']}")
    return [f"{page}: {one}" for one in found]


@pytest.mark.parametrize("width", [390, 1280])
def test_every_page(browser, address, width):
    tab = Tab(browser, width)
    found = []
    for page in all_pages():
        found += problems_of(tab, f"{address}/{page}", page)
    tab.page.close()
    assert not found, "\n".join(found)


def test_files(browser, site):
    """The same pages without a server: figures, the playground, search."""
    tab = Tab(browser)
    found = []
    sample = [*pages_with('class="gnomon-figure"')[:4], "index.html", "zh/index.html",
              "book/playground.html", "book/reader.html", "encodings/rotary.html",
              "api/cpp/rotary/rotary.html"]  # fmt: skip
    for page in sample:
        found += problems_of(tab, (site / page).as_uri(), page)
    tab.page.close()
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("page", "query", "result"), [
    ("search.html", "alibi", "encodings/alibi.html"),
    ("zh/search.html", "位置编码", "book/"),
])  # fmt: skip
def test_search(browser, site, page, query, result):
    tab = Tab(browser)
    tab.page.goto(f"{(site / page).as_uri()}?q={query}")
    tab.page.wait_for_selector("#search-results li a", timeout=20_000)
    links = tab.page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
    assert any(result in link for link in links), links
    assert not tab.problems
    tab.page.close()


def test_screenshots(browser, address):
    """Pictures of the pages with figures and of one page of each kind, for a look at the whole."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    kinds = ["index.html", "zh/index.html", "encodings/all.html", "encodings/rotary.html",
             "guides/encodings.html", "rotary/rotary.html", "cli/plot.html", "gallery/rotary.html",
             "api/cpp/rotary/rotary.html", "api/c.html", "api/python/gnomon.html",
             "api/javascript.html", "book/playground.html", "book/reader.html",
             "book/statements.html"]  # fmt: skip
    for width, scheme in ((390, "light"), (1280, "light"), (1280, "dark")):
        tab = Tab(browser, width, scheme)
        for page in sorted({*kinds, *pages_with('class="gnomon-figure"')}):
            tab.open(f"{address}/{page}")
            name = page.removesuffix(".html").replace("/", "-")
            file = SCREENSHOTS / f"{name}.{width}.{scheme}.png"
            tab.page.screenshot(path=file, full_page=True)
            assert file.stat().st_size > 2000
        tab.page.close()


def test_the_checks_find_problems(browser, tmp_path):
    """A page with each mistake fails."""
    page = tmp_path / "index.html"
    page.write_text(
        '<html lang="de"><title></title><script src="site.js"></script><h2>A</h2><h4>B</h4>'
        '<div style="width: 2000px">wide</div><script>console.error("broken")</script>'
        '<img src="http://example.invalid/a.png">',
        encoding="utf-8",
    )
    tab = Tab(browser)
    found = "\n".join(problems_of(tab, page.as_uri(), "index.html"))
    tab.page.close()
    for text in ("broken", "wider than the window", "0 headings of the first level",
                 "level 4 after one of level 2", "no title", "its language is de",
                 "requests http://example.invalid/a.png"):  # fmt: skip
        assert text in found, text
