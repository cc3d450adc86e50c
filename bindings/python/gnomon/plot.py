"""Charts of position encodings, as Vega-Lite specs.

    import gnomon.plot

    gnomon.plot.similarity("sinusoidal", length=128)   # shows itself in a notebook
    gnomon.plot.grid("vit").save("vit.html")           # a page that needs no network
    gnomon.plot.rotary(base=500000.0).save("decay.svg")   # requires gnomon[plot]

The charts of encodings are those of `gnomon plot`: the program in this package computes them, and
options have the names of the program. `lines` and `heatmap` draw the caller's numbers.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import pathlib
import shlex
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._program import run

__all__ = ["Picture", "attention", "bias", "grid", "heatmap", "lines", "page", "rotary",
           "shuffled", "similarity", "table", "wavelengths"]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
# Fonts of equal widths, so that a browser draws the SVG of vl-convert without overlaps.
_FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
DEFAULT_WIDTH = 640  # px, of a spec whose width is "container"


class Picture:
    """A chart: a Vega-Lite spec with a title and a caption. Notebooks draw it."""

    def __init__(self, spec: Mapping[str, Any], *, title: str = "", caption: str = "",
                 config: dict[str, Any] | None = None, command: str = "") -> None:
        """spec: a Vega-Lite spec without a title. config: its colours and fonts outside a page.

        command: the command that draws the same chart, or ''.
        """
        self._spec, self.config = dict(spec), config
        self.title, self.caption, self._command = title, caption, command

    @property
    def spec(self) -> dict[str, Any]:
        """The Vega-Lite spec with title, caption, width and colours, for any tool that draws it."""
        spec = dict(self._spec)
        if spec.get("width") == "container":
            spec["width"] = DEFAULT_WIDTH
            spec.pop("autosize", None)
        if self.config is not None:
            spec["config"] = self.config | {"font": _FONT}
        if self.title or self.caption:
            subtitle = textwrap.wrap(self.caption.replace("`", "'"), 100)
            spec["title"] = {"text": self.title, "anchor": "start", "fontSize": 15,
                             "subtitle": subtitle, "subtitleFontSize": 12, "subtitlePadding": 6,
                             "offset": 14}
        return spec

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file. Its extension selects the format.

        .html: a page that needs no network (0.9 MB); .json: the spec; .svg, .pdf and .png (2 pixels
        per px): require vl-convert-python (`pip install gnomon[plot]`). Raises ValueError for
        another extension, ImportError without that package.
        """
        path = pathlib.Path(path)
        if path.suffix == ".html":
            page([self], path)
        elif path.suffix == ".json":
            path.write_text(json.dumps(self.spec) + "\n", encoding="utf-8")
        elif path.suffix == ".svg":
            path.write_text(self.to_svg(), encoding="utf-8")
        elif path.suffix == ".pdf":
            path.write_bytes(_vl_convert().vegalite_to_pdf(self.spec, allowed_base_urls=[]))
        elif path.suffix == ".png":
            path.write_bytes(_vl_convert().vegalite_to_png(self.spec, scale=2,
                                                           allowed_base_urls=[]))
        else:
            raise ValueError(f"[plot] path must end in .html, .pdf, .png, .svg, .json, got {path}")

    def to_svg(self) -> str:
        """Returns the chart as SVG. Raises ImportError without vl-convert-python."""
        svg: str = _vl_convert().vegalite_to_svg(self.spec, allowed_base_urls=[])
        return svg

    def untitled(self) -> Picture:
        """Returns the chart without its title and caption, for a document that has its own."""
        return Picture(self._spec, config=self.config, command=self._command)

    def to_altair(self) -> Any:
        """Returns the chart as an altair.Chart. Raises ImportError without altair."""
        import altair

        return altair.Chart.from_dict(self.spec)

    def figure(self) -> dict[str, Any]:
        """Returns the figure that `gnomon plot page --figures` reads a list of."""
        return {"title": self.title, "caption": self.caption, "spec": self._spec,
                "command": self._command}

    def image(self) -> dict[str, str]:
        """Returns a static image by its MIME type; empty without vl-convert-python.

        SVG, or PNG in base64 for a spec of more than 20 KB: the SVG of a heat map of 128 x 128
        cells has 3.7 MB.
        """
        if importlib.util.find_spec("vl_convert") is None:
            return {}
        if len(json.dumps(self._spec)) <= 20_000:
            return {"image/svg+xml": self.to_svg()}
        png = _vl_convert().vegalite_to_png(self.spec, scale=1, allowed_base_urls=[])
        return {"image/png": base64.b64encode(png).decode("ascii")}

    def __repr__(self) -> str:
        return f"Picture({self.title!r})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"application/vnd.vegalite.v5+json": self.spec, **self.image(),
                "text/plain": "\n".join([self.title, *textwrap.wrap(self.caption, 80)])}


