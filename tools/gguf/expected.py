"""Expected outcomes of the cases that do not agree.

Patterns of the architecture and of the case, and the beginning of the sentence. The first row that
matches a case applies; the others must agree.
"""

from __future__ import annotations

import re
from typing import Any

# llama.cpp refuses the keys or aborts.
NOT_RUN: list[tuple[str, str, str]] = []
# Gnomon refuses the file.
REFUSED: list[tuple[str, str, str]] = [
    ("deepseek32|glm-dsa|glm5-next|hy_v4|minimax-m3", ".*",
     "an indexer that selects the keys of each query"),
    ("dots3note", ".*", "partly normalised latent keys, and an indexer"),
    ("deepseek4", ".*", "the architecture deepseek4 is not read: compressed keys"),
    ("gemma3n", ".*", "keys and values of an earlier layer"),
    ("gemma4", "shared keys|shared_kv_layers", "keys and values of an earlier layer"),
    ("dbrx", ".*", "clipped queries, keys and values"),
    (".*", "clamp|alibi and clipping", "clipped queries, keys and values"),
    (".*", "rope_freqs and yarn", "rope_freqs.weight together with yarn is not understood"),
]


def outcome(case: Any) -> tuple[str, str]:
    """Returns the expected outcome of a case, and the beginning of its sentence."""
    for name, rows in (("not run", NOT_RUN), ("refused", REFUSED)):
        for architecture, change, text in rows:
            if re.fullmatch(architecture, case.architecture) and re.fullmatch(change, case.name):
                return name, text
    return "agree", ""
