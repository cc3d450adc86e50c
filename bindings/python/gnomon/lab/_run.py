"""The program gnomon-lab: how it is started."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _program
from . import _ray
from ._find import find
from ._results import LabResults, load


def run(text: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None, *,
        encodings: Sequence[str] | None = None, minutes: float | None = None,
        steps: int | None = None, seeds: int | Sequence[int] | None = None,
        out: str | os.PathLike[str] | None = None, progress: bool = True,
        cluster: str | None = None, **options: Any) -> LabResults:
    """Trains and compares encodings on a text. Takes minutes.

    text: the path of a file, several paths, or a text with at least one line break; default: the
        novels that the lab contains. For a task with data, its file or folder.
    encodings: names as in `gnomon.encodings()`, or schemes as 'rotary+alibi'; or ['all'].
    minutes or steps: the training budget, with equal steps for every encoding.
    seeds: training runs for each encoding, or a list of their seeds.
    out: a new or empty folder; default: report, report-2, ... in the working folder.
    progress: shows the progress as one line on stderr.
    cluster: 'ray' trains the runs as tasks of Ray (docs/lab/cluster.md), with the options
        num_cpus=1, num_gpus=0, max_retries=3, checkpoint_seconds=60.
    options: the other options of `gnomon lab` with _ for -: task="copy", tokens="bpe:1000",
        finetune="models/tiny-llama", extend=["yarn"], train_length=64, eval_lengths=[64, 128],
        layers=2, width=64, heads=2, sizes=["2x64", "4x128"], batch=16, jobs=1, workers_per_run=2,
        no_cost=True, ...
    An interrupt stops the lab, which then writes a report of the finished runs.

    Raises ValueError with the message of the lab, FileNotFoundError if it is not installed.
    """
    # "4," is a list, and "4" a number of seeds.
    which = seeds if seeds is None or isinstance(seeds, int) else "".join(f"{one}," for one in seeds)
    given = {"encodings": encodings, "minutes": minutes, "steps": steps, "seeds": which}
    if cluster is not None:
        return load(_ray.run(cluster, find(), lambda folder: _files(text, folder), given | options,
                             _words, out=out, progress=progress))
    words = list(_words(given | {"out": None if out is None else os.fspath(out)} | options))
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