def page(pictures: Iterable[Picture], path: str | os.PathLike[str], *, title: str = "") -> None:
    """Writes pictures to one HTML page, which needs no network.

    path: ends in .html. title: of the page; default: that of the only picture, or "Charts".
    Raises ValueError if there are no pictures or a spec is no Vega-Lite spec.
    """
    figures = [one.figure() for one in pictures]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "figures.json"
        file.write_text(json.dumps(figures), encoding="utf-8")
        titled = ["--title", title] if title else []
        run("plot", "page", "--figures", str(file), *titled, "-o", os.fspath(path))


def table(kind: str = "sinusoidal", *, dim: int | None = None, length: int | None = None,
          parameters: Any = None) -> Picture:
    """Draws the table of an absolute encoding as a heat map, [length, dim].

    kind: an encoding that is added to the embeddings, or 'vit', a small trained ViT.
    dim: channels, default 128. length: positions, default 50.
    parameters: instead of these, a trained table: an array [T, C] or the path of a .npy file.
    """
    return _draw("table", kind, dim=dim, length=length, parameters=parameters)


def similarity(kind: str = "sinusoidal", *, dim: int | None = None, length: int | None = None,
               parameters: Any = None) -> Picture:
    """Draws the cosine similarity of all pairs of positions of a table, as in `table`."""
    return _draw("similarity", kind, dim=dim, length=length, parameters=parameters)


def grid(kind: str = "sinusoidal", *, grid: tuple[int, int] | None = None,
         cells: Sequence[tuple[int, int]] | None = None, dim: int | None = None,
         parameters: Any = None) -> Picture:
    """Draws the cosine similarity of chosen cells of a grid with all cells.

    kind: 'sinusoidal' (2-D, as in MAE) or 'vit', the trained table of a small ViT of 8 x 8 patches.
    grid: (height, width) in cells, default (16, 32). cells: (y, x) of each chosen cell.
    dim: channels, default 128.
    parameters: a trained table [height * width, C], as an array or the path of a .npy file.
    Source of the picture: Dosovitskiy et al. 2020, arXiv:2010.11929, figure 7.
    """
    return _draw("grid", kind, dim=dim, parameters=parameters,
                 grid=grid and f"{grid[0]}x{grid[1]}",
                 cells=cells and ";".join(f"{y},{x}" for y, x in cells))


def rotary(*, dim: int | None = None, length: int | None = None,
           base: float | None = None) -> Picture:
    """Draws rotary scores by distance: q and k of ones, and random q and k.

    dim: rotated elements R, default 128. length: distances, 2 to 65536, default 512.
    base: `rope_theta`, default 10000. Source: Su et al. 2021, arXiv:2104.09864, section 3.4.3.
    """
    return _draw("rotary", "", dim=dim, length=length, base=base)


def wavelengths(*, dim: int | None = None, length: int | None = None,
                base: float | None = None) -> Picture:
    """Draws the wavelength of each rotary pair, and a context length.

    dim: rotated elements R, default 128. length: of the context in positions, default 4096.
    base: `rope_theta`, default 10000.
    """
    return _draw("wavelengths", "", dim=dim, length=length, base=base)


def bias(kind: str = "alibi", *, heads: int | None = None, length: int | None = None,
         parameters: Any = None) -> Picture:
    """Draws the bias by distance and head, or by the offset in a window (Swin).

    kind: an encoding that adds a bias to the scores. heads: H, default 8. length: distances,
    default 128. parameters: the trained matrix, as an array or the path of a .npy file; without
    it, trained biases have random values, and the caption says so.
    """
    return _draw("bias", kind, heads=heads, length=length, parameters=parameters)


def attention(kind: str = "rotary", *, dim: int | None = None,
              length: int | None = None) -> Picture:
    """Draws attention weights of random contents, without and with position.

    kind: any encoding. dim: head dimension D, default 32. length: tokens, 2 to 256, default 32.
    """
    return _draw("attention", kind, dim=dim, length=length)


def shuffled(kind: str = "rotary", *, dim: int | None = None) -> Picture:
    """Draws attention weights of a text and of its words in another order.

    kind: any encoding. dim: head dimension D, default 32.
    """
    return _draw("shuffled", kind, dim=dim)


