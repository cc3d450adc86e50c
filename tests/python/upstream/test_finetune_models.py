"""The models of the tests of `gnomon lab --finetune` are those of the installed transformers."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import types

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "lab" / "finetune"


@pytest.fixture(scope="module")
def released() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("released", FOLDER / "released.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_logits_of_the_stored_models(released: types.ModuleType) -> None:
    """finetune_network_test.cc compares the network of the lab with these logits."""
    stored = json.loads((FOLDER / "logits.json").read_text())
    today = released.cases()
    assert stored["tokens"] == today["tokens"]
    assert stored["columns"] == today["columns"]
    assert stored["models"].keys() == today["models"].keys()
    for name, model in today["models"].items():
        assert stored["models"][name]["tensors"] == model["tensors"], name
        np.testing.assert_allclose(
            stored["models"][name]["logits"], model["logits"], rtol=0, atol=1e-5, err_msg=name
        )
