"""The results of many sessions as one page, with a table for each group of equal settings.

The results.json files are untrusted: their number, sizes and types are checked, all text is
escaped, and the page has no script.
"""

from __future__ import annotations

import json
import os
import pathlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ._leaderboard_style import STYLE
from ._table import (
    DIVERGED,
    Row,
    check_schema,
    counted,
    field,
    has_examples,
    interval_kind,
    main_table,
    one_of,
)

MOST_FILES, LARGEST_FILE = 2000, 64 << 20  # bytes
MOST_ROWS, MOST_LENGTHS, MOST_LETTERS = 5000, 64, 200
LEAST_SEEDS = 3  # fewer do not show how results differ between seeds (apps/lab/statistics)
# The values of `training`, and the reasons why such a model is not ranked.
TRAINING = {"enough": "", "unconverged": "not trained enough", "at_chance": "at chance",
            "diverged": "diverged"}
# Settings that do not change the result of a run with its seed. `texts` has paths: the object
# `texts` of results.json has the bytes and statistics of the texts.
_OTHER_SETTINGS = ("encodings", "extend", "seeds", "preset")


class _Entry(NamedTuple):
    """One encoding of one session."""

    session: str  # path of the folder
    date: str
    title: str
    seeds: int
    cells: dict[tuple[int, ...], Row]
    reason: str  # why it is not ranked; '' if it is


class _Group(NamedTuple):
    """Entries with the same settings, texts and metric."""

    data: dict[str, Any]  # of its first session
    entries: list[_Entry]


def leaderboard(folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
                out: str | os.PathLike[str]) -> pathlib.Path:
    """Writes the results of many sessions to one HTML page. Returns its path.

    folders: a folder, or several; every results.json in them and below is read.
    out: a new file that ends in .html.

    Only sessions with the same settings, texts, metric and version of the lab share a table. Each
    has the encodings in the order of their result at the first length, with 95 % confidence
    intervals and the ranks that these allow. Models with fewer than 3 seeds, and those that
    diverged or are not trained enough, are listed below them, without a rank.
    Raises ValueError if there are no results, or `out` exists.
    """
    out = pathlib.Path(out)
    if out.suffix != ".html" or out.exists():
        raise ValueError(f"[lab] out must be a new file that ends in .html, got {out}")
    roots = [folders] if isinstance(folders, (str, os.PathLike)) else list(folders)
    groups: dict[str, _Group] = {}
    left_out: list[tuple[str, str]] = []
    rows = 0
    for path in _files(map(pathlib.Path, roots)):
        try:
            data = _read(path)
            key, entries = _key(data), _entries(path.parent, data)
            if rows + len(entries) > MOST_ROWS:
                raise ValueError(f"[lab] a page has at most {MOST_ROWS} rows")
        except (ValueError, RecursionError) as error:
            left_out.append((str(path), str(error)))
            continue
        rows += len(entries)
        groups.setdefault(key, _Group(data, [])).entries.extend(entries)
    if not groups:
        raise ValueError("[lab] folders must have a results.json of the lab, got "
                         + (f"{left_out[0][0]}: {left_out[0][1]}" if left_out else
                            ", ".join(map(str, roots))))
    out.write_text(_page(list(groups.values()), left_out, out.parent), encoding="utf-8")
    return out


def _files(roots: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    """Every results.json below the folders, in the order of names, without following links."""
    count = 0
    for root in roots:
        if not root.is_dir():
            raise ValueError(f"[lab] folders must be folders, got {root}")
        for folder, below, names in os.walk(root):
            below.sort()
            path = pathlib.Path(folder) / "results.json"
            if path.name in names and not path.is_symlink() and path.is_file():
                count += 1
                if count > MOST_FILES:
                    raise ValueError(f"[lab] folders must have at most {MOST_FILES} results.json, "
                                     "got more")
                yield path


def _read(path: pathlib.Path) -> dict[str, Any]:
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"[lab] results.json must have at most {LARGEST_FILE} bytes, got {size}")
    data = json.loads(path.read_text(encoding="utf-8"))
    check_schema(data)
    if data.get("sizes"):
        raise ValueError("[lab] models of several sizes: the folder of each has its own results")
    return dict(data)


