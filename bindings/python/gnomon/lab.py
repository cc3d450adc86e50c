"""The lab: trains one small Transformer per encoding on a text and compares them.

    import gnomon.lab

    results = gnomon.lab.run("novel.txt", encodings=["rotary", "alibi", "t5"], minutes=5)
    print(results.answer)
    pandas.DataFrame(results.rows())

The lab is the program `gnomon-lab`, which requires LibTorch and is not part of this package.
`make lab` in the source tree builds it, `make install` installs it.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from . import _html, _program
from ._protocol import Protocol
from .plot import Picture, lines

__all__ = ["LabResults", "Protocol", "compare", "find", "load", "run"]


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
        """Returns the lines of results.csv, with numbers, True and False; None for an empty field.

        A text: a row for each encoding, length and context, with `bits`, `uncertainty`, `accuracy`
        and `tied_with_best`. A task with examples: a row for each encoding and range of lengths.
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


def find() -> str:
    """Returns the path of gnomon-lab.

    Looks at $GNOMON_LAB, then near the program `gnomon` of this package (a build folder), then in
    the folders of $PATH and in ../libexec/gnomon beside them (`make install`). Raises
    FileNotFoundError, which names the ways to get it.
    """
    given = os.environ.get("GNOMON_LAB")
    if given:
        if not os.access(given, os.X_OK):
            raise FileNotFoundError(f"[lab] GNOMON_LAB must be the path of a program, got {given}")
        return given
    for folder in _folders():
        for place in ("gnomon-lab", "../libexec/gnomon/gnomon-lab", "../lab/gnomon-lab"):
            if found := shutil.which(os.path.join(folder, place)):
                return os.path.realpath(found)
    raise FileNotFoundError(
        "[lab] the program gnomon-lab must be installed: run `make lab` or `make install` in the "
        "source tree of Gnomon (LibTorch is required), or set GNOMON_LAB to its path, got none")


def run(text: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None, *,
        encodings: Sequence[str] | None = None, minutes: float | None = None,
        steps: int | None = None, seeds: int | None = None,
        out: str | os.PathLike[str] | None = None, progress: bool = True,
        **options: Any) -> LabResults:
    """Trains and compares encodings on a text. Takes minutes.

    text: the path of a file, several paths, or a text with at least one line break; default: the
        novels that the lab contains. For a task with data, its file or folder.
    encodings: names as in `gnomon.encodings()`, or schemes as 'rotary+alibi'; or ['all'].
    minutes or steps: the training budget, with equal steps for every encoding.
    seeds: training runs for each encoding.
    out: a new or empty folder; default: report, report-2, ... in the working folder.
    progress: shows the progress as one line on stderr.
    options: the other options of `gnomon lab` with _ for -: task="copy", tokens="bpe:1000",
        finetune="models/tiny-llama", extend=["yarn"], train_length=64, eval_lengths=[64, 128],
        layers=2, width=64, heads=2, sizes=["2x64", "4x128"], batch=16, jobs=1, workers_per_run=2,
        no_cost=True, ...
    An interrupt stops the lab, which then writes a report of the finished runs.

    Raises ValueError with the message of the lab, FileNotFoundError if it is not installed.
    """
    words = list(_words({"encodings": encodings, "minutes": minutes, "steps": steps,
                         "seeds": seeds, "out": None if out is None else os.fspath(out)} | options))
    environment = os.environ | {"GNOMON_LAB": find()}
    with tempfile.TemporaryDirectory() as folder:
        files = _files(text, pathlib.Path(folder))
        command = [_program.path(), "lab", *files, *words]
        status, printed = _watch(command, environment, progress)
    if status == 2:
        errors = [one.removeprefix("gnomon: ") for one in printed if one.startswith("gnomon: [")]
        raise ValueError("\n".join(errors or printed[-3:]))
    stopped = status in (130, -signal.SIGINT)
    if status != 0 and not stopped:
        raise RuntimeError(f"gnomon lab failed ({status}): " + "\n".join(printed[-3:]))
    folders = [one.removeprefix("Output folder: ") for one in printed
               if one.startswith("Output folder: ")]
    if stopped and not (folders and (pathlib.Path(folders[0]) / "results.json").exists()):
        raise KeyboardInterrupt
    return load(folders[0])


