"""The files of a run (docs/lab/run-format.md): checks, and writing without overwriting."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pathlib
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

FORMAT = 1
_SETTINGS: dict[str, Any] = {
    "task": str, "encodings": list, "tokens": str, "train_length": int, "eval_lengths": list,
    "layers": int, "width": int, "heads": int, "seeds": list, "steps": int, "batch": int,
    "learning_rate": (int, float), "position_rate": (int, float), "eval_segments": int}
_LENGTH = {"tail_bits", "window_bits", "accuracy", "windows", "tail_by_segment"}
_SHARES = {"score", "second", "chance_score", "chance_second"}
_EXAMPLES = {"scores", "seconds"}  # a number for each example
_STRETCH = {"examples", "bits"} | _SHARES | _EXAMPLES


def need(holds: bool, rule: str, got: Any) -> None:
    if not holds:
        raise ValueError(f"[protocol] {rule}, got {got}")


def is_own(entry: Any) -> bool:
    return isinstance(entry, str) and bool(
        re.fullmatch(r"own:[A-Za-z0-9_-]{1,64}(@[1-9]\d*x[1-9]\d*)?", entry))


def file_name(encoding: str, seed: int) -> str:
    return f"{encoding.replace('/', ',').replace(':', '.')}-seed{seed}.json"


def read_json(path: pathlib.Path) -> tuple[dict[str, Any], str]:
    """Returns an object and the SHA-256 of its file."""
    try:
        data = path.read_bytes()
        found = json.loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"[protocol] {path} must be JSON, got {error}") from error
    need(isinstance(found, dict), f"{path} must be an object", type(found).__name__)
    return dict(found), hashlib.sha256(data).hexdigest()


def is_plan(content: Mapping[str, Any]) -> bool:
    """Whether it is a plan of --list-runs. In settings.json, `protocol` has the hash of a plan."""
    return isinstance(content.get("protocol"), int)


def checked_plan(plan: Mapping[str, Any], sha256: str | None) -> dict[str, Any]:
    """Returns what the settings.json of its runs has. sha256: of the file."""
    settings: Any = plan.get("settings")
    need(isinstance(settings, dict), "a plan must have settings", type(settings).__name__)
    for key, kind in _SETTINGS.items():
        value = settings.get(key)
        need(isinstance(value, kind) and not isinstance(value, bool),
             f"a plan must have the setting {key}", repr(value))
    need(not settings.get("finetune"), "a plan must be without --finetune", "both")
    for key in ("fingerprint", "gnomon"):
        need(isinstance(plan.get(key), str) and plan[key] != "",
             f"a plan must have the key {key}", plan.get(key))
    need(plan.get("format", FORMAT) == FORMAT, f"a plan must have the format {FORMAT}",
         plan.get("format"))
    stored = {"settings": json.loads(json.dumps(settings)), "fingerprint": plan["fingerprint"],
              "gnomon": plan["gnomon"], "format": FORMAT}
    if is_plan(plan):
        stored["protocol"] = {"sha256": sha256}
    elif "protocol" in plan:
        stored["protocol"] = plan["protocol"]
    return stored


def trainers() -> str:
    """Returns the versions of Python and of the loaded packages that train."""
    names = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow", "mlx": "MLX"}
    loaded = [f"{title} {sys.modules[name].__version__}" for name, title in names.items()
              if hasattr(sys.modules.get(name), "__version__")]
    return ", ".join([*loaded, f"Python {platform.python_version()}"])


def check(run: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises ValueError unless the run is one that the lab reads."""
    need(_is_count(run["parameters"]), "parameters must be a positive integer", run["parameters"])
    own = run["position_parameters"]
    need((own == 0 or _is_count(own)) and own <= run["parameters"],
         "position_parameters must be 0 to parameters", own)
    for key in ("train_seconds", "test_seconds"):
        need(_is_loss(run[key]) and math.isfinite(run[key]), f"{key} must be seconds", run[key])
    need(isinstance(run["trainer"], str) and run["trainer"].isprintable()
         and len(run["trainer"]) <= 200, "trainer must be one line of at most 200 characters",
         repr(run["trainer"]))
    _check_curve(run["curve"], settings["steps"])
    text = {"lengths", "by_position"} & set(run)
    examples = settings["task"] not in ("text", "masked")
    need(("stretches" in run) == examples and len(text) == (0 if examples else 2),
         "evaluation must be that of the task " + settings["task"], sorted(text) or "stretches")
    if examples:
        _check_stretches(run["stretches"])
    else:
        _check_lengths(run["lengths"], settings)
        _check_positions(run["by_position"])


