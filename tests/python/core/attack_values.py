"""Drawn arguments for attack.py."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

import gnomon
import gnomon.model

NUMBERS = [0, 1, 7, 2**31, 2**32 + 1, 2**62, 2**63 - 1, -1, -(2**63), 2**63, 10**30]
SPECS = [
    gnomon.Rotary(rotary_dim=4, pairing="halves"),
    gnomon.Alibi(heads=2),
    gnomon.Sinusoidal(width=8, recipe="interleaved"),
    gnomon.T5Bias(heads=2, buckets=4, max_distance=9, direction="causal"),
    gnomon.Learned(rows=8, width=8),
    '{"kind": "alibi", "heads": 9223372036854775807}',
    '{"kind": "sinusoidal", "width": 4611686018427387904, "recipe": "half_split"}',
    '{"kind": "learned", "rows": 4611686018427387904, "width": 4611686018427387904}',
    '{"kind": "shaw", "heads": 4611686018427387904, "head_dim": 4, "left": 1, "right": 2}',
    '{"kind": "swin", "heads": 2, "height": 2147483648, "width": 2147483648}',
    "[[[[",
]
CONFIG = (
    '{"model_type": "llama", "num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 2,'
    ' "max_position_embeddings": 16}'
)


class Draw:
    """Drawn values; the results of earlier calls are arguments of later ones."""

    def __init__(self, seed: int, folder: str) -> None:
        self.random = random.Random(seed)
        self.folder = folder  # checkpoint folder
        self.plans: list[Any] = []
        self.tables: list[Any] = [gnomon.RotaryTable(SPECS[0], 3)]
        self.models: list[Any] = []
        self.positions: list[Any] = [gnomon.Positions([0, 1, 2])]
        self.caches: list[Any] = []
        self.paged: list[Any] = []
        self.memories: list[Any] = []
        self.graphs: list[Any] = []
        self.compressed: list[Any] = []
        self.released = [gnomon.model.from_pretrained(json.loads(CONFIG))]
        self.specs = SPECS
        self.frequencies: list[Any] = [gnomon.rotary_frequencies(SPECS[0])]
        self.last: Any = None
        self.calm = False  # only arguments that may be right

    def one_in(self, count: int) -> bool:
        return not self.calm and self.random.randrange(count) == 0

    def integer(self) -> Any:
        if self.one_in(25):
            return self.random.choice([None, 1.5, "x", True, [], NUMBERS])
        return self.random.choice(NUMBERS) if self.one_in(3) else self.random.randrange(9)

    def few(self) -> Any:
        return self.integer() if self.one_in(4) else self.random.randrange(3)

    def number(self) -> Any:
        return self.random.choice(
            [0.0, 1.0, -1.0, 1e300, float("nan"), float("inf"), 0.5, None]
        )

    def state_of_positions(self) -> tuple[Any, ...]:
        tokens = self.random.randrange(9)
        return (
            self.integer() if self.one_in(3) else 1,
            self.integer() if self.one_in(3) else tokens,
            [self.integer() for _ in range(tokens)],
            [self.random.choice([0, 1, -1, -7])]
            * (self.random.randrange(9) if self.one_in(3) else tokens),
        )

    def text(self, *good: str) -> Any:
        return (
            self.random.choice(["", "?", None, 3])
            if self.one_in(12)
            else self.random.choice(good)
        )

    def array(self, *shape: int) -> Any:
        if self.one_in(25):
            return self.random.choice(
                [None, 3, "x", [1, 2], np.array(["x"]), object(), np.float32(1)]
            )
        if self.last is not None and self.one_in(12):
            return self.last
        extents = [n if not self.one_in(15) else self.random.choice([0, 1, 7]) for n in shape]
        if self.one_in(15):
            extents = extents[1:] if self.one_in(2) else [1, *extents]
        dtype = (
            "f4"
            if self.calm
            else self.random.choice(
                ["f4"] * 40 + ["f2", "f8", "i1", "i4", "i8", "u1", "c8", "?"]
            )
        )
        memory = np.zeros(int(np.prod(extents)) + 8, dtype)
        x = memory[: memory.size - 8].reshape(extents)
        kind = 39 if self.calm else self.random.randrange(40)
        if kind == 0:
            x = memory[8:].reshape(extents)
        elif kind == 1:
            huge = [self.random.choice([n, 2**31, 2**40]) for n in extents]
            try:
                x = np.broadcast_to(np.zeros((), dtype), huge)
            except ValueError:
                pass
        elif kind == 2:
            x = np.asfortranarray(x)
        elif kind == 3:
            x = np.flip(x)
        elif kind == 4:
            x = np.lib.stride_tricks.as_strided(x, extents, [0] * len(extents))
        elif kind == 5:
            x.flags.writeable = False
        elif kind == 6:
            x = np.frombuffer(bytes(x.nbytes + 1), "u1")[1:].view(dtype).reshape(extents)
        self.last = x
        return x

    def ids(self, *shape: int) -> Any:
        kind = self.random.randrange(10)
        if kind == 0:
            return self.array(*shape)
        if kind == 1:
            return [self.integer() for _ in range(shape[-1])]
        if kind == 2:
            return np.full(shape, self.random.choice([2**62, -(2**63), 2**63 - 1]), "i8")
        return np.arange(int(np.prod(shape))).reshape(shape) % 8

    def tokens(self) -> Any:
        kind = self.random.randrange(6)
        if kind == 0:
            return self.integer()
        if kind == 1:
            return self.random.choice(self.positions)
        if kind == 2:
            return tuple(self.ids(3) for _ in range(self.random.randrange(4)))
        return 3 if kind < 5 else self.ids(1 + self.random.randrange(2), 3)

    def spec(self) -> Any:
        if self.one_in(8):
            return self.random.choice([None, 3, "", "{}", [], [SPECS[0], SPECS[1]]])
        return self.random.choice(SPECS if self.one_in(2) else SPECS[:5])

    def of(self, pool: list[Any]) -> Any:
        return (
            self.random.choice([None, 3, SPECS[0]])
            if self.one_in(20) or not pool
            else (self.random.choice(pool))
        )

    def keep(self, pool: list[Any], one: Any) -> Any:
        if len(pool) > 20:
            pool[self.random.randrange(20)] = one
        else:
            pool.append(one)
        return one
