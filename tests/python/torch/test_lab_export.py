"""gnomon.lab.export_model: logits and tokens in transformers are those of the lab's model.

The oracle computes the formulas of docs/lab/models.md in float64, with attention as a dense matrix and
position by the papers. It shares no code with the package.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from typing import Any

import gnomon.lab
import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

WIDTH, HEADS, LAYERS, LENGTH = 24, 2, 3, 40
DIM = WIDTH // HEADS
NOVEL = pathlib.Path(__file__).parents[3] / "apps" / "lab" / "data" / "austen" / "persuasion.txt"
Weights = dict[str, np.ndarray]


def make_model(folder: pathlib.Path, position: Any, *, encoding: str = "made", vocabulary: int = 256,
               extra: dict[str, tuple[int, ...]] | None = None, **settings: Any) -> Weights:
    """Writes a model of random weights as the lab does. Returns its weights.

    position: the spec of every layer, or a list of the specs of each layer.
    """
    random = np.random.default_rng(7)
    shapes = {"embedding.weight": (vocabulary, WIDTH), "head.weight": (vocabulary, WIDTH),
              "norm.weight": (WIDTH,), "norm.bias": (WIDTH,)} | (extra or {})
    for layer in range(LAYERS):
        shapes |= {f"block{layer}.{norm}.{part}": (WIDTH,)
                   for norm in ("attention_norm", "feed_norm") for part in ("weight", "bias")}
        shapes |= {f"block{layer}.qkv.weight": (3 * WIDTH, WIDTH),
                   f"block{layer}.attention_out.weight": (WIDTH, WIDTH),
                   f"block{layer}.feed_in.weight": (4 * WIDTH, WIDTH),
                   f"block{layer}.feed_out.weight": (WIDTH, 4 * WIDTH)}
    weights = {name: (random.standard_normal(shape) * 1.5 / math.sqrt(shape[-1])
                      ).astype(np.float32) for name, shape in shapes.items()}
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] += 1
    layers = position if isinstance(position, list) else [[position]] * LAYERS
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gnomon-lab", "gnomon": "0.1.0", "encoding": encoding, "seed": 1,
        "position": {"layers": layers},
        "settings": {"task": "text", "tokens": "bytes", "train_length": LENGTH,
                     "eval_lengths": [LENGTH, 2 * LENGTH], "layers": LAYERS, "width": WIDTH,
                     "heads": HEADS} | settings}))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return weights


def rotated(x: np.ndarray, frequencies: np.ndarray, scale: float = 1) -> np.ndarray:
    """RoPE of x [T, D] with the pairs (i, i + R / 2) of its first R = 2 len(frequencies)."""
    angles = np.arange(len(x))[:, None] * frequencies
    cos, sin = scale * np.cos(angles), scale * np.sin(angles)
    half = len(frequencies)
    a, b = x[:, :half], x[:, half:2 * half]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[:, 2 * half:]], 1)


def logits(weights: Weights, tokens: np.ndarray, *, table: np.ndarray | None = None,
           frequencies: np.ndarray | None = None, scale: float = 1) -> np.ndarray:
    w = {name: one.astype(np.float64) for name, one in weights.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(1, keepdims=True)
        deviation = np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5)
        return centred / deviation * w[name + ".weight"] + w[name + ".bias"]

    x = w["embedding.weight"][tokens]
    if table is not None:
        x = x + table[:len(tokens)]
    hidden = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
    erf = np.vectorize(math.erf)
    for block in (f"block{layer}." for layer in range(LAYERS)):
        qkv = norm(x, block + "attention_norm") @ w[block + "qkv.weight"].T
        heads = []
        for head in range(HEADS):
            q, k, v = (qkv[:, part * WIDTH + head * DIM:][:, :DIM] for part in range(3))
            if frequencies is not None:
                q, k = rotated(q, frequencies, scale), rotated(k, frequencies, scale)
            scores = np.exp(q @ k.T / math.sqrt(DIM) + hidden)
            heads.append(scores / scores.sum(1, keepdims=True) @ v)
        x = x + np.concatenate(heads, 1) @ w[block + "attention_out.weight"].T
        fed = norm(x, block + "feed_norm") @ w[block + "feed_in.weight"].T
        x = x + 0.5 * fed * (1 + erf(fed / math.sqrt(2))) @ w[block + "feed_out.weight"].T
    return norm(x, "norm") @ w["head.weight"].T


def loaded(folder: pathlib.Path) -> Any:
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, trust_remote_code=False, use_safetensors=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def check(folder: pathlib.Path, weights: Weights, tokens: np.ndarray, kind: str,
          **position: Any) -> None:
    """Compares the logits of the exported model with the oracle, in one pass and with a cache."""
    model = loaded(folder)
    assert model.config.model_type == kind
    expected = logits(weights, tokens, **position)
    assert np.ptp(expected) > 4
    given = torch.tensor(tokens)[None]
    with torch.no_grad():
        np.testing.assert_allclose(model(given).logits[0], expected, atol=1e-4)
        past = model(given[:, :-5], use_cache=True).past_key_values
        rest = model(given[:, -5:], past_key_values=past).logits[0]
    np.testing.assert_allclose(rest, expected[-5:], atol=1e-4)
    if position:  # the comparison sees position
        assert np.abs(logits(weights, tokens) - expected).max() > 0.1


def rope(dim: int = DIM, **keys: Any) -> dict[str, Any]:
    return {"kind": "rotary", "rotary_dim": dim, "pairing": "halves", "base": 10000.0} | keys


TOKENS = np.random.default_rng(3).integers(0, 256, 2 * LENGTH)


def test_no_position(tmp_path: pathlib.Path) -> None:
    weights = make_model(tmp_path / "none-seed1", {"kind": "none"})
    out = gnomon.lab.export_model(tmp_path / "none-seed1", tmp_path / "out")
    assert sorted(one.name for one in out.iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    check(out, weights, TOKENS, "gpt_neox")
    again = loaded(out).config
    assert again.max_position_embeddings == 2 * LENGTH and again.gnomon["encoding"] == "made"


@pytest.mark.parametrize("dim, base", [(DIM, 10000.0), (DIM, 500.0), (6, 10000.0)])
def test_rotary(dim: int, base: float, tmp_path: pathlib.Path) -> None:
    weights = make_model(tmp_path / "model", rope(dim, base=base), encoding="rotary@random")
    out = gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    check(out, weights, TOKENS, "gpt_neox", frequencies=base ** (-np.arange(0, dim, 2) / dim))


def test_yarn(tmp_path: pathlib.Path) -> None:
    spec = rope(base=50.0) | {"kind": "rotary-scaled", "length": 160, "scaling": {
        "type": "yarn", "factor": 4.0, "original_length": LENGTH, "beta_fast": 8.0,
        "beta_slow": 1.0}}
    weights = make_model(tmp_path / "model", spec)
    out = gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    # Peng et al. 2023, arXiv:2309.00071: a ramp between the pairs with 8 and 1 full rotations.
    frequencies = 50.0 ** (-np.arange(0, DIM, 2) / DIM)

    def pair(rotations: float) -> float:
        return DIM * math.log(LENGTH / (rotations * 2 * math.pi)) / (2 * math.log(50.0))

    low, high = max(math.floor(pair(8.0)), 0), min(math.ceil(pair(1.0)), DIM - 1)
    ramp = np.clip((np.arange(DIM // 2) - low) / (high - low), 0, 1)
    scaled = frequencies * (1 - ramp) + frequencies / 4 * ramp
    assert 0 < ramp.sum() < DIM // 2
    check(out, weights, TOKENS, "gpt_neox", frequencies=scaled, scale=0.1 * math.log(4) + 1)


def test_learned_table(tmp_path: pathlib.Path) -> None:
    weights = make_model(tmp_path / "model", {"kind": "learned", "rows": LENGTH, "width": WIDTH},
                         extra={"position.table.table": (LENGTH, WIDTH)})
    out = gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    check(out, weights, TOKENS[:LENGTH], "gpt2",
          table=weights["position.table.table"].astype(np.float64))
    assert loaded(out).config.n_positions == LENGTH  # and not the 80 of eval_lengths


def test_sinusoidal_table(tmp_path: pathlib.Path) -> None:
    weights = make_model(tmp_path / "model", {"kind": "sinusoidal", "width": WIDTH,
                                              "recipe": "interleaved"})
    out = gnomon.lab.export_model(tmp_path / "model", tmp_path / "out", positions=100)
    angles = np.arange(100)[:, None] * 10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(100, WIDTH)
    check(out, weights, TOKENS, "gpt2", table=table)
    assert loaded(out).config.n_positions == 100


ALIBI = {"kind": "alibi", "heads": HEADS}


@pytest.mark.parametrize("position, encoding", [
    (ALIBI, "alibi"), ({"kind": "t5", "heads": HEADS, "direction": "causal"}, "t5"),
    ({"kind": "xpos", "rotary_dim": DIM, "pairing": "halves"}, "xpos"),
    ([[rope()], [rope()], [{"kind": "none"}]], "rotary*2/none"),
    ([[rope(), ALIBI]] * LAYERS, "rotary+alibi"), (rope(), "rotary@restart"),
    (rope(head_offset=2, dim=6), "Rotary"), (rope(pairing="adjacent"), "Rotary"),
    (rope() | {"kind": "rotary-scaled", "length": 160, "scaling": {
        "type": "linear", "factor": 4.0}}, "ScaledRotary")])
def test_other_encodings_are_refused(position: Any, encoding: str, tmp_path: pathlib.Path) -> None:
    make_model(tmp_path / "model", position, encoding=encoding)
    with pytest.raises(ValueError, match=r"must be one that transformers computes exactly .* got "
                                         + re.escape(encoding)):
        gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings, message", [
    ({"task": "masked"}, "the task of an exported model must be one of text"),
    ({"task": "copy"}, "positions, the longest context in tokens, must be given for --task copy"),
    ({"layers": 4}, "must have the tensors of 4 layers of width 24 with 2 heads"),
    ({"layers": 10**12}, "must have the tensors of 1000000000000 layers"),
    ({"width": 32}, "must have the tensors of 3 layers of width 32"),
    ({"heads": 7}, "with 7 heads"), ({"heads": "2"}, "must have heads, of the type int, got '2'"),
    ({"tokens": "bpe:x"}, "tokens in config.json must be bytes or bpe:N, got bpe:x"),
    ({"tokens": "bpe:256"}, "tokenizer.model must be a model of SentencePiece"),
    ({"eval_lengths": [1 << 40]}, "positions must be 1 to 1048576")])
def test_other_settings_are_refused(settings: dict[str, Any], message: str,
                                    tmp_path: pathlib.Path) -> None:
    make_model(tmp_path / "model", {"kind": "none"}, **settings)
    with pytest.raises(ValueError, match=re.escape(message)):
        gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_folders_are_refused(tmp_path: pathlib.Path) -> None:
    make_model(tmp_path / "model", {"kind": "none"}, extra={"memory.weight": (2, 2)})
    with pytest.raises(ValueError, match="must have the tensors of 3 layers"):
        gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"\x80\x04K\x01.")  # a pickle
    with pytest.raises(ValueError, match="folder must have the weights of a model"):
        gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="model_type in config.json must be gnomon-lab, .* llama"):
        gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    with pytest.raises(ValueError, match="folder must be a model of the lab"):
        gnomon.lab.export_model(tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="out must be a new or empty folder"):
        gnomon.lab.export_model(tmp_path / "model", tmp_path)


TEXTS = ["It is a truth\n\n  universally — acknowledged", "Ā<unk></s><0x0A> \x00\t\r\n", "日本 é ½",
         "    ----======  aaaaaaaaaa abababab\n" * 3, "", " ", "\n"]


def test_tokens_are_bytes(tmp_path: pathlib.Path) -> None:
    make_model(tmp_path / "model", {"kind": "none"})
    out = gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(out, trust_remote_code=False)
    for text in [*TEXTS, NOVEL.read_text(encoding="utf-8")[:100_000]]:
        assert tokenizer(text)["input_ids"] == list(text.encode())
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    every = tokenizer.convert_ids_to_tokens(list(range(256)))
    assert len(set(every)) == 256 and len(tokenizer) == 256


def test_tokens_of_sentencepiece(tmp_path: pathlib.Path) -> None:
    novel = NOVEL.read_text(encoding="utf-8")
    make_model(tmp_path / "model", rope(), vocabulary=700, tokens="bpe:700")
    with open(tmp_path / "model" / "tokenizer.model", "wb") as file:  # as tokenizer_program.cc
        SentencePieceTrainer.Train(
            sentence_iterator=iter([*novel.split("\n"), *TEXTS[3].split("\n") * 20]),
            model_writer=file, model_type="bpe", vocab_size=700, byte_fallback=True,
            character_coverage=0.9999, normalization_rule_name="identity", add_dummy_prefix=False,
            remove_extra_whitespaces=False, bos_id=-1, eos_id=-1, num_threads=1, minloglevel=2)
    out = gnomon.lab.export_model(tmp_path / "model", tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(out, trust_remote_code=False)
    own = SentencePieceProcessor(model_file=str(tmp_path / "model" / "tokenizer.model"))
    random = np.random.default_rng(1)
    words = [one for one in re.split(r"(\W)", novel[:50_000]) if one]
    mixed = ["".join(random.choice(words, 200)) for _ in range(50)]
    runs = ["".join(random.choice(list("ab -e\n"), 200)) for _ in range(50)]
    for text in [*TEXTS, novel, *mixed, *runs]:
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        ids = [token for line in lines for token in own.Encode(line)]
        assert tokenizer(text)["input_ids"] == ids
        assert tokenizer.decode(ids) == text
    assert len(tokenizer) == 700 and len(own.Encode(novel)) < len(novel) / 2
    assert loaded(out).config.vocab_size == 700
