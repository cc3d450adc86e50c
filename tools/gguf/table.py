"""The page docs/model/gguf_compared.md, from the results of a comparison."""

from __future__ import annotations

import collections
import importlib.metadata
import pathlib
from collections.abc import Sequence
from typing import Any

INTRODUCTION = """# GGUF files compared with llama.cpp

`tools/gguf/compare.py` makes tiny random F32 files of each architecture of llama.cpp. llama.cpp
runs a file, without flash attention and with an F32 KV cache. q, k and v are taken from its graph
before their norms and rotations. Gnomon [reads](gguf_model.md) the same file, and its plans compute
the attention from these q, k and v. The attention outputs of all layers and positions are compared.

```sh
python tools/gguf/compare.py --sweep --table docs/model/gguf_compared.md   # wrote this page
python tools/gguf/compare.py --arch gemma3 --set attention.sliding_window=8
make test-gguf                                                             # all cases as tests
```

Versions: {version}.

| result | meaning |
|---|---|
| agree | the greatest error is at most 2e-5 of the greatest output; 1e-4 for thousands of tokens |
| differ | a greater error, or other layers or sizes |
| refused | Gnomon refuses the file, or a layer of it, with this sentence |
| not run | llama.cpp refuses the keys, aborts, or computes infinite numbers |
"""


def totals(results: Sequence[Any]) -> str:
    count = collections.Counter(one.outcome for one in results)
    unknown = sum("is unknown, so" in one.detail for one in results)
    worst = max((one.error for one in results if one.outcome == "agree"), default=0.0)
    text = ", ".join(f"{count[name]} {name}" for name in ("agree", "differ", "refused", "not run"))
    return (f"{len(results)} cases: {text}. The greatest error of those that agree is {worst:.0e}."
            + (f" {unknown} of the refused have an unknown architecture." if unknown else ""))


def write(path: pathlib.Path, results: Sequence[tuple[Any, Any]], sweep: set[str]) -> None:
    """Writes the page. Cases with a name in `sweep` become one row for each name."""
    import llama_cpp

    version = (f"llama.cpp {llama_cpp.version()} of xllamacpp "
               f"{importlib.metadata.version('xllamacpp')}")
    single = [(case, result) for case, result in results if not (case.name in sweep)]
    lines = [INTRODUCTION.replace("{version}", version), "## Cases\n",
             totals([result for _, result in single]) + "\n",
             "| architecture | case | result |", "|---|---|---|"]
    for case, result in sorted(single, key=lambda one: (one[0].architecture, one[0].name)):
        detail = f": {result.detail}" if result.detail else ""
        lines.append(f"| {case.architecture} | {case.name} | {result.outcome}{clean(detail)} |")
    swept = [(case, result) for case, result in results if case.name in sweep]
    if swept:
        lines += ["\n## Changes of keys\n",
                  "Each change of keys, in files of all architectures.\n",
                  totals([result for _, result in swept]) + "\n",
                  "| change | agree | differ | refused | not run |", "|---|---|---|---|---|"]
        for name in dict.fromkeys(case.name for case, _ in swept):
            count = collections.Counter(
                result.outcome for case, result in swept if case.name == name)
            lines.append(f"| {name} | {count['agree']} | {count['differ']} | {count['refused']} | "
                         f"{count['not run']} |")
    path.write_text("\n".join(lines) + "\n")


def clean(text: str) -> str:
    """Returns the text of an error for a cell: one line, without folders of the build."""
    words = text.split()
    words = [word.rpartition("/llama.cpp/")[2] if "/llama.cpp/" in word else word
             for word in words]
    return " ".join([""] + words if text.startswith(" ") else words).replace("|", "\\|")
