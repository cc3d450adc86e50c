"""The interface of contenders: a name, the supported cases, and a call to time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

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


class Peer(ABC):
    """One process with the packages of one virtual environment."""

    threads: int

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @abstractmethod
    def contenders(self) -> list[Contender]: ...

    @abstractmethod
    def versions(self) -> dict[str, str]: ...
