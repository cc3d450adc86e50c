"""Writes docs/benchmarks-gpu.md from results.json. Each sentence about a time is made from it.

python report.py results.json PAGE [--checks checks.tsv]
python report.py --not-measured PAGE [--checks checks.tsv]
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cases import GROUPS, Case, Target, all_cases, targets
from text import power, seconds, times

Row = dict[str, Any]
OURS, ROOF, EMPTY, BASELINE, PEER = "Gnomon", "roof", "empty", "baseline", "peer"
TARGET_DEVICE = "H200"

# Packages that are not timed, with the reason.
LEFT_OUT = (
    ("xformers, TransformerEngine, Apex", "their rotations are for their own modules and layouts"),
    ("TensorRT-LLM", "the rotation is a part of its attention"),
)


def wrapped(text: str) -> str:
    return textwrap.fill(text, 98, break_long_words=False, break_on_hyphens=False)


def bullet(text: str) -> str:
    return textwrap.fill(text, 98, initial_indent="- ", subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(map(bullet, lines)) or "None."


def table(head: list[str], body: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join(lines)


class Results:
    def __init__(self, data: dict[str, Any] | None) -> None:
        self.data = data or {"rows": [], "missing": {}, "failures": {}, "unmeasured": {},
                             "machine": {}, "versions": {}}
        self.rows: dict[str, dict[str, Row]] = {}
        for row in self.data["rows"]:
            self.rows.setdefault(row["case"], {})[row["contender"]] = row

    @property
    def device(self) -> str:
        return self.data["machine"].get("device", "")

    def of(self, case: Case) -> list[Row]:
        return list(self.rows.get(case.key, {}).values())

    def role(self, case: Case, role: str) -> Row | None:
        return next((row for row in self.of(case) if row["role"] == role), None)

    def fastest_peer(self, case: Case) -> Row | None:
        peers = [row for row in self.of(case) if row["role"] == PEER]
        return min(peers, key=lambda row: row["seconds"], default=None)

    def measured(self, case: Case) -> bool:
        return self.role(case, OURS) is not None

    def why_not(self, case: Case) -> str:
        """The reason why a case has no time, for the end of a sentence."""
        if not self.data["rows"] and not self.data["unmeasured"]:
            return ""
        return "; " + self.data["unmeasured"].get(case.key, "not in the results")


def promise(target: Target) -> str:
    """The target in words."""
    return {"share": f"at least {target.limit:.2f} of the roof",
            "seconds": f"at most {seconds(target.limit)} on an {TARGET_DEVICE}",
            "over empty": f"at most {seconds(target.limit)} more than an empty kernel",
            "ratio": f"at most {target.limit:.2f}× the baseline"}[target.kind]


def judged(results: Results, target: Target) -> tuple[bool | None, str]:
    """Whether the target is met (None: not known), and a sentence with the numbers."""
    case, ours = target.case, results.role(target.case, OURS)
    what = f"{case.title}: "
    if ours is None:
        return None, f"Not measured: {case.title} ({promise(target)}){results.why_not(case)}."
    other = {"share": ROOF, "over empty": EMPTY, "ratio": BASELINE}.get(target.kind)
    row = results.role(case, other) if other else None
    if other and row is None:
        return None, f"Not known: {what}the {other} was not measured ({promise(target)})."
    if target.kind == "share":
        assert row is not None
        value = row["ratio"]
        met, number = value >= target.limit, f"{value:.3f} of the roof"
    elif target.kind == "over empty":
        assert row is not None
        value = ours["seconds"] - row["seconds"]
        sign = "more" if value >= 0 else "less"
        met, number = value <= target.limit, f"{seconds(abs(value))} {sign} than an empty kernel"
    elif target.kind == "ratio":
        assert row is not None
        value = 1 / row["ratio"]
        met, number = value <= target.limit, f"{value:.2f}× the baseline"
    else:
        met, number = ours["seconds"] <= target.limit, seconds(ours["seconds"])
        if TARGET_DEVICE not in results.device:
            return None, f"Not judged on this device: {what}{number} ({promise(target)})."
    return met, f"{'Met' if met else '**Missed**'}: {what}{number} ({promise(target)})."


def target_section(results: Results) -> str:
    verdicts = [judged(results, target) for target in targets()]
    met, missed = (sum(found is value for found, _ in verdicts) for value in (True, False))
    unknown = len(verdicts) - met - missed
    if not met + missed:
        count = f"None of the {len(verdicts)} targets is judged."
    else:
        count = f"Of {len(verdicts)} targets, {met} are met, {missed} are missed and {unknown} " \
                "are not judged."
    if results.device and TARGET_DEVICE not in results.device:
        count += f" The targets are stated for an NVIDIA {TARGET_DEVICE}; this is another " \
                 f"device, {results.device}."
    order = {False: 0, None: 1, True: 2}
    ordered = sorted(verdicts, key=lambda verdict: order[verdict[0]])
    return wrapped(count) + "\n\n" + bullets(text for _, text in ordered)


def peer_section(results: Results) -> str:
    compared = [(case, results.role(case, OURS), results.fastest_peer(case))
                for case in all_cases() if results.measured(case)]
    pairs = [(case, ours, peer) for case, ours, peer in compared if ours and peer]
    if not pairs:
        return "No peer was measured."
    ahead = [(case, ours, peer) for case, ours, peer in pairs if peer["ratio"] < 1]
    if ahead:
        lead = f"A peer is faster in {len(ahead)} of {len(pairs)} cases:"
        text = lead + "\n\n" + bullets(
            f"{case.title}: {peer['contender']}, {times(peer['ratio'])} the time of Gnomon."
            for case, _, peer in ahead)
    else:
        text = f"No peer is faster in any of {len(pairs)} cases."
    exacter = [(case, ours, row) for case, ours, _ in pairs for row in results.of(case)
               if row["role"] == PEER and row["error"] is not None
               and ours["error"] is not None and row["error"] < ours["error"]]
    if exacter:
        return text + "\n\nA peer has a smaller error in these cases:\n\n" + bullets(
            f"{case.title}: {row['contender']}, {power(row['error'])}; Gnomon "
            f"{power(ours['error'])}." for case, ours, row in exacter)
    return text + ("\n\n" if ahead else " ") + "None has a smaller error than Gnomon."


def spread(row: Row) -> str:
    return f"{100 * (row['high'] - row['low']) / row['seconds']:.0f} %"


def group_sections(results: Results) -> Iterable[str]:
    for group, title in GROUPS.items():
        cases = [case for case in all_cases() if case.group == group and results.measured(case)]
        if not cases:
            continue
        yield f"## {title}"
        for case in cases:
            yield f"### {case.title[0].upper() + case.title[1:]}\n\n" + case_table(results, case)


def case_table(results: Results, case: Case) -> str:
    notes: list[str] = []
    body = []
    for row in sorted(results.of(case), key=lambda row: row["seconds"]):
        name = row["contender"]
        if row["note"]:
            if row["note"] not in notes:
                notes.append(row["note"])
            name += " " + "\\*" * (1 + notes.index(row["note"]))
        name = f"**{name}**" if row["role"] == OURS else name
        if row["role"] in (ROOF, EMPTY, BASELINE):
            name += f" ({row['role']})"
        ratio = "" if row["role"] == OURS or row["ratio"] is None else times(row["ratio"])
        rate = ""
        if row["bytes"] and row["role"] in (OURS, ROOF):
            rate = f"{row['bytes'] / row['seconds'] / 1e12:.2f} TB/s"
        body.append([name, seconds(row["seconds"]), spread(row), ratio, rate,
                     power(row["error"])])
    text = table(["", "time", "spread", "ratio", "rate", "worst error"], body)
    stars = [f"{chr(92) + '*'}" * (1 + i) + f" {note}" for i, note in enumerate(notes)]
    return text + ("\n\n" + "; ".join(stars) + "." if stars else "")


def unmeasured_section(results: Results) -> str:
    cases = [case for case in all_cases() if not results.measured(case)]
    return bullets(f"{case.title}{results.why_not(case)}." for case in cases)


def missing_section(results: Results) -> str:
    lines = [f"{name}: {text}." for name, text in results.data["missing"].items()]
    lines += [f"{name}: {text}." for name, text in results.data["failures"].items()]
    return bullets([*lines, *(f"{name}: {text}." for name, text in LEFT_OUT)])


def check_section(checks: list[dict[str, Any]]) -> str:
    if not checks:
        return "No check was run."
    failed = [check for check in checks if check["status"] == "failed"]
    lead = (f"{len(failed)} of {len(checks)} checks failed." if failed
            else f"No check of {len(checks)} failed.")
    return lead + "\n\n" + bullets(
        f"{check['name']}: {'**failed**' if check in failed else check['status']}, "
        f"{check['seconds']:.0f} s" + (f"; {check['text']}" if check["text"] else "") + "."
        for check in checks)


def machine_text(results: Results) -> str:
    about = results.data["machine"]
    packages = ", ".join(f"{name} {version}"
                         for name, version in results.data["versions"].items())
    parts = [about["device"]]
    parts += [f"{about[key]} {text}" for key, text in
              (("multiprocessors", "multiprocessors"), ("memory", "of memory"), ("L2", "of L2"))
              if key in about]
    software = [f"{name} {about[key]}" for key, name in
                (("driver", "driver"), ("cuda", "CUDA"), ("python", "Python")) if key in about]
    return "> " + ", ".join(parts) + "; " + ", ".join([*software, about["system"]]) + \
        f".\n> {packages}."


def page(data: dict[str, Any] | None, checks: list[dict[str, Any]]) -> str:
    results = Results(data)
    template = (Path(__file__).parent / "benchmarks-gpu.md.in").read_text()
    if data is None:
        lead = "**Not measured yet.** This page has no times until `make gpu` has run on a " \
               "machine with a GPU. It then replaces this text."
        status = wrapped(lead)
    else:
        status = f"Measured {data['date']} with `{data['command']}` on\n\n" \
                 + machine_text(results)
    parts = {"status": status, "targets": target_section(results),
             "peers": peer_section(results) if data else "Not measured.",
             "groups": "\n\n".join(group_sections(results)),
             "unmeasured": unmeasured_section(results),
             "missing": missing_section(results) if data else bullets(
                 f"{name}: {text}." for name, text in LEFT_OUT),
             "checks": check_section(checks),
             "rounds": (f"{data['rounds']} rounds" if data else "51 rounds"),
             "calls": str(data["calls"] if data else 64)}
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    return re.sub(r"\n{3,}", "\n\n", text)


def checks_of(text: str) -> list[dict[str, Any]]:
    """The checks that tools/gpu.sh has recorded: name, status, seconds and a text in each line."""
    fields = [line.split("\t") for line in text.splitlines()]
    return [{"name": name, "status": status, "seconds": float(taken), "text": note}
            for name, status, taken, note in fields]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("page", type=Path)
    parser.add_argument("--not-measured", action="store_true")
    parser.add_argument("--checks", type=Path, help="results of the checks of tools/gpu.sh")
    options = parser.parse_args()
    if options.not_measured == (options.results is not None):
        parser.error("either results.json or --not-measured is required")
    data = None if options.not_measured else json.loads(options.results.read_text())
    checks = checks_of(options.checks.read_text()) if options.checks else []
    options.page.write_text(page(data, checks))


if __name__ == "__main__":
    main()
