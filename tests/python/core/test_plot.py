"""gnomon.plot: the numbers of the charts, options, files, and what happens without vl-convert."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gnomon.plot


@pytest.fixture
def no_vl_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # an import raises ImportError


def cells(picture: gnomon.plot.Picture) -> np.ndarray:
    return np.array(picture.spec["data"]["values"][0]["data"], float)


def sinusoid(length: int, width: int) -> np.ndarray:
    angles = np.arange(length)[:, None] * 10000.0 ** (-2 * np.arange(width // 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width)


def test_table_and_similarity_have_the_numbers_of_the_formula() -> None:
    table = sinusoid(20, 16)
    drawn = cells(gnomon.plot.table("sinusoidal", dim=16, length=20))
    np.testing.assert_allclose(drawn.reshape(20, 16), table, rtol=1e-3, atol=1e-6)
    drawn = cells(gnomon.plot.similarity(dim=16, length=20)).reshape(20, 20)
    np.testing.assert_allclose(drawn, table @ table.T / 8, rtol=1e-3, atol=1e-6)


def test_wavelengths_have_the_numbers_of_the_formula() -> None:
    rows = gnomon.plot.wavelengths(dim=32, base=5e5, length=1000).spec["data"]["values"]
    expected = 2 * np.pi * 5e5 ** (2 * np.arange(16) / 32)
    np.testing.assert_allclose([row["length"] for row in rows], expected, rtol=1e-3)


def test_bias_has_the_slopes_of_the_heads() -> None:
    heads = gnomon.plot.bias("alibi", heads=4, length=10).spec["data"]["values"]
    assert len(heads) == 4
    for number, one in enumerate(heads):
        np.testing.assert_allclose(one["y"], -np.arange(10) * 4.0 ** -(number + 1), rtol=1e-3)


def test_grid_takes_pairs_of_numbers() -> None:
    picture = gnomon.plot.grid(grid=(4, 5), cells=[(1, 2), (3, 4)])
    assert cells(picture).shape == (2 * 4 * 5,) or len(picture.spec["data"]["values"]) == 2
    text = json.dumps(picture.spec)
    assert "row 1, column 2" in text and "row 3, column 4" in text
    with pytest.raises(ValueError, match="--cells must be in the grid of 4x5"):
        gnomon.plot.grid(grid=(4, 5), cells=[(4, 0)])


@pytest.mark.parametrize("given", ["float32", "float64", "transposed", "path"])
def test_parameters_are_arrays_or_paths(given: str, tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    parameters: Any = {"float32": values, "float64": values.astype(float),
                       "transposed": np.asfortranarray(values),
                       "path": tmp_path / "t.npy"}[given]
    np.save(tmp_path / "t.npy", values)
    picture = gnomon.plot.similarity(parameters=parameters)
    rows = values / np.linalg.norm(values.astype(float), axis=1, keepdims=True)
    np.testing.assert_allclose(cells(picture).reshape(6, 6), rows @ rows.T, rtol=2e-3, atol=1e-5)
    if given != "path":
        assert picture.title == "Given table: similarity of all pairs of positions"


def test_bias_and_grid_with_parameters() -> None:
    buckets = np.arange(64, dtype=np.float32).reshape(32, 2)
    first, second = gnomon.plot.bias("t5", heads=2, length=8, parameters=buckets
                                     ).spec["data"]["values"]
    assert first["y"] == [0, 2, 4, 6, 8, 10, 12, 14] and second["y"][:2] == [1, 3]
    picture = gnomon.plot.grid(grid=(2, 3), cells=[(0, 0)], parameters=np.eye(6, dtype="f4"))
    assert "row 0, column 0" in json.dumps(picture.spec)


def test_every_kind_draws() -> None:
    pictures = [gnomon.plot.rotary(dim=16, length=32, base=1e5),
                gnomon.plot.attention("alibi", dim=8, length=6), gnomon.plot.shuffled("t5", dim=8),
                gnomon.plot.grid("vit"), gnomon.plot.table("vit"), gnomon.plot.similarity("vit")]
    for picture in pictures:
        spec = picture.spec
        assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
        assert spec["title"]["text"] == picture.title and picture.title and picture.caption
        assert " ".join(spec["title"]["subtitle"]) == picture.caption.replace("`", "'")
        assert spec.get("width") != "container" and spec["config"]["range"]
    assert "random numbers" in pictures[2].caption  # T5 is not trained


def test_errors_are_those_of_the_program() -> None:
    with pytest.raises(ValueError, match=r"^\[plot\] KIND must be an encoding that is added"):
        gnomon.plot.similarity("rotary")
    with pytest.raises(ValueError, match="nearest"):
        gnomon.plot.attention("rotray")


def test_save_json_and_html(tmp_path: pathlib.Path, no_vl_convert: None) -> None:
    picture = gnomon.plot.bias(heads=2, length=8)
    picture.save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == picture.spec
    picture.save(str(tmp_path / "p.html"))
    page = (tmp_path / "p.html").read_text()
    assert picture.title in page and picture.caption in page
    assert "gnomon plot bias alibi --heads 2 --length 8 -o bias.html" in page
    assert "Numbers of this chart" in page and "<script src" not in page
    with pytest.raises(ValueError, match=r"\[plot\] path must end in .html, .pdf, .png, .svg"):
        picture.save(tmp_path / "p.gif")


def test_several_charts_on_a_page(tmp_path: pathlib.Path) -> None:
    pictures = [gnomon.plot.bias(heads=2, length=8),
                gnomon.plot.lines([1, 2], {"a": [1, 2]}, title="A & B", caption="of two")]
    gnomon.plot.page(pictures, tmp_path / "p.html", title="Both")
    page = (tmp_path / "p.html").read_text()
    assert "<h1>Both" in page and pictures[0].title in page and "A &amp; B" in page
    with pytest.raises(ValueError, match="must be a list of figures"):
        gnomon.plot.page([], tmp_path / "q.html")


def test_without_vl_convert(tmp_path: pathlib.Path, no_vl_convert: None) -> None:
    picture = gnomon.plot.bias(heads=2, length=8)
    for name in ("p.pdf", "p.png", "p.svg"):
        with pytest.raises(ImportError, match=r"\[plot\] PDF, PNG and SVG .*pip install gnomon\[plot\]"):
            picture.save(tmp_path / name)
        assert not (tmp_path / name).exists()
    bundle = picture._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.vegalite.v5+json", "text/plain"}
    assert bundle["application/vnd.vegalite.v5+json"] == picture.spec
    assert bundle["text/plain"].startswith("ALiBi: bias by distance and head\n")


def test_lines_have_gaps() -> None:
    picture = gnomon.plot.lines([1, 2, 4], {"a": [1, None, float("nan")], "b": np.arange(3)},
                                log_x=True)
    values = picture.spec["data"]["values"]
    assert [one["y"] for one in values] == [1, None, None, 0, 1, 2]
    json.dumps(picture.spec, allow_nan=False)
    assert picture.spec["encoding"]["x"]["scale"] == {"type": "log", "base": 2}
    with pytest.raises(ValueError, match=r"\[plot\] series must have 3 values, as x, got 2 in a"):
        gnomon.plot.lines([1, 2, 3], {"a": [1, 2]})


def test_heatmap() -> None:
    picture = gnomon.plot.heatmap(np.array([[1.0, -3.0], [np.inf, 0.5], [0, 0]]), centre=0)
    values = picture.spec["data"]["values"]
    assert values[1] == {"r": 0, "c": 1, "v": -3} and values[2]["v"] is None
    assert picture.spec["encoding"]["color"]["scale"]["domain"] == [-3, 3]
    for wrong in ([[1, 2], [3]], np.zeros((400, 400)), []):
        with pytest.raises(ValueError, match="must be a matrix of at most 100,000 cells"):
            gnomon.plot.heatmap(wrong)


def test_import_is_light() -> None:
    code = "import sys, gnomon.plot; print([m for m in ('numpy', 'vl_convert', 'altair') " \
           "if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
