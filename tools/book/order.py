"""Writes docs/book/data/order.json: losses of trained models for figures of chapters 1 and 2.

    tools/expectations.sh OUT                  # trains the models of docs/lab/protocols (two hours)
    python3 tools/book/order.py OUT            # evaluates them (minutes), writes the file

Contents: the loss with a context in random order, of one model for each encoding, and the loss by
context length, over the seeds of the protocol `text`.
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
GNOMON = os.environ.get("GNOMON", str(ROOT / "build/release/apps/cli/gnomon"))
TEXT = ROOT / "apps/lab/data/austen/northanger_abbey.txt"
LENGTH = 128
SEGMENTS = 400
KEPT = [0, 1, 2, 4, 8, 16, 32, 64, 96]
# Without position, the two layers and 800 steps of `text` learn little more than byte pairs.
MODELS = [("none", "depth"), ("sinusoidal", "text"), ("rotary", "text"), ("alibi", "text")]


def shuffled(model: pathlib.Path) -> dict[str, list[float]]:
    """Returns the losses with all but the last N bytes of the context in random order."""
    bits: list[float] = []
    margins: list[float] = []
    ordered = 0.0
    for kept in KEPT:
        command = [GNOMON, "evaluate", str(model), str(TEXT), "--lengths", str(LENGTH),
                   "--segments", str(SEGMENTS), "--shuffle", str(kept), "--json"]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        measured = json.loads(answer)["shuffled"][0]
        ordered = measured["bits"]
        bits.append(round(measured["shuffled_bits"], 3))
        margins.append(round(measured["margin"], 3))
    return {"ordered": [round(ordered, 3)], "shuffled": bits, "margin": margins}


def by_length(encoding: dict[str, Any]) -> dict[str, list[float]]:
    """Returns the loss at each context length, and with the context cut to the training length."""
    rows = [row for row in encoding["lengths"] if row["applicable"]]
    return {"length": [row["length"] for row in rows],
            "bits": [round(row["tail_bits"], 3) for row in rows],
            "margin": [round(row["uncertainty"], 3) for row in rows],
            "cut": [round(row["cut_bits"], 3) for row in rows]}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python3 tools/book/order.py OUT, the folder of tools/expectations.sh")
    folder = pathlib.Path(sys.argv[1])
    runs = {name: json.loads((folder / name / "results.json").read_text())
            for name in ("text", "depth")}
    protocol = runs["text"]["settings"]
    data = {
        "source": "tools/expectations.sh OUT; python3 tools/book/order.py OUT",
        "context": LENGTH,
        "kept": KEPT,
        "models": {name: {"layers": runs[of]["settings"]["layers"],
                          "steps": runs[of]["settings"]["steps"],
                          **shuffled(folder / of / "models" / f"{name}-seed1")}
                   for name, of in MODELS},
        "trained": protocol["train_length"],
        "seeds": len(protocol["seeds"]),
        "lengths": {one["name"]: by_length(one) for one in runs["text"]["encodings"]
                    if one["name"] in ("sinusoidal", "rotary", "alibi")},
    }
    path = ROOT / "docs/book/data/order.json"
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
