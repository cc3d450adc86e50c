"""Times ONNX Runtime's operators beside the custom operators, in turns.

    times.py LIBRARY [--threads N] [--runs N]

Each line: the median time of both, in ms, and their quotient. Results are compared too.
"""

from __future__ import annotations

import argparse
import statistics
import time

import gnomon
import numpy as np
from gnomon import _core
from onnx import helper
from operators import session_of

HEADS, TOKENS, SIZE = 32, 1024, 128
ROPE = '{"kind": "rotary", "rotary_dim": 128, "pairing": "halves", "base": 500000.0}'
ALIBI = '{"kind": "alibi", "heads": 32}'


def node(kind, inputs, outputs=("out",), domain="", **attributes):
    return helper.make_node(kind, list(inputs), list(outputs), domain=domain, **attributes)


def rotary(rng):
    x = rng.standard_normal((1, TOKENS, HEADS, SIZE), np.float32)
    positions = np.arange(TOKENS, dtype=np.int64)[None]
    table = gnomon.RotaryTable(gnomon.Encoding.from_json(ROPE), np.arange(TOKENS))
    flat = x.reshape(1, TOKENS, HEADS * SIZE)
    caches = {"cos": np.ascontiguousarray(table.cos[0]), "sin": np.ascontiguousarray(table.sin[0])}
    return [
        (node("RotaryEmbedding", ["x", "cos", "sin", "positions"], num_heads=HEADS),
         {"x": flat, **caches, "positions": positions}),
        (node("RotaryEmbedding", ["x", "positions"], domain="gnomon", encoding=ROPE),
         {"x": x, "positions": positions})]


def attention(rng, queries, keys, biased, causal):
    heads = [rng.standard_normal((1, tokens, HEADS, SIZE), np.float32)
             for tokens in (queries, keys, keys)]
    given = dict(zip("qkv", heads))
    # ONNX's operator takes [B, H, T, D].
    other = {name: np.ascontiguousarray(one.transpose(0, 2, 1, 3)) for name, one in given.items()}
    names = ["q", "k", "v"]
    if biased:
        plan = gnomon.lower(gnomon.Encoding.from_json(_core.complete(ALIBI)), queries, keys,
                            visibility="causal")
        other["mask"] = plan.bias(queries, keys).astype(np.float32)[None]
    causal_onnx = int(causal and queries == keys)
    return [
        (node("Attention", names + ["mask"] * biased, is_causal=causal_onnx), other),
        (node("Attention", [*names, ""], domain="gnomon", causal=int(causal),
              **({"encoding": _core.complete(ALIBI)} if biased else {})), given)]


CASES = {
    "RotaryEmbedding, 1 x 1024 x 32 heads x 128": lambda rng: rotary(rng),
    "Attention, causal, 32 heads x 1024 x 128": lambda rng: attention(
        rng, TOKENS, TOKENS, False, True),
    "Attention, causal, ALiBi: dense mask, generated": lambda rng: attention(
        rng, TOKENS, TOKENS, True, True),
    "Attention, 1 query on 4096 keys": lambda rng: attention(rng, 1, 4096, False, True),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    print(f"| {given.threads} threads, median of {given.runs} | ONNX Runtime, ms | gnomon, ms | "
          "quotient |\n|---|---|---|---|")
    for name, make in CASES.items():
        pairs = []
        for one, feeds in make(np.random.default_rng(0)):
            shapes = {key: value.shape for key, value in feeds.items()}
            pairs.append((session_of(given.library, [one], shapes, ["out"], given.threads), feeds))
        results = [session.run(None, feeds)[0] for session, feeds in pairs]
        first = results[0]
        if first.ndim == 4:
            first = first.transpose(0, 2, 1, 3)
        assert np.abs(first.reshape(results[1].shape) - results[1]).max() < 1e-4, name
        times = [[], []]
        for _ in range(given.runs):
            for taken, (session, feeds) in zip(times, pairs):
                begin = time.perf_counter()
                session.run(None, feeds)
                taken.append(1000 * (time.perf_counter() - begin))
        one, two = map(statistics.median, times)
        print(f"| {name} | {one:.3g} | {two:.3g} | {one / two:.2f} |", flush=True)


if __name__ == "__main__":
    main()
