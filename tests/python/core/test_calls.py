"""Calls that do not fit a signature: one sentence that names the argument, the rule, the value."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon import _core

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")
TABLE = gnomon.RotaryTable(ROPE, 3)
X = np.ones((1, 3, 2, 4), np.float32)


def compressed_plan() -> gnomon.Plan:
    model = gnomon.model.from_pretrained({
        "model_type": "deepseek_v4", "num_hidden_layers": 1, "num_attention_heads": 2,
        "hidden_size": 16, "head_dim": 8, "qk_rope_head_dim": 4, "layer_types":
        ["compressed_sparse_attention"], "index_n_heads": 2, "index_head_dim": 8})
    zeros = [np.zeros((one.rows, one.columns), np.float32) for one in model.parameters(0)]
    return model.lower(0, 3, parameters=zeros)


INSTANCES = [
    gnomon.lower(gnomon.Alibi(heads=2), 3, visibility="causal"),
    gnomon.Graph.path(3),
    gnomon.KvCache(capacity=2, heads=1, head_dim=4),
    gnomon.PagedKvCache(blocks=2, heads=1, head_dim=4),
    gnomon.CompressedKeys(compressed_plan(), capacity=2),
    gnomon.SegmentMemory(memory=2, segment=1, heads=1, head_dim=4),
    gnomon.Positions([0]),
    gnomon.rotary_frequencies(ROPE),
    TABLE,
]


def signed(one: Any) -> bool:
    return hasattr(one, "__nb_signature__") and not isinstance(one, type)


def callables() -> dict[str, Any]:
    """Every function, method and constructor of the extension module, but those of models."""
    found = {name: one for name, one in vars(_core).items() if signed(one)}
    for instance in INSTANCES:
        cls = type(instance)
        if signed(vars(cls).get("__init__")):
            found[cls.__name__] = cls
        found |= {f"{cls.__name__}.{name}": getattr(instance, name)
                  for name, one in vars(cls).items() if signed(one) and name[0] != "_"}
    classes = {one for one in vars(_core).values() if isinstance(one, type)}
    assert classes - {gnomon.FormatError, _core.ModelDescription} == set(map(type, INSTANCES))
    return found


CALLABLES = callables()


def message_of(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises((TypeError, ValueError)) as raised:
        call(*args, **kwargs)
    text = str(raised.value)
    assert "\n" not in text and "incompatible" not in text
    return text


@pytest.mark.parametrize("name", CALLABLES)
def test_every_callable_names_an_unknown_keyword(name: str) -> None:
    text = message_of(CALLABLES[name], unknown_keyword=3)
    assert text.startswith(f"[{name}] ") and f"; the call is {name}(" in text


@pytest.mark.parametrize("name", CALLABLES)
def test_every_callable_refuses_surplus_arguments(name: str) -> None:
    text = message_of(CALLABLES[name], *[X] * 20)
    assert text.startswith(f"[{name}] too many positional arguments; the call is {name}(")


CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (gnomon.rotate, (X,), {}, "[rotate] missing a required argument: 'table'"),
    (gnomon.rotate, (X, ROPE), {}, "[rotate] table must be a gnomon.RotaryTable, got Rotary"),
    (gnomon.rotate, (X, TABLE, 3), {},
     "[rotate] direction must be a string, one of forward, inverse, got int 3"),
    (gnomon.rotate, (X, TABLE, "back"), {},
     "[rotate] direction must be one of forward, inverse, got back"),
    (gnomon.rotate, (X, TABLE), {"directon": "inverse"},
     "[rotate] got an unexpected keyword argument 'directon'; the call is rotate(x, table, "
     "direction='forward', *, k=None, out=None)"),
    (gnomon.rotate, (None, TABLE), {}, "[rotate] x must be an array that supports DLPack (NumPy, "
     "PyTorch, JAX, CuPy), got NoneType"),
    (gnomon.attention, (X, X, X, TABLE), {}, "[attention] plan must be a gnomon.Plan, got "
     "RotaryTable"),
    (gnomon.attention, (X, X, X, gnomon.lower(None, 3, visibility="causal")), {"terms": {}, "layout": 3},
     "[attention] layout must be a string, one of "),
    (gnomon.lower, (ROPE, 3), {}, "[lower] missing a required"),
    (gnomon.lower, (ROPE, 3), {"visibility": "causal", "left": 1.5},
     "[lower] left must be an integer of 64 bits, got float 1.5"),
    (gnomon.lower, (ROPE, 3), {"visibility": "causal", "sinks": 3.0},
     "[lower] sinks must be a sequence of numbers, got float 3.0"),
    (gnomon.lower, (ROPE, 3), {"visibility": "causal", "parameters": 3},
     "[lower] parameters must be a sequence of arrays, got int"),
    (gnomon.lower, (ROPE, 3), {"visibility": "causal", "cap": "no"},
     "[lower] cap must be a number, got str"),
    (gnomon.lower, (3, 3), {"visibility": "causal"}, "[encoding] must be a spec, as gnomon.Rot"),
    (gnomon.RotaryTable, (ROPE, 3), {"length": 10**30},
     f"[RotaryTable] length must be an integer of 64 bits, got int {10**30}"),
    (gnomon.RotaryTable, (), {}, "[RotaryTable] missing a required argument: 'encoding'"),
    (gnomon.RotaryFrequencies, (), {"pairing": "halves", "inv_freq": 3},
     "[RotaryFrequencies] inv_freq must be a sequence of numbers, got int 3"),
    (gnomon.PagedKvCache, (), {"blocks": 2, "heads": 1, "head_dim": 4, "dtype": 3},
     "[PagedKvCache] dtype must be a string, one of float32, float16, bfloat16, int8, float8_e4m3"),
    (gnomon.Positions, (None,), {}, "[Positions] ids must be integers, [T] or [B, T], got NoneTyp"),
    (gnomon.Positions.consecutive, ("3",), {},
     "[Positions.consecutive] tokens must be an integer of 64 bits, got str"),
    (gnomon.Positions.packed, ([1, "2"],), {},
     "[Positions.packed] lengths must be a sequence of integers of 64 bits, got list"),
    (gnomon.set_threads, (2**31,), {}, "[threads] count must be below 2^31, got 2147483648"),
    (_core.rotate_rows, (X, X, TABLE, None, 1, False), {},
     "[rotate_rows] heads_tokens must be True or False, got int 1"),
]


@pytest.mark.parametrize("call", CALLS, ids=[text for *_, text in CALLS])
def test_a_wrong_call_has_one_sentence(call: tuple[Any, ...]) -> None:
    function, args, kwargs, text = call
    assert message_of(function, *args, **kwargs).startswith(text)


def test_arguments_that_convert_are_taken() -> None:
    """3 for 3.0, the integers of NumPy, an array for a list."""
    plan = gnomon.lower(None, 3, visibility="causal", cap=3, softmax_scale=np.float32(0.5),
                        sinks=[1, 2], left=np.int64(1))
    assert (plan.cap, plan.softmax_scale, plan.sinks, plan.left) == (3.0, 0.5, [1.0, 2.0], 1)
    assert gnomon.Positions.packed(np.array([2, 1])) == gnomon.Positions.packed([2, 1])
    made = gnomon.RotaryFrequencies(pairing="halves", inv_freq=np.ones(2), axes=np.array([0, 1]))
    assert made.axes.tolist() == [0, 1] and gnomon.RotaryTable(ROPE, np.int64(3)).tokens == 3


def test_help_shows_the_signature_first() -> None:
    for name, one in CALLABLES.items():
        first = (one.__doc__ if not inspect.isclass(one) else one.__init__.__doc__).split("\n")[0]
        assert re.match(r"\w+\((?!\*args)", first), (name, first)
