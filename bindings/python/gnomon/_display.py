"""The display of specs and plans in a notebook."""

from __future__ import annotations

import dataclasses
import json

from . import _core, plot
from ._html import Bundle, bundle, image, pairs, text_of
from ._list import entry_of
from ._program import run
from ._spec import Encoding, usual


def spec_bundle(encoding: Encoding) -> Bundle:
    """The fields, formula, source and parameters of a spec, and its picture if there is one."""
    info = entry_of(encoding.to_json())
    facts = _facts(info.name)
    rows = [("encoding", f"{info.title}: {info.summary}")]
    if facts:
        rows.append(("formula", facts["formula"]))
    rows += [("position enters", info.enters), ("source", info.source)]
    if facts.get("used_by"):
        rows.append(("used by", facts["used_by"]))
    rows += [(field.name, text_of(getattr(encoding, field.name)))
             for field in dataclasses.fields(encoding)]  # type: ignore[arg-type]
    rows += [(f"parameter {one.name}", f"[{one.rows}, {one.columns}]")
             for one in encoding.parameters()]
    html = pairs(type(encoding).__name__, rows) + image(picture_of(encoding))
    return bundle(repr(encoding), html)


def plan_bundle(plan: _core.Plan) -> Bundle:
    """What a plan resolved."""
    rows = [("queries, keys", f"{plan.queries}, {plan.keys}"), ("offset", str(plan.offset)),
            ("visibility", plan.visibility)]
    for side in ("left", "right"):
        if (limit := getattr(plan, side)) is not None:
            rows.append((f"window, {side}", str(limit)))
    scale = plan.softmax_scale
    rows.append(("softmax scale", f"{scale:.6g}" if scale is not None else
                 "1 / sqrt(D)" + (f" x {plan.softmax_factor:.6g}" if plan.softmax_factor != 1
                                  else "")))
    if plan.cap is not None:
        rows.append(("soft cap", f"{plan.cap:g}"))
    table, rotary, form = plan.table, plan.query_rotary, plan.bias_form
    if table is not None:
        rows.append(("table", f"{list(table.shape)}, added to the embeddings"))
    if rotary is not None:
        numbers = rotary.frequencies
        rows.append(("rotation", f"{numbers.rotary_dim} elements, {numbers.pairing}; frequencies "
                     f"{numbers.inv_freq[0]:.6g} to {numbers.inv_freq[-1]:.6g} rad per position"))
    if form["form"] != "none":
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in form.items()
                           if hasattr(value, "shape"))
        rows.append(("bias", f"{form['form']}: {shapes}" if shapes else str(form["form"])))
    if plan.has_relative:
        rows.append(("relative vectors", "yes"))
    if plan.gated:
        rows.append(("gates", "required: the bias depends on the tokens"))
    return bundle(repr(plan), pairs("Plan", rows))


def picture_of(encoding: Encoding) -> plot.Picture | None:
    """The chart of `gnomon plot` that shows exactly this spec; None if there is none.

    Specs with trained parameters have no chart: their values are not part of the spec.
    """
    if encoding.parameters():
        return None
    name, fields = entry_of(encoding.to_json()).name, vars(encoding)
    try:
        if encoding.kind == "rotary":
            return plot.wavelengths(dim=fields["rotary_dim"], base=fields["base"])
        if encoding.enters == "embeddings" and "width" in fields:
            if usual(name, width=fields["width"], heads=1, length=50) == encoding:
                return plot.table(name, dim=fields["width"])
        elif encoding.enters == "scores" and "heads" in fields:
            heads = fields["heads"]
            if usual(name, width=2 * heads, heads=heads, length=128) == encoding:
                return plot.bias(name, heads=heads)
    except (ValueError, FileNotFoundError):  # no such settings, or no program
        pass
    return None


def _facts(name: str) -> dict[str, str]:
    """The facts of `gnomon explain`; empty without the program."""
    try:
        facts: dict[str, str] = json.loads(run("explain", name, "--json"))
        return facts
    except FileNotFoundError:
        return {}
