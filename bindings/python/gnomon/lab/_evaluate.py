"""The tests of the lab, apps/lab/model/evaluate.cc, of the losses of another program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

_TAIL, _WINDOW = 1, 2  # bits of `counted`


class Guesses(NamedTuple):
    """Of each target [B, T]: loss in bits, whether it was the likeliest, bytes, where it counts."""

    bits: np.ndarray
    right: np.ndarray
    bytes: np.ndarray
    counted: np.ndarray


_Guess = Callable[[np.ndarray, np.ndarray, np.ndarray], Guesses]


def bits_of(logits: Any, targets: np.ndarray, counted: np.ndarray,
            vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the loss in bits of each counted target and whether it was the likeliest token.

    The loss of a model that diverged, which is NaN, is infinite. Uncounted targets have 0.
    """
    if hasattr(logits, "detach"):  # PyTorch: NumPy has no bfloat16, and reads the CPU only
        logits = logits.detach().float().cpu().numpy()
    logits = np.asarray(logits)
    if logits.shape != (*targets.shape, vocabulary):
        raise ValueError(f"[protocol] predict must return the shape {(*targets.shape, vocabulary)},"
                         f" got {logits.shape}")
    bits, right = np.zeros(targets.shape), np.zeros(targets.shape)
    block = max(1, 2**22 // vocabulary)  # 32 MiB of float64
    places = np.argwhere(counted)
    with np.errstate(all="ignore"):
        for begin in range(0, len(places), block):
            at = tuple(places[begin:begin + block].T)
            wanted, rows = targets[at], np.asarray(logits[at], np.float64)
            top = rows.max(axis=1)
            nats = np.log(np.exp(rows - top[:, None]).sum(axis=1)) + top
            nats -= np.take_along_axis(rows, wanted[:, None], axis=1)[:, 0]
            bits[at] = np.where(np.isnan(nats), np.inf, nats) / np.log(2)
            right[at] = rows.argmax(axis=1) == wanted
    return bits, right


def evaluate_texts(settings: Mapping[str, Any], header: Mapping[str, Any],
                  records: Iterable[tuple[Any, ...]], guess: _Guess,
                  longest: int | None) -> dict[str, Any]:
    """Returns `lengths` and `by_position`."""
    lengths: list[int] = header["lengths"]
    most = lengths[-1] if longest is None else longest
    found: list[list[Guesses]] = [[] for _ in lengths]
    for _, group, *arrays in records:
        if lengths[group] <= most:
            found[group].append(guess(*arrays))
    tests: list[dict[str, Any]] = []
    places, last = np.zeros((2, 0)), 0
    for length, guesses in zip(lengths, found):
        if not guesses:
            tests.append({"length": length, "applicable": False})
            continue
        tails = [_bits_per_byte(one, _TAIL) for one in guesses]
        tests.append({
            "length": length, "applicable": True, "tail_bits": _mean(tails),
            "window_bits": _mean([_bits_per_byte(one, _WINDOW) for one in guesses]),
            "accuracy": _mean([one.right[one.counted & _TAIL > 0].mean() for one in guesses]),
            "windows": len(guesses) * lengths[-1] // length, "tail_by_segment": tails})
        if settings["task"] == "masked":  # context of both sides: one length only
            places = np.zeros((2, 0))
        places = np.pad(places, ((0, 0), (0, length - places.shape[1])))
        for one in guesses:
            inside = one.counted & _WINDOW > 0
            places += [np.where(inside, part, 0).sum(axis=0) for part in (one.bits, one.bytes)]
        last = length
    if not tests[0]["applicable"]:
        raise ValueError(f"[protocol] longest must be at least {lengths[0]}, got {longest}")
    return {"lengths": tests, "by_position": _by_position(places, last)}


def evaluate_examples(settings: Mapping[str, Any], header: Mapping[str, Any],
                     records: Iterable[tuple[Any, ...]], guess: _Guess,
                     longest: int | None) -> dict[str, Any]:
    """Returns `stretches`."""
    stretches: list[dict[str, Any]] = header["stretches"]
    bits: list[list[float]] = [[] for _ in stretches]
    right: list[list[float]] = [[] for _ in stretches]
    for _, group, *arrays in records:
        if longest is None or stretches[group]["tokens"] <= longest:
            one = guess(*arrays)
            for row, where in enumerate(one.counted > 0):
                bits[group].append(float(one.bits[row, where].mean()))
                right[group].append(float(one.right[row, where].mean()))
    tests = []
    for i, stretch in enumerate(stretches):
        ends = {key: stretch[key] for key in ("from", "to", "up_to")}
        if not bits[i]:
            tests.append(ends | {"applicable": False})
            continue
        whole = [float(one == 1) for one in right[i]]
        tests.append(ends | {
            "applicable": True, "examples": stretch["examples"],
            "score": _mean(whole), "second": _mean(right[i]),
            "bits": _mean(bits[i]), "chance_score": stretch["chance_score"],
            "chance_second": stretch["chance_second"], "scores": whole, "seconds": right[i]})
    if not tests[0]["applicable"]:
        raise ValueError(f"[protocol] longest must be at least {stretches[0]['tokens']}, "
                         f"got {longest}")
    return {"stretches": tests}


def _mean(numbers: Iterable[float]) -> float:
    return float(np.mean(list(numbers)))


def _bits_per_byte(one: Guesses, role: int) -> float:
    inside = one.counted & role > 0
    return float(one.bits[inside].sum() / one.bytes[inside].sum())


def _by_position(places: np.ndarray, length: int) -> dict[str, Any]:
    """Means over ranges of positions, four for each octave, smoothed with the weights 1, 2, 1."""
    bounds = [0]
    while bounds[-1] < length:
        bounds.append(min(length, max(bounds[-1] + 1, int(1.19 * bounds[-1]))))
    ranges = list(zip(bounds, bounds[1:]))
    with np.errstate(all="ignore"):
        means = np.array([np.divide(*places[:, begin:end].sum(axis=1)) for begin, end in ranges])
    bits = []
    for i in range(len(ranges)):
        near = [k for k in (i - 1, i, i + 1) if 0 <= k < len(ranges)
                and places[1, slice(*ranges[k])].sum() > 0]
        weights = [2 if k == i else 1 for k in near]
        bits.append(float(np.average(means[near], weights=weights)) if near else float("nan"))
    return {"length": length, "bits": bits,
            "positions": [0.5 * (begin + 1 + end) for begin, end in ranges]}
