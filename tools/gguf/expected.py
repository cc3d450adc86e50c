"""Expected outcomes of the cases that do not agree.

Patterns of the architecture, of the case and of the beginning of the sentence or note. The first
row that matches a case applies. The other cases must agree.
"""

from __future__ import annotations

import re
from typing import Any

# llama.cpp refuses the keys or aborts.
NOT_RUN: list[tuple[str, str, str]] = []
# The results differ, and Gnomon has a note that says so.
DIFFER: list[tuple[str, str, str]] = [
    # Without a KV cache, these read the heads of the first layer in all layers.
    ("bert|dream|eurobert|jina-bert-v3|llada|llada-moe|modern-bert|neo-bert|nomic-bert|"
     "nomic-bert-moe|rnd1", "layers without key heads",
     "some layers have no heads and are described without attention"),
]
# Gnomon refuses the file.
REFUSED: list[tuple[str, str, str]] = [
    ("deepseek32|glm-dsa|glm5-next|hy_v4|minimax-m3", ".*",
     "an indexer that selects the keys of each query"),
    ("dots3note", ".*", "partly normalised latent keys, and an indexer"),
    ("deepseek4", ".*", "the architecture deepseek4 is not read: compressed keys"),
    ("gemma3n", "window, .* pattern", "gemma3n.attention.sliding_window_pattern must have one"),
    ("gemma3n", "(?!one layer more).*", "keys and values of an earlier layer"),
    ("gemma4", "shared keys|shared_kv_layers", "keys and values of an earlier layer"),
    # Keys that contradict each other.
    ("gemma4", "partial rotation", "rope_freqs.weight must have one factor for each"),
    ("qwen3tts|qwen3vl|qwen3vlmoe|qwen35|qwen35moe|qwen4exp",
     "partial rotation|(swa )?head sizes", "rope.dimension_sections does not fit"),
    ("gemma-embedding|gemma-embedding2", "window, .* pattern",
     r"\S+ must have one value for each"),
    ("gemma-embedding|gemma-embedding2|gpt-oss|granite_swa|mimo2", "window 0",
     r"\S+.attention.sliding_window must be at least 1, got 0"),
    ("gpt-oss", "heads by layer", "sinks must have 2 x 1 elements"),
    ("minimax-m2|olmo2", "heads by layer", "query_norm.weight must have 2 x 16 elements"),
    ("gemma-embedding", "swa head sizes", "query_norm.weight must have 1 x 24 elements"),
    # Not supported.
    ("talkie", ".*", "a norm of queries of an unknown shape"),
    # The softmax is scaled, but not the rotation.
    ("deepseek2-ocr", "scale_linear|scaling none|.*(linear|factors|yarn).*",
     r"deepseek2-ocr\S+ must be 1"),
    ("grok", "yarn, ext_factor 0.5", "rope.scaling.yarn_ext_factor must be 0 or 1"),
]


def outcome(case: Any) -> tuple[str, str]:
    """Returns the expected outcome of a case, and the beginning of its sentence or note."""
    for name, rows in (("not run", NOT_RUN), ("differ", DIFFER), ("refused", REFUSED)):
        for architecture, change, text in rows:
            if re.fullmatch(architecture, case.architecture) and re.fullmatch(change, case.name):
                return name, text
    return "agree", ""


def deviation(case: Any, result: Any) -> str:
    """Returns how a result differs from the expected outcome, or ''."""
    name, text = outcome(case)
    said = result.notes if name == "differ" else [result.detail]
    if result.outcome == name and any(re.match(text, one) for one in said):
        return ""
    return (f"{case.architecture} {case.name}: {result.outcome} {result.error:.1e} {result.detail}"
            f" (expected: {name} {text}); notes: {'; '.join(result.notes)}")
