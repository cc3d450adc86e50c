"""Generates tokens greedily with vLLM, and writes tokens and logarithms of probabilities.

    python generate.py FOLDER DTYPE OUT.json

The environment variable GNOMON_VLLM chooses the parts of the plug-in, VLLM_PLUGINS the plug-ins.
COMPILED=1: vLLM compiles the model, as it does by default.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import sys
import time
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"

LENGTHS = (5, 300, 40, 131)
TOKENS = 24


def classes_of(model: Any) -> list[str]:
    """The classes of rotations and attentions of a model."""
    found = [type(module) for module in model.modules()]
    found += [type(module.impl) for module in model.modules() if hasattr(module, "impl")]
    return sorted({one.__name__ for one in found if "otary" in one.__name__
                   or "AttentionImpl" in one.__name__ or "BackendImpl" in one.__name__})


def main() -> None:
    from vllm import LLM, SamplingParams

    folder, dtype, out = sys.argv[1:]
    vocabulary = json.loads(pathlib.Path(folder, "config.json").read_text())["vocab_size"]
    draw = random.Random(5)
    prompts = [{"prompt_token_ids": [draw.randrange(3, vocabulary) for _ in range(length)]}
               for length in LENGTHS]
    llm = LLM(folder, skip_tokenizer_init=True, dtype=dtype, max_model_len=1024, seed=0,
              enforce_eager=os.environ.get("COMPILED") != "1", enable_prefix_caching=False,
              distributed_executor_backend="uni")
    settings = SamplingParams(max_tokens=TOKENS, temperature=0, ignore_eos=True,
                              detokenize=False, logprobs=5)
    start = time.perf_counter()
    found = [one.outputs[0] for one in llm.generate(prompts, settings, use_tqdm=False)]
    seconds = time.perf_counter() - start
    parts = [{str(token): entry.logprob for token, entry in step.items()} for one in found
             for step in one.logprobs]
    (classes,) = llm.apply_model(classes_of)
    pathlib.Path(out).write_text(json.dumps({
        "tokens": [list(one.token_ids) for one in found], "logprobs": parts,
        "classes": classes, "seconds": seconds}))


if __name__ == "__main__":
    main()