def write(folder: pathlib.Path, run: Mapping[str, Any], plan: Mapping[str, Any]) -> pathlib.Path:
    """Writes settings.json, unless the folder has the same, and the run."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    try:
        _create(folder / "settings.json", plan)
    except FileExistsError:
        found, _ = read_json(folder / "settings.json")
        for key in ("settings", "fingerprint", "gnomon", "format", "protocol"):
            need(found.get(key) == plan.get(key), f"{folder} must have the {key} of the plan",
                 "others" if key == "settings" else found.get(key))
    path = folder / "runs" / file_name(run["encoding"], run["seed"])
    try:
        _create(path, run)
    except FileExistsError:
        raise ValueError(f"[protocol] a run must be new, got {path}, which exists") from None
    return path


def _create(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes a whole file at once. Raises FileExistsError if there is one."""
    text = json.dumps(_finite(content), indent=1, allow_nan=False)
    file, name = tempfile.mkstemp(dir=path.parent, prefix="." + path.name)
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(name, path)
    finally:
        os.unlink(name)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _is_loss(value: Any) -> bool:
    """Not finite or null: diverged."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)
                             and not value < 0)


def _is_share(value: Any) -> bool:
    return _is_loss(value) and (value is None or not math.isfinite(value) or value <= 1)


def _check_curve(curve: Any, steps: int) -> None:
    need(isinstance(curve, list) and len(curve) > 0, "curve must have points", "none")
    before = 0
    for point in curve:
        need({"step", "train_bits"} <= set(point) <= {"step", "train_bits", "validation_bits"},
             "a point of curve must have step, train_bits and validation_bits", sorted(point))
        need(_is_count(point["step"]) and before < point["step"] <= steps,
             f"steps of curve must ascend to {steps}", point["step"])
        need(_is_loss(point["train_bits"]), "train_bits must be a number", point["train_bits"])
        need("validation_bits" not in point or _is_loss(point["validation_bits"]),
             "validation_bits must be a number", point.get("validation_bits"))
        before = point["step"]
    need(before == steps, f"curve must end at step {steps}", before)


def _check_lengths(lengths: Any, settings: Mapping[str, Any]) -> None:
    wanted = settings["eval_lengths"]
    need(isinstance(lengths, list) and [one.get("length") for one in lengths] == wanted,
         f"lengths must be {wanted}", lengths)
    need(lengths[0].get("applicable") is True, "the first length must be applicable", lengths[0])
    segments = len(lengths[0].get("tail_by_segment", ()))
    for one in lengths:
        if one["applicable"] is not True:
            need(set(one) == {"length", "applicable"}, "a length without positions must be empty",
                 sorted(one))
            continue
        need(set(one) == {"length", "applicable"} | _LENGTH,
             f"a length must have {sorted(_LENGTH)}", sorted(one))
        need(all(map(_is_loss, [one["tail_bits"], one["window_bits"], *one["tail_by_segment"]])),
             "losses must be numbers", one)
        need(_is_share(one["accuracy"]), "accuracy must be 0 to 1", one["accuracy"])
        need(0 < len(one["tail_by_segment"]) == segments <= settings["eval_segments"],
             "every length must have the same segments", len(one["tail_by_segment"]))
        need(one["windows"] == segments * wanted[-1] // one["length"],
             "windows must be those of the segments", one["windows"])


def _check_positions(found: Any) -> None:
    need(isinstance(found, Mapping) and set(found) == {"length", "positions", "bits"},
         "by_position must have length, positions and bits", found)
    need(_is_count(found["length"]) and len(found["positions"]) == len(found["bits"])
         and all(map(_is_loss, [*found["positions"], *found["bits"]])),
         "by_position must have a loss for each position", found)


def _check_stretches(stretches: Any) -> None:
    need(isinstance(stretches, list) and len(stretches) > 0, "stretches must be a list", stretches)
    need(stretches[0].get("applicable") is True, "the first stretch must be applicable",
         stretches[0])
    for one in stretches:
        ends = {"from", "to", "up_to"}
        keys = ends | {"applicable"} | (_STRETCH if one.get("applicable") is True else set())
        need(set(one) == keys, f"a stretch must have {sorted(keys)}", sorted(one))
        need(all(_is_count(one[key]) for key in ends), "a stretch must have lengths", one)
        if one["applicable"] is True:
            need(_is_count(one["examples"]) and _is_loss(one["bits"]), "a stretch must be tested",
                 one)
            for key in _EXAMPLES:
                need(isinstance(one[key], list) and len(one[key]) == one["examples"],
                     f"{key} must have a number for each example", one[key])
            need(all(map(_is_share, [*(one[key] for key in _SHARES),
                                     *one["scores"], *one["seconds"]])),
                 "scores must be 0 to 1", one)
