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
import functools
import re
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["PatchReport", "patch", "register_attention", "unpatch"]

_STATE = "_gnomon_patch"


@dataclasses.dataclass(frozen=True)
class PatchReport:
    """Result of `patch`.

    family: `model_type` of the config.
    replaced: the replaced parts by name, with the number of modules.
    tokens: tokens of the check; 0 if none was made.
    difference: largest absolute difference of the logits before and after; None without a check.
    relative: difference / largest absolute logit before.
    left: the parts that stay those of transformers, by name, with the reason.
    """

    family: str
    replaced: tuple[str, ...]
    tokens: int = 0
    difference: float | None = None
    relative: float | None = None
    left: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.family}:", *(f"  {one}" for one in self.replaced),
                 *(f"  not replaced: {one}" for one in self.left)]
        if self.difference is not None:
            lines += [f"largest difference of the logits of {self.tokens} tokens: "
                      f"{self.difference:.2e} ({self.relative:.2e} of the largest logit)"]
        return "\n".join(lines)


def register_attention() -> None:
    """Adds the attention "gnomon" to transformers, as `attn_implementation="gnomon"`.

    Models that call the attention interface of transformers then use Gnomon's attention and masks,
    on the CPU. Their rotation and their biases stay those of transformers; `patch` replaces them
    too. Queries that see no key give zeros, as in the sdpa attention; "gnomon_eager" gives the
    mean of all values, as in the eager attention. Raises ValueError without transformers 5.23.
    """
    attend, masks = _modules()[:2]
    from transformers import AttentionInterface, AttentionMaskInterface

    for mean, name in ((False, attend.NAME), (True, attend.EAGER_NAME)):
        AttentionInterface.register(name, functools.partial(attend.attention_forward, mean))
        AttentionMaskInterface.register(name, functools.partial(masks.mask, mean))


def _modules() -> tuple[Any, ...]:
    try:
        from ._transformers import attend, biases, change, masks, rotations
    except ImportError as error:
        raise ValueError(f"[patch] transformers 5.23 or later must be installed, got: {error}"
                         ) from error
    return attend, masks, biases, change, rotations


def patch(model: nn.Module, *, check: bool = False, tokens: int = 64, seed: int = 0) -> PatchReport:
    """Makes a transformers model use Gnomon's attention, rotation and biases, in place.

    model: a model of transformers 5 on the CPU that `gnomon.model.from_pretrained` describes, and
        whose attention calls the attention interface of transformers, or is that of BLOOM, Falcon
        or MPT. Weights are not changed.
    check: whether to compute the logits (or last hidden states) of random token ids before and
        after. Cost: two forward passes of `tokens` tokens.
    seed: of the random token ids.

    Attention uses the interface of transformers ("gnomon" in `config._attn_implementation`); its
    masks are rules, not tensors. Rotary tables are exact, from `gnomon.model.from_pretrained`.
    ALiBi and T5's bias enter attention as slopes and as a strip by distance: no [H, T, S] tensor.
    Masks that Gnomon cannot express, `output_attentions` and attention dropout in training run on
    transformers' own code, with a warning. A rotation of another form, and attention with own code
    beside that of the interface, stay those of transformers; the report names them.

    Raises ValueError if the model is not supported, is not on the CPU, is patched already, or
    has frequencies that are not those of its config.
    """
    attend, _, biases, changes, rotations = _modules()
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", None)
    if family is None:
        raise ValueError("[patch] model must be a model of transformers, "
                         f"got {type(model).__name__}")
    if hasattr(model, _STATE):
        raise ValueError("[patch] the model must not be patched, got a patched model")
    devices = {one.device.type for one in model.parameters()} - {"cpu"}
    if devices:
        raise ValueError("[patch] the model must be on the CPU (on other devices: "
                         f"gnomon.torch.flex), got {', '.join(sorted(devices))}")
    attentions, others = rotations.attentions(model, biases.KNOWN)
    describe = rotations.descriptions(model, attentions)
    before = _logits(model, tokens, seed) if check else None
    register_attention()
    change = changes.Change()
    change.left += [(name, f"{cls} of transformers (its own code)") for name, cls in others]
    try:
        rotations.patch_rotations(model, describe, change)
        biases.patch_tables(model, change)
        biases.patch_hooked(model, config, change)
        biases.patch_alibi(model, change, config._attn_implementation != "sdpa")
        for one in {id(m.config): m.config for m in model.modules() if hasattr(
                getattr(m, "config", None), "_attn_implementation")}.values():
            was = one._attn_implementation
            name = attend.EAGER_NAME if was in ("eager", None) else attend.NAME
            change.set(one, "_attn_implementation_internal", name)
            change.replaced += [(name_of, f"attention: {was} -> {name}")
                                for name_of, module in attentions if module.config is one]
    except BaseException:
        change.undo()
        raise
    setattr(model, _STATE, change)
    report = PatchReport(family, _summary(change.replaced), left=_summary(change.left))
    if before is None:
        return report
    difference = float((_logits(model, tokens, seed) - before).abs().max())
    return dataclasses.replace(report, tokens=tokens, difference=difference,
                               relative=difference / float(before.abs().max()))


def unpatch(model: nn.Module) -> None:
    """Restores a patched model. Raises ValueError if the model is not patched."""
    state = getattr(model, _STATE, None)
    if state is None:
        raise ValueError("[unpatch] the model must be patched, got a model that is not")
    state.undo()
    delattr(model, _STATE)


def _summary(replaced: list[tuple[str, str]]) -> tuple[str, ...]:
    """Joins the same change of several layers: 'model.layers.*.self_attn (12): ...'."""
    counts: dict[tuple[str, str], int] = {}
    for name, change in replaced:
        key = re.sub(r"\.\d+(?=\.|$)", ".*", name), change
        counts[key] = counts.get(key, 0) + 1
    return tuple(f"{name} ({count}): {change}" if count > 1 else f"{name}: {change}"
                 for (name, change), count in counts.items())


def _logits(model: nn.Module, tokens: int, seed: int) -> Tensor:
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError("[patch] check must be False for a model without input_ids, "
                         f"got {type(model).__name__}")
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
