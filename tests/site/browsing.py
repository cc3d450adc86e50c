"""A page of the browser, and the pages of the site."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Browser, Page, TimeoutError

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/site"


class Tab:
    """A page of the browser that collects what goes wrong, and allows no other host."""

    def __init__(self, browser: Browser, width: int = 1280, scheme: str = "light") -> None:
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.problems: list[str] = []
        self.page.on("console", self._message)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._request)

    def _message(self, message) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _failed(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left
            self.problems.append(f"{request.url}: {request.failure}")

    def _request(self, request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")):
            self.problems.append(f"requests {request.url}")

    def open(self, url: str) -> list[str]:
        """Opens a page and waits for its figures. Returns what went wrong."""
        self.problems.clear()
        self.page.goto(url)
        try:
            self.page.wait_for_function(READY, timeout=30_000)
        except TimeoutError:
            self.problems.append("a figure shows neither a picture nor an error")
        return list(self.problems)


# All figures, explorers and readers of the page have a picture, or say why not.
READY = """() => document.querySelector('script[src*="site.js"]') &&
    [...document.querySelectorAll('figure.gnomon-figure')].every(box => box.dataset.state)"""


def all_pages(folder: Path = SITE) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))


def pages_with(mark: str) -> list[str]:
    """Pages that contain a text, such as `class="gnomon-figure"`."""
    return [page for page in all_pages() if mark in (SITE / page).read_text(encoding="utf-8")]


def program() -> str:
    return str(Path(os.environ.get("GNOMON_PROGRAM", ROOT / "build/release/apps/cli/gnomon")))
