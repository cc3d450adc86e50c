"""Writes docs/benchmarks.md from results.json, and its charts if vl-convert is installed.

python report.py results.json docs/benchmarks.md
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cases
import processors
from cases import Case
from processors import Summary
from text import bullet, power, seconds, table, times

Row = dict[str, Any]
OURS = (
    "Gnomon",
    "Gnomon, called from C++",
    "Gnomon, RotaryTable with its memory",
    "Gnomon, weights in f32",
    "roof",
)

# Packages that are not timed, with the reason. `make peers` does not install them.
LEFT_OUT = (
    ("CTranslate2", "the rotation is part of attention, without a public operator"),
    ("sglang's CPU kernels", "sgl-kernel on PyPI is built for CUDA only"),
    ("Hugging Face's rotary-cpu kernel", "is downloaded from the hub at run time, not from PyPI"),
    ("PaddlePaddle", "fused_rotary_position_embedding has no CPU kernel (tried with 3.3.1)"),
    ("xFasterTransformer", "the rotation is part of the model, without a public operator"),
    ("Liger-Kernel, FlashInfer, xformers, TransformerEngine", "kernels for GPUs only"),
    ("KerasHub, x-transformers, torchao, litgpt", "textbook code on frameworks timed here"),
    ("Attention of ONNX Runtime, bf16", "its operators have no CPU kernel for bfloat16"),
    ("ONNX Runtime, PagedAttention", "the operator has no CPU kernel"),
    ("ONNX Runtime, a cache in E4M3", "GroupQueryAttention has no CPU kernel for it"),
    ("ggml, a cache in E4M3", "ggml has no such type of tensors"),
    ("PyTorch and OpenVINO, a cache of 8 bits", "their operators have no scales of k and v"),
    ("vLLM, a cache in int8", "its CPU backend has 8 bits as E4M3 and E5M2 only"),
)


@dataclass(frozen=True)
class Column:
    title: str
    case: Case
    threads: int


class Results:
    """Medians, or the best rounds if other processes were busy and had the same priority."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.best = data["others"] > 0.1 and not data["preferred"]
        self.rows: dict[tuple[str, int], dict[str, Row]] = {}
        for row in data["rows"]:
            self.rows.setdefault((row["case"], row["threads"]), {})[row["contender"]] = row
        if self.best:
            for group in self.rows.values():
                self.take_best(group)
        self.threads = sorted({row["threads"] for row in data["rows"]})

    @staticmethod
    def take_best(group: dict[str, Row]) -> None:
        timed = [row for row in group.values() if row["ratio"] is not None]
        for row in timed:
            row["seconds"] = row["best_seconds"]
            row["ratio"] = row["best_seconds"] / group["Gnomon"]["best_seconds"]

    def get(self, case: Case, threads: int) -> dict[str, Row]:
        return self.rows.get((case.key, threads), {})

    def timed(self, case: Case, threads: int) -> dict[str, Row]:
        rows = self.get(case, threads)
        return {name: row for name, row in rows.items() if row["ratio"] is not None}

    def share(self, case: Case, threads: int) -> float | None:
        """The time of the roof divided by the time of Gnomon."""
        roof = self.timed(case, threads).get("roof")
        return roof["ratio"] if roof else None

    def fastest_peer(self, case: Case, threads: int) -> Row | None:
        peers = [r for name, r in self.timed(case, threads).items() if name not in OURS]
        return min(peers, key=lambda row: row["ratio"], default=None)

    def all_cases(self) -> list[tuple[Case, int]]:
        fields = Case.__dataclass_fields__
        found: dict[tuple[Case, int], None] = {}
        for row in self.data["rows"]:
            if row["ratio"] is not None:
                known = {name: row[name] for name in fields if name in row}
                found[Case(**known), row["threads"]] = None
        return list(found)


def cell(row: Row | None) -> str:
    if not row or row["ratio"] is None:
        return ""
    if row["contender"] == "Gnomon":
        return f"**{seconds(row['seconds'])}**"
    ratio = times(row["ratio"])
    faster = row["ratio"] < 1 and row["contender"] not in OURS
    return f"{seconds(row['seconds'])}, " + (f"**{ratio}**" if faster else ratio)


