"""gnomon.lab.Protocol with PyTorch, against runs of the real lab: its models, its training.

The lab's results are the oracle: C++ computes batches, losses and tests there with its own code.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gnomon.lab
from gnomon.torch import PositionEncoding

TINY = {"layers": 2, "width": 32, "heads": 2, "batch": 8, "seeds": 1, "no_cost": True, "jobs": 1,
        "progress": False}
TASKS: dict[str, dict[str, Any]] = {
    "text": {"train_length": 32, "eval_lengths": [64, 128], "steps": 60},
    "masked": {"task": "masked", "train_length": 32, "eval_lengths": [64, 128], "steps": 40},
    "bpe": {"tokens": "bpe:512", "train_length": 32, "eval_lengths": [64], "steps": 40},
    "copy": {"task": "copy", "train_length": 8, "eval_lengths": [16], "steps": 40}}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The models are too small for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def text(folder: pathlib.Path) -> pathlib.Path:
    """Lines of invented words that a model learns a little of in 60 steps."""
    random = np.random.default_rng(1)
    words = ["".join(random.choice(list("abdeilmnorst"), 6)) for _ in range(200)]
    path = folder / "words.txt"
    path.write_text("".join(" ".join(random.choice(words, 9)) + ".\n" for _ in range(3000)))
    return path


def weights(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    """The tensors of model.safetensors, float32."""
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: torch.from_numpy(np.frombuffer(
        data[8 + size:][slice(*one["data_offsets"])], "<f4").reshape(one["shape"]).copy())
        for name, one in header.items() if name != "__metadata__"}


def run_of(folder: pathlib.Path, name: str) -> dict[str, Any]:
    return json.loads((folder / "runs" / f"{name}-seed1.json").read_text())


def expect_equal_tests(found: dict[str, Any], run: dict[str, Any], bound: float) -> None:
    for key in ("lengths", "stretches"):
        assert len(found.get(key, [])) == len(run.get(key, []))
        for one, wanted in zip(found.get(key, []), run.get(key, [])):
            assert one.keys() == wanted.keys()
            for name in one:
                assert one[name] == pytest.approx(wanted[name], rel=bound, abs=bound), name
    if "by_position" in run:
        assert found["by_position"]["positions"] == run["by_position"]["positions"]
        assert found["by_position"]["bits"] == pytest.approx(run["by_position"]["bits"], rel=bound)


@pytest.mark.parametrize("task", TASKS)
def test_models_of_the_lab_have_its_numbers(real_lab: str, tmp_path: pathlib.Path,
                                            task: str) -> None:
    texts = None if task == "copy" else text(tmp_path)
    gnomon.lab.run(texts, encodings=["none", "rotary"], out=tmp_path / "lab",
                   **TINY | TASKS[task])
    protocol = gnomon.lab.Protocol(tmp_path / "lab")
    for name in ("none", "rotary"):
        position = PositionEncoding("rotary", width=32, heads=2) if name == "rotary" else None
        model = protocol.transformer(position, 1)
        model.load_state_dict(weights(tmp_path / "lab" / "models" / f"{name}-seed1"))

        @torch.no_grad()
        def predict(inputs: np.ndarray) -> torch.Tensor:
            return model(torch.from_numpy(inputs).long())

        run = run_of(tmp_path / "lab", name)
        expect_equal_tests(protocol.evaluate(predict), run, 2e-6)
        assert protocol.validation_bits(predict) == pytest.approx(
            run["curve"][-1]["validation_bits"], rel=2e-6)
        assert sum(one.numel() for one in model.parameters()) == run["parameters"]


class Alibi(torch.nn.Module):
    """The bias of ALiBi, from its formula."""

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
               visibility: str) -> torch.Tensor:
        heads, tokens = q.shape[1], q.shape[2]
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        at = torch.arange(tokens)
        distance = (at[:, None] - at[None, :]).abs()
        bias = -slopes[:, None, None] * distance
        bias = bias.masked_fill(at[None, :] > at[:, None], -torch.inf)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)


def test_training_is_that_of_the_lab(real_lab: str, tmp_path: pathlib.Path) -> None:
    """An encoding that the lab has, as one of another program: the same losses, and tied."""
    options = TINY | TASKS["text"]
    gnomon.lab.run(text(tmp_path), encodings=["none", "alibi"], out=tmp_path / "lab", **options)
    protocol = gnomon.lab.Protocol(tmp_path / "lab", add=["own:slopes"])
    found = protocol.train_torch(lambda seed: protocol.transformer(Alibi(), seed), "own:slopes", 1)
    run = run_of(tmp_path / "lab", "alibi")
    assert [one["step"] for one in found["curve"]] == [one["step"] for one in run["curve"]]
    assert found["curve"][-1]["train_bits"] < 5 < found["curve"][0]["train_bits"]
    for one, wanted in zip(found["curve"], run["curve"]):
        assert one == pytest.approx(wanted, abs=1e-3)
    # Steps before the losses can diverge by rounding.
    for one, wanted in list(zip(found["curve"], run["curve"]))[:5]:
        assert one["train_bits"] == pytest.approx(wanted["train_bits"], abs=1e-5)
    expect_equal_tests(found["evaluation"], run, 1e-3)
    assert found["parameters"] == run["parameters"] and found["position_parameters"] == 0

    protocol.write_run(tmp_path / "own", **found)
    both = gnomon.lab.run([tmp_path / "lab", tmp_path / "own"], merge=True, out=tmp_path / "both",
                          progress=False)
    rows = {row["encoding"]: row for row in both.rows()
            if row["length"] == 128 and row["context"] == "whole"}
    assert list(sorted(rows)) == ["alibi", "none", "own:slopes"]
    assert rows["own:slopes"]["title"] == "slopes"
    assert rows["own:slopes"]["bits"] == pytest.approx(rows["alibi"]["bits"], abs=1e-3)
    assert rows["own:slopes"]["verdict"] == rows["alibi"]["verdict"] == "excluded"  # 60 steps
    assert "PyTorch " + torch.__version__ in both.report.read_text()


def test_a_plan_has_the_runs_of_both_programs(real_lab: str, tmp_path: pathlib.Path) -> None:
    words = [real_lab, "lab", str(text(tmp_path)), "--encodings", "none,own:slopes", "--tokens",
             "bpe:512", "--train-length", "16", "--eval-lengths", "32", "--layers", "1", "--width",
             "16", "--heads", "2", "--batch", "4", "--steps", "4", "--seeds", "3,5", "--list-runs"]
    listed = subprocess.run(words, check=True, capture_output=True, text=True)
    plan = tmp_path / "plan.json"
    plan.write_text(listed.stdout)
    protocol = gnomon.lab.Protocol(plan)
    assert protocol.entries == ["none", "own:slopes"] and protocol.seeds == [3, 5]
    for run in json.loads(listed.stdout)["runs"]:
        if run["encoding"] == "none":
            subprocess.run([real_lab, "lab", "--protocol", str(plan), "--run", run["name"],
                            "--out", str(tmp_path / "lab")], check=True, capture_output=True)
        else:
            found = protocol.train_torch(lambda seed: protocol.transformer(Alibi(), seed),
                                         run["encoding"], run["seed"])
            path = protocol.write_run(tmp_path / "own", **found)
            assert path.stem == run["name"]
    both = gnomon.lab.run([tmp_path / "lab", tmp_path / "own"], merge=True, out=tmp_path / "both",
                          progress=False)
    assert [(one["encoding"], one["seed"]) for one in both.data["runs"]] == [
        ("none", 3), ("own:slopes", 3), ("none", 5), ("own:slopes", 5)]


def test_parameters_of_the_encoding(real_lab: str, tmp_path: pathlib.Path) -> None:
    """A trained table: its parameters are counted, have no weight decay, and it has an end."""
    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Parameter(torch.randn(32, 64) * 0.02)

        def embed(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.rows[:x.shape[1]]

        def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                   visibility: str) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=visibility == "causal")

    gnomon.lab.run(text(tmp_path), encodings=["none"], out=tmp_path / "lab",
                   **TINY | TASKS["text"] | {"steps": 3})
    entry = "own:table@1x64"
    protocol = gnomon.lab.Protocol(tmp_path / "lab", add=[entry])
    tables: list[torch.Tensor] = []

    def make(seed: int) -> torch.nn.Module:
        model = protocol.transformer(Table(), seed, entry)
        tables.append(model.position.rows.detach().clone())  # type: ignore[union-attr]
        return model

    found = protocol.train_torch(make, entry, 1, longest=32)
    again = protocol.train_torch(make, entry, 1, longest=32)
    assert torch.equal(*tables)  # drawn from the seed
    assert again["evaluation"] == found["evaluation"]
    assert found["position_parameters"] == 32 * 64
    assert found["parameters"] == 2 * 256 * 64 + 12 * 64 * 64 + 3 * 2 * 64 + 32 * 64
    assert [one["applicable"] for one in found["evaluation"]["lengths"]] == [True, False, False]
    with pytest.raises(RuntimeError, match="size of tensor"):
        protocol.train_torch(make, entry, 1)
