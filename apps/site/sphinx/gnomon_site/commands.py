"""The reference of the program, from its own help."""

from __future__ import annotations

from .encodings import prose
from .program import Program
from .tree import Entry, Tree

# Guides of commands, under docs/.
GUIDES = {
    "lab": "lab/lab",
    "generate": "lab/models",
    "evaluate": "lab/models",
    "compare": "lab/statistics",
    "batches": "lab/run-format",
    "inspect": "model/description",
    "table": "embedding/table",
    "bias": "bias/form",
    "rotate": "rotary/rotary",
    "export": "integrations/onnx",
    "convert": "model/conversion",
    "resize": "embedding/resize",
    "plot": "plot/pictures",
    "check": "analysis/properties",
    "bench": "benchmarks",
}


def page(command: str, line: str, text: str, others: dict[str, str]) -> str:
    usage, _, rest = text.strip().partition("\n\n")
    named = [name for name in others if name != command and f"gnomon {name}" in text]
    guide = GUIDES.get(command)
    below = [f"[guide](../{guide}.md)"] if guide else []
    below += [f"[`gnomon {name}`]({name}.md)" for name in named]
    below.append("[all commands](index.md)")
    return f"""# gnomon {command}

{prose(line[:1].upper() + line[1:])}.

## Usage

```text
{usage}
```

## Description and options

```text
{rest}
```

See also: {", ".join(below)}.
"""


def add_pages(tree: Tree, program: Program) -> Entry:
    commands = program.commands
    rows = "\n".join(
        f"| [`gnomon {name}`]({name}.md) | {prose(line)} |" for name, line in commands.items()
    )
    for name, line in commands.items():
        tree.add(f"cli/{name}.md", page(name, line, program.run(name, "--help"), commands))
    tree.add(
        "cli/index.md",
        f"""# The program `gnomon`

The commands of version {program.version}. Each page is the output of `gnomon COMMAND --help`. The
[guide](program.md) shows sessions, formats and exit codes.

| command | |
|---|---|
{rows}

```text
{program.run("--help").strip()}
```
""",
    )
    children = [Entry(f"cli/{name}", f"gnomon {name}") for name in commands]
    return Entry("cli/index", "Program", children=children)
