"""Compares models of all described model types of transformers before and after `patch`.

    python tools/python/patch_sweep.py [--types llama t5] [--compiled] [--results FILE]
    python tools/python/patch_sweep.py --table FILE

Tiny random models in float64 (tests/python/upstream/tiny_models.py): outputs, left padding, loss
and gradients, generation (greedy, beams, static cache), and with --compiled torch.compile without
graph breaks. Writes one JSON object a line to --results. --table prints the counts and the lists
of docs/python/patch_types.md from such a file. All types take about 20 minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import resource
import signal
import sys
import textwrap
from collections import Counter
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/python/upstream"))

import torch
import transformers
from patched_models import Result, compare
from tiny_models import described

CHECKS = {"outputs": "outputs", "padding": "left padding", "gradients": "loss and gradients",
          "greedy": "greedy generation", "beams": "3 beams", "static": "static cache",
          "compiled": "torch.compile without graph breaks"}


def timed_out(*_: Any) -> None:
    raise TimeoutError("more than 180 s")


def sweep(types: list[str], compiled: bool, path: pathlib.Path) -> None:
    torch.set_num_threads(1)
    # Inputs of some models are large: an error instead of a killed process.
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGALRM, timed_out)
    with path.open("w") as file:
        for one in types:
            signal.alarm(180)
            try:
                result = compare(one, compiled=compiled)
            except Exception as error:
                result = Result(one, "not run", f"{type(error).__name__}: {str(error)[:160]}")
            signal.alarm(0)
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")
            file.flush()
            print(one, result.status, result.detail, flush=True)


def listed(names: list[str]) -> str:
    return textwrap.fill(", ".join(f"`{one}`" for one in sorted(names)), 118,
                         break_long_words=False, break_on_hyphens=False)


def table(path: pathlib.Path, note: str) -> str:
    """Returns the page docs/python/patch_types.md."""
    results = [Result(**json.loads(line)) for line in path.read_text().splitlines()]
    by: dict[str, list[Result]] = {}
    for one in results:
        by.setdefault(one.status, []).append(one)
    equal = by.get("equal", [])
    fallback = [one for one in equal if any("[patch]" in each for each in one.left)]
    rotation = [one for one in equal if any("[patch]" not in each and "own code" not in each
                                            for each in one.left)]
    checks = Counter(check for one in equal for check in one.checks)
    reasons: dict[str, list[str]] = {}
    for one in by.get("refused", []):
        reason = ("no attention" if "got no attention" in one.detail else
                  "attention with own code" if "own code" in one.detail else one.detail)
        reasons.setdefault(reason, []).append(one.model_type)
    lines = [
        "# Model types and `gnomon.torch.patch`", "",
        f"All {len(results)} model types of transformers {transformers.__version__} that have a "
        "model class and that",
        "`gnomon.model.from_pretrained` describes, as tiny random models: "
        "`python tools/python/patch_sweep.py --compiled`.", "",
        "| result | types |", "|---|--:|",
        *(f"| {name} | {len(by.get(name, []))} |"
          for name in ("equal", "different", "refused", "not run")), "",
        "*equal*: the patched model has the outputs of the unpatched one (largest difference 2e-5 "
        "of the largest output).",
        "*refused*: `patch` raises a `ValueError` that names the reason. *not run*: the sweep makes "
        "no model or input that", "the unpatched model takes.", "",
        "| check of an equal type | types |", "|---|--:|",
        *(f"| {text} | {checks[name]} |" for name, text in CHECKS.items()), "",
        "Checks that the unpatched model does not pass (a static cache, a compilation without "
        "graph breaks) are not made.", *([note] if note else []), "", "## Equal", "",
        listed([one.model_type for one in equal]), "",
        f"Of these, {len(rotation)} keep the rotation of transformers (`report.left` names it): "
        "M-RoPE, two axes, complex numbers,", "or another order of the pairs:", "",
        listed([one.model_type for one in rotation]), "",
        f"{len(fallback)} have masks or biases that are no rules. transformers computes the "
        "attention of the layers with them, with a warning:", "",
        listed([one.model_type for one in fallback]), "", "## Refused", ""]
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        lines += [f"{reason} ({len(names)}):", "", listed(names), ""]
    lines += ["## Not run", "", listed([one.model_type for one in by.get("not run", [])])]
    if by.get("different"):
        lines += ["", "## Different", "", listed([one.model_type for one in by["different"]])]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="+", default=None)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("patch_sweep.jsonl"))
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--note", default="", help="a sentence below the checks of the table")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table, arguments.note), end="")
    else:
        sweep(arguments.types or described(), arguments.compiled, arguments.results)


if __name__ == "__main__":
    main()
