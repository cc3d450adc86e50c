"""The vocabulary that `gnomon convert --to gguf` writes: llama.cpp's tokens of a text are those
of tokenizers."""

from __future__ import annotations

import ctypes
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools/gguf"))

import llama_cpp

PROGRAM = pathlib.Path(__file__).parents[3] / "build/release/apps/cli/gnomon"
END = "<|end|>"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3, QWEN = WORDS + r"\p{N}{1,3}" + REST, WORDS + r"\p{N}" + REST
TEXT = ("I'll pay 3 or 12345 Euro,  IT'S\n\n \tfine: don't... we've a\u00f1o \u0431\u044a\u043b "
        "\U0001f999\U0001f999!\r\n    x = [1, 2]  " + END + " y\u4f60\u597d 007 ")


def split(expression: str) -> Any:
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(True),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama-bpe": split(LLAMA3),
    "smaug-bpe": split(LLAMA3),
    "qwen2": split(QWEN),
}


def trained(name: str, adds_bos: bool) -> Tokenizer:
    """Returns a tokenizer that is trained on the text."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = PRE[name]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT.replace(END, "")] * 3, trainer)
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{END} $A", special_tokens=[(END, tokenizer.token_to_id(END))])
    return tokenizer


def converted(tokenizer: Tokenizer, folder: pathlib.Path) -> tuple[pathlib.Path, dict[str, Any]]:
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, intermediate_size=16,
        num_hidden_layers=1, num_attention_heads=2, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "model")
    tokenizer.save(str(folder / "model/tokenizer.json"))
    (folder / "model/tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    text = subprocess.run([PROGRAM, "convert", folder / "model", "--to", "gguf", "--json", "-o",
                           folder / "out.gguf"], check=True, capture_output=True, text=True)
    return folder / "out.gguf", json.loads(text.stdout)


def tokens_of_llama_cpp(path: pathlib.Path, text: str) -> list[int]:
    tokenize = llama_cpp.LIBRARY.llama_tokenize
    tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p,
                         ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
    data, out = text.encode(), (ctypes.c_int32 * 1024)()
    with llama_cpp.model_of_file(path) as model:
        vocabulary = llama_cpp.LIBRARY.llama_model_get_vocab(model)
        count = tokenize(vocabulary, data, len(data), out, len(out), True, True)
    return out[:count]


@pytest.mark.parametrize("adds_bos", [False, True])
@pytest.mark.parametrize("name", PRE)
def test_llama_cpp_has_the_tokens_of_tokenizers(name: str, adds_bos: bool,
                                                tmp_path: pathlib.Path) -> None:
    tokenizer = trained(name, adds_bos)
    path, report = converted(tokenizer, tmp_path)
    assert report["notes"] == []
    assert tokens_of_llama_cpp(path, TEXT) == tokenizer.encode(TEXT).ids


def test_another_pre_tokenizer_is_not_guessed(tmp_path: pathlib.Path) -> None:
    tokenizer = trained("gpt-2", adds_bos=False)
    tokenizer.normalizer = normalizers.Lowercase()
    path, report = converted(tokenizer, tmp_path)
    assert any(note.startswith("no vocabulary is written") for note in report["notes"])
    assert llama_cpp.logits(path, [1, 2, 3]).shape == (3, tokenizer.get_vocab_size())
