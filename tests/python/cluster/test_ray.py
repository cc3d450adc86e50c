"""gnomon.lab.run(..., cluster="ray") on a cluster of local nodes, of which some are killed.

GNOMON_LONG_TESTS=1: 20 nodes are killed instead of one (tools/test_long.sh).
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tiny_runs import called, models, results, tiny

os.environ.setdefault("RAY_worker_niceness", "0")
ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

import gnomon.lab  # noqa: E402
from gnomon.lab import _ray  # noqa: E402

KILLS = 20 if "GNOMON_LONG_TESTS" in os.environ else 1
STEPS = 8000
TINY = {"layers": 1, "width": 16, "heads": 2, "batch": 4, "train_length": 16,
        "eval_lengths": [32], "no_cost": True}


@pytest.fixture
def cluster(lab: pathlib.Path) -> Iterator[Cluster]:
    """Three nodes with a CPU each, and the node of the driver without one."""
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(3):
        nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events that the driver has received."""
    found: list[dict[str, Any]] = []
    show = _ray._View.show

    def spy(view: _ray._View, some: list[dict[str, Any]]) -> None:
        found.extend(some)
        show(view, some)

    monkeypatch.setattr(_ray._View, "show", spy)
    return found


def test_lost_nodes_change_no_result(lab: pathlib.Path, cluster: Cluster,
                                     events: list[dict[str, Any]]) -> None:
    called(lab, *tiny(STEPS), "--encodings", "none,t5", "--seeds", "2,7,", "--out", "whole")
    seed = random.randrange(2**32)
    print("seed", seed)
    chosen = random.Random(seed)
    failures: list[BaseException] = []

    def drive() -> None:
        try:
            gnomon.lab.run(encodings=["none", "t5"], seeds=[2, 7], steps=STEPS, out="out",
                           cluster="ray", max_retries=-1, checkpoint_seconds=0.2, **TINY)
        except BaseException as error:
            failures.append(error)

    driver = threading.Thread(target=drive)
    driver.start()
    kills = 0
    while kills < KILLS and driver.is_alive():
        # At first, all three runs in training have sent a checkpoint.
        kept = list(pathlib.Path("out.runs/state").glob("*/checkpoints/*.safetensors"))
        if len(kept) >= 3 or kills > 0:
            cluster.remove_node(chosen.choice(list(cluster.worker_nodes)), allow_graceful=False)
            kills += 1
            cluster.add_node(num_cpus=1)
        time.sleep(0.05 + 2 * chosen.random() * (kills > 0))
    driver.join()
    assert not failures
    assert kills == KILLS
    assert results("out") == results("whole")
    assert {name: hashlib.sha256(data).digest() for name, data in models("out").items()} == {
        name: hashlib.sha256(data).digest() for name, data in models("whole").items()}
    assert not os.path.exists("out.runs")
    if KILLS == 1:  # no run began twice
        begun = [one["run"] for one in events if one.get("step") == 1]
        assert begun and len(begun) == len(set(begun)), begun


def test_an_interrupted_call_goes_on(lab: pathlib.Path, cluster: Cluster,
                                     monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(f"line {i * i}\n" for i in range(800))
    pathlib.Path("plan.json").write_text(
        json.dumps({"protocol": 1, "statements": ["t5 is best"],
                    "settings": {"encodings": ["none", "t5"], "seeds": [1], "steps": 200,
                                 "layers": 1, "width": 16, "heads": 2, "batch": 4,
                                 "train_length": 16, "eval_lengths": [16, 32]}}))

    def run() -> gnomon.lab.LabResults:
        return gnomon.lab.run(text, protocol="plan.json", cluster="ray", out="out")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_ray._View, "ended", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run()
    first, = pathlib.Path("out.runs/runs").iterdir()
    before = first.read_bytes(), first.stat().st_mtime_ns
    capsys.readouterr()
    (stored,) = [first.stem]
    with pytest.raises(ValueError, match="out.runs must be of the same call, or be removed"):
        gnomon.lab.run(text, steps=7, cluster="ray", out="out")
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    found = run()
    said = capsys.readouterr().err
    assert stored + "  " not in said and "(bits per byte), trained in" in said
    assert json.loads((found.path / f"runs/{stored}.json").read_text()) == json.loads(before[0])
    assert found.data["protocol"]["sha256"] == hashlib.sha256(
        pathlib.Path("plan.json").read_bytes()).hexdigest()
    assert len(found.data["runs"]) == 2


def test_errors_name_the_reason(lab: pathlib.Path, cluster: Cluster) -> None:
    with pytest.raises(ValueError, match=r"^\[lab\] --width must be 8 to 4096, got 7"):
        gnomon.lab.run(width=7, cluster="ray", out="out")
    assert not os.path.exists("out.runs")
    os.mkdir("used")
    pathlib.Path("used/file").touch()
    with pytest.raises(ValueError, match=r"^\[lab\] out must be a new or empty folder, got used"):
        gnomon.lab.run(cluster="ray", out="used")
    # The plan is of other texts: each run is refused on its node.
    pathlib.Path("plan.json").write_text('{"protocol": 1, "settings": {}, "fingerprint": "00"}')
    with pytest.raises(ValueError, match="--protocol requires the texts of the plan"):
        gnomon.lab.run(protocol="plan.json", cluster="ray", out="out")
    assert not os.path.exists("out.runs")


SCRIPT = """
import os
import gnomon.lab
results = gnomon.lab.run(encodings=["none"], seeds=1, steps=5, out="out", cluster="ray", layers=1,
                         width=16, heads=2, batch=4, train_length=16, eval_lengths=[32])
print(len(results.data["runs"]), os.environ.get("RAY_AUTH_MODE"))
"""


@pytest.fixture
def home() -> Iterator[str]:
    """A folder with a short name: paths of sockets have 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


def test_a_local_cluster_requires_its_token(lab: pathlib.Path, home: str) -> None:
    # srun starts Ray: its variables do not make a team of each run.
    environment = os.environ | {
        "HOME": home, "RAY_TMPDIR": home, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_STEP_NODELIST": "n[1-8]", "SLURM_JOB_ID": "4711", "GNOMON_LAB_TOKEN": "secret"}
    for name in ("RAY_AUTH_MODE", "RAY_ADDRESS"):
        environment.pop(name, None)
    assert called(sys.executable, "-c", SCRIPT, env=environment) == "1 token\n"
    assert pathlib.Path(home, ".ray/auth_token").exists()


def test_a_cluster_that_has_ended_is_not_used(monkeypatch: pytest.MonkeyPatch,
                                              tmp_path: pathlib.Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert not _ray._has_cluster()
    (tmp_path / "ray").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        assert _ray._has_cluster()
    assert not _ray._has_cluster()


def test_tasks_store_only_files_of_their_run(tmp_path: pathlib.Path) -> None:
    _ray._store(tmp_path, "t5-seed1", {"runs/t5-seed1.json": b"1",
                                       "settings.json": b'{"protocol": {}}',
                                       "models/t5-seed1/config.json": b"2"}, "ab")
    assert (tmp_path / "runs/t5-seed1.json").read_bytes() == b"1"
    assert json.loads((tmp_path / "settings.json").read_text()) == {"protocol": {"sha256": "ab"}}
    for path in ("runs/t5-seed2.json", "../x", "models/t5-seed1/../x", "models/t5-seed1/.x",
                 "/etc/passwd", "models/t5-seed1/a/b", "plan.json"):
        with pytest.raises(ValueError, match="a task must send files of its run t5-seed1, got"):
            _ray._store(tmp_path, "t5-seed1", {path: b""}, None)
