"""Pictures with vl-convert-python, Altair and pandas."""

from __future__ import annotations

import base64
import pathlib
import struct

import altair
import pandas

import gnomon
import gnomon.lab
import gnomon.plot

STORED = pathlib.Path(__file__).parents[3] / "docs" / "notebooks" / "results"


def size_of_png(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_svg_and_png_have_the_title_and_the_size(tmp_path: pathlib.Path) -> None:
    picture = gnomon.plot.bias("alibi", heads=2, length=16)
    picture.save(tmp_path / "p.svg")
    picture.save(tmp_path / "p.png")
    svg = (tmp_path / "p.svg").read_text()
    assert svg.startswith("<svg") and picture.title in svg and "head" in svg
    width, height = size_of_png((tmp_path / "p.png").read_bytes())
    assert 1280 <= width <= 1500 and height > 640  # 2 pixels per px


def test_small_specs_show_svg_and_large_ones_png() -> None:
    small = gnomon.plot.bias("alibi", heads=2, length=16)._repr_mimebundle_()
    assert set(small) == {"application/vnd.vegalite.v5+json", "image/svg+xml", "text/plain"}
    large = gnomon.plot.similarity(length=128)._repr_mimebundle_()
    assert set(large) == {"application/vnd.vegalite.v5+json", "image/png", "text/plain"}
    size_of_png(base64.b64decode(large["image/png"]))


def test_a_spec_and_results_contain_their_picture() -> None:
    assert "<svg" in gnomon.Alibi(heads=4)._repr_mimebundle_()["text/html"]
    assert "<svg" not in gnomon.T5Bias(heads=4, direction="causal")._repr_mimebundle_()["text/html"]
    assert "<svg" in gnomon.lab.load(STORED)._repr_mimebundle_()["text/html"]


def test_altair_takes_every_chart() -> None:
    pictures = [gnomon.plot.table(length=8, dim=8), gnomon.plot.similarity(length=8, dim=8),
                gnomon.plot.grid("vit"), gnomon.plot.rotary(dim=8, length=16),
                gnomon.plot.wavelengths(dim=8), gnomon.plot.bias(length=8),
                gnomon.plot.attention(length=4), gnomon.plot.shuffled(),
                gnomon.plot.lines([1, 2], {"a": [3, 4]}), gnomon.plot.heatmap([[1, 2], [3, 4]])]
    for picture in pictures:
        chart = picture.to_altair()  # validates the spec
        assert isinstance(chart, altair.TopLevelMixin)
        assert chart.to_dict().get("title", {}).get("text", "") == picture.title


def test_rows_make_a_data_frame() -> None:
    frame = pandas.DataFrame(gnomon.lab.load(STORED).rows())
    assert frame["bits"].dtype == float
    assert set(frame["verdict"]) == {"best", "worse", "undecided", "excluded"}
    best = frame[frame["length"] == 64].sort_values("bits").iloc[0]
    assert best["encoding"] == "rotary" and best["verdict"] == "best"
