"""Times all cases on a GPU and writes results.json.

python compare.py RESULTS [--quick] [--only TEXT] [--seconds N] [--command TEXT]

`run` with another module and device is the dry run of the tests: the emulator on a CPU.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import append
import bias
import embedding
import fill
import machine
import measure
import rotate
import torch
from cases import Case, all_cases
from contender import OURS, Work, reason
from measure import Clock

GROUPS = {"rotate": rotate, "append": append, "table": fill, "embedding": embedding,
          "bias": bias}


def rows_of(case: Case, work: Work, clock: Clock) -> tuple[list[dict[str, Any]], dict[str, str]]:
    times, failures = clock.time(work, case.graph)
    ratios = measure.ratios(times, OURS)
    rows = []
    for contender in work.contenders:
        if contender.name not in times:
            continue
        taken = times[contender.name]
        arguments = contender.arrange(*(one.clone() for one in work.arrays))
        try:
            error = work.error(contender, arguments)
        except Exception as failure:
            failures[contender.name] = reason(failure)
            continue
        rows.append({"case": case.key, "contender": contender.name, "role": contender.role,
                     "seconds": taken.median, "low": taken.quantile(0.1),
                     "high": taken.quantile(0.9), "rounds": len(taken.seconds),
                     "ratio": ratios[contender.name], "bytes": work.bytes, "error": error,
                     "note": contender.note})
    return rows, failures


def run(cases: Sequence[Case], module: Any, device: torch.device, clock: Clock,
        limit: float) -> dict[str, Any]:
    """Times the cases, those of `limit` seconds at most. Returns the contents of results.json."""
    begin = time.perf_counter()
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}  # peers that cannot be imported
    failures: dict[str, str] = {}
    unmeasured: dict[str, str] = {}  # cases by key
    for case in cases:
        if not hasattr(module, case.requires):
            unmeasured[case.key] = f"gnomon._cuda has no {case.requires}"
            continue
        if time.perf_counter() - begin > limit:
            unmeasured[case.key] = f"the limit of {limit:.0f} s was reached"
            continue
        print(f"gpu: {case.title}", file=sys.stderr, flush=True)
        try:
            work = GROUPS[case.group].work_of(case, module, device)
            found, failed = rows_of(case, work, clock)
        except Exception as error:  # the page names the case, and has the others
            unmeasured[case.key] = reason(error)
            continue
        if not any(row["role"] == OURS for row in found):
            unmeasured[case.key] = failed.get(OURS, "no time")
        rows += found
        missing |= work.missing
        failures |= {f"{name}, {case.title}": text for name, text in failed.items()}
        del work
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return {"rows": rows, "missing": missing, "failures": failures, "unmeasured": unmeasured,
            "machine": machine.described(device), "rounds": clock.rounds, "calls": clock.calls,
            "date": time.strftime("%Y-%m-%d")}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", help="cases whose key contains this text")
    parser.add_argument("--seconds", type=float, default=240, help="start no case after this time")
    parser.add_argument("--command", default="make gpu", help="the command that the page names")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu: PyTorch finds no GPU", file=sys.stderr)
        return 1
    import gnomon
    device = torch.device("cuda", torch.cuda.current_device())
    clock = Clock(device, rounds=9 if options.quick else 51, calls=64)
    cases = [case for case in all_cases() if options.only in case.key]
    data = run(cases, importlib.import_module("gnomon._cuda"), device, clock, options.seconds)
    data |= {"versions": machine.versions(gnomon.__version__), "command": options.command}
    options.results.write_text(json.dumps(data, indent=1) + "\n")
    # A case that cannot run is a failure; one that needs a function not built yet is not.
    failed = [key for key, text in data["unmeasured"].items()
              if not text.startswith("gnomon._cuda has no ")]
    for key in failed:
        print(f"gpu: {key} is not measured: {data['unmeasured'][key]}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
