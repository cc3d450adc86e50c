"""The charts of docs/benchmarks.md: Vega-Lite specs, converted to SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import vl_convert

import cases
from cases import Case

if TYPE_CHECKING:
    from report import Results

Spec = dict[str, Any]
PEER, OURS, ROOF, INK, SOFT = "#9aa5b1", "#0b5c9a", "#3fb57e", "#1b1e23", "#5a616c"
COLOURS = [ROOF, OURS, "#d65f00", "#c04fb4", "#6b2f20", "#12a0a8", "#7a8a1e", "#9aa5b1"]


def config() -> Spec:
    return {
        "background": "white",
        "font": "DejaVu Sans, Helvetica, Arial, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": SOFT,
            "titleColor": SOFT,
            "titleFontWeight": "normal",
            "gridColor": "#e6e8eb",
            "domain": False,
            "ticks": False,
            "labelFontSize": 11,
            "titleFontSize": 11,
        },
        "title": {"anchor": "start", "color": INK, "fontSize": 13, "subtitleColor": SOFT},
    }


def bars(results: Results, dtype: str, threads: int) -> Spec | None:
    """The share of the roof of each contender, for the pairing in which it is faster."""
    best: dict[str, tuple[float, float]] = {}
    for pairing in ("halves", "adjacent"):
        rows = results.timed(Case("rotate", 4096, dtype, pairing), threads)
        for name, row in rows.items():
            share = rows["roof"]["ratio"] / row["ratio"]
            best[name] = max(best.get(name, (0.0, 0.0)), (share, row["seconds"]))
    if not best:
        return None
    values = [
        {
            "name": name,
            "share": share,
            "label": f"{seconds * 1e3:.1f} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms",
            "kind": {"Gnomon": "ours", "roof": "roof"}.get(name, "peer"),
        }
        for name, (share, seconds) in best.items()
    ]
    y = {
        "field": "name",
        "sort": sorted(best, key=lambda name: -best[name][0]),
        "title": None,
        "axis": {"labelLimit": 320, "labelColor": INK, "labelPadding": 6},
    }
    x = {
        "field": "share",
        "type": "quantitative",
        "axis": {"title": "speed, as a share of the roof", "tickCount": 5, "format": ".1f"},
    }
    colour = {
        "field": "kind",
        "scale": {"domain": ["ours", "roof", "peer"], "range": [OURS, ROOF, PEER]},
        "legend": None,
    }
    return {
        "title": dtype,
        "width": 260,
        "height": {"step": 21},
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "bar", "height": {"band": 0.66}, "cornerRadiusEnd": 2},
                "encoding": {"x": x, "y": y, "color": colour},
            },
            {
                "mark": {
                    "type": "text",
                    "align": "left",
                    "dx": 5,
                    "fontSize": 11,
                    "color": SOFT,
                },
                "encoding": {"x": x, "y": y, "text": {"field": "label"}},
            },
        ],
    }


def rotation(results: Results) -> Spec | None:
    threads = results.threads[-1]
    parts = [bars(results, dtype, threads) for dtype in ("f32", "bf16")]
    if None in parts:
        return None
    return {
        "title": {
            "text": "Rotation of q and k, 4096 tokens",
            "subtitle": [
                f"32 and 8 heads of 128, {threads} threads; each contender with its "
                "faster pairing.",
                "roof: the same bytes read and written in place",
            ],
            "fontSize": 16,
            "offset": 14,
        },
        "hconcat": parts,
        "spacing": 40,
        "config": config(),
    }


def tokens_line(results: Results, shown: dict[str, str]) -> Spec | None:
    """Time per token by length, of Gnomon, the roof and a few peers."""
    threads = results.threads[-1]
    lengths = (1, 16, 512, 4096)
    values = [
        {
            "name": label,
            "tokens": tokens,
            "per": row["seconds"] / tokens * 1e6,
        }
        for tokens in lengths
        for name, row in results.timed(Case("rotate", tokens), threads).items()
        if (label := shown.get(name))
    ]
    if not {16, 4096} <= {value["tokens"] for value in values}:
        return None
    return lines(
        "From one token to 4096",
        f"f32, halves, 32 and 8 heads of 128, {threads} threads",
        values,
        list(shown.values()),
        "microseconds per token",
    )


def attention_line(results: Results, shown: dict[str, str]) -> Spec | None:
    """Time per token by length, forward pass."""
    threads = results.threads[-1]
    listed = [case for case in cases.attentions() if not case.trains]
    values = [
        {"name": label, "tokens": case.tokens, "per": row["seconds"] / case.tokens * 1e6}
        for case in listed
        for name, row in results.timed(case, threads).items()
        if (label := shown.get(name))
    ]
    if len({value["tokens"] for value in values}) < 2:
        return None
    return lines(
        "Causal attention with ALiBi",
        f"forward, f32, 8 heads of 64, {threads} threads",
        values,
        list(shown.values()),
        "microseconds per token",
    )


def lines(
    title: str, subtitle: str, values: list[dict[str, Any]], order: list[str], measure: str
) -> Spec:
    """`per` by `tokens`, with a line for each of `order`. Both axes are logarithmic."""
    lengths = sorted({value["tokens"] for value in values})
    colour = {
        "field": "name",
        "scale": {"domain": order, "range": COLOURS[: len(order)]},
        "legend": {"title": None, "orient": "right", "symbolType": "stroke"},
    }
    return {
        "title": {"text": title, "subtitle": subtitle, "fontSize": 16, "offset": 14},
        "data": {"values": values},
        "width": 480,
        "height": 320,
        "mark": {"type": "line", "point": {"size": 30}, "strokeWidth": 2},
        "encoding": {
            "x": {
                "field": "tokens",
                "type": "quantitative",
                "scale": {"type": "log", "domain": [lengths[0], lengths[-1]]},
                "axis": {
                    "values": lengths,
                    "title": "tokens",
                    "grid": False,
                    "format": "d",
                },
            },
            "y": {
                "field": "per",
                "type": "quantitative",
                "scale": {"type": "log"},
                "axis": {"title": measure, "tickCount": 5, "format": "~g"},
            },
            "color": colour,
        },
        "config": config(),
    }


SHOWN = {
    "roof": "roof",
    "Gnomon": "Gnomon",
    "Numba, the plain loop in place": "Numba loop",
    "vLLM for CPU": "vLLM for CPU",
    "ONNX Runtime, opset 23": "ONNX Runtime",
    "OpenVINO": "OpenVINO",
    "PyTorch compiled, Hugging Face's code": "PyTorch compiled",
    "PyTorch eager, Hugging Face's code": "PyTorch eager",
}

ATTENDING = {
    "roof": "roof",
    "Gnomon": "Gnomon",
    "PyTorch FlexAttention": "FlexAttention",
    "PyTorch SDPA, dense bias": "PyTorch SDPA",
    "PyTorch eager, textbook": "PyTorch eager",
    "PyTorch 1.13 eager, textbook": "PyTorch 1.13 eager",
    "OpenVINO, SDPA": "OpenVINO",
    "ggml, flash_attn_ext": "ggml",
}


def draw(results: Results, page: Path) -> list[tuple[str, str]]:
    """Writes the charts beside the page. Returns the title and file of each."""
    drawn = []
    for title, name, spec in (
        ("Speed of rotation by contender", "benchmarks.svg", rotation(results)),
        ("Time per token by length", "benchmarks-tokens.svg", tokens_line(results, SHOWN)),
        (
            "Attention with ALiBi by length",
            "benchmarks-attention.svg",
            attention_line(results, ATTENDING),
        ),
    ):
        if spec:
            (page.parent / name).write_text(vl_convert.vegalite_to_svg(spec))
            drawn.append((title, name))
    return drawn
