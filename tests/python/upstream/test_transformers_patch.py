"""gnomon.torch.patch on model types of transformers, and the table of all types in the docs.

`tools/python/patch_sweep.py` compares all types; here are the kinds of attention and rotation.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from patched_models import compare
from tiny_models import described

# Model types whose attention is Gnomon's in all layers, with its rotation.
COMPLETE = (
    "llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3_text phi phi3 "
    "gpt_neox gpt2 gptj codegen olmo olmo2 olmoe starcoder2 granite granitemoe smollm3 gpt_oss "
    "cohere cohere2 glm glm4 stablelm exaone4 ernie4_5 nanochat falcon mpt bloom opt t5 mt5 umt5 "
    "bert roberta distilbert electra modernbert modernbert-decoder vit clip_vision_model "
    "bart whisper clip_text_model moonshine"
).split()
# Model types that keep the rotation of transformers.
ROTATED = "llama4_text deepseek_v2 deepseek_v3 qwen2_vl_text gemma4_text".split()
REFUSED = {"deberta": "own code of DebertaAttention", "longformer": "own code of LongformerAtt",
           "mamba": "got no attention", "wav2vec2": "model_type wav2vec2 is not read"}


@pytest.mark.parametrize("model_type", COMPLETE)
def test_complete(model_type: str) -> None:
    result = compare(model_type)
    assert (result.status, result.detail) == ("equal", "")
    assert result.left == ()
    assert "gradients" in result.checks


@pytest.mark.parametrize("model_type", ROTATED)
def test_rotation_of_transformers(model_type: str) -> None:
    result = compare(model_type)
    assert (result.status, result.detail) == ("equal", "")
    assert any("RotaryEmbedding of transformers" in one for one in result.left)
    assert not any("[patch]" in one for one in result.left)


@pytest.mark.parametrize("model_type", ["llama", "gpt_oss", "mt5", "cohere", "bert"])
def test_generation_and_compilation(model_type: str) -> None:
    result = compare(model_type, compiled=True)
    assert (result.status, result.detail) == ("equal", "")
    checks = {"outputs", "padding", "gradients", "greedy", "beams", "static"}
    if model_type != "gpt_oss":  # transformers has a graph break in its experts
        checks |= {"compiled"}
    assert set(result.checks) == checks


@pytest.mark.parametrize("model_type", REFUSED)
def test_refused(model_type: str) -> None:
    result = compare(model_type)
    assert result.status == "refused" and REFUSED[model_type] in result.detail


def test_page_lists_every_described_type() -> None:
    page = pathlib.Path(__file__).parents[3] / "docs/python/patch_types.md"
    text = page.read_text()
    counts = {name: int(count) for name, count in re.findall(
        r"^\| (equal|different|refused|not run) \| (\d+) \|$", text, re.M)}
    parts = dict(re.findall(r"^## (Equal|Refused|Not run)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    names = {key: re.findall(r"`([^`]+)`", part.split("Of these")[0])
             for key, part in parts.items()}
    assert counts["different"] == 0
    assert {key: len(one) for key, one in names.items()} == {
        "Equal": counts["equal"], "Refused": counts["refused"], "Not run": counts["not run"]}
    assert sorted(one for each in names.values() for one in each) == described()
    assert {*COMPLETE, *ROTATED} <= set(names["Equal"])
