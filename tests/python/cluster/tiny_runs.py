"""Tiny runs of the lab, and their results without times."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any

ROOT = pathlib.Path(__file__).parents[3]
TIMES = {"date", "command", "machine", "seconds", "train_seconds", "test_seconds",
         "tokens_per_second"}


def tiny(steps: int) -> list[str]:
    return ["--layers", "1", "--width", "16", "--heads", "2", "--batch", "4", "--train-length",
            "16", "--eval-lengths", "32", "--steps", str(steps), "--no-cost"]


def called(*words: str | os.PathLike[str], **more: Any) -> str:
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def timeless(value: Any) -> Any:
    if isinstance(value, str):  # the answer says how long more seeds would take
        return re.sub(r", about \d+ minutes? here", "", value)
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key not in TIMES}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def results(folder: str | pathlib.Path) -> dict[str, Any]:
    return timeless(json.loads((pathlib.Path(folder) / "results.json").read_text()))


def models(folder: str | pathlib.Path) -> dict[str, bytes]:
    path = pathlib.Path(folder) / "models"
    return {str(one.relative_to(path)): one.read_bytes()
            for one in path.rglob("*") if one.is_file()}
