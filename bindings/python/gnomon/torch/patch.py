"""Runs models of transformers on Gnomon's rotation and attention.

    import gnomon.torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    print(gnomon.torch.patch(model, check=True))                  # replaced parts, difference
    model.generate(**tokens)
    gnomon.torch.unpatch(model)
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["PatchReport", "patch", "unpatch"]

_STATE = "_gnomon_patch"


@dataclasses.dataclass(frozen=True)
class PatchReport:
    """Result of `patch`.

    family: `model_type` of the config.
    replaced: the replaced parts by name, with the number of modules.
    tokens: tokens of the check; 0 if none was made.
    difference: largest absolute difference of the logits before and after; None without a check.
    relative: difference / largest absolute logit before.
    """

    family: str
    replaced: tuple[str, ...]
    tokens: int = 0
    difference: float | None = None
    relative: float | None = None

    def __str__(self) -> str:
        lines = [f"{self.family}:", *(f"  {one}" for one in self.replaced)]
        if self.difference is not None:
            lines += [f"largest difference of the logits of {self.tokens} tokens: "
                      f"{self.difference:.2e} ({self.relative:.2e} of the largest logit)"]
        return "\n".join(lines)


class _State:
    def __init__(self, change: Any, configs: list[tuple[Any, Any]]) -> None:
        self.change, self.configs = change, configs

    def undo(self) -> None:
        self.change.undo()
        for config, implementation in self.configs:
            config._attn_implementation = implementation


def patch(model: nn.Module, *, check: bool = False, tokens: int = 64, seed: int = 0) -> PatchReport:
    """Makes a transformers model use Gnomon's rotation and attention, in place.

    model: a model of transformers 5 on the CPU with `model_type` llama, qwen2, qwen3, mistral,
        gemma, gemma2, gemma3_text, phi, phi3, gpt_neox, bloom or t5. Weights are not changed.
    check: whether to compute the logits (or last hidden states) of random token ids before and
        after. Cost: two forward passes of `tokens` tokens.
    seed: of the random token ids.

    Attention uses the interface of transformers ("gnomon" in `config._attn_implementation`); its
    masks are rules, not tensors. Rotary tables are exact, from `gnomon.model.from_pretrained`.
    ALiBi and T5's bias enter attention as slopes and as a strip by distance: no [H, T, S] tensor.
    Masks that Gnomon cannot express, `output_attentions` and attention dropout in training run on
    transformers' own code, with a warning.

    Raises ValueError if the model is not supported, is not on the CPU, is patched already, or
    has frequencies that are not those of its config.
    """
    try:
        from ._transformers import attend, families, masks
    except ImportError as error:
        raise ValueError(f"[patch] transformers 5.23 or later must be installed, got: {error}"
                         ) from error
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", None)
    if family not in families.FAMILIES:
        raise ValueError(f"[patch] model_type must be one of {', '.join(families.FAMILIES)}, "
                         f"got {family or type(model).__name__}")
    if hasattr(model, _STATE):
        raise ValueError("[patch] the model must not be patched, got a patched model")
    devices = {one.device.type for one in model.parameters()} - {"cpu"}
    if devices:
        raise ValueError("[patch] the model must be on the CPU (on other devices: "
                         f"gnomon.torch.flex), got {', '.join(sorted(devices))}")
    _register(attend, masks)
    before = _logits(model, tokens, seed) if check else None
    change = families.Change()
    configs = []
    try:
        families.FAMILIES[family](model, config, change)
        for one in {id(m.config): m.config for m in model.modules() if hasattr(m, "config")
                    and hasattr(m.config, "_attn_implementation")}.values():
            configs.append((one, one._attn_implementation))
        for one, implementation in configs:
            one._attn_implementation = attend.NAME
    except BaseException:
        _State(change, configs).undo()
        raise
    setattr(model, _STATE, _State(change, configs))
    implementation = configs[0][1]
    change.replaced += [(name, f"attention: {implementation} -> {attend.NAME}")
                        for name, module in model.named_modules()
                        if type(module).__name__.endswith("Attention") and not len(
                            [one for one in module.modules()
                             if one is not module and type(one).__name__.endswith("Attention")])]
    replaced = _summary(change.replaced)
    if before is None:
        return PatchReport(family, replaced)
    after = _logits(model, tokens, seed)
    difference = float((after - before).abs().max())
    return PatchReport(family, replaced, tokens, difference,
                       difference / float(before.abs().max()))


def unpatch(model: nn.Module) -> None:
    """Restores a patched model. Raises ValueError if the model is not patched."""
    state = getattr(model, _STATE, None)
    if state is None:
        raise ValueError("[unpatch] the model must be patched, got a model that is not")
    state.undo()
    delattr(model, _STATE)


def _register(attend: Any, masks: Any) -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(attend.NAME, attend.attention_forward)
    AttentionMaskInterface.register(attend.NAME, masks.mask)


def _summary(replaced: list[tuple[str, str]]) -> tuple[str, ...]:
    """Joins the same change of several layers: 'model.layers.*.self_attn (12): ...'."""
    counts: dict[tuple[str, str], int] = {}
    for name, change in replaced:
        key = re.sub(r"\.\d+(?=\.|$)", ".*", name), change
        counts[key] = counts.get(key, 0) + 1
    return tuple(f"{name} ({count}): {change}" if count > 1 else f"{name}: {change}"
                 for (name, change), count in counts.items())


def _logits(model: nn.Module, tokens: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(model.config.vocab_size, (1, tokens), generator=generator)
    inputs = {"input_ids": ids}
    if getattr(model.config, "is_encoder_decoder", False) and hasattr(model, "decoder"):
        inputs["decoder_input_ids"] = ids.flip(1)
    training = model.training
    model.eval()
    with torch.no_grad():
        result = model(**inputs)
    model.train(training)
    return result[0].double() if "logits" not in result else result["logits"].double()