def grid(results: Results, columns: list[Column], errors: bool = True) -> str:
    """A table of contenders by columns, sorted by the ratio in the last column that they have."""
    columns = [column for column in columns if results.timed(column.case, column.threads)]
    by_column = [results.timed(column.case, column.threads) for column in columns]
    names = list(dict.fromkeys(name for rows in by_column for name in rows))

    def order(name: str) -> tuple[int, float]:
        for missing, rows in enumerate(reversed(by_column)):
            if name in rows:
                return missing, rows[name]["ratio"]
        return len(columns), 0.0

    decimals = int(any(column.case.plain for column in columns))
    notes: list[str] = []
    body = []
    for name in sorted(names, key=order):
        cells = [cell(rows.get(name)) for rows in by_column]
        last = [rows[name] for rows in by_column if name in rows][-1]
        label = name
        if last["note"]:
            if last["note"] not in notes:
                notes.append(last["note"])
            label += " " + "*" * (1 + notes.index(last["note"]))
        body.append(
            [label.replace("*", "\\*"), *cells]
            + ([power(last["error"], decimals)] if errors else [])
        )
    head = ["", *(column.title for column in columns)] + (["worst error"] if errors else [])
    stars = [f"{chr(92) + '*'}" * (1 + i) + f" {note}" for i, note in enumerate(notes)]
    return table(head, body) + ("\n" + "; ".join(stars) + ".\n" if stars else "")


