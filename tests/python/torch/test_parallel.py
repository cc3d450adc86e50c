"""DDP, FSDP and FSDP2 on the CPU with Gloo, in two processes."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
import tiny
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

PROCESSES = 2


def batch() -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(tiny.WORDS, (2 * PROCESSES, tiny.LENGTH), generator=generator)


def step(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """One step of gradient descent; returns the logits after it, for the whole batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tiny.loss_of(model, ids).backward()
    optimizer.step()
    with torch.no_grad():
        return model(batch())


def trained() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The step of one process with the whole batch."""
    model = tiny.Model()
    tiny.reset(model)
    return step(model, batch()), model.state_dict()


def ddp(rank: int) -> tuple[torch.Tensor, dict[str, Any]]:
    model = tiny.Model()
    tiny.reset(model)
    wrapped = nn.parallel.DistributedDataParallel(model)
    return step(wrapped, batch()[2 * rank:2 * rank + 2]), model.state_dict()


def fsdp(rank: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """Each layer is a unit."""
    model = tiny.Model()
    tiny.reset(model)
    wrapped = FullyShardedDataParallel(
        model, device_id=torch.device("cpu"), use_orig_params=True,
        auto_wrap_policy=lambda module, recurse, **_: recurse or isinstance(module, tiny.Layer))
    logits = step(wrapped, batch()[2 * rank:2 * rank + 2])
    with FullyShardedDataParallel.state_dict_type(wrapped, StateDictType.FULL_STATE_DICT,
                                                  FullStateDictConfig()):
        return logits, wrapped.state_dict()


def fsdp_from_meta(rank: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """Materialized by FSDP itself: `to_empty` and `reset_parameters` of each module."""
    with torch.device("meta"):
        model = tiny.Model()
    torch.manual_seed(8)  # the same draws in all processes
    wrapped = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    assert all(one.isfinite().all() and not one.is_meta for one in wrapped.parameters())
    source = tiny.Model()
    tiny.reset(source)
    with FullyShardedDataParallel.state_dict_type(wrapped, StateDictType.FULL_STATE_DICT):
        wrapped.load_state_dict(source.state_dict())
        logits = step(wrapped, batch()[2 * rank:2 * rank + 2])
        return logits, wrapped.state_dict()


def fully_shard(rank: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """FSDP2, from a meta module."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard

    mesh = init_device_mesh("cpu", (PROCESSES,))
    with torch.device("meta"):
        model = tiny.Model()
    for layer in model.layers:
        shard(layer, mesh=mesh)
    shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    tiny.reset(model)  # draws each shard; the values of the whole parameters follow
    source = tiny.Model()
    tiny.reset(source)
    set_model_state_dict(model, source.state_dict(), options=StateDictOptions(full_state_dict=True))
    logits = step(model, batch()[2 * rank:2 * rank + 2])
    return logits, {name: one.full_tensor() for name, one in model.state_dict().items()}


WAYS = {one.__name__: one for one in (ddp, fsdp, fsdp_from_meta, fully_shard)}


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=PROCESSES)
    for name, way in WAYS.items():
        logits, state = way(rank)
        if rank == 0:
            torch.save((logits, state), f"{folder}/{name}.pt")
        dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("parallel")
    mp.spawn(work, (str(folder),), nprocs=PROCESSES)
    return folder


@pytest.mark.parametrize("name", list(WAYS))
def test_a_step_of_two_processes_equals_that_of_one(results: pathlib.Path, name: str) -> None:
    logits, state = torch.load(results / f"{name}.pt", weights_only=True)
    expected, parameters = trained()
    assert set(state) == set(parameters)
    for key, value in parameters.items():
        torch.testing.assert_close(state[key], value, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
