"""Released models: sources, description, layers, plans, errors."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess

import numpy as np
import numpy_oracles as oracle
import pytest

import gnomon
from gnomon import _program

ROOT = pathlib.Path(__file__).parents[3]
RELEASED = sorted((ROOT / "tests/model/released").glob("*.json"))
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": 128,
    "rope_theta": 500000.0,
}


class Config:
    """An object like the configs of transformers."""

    def __init__(self, fields: dict) -> None:
        self._fields = fields

    def to_dict(self) -> dict:
        return self._fields


def gguf(architecture: str = "llama", **numbers: int) -> bytes:
    """A GGUF file, version 3, without tensors: strings, then uint32 values."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    sizes = {
        "block_count": 3, "attention.head_count": 4, "attention.head_count_kv": 2,
        "embedding_length": 64, "context_length": 128,
    } | numbers
    entries = [text("general.architecture") + struct.pack("<I", 8) + text(architecture)]
    entries += [
        text(f"{architecture}.{key}") + struct.pack("<II", 4, value)
        for key, value in sizes.items()
    ]
    entries.append(text(f"{architecture}.rope.freq_base") + struct.pack("<If", 6, 500000.0))
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries)) + b"".join(entries)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.gguf").write_bytes(gguf())
    return tmp_path


def test_every_source_gives_the_same_model(folder: pathlib.Path) -> None:
    models = [
        gnomon.model.from_pretrained(source)
        for source in (LLAMA, Config(LLAMA), folder, str(folder), folder / "config.json")
    ]
    for model in models:
        assert (model.model_type, model.length, model.width) == ("llama", 128, 64)
        assert len(model.layers) == 3 and model.layers == models[0].layers
        assert model.frequencies() == models[0].frequencies()
    layer = models[0].layers[1]
    assert (layer.index, layer.heads, layer.key_heads, layer.head_dim) == (1, 4, 2, 16)
    assert (layer.visibility, layer.left, layer.softmax_scale) == ("causal", None, 0.25)
    np.testing.assert_allclose(
        models[0].frequencies().inv_freq, oracle.inverse_frequencies(16, 5e5), 1e-15
    )
    assert repr(models[0]) == "Model('llama', 3 layers, length 128)"


def test_gguf(folder: pathlib.Path) -> None:
    model = gnomon.model.from_pretrained(folder / "model.gguf")
    assert (model.model_type, model.length, len(model.layers)) == ("llama", 128, 3)
    frequencies = model.frequencies()
    assert frequencies.pairing == "adjacent"  # unlike the config: llama.cpp reorders the weights
    np.testing.assert_allclose(frequencies.inv_freq, oracle.inverse_frequencies(16, 5e5), 1e-15)
    assert model.layers[2].key_heads == 2


