"""PyTorch, eager and compiled: the code of Hugging Face, of Meta, and of the tutorials."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
from collections.abc import Callable

import torch

import aligned
from arrays import Inputs
from cases import BASE, Case
from contender import Contender, Run
from contenders.tensors import (
    DTYPES,
    Rotation,
    floats,
    frequencies,
    positions,
    restoring,
    rotation_run,
    tensors,
    tokens_first,
)


def hugging_face_table(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """LlamaRotaryEmbedding.forward: both halves of each row, [1, T, D]."""
    turns = positions(case)[None, :, None].float() * frequencies(case.size)
    both = torch.cat((turns, turns), dim=-1)
    return both.cos(), both.sin()


def meta_table(case: Case) -> torch.Tensor:
    """precompute_freqs_cis: [T, D/2] complex."""
    turns = torch.outer(positions(case).float(), frequencies(case.size))
    return torch.polar(torch.ones_like(turns), turns)


def meta_rotate(
    q: torch.Tensor, k: torch.Tensor, table: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    q_pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    k_pairs = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
    table = table[None, :, None, :]
    q_out = torch.view_as_real(q_pairs * table).flatten(3)
    k_out = torch.view_as_real(k_pairs * table).flatten(3)
    return q_out.type_as(q), k_out.type_as(k)


class HuggingFace(Contender):
    works = ("rotate", "rotate_backward")
    pairings = ("halves",)
    own_table = True

    def __init__(self, name: str, compiler: Callable[[Callable], Callable]) -> None:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        self.name = name
        self.rotate = compiler(apply_rotary_pos_emb)

    def prepare(self, inputs: Inputs) -> Run:
        table = [part.to(DTYPES[inputs.case.dtype]) for part in hugging_face_table(inputs.case)]
        return rotation_run(inputs, lambda q, k: self.rotate(q, k, *table), True)


class Meta(Contender):
    works = ("rotate", "rotate_backward")
    pairings = ("adjacent",)
    own_table = True

    def __init__(self, name: str, compiler: Callable[[Callable], Callable]) -> None:
        self.name = name
        self.rotate = compiler(meta_rotate)

    def prepare(self, inputs: Inputs) -> Run:
        table = meta_table(inputs.case)
        return rotation_run(inputs, lambda q, k: self.rotate(q, k, table), False)


class RotaryEmbeddingTorch(Contender):
    name = "rotary-embedding-torch"
    works = ("rotate", "rotate_backward")
    pairings = ("adjacent",)
    own_table = True

    def prepare(self, inputs: Inputs) -> Run:
        from rotary_embedding_torch import apply_rotary_emb

        case = inputs.case
        turns = torch.outer(positions(case).float(), frequencies(case.size))
        turns = turns.repeat_interleave(2, dim=-1)
        return rotation_run(
            inputs, lambda q, k: (apply_rotary_emb(turns, q), apply_rotary_emb(turns, k)), True
        )


class Torchtune(Contender):
    name = "torchtune"
    works = ("rotate", "rotate_backward")
    pairings = ("adjacent",)
    own_table = True

    def __init__(self) -> None:
        # The package imports parts of torchao that newer versions do not have. This file of the
        # package requires PyTorch only.
        package = importlib.util.find_spec("torchtune")
        assert package and package.submodule_search_locations
        file = package.submodule_search_locations[0] + "/modules/position_embeddings.py"
        spec = importlib.util.spec_from_file_location("torchtune_positions", file)
        assert spec and spec.loader
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        rope = self.module.RotaryPositionalEmbeddings(
            case.size, max_seq_len=case.start + case.tokens, base=int(BASE)
        )
        ids = positions(case)[None] if case.start else None
        rotate: Rotation = lambda q, k: (rope(q, input_pos=ids), rope(k, input_pos=ids))  # noqa: E731
        return rotation_run(inputs, rotate, False)


class InPlace(Contender):
    """Not the code of a package: PyTorch with as few operators as possible, for comparison."""

    name = "PyTorch in place (mul_, addcmul_)"

    works = ("rotate",)
    own_table = True

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        turns = torch.outer(positions(case).float(), frequencies(case.size))
        cosines, sines = (
            part.to(DTYPES[case.dtype])[None, :, None, :] for part in (turns.cos(), turns.sin())
        )
        arrays = tensors(inputs)
        half = case.size // 2
        pairs = []
        for array in arrays:
            x = tokens_first(inputs, array)
            if case.pairing == "halves":
                pairs.append((x[..., :half], x[..., half:]))
            else:
                pairs.append((x[..., 0::2], x[..., 1::2]))

        def call() -> None:
            for a, b in pairs:
                before = a.clone()
                a.mul_(cosines).addcmul_(b, sines, value=-1)
                b.mul_(cosines).addcmul_(before, sines)

        heads_outside = case.layout == "HTD"
        return Run(
            call,
            lambda rows: [floats(inputs, x, rows, heads_outside) for x in arrays],
            restoring(arrays),
        )


class Tables(Contender):
    """Textbook tables, and their addition."""

    works = ("rotary_table", "sinusoidal_table", "add_table")
    dtypes = ("f32",)
    own_table = True

    def __init__(self, name: str, compiler: Callable[[Callable], Callable]) -> None:
        self.name = name
        self.rotary = compiler(hugging_face_table)
        self.sinusoidal = compiler(tutorial_table)
        self.add = compiler(torch.add)

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        half = case.size // 2
        if case.work == "add_table":
            assert inputs.table is not None
            x, table = torch.from_numpy(inputs.stored[0]), torch.from_numpy(inputs.table)
            return Run.keeping(
                lambda: self.add(x, table), lambda out, rows: [out[0][rows].numpy()]
            )
        if case.work == "rotary_table":
            return Run.keeping(
                lambda: self.rotary(case),
                lambda parts, rows: [part[0, rows, :half].numpy() for part in parts],
            )
        return Run.keeping(lambda: self.sinusoidal(case), lambda out, rows: [out[rows].numpy()])


class MetaTable(Contender):
    name = "PyTorch, Meta's complex table"
    works = ("rotary_table",)
    dtypes = ("f32",)
    own_table = True

    def prepare(self, inputs: Inputs) -> Run:
        return Run.keeping(
            lambda: meta_table(inputs.case),
            lambda out, rows: [out[rows].real.numpy(), out[rows].imag.numpy()],
        )


class AddInPlace(Contender):
    name = "PyTorch in place (add_)"
    works = ("add_table",)
    dtypes = ("f32",)

    def prepare(self, inputs: Inputs) -> Run:
        assert inputs.table is not None
        x = torch.from_numpy(aligned.copied(inputs.stored[0]))
        table = torch.from_numpy(inputs.table)
        return Run(lambda: x.add_(table), lambda rows: [x[0][rows].numpy()], restoring([x]))


def tutorial_table(case: Case) -> torch.Tensor:
    """PositionalEncoding of the PyTorch tutorial on Transformers."""
    position = positions(case).unsqueeze(1)
    step = -torch.log(torch.tensor(10000.0)) / case.size
    div_term = torch.exp(torch.arange(0, case.size, 2) * step)
    table = torch.zeros(case.tokens, case.size)
    table[:, 0::2] = torch.sin(position * div_term)
    table[:, 1::2] = torch.cos(position * div_term)
    return table


def as_it_is(function: Callable) -> Callable:
    return function


def compiled(function: Callable) -> Callable:
    return torch.compile(function, dynamic=False)


def contenders(threads: int) -> list[Contender]:
    torch.set_num_threads(threads)
    torch._dynamo.config.recompile_limit = 1000  # each case has another shape
    logging.getLogger("torch").setLevel(logging.ERROR)
    return [
        HuggingFace("PyTorch eager, Hugging Face's code", as_it_is),
        HuggingFace("PyTorch compiled, Hugging Face's code", compiled),
        Meta("PyTorch eager, Meta's code", as_it_is),
        Meta("PyTorch compiled, Meta's code", compiled),
        InPlace(),
        RotaryEmbeddingTorch(),
        Torchtune(),
        Tables("PyTorch eager", as_it_is),
        Tables("PyTorch compiled", compiled),
        MetaTable(),
        AddInPlace(),
    ]


def versions() -> dict[str, str]:
    packages = ("torch", "transformers", "rotary-embedding-torch", "torchtune")
    return {package: importlib.metadata.version(package) for package in packages}