def threads_named(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def rows_of(case: Case) -> str:
    """The queries of attention without a bias."""
    if case.queries:
        return "1 query" if case.queries == 1 else f"{case.queries} queries"
    return f"{case.batch} × {case.tokens}" if case.batch > 1 else f"{case.tokens} × {case.size}"


def name_of_plain(case: Case) -> str:
    if not case.queries:
        count = f"{case.batch} × {case.tokens}" if case.batch > 1 else f"{case.tokens}"
        return f"attention, {case.dtype}, {count} tokens, head dimension {case.size}"
    parts = ["decoding", case.dtype, f"{rows_of(case)} on {case.tokens} tokens"]
    parts += [f"{case.cache.upper()} cache"] if case.cache else []
    parts += [f"pages of {case.page}"] if case.page else []
    return ", ".join(parts)


def name_of(case: Case) -> str:
    if case.plain:
        return name_of_plain(case)
    if case.attends:
        kind = "trained T5 bias, forward and backward" if case.trains else "attention with ALiBi"
        return f"{kind}, f32, {case.tokens} tokens"
    if case.work == "add_table":
        return f"addition of a table to f32 [{case.batch}, {case.tokens}, {case.size}]"
    if not case.rotates:
        kind = "cos and sin" if case.work == "rotary_table" else "sinusoidal table"
        return f"{kind}, f32, {case.tokens} × {case.size}"
    tokens = "1 token" if case.tokens == 1 else f"{case.tokens} tokens"
    parts = [tokens, case.dtype, case.pairing]
    if case.size != 128:
        parts.append(f"head dimension {case.size}")
    if case.layout == "HTD":
        parts.append("[B, H, T, D]")
    if case.work == "rotate_backward":
        parts.append("backward")
    return ", ".join(parts)


def summaries(results: Results) -> Iterable[Summary]:
    """The fastest peer of each case, on the processor of this run."""
    for case, threads in results.all_cases():
        peer = results.fastest_peer(case, threads)
        ours = results.timed(case, threads).get("Gnomon")
        if not ours or not peer:
            continue
        yield Summary(
            processors.class_of(results.data["machine"]),
            ours.get("date", results.data["date"]),
            name_of(case),
            threads,
            ours["seconds"],
            results.share(case, threads) if case.tokens > 16 else None,
            peer["contender"],
            peer["ratio"],
        )


def verdict(results: Results) -> str:
    pairs = [
        (case, threads, results.fastest_peer(case, threads))
        for case, threads in results.all_cases()
    ]
    compared = [(case, threads, peer) for case, threads, peer in pairs if peer]
    ahead = [item for item in compared if item[2]["ratio"] < 1]
    if not ahead:
        return f"No peer is faster in any of the {len(compared)} comparisons below.\n"
    lines = [f"A peer is faster in {len(ahead)} of the {len(compared)} comparisons below:\n"]
    for case, threads, peer in ahead:
        where = f"{name_of(case)}, {threads_named(threads)}"
        ratio = times(peer["ratio"])
        lines.append(f"- {where}: {peer['contender']}, {ratio} the time of Gnomon.")
    return "\n".join(lines) + "\n"


def rotation_sections(results: Results) -> Iterable[str]:
    most = results.threads[-1]
    listed = [
        case
        for case in (*cases.rotations(), *cases.long_rotations())
        if case.work == "rotate" and case.size == 128 and case.layout == "THD"
    ]
    listed.sort(key=lambda case: (case.tokens == 4096, case.tokens))
    for dtype in ("f32", "bf16", "f16"):
        for pairing in ("halves", "adjacent"):
            taking = [case for case in listed if (case.dtype, case.pairing) == (dtype, pairing)]
            columns = [
                Column("1 token" if case.tokens == 1 else f"{case.tokens} tokens", case, most)
                for case in taking
            ]
            columns += [
                Column(f"4096, {threads_named(threads)}", taking[-1], threads)
                for threads in results.threads[:-1]
            ]
            if any(results.timed(column.case, column.threads) for column in columns):
                yield f"### {dtype}, {pairing}, {threads_named(most)}\n\n" + grid(
                    results, columns
                )


def other_sections(results: Results) -> Iterable[str]:
    most = results.threads[-1]
    threads, rotations = threads_named(most), list(cases.rotations())

    def section(title: str, text: str, columns: list[Column]) -> str:
        return f"## {title}\n\n{text}\n\n" + grid(results, columns)

    def by_type(taking: list[Case]) -> list[Column]:
        taking = sorted(taking, key=lambda case: case.dtype != "f32")
        return [Column(f"{case.dtype}, {case.pairing}", case, most) for case in taking]

    long = [case for case in rotations if case.tokens == 4096 and case.work == "rotate"]
    sizes = [case for case in long if case.size != 128 or case == Case("rotate", 4096)]
    sizes.sort(key=lambda case: (case.dtype != "f32", case.size))
    titles = [f"{case.size}" + ("" if case.dtype == "f32" else ", bf16") for case in sizes]
    yield section(
        "Head dimensions",
        f"4096 tokens, f32, halves, {threads}.",
        [Column(title, case, most) for title, case in zip(titles, sizes, strict=True)],
    )
    yield section(
        "Layout [B, H, T, D]",
        f"4096 tokens, {threads}.",
        by_type([case for case in long if case.layout == "HTD"]),
    )
    yield section(
        "Backward",
        f"Gradients of the inputs q and k, 4096 tokens, {threads}. For PyTorch: "
        "`torch.autograd.grad` with a graph that is kept.",
        by_type([case for case in rotations if case.work == "rotate_backward"]),
    )
    for case in cases.tables():
        title = name_of(case)
        columns = [Column(threads_named(t), case, t) for t in results.threads]
        yield section(title[0].upper() + title[1:], TABLE_NOTES[case.work], columns)


TABLE_NOTES = {
    "rotary_table": "The code of Hugging Face writes both halves of each row, which is twice the "
    "bytes. The others write [T, D/2] each. `Gnomon` writes to memory of the caller. Its "
    "`RotaryTable` and all peers allocate new memory. The roof writes the same bytes.",
    "sinusoidal_table": "Code of the tutorials. The roof writes the same bytes.",
    "add_table": "The roof reads and writes x in place.",
}


def attention_sections(results: Results) -> Iterable[str]:
    for title, trains in (
        ("Forward, ALiBi", False),
        ("Forward and backward, trained T5", True),
    ):
        columns = [
            Column(f"{case.tokens}, {threads_named(threads)}", case, threads)
            for threads in results.threads
            for case in cases.attentions()
            if case.trains == trains
        ]
        yield f"### {title}\n\n" + grid(results, columns)


def plain_sections(results: Results) -> Iterable[str]:
    """Attention without a bias, a table for each type and kind of cache."""
    for title, listed in (
        ("Prompts, tokens × head dimension, {}", cases.prompts()),
        ("Sequences × tokens, {}", cases.short_prompts()),
        ("Decoding from 32768 tokens, {}", cases.decoding()),
        ("Decoding from a cache of 8 bits, q in {}", cases.compact_caches()),
        ("Decoding from pages of 16 tokens, {}", cases.paged_caches()),
        ("One query on 512 tokens, {}", cases.short_caches()),
    ):
        by_type: dict[str, list[Case]] = {}
        for case in listed:
            by_type.setdefault(case.dtype, []).append(case)
        for dtype, taking in by_type.items():
            columns = [
                Column(f"{rows_of(case)}, {threads_named(threads)}", case, threads)
                for threads in results.threads
                for case in taking
            ]
            if any(results.timed(column.case, column.threads) for column in columns):
                cache = f", cache in {taking[0].cache.upper()}" if taking[0].cache else ""
                yield f"### {title.format(dtype)}{cache}\n\n" + grid(results, columns)


def far_section(results: Results) -> str:
    """The errors of contenders that compute cos and sin."""
    body: dict[str, list[str]] = {}
    for case in cases.far_cases():
        near = results.get(Case("rotate", 512, "f32", case.pairing), results.threads[-1])
        for name, row in results.get(case, results.threads[-1]).items():
            at_start = near.get(name, {}).get("error")
            entry = [name, case.pairing, power(at_start), power(row["error"])]
            body[f"{name}, {case.pairing}"] = entry
    return table(["", "pairing", "positions 0 to 511", "100000 to 100511"], body.values())


def versions(results: Results) -> str:
    described = results.data["versions"]
    hidden = ("Gnomon", "kernels", "compiler")
    parts = [f"{name} {v.split('-')[0]}" for name, v in described.items() if name not in hidden]
    return ", ".join(parts)


def machine(results: Results) -> str:
    about, described = results.data["machine"], results.data["versions"]
    return (
        f"{about['cpu']} ({about['instruction sets']}), {about['cores']} cores, "
        f"{about['caches']}, {about['memory']}, transparent huge pages: {about['huge pages']}; "
        f"{about['system']}, Python {about['python']}. Gnomon {described['Gnomon']}, "
        f"{described['kernels']} kernels, {described['compiler']}."
    )


def page(results: Results, pictures: list[tuple[str, str]]) -> str:
    data = results.data
    rows = processors.save(list(summaries(results)))
    template = (Path(__file__).parent / "benchmarks.md.in").read_text()
    missing = [
        f"- {name}: {reason}" for name, reason in data["not_installed"].items() if reason
    ]
    missing += [f"- {name}: {reason}." for name, reason in LEFT_OUT]
    failures = [f"- {name}: {reason}" for name, reason in data["failures"].items()]
    load = f"{100 * data['others']:.0f} %"
    if data["preferred"]:
        load += " of the CPU during the run, but not during turns"
    else:
        load += " of the CPU during the run"
    rounds = f"{data['rounds']} rounds" + (" (fewer cases)" if data["quick"] else "")
    if results.best:
        statistic = f"the best of {rounds}, because other processes make the medians unreliable"
    else:
        statistic = f"medians of {rounds}"
    parts = {
        "notes": "".join(f"\n{bullet(note)}" for note in data.get("notes", [])),
        "date": data["date"],
        "statistic": statistic,
        "others": load,
        "machine": machine(results),
        "versions": versions(results),
        "verdict": verdict(results),
        "classes": textwrap.fill(processors.met(rows), 120),
        "summary": processors.table_of(rows),
        "pictures": "\n".join(f"![{title}]({file})\n" for title, file in pictures),
        "rotation": "\n".join(rotation_sections(results)),
        "others_sections": "\n".join(other_sections(results)),
        "attention": "\n".join(attention_sections(results)),
        "plain_attention": "\n".join(plain_sections(results)),
        "far": far_section(results),
        "missing": "\n".join(missing) + "\n",
        "failures": "\n".join(["\nFailures:\n", *failures]) + "\n"
        if failures
        else "",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]].rstrip("\n"), template)


def main() -> None:
    results = Results(json.loads(Path(sys.argv[1]).read_text()))
    target = Path(sys.argv[2])
    try:
        import pictures
    except ModuleNotFoundError:
        print("peers: no charts: vl-convert is missing (run `make setup`)", file=sys.stderr)
        drawn = []
    else:
        drawn = pictures.draw(results, target)
    target.write_text(page(results, drawn))


if __name__ == "__main__":
    main()
