"""The runs of the lab on a local cluster of Ray, of which a node is killed."""

import hashlib
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import gnomon.lab
import pytest
import ray
from ray.cluster_utils import Cluster

OPTIONS: dict[str, Any] = dict(encodings=["none", "alibi", "rotary"], seeds=[1, 2], layers=1,
                               width=32, heads=2, batch=8, train_length=32, eval_lengths=[64],
                               no_cost=True, progress=False)
TIMES = ("train_seconds", "test_seconds", "tokens_per_second", "seconds", "date", "command",
         "protocol", "answer")


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key not in TIMES}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def weights(folder: pathlib.Path) -> dict[str, str]:
    return {one.parent.name: hashlib.sha256(one.read_bytes()).hexdigest()
            for one in sorted(folder.glob("models/*/model.safetensors"))}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(3):
        nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_a_killed_node_changes_nothing(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    def kill() -> None:
        state = tmp_path / "ray.runs" / "state"
        until = time.monotonic() + 120
        while not list(state.glob("*/checkpoints/*")) and time.monotonic() < until:
            time.sleep(0.1)
        kept.extend(one.name for one in state.glob("*"))
        cluster.remove_node(list(cluster.worker_nodes)[0], allow_graceful=False)

    kept: list[str] = []
    killer = threading.Thread(target=kill)
    killer.start()
    found = gnomon.lab.run(out=tmp_path / "ray", cluster="ray", steps=400, checkpoint_seconds=0.5,
                           **OPTIONS)
    killer.join()
    assert kept, "no checkpoint was kept before a node was killed"
    assert not (tmp_path / "ray.runs").exists()
    alone = gnomon.lab.run(out=tmp_path / "alone", steps=400, **OPTIONS)
    assert timeless(found.data) == timeless(alone.data)
    assert len(weights(tmp_path / "ray")) == 6
    assert weights(tmp_path / "ray") == weights(tmp_path / "alone")


def test_bad_input_is_one_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="cluster must be 'ray', got 'dask'"):
        gnomon.lab.run(out=tmp_path / "x", cluster="dask", steps=1, **OPTIONS)
