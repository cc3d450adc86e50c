"""What every contender offers: a name, the cases it takes, and a call to be timed."""

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
    """A case made ready by one contender."""

    call: Callable[[], object]  # returns when the work is done
    # The results of these tokens, tokens outermost, as floats; None: there is nothing to check.
    results: Callable[[list[int]], list[NDArray]] | None
    reset: Callable[[], object] = lambda: None  # inputs as they were, where `call` overwrites
    note: str = ""
    # Nanoseconds of so many calls, where a loop outside Python is what is meant.
    loop: Callable[[int], int] | None = None

    def seconds(self, count: int) -> float:
        """Of one call, the mean of `count`."""
        if self.loop:
            return self.loop(count) / count * 1e-9
        call = self.call
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count


class Contender(ABC):
    name: str  # as the report prints it
    works: tuple[str, ...] = ("rotate",)
    dtypes: tuple[str, ...] = ("f32", "bf16", "f16")
    pairings: tuple[str, ...] = ("halves", "adjacent")
    layouts: tuple[str, ...] = ("THD", "HTD")
    own_table: bool = False  # makes cos and sin itself, so its errors grow with the position
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
        """Copies of the arrays, tables, compiled code: all that is not timed."""


class Peer(ABC):
    """One process: packages that live together in one virtual environment."""

    threads: int

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @abstractmethod
    def contenders(self) -> list[Contender]: ...

    @abstractmethod
    def versions(self) -> dict[str, str]: ...
