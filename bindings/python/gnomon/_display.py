"""How specs, plans, models and results show themselves in a notebook."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from . import _core
from ._list import entry_of, usual

if TYPE_CHECKING:
    from ._spec import Encoding
    from .lab import LabResults
    from .model import Layer, Model
    from .plot import Picture

Bundle = dict[str, Any]


def spec_bundle(encoding: Encoding) -> Bundle:
    """The fields, formula, source and parameters of a spec, and its picture if there is one."""
    info = entry_of(encoding)
    facts = _facts(info.name)
    rows = [("encoding", f"{info.title}: {info.summary}")]
    if facts:
        rows.append(("formula", facts["formula"]))
    rows += [("position enters", info.enters), ("source", info.source)]
    if facts.get("used_by"):
        rows.append(("used by", facts["used_by"]))
    rows += [(field.name, _text(getattr(encoding, field.name)))
             for field in dataclasses.fields(encoding)]  # type: ignore[arg-type]
    rows += [(f"parameter {one.name}", f"[{one.rows}, {one.columns}]")
             for one in encoding.parameters()]
    picture = picture_of(encoding)
    return _bundle(repr(encoding), _pairs(type(encoding).__name__, rows) + _image(picture))


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
    return _bundle(repr(plan), _pairs("Plan", rows))


def model_bundle(model: Model) -> Bundle:
    """The groups of layers with equal position and attention rules."""
    groups: dict[tuple[Any, ...], list[Layer]] = {}
    for layer in model.layers:
        values = dataclasses.astuple(dataclasses.replace(layer, index=0, position=()))
        groups.setdefault((*values, layer.position), []).append(layer)
    rows = []
    for layers in groups.values():
        one = layers[0]
        window = "" if one.left is None else f", window left {one.left}"
        rows.append([" ".join(filter(None, [one.part, _ranges([each.index for each in layers])])),
                     "\n".join(map(repr, one.position)) or "no position",
                     f"{one.heads} / {one.key_heads}", str(one.head_dim), one.visibility + window,
                     one.unsupported])
    columns = ["layers", "position", "heads / key heads", "head_dim", "attention", "unsupported"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    notes = "".join(f"<li>{escape(note)}</li>" for note in model.notes)
    html = _table(repr(model), columns, rows) + (f"<ul>{notes}</ul>" if notes else "")
    return _bundle(repr(model), html)


def results_bundle(results: LabResults) -> Bundle:
    """The answer of the lab, its chart and the table of results."""
    rows = results.rows()
    columns = [name for name in (rows[0] if rows else ())
               if name != "title" and any(row[name] is not None for row in rows)]
    cells = [[_text(row[name]) for name in columns] for row in rows]
    answer = "".join(f"<p>{escape(one)}</p>" for one in results.data["answer"])
    html = (answer + _image(results.plot()) +
            f"<details><summary>{len(rows)} rows</summary>{_table('', columns, cells)}</details>")
    if results.report.exists():
        html += f"<p>Report: <code>{escape(str(results.report))}</code></p>"
    return _bundle(f"{results.answer}\n{results!r}", html)


def picture_of(encoding: Encoding) -> Picture | None:
    """The chart of `gnomon plot` that shows exactly this spec; None if there is none.

    Specs with trained parameters have no chart: their values are not part of the spec.
    """
    from . import plot

    if encoding.parameters():
        return None
    name, fields = entry_of(encoding).name, vars(encoding)
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
    from ._program import run

    try:
        facts: dict[str, str] = json.loads(run("explain", name, "--json"))
        return facts
    except FileNotFoundError:
        return {}


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in ascending order as '0-3, 5, 7-31'."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1][1:] = [one]
        else:
            runs.append([one])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"{len(value)} values, {_text(value[0])} to {_text(value[-1])}"
    return "" if value is None else str(value)


def _bundle(text: str, html: str) -> Bundle:
    return {"text/plain": text, "text/html": html}


def _image(picture: Picture | None) -> str:
    """A static image; empty without vl-convert-python."""
    for kind, data in (picture.image() if picture is not None else {}).items():
        if kind == "image/svg+xml":
            return data.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
        return f'<img style="max-width:100%;width:640px" src="data:{kind};base64,{data}">'
    return ""


_CELL = 'style="text-align:left;vertical-align:top;white-space:pre-wrap"'


def _cells(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag} {_CELL}>{escape(one)}</{tag}>" for one in cells) + "</tr>"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    caption = f"<p><b>{escape(title)}</b></p>" if title else ""
    body = "".join(_cells("td", row) for row in rows)
    return (f'{caption}<div style="overflow-x:auto"><table><thead>{_cells("th", columns)}</thead>'
            f"<tbody>{body}</tbody></table></div>")


def _pairs(title: str, rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(text)}</td></tr>"
                   for name, text in rows)
    return (f'<p><b>{escape(title)}</b></p><div style="overflow-x:auto"><table><tbody>{body}'
            "</tbody></table></div>")