def _key(data: Mapping[str, Any]) -> str:
    """What sessions of one table have in common, as JSON."""
    settings = {key: value for key, value in field(data, "settings", dict).items()
                if key not in _OTHER_SETTINGS}
    texts = field(data, "texts", dict)
    if texts.get("train"):
        settings.pop("texts", None)
    return json.dumps([settings, texts, field(data, "metric", dict), data.get("length_unit"),
                       field(data, "gnomon", str)], sort_keys=True)


def _entries(folder: pathlib.Path, data: Mapping[str, Any]) -> list[_Entry]:
    examples, cells = has_examples(data), dict[str, dict[tuple[int, ...], Row]]()
    rows = main_table(data)
    if len(rows) > MOST_LENGTHS * max(1, len(data["encodings"])):
        raise ValueError(f"[lab] results.json must have at most {MOST_LENGTHS} lengths, got more")
    for row in rows:
        place = (row["from"], row["to"]) if examples else (row["length"],)
        cells.setdefault(row["encoding"], {})[place] = row
    reason = ""
    if data.get("shard"):
        reason = f"shard {data['shard']} of a session"
    elif field(data, "stopped", bool):
        reason = "stopped before the end"
    trained = {one["name"]: TRAINING[one_of(one, "training", list(TRAINING))]
               for one in data["encodings"]}
    entries = []
    for name, places in cells.items():
        first = next(iter(places.values()))
        diverged = any(row["state"] == DIVERGED for row in places.values())
        few = first["seeds"] < LEAST_SEEDS and f"only {counted(first['seeds'], 'seed')}"
        own = (diverged and TRAINING["diverged"]) or trained[name] or reason or few or ""
        entries.append(_Entry(str(folder), field(data, "date", str), first["title"],
                              first["seeds"], places, own))
    return entries


def _bounds(row: Row, examples: bool) -> tuple[float, float]:
    """The ends of the interval, from the worse to the better end as numbers that rise."""
    value = row["score" if examples else "bits"]
    low, high = (value if row[key] is None else row[key] for key in ("low", "high"))
    return (low, high) if examples else (-high, -low)


def _ranks(rows: Sequence[Row], examples: bool) -> list[tuple[int, int]]:
    """The best and the last rank of each row that the intervals allow."""
    bounds = [_bounds(row, examples) for row in rows]
    return [(1 + sum(low > own_high for low, _ in bounds),
             len(rows) - sum(high < own_low for _, high in bounds)) for own_low, own_high in bounds]


def _shown(text: Any) -> str:
    """Escaped text of limited length. Controls and marks of direction become \\uXXXX."""
    letters = str(text)
    cut = letters[:MOST_LETTERS] + ("…" if len(letters) > MOST_LETTERS else "")
    return escape("".join(f"\\u{ord(one):04x}" if unicodedata.category(one)[0] == "C" else one
                          for one in cut))


def _cell(row: Row | None, examples: bool) -> str:
    if row is None:
        return "<td></td>"
    if row["state"]:
        return f"<td class=muted>{'diverged' if row['state'] == DIVERGED else 'n/a'}</td>"
    low, high = row["low"], row["high"]
    known = low is not None and high is not None
    if examples:
        text = f"{100 * row['score']:.1f}"
        interval = f"{100 * low:.0f} to {100 * high:.0f}" if known else ""
    else:
        text = f"{row['bits']:.3f}" if abs(row["bits"]) < 1e6 else f"{row['bits']:.2e}"
        interval = f"± {high - row['bits']:.3f}" if known else ""
    return f"<td>{text} <small>{_shown(interval)}</small></td>"


