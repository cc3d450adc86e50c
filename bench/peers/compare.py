"""Times every peer against Gnomon on the same arrays, interleaved in one run.

    python compare.py FOLDER LIBRARY [--quick] [--only TEXT] [--threads 1 2]
        [--peers MODULE ...]

Each peer is a separate process, limited to as many cores as it has threads. A round gives
every contender one turn: an untimed call, then calls for some milliseconds; the next turn
begins when the previous process sleeps. Writes FOLDER/results.json, and FOLDER/unfinished.json
after each case: what a run that was stopped had timed, which report.py takes too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, UTC
from pathlib import Path
from typing import Any

import cases
import machine
from cases import Case
from install import ENVIRONMENTS

HERE = Path(__file__).parent
SLOW = 6.0  # relative to the fastest; slower contenders are dropped after a few rounds


class Worker:
    def __init__(
        self, folder: Path, library: Path, environment: str, module: str, threads: int
    ):
        self.module = module
        variables = dict(os.environ, GNOMON_LIBRARY=str(library))
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            variables[name] = str(threads)
        variables["TF_CPP_MIN_LOG_LEVEL"] = "3"
        variables["TORCHINDUCTOR_CACHE_DIR"] = str(folder.resolve() / "inductor")
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.log = (folder / f"{module}.{threads}.log").open("w")
        self.process = subprocess.Popen(
            [
                folder / "venvs" / environment / "bin/python",
                HERE / "worker.py",
                module,
                str(threads),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=variables,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            start_new_session=True,
        )
        self.about = self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            return {"died": f"the process ended with {self.process.returncode}"}
        return json.loads(line)

    def tell(self, do: str, **request: object) -> None:
        assert self.process.stdin
        print(json.dumps({"do": do, **request}), file=self.process.stdin, flush=True)

    def ask(self, do: str, **request: object) -> dict[str, Any]:
        if self.process.poll() is not None:
            return {"died": f"the process ended with {self.process.returncode}"}
        self.tell(do, **request)
        return self.answer()

    def turn(self, contender: str, budget: float) -> float | None:
        """Seconds per call, with priority over other processes if that is permitted."""
        with machine.preferred(self.process.pid):
            answer = self.ask("turn", contender=contender, budget=budget)
        self.sleep()
        return answer.get("seconds")

    def sleep(self) -> None:
        """Waits until no thread of the process runs, at most 0.3 s."""
        deadline = time.monotonic() + 0.3
        while not machine.asleep(self.process.pid) and time.monotonic() < deadline:
            time.sleep(0.0005)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


class Timing:
    """The measurements of one contender on one case."""

    def __init__(self, name: str, worker: Worker, error: float | None, note: str) -> None:
        self.name, self.worker, self.error, self.note = name, worker, error, note
        self.seconds: list[float] = []
        self.ratios: list[float] = []  # to Gnomon's time in the same round

    def as_dict(self) -> dict[str, Any]:
        return {
            "contender": self.name,
            "seconds": statistics.median(self.seconds) if self.seconds else None,
            "best_seconds": min(self.seconds, default=None),
            "ratio": statistics.median(self.ratios) if self.ratios else None,
            "rounds": len(self.seconds),
            "error": self.error,
            "note": self.note,
        }


class Comparison:
    def __init__(self, workers: list[Worker], threads: int, rounds: int, budget: float) -> None:
        self.workers, self.threads, self.rounds, self.budget = workers, threads, rounds, budget
        self.rows: list[dict[str, Any]] = []
        self.failures: dict[str, str] = {}

    def prepare(self, case: Case, only: list[str] | None) -> list[Timing]:
        timings: list[Timing] = []
        checksums = set()
        for worker in self.workers:
            answer = worker.ask("prepare", case=case.as_dict(), only=only)
            if "died" in answer:
                self.failures[f"{worker.module}, {case.key}"] = answer["died"]
                continue
            checksums.add(answer.get("checksum"))
            for name, ready in answer["ready"].items():
                timings.append(Timing(name, worker, ready["error"], ready["note"]))
            for name, reason in answer["failed"].items():
                self.failures[f"{name}, {case.key}"] = reason
            worker.sleep()
        assert len(checksums - {None}) == 1, "contenders got different arrays"
        return timings

    def run(self, case: Case, only: list[str] | None = None, timed: bool = True) -> None:
        start = time.monotonic()
        timings = self.prepare(case, only)
        for turn in range(self.rounds if timed else 0):
            self.round(timings, turn, 3 if case.attends else 2)
        for worker in self.workers:
            worker.ask("release")
        for timing in timings:
            row = {"case": case.key, **case.as_dict(), "bytes": case.bytes, "date": today()}
            self.rows.append({**row, "threads": self.threads, **timing.as_dict()})
        spent = time.monotonic() - start
        print(f"peers: {self.threads} threads, {case.key}: {spent:.1f} s", file=sys.stderr)

    def round(self, timings: list[Timing], turn: int, patience: int) -> None:
        fastest = min((min(timing.seconds) for timing in timings if timing.seconds), default=0)
        taking = [
            timing
            for timing in timings
            if turn < patience or (timing.seconds and min(timing.seconds) < SLOW * fastest)
        ]
        times: dict[str, float] = {}
        for timing in taking[turn % len(taking) :] + taking[: turn % len(taking)]:
            spent = timing.worker.turn(timing.name, self.budget)
            if spent is not None:
                times[timing.name] = spent
                timing.seconds.append(spent)
        if "Gnomon" in times:
            for timing in taking:
                if timing.name in times:
                    timing.ratios.append(times[timing.name] / times["Gnomon"])

    def keeping_up(self, case: Case) -> list[str]:
        """The contenders that take less than four times as long as Gnomon on this case."""
        return [
            row["contender"]
            for row in self.rows
            if row["case"] == case.key and row["ratio"] and row["ratio"] < 4
        ]


def start_workers(
    folder: Path, library: Path, threads: int, peers: list[str] | None
) -> tuple[list[Worker], dict[str, str]]:
    reasons = json.loads((folder / "installed.json").read_text())
    workers, refused = [], {}
    for environment in ENVIRONMENTS:
        if reasons[environment.name]:
            refused[environment.name] = reasons[environment.name]
            continue
        for module in environment.modules:
            if peers and module not in peers:
                continue
            worker = Worker(folder, library, environment.name, module, threads)
            if "contenders" in worker.about:
                workers.append(worker)
            else:
                refused[module] = worker.about.get("refused") or worker.about["died"]
                worker.close()
    return workers, refused


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def chosen(listed: Iterable[Case], only: str | None) -> list[Case]:
    return [case for case in listed if only is None or only in case.key]


def compared(
    options: argparse.Namespace, threads: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """One run over all cases with `threads` threads: what is known after each case."""
    workers, refused = start_workers(options.folder, options.library, threads, options.peers)
    versions: dict[str, str] = {}
    for worker in workers:
        versions.update(worker.about["versions"])
    comparison = Comparison(workers, threads, rounds, 0.012)

    def so_far() -> dict[str, Any]:
        return {
            "rows": comparison.rows,
            "failures": comparison.failures,
            "not_installed": refused,
            "versions": versions,
            "own": machine.own_seconds({worker.process.pid for worker in workers}),
        }

    whole = [*cases.rotations(), *cases.tables(), *cases.attentions()]
    whole += cases.plain_attentions()
    listed = cases.quick() if options.quick else whole
    for case in chosen(listed, options.only):
        comparison.run(case)
        yield so_far()
    for case in [] if options.quick else chosen(cases.long_rotations(), options.only):
        near = comparison.keeping_up(Case("rotate", 4096, case.dtype, case.pairing))
        if near:
            comparison.run(case, near)
            yield so_far()
    for case in chosen(cases.far_cases(), options.only):
        comparison.run(case, timed=False)
        yield so_far()
    for worker in workers:
        worker.close()


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """`new` plus the rows of `old` for cases that `new` has not timed, in the order of `old`."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for part in (old["rows"], new["rows"]):
        fresh: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for row in part:
            fresh.setdefault((row["case"], row["threads"]), []).append(row)
        groups.update(fresh)
    rows = [row for group in groups.values() for row in group]
    again = {row["case"] for row in new["rows"]}
    earlier = {
        name: why
        for name, why in old["failures"].items()
        if not any(key in name for key in again)
    }
    return {
        **new,
        "rows": rows,
        "failures": {**earlier, **new["failures"]},
        "not_installed": {**old["not_installed"], **new["not_installed"]},
        "versions": {**old["versions"], **new["versions"]},
        "others": max(old["others"], new["others"]),
        "quick": old["quick"],
        "rounds": old["rounds"],
        "notes": [note for note in old.get("notes", []) if note[:30] != new["notes"][0][:30]]
        + new["notes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--only", help="cases with this in their names; others keep theirs")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--peers", nargs="+", help="only these modules, with that of Gnomon")
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else 11)
    session = {os.getsid(0)}
    busy, before, begun = machine.busy_seconds(), machine.own_seconds(session), time.monotonic()
    unfinished, file = options.folder / "unfinished.json", options.folder / "results.json"
    runs: dict[int, dict[str, Any]] = {}
    results: dict[str, Any] = {}
    for threads in options.threads:
        for runs[threads] in compared(options, threads, rounds):
            # Workers that ended are children of this session.
            own = runs[threads]["own"] + machine.own_seconds(session)
            elapsed = (time.monotonic() - begun) * len(os.sched_getaffinity(0))
            results = {
                "date": today(),
                "machine": machine.described(),
                "preferred": machine.can_prefer(),
                "rounds": rounds,
                "quick": options.quick,
                "rows": [row for run in runs.values() for row in run["rows"]],
                "failures": {k: v for run in runs.values() for k, v in run["failures"].items()},
                "not_installed": runs[threads]["not_installed"],
                "versions": runs[threads]["versions"],
                # The share of the CPU that other processes used.
                "others": max(0.0, (machine.busy_seconds() - busy - own + before) / elapsed),
            }
            unfinished.write_text(json.dumps(results, indent=1) + "\n")
    if not results:
        parser.error(f"no case has `{options.only}` in its name")
    if options.only and file.exists():
        results["notes"] = [
            f"Cases with `{options.only}` in their names were timed on {results['date']}, "
            f"{datetime.now(UTC):%H:%M}, in {rounds} rounds. The other cases were timed "
            "earlier, with earlier kernels."
        ]
        results = merged(json.loads(file.read_text()), results)
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    unfinished.replace(file)


if __name__ == "__main__":
    main()
