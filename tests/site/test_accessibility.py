"""Rules of axe (WCAG 2 A and AA, and best practices): none of serious or critical impact fails."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import Tab, all_pages, pages_with

# One page of each kind that is written from other files; all pages of these kinds have one form.
KINDS = [
    "encodings/all.html", "encodings/rotary.html", "encodings/learned.html", "guides/index.html",
    "guides/encodings.html", "rotary/rotary.html", "bias/t5.html", "lab/lab.html",
    "benchmarks.html", "gallery/rotary.html", "gallery/sinusoid.html", "notebooks/rotary.html",
    "cli/index.html", "cli/plot.html", "api/cpp/index.html", "api/cpp/rotary-module.html",
    "api/cpp/rotary/axial.html", "api/cpp/attention/kv_cache.html", "api/cpp/cuda/bias.html",
    "api/python/index.html", "api/python/gnomon.model.html", "api/python/gnomon.specs.bias.html",
    "api/javascript.html", "files/index.html", "examples/README.html", "search.html",
]  # fmt: skip


def pages() -> list[str]:
    live = [
        page
        for kind in ("figure", "playground", "reader")
        for page in pages_with(f'class="gnomon-{kind}"')
    ]
    book = [page for page in all_pages() if page.removeprefix("zh/").startswith("book/")]
    return sorted({"index.html", "zh/index.html", "zh/search.html", *live, *book, *KINDS})


def violations(tab: Tab) -> list[str]:
    result = Axe().run(tab.page).response
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}"
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_axe(browser, address, width, scheme):
    tab = Tab(browser, width, scheme)
    found = []
    for page in pages():
        tab.open(f"{address}/{page}")
        # The boxes with code and the settings of the explorer are part of the page.
        tab.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        found += [f"{page}: {one}" for one in violations(tab)]
    tab.page.close()
    assert not found, "\n".join(found)


def test_axe_finds_low_contrast(browser, tmp_path):
    page = tmp_path / "index.html"
    page.write_text('<html lang="en"><title>A</title><script src="site.js"></script>'
                    '<main><h1>A</h1><p style="color: #bbb">grey</p><img src="data:,"></main>',
                    encoding="utf-8")  # fmt: skip
    tab = Tab(browser)
    tab.page.goto(page.as_uri())
    found = "\n".join(violations(tab))
    tab.page.close()
    assert "color-contrast" in found and "image-alt" in found
