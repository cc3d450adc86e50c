"""Expected outcomes of the cases that do not agree.

Patterns of the architecture, of the case and of the beginning of the sentence. The first row that
matches a case applies. The other cases must agree.
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
    ("gemma3n", "window, .* pattern", "gemma3n.attention.sliding_window_pattern must have one"),
    ("gemma3n", ".*", "keys and values of an earlier layer"),
    ("gemma4", "shared keys|shared_kv_layers", "keys and values of an earlier layer"),
    ("dbrx", ".*", "clipped queries, keys and values"),
    ("mpt", "clamp|alibi and clipping", "clipped queries, keys and values"),
    # Keys that contradict each other.
    ("gemma4", "partial rotation", "rope_freqs.weight must have one factor for each"),
    ("paddleocr|qwen3tts|qwen3vl|qwen3vlmoe|qwen35|qwen35moe|qwen4exp",
     "partial rotation|swa head sizes", "rope.dimension_sections does not fit"),
    ("gemma-embedding|granite_swa|gemma4|maple|muse-glimmer|spark2_5",
     "window, .* pattern|one layer more predicts",
     r"\S+ must have one value for each"),
    ("gemma-embedding|gpt-oss|granite_swa|mimo2", "window 0", r"\S+.attention.sliding_window must be at least 1, got 0"),
    # Not supported, and in no released file.
    ("llama", "rope_freqs and yarn", "rope_freqs.weight together with yarn is not understood"),
    ("gemma4", ".*yarn.*", "rope_freqs.weight together with yarn is not understood"),
    ("grok", "yarn, ext_factor 0.5", "rope.scaling.yarn_ext_factor must be 0 or 1"),
]


def outcome(case: Any) -> tuple[str, str]:
    """Returns the expected outcome of a case, and the beginning of its sentence."""
    for name, rows in (("not run", NOT_RUN), ("refused", REFUSED)):
        for architecture, change, text in rows:
            if re.fullmatch(architecture, case.architecture) and re.fullmatch(change, case.name):
                return name, text
    return "agree", ""
