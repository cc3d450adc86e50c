"""The curves of runs as event files of TensorBoard."""

from __future__ import annotations

import json
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ._results import LabResults, load
from ._table import field, has_examples


def to_tensorboard(results: LabResults | str | os.PathLike[str],
                   folder: str | os.PathLike[str]) -> pathlib.Path:
    """Writes the runs of results as event files: `tensorboard --logdir FOLDER` shows them.

    Each run, also an unfinished one, is a folder NAME-seedN with the scalars `bits/train` and
    `bits/validation` by step; `test/bits` by context length, or `test/score` by the end of a range
    of lengths; its hyperparameters, and the settings of the session as text. A loss that is not
    finite is NaN.

    results: as from `load`, or their folder. folder: a new or empty folder. Requires tensorboardX
    (`pip install gnomon[tensorboard]`). Raises ValueError if `folder` has files.
    """
    try:
        from tensorboardX import SummaryWriter  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("[lab] event files must be written by tensorboardX (pip install "
                          "gnomon[tensorboard]), got no such package") from error
    data = (results if isinstance(results, LabResults) else load(results)).data
    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"[lab] folder must be new or empty, got {folder}")
    runs = [*field(data, "runs", list), *(data.get("unfinished") or [])]
    names = [_name(run) for run in runs]
    if len(set(names)) < len(names):
        raise ValueError("[lab] runs must have different encodings or seeds, got "
                         + next(name for name in names if names.count(name) > 1))
    settings = field(data, "settings", dict)
    examples = has_examples(data)
    for name, run in zip(names, runs, strict=True):
        # tensorboardX names the file of hyperparameters by its time, unless it gets a name.
        with SummaryWriter(str(folder / name)) as writer:
            for step, tag, value in _curve(run):
                writer.add_scalar(tag, value, step)
            metrics = {}
            for length, value in _tests(run, examples):
                writer.add_scalar("test/score" if examples else "test/bits", value, length)
                metrics[f"test {length}"] = value
            writer.add_text("settings", _markdown(settings))
            if metrics:
                writer.add_hparams(_hyperparameters(run, settings), metrics, name="hparams")
    return folder


def _name(run: Any) -> str:
    """The name of the run's folder: that of its model."""
    name = f"{field(run, 'encoding', str)}-seed{field(run, 'seed', int)}".replace("/", ",")
    if not re.fullmatch(r"[A-Za-z0-9_,+*@-][A-Za-z0-9_,+*@.-]{0,200}", name):
        raise ValueError(f"[lab] encoding must be a name or scheme, got {name[:60]!r}")
    return name


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _curve(run: Mapping[str, Any]) -> Iterator[tuple[int, str, float]]:
    for point in field(run, "curve", list):
        step = field(point, "step", int)
        for part in ("train", "validation"):
            if f"{part}_bits" in point:
                yield step, f"bits/{part}", _finite(point[f"{part}_bits"])


def _tests(run: Mapping[str, Any], examples: bool) -> Iterator[tuple[int, float]]:
    for at in run.get("stretches" if examples else "lengths") or []:
        if field(at, "applicable", bool):
            yield (field(at, "to" if examples else "length", int),
                   _finite(at.get("score" if examples else "tail_bits")))


def _hyperparameters(run: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("task", "layers", "width", "heads", "train_length", "steps", "batch", "learning_rate",
             "position_rate", "tokens")
    known = {key: settings[key] for key in shown
             if isinstance(settings.get(key), (int, float, str))}
    for one in settings.get("rates") or []:  # of --sweep
        if field(one, "encoding", str, "rates") == run["encoding"]:
            known["learning_rate"] = field(one, "learning_rate", float, "rates")
    return {"encoding": run["encoding"], "seed": run["seed"]} | known


def _markdown(settings: Mapping[str, Any]) -> str:
    """The settings as a list. Lines with four spaces are code in Markdown."""
    return "\n".join("    " + line for line in json.dumps(settings, indent=1).splitlines())
