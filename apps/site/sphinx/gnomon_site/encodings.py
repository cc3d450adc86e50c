"""A page for each encoding of the list, from what the program says of it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from .program import Program
from .tree import Entry, Tree

# Groups of the list, by the place where position enters (the field `enters`), in this order.
GROUPS = {
    "embeddings": "Added to embeddings",
    "queries and keys": "Rotation of queries and keys",
    "scores": "Bias on scores",
    "keys and values": "Vectors on keys and values",
    "": "Elsewhere",
}

# The questions of the verdicts, in the words of `gnomon check --help`.
QUESTIONS = {
    "unique": "positions differ",
    "distance": "only the distance counts",
    "beyond": "beyond the training length",
    "nearer": "nearer keys score higher",
    "order": "the order has an effect",
    "sides": "left and right are told apart",
    "cache": "decoding with a cache equals the full pass",
}


def group(entry: dict) -> str:
    """The group of an encoding that enters at several places is that of its last place."""
    last = entry["enters"].split(", ")[-1]
    return last if last in GROUPS else ""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def prose(text: str) -> str:
    """Escapes what is Markdown in a sentence of the program."""
    return re.sub(r"([\\`*_\[\]<>$#])", r"\\\1", text)


def with_links(source: str) -> str:
    """A source with the address of each arXiv number."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", prose(source))


def short_value(value: object) -> str:
    """A value of a spec in a line."""
    if isinstance(value, list) and len(value) > 8:
        first = ", ".join(json.dumps(item) for item in value[:3])
        return f"[{first}, ...] ({len(value)} numbers)"
    return json.dumps(value, ensure_ascii=False)


class Specs:
    """The classes of specs in bindings/python/gnomon/specs: names, modules, fields."""

    def __init__(self, folder: Path) -> None:
        self.classes: dict[str, tuple[str, str]] = {}  # kind: class, its module
        self.meanings: dict[str, dict[str, str]] = {}  # kind: field: meaning
        for file in sorted(folder.glob("[a-z]*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    self._add(node, file.stem)
        if not self.classes:
            raise ValueError(f"{folder} has no spec")

    def _add(self, node: ast.ClassDef, module: str) -> None:
        kinds = [
            statement.value.value
            for statement in node.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id == "kind"
            and isinstance(statement.value, ast.Constant)
        ]
        for kind in kinds:
            self.classes[kind] = (node.name, module)
            self.meanings[kind] = fields(ast.get_docstring(node) or "")


def fields(docstring: str) -> dict[str, str]:
    """The lines `name: meaning` of a docstring, with their continuation lines."""
    found: dict[str, str] = {}
    name = ""
    for line in docstring.splitlines():
        start = re.match(r"([a-z_]+): (.*)", line)
        if start and start[1] != "Source":
            name = start[1]
            found[name] = start[2]
        elif name and line.startswith("    "):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def spec_table(entry: dict, spec: dict, specs: Specs) -> str:
    kind = spec["kind"]
    meanings = specs.meanings.get(kind, {})
    lines = ["| field | value | meaning |", "|---|---|---|"]
    for name, value in spec.items():
        if name != "kind":
            meaning = cell(prose(meanings.get(name, "")))
            lines.append(f"| `{name}` | `{cell(short_value(value))}` | {meaning} |")
    if len(lines) == 2:
        return "It has no fields.\n"
    return "\n".join(lines) + "\n"


def page(entry: dict, check: dict, specs: Specs, tree: Tree, root: Path) -> str:
    name = entry["name"]
    spec = check["specification"]
    shape = check["shape"]
    guide = "../" + entry["page"].removeprefix("docs/")
    header = guide.removeprefix("../").removesuffix(".md")
    verdicts = "\n".join(
        f"| {question} | **{prose(check['verdicts'][key]['word'])}** |"
        f" {cell(prose(check['verdicts'][key]['sentence']))} |"
        for key, question in QUESTIONS.items()
    )
    class_name, module = specs.classes[spec["kind"]]
    reference = [f"[guide]({guide})"]
    if tree.has_page(f"api/cpp/{header}"):
        reference.append(f"[`gnomon/{header}.h`](../api/cpp/{header}.rst)")
    if tree.has_page(f"api/python/gnomon.specs.{module}"):
        page_of = f"../api/python/gnomon.specs.{module}.rst"
        reference.append(f"[`gnomon.{class_name}`]({page_of})")
    return f"""# {prose(entry["title"])}

{prose(entry["summary"][:1].upper() + entry["summary"][1:])}.

<div class="gnomon-explorer" data-encoding="{name}" data-language="en">
<noscript>The picture of this encoding needs JavaScript.</noscript>
</div>

```text
{entry["formula"]}
```

| | |
|---|---|
| name | `{name}` |
| position enters at | {prose(entry["enters"])} |
| source | {with_links(entry["source"])} |
| used by | {prose(entry["used_by"]) or "no released model that Gnomon knows"} |
| parameters | {prose(entry["parameters"])} |
| time | {prose(entry["time"])} |
| memory | {prose(entry["memory"])} |
| more | {", ".join(reference)} |

## Properties

The output of `gnomon check {name}`: width {shape["width"]}, {shape["heads"]} heads, trained on
{shape["trained"]} positions, measured at {shape["length"]}. The sentences are described on the
page of [properties](../analysis/properties.md).

| property | verdict | measured |
|---|---|---|
{verdicts}

## Fields of its spec

The usual settings for that shape. In Python: `gnomon.{class_name}`; in JSON:
`"kind": "{spec["kind"]}"`.

{spec_table(entry, spec, specs)}
## Commands

```sh
gnomon explain {name}
gnomon check {name} --verbose
{entry["plot"]}
```
"""


def index(encodings: list[dict]) -> str:
    parts = [
        "# Encodings\n",
        f"The {len(encodings)} encodings of `gnomon list`, by the place where position enters."
        " Each page has the formula, a picture that the library\ncomputes in the page, the users,"
        " the cost, and the measured properties.\n",
    ]
    for key, title in GROUPS.items():
        parts += [f"## {title}\n", "| encoding | summary | source |", "|---|---|---|"]
        parts += [
            f"| [{prose(e['title'])}]({e['name']}.md) | {cell(prose(e['summary']))} |"
            f" {cell(with_links(e['source']))} |"
            for e in encodings
            if group(e) == key
        ]
        parts.append("")
    return "\n".join(parts)


def add_pages(tree: Tree, program: Program, root: Path) -> list[Entry]:
    """Adds encodings/*.md. Returns their lines of the sidebar."""
    specs = Specs(root / "bindings/python/gnomon/specs")
    for entry in program.encodings:
        text = page(entry, program.checks[entry["name"]], specs, tree, root)
        tree.add(f"encodings/{entry['name']}.md", text)
    tree.add("encodings/all.md", index(program.encodings))
    entries = [Entry("encodings/all", "All encodings")]
    for key, title in GROUPS.items():
        slug = title.lower().replace(" ", "-")
        children = [Entry(f"encodings/{e['name']}") for e in program.encodings if group(e) == key]
        entries.append(Entry(title=title, href=f"encodings/all.html#{slug}", children=children))
    return entries