def lines(x: Any, series: Mapping[str, Any], *, x_title: str = "", y_title: str = "",
          title: str = "", caption: str = "", log_x: bool = False, log_y: bool = False,
          points: bool = False) -> Picture:
    """Draws series of numbers over a common axis.

    x: [N] numbers. series: name to [N] numbers; None and NaN are gaps.
    log_x, log_y: logarithmic axes of base 2 and 10. points: mark each value.
    Raises ValueError if a series has another length than x.
    """
    xs = _numbers(x)
    values = []
    for name, given in series.items():
        ys = _numbers(given)
        if len(ys) != len(xs):
            raise ValueError(
                f"[plot] series must have {len(xs)} values, as x, got {len(ys)} in {name}")
        values += [{"x": a, "y": b, "name": name} for a, b in zip(xs, ys, strict=True)]
    x_scale = {"type": "log", "base": 2} if log_x else {"zero": False, "nice": False}
    y_scale = {"type": "log"} if log_y else {"zero": False}
    color: dict[str, Any] = {"field": "name", "type": "nominal", "title": None,
                             "scale": {"domain": list(series)},
                             "legend": {"orient": "bottom"} if len(series) > 1 else None}
    x_axis = {"values": xs} if len(xs) <= 8 else {}
    spec = {"$schema": _SCHEMA, "width": "container", "height": 280,
            "autosize": {"type": "fit-x", "contains": "padding"}, "data": {"values": values},
            "mark": {"type": "line", "strokeWidth": 2, "point": points},
            "encoding": {"x": {"field": "x", "type": "quantitative", "title": x_title,
                               "scale": x_scale, "axis": x_axis},
                         "y": {"field": "y", "type": "quantitative", "title": y_title,
                               "scale": y_scale},
                         "color": color}}
    return Picture(spec, title=title, caption=caption, config=_config())


def heatmap(values: Any, *, x_title: str = "", y_title: str = "", value_title: str = "value",
            title: str = "", caption: str = "", centre: float | None = None) -> Picture:
    """Draws a matrix [rows, columns], row 0 at the top.

    centre: the value at which two hues meet; default: one hue scale.
    Raises ValueError if the rows have different lengths or there are more than 100,000 cells.
    """
    rows = [_numbers(row) for row in values]
    if len({len(row) for row in rows}) != 1 or sum(map(len, rows)) > 100_000:
        raise ValueError("[plot] values must be a matrix of at most 100,000 cells, got "
                         f"{len(rows)} rows of {sorted({len(row) for row in rows})} numbers")
    cells = [{"r": r, "c": c, "v": v} for r, row in enumerate(rows) for c, v in enumerate(row)]
    scale: dict[str, Any] = {"scheme": "viridis"}
    if centre is not None:
        reach = max((abs(v - centre) for row in rows for v in row if v is not None), default=0) or 1
        scale = {"scheme": "blueorange", "domain": [centre - reach, centre + reach]}
    count, width = len(rows), 400 if len(rows) == len(rows[0]) else 560
    cell = max(1, width // len(rows[0]))  # px; whole numbers, so that there are no gaps
    height = cell * count if 120 <= cell * count <= 400 else max(1, 280 // count) * count

    def axis(field: str, axis_title: str, count: int) -> dict[str, Any]:
        step = next(s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, count) if count / s <= 16)
        return {"field": field, "type": "ordinal", "title": axis_title,
                "axis": {"values": list(range(0, count, step)), "labelAngle": 0}}

    spec = {"$schema": _SCHEMA, "width": cell * len(rows[0]), "height": height,
            "data": {"values": cells}, "mark": "rect",
            "encoding": {"x": axis("c", x_title, len(rows[0])),
                         "y": axis("r", y_title, count),
                         "color": {"field": "v", "type": "quantitative", "title": value_title,
                                   "scale": scale}}}
    return Picture(spec, title=title, caption=caption, config=_config())


def _config() -> dict[str, Any]:
    return {"background": "#ffffff", "view": {"stroke": None},
            "axis": {"titleFontWeight": "normal"}, "legend": {"titleFontWeight": "normal"}}


def _numbers(values: Any) -> list[float | None]:
    """The numbers of a sequence or array; NaN and infinity, which JSON lacks, become None."""
    numbers = [None if one is None else float(one) for one in values]
    return [one if one is not None and abs(one) < float("inf") else None for one in numbers]


def _draw(what: str, kind: str, *, parameters: Any = None, **options: Any) -> Picture:
    words = [kind] if kind and (parameters is None or what == "bias") else []
    if parameters is None and what == "grid" and kind == "sinusoidal":
        words = []
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", repr(value) if isinstance(value, float) else str(value)]
    if parameters is None or isinstance(parameters, (str, os.PathLike)):
        given = [] if parameters is None else ["--parameters", os.fspath(parameters)]
        command = shlex.join(["gnomon", "plot", what, *words, *given, "-o", f"{what}.html"])
        figure = json.loads(run("plot", what, *words, *given, "--json"))
        return Picture(**figure, command=command)
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "parameters.npy")
        np.save(file, np.ascontiguousarray(parameters))
        figure = json.loads(run("plot", what, *words, "--parameters", file, "--json"))
    figure["title"] = figure["title"].replace(file, "Given table")
    return Picture(**figure)


def _vl_convert() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError("[plot] PDF, PNG and SVG must be drawn by vl-convert-python (pip "
                          "install gnomon[plot]), got no such package") from error
    return vl_convert