def inspect(*arguments: str) -> str:
    done = subprocess.run(
        [_program.path(), "inspect", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_describe_is_what_the_program_prints(folder: pathlib.Path) -> None:
    for name in (".", "config.json", "model.gguf"):
        path = os.fspath(folder / name)
        model = gnomon.model.from_pretrained(path)
        assert model.describe() == inspect(path)
        assert model.describe(length=512) == inspect(path, "--length", "512")
        facts, printed = json.loads(model.to_json()), json.loads(inspect(path, "--json"))
        facts.pop("source"), printed.pop("source")  # the folder, or its config.json
        assert facts == printed
    of_dict = gnomon.model.from_pretrained(LLAMA).describe()
    path = os.fspath(folder / "config.json")
    assert of_dict.splitlines()[1:] == inspect(path).splitlines()[1:]  # the first names the source


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_released_configs(path: pathlib.Path) -> None:
    """Every config that the C++ tests contain: layers and plans. The numbers are tested there."""
    case = json.loads(path.read_text())
    model = gnomon.model.from_pretrained(case["config"], part=case.get("part", ""))
    described = json.loads(model.to_json())
    facts = {
        (group.get("part", ""), index): (group.get("heads", 0), group.get("key_heads", 0))
        for group in described["groups"]
        for index in group["layers"]
    }
    got = {
        (layer.part, layer.index): (layer.heads, layer.key_heads)
        for layer in model.layers
    }
    assert got == facts
    indices: dict[str, list[int]] = {}
    for layer in model.layers:
        indices.setdefault(layer.part, []).append(layer.index)
        for one in layer.position:
            assert gnomon.Encoding.from_json(one.to_json()) == one
    for found in indices.values():
        assert found == sorted(set(found))


def test_layers_lower_and_attend(rng: np.random.Generator) -> None:
    model = gnomon.model.from_pretrained(LLAMA)
    q, k, v = (rng.standard_normal((1, 8, heads, 16)) for heads in (4, 2, 2))
    angles = np.arange(8)[None, :, None] * oracle.inverse_frequencies(16, 5e5)
    want, _ = oracle.attention(
        oracle.rotate(q, angles, "halves"), oracle.rotate(k, angles, "halves"), v,
        sees=oracle.visible(8, 8, visibility="causal"),
    )
    whole = model.lower(0, 8)
    prepared = [q.copy(), k.copy(), v.copy()]
    gnomon.prepare(*prepared, whole)
    np.testing.assert_allclose(gnomon.attention(*prepared, whole), want, 0, 1e-5)
    # Decoding: the last token against the rotated keys of the first seven.
    step = model.lower(0, 1, cached=7)
    last, key, value = (np.ascontiguousarray(one[:, 7:]) for one in (q, k, v))
    gnomon.prepare(last, key, value, step)
    keys = np.concatenate([prepared[1][:, :7], key], 1)
    np.testing.assert_allclose(gnomon.attention(last, keys, v, step), want[:, 7:], 0, 1e-5)


def test_sliding_windows_of_mistral(rng: np.random.Generator) -> None:
    config = LLAMA | {"model_type": "mistral", "sliding_window": 3}
    model = gnomon.model.from_pretrained(config)
    assert model.layers[0].left == 2
    plan = model.lower(0, 8)
    assert plan.left == 2 and plan.visibility == "causal"


def test_learned_positions_have_parameters() -> None:
    config = {"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 16}
    model = gnomon.model.from_pretrained(config)
    embedding = [one for one in model.layers[0].position if one.enters == "embeddings"]
    assert embedding and embedding[0].parameters()[0][1:3] == (16, 32)
    with pytest.raises(ValueError, match=r"^\[model\] layer must have a rotary encoding"):
        model.frequencies()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_attention_heads": "four"}, "num_attention_heads must be an integer"),
        ({"num_attention_heads": 0}, "num_attention_heads must be 1 to 65536, got 0"),
        ({"num_key_value_heads": 3}, "the query heads 4 must be a multiple of the key heads"),
        ({"rope_theta": -1.0}, "rope_theta must be finite and greater than 1"),
        ({"rope_scaling": {"rope_type": "cubic", "factor": 2.0}}, "rope_type must be .*got cubic"),
        ({"rope_scaling": {"rope_type": "linear", "factor": -1.0}}, "factor must be"),
    ],
)
def test_wrong_configs_are_refused(change: dict, words: str) -> None:
    with pytest.raises(gnomon.FormatError, match=words) as error:
        gnomon.model.from_pretrained(LLAMA | change)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_attention_heads": None}, "num_attention_heads is not given"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "factor is not given"),
    ],
)
def test_assumptions_are_notes(change: dict, words: str) -> None:
    assert gnomon.model.from_pretrained(LLAMA).notes == []
    assert any(words in note for note in gnomon.model.from_pretrained(LLAMA | change).notes)


def test_the_pairing_of_an_unknown_family_is_an_argument() -> None:
    unknown = LLAMA | {"model_type": "no-such-model"}
    with pytest.raises(gnomon.FormatError, match="no-such-model is unknown"):
        gnomon.model.from_pretrained(unknown)
    for pairing in ("halves", "adjacent"):
        model = gnomon.model.from_pretrained(unknown, assume_pairing=pairing)
        assert f"the pairing is an assumption: {pairing}" in model.notes
        assert pairing in model.describe()
    with pytest.raises(ValueError, match="only for an unknown family"):
        gnomon.model.from_pretrained(LLAMA, assume_pairing="halves")
    with pytest.raises(ValueError, match="assume_pairing must be one of"):
        gnomon.model.from_pretrained(unknown, assume_pairing="both")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"model_type": 3}'])
def test_wrong_files_are_refused(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(gnomon.FormatError):
        gnomon.model.from_pretrained(tmp_path)


def test_a_cut_gguf_is_refused(tmp_path: pathlib.Path) -> None:
    whole = gguf()
    for size in range(4, len(whole), 7):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(gnomon.FormatError):
            gnomon.model.from_pretrained(tmp_path / "cut.gguf")


@pytest.mark.parametrize("source", ["no/such/folder", 3, None, [1], object(), ""])
def test_other_sources_are_refused(source: object) -> None:
    with pytest.raises(ValueError, match=r"^\[model\] source must be"):
        gnomon.model.from_pretrained(source)


def test_a_folder_without_a_config_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="config.json"):
        gnomon.model.from_pretrained(tmp_path)


def test_wrong_layers_are_refused() -> None:
    model = gnomon.model.from_pretrained(LLAMA)
    for layer in (-1, 3):
        with pytest.raises(ValueError, match="layer"):
            model.lower(layer, 4)
        with pytest.raises(ValueError, match=r"^\[model\] layer must"):
            model.frequencies(layer)
    with pytest.raises(ValueError, match="part"):
        model.frequencies(0, part="vision")
    with pytest.raises(ValueError, match="yarn_factor must be one of"):
        gnomon.model.from_pretrained(LLAMA, yarn_factor="both")
    with pytest.raises(ValueError, match="part"):
        gnomon.model.from_pretrained(LLAMA, part="vision_config")
    for image in ((1,), (1, 2, 3, 4), "ab", 3):
        with pytest.raises(ValueError, match=r"^\[model\] image must"):
            model.lower(0, 4, image=image)
