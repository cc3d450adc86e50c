"""One peer as a separate process, controlled by lines of JSON on stdin.

    python worker.py MODULE THREADS

Requests: prepare (a case, and which contenders), turn (time one contender), release.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from types import ModuleType
from typing import Any, TextIO

from arrays import Inputs, allowed_error, sample_tokens, worst_error
from cases import Case
from contender import Contender, Run


class Worker:
    def __init__(self, module: ModuleType, threads: int) -> None:
        # Those of one name take different cases.
        self.contenders: list[Contender] = module.contenders(threads)
        self.versions: dict[str, str] = module.versions()
        self.runs: dict[str, Run] = {}
        self.once: dict[str, float] = {}  # seconds of one call
        self.counts: dict[str, int] = {}  # calls per turn

    def describe(self) -> dict[str, Any]:
        names = dict.fromkeys(contender.name for contender in self.contenders)
        peers = dict.fromkeys(one.name for one in self.contenders if one.is_peer)
        return {
            "contenders": list(names),
            "peers": list(peers),
            "versions": self.versions,
        }

    def prepare(self, case: dict[str, Any], only: list[str] | None) -> dict[str, Any]:
        self.release()
        wanted = Case(**case)
        taking = [
            contender
            for contender in self.contenders
            if contender.takes(wanted) and (only is None or contender.name in only)
        ]
        if not taking:
            return {"ready": {}, "failed": {}}
        inputs = Inputs.make(wanted)
        rows = sample_tokens(wanted.results)
        ready: dict[str, Any] = {}
        failed: dict[str, str] = {}
        for contender in taking:
            try:
                ready[contender.name] = self.check(contender, inputs, rows)
            except Exception as error:  # a failing peer is reported, and the others continue
                traceback.print_exc()
                failed[contender.name] = f"{type(error).__name__}: {error}".split("\n")[0]
                self.runs.pop(contender.name, None)
        return {"ready": ready, "failed": failed, "checksum": inputs.checksum}

    def check(self, contender: Contender, inputs: Inputs, rows: list[int]) -> dict[str, Any]:
        run = contender.prepare(inputs)
        self.runs[contender.name] = run
        run.call()  # compilation and allocation in the first call
        run.reset()
        self.once[contender.name] = run.seconds(1)
        error = None
        if run.results:
            error = worst_error(inputs, rows, run.results(rows))
            if not error < allowed_error(inputs):
                raise ValueError(f"wrong results: largest error {error:.3g}")
        return {"error": error, "note": run.note}

    def turn(self, contender: str, budget: float) -> dict[str, Any]:
        run = self.runs[contender]
        once = self.once[contender]
        if contender not in self.counts:
            if once < budget / 20:
                once = run.seconds(max(10, int(budget / 20 / once)))
            self.counts[contender] = max(1, min(100_000, round(budget / once)))
        if once < 0.1:  # a longer call empties the caches anyway
            run.seconds(1)
        return {"seconds": run.seconds(self.counts[contender])}

    def release(self) -> dict[str, Any]:
        self.runs.clear()
        self.once.clear()
        self.counts.clear()
        gc.collect()
        return {}


def private_stdout() -> TextIO:
    """Redirects the output of packages on stdout to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def main() -> None:
    answers = private_stdout()

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        module = importlib.import_module(f"contenders.{sys.argv[1]}")
        worker = Worker(module, int(sys.argv[2]))
        answer(worker.describe())
    except Exception as error:
        traceback.print_exc()
        answer({"refused": f"{type(error).__name__}: {error}".split("\n")[0]})
        return
    for line in sys.stdin:
        request = json.loads(line)
        answer(getattr(worker, request.pop("do"))(**request))


if __name__ == "__main__":
    main()
