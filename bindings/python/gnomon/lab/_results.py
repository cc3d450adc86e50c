"""The results in a folder of the lab."""

from __future__ import annotations

import csv
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .. import _html
from ..plot import Picture, lines
from . import _figures, _table


class LabResults:
    """The results in a folder of the lab. Made by `run` and `load`.

    path: the folder. report: the report, an HTML file.
    data: results.json, with the keys of docs/lab/results.md.
    """

    def __init__(self, path: pathlib.Path, data: Mapping[str, Any]) -> None:
        self.path, self.report, self.data = path, path / "index.html", data

    @property
    def answer(self) -> str:
        """The sentences at the start of the report, one per line."""
        return "\n".join(self.data["answer"])

    def rows(self) -> list[dict[str, Any]]:
        """Returns the lines of results.csv, with numbers, and None for an empty field.

        A text: a row for each encoding, length and context, with `bits`, `uncertainty`, `accuracy`
        and `verdict`. A task with examples: a row for each encoding and range of lengths.
        """
        with open(self.path / "results.csv", newline="", encoding="utf-8") as file:
            return [{key: _value(key, text) for key, text in row.items()}
                    for row in csv.DictReader(file)]

    def plot(self) -> Picture:
        """Returns the chart of the results: loss or right answers by length."""
        rows = self.rows()
        metric = self.data["metric"]
        by_text = bool(rows) and "bits" in rows[0]
        if by_text:
            rows = [row for row in rows if row["context"] == "whole"]
        at, value = ("length", "bits") if by_text else ("to", "score")
        unit = self.data.get("length_unit", "bytes" if by_text else "")
        lengths = sorted({row[at] for row in rows})
        series = {row["title"]: dict[int, float]() for row in rows}
        for row in rows:
            series[row["title"]][row[at]] = row[value]
        gaps = {name: [values.get(one) for one in lengths] for name, values in series.items()}
        return lines(lengths, gaps, log_x=by_text, points=True,
                     x_title=("context length" if by_text else "longest length of the range")
                     + (f" ({unit})" if unit else ""),
                     y_title=metric["name"],
                     title=f"{metric['name'].capitalize()} by length",
                     caption=f"{metric['what'].capitalize()}. By chance: {metric['chance']}.")

    def table(self) -> list[dict[str, Any]]:
        """Returns the main table: a row for each encoding and length, with its interval.

        Columns: `encoding`, `title`, `seeds`; `length`, or in a task with examples `from` and `to`;
        `bits` or `score`; `low` and `high` of its 95 % confidence interval; `verdict`: 'best',
        'equivalent', 'undecided', 'worse', 'described' or 'excluded'; `state`: '', 'diverged' or
        'not applicable'. Fields that do not apply are None.
        """
        return _table.main_table(self.data)

    def to_csv(self) -> str:
        """Returns `table()` as CSV."""
        return _table.to_csv(self.table())

    def to_latex(self, *, caption: str | None = None, label: str = "tab:lab") -> str:
        """Returns the main table as a LaTeX table with booktabs.

        Bold: those that may be the best of each length (best, equivalent or undecided).
        caption: LaTeX; default: a text with the metric, the seeds and the kind of interval.
        Raises ValueError if no run is finished.
        """
        return _table.to_latex(self.data, caption, label)

    def pictures(self) -> dict[str, Picture]:
        """Returns the charts of the report by name: `lengths`, `positions`, `training`, ...

        Raises ValueError without a report.
        """
        return _figures.pictures(self.report)

    def figures(self, folder: str | os.PathLike[str], formats: Sequence[str] = ("svg", "pdf"), *,
                names: Sequence[str] | None = None, titles: bool = False) -> list[pathlib.Path]:
        """Writes charts of the report to files NAME.FORMAT, for a paper. Returns their paths.

        formats: svg, pdf, png, json. names: keys of `pictures()`; default: the charts that compare
        encodings. titles: also draw title and caption. Requires vl-convert-python
        (`pip install gnomon[plot]`). Raises ValueError if a file exists.
        """
        return _figures.save(self.report, folder, formats, names, titles)

    def __repr__(self) -> str:
        names = ", ".join(self.data["settings"]["encodings"])
        return f"LabResults({str(self.path)!r}: {names})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The answer, the chart and the table of results."""
        rows = self.rows()
        columns = [name for name in (rows[0] if rows else ())
                   if name != "title" and any(row[name] is not None for row in rows)]
        cells = [[_html.text_of(row[name]) for name in columns] for row in rows]
        answer = "".join(f"<p>{escape(one)}</p>" for one in self.data["answer"])
        table = _html.table("", columns, cells)
        html = (answer + _html.image(self.plot()) +
                f"<details><summary>{len(rows)} rows</summary>{table}</details>")
        if self.report.exists():
            html += f"<p>Report: <code>{escape(str(self.report))}</code></p>"
        return _html.bundle(f"{self.answer}\n{self!r}", html)


def load(folder: str | os.PathLike[str]) -> LabResults:
    """Reads the results of an earlier run from its folder. Raises ValueError if there are none."""
    path = pathlib.Path(folder)
    try:
        data = json.loads((path / "results.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"[lab] folder must have the results of a run, got {path}: {error}"
                         ) from error
    _table.check_schema(data)
    return LabResults(path, data)


def _value(key: str, text: str) -> Any:
    """A field of results.csv as a value."""
    if key in ("encoding", "title", "context", "method", "verdict"):
        return text or None
    if text == "":
        return None
    number = float(text)
    return int(number) if text.lstrip("-").isdigit() else number
