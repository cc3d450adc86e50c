"""Small models of transformers, for the tests of `gnomon lab --finetune`.

python tests/lab/finetune/released.py write       writes logits.json: config.json, the names and
                                                  shapes of the tensors, and logits of each model
python tests/lab/finetune/released.py make DIR TEXT
                                                  trains a byte-level model of the layout of
                                                  Llama on 64 bytes of context, a minute or two
python tests/lab/finetune/released.py losses DIR RUN
                                                  compares the losses of a model saved by a run
                                                  with those that transformers computes

The weights are a function of the name of the tensor and the index, the same as in
finetune_test.cc, so the file of the test has no weights.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent
TOKENS = [71, 7, 200, 13, 5, 255, 0, 99, 71, 7, 42, 128]
COLUMNS = [0, 3, 17, 64, 101, 200, 254, 255]

SMALL = {
    "vocab_size": 256,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BERT = {key: SMALL[key] for key in SMALL if key != "num_key_value_heads"}


def rope(kind: str, theta: float = 100.0, **keys: float) -> dict:
    return {"rope_parameters": {"rope_theta": theta, "rope_type": kind, **keys}}


def configs() -> dict[str, transformers.PretrainedConfig]:
    """The configurations: each layout, and each scaling of the frequencies."""
    return {
        "llama": transformers.LlamaConfig(**SMALL, **rope("default")),
        "llama-tied-bias": transformers.LlamaConfig(
            **SMALL, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=6
        ),
        "llama-linear": transformers.LlamaConfig(**SMALL, **rope("linear", factor=2.0)),
        "llama-dynamic": transformers.LlamaConfig(**SMALL, **rope("dynamic", factor=2.0)),
        "llama-yarn": transformers.LlamaConfig(
            **SMALL, **rope("yarn", factor=2.0, original_max_position_embeddings=4)
        ),
        "mistral": transformers.MistralConfig(**SMALL, sliding_window=5),
        "qwen2": transformers.Qwen2Config(**SMALL, tie_word_embeddings=True),
        "gpt2": transformers.GPT2Config(
            vocab_size=256, n_embd=16, n_layer=2, n_head=2, n_positions=12,
            bos_token_id=1, eos_token_id=2,
        ),
        "bert": transformers.BertConfig(**{**BERT, "max_position_embeddings": 12}),
    }  # fmt: skip


def values(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Uniform numbers from SplitMix64, exact in float32."""
    hash_ = 0xCBF29CE484222325
    for byte in name.encode():
        hash_ = ((hash_ ^ byte) * 0x100000001B3) % 2**64
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        x = np.uint64(hash_) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    unit = (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    is_norm = len(shape) == 1 and name.endswith("weight")
    return torch.tensor((1 + unit / 4 if is_norm else unit / 2).reshape(shape)).float()


def model_of(config: transformers.PretrainedConfig) -> transformers.PreTrainedModel:
    model_class = {
        "llama": transformers.LlamaForCausalLM,
        "mistral": transformers.MistralForCausalLM,
        "qwen2": transformers.Qwen2ForCausalLM,
        "gpt2": transformers.GPT2LMHeadModel,
        "bert": transformers.BertForMaskedLM,
    }[config.model_type]
    config._attn_implementation = "eager"
    return model_class(config).eval()


def saved_names(model: transformers.PreTrainedModel) -> list[str]:
    """The names in model.safetensors: those of tied copies are left out."""
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    return [name for name, _ in model.named_parameters() if name not in tied]


def cases() -> dict[str, dict]:
    """Everything in logits.json."""
    found = {}
    for name, config in configs().items():
        model = model_of(config)
        names = saved_names(model)
        with torch.no_grad():
            for tensor_name, parameter in model.named_parameters():
                parameter.copy_(values(tensor_name, tuple(parameter.shape)))
            model.tie_weights()
            logits = model(torch.tensor([TOKENS])).logits[0]
        written = json.loads(config.to_json_string(use_diff=False))
        kept = {k: v for k, v in written.items() if v is not None and not k.startswith("_")}
        found[name] = {
            "config": kept,
            "tensors": {n: list(p.shape) for n, p in model.named_parameters() if n in names},
            "logits": [[round(float(row[c]), 6) for c in COLUMNS] for row in logits],
        }
    return {"tokens": TOKENS, "columns": COLUMNS, "models": found}


def write() -> None:
    lines = []
    all_ = cases()
    for name, one in all_["models"].items():
        lines.append(f" {json.dumps(name)}: {{")
        parts = [
            f'  "{key}": {json.dumps(one[key], sort_keys=True)}'
            for key in ("config", "tensors", "logits")
        ]
        lines.append(",\n".join(parts) + "\n }")
    text = "\n".join(lines).replace("}\n ", "},\n ")
    head = f'{{"tokens": {TOKENS}, "columns": {COLUMNS}, "models": {{\n'
    (FOLDER / "logits.json").write_text(head + text + "\n}}\n")


def make(folder: str, text: str) -> None:
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=96, intermediate_size=256, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = model_of(config).train()
    data = torch.tensor(list(pathlib.Path(text).read_bytes()))
    data = data[: len(data) * 8 // 10]  # the part that `gnomon lab` trains on
    steps, length, batch = 1500, config.max_position_embeddings, 16
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        starts = torch.randint(0, len(data) - length, (batch,))
        tokens = torch.stack([data[start : start + length] for start in starts])
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}: {loss.item() / np.log(2):.3f} bits per byte", flush=True)
    model.eval().save_pretrained(folder)


def losses(folder: str, run: str, text: str) -> None:
    """The loss of each test segment of a causal byte model, as finetune.cc defines it."""
    result = json.loads(pathlib.Path(run).read_text())
    settings = json.loads((pathlib.Path(run).parents[1] / "settings.json").read_text())
    lengths = settings["settings"]["eval_lengths"]
    data = pathlib.Path(text).read_bytes()
    tenth = len(data) // 10
    tokens = torch.tensor(list(data[len(data) - tenth :]))
    longest = lengths[-1]
    starts = list(range(longest // 2 + 1, len(tokens) - longest + 1, longest))
    wanted = min(len(starts), settings["settings"]["eval_segments"])
    starts = [starts[i * len(starts) // wanted] for i in range(wanted)]
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype="float32", attn_implementation="eager"
    ).eval()
    worst = 0.0
    for index, length in enumerate(lengths):
        for segment, start in enumerate(starts):
            begins = [start - 1 + (w - 1) * (length // 2) for w in range(2 * longest // length)]
            inputs = torch.stack([tokens[b : b + length] for b in begins])
            targets = torch.stack([tokens[b + 1 : b + 1 + length] for b in begins])
            with torch.no_grad():
                log_p = model(inputs).logits.log_softmax(-1)
            bits = -log_p.gather(2, targets[..., None])[..., 0] / np.log(2)
            ours = result["tests"]["lengths"][index]["tail_by_segment"][segment]
            worst = max(worst, abs(float(bits[:, length // 2 :].mean()) - ours))
    print(f"largest difference of a segment's loss: {worst:.2e} bits")
    if worst > 1e-4:
        raise SystemExit(1)


if __name__ == "__main__":
    {"write": write, "make": make, "losses": losses}[sys.argv[1]](*sys.argv[2:])
