"""Prints the tables of docs/integrations/ggml.md.

    python tests/ggml/measure.py [--errors] [--times]

Times: both graphs in one process, on the same threads of ggml, in turns; the medians. The process
has a real-time priority if it may set one, so that other processes do not interrupt a graph.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import ggml
import numpy as np
from layers import Decoding, error, rotation
from models import MODELS
from operators import Graph, Layer

HEADS, KEY_HEADS, SIZE, LAYERS = 32, 8, 128, 32
THREADS = 2
SECONDS = 1.5  # of each case
ROTARY = {"rotary_dim": SIZE, "pairing": 2, "base": 5e5, "head_offset": 0}


def print_errors(folder: pathlib.Path) -> None:
    print("| file | rotation at 0: ggml, Gnomon | at 131072 | attention, F32 cache | F16 cache |")
    print("|---|---|---|---|---|")
    for number, model in enumerate(MODELS):
        path = model.write(folder / f"{number}.gguf")
        cells = [model.name]
        for start in (0, 131072):
            found = rotation(model, path, start) if model.rope else None
            cells.append(f"{found.ggml:.0e}, {found.gnomon:.0e}" if found else "")
        for dtype in (np.float32, np.float16):
            worst = [0.0, 0.0]
            for index in range(len(model.layers)):
                decoding = Decoding(model, path, index, dtype)
                for tokens in (40, 1, 7):
                    step = decoding.step(tokens)
                    errors = (error(x, step.exact, 1.0) for x in (step.ggml, step.gnomon))
                    worst = [max(pair) for pair in zip(worst, errors, strict=True)]
            cells.append(f"{worst[0]:.0e}, {worst[1]:.0e}")
        print("| " + " | ".join(cells) + " |")


def medians(runs: list[Callable[[], None]]) -> list[float]:
    """Seconds of each run. Blocks of runs in turns, the first run of each is not counted."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS * len(runs)
    while time.perf_counter() < end or len(times[0]) < 9:
        for run, found in zip(runs, times, strict=True):
            run()
            for _ in range(3):
                start = time.perf_counter()
                run()
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def rope_graph(tokens: int, layers: int, is_ggml: bool) -> Graph:
    """Rotates the queries of each layer in place."""
    graph = Graph(1 << 29, THREADS)
    rng = np.random.default_rng(1)
    positions = graph.new(np.arange(4000, 4000 + tokens, dtype=np.int32))
    graph.layer = Layer(rotary=ROTARY)
    ids = None if is_ggml else graph.tokens(graph.layer, positions)
    for _ in range(layers):
        x = graph.new(rng.standard_normal((tokens, HEADS, SIZE), np.float32))
        if is_ggml:
            node = ggml.ggml_rope_ext_inplace(graph.context, x, positions, None, SIZE, 0, 0, 5e5,
                                              1.0, 0.0, 1.0, 32.0, 1.0)
        else:
            node = graph.prepare(graph.layer, x, ids)
        graph.add(node)
    return graph


def attention_graph(tokens: int, keys: int, is_ggml: bool) -> Graph:
    """The last tokens of a sequence attend to its cache, F16."""
    graph = Graph(1 << 30, THREADS)
    rng = np.random.default_rng(1)
    q = graph.new(rng.standard_normal((tokens, HEADS, SIZE), np.float32))
    k, v = (graph.heads_first(graph.new(rng.standard_normal((keys, KEY_HEADS, SIZE), np.float32)
                                        .astype(np.float16))) for _ in "kv")
    cached = keys - tokens
    if is_ggml:
        hidden = np.arange(keys) - (np.arange(tokens) + cached)[:, None] > 0
        mask = None
        if tokens > 1:
            mask = graph.new(np.where(hidden, -np.inf, 0).astype(np.float16))
        node = ggml.ggml_flash_attn_ext(graph.context, graph.heads_first(q), k, v, mask,
                                        SIZE**-0.5, 0.0, 0.0)
        ggml.ggml_flash_attn_ext_set_prec(node, ggml.GGML_PREC_F32)
    else:
        graph.layer = Layer()
        ids = graph.tokens(graph.layer, graph.new(np.arange(cached, keys, dtype=np.int32)))
        node = graph.attend(graph.layer, graph.heads_first(q), k, v, ids)
    graph.add(node)
    return graph


def row(name: str, make: Callable[..., Graph], *arguments: Any, parts: int = 1) -> None:
    graphs = [make(*arguments, is_ggml) for is_ggml in (True, False)]
    theirs, ours = (1e6 * seconds / parts for seconds in
                    medians([graph.compute for graph in graphs]))
    digits = 1 if ours < 100 else 0
    print(f"| {name} | {theirs:,.{digits}f} us | {ours:,.{digits}f} us | {theirs / ours:.2f} |",
          flush=True)


def print_times() -> None:
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print("| work | ggml | Gnomon | ggml / Gnomon |")
    print("|---|---|---|---|")
    row("rotation, 512 tokens, one layer", rope_graph, 512, 1)
    row("rotation, 512 tokens, each of 32 layers", rope_graph, 512, LAYERS, parts=LAYERS)
    row("rotation, 1 token, one layer", rope_graph, 1, 1)
    row("rotation, 1 token, each of 32 layers", rope_graph, 1, LAYERS, parts=LAYERS)
    row("attention, 512 tokens, 512 keys", attention_graph, 512, 512)
    row("attention, 512 tokens, 4096 keys", attention_graph, 512, 4096)
    row("attention, 1 token, 4096 keys", attention_graph, 1, 4096)
    row("attention, 1 token, 32768 keys", attention_graph, 1, 32768)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--times", action="store_true")
    asked = parser.parse_args()
    if asked.errors:
        with tempfile.TemporaryDirectory() as folder:
            print_errors(pathlib.Path(folder))
    if asked.times:
        print_times()


if __name__ == "__main__":
    main()
