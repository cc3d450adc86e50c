"""Tiny GGUF files with random weights, of any architecture of llama.cpp.

llama.cpp makes a model from keys alone. The file has the tensors of that model.
"""

from __future__ import annotations

import pathlib
import tempfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import gguf
import llama_cpp
import numpy as np
from gguf import GGUFValueType as Type

VOCABULARY = 128
LENGTH = 256
KINDS = {np.uint16: Type.UINT16, np.bool_: Type.BOOL, np.int32: Type.INT32, np.uint32: Type.UINT32,
         np.uint64: Type.UINT64, np.float32: Type.FLOAT32}


def typed(value: Any) -> np.ndarray:
    """Returns an array. Its type is that of the GGUF value: int becomes uint32, float float32."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    found = np.asarray(value)
    return found.astype({"i": np.uint32, "f": np.float32}.get(found.dtype.kind, found.dtype))


def write_keys(writer: gguf.GGUFWriter, architecture: str, keys: Mapping[str, Any]) -> None:
    """A key with a leading slash has no prefix of the architecture."""
    for name, value in keys.items():
        full = name.removeprefix("/") if name.startswith("/") else f"{architecture}.{name}"
        if isinstance(value, str):
            writer.add_key_value(full, value, Type.STRING)
            continue
        numbers = typed(value)
        kind = KINDS[numbers.dtype.type]
        if numbers.ndim:
            writer.add_key_value(full, numbers.tolist(), Type.ARRAY, sub_type=kind)
        else:
            writer.add_key_value(full, numbers.item(), kind)


def save(path: pathlib.Path, architecture: str, keys: Mapping[str, Any],
         tensors: Mapping[str, np.ndarray] = {}, tokens: bool = True) -> None:
    """Writes a file, with a vocabulary if `tokens`."""
    writer = gguf.GGUFWriter(path, architecture)
    write_keys(writer, architecture, keys)
    if tokens:
        size = keys.get("vocab_size", VOCABULARY)
        writer.add_tokenizer_model("test")
        writer.add_token_list([f"token{i}" for i in range(size)])
        writer.add_token_scores([0.0] * size)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def values_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns random weights, with scores of about 2 in attention. The seed is the name."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    draw = rng.standard_normal(shape)
    if name.startswith(("rope_", "blk.")) and ("rope_freqs" in name or "rope_factors" in name):
        draw = rng.uniform(0.5, 4, shape)
    elif name.endswith("norm.weight") or "_norm" in name and name.endswith(".weight"):
        draw = 1 + 0.3 * draw
    elif name.endswith(("ssm_a", "ssm_a.weight")):
        draw = -np.abs(draw)
    elif len(shape) > 1 and not name.startswith("token_embd"):
        draw *= 1.5 / np.sqrt(shape[-1])
    elif name.endswith(".bias"):
        draw *= 0.3
    return draw.astype(np.float32)


def optional(name: str) -> bool:
    """Whether a tensor is left out unless a case asks for it: factors, scales of quantization."""
    return name.endswith((".scale", ".input_scale", ".lora_a", ".lora_b")) or (
        "rope_freqs" in name or "rope_factors" in name)


def write(path: pathlib.Path, architecture: str, keys: Mapping[str, Any],
          keep: Callable[[str], bool] = lambda name: not optional(name),
          shards: bool = False) -> dict[str, np.ndarray]:
    """Writes a file with these keys and the tensors that llama.cpp expects. Returns the tensors.

    keep: whether a tensor is written. shards: the tensors are in a second file. The names of
    both files have numbers, as llama.cpp requires.
    """
    with tempfile.TemporaryDirectory() as folder:
        only = pathlib.Path(folder) / "keys.gguf"
        save(only, architecture, keys)
        found = llama_cpp.tensors_of_keys(only)
    tensors = {}
    for name, extents, _ in found:
        if name in tensors or not keep(name):
            continue
        while len(extents) > 1 and extents[-1] == 1:
            extents = extents[:-1]
        tensors[name] = values_of(name, tuple(reversed(extents)))
    if not shards:
        save(path, architecture, keys, tensors)
        return tensors
    numbers = {"/split.count": np.uint16(2), "/split.tensors.count": np.int32(len(tensors))}
    save(path, architecture, {**keys, **numbers, "/split.no": np.uint16(0)})
    second = path.with_name(path.name.replace("00001-of", "00002-of"))
    save(second, architecture, {**numbers, "/split.no": np.uint16(1)}, tensors, tokens=False)
    return tensors
