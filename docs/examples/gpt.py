"""A GPT with any position encoding, trained on text for a few seconds.

    python gpt.py rotary         # any name of `gnomon list`
    python gpt.py rotary+t5      # two encodings in each layer
    python gpt.py rotary/none    # a layer with rotary, a layer without position
"""

import sys
from pydoc_data.topics import topics  # the reference of the Python language, 0.7 MB

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, layer_norm

from gnomon.torch import PositionScheme

LAYERS, WIDTH, HEADS, LENGTH = 2, 64, 4, 32
TRAIN, TEST = torch.tensor(list("".join(topics.values()).encode())).tensor_split([-50000])


class GPT(nn.Module):
    """position: a PositionScheme, or another module with its `embed` and `attend`."""

    def __init__(self, position):
        super().__init__()
        self.position, self.table = position, nn.Embedding(256, WIDTH)
        nn.init.normal_(self.table.weight, std=WIDTH ** -0.5)
        sizes = (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(*size) for size in sizes) for _ in range(LAYERS))

    def forward(self, tokens):                                             # [B, T]
        x = self.position.embed(WIDTH ** 0.5 * self.table(tokens))         # [B, T, C]
        for layer, (qkv, out, up, down) in enumerate(self.layers):
            y = layer_norm(x, [WIDTH])
            q, k, v = qkv(y).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)  # [B, H, T, D]
            heads = self.position.attend(layer, q, k, v, visibility="causal", hidden=y)
            x = x + out(heads.transpose(1, 2).flatten(2))
            x = x + down(gelu(up(layer_norm(x, [WIDTH]))))
        return layer_norm(x, [WIDTH]) @ self.table.weight.T                # logits [B, T, 256]


def train(position, steps=200, seed=1):
    torch.manual_seed(seed)
    model = GPT(position)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        tokens = TRAIN[torch.randint(len(TRAIN) - LENGTH, (16, 1)) + torch.arange(LENGTH + 1)]
        loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    name = "".join(sys.argv[1:]) or "rotary"
    model = train(PositionScheme(name, layers=LAYERS, width=WIDTH, heads=HEADS, length=LENGTH))
    text = list(b"The ")
    for _ in range(100):
        logits = model(torch.tensor([text[1 - LENGTH:]]))[0, -1]
        text.append(int(torch.multinomial(logits.softmax(-1), 1)))
    print(f"{name}: {bytes(text).decode(errors='replace')!r}")