def _table(group: _Group, base: pathlib.Path) -> str:
    examples = has_examples(group.data)
    places = sorted({place for one in group.entries for place in one.cells})[:MOST_LENGTHS]
    first = places[0] if places else ()
    value = "score" if examples else "bits"

    def order(one: _Entry) -> tuple[Any, ...]:
        row = one.cells.get(first)
        number = row[value] if row and row[value] is not None else None
        best = float("inf") if number is None else -number if examples else number
        return bool(one.reason), best, one.title, one.session

    entries = sorted(group.entries, key=order)
    ranked = [one for one in entries
              if not one.reason and one.cells.get(first, {}).get(value) is not None]
    ranks = dict(zip(map(id, ranked), _ranks([one.cells[first] for one in ranked], examples),
                     strict=True))
    lines = []
    for one in entries:
        best, last = ranks.get(id(one), (0, 0))
        rank = str(best) if best == last else f"{best} to {last}"
        if not best:
            rank = f"<small>{_shown(one.reason or 'no result')}</small>"
        session = _shown(os.path.relpath(one.session, base))
        lines.append(f"<tr{' class=muted' if one.reason else ''}><th scope=row>{_shown(one.title)}"
                     f"</th><td>{rank}</td><td>{one.seeds}</td>"
                     + "".join(_cell(one.cells.get(place), examples) for place in places)
                     + f"<td class=text>{session}</td><td class=text>{_shown(one.date)}</td></tr>")
    heads = "".join(f"<th scope=col>{' to '.join(map(str, dict.fromkeys(place)))}</th>"
                    for place in places)
    at = " to ".join(map(str, dict.fromkeys(first)))
    return ("<div class=wide tabindex=0><table><thead><tr><th scope=col>encoding</th>"
            f"<th scope=col>rank at {at}</th><th scope=col>seeds</th>{heads}"
            "<th scope=col class=text>session</th><th scope=col class=text>date</th></tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table></div>")


def _section(group: _Group, base: pathlib.Path) -> str:
    data, examples = group.data, has_examples(group.data)
    settings, metric, texts = data["settings"], data["metric"], data["texts"]
    sessions = len({one.session for one in group.entries})
    seeds = [one.seeds for one in group.entries if not one.reason] or [
        one.seeds for one in group.entries]
    intervals = interval_kind(seeds, max(seeds, default=1), examples)
    said = {key: settings.get(key, "?") for key in (
        "layers", "width", "heads", "steps", "batch", "learning_rate", "position_rate",
        "train_length", "device")}
    terms = {"Metric": f"{metric.get('name')}: {metric.get('what')}",
             "By chance": metric.get("chance"),
             "Data": f"{texts.get('source')}, {texts.get('split')}",
             "Training": "{steps} steps of {batch}, learning rate {learning_rate}, {position_rate} "
                         "times that for encodings, length {train_length}, on {device}"
                         .format(**said)
                         + f", tokens: {settings.get('tokens', 'bytes')}",
             "Intervals": intervals,
             "Version": f"gnomon {data['gnomon']}"}
    heading = (f"Task {settings.get('task', 'text')}, {metric.get('name')}: "
               "{layers} layers, width {width}, {heads} heads, {steps} steps".format(**said))
    listed = "".join(f"<dt>{key}</dt><dd>{_shown(value)}</dd>" for key, value in terms.items())
    better = "higher is better" if examples else "lower is better"
    return (f"<section><h2>{_shown(heading)}</h2><p>{len(group.entries)} rows of {sessions} "
            f"session{'s' * (sessions != 1)} by length in {_shown(data.get('length_unit', ''))}; "
            f"{better}{', in percent' if examples else ''}.</p>"
            f"{_table(group, base)}<details><summary>Settings</summary><dl>{listed}</dl></details>"
            "</section>")


def _page(groups: Sequence[_Group], left_out: Sequence[tuple[str, str]], base: pathlib.Path) -> str:
    groups = sorted(groups, key=lambda one: -sum(not each.reason for each in one.entries))
    missing = "".join(
        f"<li><code>{_shown(os.path.relpath(path, base))}</code>: {_shown(reason)}</li>"
        for path, reason in left_out)
    tail = f"<h2>Not shown</h2><ul>{missing}</ul>" if missing else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Leaderboard of position encodings</title><style>{STYLE}</style></head><body><main>"
        "<h1>Leaderboard of position encodings</h1>"
        "<p>Each table has sessions of the lab with the same settings, texts, metric and version. "
        "Its rows are in the order of the first length. A rank is a range: from 1 + the number of "
        "rows whose whole 95 % confidence interval is better, to the number of rows without those "
        "whose whole interval is worse. The intervals hold for each row alone, not for all rows "
        "together. The report of a session compares runs with the same seed, and can separate "
        f"more. Gray rows have no rank: they have fewer than {LEAST_SEEDS} seeds, diverged, are "
        "not trained enough, or are not complete.</p>\n"
        + "\n".join(_section(one, base) for one in groups) + tail + "</main></body></html>\n")
