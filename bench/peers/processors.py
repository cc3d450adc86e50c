"""The summary of `make peers` for each class of processor that was met, in processors.tsv.

A run replaces the rows of its own class. The rows of other classes keep their date.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from text import seconds, table, times

FILE = Path(__file__).parent / "processors.tsv"


@dataclass(frozen=True)
class Summary:
    """One case on one class of processor. Times in seconds; ratio: the fastest peer's time
    divided by the time of Gnomon; share: the time of the roof divided by the time of Gnomon."""

    processor: str
    date: str
    work: str
    threads: int
    seconds: float
    share: float | None
    peer: str
    ratio: float


def class_of(machine: dict[str, str]) -> str:
    """The vendor and the widest instructions, of a description by machine.py."""
    cpu, sets = machine["cpu"], machine["instruction sets"].split()
    vendor = next((name for name in ("Intel", "AMD") if name in cpu), cpu)
    if "amx_bf16" in sets:
        return f"{vendor} with AMX"
    if "avx512f" not in sets:
        return f"{vendor} without AVX-512"
    extensions = [
        name
        for flag, name in (("avx512_bf16", "BF16"), ("avx512_fp16", "FP16"))
        if flag in sets
    ]
    return f"{vendor} with AVX-512" + (f" ({', '.join(extensions)})" if extensions else "")


def load() -> list[Summary]:
    if not FILE.exists():
        return []
    with FILE.open(encoding="utf-8", newline="") as stream:
        return [
            Summary(
                row["processor"],
                row["date"],
                row["work"],
                int(row["threads"]),
                float(row["seconds"]),
                float(row["share"]) if row["share"] else None,
                row["peer"],
                float(row["ratio"]),
            )
            for row in csv.DictReader(stream, delimiter="\t")
        ]


def save(fresh: list[Summary]) -> list[Summary]:
    """Replaces the rows of the class of `fresh`. Returns all rows, that class first."""
    own = {one.processor for one in fresh}
    rows = [*fresh, *(one for one in load() if one.processor not in own)]
    with FILE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(Summary.__dataclass_fields__)
        for one in rows:
            share = "" if one.share is None else f"{one.share:.3g}"
            writer.writerow(
                [one.processor, one.date, one.work, one.threads]
                + [f"{one.seconds:.4g}", share, one.peer, f"{one.ratio:.3g}"]
            )
    return rows


def dates(rows: Iterable[Summary], processor: str) -> str:
    found = sorted({one.date for one in rows if one.processor == processor})
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def ratio_of(one: Summary) -> str:
    return f"**{times(one.ratio)}**" if one.ratio < 1 else times(one.ratio)


def shares(one: Summary) -> str:
    return "" if one.share is None else f"{one.share:.2f}"


def elsewhere(one: Summary | None) -> str:
    """The cell of another class of processor."""
    if not one:
        return ""
    return "; ".join([seconds(one.seconds), shares(one) or "–", ratio_of(one)])


def table_of(rows: list[Summary]) -> str:
    """rows: of this class of processor first."""
    own, *others = dict.fromkeys(one.processor for one in rows)
    by_work = {(one.processor, one.work, one.threads): one for one in rows}
    body = [
        [one.work, str(one.threads), seconds(one.seconds), shares(one), one.peer, ratio_of(one)]
        + [elsewhere(by_work.get((other, one.work, one.threads))) for other in others]
        for one in rows
        if one.processor == own
    ]
    head = ["work", "threads", "Gnomon", "share of the roof", "fastest peer", "its time"]
    return table(head + others, body)


def met(rows: list[Summary]) -> str:
    """The classes of processors in the table."""
    own, *others = dict.fromkeys(one.processor for one in rows)
    text = f"The first columns are of {own} ({dates(rows, own)}). "
    if not others:
        return text + "No other class of processor was timed."
    listed = ", ".join(f"{other} ({dates(rows, other)})" for other in others)
    return text + (
        f"The other classes that were timed: {listed}. Their cells are the time of Gnomon, its "
        "share of the roof and the time of the fastest peer divided by that of Gnomon, with the "
        "kernels of their date."
    )
