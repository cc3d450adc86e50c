"""Outputs of gnomon.lab, read by the packages that they are for: TensorBoard, LaTeX, SVG, PDF."""

from __future__ import annotations

import math
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import gnomon.lab
import pytest
from lab_results import LINE_SPEC, example_results, text_results, write, write_report
from pylatexenc.latex2text import LatexNodes2Text
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read(folder: pathlib.Path) -> EventAccumulator:
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def scalars(events: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in events.Scalars(tag)]


def test_tensorboard_reads_the_curves(tmp_path: pathlib.Path) -> None:
    data = text_results({"none": [3.0, "n/a"], "rotary*2/none": [2.5, None]})
    data["runs"][0]["curve"].append({"step": 3, "train_bits": None, "validation_bits": None})
    data["unfinished"] = [{"encoding": "t5", "seed": 1, "curve": [{"step": 1, "train_bits": 8.5}]}]
    results = gnomon.lab.load(write(tmp_path / "r", data))
    assert gnomon.lab.to_tensorboard(results, tmp_path / "t") == tmp_path / "t"
    assert sorted(one.name for one in (tmp_path / "t").iterdir()) == [
        *(f"{name}-seed{seed}" for name in ("none", "rotary*2,none") for seed in (1, 2, 3)),
        "t5-seed1"]
    events = read(tmp_path / "t" / "none-seed1")
    assert set(events.Tags()["scalars"]) == {"bits/train", "bits/validation", "test/bits"}
    curve = scalars(events, "bits/train")
    assert curve[:2] == [(1, 8.0), (2, 8.5)] and curve[2][0] == 3 and math.isnan(curve[2][1])
    assert scalars(events, "bits/validation")[0] == (2, 7.25)
    assert scalars(events, "test/bits") == [(64, 3.0)]
    text = events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert '"learning_rate": 0.002' in text
    assert scalars(read(tmp_path / "t" / "t5-seed1"), "bits/train") == [(1, 8.5)]
    diverged = scalars(read(tmp_path / "t" / "rotary*2,none-seed2"), "test/bits")
    assert diverged[0] == (64, 2.5) and math.isnan(diverged[1][1])
    summary = read(tmp_path / "t" / "none-seed2" / "hparams").summary_metadata
    plugin = summary["_hparams_/session_start_info"].plugin_data.content
    assert b"encoding" in plugin and b"none" in plugin and b"learning_rate" in plugin


def test_tensorboard_reads_scores(tmp_path: pathlib.Path) -> None:
    data = example_results({"none": [(0.5, 0.4, 0.6)]})
    data["runs"][0]["stretches"] = [{"from": 1, "to": 5, "applicable": True, "score": 0.75}]
    gnomon.lab.to_tensorboard(write(tmp_path / "r", data), tmp_path / "t")
    assert scalars(read(tmp_path / "t" / "none-seed1"), "test/score") == [(5, 0.75)]


def test_tensorboard_refuses(tmp_path: pathlib.Path) -> None:
    data = text_results({"none": [3.0]})
    folder = write(tmp_path / "r", data)
    with pytest.raises(ValueError, match="folder must be new or empty, got"):
        gnomon.lab.to_tensorboard(folder, folder)
    for name in ("..", "a\x00b", "a\nb", "../x"):
        data["runs"][0]["encoding"] = name
        with pytest.raises(ValueError, match="encoding must be a name or scheme, got"):
            gnomon.lab.to_tensorboard(write(tmp_path / "r", data), tmp_path / "t")
    data["runs"] = data["runs"][1:] * 2
    with pytest.raises(ValueError, match="runs must have different encodings or seeds, got"):
        gnomon.lab.to_tensorboard(write(tmp_path / "r", data), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def nodes(of: object) -> list[object]:
    """All nodes of parsed LaTeX."""
    found = []
    for one in of or []:
        found.append(one)
        for part in ("nodelist", "nodeargd"):
            inner = getattr(one, part, None)
            found += nodes(getattr(inner, "argnlist", inner) if part == "nodeargd" else inner)
    return found


def test_a_parser_of_latex_reads_the_table(tmp_path: pathlib.Path) -> None:
    data = text_results({"none": [3.0, None], "rotary": [2.5, "n/a"]},
                        verdicts={64: {"rotary": "best"}})
    title = r"\input{x} 100% & _a_ #1 ~ $x$ {[2em] a--b \end{tabular}"
    data["encodings"][0]["title"] = title
    latex = gnomon.lab.load(write(tmp_path, data)).to_latex()
    parsed, _, _ = LatexWalker(latex, tolerant_parsing=False).get_latex_nodes()
    every = nodes(parsed)
    assert [one.environmentname for one in every if isinstance(one, LatexEnvironmentNode)] == [
        "table", "tabular"]
    macros = {one.macroname for one in every if isinstance(one, LatexMacroNode)}
    assert "input" not in macros and {"toprule", "midrule", "bottomrule", "textbf"} <= macros
    (line,) = [line for line in latex.splitlines() if "textbackslash" in line]
    shown = LatexNodes2Text().latex_to_text(line.split(" & ")[0].strip())
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", title)


def test_figures_are_svg_and_pdf(tmp_path: pathlib.Path) -> None:
    results = gnomon.lab.load(write(tmp_path, text_results({"none": [3.0]})))
    write_report(tmp_path, {"lengths": LINE_SPEC, "training": LINE_SPEC})
    written = results.figures(tmp_path / "f")
    assert [one.name for one in written] == ["lengths.svg", "lengths.pdf", "training.svg",
                                             "training.pdf"]
    root = ElementTree.parse(written[0]).getroot()
    assert root.tag.endswith("svg") and float(root.attrib["width"]) > 600
    assert "Title of lengths" not in written[0].read_text()
    pdf = written[1].read_bytes()
    assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF") and b"/Font" in pdf
    (titled,) = results.figures(tmp_path / "g", ["svg"], names=["lengths"], titles=True)
    assert "Title of lengths" in titled.read_text()
