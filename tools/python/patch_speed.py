"""Measures models of transformers before and after `gnomon.torch.patch`, on the CPU.

    python tools/python/patch_speed.py [--repetitions 3] [--prompt 2048] [--tokens 64]
                                       [--models llama bloom t5 gpt_oss modernbert] [--threads 2] [--dtype float32]
                                       [--cpu-time]

Random models of about 100 million parameters, float32. Prompt: one forward pass of `--prompt`
tokens (T5: the encoder, and the first token of the decoder; ModernBERT: the encoder). Tokens: a
greedy loop with the cache. The implementations run in turn; the table shows medians. Prints a Markdown table.
--cpu-time: CPU time of the process, for a machine that has other work; use it with --threads 1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

import gnomon
import gnomon.torch

transformers.logging.set_verbosity_error()


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=768, num_attention_heads=12, num_key_value_heads=12, num_hidden_layers=12,
        intermediate_size=2048, vocab_size=32000, tie_word_embeddings=True,
        max_position_embeddings=4096))


def bloom() -> Any:
    return transformers.BloomForCausalLM(transformers.BloomConfig(
        hidden_size=768, n_head=12, n_layer=12, vocab_size=32000))


def t5() -> Any:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        d_model=640, d_kv=64, num_heads=10, num_layers=8, d_ff=2048, vocab_size=32000,
        decoder_start_token_id=0))


def gpt_oss() -> Any:
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(
        hidden_size=512, num_attention_heads=16, num_key_value_heads=4, head_dim=64,
        num_hidden_layers=12, intermediate_size=512, num_local_experts=8, num_experts_per_tok=2,
        vocab_size=32000, sliding_window=128, max_position_embeddings=4096,
        rope_parameters=dict(rope_type="default", rope_theta=150000.0)))


def modernbert() -> Any:
    return transformers.ModernBertModel(transformers.ModernBertConfig(
        hidden_size=768, num_attention_heads=12, num_hidden_layers=16, intermediate_size=1152,
        vocab_size=32000, pad_token_id=0))


MODELS = {"llama": (llama, ("eager", "sdpa", "gnomon")), "bloom": (bloom, ("eager", "gnomon")),
          "t5": (t5, ("eager", "sdpa", "gnomon")), "gpt_oss": (gpt_oss, ("eager", "gnomon")),
          "modernbert": (modernbert, ("eager", "sdpa", "gnomon"))}


@torch.inference_mode()
def run(model: Any, ids: torch.Tensor, tokens: int,
        clock: Callable[[], float]) -> tuple[float, float, list[int]]:
    """Returns the seconds of the prompt and of the tokens, and the tokens."""
    begin = clock()
    found: list[int] = []
    if not model.can_generate():
        model(ids)
        return clock() - begin, 0.0, found
    if model.config.is_encoder_decoder:
        start = torch.zeros(1, 1, dtype=torch.long)
        encoded = model.encoder(ids)
        options: dict[str, Any] = {"encoder_outputs": encoded}
        out = model(decoder_input_ids=start, use_cache=True, **options)
        name = "decoder_input_ids"
    else:
        options = {}
        out = model(ids, use_cache=True, logits_to_keep=1)
        name = "input_ids"
    middle = clock()
    for _ in range(tokens):
        found.append(int(out.logits[0, -1].argmax()))
        options[name] = torch.tensor([[found[-1]]])
        out = model(past_key_values=out.past_key_values, use_cache=True, **options)
    return middle - begin, clock() - middle, found


def measure(name: str, arguments: argparse.Namespace) -> list[str]:
    """Returns the rows of the table of one model."""
    make, implementations = MODELS[name]
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    torch.manual_seed(0)
    model = make().eval().to(getattr(torch, arguments.dtype))
    ids = torch.randint(1, 32000, (1, arguments.prompt))
    seconds: dict[str, list[tuple[float, float]]] = {one: [] for one in implementations}
    results = {}
    for repetition in range(arguments.repetitions + 1):
        for one in implementations:
            if one == "gnomon":
                gnomon.torch.patch(model)
            else:
                for module in model.modules():
                    if hasattr(module, "config"):
                        module.config._attn_implementation = one
            if repetition == 0:  # warm-up
                run(model, ids[:, :64], 4, clock)
            else:
                prompt, after, results[one] = run(model, ids, arguments.tokens, clock)
                seconds[one].append((prompt, after))
            if one == "gnomon":
                gnomon.torch.unpatch(model)
    size = sum(one.numel() for one in model.parameters()) / 1e6
    medians = {one: [statistics.median(part) for part in zip(*all_of)]
               for one, all_of in seconds.items()}
    rows = []
    for one, (prompt, after) in medians.items():
        if not results[one]:
            rows.append(f"| {name}, {size:.0f} M | {one} | {prompt:.2f} | "
                        f"{medians['eager'][0] / prompt:.2f} | | | |")
            continue
        agrees = sum(a == b for a, b in zip(results[one], results["eager"]))
        rows.append(f"| {name}, {size:.0f} M | {one} | {prompt:.2f} | "
                    f"{medians['eager'][0] / prompt:.2f} | {1e3 * after / arguments.tokens:.1f} | "
                    f"{medians['eager'][1] / after:.2f} | {agrees} of {arguments.tokens} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    gnomon.set_threads(arguments.threads)
    print(f"{arguments.threads} threads, {gnomon.isa()}, torch {torch.__version__}, transformers "
          f"{transformers.__version__}, {arguments.dtype}, prompt of {arguments.prompt} tokens, "
          f"{arguments.tokens} tokens, medians of {arguments.repetitions}"
          f"{', CPU time' if arguments.cpu_time else ''}\n", flush=True)
    print("| model | attention | prompt, s | speedup | token, ms | speedup | tokens as eager |")
    print("|---|---|--:|--:|--:|--:|--:|", flush=True)
    for name in arguments.models:
        print("\n".join(measure(name, arguments)), flush=True)


if __name__ == "__main__":
    main()
