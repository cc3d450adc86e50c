"""Writes gnomon-reader.js, the script with the weights of the trained models.

    python3 apps/site/reader_bundle.py OUT

It sets GNOMON_READER to {name: base64 of reader-NAME.safetensors}, because a page of file:// may
not fetch files. Only the page of the reader loads it.
"""

import argparse
import base64
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/book/data"
LARGEST = 2_000_000  # bytes of all weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    models = json.loads((DATA / "reader.json").read_text(encoding="utf-8"))["models"]
    weights = {one["name"]: (DATA / one["file"]).read_bytes() for one in models}
    size = sum(map(len, weights.values()))
    if size > LARGEST:
        sys.exit(f"reader_bundle.py: the weights have {size} bytes, more than {LARGEST}")
    out.mkdir(parents=True, exist_ok=True)
    packed = {name: base64.b64encode(data).decode() for name, data in weights.items()}
    (out / "gnomon-reader.js").write_text(
        f"self.GNOMON_READER = {json.dumps(packed)};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
