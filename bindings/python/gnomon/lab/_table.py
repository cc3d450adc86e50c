"""The main table of results.json: the loss or score of each encoding by length."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = 4  # the layout of results.json
VERDICTS = ("best", "equivalent", "undecided", "worse", "described", "excluded")
MAY_BE_BEST = VERDICTS[:3]
DIVERGED, NOT_APPLICABLE = "diverged", "not applicable"
Row = dict[str, Any]


def field(of: Any, key: str, kind: type, where: str = "results.json") -> Any:
    """Returns an item of a JSON object. Raises ValueError unless it has the type `kind`.

    Counts are at most 2^53 - 1, as in JSON of other programs.
    """
    value: Any = of.get(key) if isinstance(of, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool) or (
            isinstance(value, int) and not 0 <= value < 2**53):
        raise ValueError(f"[lab] {where} must have {key}, of the type {kind.__name__}, got "
                         + repr(value)[:60])
    return value


def check_schema(data: Any) -> None:
    """Raises ValueError unless the data are results of this layout."""
    found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
    if found != SCHEMA:
        version = data.get("gnomon") if isinstance(data, Mapping) else None
        by = f" of version {version[:40]}" if isinstance(version, str) else ""
        raise ValueError(f"[lab] results.json must have the schema {SCHEMA}, got "
                         f"{str(found)[:60]}{by}")


def one_of(of: Any, key: str, allowed: Sequence[str]) -> str:
    """Returns an item of a JSON object that must be one of some words."""
    value = field(of, key, str)
    if value not in allowed:
        raise ValueError(f"[lab] {key} in results.json must be one of {', '.join(allowed)}, got "
                         + value[:60])
    return str(value)


def has_examples(data: Mapping[str, Any]) -> bool:
    """Whether the results are scores of examples. Others are losses of a text."""
    return any("from" in one for one in field(data, "rankings", list) if isinstance(one, Mapping))


def main_table(data: Mapping[str, Any]) -> list[Row]:
    """Returns a row for each encoding and length, in the order of results.json.

    Columns: encoding, title, seeds; length, or from and to; bits or score, and low and high of its
    95 % confidence interval; verdict of its ranking; state: '', 'diverged' or 'not applicable'.
    Fields that do not apply are None. Raises ValueError for data that the lab did not write.
    """
    examples = has_examples(data)
    verdicts = {}
    for ranking in data["rankings"]:
        place = _place(ranking, examples)
        for one in field(ranking, "order", list):
            verdicts[field(one, "name", str), place] = one_of(one, "verdict", VERDICTS)
    rows = []
    for one in field(data, "encodings", list):
        known = {"encoding": field(one, "name", str), "title": field(one, "title", str),
                 "seeds": field(one, "seeds", int)}
        for at in field(one, "ranges" if examples else "lengths", list):
            place = _place(at, examples)
            value, low, high, state = _measured(at, examples)
            rows.append(known | dict(zip(("from", "to") if examples else ("length",), place,
                                         strict=True))
                        | {"score" if examples else "bits": value, "low": low, "high": high,
                           "verdict": verdicts.get((known["encoding"], place)),
                           "state": state})
    return rows


def _place(at: Any, examples: bool) -> tuple[int, ...]:
    return tuple(field(at, key, int) for key in (("from", "to") if examples else ("length",)))


def _number(of: Mapping[str, Any], key: str) -> float | None:
    """A finite number; None for null, which the lab writes for other numbers."""
    value = of.get(key)
    if value is None and key in of:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"[lab] {key} in results.json must be a number or null, got "
                         + repr(value)[:60])
    return float(value) if math.isfinite(value) else None


def _measured(at: Mapping[str, Any], examples: bool
              ) -> tuple[float | None, float | None, float | None, str]:
    """The value, the ends of its interval, and its state."""
    if not field(at, "applicable", bool):
        return None, None, None, NOT_APPLICABLE
    if examples:
        value, interval = _number(at, "score"), field(at, "score_interval", dict)
        low, high = _number(interval, "low"), _number(interval, "high")
    else:
        value, margin = _number(at, "tail_bits"), _number(at, "uncertainty")
        known = value is not None and margin is not None
        low, high = (value - margin, value + margin) if known else (None, None)  # type: ignore
    return (None, None, None, DIVERGED) if value is None else (value, low, high, "")


def to_csv(rows: Sequence[Row]) -> str:
    """Returns rows of `main_table` as CSV, with numbers of full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def seeds_of(data: Mapping[str, Any]) -> list[int]:
    """Returns the finished seeds of each encoding."""
    return [field(one, "seeds", int) for one in field(data, "encodings", list)]


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def interval_kind(seeds: Sequence[int], asked: int, examples: bool) -> str:
    """Returns the interval of a table in words: interval_text() of the report.

    seeds: of each encoding. asked: the seeds of the session.
    """
    units = "examples" if examples else "test segments"
    wilson = ", at least that of Wilson for the examples" if examples else ""
    least, most = min([asked, *seeds]), max([1, *seeds])
    text = "the 95 % confidence interval of the mean over "
    if least > 1:
        return text + (counted(most, "seed") if least == most else "the seeds"
                       ) + f" and the {units}{wilson}"
    return text + (f"the {units} of one seed{wilson}; it does not contain the deviation between "
                   "seeds")


def _mean_over(seeds: Sequence[int]) -> str:
    if max(seeds) == 1:
        return "One seed"
    least = f"{min(seeds)} to " if min(seeds) < max(seeds) else ""
    return f"Mean over {least}{max(seeds)} seeds"


