"""The model and the training of the lab, in PyTorch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Pre-norm attention and feed-forward layers without biases (apps/lab/model/layers.h)."""

    def __init__(self, width: int, heads: int, layers: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads, small = heads, 0.02 / math.sqrt(2 * layers)
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = linear(width, 3 * width, 0.02, generator)
        self.attention_out = linear(width, width, small, generator)
        self.feed_in = linear(width, 4 * width, 0.02, generator)
        self.feed_out = linear(4 * width, width, small, generator)

    def forward(self, x: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        heads = self.qkv(self.attention_norm(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # [B, H, T, D] each
        x = x + self.attention_out(attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.feed_out(F.gelu(self.feed_in(self.feed_norm(x))))


class Transformer(nn.Module):
    """The lab's Transformer. Its parameters have the names of docs/lab/models.md.

    protocol: a Protocol, whose module imports this one.
    """

    def __init__(self, protocol: Any, position: nn.Module | None, seed: int,
                 sizes: tuple[int, int, int]) -> None:
        super().__init__()
        (layers, width, heads), count = sizes, protocol.vocabulary
        generator = torch.Generator().manual_seed(protocol.initial_seed(seed))
        self.embedding = nn.Embedding(count, width, _weight=drawn((count, width), 0.5, generator))
        self.blocks = [Block(width, heads, layers, generator) for _ in range(layers)]
        for i, block in enumerate(self.blocks):
            self.add_module(f"block{i}", block)
        self.norm, self.head = nn.LayerNorm(width), linear(width, count, 0.02, generator)
        self.position, self.causal = position, protocol.causal

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.position is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        visibility = "causal" if self.causal else "bidirectional"
        return self.position.attend(q, k, v, visibility=visibility)  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        if self.position is not None:
            x = self.position.embed(x)
        for block in self.blocks:
            x = block(x, self.attend)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def drawn(shape: tuple[int, int], deviation: float, generator: torch.Generator) -> Tensor:
    return torch.empty(shape).normal_(0.0, deviation, generator=generator)


def linear(inputs: int, outputs: int, deviation: float, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    layer.weight = nn.Parameter(drawn((outputs, inputs), deviation, generator))
    return layer


def of_position(name: str) -> bool:
    """Whether a parameter is one of the encoding, also in a wrapper (torch.compile, DDP)."""
    return "position" in name.split(".")


def optimizer_of(model: nn.Module) -> torch.optim.AdamW:
    """Weight decay applies to matrices, not to norms or parameters of encodings."""
    groups: dict[str, list[Tensor]] = {"matrix": [], "other": [], "position": []}
    for name, one in model.named_parameters():
        groups["position" if of_position(name) else
               "matrix" if one.dim() > 1 else "other"].append(one)
    return torch.optim.AdamW([{"params": groups["matrix"], "weight_decay": 0.1},
                              {"params": groups["other"], "weight_decay": 0.0},
                              {"params": groups["position"], "weight_decay": 0.0}],
                             betas=(0.9, 0.95))


def train(protocol: Any, make_model: Callable[[int], nn.Module], encoding: str, seed: int,
          device: str, longest: int | None) -> dict[str, Any]:
    """Protocol.train_torch."""
    torch.manual_seed(protocol.initial_seed(seed) + 1)
    model = make_model(seed).to(device)
    optimizer = optimizer_of(model)
    steps = protocol.settings["steps"]
    every = max(1, steps // 30)  # as in apps/lab/runs/run.cc
    curve: list[dict[str, Any]] = []
    losses: list[float] = []
    seconds = 0.0

    @torch.no_grad()
    def predict(inputs: np.ndarray) -> Tensor:
        model.eval()
        return model(torch.from_numpy(inputs).to(device).long())  # type: ignore[no-any-return]

    for step, (inputs, targets) in enumerate(protocol.batches(seed), 1):
        start = time.perf_counter()
        model.train()
        logits = model(torch.from_numpy(inputs).to(device).long())
        wanted = torch.from_numpy(targets).to(device).long()
        nats = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=-1,
                               reduction="sum")
        optimizer.zero_grad()
        (nats / int((targets >= 0).sum())).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = protocol.learning_rate(step - 1, encoding)
        times = (1.0, 1.0, protocol.settings["position_rate"])
        for group, factor in zip(optimizer.param_groups, times, strict=True):
            group["lr"] = rate * factor
        optimizer.step()
        losses.append(nats.item() / protocol.units(targets) / math.log(2))
        seconds += time.perf_counter() - start
        if step % every == 0 or step == steps:
            curve.append({"step": step, "train_bits": sum(losses) / len(losses)})
            losses.clear()
            if step // every % 3 == 0 or step == steps:
                curve[-1]["validation_bits"] = protocol.validation_bits(predict)
    start = time.perf_counter()
    evaluation = protocol.evaluate(predict, longest)
    count = {name: one.numel() for name, one in model.named_parameters()}
    return {"encoding": encoding, "seed": seed, "evaluation": evaluation, "curve": curve,
            "parameters": sum(count.values()), "train_seconds": seconds,
            "test_seconds": time.perf_counter() - start,
            "position_parameters": sum(number for name, number in count.items()
                                       if of_position(name))}
