"""Writes the scripts of the site: the program of pages and of the worker, the library, the data.

    python3 apps/site/bundle.py OUT [--wasm build/wasm/gnomon.wasm]

Pages of file:// may not fetch files, so all that the worker needs is in scripts that set a global.
Requires esbuild.
"""

import argparse
import base64
import gzip
import json
import pathlib
import subprocess

import fields

SITE = pathlib.Path(__file__).resolve().parent
ROOT = SITE.parent.parent


def figure_names():
    return sorted(path.stem for path in (SITE / "figures").glob("*.js"))


def write_figure_list(path):
    """Writes the module that exports all figures by name."""
    names = figure_names()
    lines = [f"import figure{i} from {json.dumps(str(SITE / 'figures' / name))};"
             for i, name in enumerate(f"{one}.js" for one in names)]
    entries = ", ".join(f"{json.dumps(name)}: figure{i}" for i, name in enumerate(names))
    path.write_text("\n".join(lines) + f"\nexport const figures = {{{entries}}};\n", encoding="utf-8")


def bundle(entry, list_path, out):
    subprocess.run(
        ["esbuild", str(SITE / "web" / entry), "--bundle", "--format=iife", "--minify",
         "--charset=utf8", "--target=chrome100,firefox113,safari16.4", "--platform=browser",
         "--external:node:*", "--define:import.meta.url=undefined", "--log-level=warning", f"--alias:gnomon-figures={list_path}",
         f"--outfile={out}"],
        check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--wasm", type=pathlib.Path, default=ROOT / "build/wasm/gnomon.wasm")
    options = parser.parse_args()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    work = ROOT / "build" / "site-work"
    work.mkdir(parents=True, exist_ok=True)
    write_figure_list(work / "figures.js")
    bundle("page.js", work / "figures.js", out / "site.js")
    bundle("worker.js", work / "figures.js", work / "worker.js")
    worker = (work / "worker.js").read_text(encoding="utf-8")
    (out / "gnomon-worker.js").write_text(f"self.GNOMON_WORKER = {json.dumps(worker)};\n",
                                          encoding="utf-8")
    packed = base64.b64encode(gzip.compress(options.wasm.read_bytes(), 9, mtime=0)).decode()
    (out / "gnomon-wasm.js").write_text(f'self.GNOMON_WASM = "{packed}";\n', encoding="utf-8")
    data = {path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted((ROOT / "docs/book/data").glob("*.json"))}
    data["fields"] = fields.all_fields()
    (out / "gnomon-data.js").write_text(
        f"self.GNOMON_DATA = {json.dumps(data, separators=(',', ':'))};\n", encoding="utf-8")
    (out / "site.css").write_text((SITE / "web" / "site.css").read_text(encoding="utf-8"),
                                  encoding="utf-8")


if __name__ == "__main__":
    main()
