"""The interface of contenders: a name, the supported cases, and a call to time.

A module of contenders/ that runs as one process has two functions: contenders(threads), which
returns its contenders, and versions(), which returns those of its packages.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from arrays import Inputs
from cases import Case


@dataclass
class Run:
    """A case prepared by one contender."""

    call: Callable[[], object]  # returns when the work is done
    # The results of these tokens, as floats [rows, ...]. None: there is nothing to check.
    results: Callable[[list[int]], list[NDArray]] | None
    reset: Callable[[], object] = lambda: None  # restores inputs that `call` overwrites
    note: str = ""
    # Returns the nanoseconds of `count` calls, for a loop outside Python.
    loop: Callable[[int], int] | None = None

    @staticmethod
    def keeping(
        compute: Callable[[], Any],
        results: Callable[[Any, list[int]], list[NDArray]],
        note: str = "",
    ) -> Run:
        """A call that is not in place: `results` gets what the last `compute` returned."""
        kept: list = [None]

        def call() -> None:
            kept[0] = compute()

        return Run(call, lambda rows: results(kept[0], rows), note=note)

    def seconds(self, count: int) -> float:
        """Seconds per call, the mean of `count` calls."""
        if self.loop:
            return self.loop(count) / count * 1e-9
        call = self.call
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count


class Contender(ABC):
    name: str  # in the report
    works: tuple[str, ...] = ("rotate",)
    dtypes: tuple[str, ...] = ("f32", "bf16", "f16")
    pairings: tuple[str, ...] = ("halves", "adjacent")
    layouts: tuple[str, ...] = ("THD", "HTD")
    own_table: bool = False  # computes cos and sin, so its errors grow with the position
    is_peer: bool = True  # neither Gnomon nor a roof

    def takes(self, case: Case) -> bool:
        if case.work not in self.works or case.dtype not in self.dtypes:
            return False
        if case.start and not self.own_table:
            return False
        return not case.rotates or (
            case.pairing in self.pairings and case.layout in self.layouts
        )

    @abstractmethod
    def prepare(self, inputs: Inputs) -> Run:
        """Prepares what is not timed: copies of the arrays, tables, compiled code."""
