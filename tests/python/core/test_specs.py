"""Specs: JSON, comparison, copies, errors."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon
from gnomon import specs

ROOT = pathlib.Path(__file__).parents[3]
NAMES = [one.name for one in gnomon.encodings()]
SCALINGS = {
    "none": gnomon.NoScaling(),
    "linear": gnomon.LinearScaling(factor=2.0),
    "ntk": gnomon.NtkScaling(factor=2.5),
    "dynamic": gnomon.DynamicNtkScaling(factor=2.0, trained_length=128),
    "yarn": gnomon.YarnScaling(factor=4.0, original_length=64, attention_factor=1.5),
    "longrope": gnomon.LongRopeScaling(
        factor=4.0, original_length=64, short_factors=[1.0, 1.5], long_factors=[2.0, 4.0]
    ),
    "llama3": gnomon.Llama3Scaling(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_length=64
    ),
    "proportional": gnomon.ProportionalScaling(rotated_pairs=1),
    "factors": gnomon.FrequencyFactors(factors=[1.0, 2.0]),
    "clipped": gnomon.ClippedScaling(original_length=64, clipped_pairs=2),
}


def usual(name: str, reads: str = "causal") -> gnomon.Encoding:
    return gnomon.usual(name, width=64, heads=4, length=16, reads=reads)


def scaled(scaling: gnomon.Scaling) -> gnomon.ScaledRotary:
    return gnomon.ScaledRotary(rotary_dim=4, pairing="halves", length=128, scaling=scaling)


def test_the_list_has_every_encoding_once() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 48
    assert {usual(name).kind for name in NAMES} <= set(specs.KINDS)


@pytest.mark.parametrize("reads", ["causal", "bidirectional"])
@pytest.mark.parametrize("name", NAMES)
def test_copies_are_equal(name: str, reads: str) -> None:
    spec = usual(name, reads)
    copies = [
        gnomon.Encoding.from_json(spec.to_json()),
        eval(repr(spec), vars(gnomon)),
        pickle.loads(pickle.dumps(spec)),
        copy.deepcopy(spec),
        dataclasses.replace(spec),
    ]
    for one in copies:
        assert type(one) is type(spec)
        assert one == spec and hash(one) == hash(spec)
        assert one.to_json() == spec.to_json()
    assert json.loads(spec.to_json())["kind"] == spec.kind


@pytest.mark.parametrize("name", NAMES)
def test_a_replaced_field_makes_another_spec(name: str) -> None:
    spec = usual(name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.kind = "other"  # type: ignore[misc]
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if type(value) is int and value > 0:
            other = dataclasses.replace(spec, **{field.name: value + 2})
            assert other != spec and getattr(other, field.name) == value + 2
            return


@pytest.mark.parametrize("name", NAMES)
def test_required_fields_are_required(name: str) -> None:
    spec = usual(name)
    fields = dataclasses.fields(spec)
    values = {field.name: getattr(spec, field.name) for field in fields}
    required = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    for missing in required:
        rest = {key: value for key, value in values.items() if key != missing}
        with pytest.raises(TypeError, match=missing):
            type(spec)(**rest)
    with pytest.raises(TypeError, match="positional"):
        type(spec)(1)  # fields are keyword arguments


@pytest.mark.parametrize("name", NAMES)
def test_wrong_types_are_refused(name: str) -> None:
    spec = usual(name)
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        wrong = [[1.5, "x"]] if not isinstance(value, tuple) else [3]
        if isinstance(value, int):
            wrong += [1.5, "7", True]
        elif isinstance(value, float):
            wrong += ["7", True]
        elif isinstance(value, str):
            wrong += [7, "no such choice"]
        for one in wrong:
            with pytest.raises(ValueError, match=rf"^\[encoding\] .*{field.name}.* must"):
                dataclasses.replace(spec, **{field.name: one})


def test_wrong_json_is_refused() -> None:
    from_json = gnomon.Encoding.from_json
    with pytest.raises(ValueError, match="kind"):
        from_json('{"kind": "rotray"}')
    with pytest.raises(ValueError, match="kind"):
        from_json('{"rotary_dim": 4}')
    with pytest.raises(ValueError, match="dim"):
        from_json('{"kind": "rotary", "pairing": "halves", "rotary_dim": 4, "dim": 4}')
    with pytest.raises(ValueError, match="pairing"):
        from_json('{"kind": "rotary", "rotary_dim": 4}')
    for text in ("", "{", "[]", "null", '"rotary"', '{"kind": 3}'):
        with pytest.raises(ValueError, match=r"^\[encoding\]"):
            from_json(text)


@pytest.mark.parametrize("type", SCALINGS)
def test_every_scaling_is_written_and_read(type: str) -> None:
    spec = scaled(SCALINGS[type])
    assert spec.scaling.type == type
    again = gnomon.Encoding.from_json(spec.to_json())
    assert again == spec and hash(again) == hash(spec)
    assert eval(repr(spec), vars(gnomon)) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_scalings_are_all_here() -> None:
    assert set(SCALINGS) == set(specs.SCALINGS)


def test_a_wrong_scaling_is_refused() -> None:
    for wrong in ("linear", {"type": "linear", "factor": 2.0}, 2.0, None):
        with pytest.raises(ValueError, match="scaling must be"):
            scaled(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="factor"):
        scaled(gnomon.LinearScaling(factor="2"))  # type: ignore[arg-type]


def test_lists_become_tuples() -> None:
    spec = gnomon.AxialLearned(join="concatenated", rows=[4, 4], widths=[8, 8])
    assert spec.rows == (4, 4) and hash(spec) == hash(dataclasses.replace(spec))


def test_numpy_values_become_python_values() -> None:
    spec = gnomon.Rotary(rotary_dim=np.int64(4), pairing="halves", base=np.float32(3))
    assert spec == gnomon.Rotary(rotary_dim=4, pairing="halves", base=3.0)
    assert type(spec.rotary_dim) is int and type(spec.base) is float
    arrays = gnomon.AxialLearned(join="summed", rows=np.array([4, 4]), widths=np.array([8, 8]))
    assert arrays == gnomon.AxialLearned(join="summed", rows=(4, 4), widths=(8, 8))
    assert hash(scaled(gnomon.FrequencyFactors(factors=np.ones(2)))) == hash(
        scaled(gnomon.FrequencyFactors(factors=(1.0, 1.0)))
    )


def test_none_is_no_value_of_a_required_field() -> None:
    with pytest.raises(ValueError, match="pairing must be given, got None"):
        gnomon.Rotary(rotary_dim=4, pairing=None)  # type: ignore[arg-type]
    assert gnomon.YarnScaling(factor=2.0, original_length=8, attention_factor=None)


def test_numbers_keep_their_value() -> None:
    spec = gnomon.Rotary(rotary_dim=4, pairing="halves", base=1e6 + 0.1)
    assert gnomon.Encoding.from_json(spec.to_json()).base == 1e6 + 0.1
    whole = gnomon.Rotary(rotary_dim=4, pairing="halves", base=500000)
    assert whole == gnomon.Rotary(rotary_dim=4, pairing="halves", base=500000.0)
    assert gnomon.Encoding.from_json(whole.to_json()) == whole


@given(st.floats(1.0000001, 1e12))
def test_any_base_survives_json(base: float) -> None:
    spec = gnomon.Rotary(rotary_dim=8, pairing="adjacent", base=base)
    assert gnomon.Encoding.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_json_lacks_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"^\[encoding\]"):
        gnomon.Rotary(rotary_dim=8, pairing="adjacent", base=value)


@pytest.mark.parametrize(
    ("name", "found"),
    [("rotary", "rotary"), ("RoPE", "rotary"), ("T5 bias", "t5"), ("ALiBi", "alibi")],
)
def test_encodings_are_found_by_synonyms(name: str, found: str) -> None:
    assert gnomon.find_encoding(name).name == found


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(ValueError, match="nearest: rotary"):
        gnomon.find_encoding("rotray")


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 63, "heads": 4},
        {"width": 0, "heads": 1},
        {"width": 64, "heads": 0},
        {"width": 64, "heads": -4},
        {"width": 64, "heads": 4, "length": 0},
        {"width": 64, "heads": 4, "reads": "both"},
    ],
)
def test_wrong_sizes_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"^\["):
        gnomon.usual("rotary", **({"length": 16} | wrong))


def test_annotations_name_every_field() -> None:
    for kind in specs.KINDS.values():
        assert list(inspect.signature(kind).parameters) == [
            field.name for field in dataclasses.fields(kind)
        ]


def test_the_generated_file_is_current() -> None:
    subprocess.run(
        [sys.executable, ROOT / "tools/python/write_specs.py", "--check"], check=True, cwd=ROOT
    )
