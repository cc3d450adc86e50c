"""Times of contenders, interleaved round by round.

On a GPU: CUDA events around one call, after the L2 cache was replaced and while the queue still
has work, so that the time of the host is hidden; or the replay of a CUDA graph of many calls,
divided by their number. On a CPU (dry run): the host's clock, to exercise the same code.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from contender import Contender, Work, reason

Call = Callable[[], Any]


@dataclass(frozen=True)
class Times:
    """Seconds of each round."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def quantile(self, part: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[round(part * (len(ordered) - 1))]


class Clock:
    def __init__(self, device: torch.device, rounds: int, calls: int) -> None:
        self.device, self.rounds, self.calls = device, rounds, calls
        self.cuda = device.type == "cuda"
        self.l2 = (torch.cuda.get_device_properties(device).L2_cache_size if self.cuda
                   else 1 << 12)
        # Read between calls: more than three times the L2 cache, without dirty lines.
        self.flushed = torch.ones(self.l2, dtype=torch.float32, device=device)

    def copies(self, case_bytes: int, graph: bool) -> int:
        """Copies of the arrays: in a graph, together more than three times the L2 cache."""
        if not graph:
            return 1
        return max(1, min(self.calls, -(-3 * self.l2 // max(case_bytes // 2, 1))))

    def flush(self) -> None:
        self.flushed.sum()
        if self.cuda:
            torch.cuda._sleep(400_000)  # about 0.2 ms: the host is ahead of the device

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def once(self, call: Call) -> Callable[[], float]:
        """Starts one call; the returned function waits and gives its seconds."""
        self.flush()
        if not self.cuda:
            begin = time.perf_counter()
            call()
            taken = time.perf_counter() - begin
            return lambda: taken
        begin_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin_event.record()
        call()
        end_event.record()

        def seconds() -> float:
            end_event.synchronize()
            return begin_event.elapsed_time(end_event) * 1e-3

        return seconds

    def graph_of(self, calls: Sequence[Call]) -> Call:
        """A function that runs self.calls calls: a graph on a GPU."""
        ordered = [calls[i % len(calls)] for i in range(self.calls)]

        def run() -> None:
            for call in ordered:
                call()

        if not self.cuda:
            return run
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for call in calls:
                call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()

        def replay(_: Sequence[Call] = tuple(calls)) -> None:  # keeps the arrays of the calls
            graph.replay()

        return replay

    def time(self, work: Work, graph: bool) -> tuple[dict[str, Times], dict[str, str]]:
        """Times of all contenders, and the reasons of those that failed."""
        ready: dict[str, list[Call]] = {}
        failures: dict[str, str] = {}
        for contender in work.contenders:
            try:
                ready[contender.name] = self.prepare(contender, work, graph)
            except Exception as error:  # another contender must not lose its time
                failures[contender.name] = reason(error)
        names = list(ready)
        taken: dict[str, list[float]] = {name: [] for name in names}
        for round_index in range(self.rounds):
            shift = round_index % len(names)
            for name in names[shift:] + names[:shift]:
                calls = ready[name]
                seconds = self.once(calls[round_index % len(calls)])
                taken[name].append(seconds() / (self.calls if graph else 1))
        return {name: Times(seconds) for name, seconds in taken.items()}, failures

    def prepare(self, contender: Contender, work: Work, graph: bool) -> list[Call]:
        count = self.copies(work.bytes, graph)
        calls = []
        for _ in range(count):
            arguments = contender.arrange(*(one.clone() for one in work.arrays))
            calls.append(bound(contender.call, arguments))
        for call in calls[:1] * 3:  # compiles kernels, and fills caches of the contender
            call()
        self.wait()
        return [self.graph_of(calls)] if graph else calls


def bound(call: Callable[..., Any], arguments: Sequence[Any]) -> Call:
    return lambda: call(*arguments)


def ratios(times: dict[str, Times], ours: str) -> dict[str, float | None]:
    """Median of the ratio to our time, round by round."""
    if ours not in times:
        return dict.fromkeys(times)
    base = times[ours].seconds
    return {name: statistics.median(a / b for a, b in zip(one.seconds, base, strict=True))
            for name, one in times.items()}
