"""The programs of docs/examples run, and do what their first lines say."""

from __future__ import annotations

import functools
import importlib
import pathlib
import re
import runpy
from types import ModuleType

import pytest
import torch

import gnomon
from gnomon.torch import PositionScheme

FOLDER = pathlib.Path(__file__).parents[3] / "docs" / "examples"


@pytest.fixture
def gpt(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module gpt of the examples, whose training takes 20 steps."""
    monkeypatch.syspath_prepend(FOLDER)
    module = importlib.import_module("gpt")
    monkeypatch.setattr(module, "train", functools.partial(module.train, steps=20))
    return module


def run(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("sys.argv", [name, *arguments])
    runpy.run_path(str(FOLDER / name), run_name="__main__")


def test_all_are_tested_listed_and_short() -> None:
    listed = (FOLDER / "README.md").read_text()
    programs = sorted(FOLDER.glob("*.py"))
    assert [one.name for one in programs] == [
        "flex_attention.py", "gpt.py", "length_generalization.py", "own_encoding.py",
        "patch_model.py"]
    for one in programs:
        assert f"]({one.name})" in listed
        assert one.read_text().count("\n") <= 65


def test_gpt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("gpt.py", monkeypatch, "rotary/none")
    assert re.match("rotary/none: 'The .{80}", capsys.readouterr().out)


@pytest.mark.parametrize("name", [*(one.name for one in gnomon.encodings()), "rotary+t5"])
def test_gpt_takes_every_encoding(gpt: ModuleType, name: str) -> None:
    """A later token changes no logits before it, and all parameters have a gradient."""
    torch.manual_seed(1)
    position = PositionScheme(name, layers=gpt.LAYERS, width=gpt.WIDTH, heads=gpt.HEADS,
                              length=gpt.LENGTH)
    model = gpt.GPT(position)
    tokens = gpt.TEST[None, :gpt.LENGTH].clone()
    before = model(tokens)
    before.square().mean().backward()
    assert all(one.grad is not None for one in position.parameters())
    tokens[0, 20] += 1
    after = model(tokens)
    assert (after[0, :20] - before[0, :20]).abs().max() < 1e-5
    assert (after[0, 20:] - before[0, 20:]).abs().max() > 1e-2


def test_length_generalization(gpt: ModuleType, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    run("length_generalization.py", monkeypatch, "learned,alibi")
    _, learned, alibi = (line.split() for line in capsys.readouterr().out.splitlines())
    assert learned[0] == "learned" and learned[2:] == ["-", "-", "-"]  # the table ends
    assert alibi[0] == "alibi"
    assert all(3 < float(bits) < 8 for bits in [learned[1], *alibi[1:]])  # random: 8 bits


def test_own_encoding(gpt: ModuleType, monkeypatch: pytest.MonkeyPatch,
                      capsys: pytest.CaptureFixture[str]) -> None:
    run("own_encoding.py", monkeypatch)
    assert re.search(r"own +\d", capsys.readouterr().out)


def test_patch_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("patch_model.py", monkeypatch)
    assert "the same 16 tokens" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention(monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    run("flex_attention.py", monkeypatch)
    assert len(re.findall(r"error \d", capsys.readouterr().out)) == 5
