"""Measures how many pictures a second each figure draws while a slider moves.

    python3 apps/site/frames.py [NAME...] [--seconds 2]

Moves the first range control of each figure at each frame of the page and counts the pictures that the figure
draws. Requires apps/site/pictures.py's page, Playwright and Chromium; write the scripts with `make site` first.
"""

import argparse
import pathlib
import subprocess
import sys

from pictures import PREVIEW, ROOT, write_page
from playwright.sync_api import sync_playwright

MOVE = """seconds => new Promise(resolve => {
  const box = document.querySelector('figure'), first = Number(box.dataset.version);
  const inputs = [...box.querySelectorAll('input[type=range]')];
  if (!inputs.length) return resolve(null);
  const input = inputs[0], low = Number(input.min), high = Number(input.max), step = Number(input.step) || 1;
  const start = performance.now();
  let frames = 0, value = Number(input.value), direction = step;
  const tick = () => {
    const seen = (performance.now() - start) / 1000;
    if (seen > seconds)
      return resolve([frames / seen, (Number(box.dataset.version) - first) / seen]);
    if (value + direction > high || value + direction < low) direction = -direction;
    value += direction;
    input.value = value;
    input.dispatchEvent(new Event('input', {bubbles: true}));
    ++frames;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    subprocess.run([sys.executable, str(ROOT / "apps/site/bundle.py"), str(PREVIEW)], check=True)
    names = options.names or sorted(p.stem for p in (ROOT / "apps/site/figures").glob("*.js"))
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        for name in names:
            page.goto(write_page(name, "en", "light"))
            page.wait_for_selector("figure[data-state=ready]", timeout=20000)
            if rates := page.evaluate(MOVE, options.seconds):
                found.append((rates[1], rates[0], name))
        browser.close()
    for drawn, shown, name in sorted(found):
        print(f"{name:<20}{drawn:6.1f} pictures/s, {shown:5.1f} frames/s of the page")


if __name__ == "__main__":
    main()
