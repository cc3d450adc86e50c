"""Comparison of a tiny model before and after `gnomon.torch.patch`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import warnings
from typing import Any

import torch
from tiny_models import classes_of, config_of, inputs_of, make, outputs_of, traced_outputs
from torch import Tensor

import gnomon.torch


@dataclasses.dataclass
class Result:
    """The comparison of a patched model with the unpatched one.

    status: 'equal', 'different', 'refused', or 'not run' (the unpatched model does not run here).
    detail: the reason. checks: what was compared. left: parts that stay those of transformers.
    """

    model_type: str
    status: str
    detail: str = ""
    checks: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def _error(got: Tensor, want: Tensor) -> float:
    if got.shape != want.shape:
        return math.inf
    largest = float(want.detach().abs().nan_to_num(0, 0, 0).max()) if want.numel() else 0.0
    if not torch.equal(got.isfinite(), want.isfinite()):
        return math.inf
    return float((got - want).detach().nan_to_num(0, 0, 0).abs().max()) / (largest or 1.0)


def _gradients(model: Any, arguments: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad(set_to_none=True)
    names = inspect.signature(model.forward).parameters
    if "labels" in names and model.can_generate() and "decoder_input_ids" not in arguments:
        loss = model(**arguments, labels=arguments["input_ids"]).loss
    else:
        found = outputs_of(model, arguments)
        loss = sum(one.square().mean() for one in found.values())
    loss.backward()
    return loss.detach(), {name: one.grad for name, one in model.named_parameters()
                           if one.grad is not None}


def _generated(model: Any, arguments: dict[str, Any], **options: Any) -> Tensor:
    torch.manual_seed(0)
    return model.generate(**{key: one for key, one in arguments.items() if "decoder" not in key},
                          max_new_tokens=10, do_sample=False, **options)


GENERATIONS = {"greedy": {}, "beams": dict(num_beams=3),
               "static": dict(cache_implementation="static", disable_compile=True)}


def compare(model_type: str, tolerance: float = 2e-5, compiled: bool = False,
            generation: bool = True) -> Result:
    """Compares outputs, loss, gradients and generation of a model before and after `patch`."""
    found = Result(model_type, "not run", "no class of the model")
    for cls in classes_of(model_type):
        for dtype in (torch.float64, torch.float32):
            try:
                model = make(cls, config_of(model_type), dtype)
                patched = copy.deepcopy(model)
                try:
                    gnomon.torch.patch(patched)
                except ValueError as error:
                    return Result(model_type, "refused", str(error))
                gnomon.torch.unpatch(patched)
                plain = inputs_of(model)
                padded = inputs_of(model, padded=True)
                with torch.no_grad():
                    want = outputs_of(model, plain)
                    other = outputs_of(model, padded)
                if not want:
                    raise ValueError("no outputs")
            except Exception as error:
                found.detail = f"{cls.__name__}: {type(error).__name__}: {str(error)[:160]}"
                continue
            # Some models convert the lowest float64 to float32, which is -inf.
            finite = all(bool(one.isfinite().all()) for one in other.values())
            if not finite and dtype == torch.float64:
                continue
            return _compare(model_type, model, plain, want, tolerance if dtype == torch.float64
                            else max(tolerance, 1e-4), compiled, generation)
    return found


def _compare(model_type: str, model: Any, plain: dict[str, Any], want: dict[str, Tensor],
             tolerance: float, compiled: bool, generation: bool) -> Result:
    patched = copy.deepcopy(model)
    try:
        report = gnomon.torch.patch(patched)
    except ValueError as error:
        return Result(model_type, "refused", str(error))
    result = Result(model_type, "equal", left=report.left)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            checks = _checks(model, patched, plain, want, tolerance, compiled, generation)
            result.checks = tuple(checks)
        except AssertionError as error:
            result.status, result.detail = "different", str(error)
        except TimeoutError:
            raise
        except Exception as error:
            result.status = "different"
            result.detail = f"{type(error).__name__}: {str(error)[:300]}"
    result.left += tuple(sorted({str(one.message) for one in caught
                                 if "[patch]" in str(one.message)}))
    return result


def _checks(model: Any, patched: Any, plain: dict[str, Any], want: dict[str, Tensor],
            tolerance: float, compiled: bool, generation: bool) -> list[str]:
    """Returns the names of the checks that were made. Raises AssertionError for a difference."""

    def same(name: str, got: dict[str, Tensor], want: dict[str, Tensor]) -> None:
        assert got.keys() == want.keys(), f"{name}: {got.keys()} and {want.keys()}"
        for key in want:
            error = _error(got[key], want[key])
            assert error <= tolerance, f"{name}: {key} differs by {error:.1e}"

    with torch.no_grad():
        same("outputs", outputs_of(patched, plain), want)
    checks, arguments = ["outputs"], plain
    if "input_ids" in plain:
        padded = inputs_of(model, padded=True)
        with torch.no_grad():
            try:
                want = outputs_of(model, padded)
            except Exception:
                padded = {}
            if padded:
                same("padding", outputs_of(patched, padded), want)
                arguments = padded
                checks.append("padding")
    try:
        loss, grads = _gradients(model, arguments)
    except Exception:
        grads = {}
    if grads:
        got, got_grads = _gradients(patched, arguments)
        assert _error(got, loss) <= tolerance, f"loss {float(got)} instead of {float(loss)}"
        # Outputs of unit length have a constant sum of squares: all gradients are rounding errors.
        largest = max(1e-12, *(float(one.abs().max()) for one in grads.values() if one.numel()))
        assert grads.keys() == got_grads.keys()
        for name, one in grads.items():
            error = float((got_grads[name] - one).abs().sum()) and float(
                (got_grads[name] - one).abs().max()) / largest
            assert error <= 5 * tolerance, f"gradient of {name} differs by {error:.1e}"
        checks.append("gradients")
    if generation and "input_ids" in plain and model.can_generate():
        greedy = None
        for name, options in GENERATIONS.items():
            try:
                tokens = _generated(model, arguments, **options)
            except Exception:
                continue
            if not isinstance(tokens, Tensor):
                continue
            greedy = tokens if name == "greedy" else greedy
            # The static cache of transformers is wrong for some models (PP-FormulaNet).
            if name == "static" and greedy is not None and not torch.equal(tokens, greedy):
                continue
            assert torch.equal(_generated(patched, arguments, **options), tokens), name
            checks.append(name)
    if compiled and (want_one := fullgraph(model, arguments)) is not None:
        found = fullgraph(patched, arguments, raises=True)
        assert found is not None
        same("compiled", found, want_one)
        checks.append("compiled")
    return checks


@torch.no_grad()
def fullgraph(model: Any, arguments: dict[str, Any], raises: bool = False,
              ) -> dict[str, Tensor] | None:
    """Returns the outputs of a model compiled without graph breaks; None if it has breaks."""
    torch.compiler.reset()
    try:
        run = torch.compile(lambda **options: traced_outputs(model, options), backend="eager",
                            fullgraph=True)
        return run(**arguments)
    except Exception:
        if raises:
            raise
        return None
