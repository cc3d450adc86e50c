"""The cases of the comparison, and their expected outcomes."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import architectures
import numpy as np

TOKENS = 40


@dataclass
class Case:
    """A file, and the tokens of its run.

    keys: changes of the keys of its architecture; None removes a key.
    factors: tensors of frequency factors that are in the file, by their name.
    axes: positions differ between the axes of M-RoPE.
    """

    architecture: str
    name: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)
    factors: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tokens: int = TOKENS
    sequences: int = 1
    axes: bool = False
    tolerance: float = 2e-5

    def write(self, path: pathlib.Path, tiny: Any) -> dict[str, np.ndarray]:
        keys = architectures.keys(self.architecture) | dict(self.keys)
        keys = {name: value for name, value in keys.items() if value is not None}

        def keep(name: str) -> bool:
            if any(part in name for part in self.without):
                return False
            return not tiny.optional(name) or any(part in name for part in self.factors)

        return tiny.write(path, self.architecture, keys, keep)


def record(path: pathlib.Path, case: Case, llama_cpp: Any, graph: Any) -> list[Any]:
    """Runs a file in llama.cpp. Returns (part, attention, positions for Gnomon, length)."""
    runs = []
    rng = np.random.default_rng(7)
    library = llama_cpp.LIBRARY
    with llama_cpp.model_of_file(path) as model:
        two = library.llama_model_has_encoder(model) and library.llama_model_has_decoder(model)
        size = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
        recorder = graph.Recorder()
        with llama_cpp.context_of(model, max(case.tokens, architectures.LENGTH), recorder,
                                  n_seq_max=case.sequences, kv_unified=True) as context:
            length = library.llama_n_ctx(context)
            tokens = rng.integers(3, size, case.tokens)
            places: Any = np.arange(case.tokens)
            given: Any = case.tokens
            if case.axes:
                tokens = rng.standard_normal((case.tokens, library.llama_model_n_embd_inp(model)))
                axes = np.sort(rng.integers(0, case.tokens, (3, case.tokens)), 1)
                axes[0] = np.arange(case.tokens)
                places = np.concatenate([axes, np.zeros((1, case.tokens))])
                given = tuple(axes)
            for encode in (True, False) if two else (False,):
                recorder.clear()
                llama_cpp.run(context, tokens, places, encode=encode)
                part = {True: "encoder", False: "decoder"}[encode] if two else ""
                found = list(recorder.attentions())
                if two and not encode:
                    found = [one for one in found if one.cached]
                runs += [(part, one, given, length) for one in found]
    return runs


def listing(case: Case) -> list[str]:
    """Returns the nodes of the graph of a case."""
    import graph
    import llama_cpp
    import tiny

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        case.write(path, tiny)
        recorder = graph.Recorder()
        with llama_cpp.model_of_file(path) as model, llama_cpp.context_of(
                model, architectures.LENGTH, recorder) as context:
            llama_cpp.run(context, list(range(3, 3 + case.tokens)), np.arange(case.tokens))
        return graph.describe(recorder.nodes)


def all_cases() -> list[Case]:
    return [Case(name) for name in architectures.KEYS]
