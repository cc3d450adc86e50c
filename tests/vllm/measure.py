"""Prints the tables of docs/integrations/vllm.md.

    python tests/vllm/measure.py [--errors] [--times]

Times: calls of vLLM's layers and of the plug-in's in one process, in turns; the medians. The
process has a real-time priority if it may set one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["VLLM_PLUGINS"] = ""
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import numpy as np  # noqa: E402
import test_attention  # noqa: E402
import test_rotary  # noqa: E402
import torch  # noqa: E402
from gnomon_vllm.attention import GnomonAttentionImpl  # noqa: E402
from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.forward_context import set_forward_context  # noqa: E402
from vllm.v1.attention.backends import cpu_attn  # noqa: E402

from conftest import made_config  # noqa: E402

HEADS, KEY_HEADS, SIZE, PAGE, LAYERS = 32, 8, 128, 128, 32
SECONDS = 1.5


def medians(runs: list[Callable[[], Any]]) -> list[float]:
    """Seconds of a call. Blocks of calls in turns, with a pause between blocks: the threads of
    both pools sleep then, instead of waiting for work on the processors of the other one."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS * len(runs)
    while time.perf_counter() < end or len(times[0]) < 9:
        for run, found in zip(runs, times, strict=True):
            time.sleep(0.02)
            run()
            for _ in range(3):
                start = time.perf_counter()
                run()
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def row(name: str, runs: list[Callable[[], Any]], parts: int = 1) -> None:
    theirs, ours = (1e6 * seconds / parts for seconds in medians(runs))
    digits = 1 if ours < 100 else 0
    print(f"| {name} | {theirs:,.{digits}f} us | {ours:,.{digits}f} us | {theirs / ours:.2f} |",
          flush=True)


def rotations(config: Any, tokens: int, dtype: torch.dtype) -> list[Callable[[], Any]]:
    """Queries and keys of all layers of a step: the layers share a module of vLLM."""
    places = torch.arange(4000, 4000 + tokens)
    q, k = (torch.randn(tokens, heads * SIZE).to(dtype) for heads in (HEADS, KEY_HEADS))
    arguments = {"base": 5e5, "head_size": SIZE, "rotary_dim": SIZE}
    runs = []
    for ours in (False, True):
        layer = test_rotary.layer_of("RotaryEmbedding", arguments, dtype, ours)

        def step(layer: Any = layer) -> None:
            with set_forward_context(None, config):
                for _ in range(LAYERS):
                    layer(places, q, k)

        runs.append(step)
    return runs


def attentions(tokens: int, keys: int, sequences: int,
               dtype: torch.dtype) -> list[Callable[[], Any]]:
    rng = np.random.default_rng(1)
    blocks = sequences * keys // PAGE
    table = torch.from_numpy(rng.permutation(blocks).reshape(sequences, -1).astype(np.int32))
    starts = torch.arange(0, sequences * tokens + 1, tokens, dtype=torch.int32)
    lengths = torch.full((sequences,), keys, dtype=torch.int32)
    slots = (table[:, :, None] * PAGE + torch.arange(PAGE)).flatten().long()
    q = torch.randn(sequences * tokens, HEADS, SIZE).to(dtype)
    k, v = (torch.randn(sequences * keys, KEY_HEADS, SIZE).to(dtype) for _ in "kv")
    isa = cpu_attn._get_attn_isa(dtype, PAGE, SIZE)
    layer = test_attention.Layer(isa)
    of = cpu_attn.CPUAttentionMetadata(
        num_actual_tokens=len(q), max_query_len=tokens, query_start_loc=starts, max_seq_len=keys,
        seq_lens=lengths, block_table=table, slot_mapping=slots,
        scheduler_metadata=test_attention.ops.cpu_attn_get_scheduler_metadata(
            num_reqs=sequences, num_heads=HEADS, num_kv_heads=KEY_HEADS, head_dim=SIZE,
            seq_lens=lengths, dtype=dtype, query_start_loc=starts, causal=True,
            sliding_window_size=-1, isa=isa, enable_kv_split=True, dynamic_causal=None,
            kv_cache_dtype="auto"))
    runs = []
    for kind in (cpu_attn.CPUAttentionBackendImpl, GnomonAttentionImpl):
        made = kind(HEADS, SIZE, SIZE**-0.5, KEY_HEADS, None, None, "auto")
        pages = torch.zeros(blocks, KEY_HEADS, PAGE, 2 * SIZE, dtype=dtype)
        made.do_kv_cache_update(layer, k, v, pages, slots)
        out = torch.empty_like(q)
        runs.append(lambda made=made, pages=pages, out=out: made.forward(
            layer, q, k, v, pages, of, out))
    return runs


def print_errors() -> None:
    print("| rotation | float32, position 0: vLLM, Gnomon | 131,000 | bfloat16, 0 | 131,000 |")
    print("|---|---|---|---|---|")
    for case in test_rotary.CASES:
        cells = [f"`{case[0]}`" + (", adjacent" if "is_neox_style" in case[1] else "")
                 + (", 32 of 64 elements" if "rotary_dim" in case[1] else "")]
        for dtype in (torch.float32, torch.bfloat16):
            for start in (0, 131_000):
                found = test_rotary.errors(case, dtype, start)
                cells.append(f"{found['vLLM']:.0e}, {found['Gnomon']:.0e}")
        print("| " + " | ".join(cells) + " |")
    print("\n| attention | float32: vLLM, Gnomon | bfloat16 |")
    print("|---|---|---|")
    for name, settings in zip(test_attention.IDS, test_attention.SETTINGS, strict=True):
        cells = [name]
        for dtype in (torch.float32, torch.bfloat16):
            found = test_attention.errors(dtype, **settings)
            cells.append(f"{found['vLLM']:.0e}, {found['Gnomon']:.0e}")
        print("| " + " | ".join(cells) + " |")


def print_times(config: Any) -> None:
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print("| work | vLLM | Gnomon | vLLM / Gnomon |")
    print("|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        for tokens in (1, 16, 512):
            count = "1 token" if tokens == 1 else f"{tokens} tokens"
            row(f"{name}: rotation of q and k, {count}", rotations(config, tokens, dtype), LAYERS)
        for tokens, keys, sequences in ((512, 512, 1), (512, 4096, 1), (1, 4096, 1),
                                        (1, 4096, 8)):
            count = "1 token" if tokens == 1 else f"{tokens} tokens"
            row(f"{name}: attention, {sequences} x {count}, {keys} keys",
                attentions(tokens, keys, sequences, dtype))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--times", action="store_true")
    asked = parser.parse_args()
    config = made_config()
    with set_current_vllm_config(config):
        if asked.errors:
            print_errors()
        if asked.times:
            print_times(config)


if __name__ == "__main__":
    main()
