"""Small results of the lab, as docs/lab/results.md describes them, for tests of its outputs."""

from __future__ import annotations

import json
import pathlib
from typing import Any

SETTINGS = {"preset": "default", "task": "text", "encodings": ["none", "rotary"], "extend": [],
            "texts": [], "tokens": "bytes", "train_length": 64, "eval_lengths": [64, 128],
            "layers": 2, "width": 16, "heads": 2, "seeds": [1, 2, 3], "steps": 30,
            "batch": 16, "learning_rate": 0.002, "position_rate": 10, "eval_segments": 48,
            "device": "cpu"}
Losses = dict[str, list[float | None | str]]


def text_results(losses: Losses, *, seeds: int = 3, margin: float = 0.01,
                 verdicts: dict[int, dict[str, str]] | None = None,
                 training: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    """Results of a text. losses: for each encoding one loss a length, None (diverged) or 'n/a'.

    verdicts: for each length those of encodings; default: worse. training: default: enough.
    """
    lengths = [64 << i for i in range(len(next(iter(losses.values()))))]

    def at(length: int, loss: Any) -> dict[str, Any]:
        if loss == "n/a":
            return {"length": length, "applicable": False}
        return {"length": length, "applicable": True, "tail_bits": loss,
                "uncertainty": None if loss is None else margin}

    encodings = [{"name": name, "title": name.title(), "seeds": seeds,
                  "training": (training or {}).get(name, "enough"),
                  "lengths": [at(*one) for one in zip(lengths, found, strict=True)]}
                 for name, found in losses.items()]
    rankings = [{"length": length, "order": [
        {"name": name, "title": name.title(), "bits": found[i],
         "verdict": (verdicts or {}).get(length, {}).get(name, "worse")}
        for name, found in losses.items() if found[i] != "n/a"]}
        for i, length in enumerate(lengths)]
    runs = [{"encoding": name, "seed": seed, "lengths": encodings[i]["lengths"],
             "curve": [{"step": 1, "train_bits": 8.0}, {"step": 2, "train_bits": 7.5 + seed,
                                                        "validation_bits": 7.25}]}
            for i, name in enumerate(losses) for seed in range(1, seeds + 1)]
    return {"gnomon": "0.1.0", "schema": 4, "date": "2026-01-02 03:04 UTC", "answer": ["One."],
            "settings": SETTINGS | {"encodings": list(losses),
                                     "seeds": list(range(1, seeds + 1))},
            "length_unit": "bytes",
            "metric": {"name": "bits per byte", "what": "the mean loss", "chance": "4.4 bits"},
            "texts": {"source": "novels", "split": "by book", "byte_frequency_bits": 4.4,
                      "train": [{"name": "Emma", "bytes": 1000}]},
            "runs_asked": len(runs), "stopped": False, "encodings": encodings,
            "rankings": rankings, "recommendations": [{"from": 64, "to": 64}], "runs": runs,
            "unfinished": []} | changes


def example_results(scores: dict[str, list[tuple[float, float, float]]], *, seeds: int = 1,
                    verdicts: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    """Results of a task with examples. scores: score, low and high for each range.

    verdicts: of encodings, in all ranges; default: worse.
    """
    ranges = [(1 + 20 * i, 20 * (i + 1)) for i in range(len(next(iter(scores.values()))))]
    data = text_results({name: [1.0] for name in scores}, seeds=seeds)
    for one in data["encodings"]:
        del one["lengths"]
        one["ranges"] = [
            {"from": begin, "to": end, "applicable": True, "score": score,
             "score_interval": {"low": low, "high": high}}
            for (begin, end), (score, low, high) in zip(ranges, scores[one["name"]], strict=True)]
    data["rankings"] = [{"from": begin, "to": end, "order": [
        {"name": name, "title": name.title(), "score": found[i][0],
         "verdict": (verdicts or {}).get(name, "worse")}
        for name, found in scores.items()]} for i, (begin, end) in enumerate(ranges)]
    data["settings"]["task"] = "copy"
    data["metric"]["name"] = "right answers"
    return data | {"length_unit": "letters"} | changes


def write(folder: pathlib.Path, data: Any) -> pathlib.Path:
    """Writes results.json to a folder, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def write_report(folder: pathlib.Path, figures: dict[str, Any]) -> None:
    """Writes a report as the lab does, with specs by their id."""
    parts = "".join(
        f'<figure>\n<h3>Title of {name} &amp; more</h3>\n<div class="picture" id="{name}"></div>\n'
        f'<script type="application/json" id="{name}-spec">{json.dumps(spec)}</script>\n'
        f"<figcaption>Caption &lt;of&gt; {name}</figcaption>\n</figure>\n"
        for name, spec in figures.items())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(
        f"<!DOCTYPE html><html><body><h3>No figure</h3>{parts}<script>ignored()</script></body>",
        encoding="utf-8")


LINE_SPEC = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "width": "container",
             "data": {"values": [{"x": 1, "y": 2, "name": "a"}, {"x": 2, "y": 3, "name": "a"}]},
             "usermeta": {"gnomon": {"letters": 18}}, "mark": "line",
             "encoding": {"x": {"field": "x", "type": "quantitative"},
                          "y": {"field": "y", "type": "quantitative"},
                          "color": {"field": "name", "type": "nominal"}}}
