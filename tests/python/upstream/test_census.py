"""Each model type of transformers is read, or refused by name with the reason."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest

PATH = pathlib.Path(__file__).parents[3] / "tools" / "released" / "census.py"


@pytest.fixture(scope="module")
def census() -> Any:
    spec = importlib.util.spec_from_file_location("census", PATH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def answers(census: Any) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = census.census()
    return found


def test_no_type_is_unknown(answers: dict[str, tuple[str, str]]) -> None:
    assert len(answers) > 800
    assert not {kind: reason for kind, (one, reason) in answers.items() if one == "unknown"}
    assert not [kind for kind, (one, reason) in answers.items()
                if one in ("refused", "positions") and len(reason) < 10]


def test_the_page_has_these_answers(census: Any, answers: dict[str, tuple[str, str]]) -> None:
    assert census.page_of(answers) == census.PAGE.read_text()


def test_a_type_that_transformers_does_not_have_is_unknown(census: Any) -> None:
    kinds = ({"model_type": "nonsense"},
             {"model_type": "nonsense", "num_hidden_layers": 2, "rope_theta": 10000.0})
    assert [census.answer_of(one)[0] for one in kinds] == ["unknown", "unknown"]
    assert census.answer_of({"model_type": "resnet"}) == (
        "refused", "it is a convolutional network without attention")
