"""Takes pictures of the figures, for the book on a code host, on paper and without JavaScript.

    python3 apps/site/pictures.py [NAME...] [--out docs/book/figures] [--width 800] [--dark] [--break]

Writes NAME.png and NAME.zh.png, after apps/site/bundle.py. Requires Playwright and Chromium. Exits with 1 if
a figure reports an error, or if its claim does not hold.
"""

import argparse
import html
import pathlib
import subprocess
import sys

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PREVIEW = ROOT / "build" / "site-work" / "preview"

PAGE = """<!doctype html><html lang="{language}"><meta charset="utf-8"><title>{name}</title>
<link rel="stylesheet" href="site.css"><script defer src="site.js"></script>
<style>body {{ margin: 0; font-family: sans-serif; background: {background}; }}
:root {{ --color-background-primary: {background}; }}
.gnomon-figure {{ margin: 0 !important; border: 0; background: {background}; }}</style>
<body data-theme="{theme}"><figure class="gnomon-figure" data-figure="{name}" data-language="{language}">
<div class="gnomon-figure-body"></div></figure></body></html>
"""


def write_page(name, language, theme):
    path = PREVIEW / f"{name}.{language}.{theme}.html"
    path.write_text(PAGE.format(name=html.escape(name), language=language, theme=theme,
                                background="#131416" if theme == "dark" else "#ffffff"),
                    encoding="utf-8")
    return path.as_uri()


def shrink(path):
    """Reduces a picture to 128 colours, which is enough for charts."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/book/figures")
    parser.add_argument("--width", type=int, default=800)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--break", dest="broken", action="store_true")
    options = parser.parse_args()
    subprocess.run([sys.executable, str(ROOT / "apps/site/bundle.py"), str(PREVIEW)], check=True)
    names = options.names or sorted(p.stem for p in (ROOT / "apps/site/figures").glob("*.js"))
    theme = "dark" if options.dark else "light"
    options.out.mkdir(parents=True, exist_ok=True)
    failures = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium",
                                             args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": options.width, "height": 900},
                                device_scale_factor=1 if options.width > 500 else 2)
        page.on("console", lambda m: m.type == "error" and failures.append(m.text))
        page.on("pageerror", lambda e: failures.append(str(e)))
        for name in names:
            for language in ("en", "zh"):
                page.goto(write_page(name, language, theme))
                page.wait_for_selector("figure[data-state]", timeout=20000)
                if options.broken:
                    page.locator(".gnomon-buttons button").first.click()
                    page.wait_for_timeout(300)
                figure = page.locator("figure")
                page.evaluate("document.fonts.ready")
                if figure.get_attribute("data-state") != "ready":
                    failures.append(f"{name}: {page.locator('.gnomon-error').inner_text()}")
                elif (figure.get_attribute("data-holds") == "true") == options.broken:
                    failures.append(f"{name} ({language}): its claim "
                                    f"{'holds if broken' if options.broken else 'does not hold'}")
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > options.width:
                    failures.append(f"{name} ({language}): {wide} pixels wide at {options.width}")
                path = options.out / f"{name}{'.zh' if language == 'zh' else ''}.png"
                figure.screenshot(path=path)
                shrink(path)
                said = page.locator(".gnomon-status").inner_text()
                print(f"{name} ({language}): {said}")
        browser.close()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
