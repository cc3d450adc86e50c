"""DLPack capsules with false contents: refused, or read as what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attack_capsules import KINDS, Capsule, check_deleters

import gnomon

TABLE = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=4, pairing="halves"), 3)
PLAN = gnomon.lower(None, 3, visibility="causal")
READ = {"true", "null strides", "device id", "read-only", "version 9", "copied flag",
        "no deleter", "device method", "overlap"}  # fmt: skip


def heads() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1, 3, 2, 4)).astype("f4")


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_one_false_fact(kind: str, versioned: bool) -> None:
    """Of q of attention, which is read, and of x of rotate, which is changed."""
    x = heads()
    read = Capsule(x.copy(), kind, versioned, False)
    if kind in READ:
        got = gnomon.attention(read, x, x, PLAN)
        if kind != "overlap":
            np.testing.assert_array_equal(got, gnomon.attention(x, x, x, PLAN))
    else:
        with pytest.raises(ValueError, match=r"^\[attention\] "):
            gnomon.attention(read, x, x, PLAN)
    changed = Capsule(x.copy(), kind, versioned, False)
    if kind in READ - {"overlap", *(("read-only", "version 9") if versioned else ())}:
        gnomon.rotate(changed, TABLE)
        gnomon.rotate(x, TABLE)
        np.testing.assert_array_equal(changed.x, x)
    else:
        with pytest.raises(ValueError, match=r"^\[rota(te|ry)\] "):
            gnomon.rotate(changed, TABLE)
        np.testing.assert_array_equal(changed.x, x)
    check_deleters()


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_is_used_once(versioned: bool) -> None:
    one = Capsule(heads(), "true", versioned, once=True)
    gnomon.rotate(one, TABLE)
    with pytest.raises(ValueError, match=r"^\[rotate\] x must be an array"):
        gnomon.rotate(one, TABLE)
    with pytest.raises(ValueError, match=r"^\[rotate\] x must be an array"):
        gnomon.rotate(one.given, TABLE)
    check_deleters()


@pytest.mark.parametrize("kind", ["null data", "null shape", "bits", "lanes", "code", "device",
                                  "negative extent", "large extent", "large stride"])
def test_integers(kind: str) -> None:
    for shape in ((3,), (2, 3), (1, 6)):
        ids = np.arange(np.prod(shape)).reshape(shape)
        with pytest.raises(ValueError, match=r"^\[positions\] .*ids"):
            gnomon.Positions(Capsule(ids, kind, False, False))
    np.testing.assert_array_equal(gnomon.Positions(Capsule(ids, "true", True, False)).ids, ids)


@pytest.mark.parametrize("name", ["bias", "lse", "out"])
def test_an_argument_without_data_is_not_left_out(name: str) -> None:
    shapes: dict[str, Any] = {"bias": (1, 2, 3, 3), "lse": (1, 2, 3), "out": (1, 3, 2, 4)}
    null = Capsule(np.zeros(shapes[name], "f4"), "null data", False, False)
    with pytest.raises(ValueError, match=rf"^\[attention\] {name} must have data, got a null"):
        gnomon.attention(heads(), heads(), heads(), PLAN, **{name: null})
    empty = Capsule(np.zeros((*shapes[name][:-1], 0), "f4"), "null data", False, False)
    with pytest.raises(ValueError, match=rf"^\[attention\] .*{name}"):
        gnomon.attention(heads(), heads(), heads(), PLAN, **{name: empty})


def test_functions_that_make_their_result() -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 4)).astype("f4")
    weight = np.ones((4, 3), "f4")
    got = gnomon.convolve(Capsule(x, "true", False, False), weight)
    np.testing.assert_array_equal(got, gnomon.convolve(x, weight))
    with pytest.raises(ValueError, match=r"^\[convolve\] out must be given unless x is f32"):
        gnomon.convolve(x.astype("i4"), weight)
