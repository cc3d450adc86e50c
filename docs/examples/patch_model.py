"""A model of transformers on Gnomon's rotation and attention (CPU).

The model has random weights, so that nothing is downloaded. A released model is patched in the
same way: model = AutoModelForCausalLM.from_pretrained(...).
"""

import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import gnomon.torch


def generate(model, prompt, tokens=16):
    start = time.perf_counter()
    with torch.no_grad():
        out = model.generate(prompt, max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    return out[:, prompt.shape[1]:], time.perf_counter() - start


torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=256, num_attention_heads=8, num_key_value_heads=2, num_hidden_layers=4,
    intermediate_size=512, vocab_size=1000, max_position_embeddings=4096,
    rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0,
                     "original_max_position_embeddings": 1024})).eval()
prompt = torch.randint(1000, (1, 1500))
expected, before = generate(model, prompt)

print(gnomon.torch.patch(model, check=True))  # the report, with the difference of the logits
found, after = generate(model, prompt)
assert torch.equal(found, expected)
print(f"the same {found.shape[1]} tokens; {before:.2f} s before, {after:.2f} s after")

loss = model(prompt[:, :200], labels=prompt[:, :200]).loss  # gradients work, too
loss.backward()
assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().max() > 0

gnomon.torch.unpatch(model)  # the weights are unchanged
