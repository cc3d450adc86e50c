"""gnomon.lab: the main table as rows, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import pathlib
import re

import gnomon.lab
import pytest
from gnomon.lab._table import escape_latex, interval_kind
from hypothesis import given
from hypothesis import strategies as st
from lab_results import example_results, text_results, write

STORED = pathlib.Path(__file__).parents[3] / "docs" / "notebooks" / "results"
LOSSES = {"none": [3.0, 3.1, None], "rotary": [2.5, 4.0, 5.0], "learned": [2.51, "n/a", "n/a"]}
VERDICTS = {64: {"rotary": "equivalent", "learned": "undecided", "none": "worse"},
            128: {"none": "best"}, 256: {"rotary": "best", "none": "excluded"}}


def load(folder: pathlib.Path, data: object) -> gnomon.lab.LabResults:
    return gnomon.lab.load(write(folder, data))


def cells(latex: str) -> list[list[str]]:
    """The cells of the lines of a LaTeX table."""
    body = latex[latex.index(r"\toprule"):latex.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\"))]
            for line in lines]


def test_rows_of_a_text(tmp_path: pathlib.Path) -> None:
    rows = load(tmp_path, text_results(LOSSES, verdicts=VERDICTS)).table()
    assert len(rows) == 9
    assert rows[0] == {"encoding": "none", "title": "None", "seeds": 3, "length": 64, "bits": 3.0,
                       "low": 2.99, "high": 3.01, "verdict": "worse", "state": ""}
    states = {(row["encoding"], row["length"]): row["state"] for row in rows if row["state"]}
    assert states == {("none", 256): "diverged", ("learned", 128): "not applicable",
                      ("learned", 256): "not applicable"}
    assert {(row["encoding"], row["length"]): row["verdict"] for row in rows} == {
        ("none", 64): "worse", ("none", 128): "best", ("none", 256): "excluded",
        ("rotary", 64): "equivalent", ("rotary", 128): "worse", ("rotary", 256): "best",
        ("learned", 64): "undecided", ("learned", 128): None, ("learned", 256): None}
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
    results = load(tmp_path, text_results(LOSSES, verdicts=VERDICTS))
    read = list(csv.DictReader(io.StringIO(results.to_csv())))
    assert len(read) == 9 and list(read[0]) == list(results.table()[0])
    assert read[0]["bits"] == "3.0" and read[0]["verdict"] == "worse"
    assert read[3]["verdict"] == "equivalent" and read[2]["bits"] == ""
    assert read[7]["verdict"] == ""
    assert read[2]["state"] == "diverged"


def test_latex_of_a_text(tmp_path: pathlib.Path) -> None:
    latex = load(tmp_path, text_results(LOSSES, verdicts=VERDICTS)).to_latex()
    lines = cells(latex)
    assert lines[0] == ["", r"\multicolumn{3}{c}{Context length (bytes)}"]
    assert lines[1:] == [
        ["Encoding", "64", "128", "256"],
        ["None", r"3.000 $\pm$ 0.010", r"\textbf{3.100 $\pm$ 0.010}", r"\textit{diverged}"],
        ["Rotary", r"\textbf{2.500 $\pm$ 0.010}", r"4.000 $\pm$ 0.010",
         r"\textbf{5.000 $\pm$ 0.010}"],
        ["Learned", r"\textbf{2.510 $\pm$ 0.010}", "n/a", "n/a"]]
    assert r"\begin{tabular}{lrrr}" in latex and r"\cmidrule(lr){2-4}" in latex
    for said in ("Mean over 3 seeds; ",
                 "half of the width of the 95 \\% confidence interval of the mean over 3 seeds and "
                 "the test segments.", "n/a: the encoding has no positions", "Diverged: ",
                 "Bold: those that may be the best of each length: not shown to be worse."):
        assert said in latex


@pytest.mark.parametrize("verdict", ["worse", "described", "excluded"])
def test_only_those_that_may_be_the_best_are_bold(tmp_path: pathlib.Path, verdict: str) -> None:
    verdicts = {length: dict.fromkeys(LOSSES, verdict) for length in (64, 128, 256)}
    latex = load(tmp_path, text_results(LOSSES, verdicts=verdicts)).to_latex()
    assert "textbf" not in latex and "Bold" not in latex
    zero = example_results({"none": [(0.0, 0.0, 0.01)], "rotary": [(0.0, 0.0, 0.01)]},
                           verdicts={"none": "undecided", "rotary": "undecided"})
    assert "textbf" not in load(tmp_path / "zero", zero).to_latex()


@pytest.mark.parametrize("seeds, asked, examples, expected", [
    ([3, 3], 3, False, "3 seeds and the test segments"),
    ([2, 3], 3, False, "the seeds and the test segments"),
    ([3], 3, True, "3 seeds and the examples, at least that of Wilson for the examples"),
    ([3, 1], 3, False, "the test segments of one seed; it does not contain the deviation between "
                       "seeds"),
    ([], 0, False, "the test segments of one seed; it does not contain the deviation between "
                   "seeds")])
def test_the_interval_is_named_as_in_the_report(seeds: list[int], asked: int, examples: bool,
                                                expected: str) -> None:
    """The texts of interval_text() in apps/lab/report/report_tables.cc."""
    assert interval_kind(seeds, asked, examples) == (
        "the 95 % confidence interval of the mean over " + expected)


def test_latex_of_examples(tmp_path: pathlib.Path) -> None:
    data = example_results({"none": [(0.5, 0.45, 0.55), (0.0, 0.0, 0.01)],
                            "rotary": [(0.993, 0.98, 1.0), (0.25, 0.2, 0.3)]}, verdicts={"rotary": "best"})
    latex = load(tmp_path, data).to_latex(label="tab:copy")
    assert cells(latex)[1:] == [["Encoding", "1 to 20", "21 to 40"],
                                ["None", "50.0 [45, 55]", "0.0 [0, 1]"],
                                ["Rotary", r"\textbf{99.3 [98, 100]}", r"\textbf{25.0 [20, 30]}"]]
    assert ("One seed; brackets: the 95 \\% confidence interval of the mean over the examples of one "
            "seed, at least that of Wilson for the examples; it does not contain the deviation "
            "between seeds.") in latex
    assert "higher is better" in latex and r"\label{tab:copy}" in latex


def test_the_caption_says_what_is_incomplete(tmp_path: pathlib.Path) -> None:
    answer = ["Stopped early: x", "No advice from 2 seeds: why.", "At 64 bytes, one."]
    data = text_results({"none": [3.0]}, recommendations=[], stopped=True, runs_asked=6,
                        shard="1/3", answer=answer, seeds=2)
    latex = load(tmp_path, data).to_latex()
    for said in (" No advice from 2 seeds: why.", "2 of 6 runs are finished", "shard 1/3"):
        assert said in latex
    assert "Stopped early: x" not in latex and "At 64 bytes" not in latex
    data["answer"] = ["Not ranked, because not trained enough: None."]
    assert " Not ranked, because not" in load(tmp_path / "a", data).to_latex()
    data["encodings"].append(dict(data["encodings"][0], name="b", title="B", seeds=1))
    latex = load(tmp_path / "b", data).to_latex()
    assert "Mean over 1 to 2 seeds" in latex and "the test segments of one seed; it does" in latex
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
    ({"rankings": [{"length": 64, "order": [{"name": "none", "tied": True}]}]},
     "must have verdict, of the type str, got None"),
    ({"rankings": [{"length": 64, "order": [{"name": "none", "verdict": "tied"}]}]},
     "verdict in results.json must be one of best, equivalent, undecided, worse, described, "
     "excluded, got tied"),
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
