"""A tiny Transformer with position encodings of each place, for tests of modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import gnomon.torch

WIDTH, HEADS, LENGTH, WORDS = 32, 2, 12, 11
SCHEME = "learned+rotary+t5/learned+rotary+fire"


class Layer(nn.Module):
    def __init__(self, position: gnomon.torch.PositionEncoding) -> None:
        super().__init__()
        self.position = position
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).unbind(2)
        y = self.position.attend(q, k, v, visibility="causal", layout="tokens_heads")
        return x + self.out(y.flatten(2))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        scheme = gnomon.torch.PositionScheme(SCHEME, layers=2, width=WIDTH, heads=HEADS,
                                             length=LENGTH)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.table = scheme.table
        self.layers = nn.ModuleList(Layer(scheme.layer(i)) for i in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table.embed(self.words(ids))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def reset(model: nn.Module) -> None:
    """Draws the parameters of all modules, as training frameworks do after `to_empty`."""
    torch.manual_seed(0)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    logits = model(ids)[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
