"""gnomon.lab: the main table as rows, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import pathlib
import re

import gnomon.lab
import pytest
from gnomon.lab._table import escape_latex
from hypothesis import given
from hypothesis import strategies as st
from lab_results import example_results, text_results, write

STORED = pathlib.Path(__file__).parents[3] / "docs" / "notebooks" / "results"
LOSSES = {"none": [3.0, 3.1, None], "rotary": [2.5, 4.0, 5.0], "learned": [2.51, "n/a", "n/a"]}
TIED = {64: ["rotary", "learned"], 128: ["none"], 256: ["rotary"]}


def load(folder: pathlib.Path, data: object) -> gnomon.lab.LabResults:
    return gnomon.lab.load(write(folder, data))


def cells(latex: str) -> list[list[str]]:
    """The cells of the lines of a LaTeX table."""
    body = latex[latex.index(r"\toprule"):latex.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\"))]
            for line in lines]


def test_rows_of_a_text(tmp_path: pathlib.Path) -> None:
    rows = load(tmp_path, text_results(LOSSES, tied=TIED)).table()
    assert len(rows) == 9
    assert rows[0] == {"encoding": "none", "title": "None", "seeds": 2, "length": 64, "bits": 3.0,
                       "low": 2.99, "high": 3.01, "tied_with_best": False, "state": ""}
    states = {(row["encoding"], row["length"]): row["state"] for row in rows if row["state"]}
    assert states == {("none", 256): "diverged", ("learned", 128): "not applicable",
                      ("learned", 256): "not applicable"}
    assert {(row["encoding"], row["length"]) for row in rows if row["tied_with_best"]} == {
        ("rotary", 64), ("learned", 64), ("none", 128), ("rotary", 256)}
    assert all(row["bits"] is row["low"] is row["high"] is None for row in rows if row["state"])


def test_rows_of_the_stored_results_are_those_of_the_csv() -> None:
    results = gnomon.lab.load(STORED)
    whole = {(row["encoding"], row["length"]): row for row in results.rows()
             if row["context"] == "whole"}
    measured = [row for row in results.table() if not row["state"]]
    assert len(measured) == len(whole) == 10
    for row in measured:
        other = whole[row["encoding"], row["length"]]
        assert row["bits"] == pytest.approx(other["bits"], rel=1e-5)
        assert row["high"] - row["bits"] == pytest.approx(other["uncertainty"], rel=1e-2)


def test_csv_has_the_rows(tmp_path: pathlib.Path) -> None:
    results = load(tmp_path, text_results(LOSSES, tied=TIED))
    read = list(csv.DictReader(io.StringIO(results.to_csv())))
    assert len(read) == 9 and list(read[0]) == list(results.table()[0])
    assert read[0]["bits"] == "3.0" and read[0]["tied_with_best"] == "no"
    assert read[3]["tied_with_best"] == "yes" and read[2]["bits"] == ""
    assert read[2]["state"] == "diverged"


def test_latex_of_a_text(tmp_path: pathlib.Path) -> None:
    latex = load(tmp_path, text_results(LOSSES, tied=TIED)).to_latex()
    lines = cells(latex)
    assert lines[0] == ["", r"\multicolumn{3}{c}{Context length (bytes)}"]
    assert lines[1:] == [
        ["Encoding", "64", "128", "256"],
        ["None", r"3.000 $\pm$ 0.010", r"\textbf{3.100 $\pm$ 0.010}", r"\textit{diverged}"],
        ["Rotary", r"\textbf{2.500 $\pm$ 0.010}", r"4.000 $\pm$ 0.010",
         r"\textbf{5.000 $\pm$ 0.010}"],
        ["Learned", r"\textbf{2.510 $\pm$ 0.010}", "n/a", "n/a"]]
    assert r"\begin{tabular}{lrrr}" in latex and r"\cmidrule(lr){2-4}" in latex
    for said in ("Mean over 2 seeds", "half of the width of the 95 \\% confidence interval of the "
                 "mean over seeds", "n/a: the encoding has no positions", "Diverged: ",
                 "Bold: the best of each length and those tied with it"):
        assert said in latex


def test_nothing_is_bold_that_the_results_do_not_name(tmp_path: pathlib.Path) -> None:
    latex = load(tmp_path, text_results(LOSSES)).to_latex()
    assert "textbf" not in latex and "Bold" not in latex
    zero = example_results({"none": [(0.0, 0.0, 0.01)], "rotary": [(0.0, 0.0, 0.01)]},
                           tied=("none", "rotary"))
    assert "textbf" not in load(tmp_path / "zero", zero).to_latex()


def test_latex_of_examples(tmp_path: pathlib.Path) -> None:
    data = example_results({"none": [(0.5, 0.45, 0.55), (0.0, 0.0, 0.01)],
                            "rotary": [(0.993, 0.98, 1.0), (0.25, 0.2, 0.3)]}, tied=("rotary",))
    latex = load(tmp_path, data).to_latex(label="tab:copy")
    assert cells(latex)[1:] == [["Encoding", "1 to 20", "21 to 40"],
                                ["None", "50.0 [45, 55]", "0.0 [0, 1]"],
                                ["Rotary", r"\textbf{99.3 [98, 100]}", r"\textbf{25.0 [20, 30]}"]]
    assert "One seed; brackets: the 95 \\% confidence interval from the number of examples" in latex
    assert "higher is better" in latex and r"\label{tab:copy}" in latex


def test_the_caption_says_what_is_incomplete(tmp_path: pathlib.Path) -> None:
    data = text_results({"none": [3.0]}, recommendations=[], stopped=True, runs_asked=6,
                        shard="1/3")
    latex = load(tmp_path, data).to_latex()
    for said in ("the models are not trained enough", "2 of 6 runs are finished", "shard 1/3"):
        assert said in latex
    data["encodings"].append(dict(data["encodings"][0], name="b", title="B", seeds=1))
    latex = load(tmp_path / "b", data).to_latex()
    assert "Mean over 1 to 2 seeds" in latex and "with one seed, of the mean over the test" in latex
    assert [line[1] for line in cells(latex)[1:]] == ["Seeds", "2", "1"]
    assert r"\caption{Mine}" in load(tmp_path / "b", data).to_latex(caption="Mine")


def test_names_are_escaped(tmp_path: pathlib.Path) -> None:
    data = text_results({"none": [3.0], "b": [3.0]})
    data["encodings"][0]["title"] = r"\input{x} 100% & _a_ #1 ~^ $x$ {"
    data["encodings"][1]["title"] = "[2em] a--b é 日"
    lines = cells(load(tmp_path, data).to_latex())
    assert lines[2][0] == (r"\textbackslash{}input\{x\} 100\% \& \_a\_ \#1 "
                           r"\textasciitilde{}\textasciicircum{} \$x\$ \{")
    assert lines[3][0] == "{[}2em{]} a-{}-b é U+65E5" and len(lines) == 4


@given(st.text())
def test_escaped_text_has_no_commands_of_its_own(text: str) -> None:
    escaped = escape_latex(text)
    commands = r"\\(text[a-z]+|char\d+)\{\}|\\[&%$#_{}]|\$(\\pm|\\times|-)\$|-?\{\}|\{[][*]\}"
    rest = re.sub(commands, "", escaped)
    assert not re.search(r"[\\&%$#_{}~^<>|\"`]", rest) and "\n" not in rest


@pytest.mark.parametrize("change, message", [
    ({"encodings": None}, "must have encodings, of the type list, got None"),
    ({"rankings": [{"length": 64, "order": [{"name": "none", "tied": 1}]}]},
     "must have tied, of the type bool, got 1"),
    ({"encodings": [{"name": "none", "title": "N", "seeds": -1, "lengths": []}]},
     "must have seeds, of the type int, got -1"),
    ({"encodings": [{"name": "none", "title": "N", "seeds": 1, "lengths": [
        {"length": 64, "applicable": True, "tail_bits": "3", "uncertainty": 1}]}]},
     "tail_bits in results.json must be a number or null, got '3'"),
    ({"encodings": []}, "must have a finished run, got none")])
def test_other_data_is_refused(change: dict[str, object], message: str,
                               tmp_path: pathlib.Path) -> None:
    results = load(tmp_path, text_results({"none": [3.0]}, **change))
    with pytest.raises(ValueError, match=re.escape(message)):
        results.to_latex()
