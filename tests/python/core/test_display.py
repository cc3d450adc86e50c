"""How specs, plans and models show themselves in a notebook."""

from __future__ import annotations

import dataclasses
import html
import subprocess
import sys

import numpy as np
import pytest

import gnomon
import gnomon.model
from gnomon import _display, _html
from gnomon._list import entry_of


@pytest.fixture(autouse=True)
def no_vl_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)


@pytest.mark.parametrize("name", [one.name for one in gnomon.encodings()])
def test_every_encoding_shows_its_fields_source_and_parameters(name: str) -> None:
    info = gnomon.find_encoding(name)
    encoding = gnomon.usual(name, width=64, heads=4, length=16)
    bundle = encoding._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"} and bundle["text/plain"] == repr(encoding)
    text = html.unescape(bundle["text/html"])
    assert info.title in text and info.source in text and ">formula<" in text
    for field in dataclasses.fields(encoding):
        assert f">{field.name}</th>" in text
    for parameter in encoding.parameters():
        assert f"[{parameter.rows}, {parameter.columns}]" in text


def test_a_spec_without_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_PROGRAM", "/nonexistent/gnomon")
    text = gnomon.Alibi(heads=8)._repr_mimebundle_()["text/html"]
    assert "ALiBi" in text and ">formula<" not in text


def test_the_picture_is_that_of_the_spec() -> None:
    """A picture has the numbers of this very spec; other specs have none."""
    alibi = gnomon.Alibi(heads=12)
    picture = _display.picture_of(alibi)
    assert picture is not None
    bias = gnomon.lower(alibi, 128, visibility="causal").bias()[:, -1, ::-1]
    drawn = [one["y"] for one in picture.spec["data"]["values"]]
    np.testing.assert_allclose(drawn, bias, rtol=1e-3, atol=1e-12)
    assert _display.picture_of(gnomon.Alibi(heads=12, max_bias=4.0)) is None
    assert _display.picture_of(gnomon.T5Bias(heads=4, direction="causal")) is None  # trained

    picture = _display.picture_of(gnomon.Rotary(rotary_dim=6, pairing="adjacent", base=100.0))
    assert picture is not None
    lengths = [one["length"] for one in picture.spec["data"]["values"]]
    np.testing.assert_allclose(lengths, 2 * np.pi * 100.0 ** (np.arange(3) / 3), rtol=1e-3)

    assert _display.picture_of(gnomon.Sinusoidal(width=8, recipe="interleaved")) is not None
    assert _display.picture_of(gnomon.Sinusoidal(width=8, recipe="half_split")) is None


@pytest.mark.parametrize("encoding, name", [
    (gnomon.Kerple(heads=3, kernel="power"), "kerple-power"),
    (gnomon.Kerple(heads=3, kernel="logarithmic"), "kerple"),
    (gnomon.Swin(heads=2, height=14, width=14, class_tokens=1), "beit"),
    (gnomon.Swin(heads=2, height=14, width=14), "swin"),
    (gnomon.DynamicBias(heads=2, hidden=5, scale="logarithmic"), "dynamic-log"),
])
def test_entries_of_one_type_are_distinguished(encoding: gnomon.Encoding, name: str) -> None:
    assert entry_of(encoding.to_json()).name == name
    assert encoding.title == gnomon.find_encoding(name).title


@pytest.mark.parametrize("encoding, options, expected", [
    (None, {"cap": 30.0}, ["1 / sqrt(D)", "soft cap", "30"]),
    (gnomon.Rotary(rotary_dim=8, pairing="halves"), {"left": 3},
     ["window, left", "8 elements, halves", "0.001 rad"]),
    (gnomon.Alibi(heads=4), {"softmax_scale": 0.5}, ["slope: slopes [4]", "0.5"]),
    (gnomon.Sinusoidal(width=8, recipe="interleaved"), {}, ["[6, 8], added"]),
])
def test_a_plan_shows_what_it_resolved(encoding: gnomon.Encoding | None, options: dict[str, float],
                                       expected: list[str]) -> None:
    plan = gnomon.lower(encoding, 6, visibility="causal", **options)
    bundle = plan._repr_mimebundle_()
    assert bundle["text/plain"] == repr(plan)
    for one in ["6, 6", "causal", *expected]:
        assert one in bundle["text/html"]


def test_a_model_shows_groups_of_layers() -> None:
    model = gnomon.model.from_pretrained({
        "model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 12, "max_position_embeddings": 128,
        "sliding_window": 32, "head_dim": 16, "query_pre_attn_scalar": 16})
    text = model._repr_mimebundle_()["text/html"]
    assert ">0-4, 6-10<" in text and ">5, 11<" in text and text.count("<tr>") == 3
    assert "causal, window left 31" in text and ">4 / 2<" in text
    assert "rope_theta is not given" in text


def test_text_is_escaped() -> None:
    assert "&lt;b&gt;" in _html.table("<b>", ["x"], [["1"]])
    assert "<u>" not in _html.table("t", ["<u>"], [["<u>"]])
    assert "<i>" not in _html.pairs("t", [("<i>", "<i>")])


@pytest.mark.parametrize("numbers, text", [([], ""), ([4], "4"), ([0, 1, 2], "0-2"),
                                           ([0, 2, 3, 7], "0, 2-3, 7")])
def test_ranges(numbers: list[int], text: str) -> None:
    assert gnomon.model._ranges(numbers) == text


def test_import_is_light() -> None:
    code = "import sys, gnomon; print([m for m in ('gnomon._display', 'gnomon.plot', 'numpy') " \
           "if m in sys.modules], hasattr(gnomon.Plan, '_repr_mimebundle_'))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[] True"