# The characters that LaTeX reads as commands, or prints as others in its default font.
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
            "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}",
            "`": r"\char96{}", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "’": "'",
            "–": r"\textendash{}", "—": r"\textemdash{}",
            "[": "{[}", "]": "{]}", "*": "{*}"}  # arguments of a line break before them
_SPECIAL |= {one: "\\" + one for one in "&%$#_{}"}


def escape_latex(text: str) -> str:
    """Returns text that LaTeX prints and never reads as a command.

    Letters with accents stay. Other characters outside ASCII become U+XXXX, because pdflatex stops
    at characters that its fonts lack.
    """
    def one(char: str) -> str:
        if char in _SPECIAL:
            return _SPECIAL[char]
        if " " <= char <= "~" or ("\u00c0" <= char <= "\u017f" and char.isalpha()):
            return char
        return " " if char.isspace() else f"U+{ord(char):04X}"

    return re.sub("-(?=-)", "-{}", "".join(map(one, text)))  # two hyphens would print as a dash


def to_latex(data: Mapping[str, Any], caption: str | None = None, label: str = "tab:lab") -> str:
    """Returns the table as LaTeX, as in `LabResults.to_latex`."""
    rows, examples = main_table(data), has_examples(data)
    if not rows:
        raise ValueError("[lab] results.json must have a finished run, got none")
    titles: dict[str, list[Row]] = {}
    for row in rows:
        titles.setdefault(row["encoding"], []).append(row)
    places = list(dict.fromkeys(_place(row, examples) for row in rows))
    varied = len({row["seeds"] for row in rows}) > 1
    unit = escape_latex(str(data.get("length_unit", "")))
    first, last = 2 + varied, 1 + varied + len(places)  # columns of lengths
    heads = ["", *([""] if varied else []),
             rf"\multicolumn{{{len(places)}}}{{c}}{{{'Length' if examples else 'Context length'}"
             + (f" ({unit})" if unit else "") + "}"]
    names = ["Encoding", *(["Seeds"] if varied else []),
             *(" to ".join(map(str, dict.fromkeys(place))) for place in places)]
    body = []
    for group in titles.values():
        cells = {_place(row, examples): _latex_cell(row, examples) for row in group}
        body.append([escape_latex(group[0]["title"]), *([str(group[0]["seeds"])] if varied else []),
                     *(cells.get(place, "n/a") for place in places)])
    lines = [*map(" & ".join, [heads, names]), *map(" & ".join, body)]
    lines = [one + r" \\" for one in lines]
    written = caption if caption is not None else escape_latex(_caption(data, rows))
    return "\n".join([
        "% Requires \\usepackage{booktabs}.", r"\begin{table}", r"  \centering",
        f"  \\caption{{{written}}}", f"  \\label{{{label}}}",
        f"  \\begin{{tabular}}{{l{'r' * (last - 1)}}}", r"    \toprule",
        "    " + lines[0], f"    \\cmidrule(lr){{{first}-{last}}}", "    " + lines[1],
        r"    \midrule", *("    " + one for one in lines[2:]), r"    \bottomrule",
        r"  \end{tabular}", r"\end{table}", ""])


def is_bold(row: Row) -> bool:
    """Whether the row may be the best of its length. A score of 0 is never the best."""
    return row["verdict"] in MAY_BE_BEST and not row["state"] and row.get("score") != 0


def _latex_cell(row: Row, examples: bool) -> str:
    if row["state"]:
        return "n/a" if row["state"] == NOT_APPLICABLE else r"\textit{diverged}"
    if examples:
        value, low, high = (100 * row[key] if row[key] is not None else None
                            for key in ("score", "low", "high"))
        text = f"{value:.1f}" + (f" [{low:.0f}, {high:.0f}]" if low is not None else "")
    else:
        text = f"{row['bits']:.3f}"
        if row["high"] is not None:
            text += rf" $\pm$ {row['high'] - row['bits']:.3f}"
    return rf"\textbf{{{text}}}" if is_bold(row) else text


def _caption(data: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The caption in words, from the data."""
    examples, metric = has_examples(data), field(data, "metric", dict)
    settings, seeds = field(data, "settings", dict), seeds_of(data)
    task = str(settings.get("task", "text"))
    name = field(metric, "name", str)
    said = [f"{name[:1].upper()}{name[1:]}{' in percent' if examples else ''} "
            f"by {'length' if examples else 'context length'}, task {task}: "
            f"{field(metric, 'what', str)}; {'higher' if examples else 'lower'} is better.",
            f"By chance: {field(metric, 'chance', str)}.",
            f"{_mean_over(seeds)}; {'brackets' if examples else '±'}: "
            f"{'' if examples else 'half of the width of '}"
            f"{interval_kind(seeds, len(field(settings, 'seeds', list)), examples)}."]
    if any(is_bold(row) for row in rows):
        said.append("Bold: those that may be the best of each length: not shown to be worse.")
    if any(row["state"] == NOT_APPLICABLE for row in rows):
        said.append("n/a: the encoding has no positions for this length.")
    if any(row["state"] == DIVERGED for row in rows):
        said.append("Diverged: the loss is not a finite number; never best.")
    said += [one for one in field(data, "answer", list)
             if isinstance(one, str) and one.startswith(("No advice", "Not ranked"))]
    if data.get("stopped"):
        said.append(f"Stopped early: {len(field(data, 'runs', list))} of "
                    f"{field(data, 'runs_asked', int)} runs are finished.")
    if data.get("shard"):
        said.append(f"Only shard {data['shard']} of the runs.")
    return " ".join(said)
