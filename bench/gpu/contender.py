"""A contender of a case, and the case's work: its arrays, its bytes and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

OURS, ROOF, EMPTY, BASELINE, PEER = "Gnomon", "roof", "empty", "baseline", "peer"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def same(*arrays: Tensor) -> Sequence[Any]:
    return arrays


def no_result(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Contender:
    name: str
    role: str  # OURS, ROOF, EMPTY, BASELINE or PEER
    call: Callable[..., Any]  # receives what `arrange` returns
    # The arrays of the case in the contender's layout. It receives copies of its own.
    arrange: Callable[..., Sequence[Any]] = same
    # The results in the layout of the case, from what `call` returns; None: not compared.
    results: Callable[..., Sequence[Tensor] | None] = no_result
    note: str = ""


@dataclass
class Work:
    """What all contenders of a case compute."""

    arrays: Sequence[Tensor]  # which calls may overwrite; each call has a copy
    bytes: int  # read and written, each once
    contenders: list[Contender] = field(default_factory=list)
    # The results in float64, of the rows that `results` of a contender must be cut to.
    wanted: Sequence[Tensor] = ()
    rows: Sequence[Tensor] = ()
    # Contenders that cannot run, with the reason.
    missing: dict[str, str] = field(default_factory=dict)

    def try_add(self, name: str, make: Callable[[], Contender]) -> None:
        """Adds a contender of a package that may be missing."""
        try:
            self.contenders.append(make())
        except Exception as error:  # packages fail to import in many ways
            self.missing[name] = reason(error)

    def error(self, contender: Contender, arguments: Sequence[Any]) -> float | None:
        """The greatest difference from the results in float64, after one call."""
        got = contender.results(contender.call(*arguments), *arguments)
        if got is None:
            return None
        pairs = zip(got, self.rows, self.wanted, strict=True)
        return max(float((one[rows].double() - want).abs().max()) for one, rows, want in pairs)


def reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]


def stream_of(x: Tensor) -> int:
    """PyTorch's current stream: at the time of the call, because a capture has another one."""
    return torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0


def copy_roof(byte_count: int, device: torch.device) -> Contender:
    """A copy that reads and writes byte_count bytes together."""

    def arrange(*_: Tensor) -> Sequence[Tensor]:
        return torch.zeros(2, byte_count // 2, dtype=torch.uint8, device=device).unbind()

    return Contender("copy of the same bytes", ROOF, lambda to, source: to.copy_(source),
                     arrange)


def empty_kernel(device: torch.device) -> Contender:
    """A kernel of one thread that waits for 0 cycles."""
    if device.type == "cuda":
        return Contender("empty kernel", EMPTY, lambda *_: torch.cuda._sleep(0))
    return Contender("empty kernel", EMPTY, no_result)


def some_rows(count: int, device: torch.device) -> Tensor:
    """The first row, the last row and five others."""
    rows = sorted({0, count - 1, *(count * part // 6 for part in range(1, 6))})
    return torch.tensor(rows, device=device)


def numbers(*shape: int, dtype: torch.dtype, device: torch.device, seed: int = 0) -> Tensor:
    """Uniform in [-1, 1]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.rand(shape, generator=generator, dtype=torch.float32, device=device)
    return (2 * x - 1).to(dtype)
