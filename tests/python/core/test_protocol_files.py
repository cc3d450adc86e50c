"""gnomon.lab.Protocol: the files of a run, and what is refused."""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from invented_plan import CURVE, PLAN, SETTINGS, evaluation

import gnomon.lab


def test_a_plan_of_list_runs(tmp_path: pathlib.Path) -> None:
    """The lab stores the hash of the plan beside its runs, and merges runs of equal plans."""
    plan = {"protocol": 1, "tokenizer": "AAAA", "runs": [], "fingerprint": "0123",
            "gnomon": "0.1.0", "settings": SETTINGS | {"seeds": [4, 7]}}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan, indent=3))
    protocol = gnomon.lab.Protocol(file, add=["own:a"])
    assert protocol.seeds == [4, 7]
    protocol.write_run(tmp_path / "mine", "own:a", 4, evaluation(), CURVE, 1000)
    stored = json.loads((tmp_path / "mine" / "settings.json").read_text())
    assert stored["protocol"] == {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert "tokenizer" not in stored
    again = gnomon.lab.Protocol(tmp_path / "mine")
    again.write_run(tmp_path / "mine", "own:a", 7, evaluation(), CURVE, 1000)
    with pytest.raises(ValueError, match="must have the protocol of the plan, got"):
        gnomon.lab.Protocol(stored | {"protocol": {"sha256": "x"}}).write_run(
            tmp_path / "mine", "none", 4, evaluation(), CURVE, 1000)
    with pytest.raises(ValueError, match="a plan of --list-runs must be a path, got a dict"):
        gnomon.lab.Protocol(plan)


def test_a_run_is_written_once(tmp_path: pathlib.Path) -> None:
    protocol = gnomon.lab.Protocol(PLAN, add=["own:a"])
    path = protocol.write_run(tmp_path / "mine", "own:a", 2, evaluation(), CURVE, 1000,
                              position_parameters=10, train_seconds=2.0, test_seconds=1.0,
                              specification={"kind": "a", "slope": 2}, trainer="Trainer 1")
    assert path == tmp_path / "mine" / "runs" / "own.a-seed2.json"
    run = json.loads(path.read_text())
    assert run["lengths"][1]["tail_bits"] is None
    assert run["lengths"][1]["tail_by_segment"] == [5, None]
    assert run["by_position"]["bits"] == [5, None]
    assert {key: run[key] for key in run if key not in ("lengths", "by_position")} == {
        "format": 1, "trainer": "Trainer 1", "encoding": "own:a", "seed": 2,
        "specification": {"kind": "a", "slope": 2}, "parameters": 1000, "position_parameters": 10,
        "steps": 6, "trained_tokens": 6 * 3 * 4, "train_seconds": 2.0, "tokens_per_second": 36.0,
        "curve": CURVE, "test_seconds": 1.0, "picture": {}}
    stored = json.loads((tmp_path / "mine" / "settings.json").read_text())
    assert stored == {"settings": SETTINGS | {"encodings": ["none", "rotary", "own:a"]},
                      "fingerprint": "0123", "gnomon": "0.1.0", "format": 1}
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"a run must be new, got .*own\.a-seed2\.json"):
        protocol.write_run(tmp_path / "mine", "own:a", 2, evaluation(), CURVE, 999)
    assert path.read_bytes() == before
    protocol.write_run(tmp_path / "mine", "rotary", 2, evaluation(), CURVE, 1000)
    other = gnomon.lab.Protocol(PLAN | {"fingerprint": "4567"}, add=["own:a"])
    with pytest.raises(ValueError, match="must have the fingerprint of the plan, got 0123"):
        other.write_run(tmp_path / "mine", "own:a", 1, evaluation(), CURVE, 1000)
    with pytest.raises(ValueError, match="must have the settings of the plan, got others"):
        gnomon.lab.Protocol(PLAN).write_run(tmp_path / "mine", "none", 1, evaluation(), CURVE, 1)
    assert sorted(one.name for one in (tmp_path / "mine").rglob("*")) == [
        "own.a-seed2.json", "rotary-seed2.json", "runs", "settings.json"]


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    found = evaluation()
    change(found)
    return found


@pytest.mark.parametrize("change, message", [
    ({"encoding": "alibi"}, "encoding must be one of"),
    ({"seed": 3}, "seed must be one of"),
    ({"parameters": 0}, "parameters must be a positive integer, got 0"),
    ({"parameters": 1e6}, "parameters must be a positive integer"),
    ({"position_parameters": 2000}, "position_parameters must be 0 to parameters"),
    ({"position_parameters": True}, "position_parameters must be 0 to parameters"),
    ({"train_seconds": math.nan}, "train_seconds must be seconds, got nan"),
    ({"test_seconds": -1}, "test_seconds must be seconds, got -1"),
    ({"trainer": "two\nlines"}, "trainer must be one line"),
    ({"curve": []}, "curve must have points"),
    ({"curve": CURVE[:1]}, "curve must end at step 6, got 3"),
    ({"curve": CURVE[::-1]}, "steps of curve must ascend to 6"),
    ({"curve": [CURVE[0], CURVE[1] | {"step": 7}]}, "steps of curve must ascend to 6, got 7"),
    ({"curve": [{"step": 6}]}, "a point of curve must have"),
    ({"curve": [CURVE[1] | {"loss": 1}]}, "a point of curve must have"),
    ({"curve": [{"step": 6, "train_bits": "1"}]}, "train_bits must be a number"),
    ({"evaluation": {"stretches": []}}, "evaluation must be that of the task text"),
    ({"evaluation": changed(lambda e: e.pop("by_position"))}, "evaluation must be that of"),
    ({"evaluation": changed(lambda e: e["lengths"].pop())}, r"lengths must be \[4, 8\]"),
    ({"evaluation": changed(lambda e: e["lengths"].reverse())}, r"lengths must be \[4, 8\]"),
    ({"evaluation": changed(lambda e: e["lengths"][0].update(applicable=False))},
     "the first length must be applicable"),
    ({"evaluation": changed(lambda e: e["lengths"][1].update(applicable=False))},
     "a length without positions must be empty"),
    ({"evaluation": changed(lambda e: e["lengths"][1].pop("accuracy"))}, "a length must have"),
    ({"evaluation": changed(lambda e: e["lengths"][1].update(accuracy=1.5))}, "accuracy must be"),
    ({"evaluation": changed(lambda e: e["lengths"][1].update(tail_bits=-1.0))}, "losses must be"),
    ({"evaluation": changed(lambda e: e["lengths"][1].update(windows=3))}, "windows must be"),
    ({"evaluation": changed(lambda e: e["lengths"][1]["tail_by_segment"].pop())},
     "every length must have the same segments"),
    ({"evaluation": changed(lambda e: e["by_position"]["bits"].pop())}, "by_position must have a"),
])
def test_runs_are_refused(tmp_path: pathlib.Path, change: dict[str, Any], message: str) -> None:
    protocol = gnomon.lab.Protocol(PLAN, add=["own:a"])
    arguments = {"encoding": "own:a", "seed": 1, "evaluation": evaluation(), "curve": CURVE,
                 "parameters": 1000}
    with pytest.raises(ValueError, match=message):
        protocol.write_run(tmp_path / "mine", **arguments | change)
    assert not (tmp_path / "mine").exists()
    protocol.write_run(tmp_path / "mine", **arguments)
