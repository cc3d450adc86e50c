"""Finds the places of C++ sources where one token can be changed.

The sources have the format of clang-format: a binary operator has a space on each side, `<` of a
template has none. Comments, strings, preprocessor lines, assertions, and lines that only change
the speed (`reserve`, prefetches) have no places.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Site:
    """One change: the text of a file from begin to end is replaced."""

    path: str
    begin: int
    end: int
    kind: str
    before: str
    after: str


def code_of(text: str) -> str:
    """Returns the text with comments, strings and preprocessor lines replaced by blanks."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
        r"(?<![0-9a-fA-Fx])'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*",
        re.DOTALL | re.MULTILINE,
    )
    return pattern.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), text)


BINARY = {
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=",
    "/=": "*=", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
}  # fmt: skip
WORDS = {
    "true": "false", "false": "true", "min": "max", "max": "min", "Min": "Max", "Max": "Min",
    "floor": "ceil", "ceil": "floor", "sin": "cos", "cos": "sin", "continue": "break",
    "Add": "Sub", "Sub": "Add", "MulAdd": "NegMulAdd", "NegMulAdd": "MulAdd", "Lt": "Le",
    "Le": "Lt", "Gt": "Ge", "Ge": "Gt", "MulSub": "MulAdd", "And": "Or", "Or": "And",
    "any_of": "all_of", "all_of": "any_of", "begin": "end", "front": "back", "back": "front",
}  # fmt: skip
EXCLUDED_LINE = re.compile(
    r"static_assert|\bassert\(|HWY_D?ASSERT|\.reserve\(|[Pp]refetch|PREFETCH|^\s*template\b|"
    r"^\s*using\b|^\s*(inline )?namespace\b|^\s*extern\b|GNOMON_ABI"
)
NUMBER = re.compile(
    r"(?<![\w.'\"])(0x[0-9a-fA-F']+|\d[\d']*\.?\d*(?:[eE][-+]?\d+)?)[fFuUlL]{0,3}(?![\w.'\"])"
)
# A call, an assignment or a jump on a line of its own.
STATEMENT = re.compile(
    r"^\s*(?:(?:[A-Za-z_](?:[\w.:\[\]()*+ -]|->)*?(?: [-+*/|&^%]?= [^;]*|\(.*\)|\+\+|--))|return|"
    r"\+\+\w[^;]*|--\w[^;]*);"
)
NOT_STATEMENT = re.compile(
    r"^\s*(?:const|constexpr|auto|static|return \S|throw|using|typedef|if|for|while|else|case|"
    r"default|template|struct|class|enum|friend|virtual|explicit|delete|inline|"
    r"[\w:]+(?:<[^=]*>)?[*&]* [*&]?\w+[ ({;])"
)


def _binary(path: str, code: str, add) -> None:
    for found in re.finditer(r" ([-+*/%&|<>=!]{1,2}) ", code):
        operator = found[1]
        if operator in BINARY:
            add(found.start(1), found.end(1), "operator", BINARY[operator])


def _words(path: str, code: str, add) -> None:
    for found in re.finditer(r"(?<![\w.])(?:std::|hn::|internal::)?(\w+)\b", code):
        if found[1] not in WORDS:
            continue
        follows = code[found.end(1) : found.end(1) + 1]
        if found[1] in ("true", "false"):
            add(found.start(1), found.end(1), "constant", WORDS[found[1]])
        elif found[1] == "continue" and follows == ";":
            add(found.start(1), found.end(1), "statement", "break")
        elif follows in ("(", "<"):
            add(found.start(1), found.end(1), "function", WORDS[found[1]])


def _numbers(path: str, code: str, add) -> None:
    for found in NUMBER.finditer(code):
        before = code[max(0, found.start() - 40) : found.start()]
        # An argument of a template, which is mostly a rank or a width.
        if re.search(r"<[^<>;(){}=]*$", before) and re.match(r"\s*[,>]", code[found.end() :]):
            continue
        digits = found[1].replace("'", "")
        suffix = found[0][len(found[1]) :]
        if digits.lower().startswith("0x"):
            changed = [hex(int(digits, 16) + 1)]
        elif re.fullmatch(r"\d+", digits):
            value = int(digits)
            changed = [str(value + 1)] + ([str(value - 1)] if value > 0 else [])
        else:
            value = float(digits)
            changed = [repr(value + 1), repr(value - 1) if value >= 1 else repr(value / 2 or 1.0)]
        for one in changed:
            add(found.start(), found.end(), "constant", one + suffix)


def _unary(path: str, code: str, add) -> None:
    for found in re.finditer(r"(?<=[(,=?:&|{\[ ])([-!])(?=[\w(])", code):
        if code[found.start() - 1] == " " and code[found.start() - 2] not in ",=?:&|({[<>+-*/n":
            continue
        add(found.start(1), found.end(1), "negation", "")
    for found in re.finditer(r"\b(?:if|while)(?: constexpr)? \(", code):
        if "constexpr" in found[0]:
            continue
        depth, at = 1, found.end()
        while depth and at < len(code):
            depth += {"(": 1, ")": -1}.get(code[at], 0)
            at += 1
        inside = code[found.end() : at - 1]
        if ";" in inside or re.search(r"\bauto\b|\w [*&]?\w+ = ", inside):
            continue
        add(found.end(), at - 1, "condition", None)
    for found in re.finditer(r"(?<![+-])(\+\+|--)(?![+-])", code):
        add(found.start(), found.end(), "operator", "--" if found[1] == "++" else "++")


def _statements(path: str, code: str, add) -> None:
    at, before = 0, ";"
    for line in code.split("\n"):
        plain = line.replace("\0", " ").strip()
        if before[-1] in ";{})" and STATEMENT.match(line) and not NOT_STATEMENT.match(line):
            if line.count("(") == line.count(")"):
                begin = at + len(line) - len(line.lstrip())
                add(begin, at + line.index(";") if plain == "return;" else at + line.rindex(";"),
                    "statement", "")
        before = plain or before
        at += len(line) + 1


def sites_of(root: pathlib.Path, path: str) -> list[Site]:
    """Returns the places of a file, in its order."""
    text = (root / path).read_text()
    code = code_of(text)
    starts = [0]
    for line in code.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    lines = text.split("\n")
    excluded = {i for i, line in enumerate(lines) if EXCLUDED_LINE.search(line)}
    found: dict[tuple[int, int, str], Site] = {}

    def add(begin: int, end: int, kind: str, after: str | None) -> None:
        line = code.count("\n", 0, begin)
        before = text[begin:end]
        if line in excluded or "\0" in code[begin : begin + 1]:
            return
        if after is None:
            after = f"!({before})"
        found[begin, end, after] = Site(path, begin, end, kind, before, after)

    for search in (_binary, _words, _numbers, _unary, _statements):
        search(path, code, add)
    return [found[key] for key in sorted(found)]


def all_sites(root: pathlib.Path, globs: list[str], left_out: re.Pattern[str]) -> list[Site]:
    """Returns the places of all files that match, in a fixed order."""
    paths = sorted({str(p.relative_to(root)) for one in globs for p in root.glob(one)})
    return [s for p in paths if not left_out.search(p) for s in sites_of(root, p)]