def load(folder: str | os.PathLike[str]) -> LabResults:
    """Reads the results of an earlier run from its folder. Raises ValueError if there are none."""
    path = pathlib.Path(folder)
    try:
        data = json.loads((path / "results.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"[lab] folder must have the results of a run, got {path}: {error}"
                         ) from error
    if not isinstance(data, dict) or data.get("schema") != 3:
        raise ValueError("[lab] results.json must have the schema 3, got "
                         f"{data.get('schema') if isinstance(data, dict) else type(data).__name__}")
    return LabResults(path, data)


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> dict[str, Any]:
    """Compares the results in two folders of the lab with the same task.

    Returns the output of `gnomon compare A B --json`: `settings` that differ, `differences`
    (B - A for each encoding and length, with `margin`, half of the width of the 95 % confidence
    interval), `recommendations`, `reaches`, `warnings`. Raises ValueError with the message of the
    program.
    """
    done = subprocess.run([_program.path(), "compare", os.fspath(a), os.fspath(b), "--json"],
                          env=os.environ | {"GNOMON_LAB": find()}, capture_output=True,
                          encoding="utf-8", check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip().removeprefix("gnomon: "))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _folders() -> Iterator[str]:
    try:
        yield os.path.dirname(os.path.realpath(_program.path()))
    except FileNotFoundError:
        pass
    yield from filter(None, os.environ.get("PATH", "").split(os.pathsep))


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    """The options as words of a command line."""
    for name, value in options.items():
        if value is None or value is False:
            continue
        yield "--" + name.replace("_", "-")
        if isinstance(value, (list, tuple)):
            yield ",".join(map(str, value))
        elif value is not True:
            yield os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _files(text: Any, folder: pathlib.Path) -> list[str]:
    """The paths of the texts. A text itself is written to a file in `folder`."""
    if text is None:
        return []
    if isinstance(text, str) and "\n" in text:
        file = folder / "text.txt"
        file.write_text(text, encoding="utf-8")
        return [str(file)]
    if isinstance(text, (str, os.PathLike)):
        text = [text]
    return [os.fspath(one) for one in text]


@contextlib.contextmanager
def _interrupts_of(process: subprocess.Popen[str]) -> Iterator[None]:
    """Passes interrupts to the process, instead of raising KeyboardInterrupt, which loses a line
    that is being read. Only the main thread receives interrupts, and may have another handler."""
    if (threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: process.send_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _watch(command: Sequence[str], environment: Mapping[str, str],
           progress: bool) -> tuple[int, list[str]]:
    """Runs the lab and shows its last line. Returns its exit status and all lines.

    The lab has its own session, so that it receives an interrupt of a terminal once, from here.
    """
    printed: list[str] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8",
                          stderr=subprocess.STDOUT, start_new_session=True
                          ) as process, _interrupts_of(process):
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line.rstrip("\n"))
            if progress and "" not in printed:  # a blank line precedes the summary
                print("\r" + printed[-1][:79].ljust(79), end="", file=sys.stderr, flush=True)
        status = process.wait()
    if progress:
        print("\r" + " " * 79 + "\r", end="", file=sys.stderr, flush=True)
    return status, printed


def _value(key: str, text: str) -> Any:
    """A field of results.csv as a value."""
    if key in ("encoding", "title", "context", "method"):
        return text or None
    if text in ("yes", "no"):
        return text == "yes"
    if text == "":
        return None
    number = float(text)
    return int(number) if text.lstrip("-").isdigit() else number
