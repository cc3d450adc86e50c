"""An encoding of your own beside those of Gnomon: a bias by distance from a small network.

Each head has a network of log(1 + distance). Its values are the table of gnomon.ClippedBias, so
that attention stores no matrix [H, T, S]; the gradient of the table trains the network.
"""

import torch
from gpt import HEADS, LAYERS, LENGTH, WIDTH, train
from length_generalization import LENGTHS, bits
from torch import nn

import gnomon
import gnomon.torch
from gnomon.torch import PositionScheme


class NetworkBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, HEADS)) for _ in range(LAYERS))

    def embed(self, x):                              # [B, T, C]: nothing is added to the embeddings
        return x

    def strip(self, layer, tokens):                  # the bias at distances 0 to T - 1: [H, T]
        distance = torch.arange(tokens, dtype=torch.float32)
        return 4 * self.networks[layer](torch.log1p(distance)[:, None]).T

    def attend(self, layer, q, k, v, visibility, hidden=None):   # [B, H, T, D]
        spec = gnomon.ClippedBias(heads=HEADS, left=k.shape[2] - 1)
        strip = self.strip(layer, k.shape[2])
        return gnomon.torch.attention(q, k, v, spec, [strip], visibility=visibility)


if __name__ == "__main__":
    own = NetworkBias()
    q, k, v = torch.randn(3, 2, HEADS, 40, 16).unbind()
    past = torch.arange(40)[:, None] - torch.arange(40)
    bias = own.strip(0, 40)[:, past.clamp(min=0)].masked_fill(past < 0, -torch.inf)
    dense = nn.functional.scaled_dot_product_attention(q, k, v, bias)
    assert (own.attend(0, q, k, v, "causal") - dense).abs().max() < 1e-5

    alibi = PositionScheme("alibi", layers=LAYERS, width=WIDTH, heads=HEADS, length=LENGTH)
    print("bits per byte at " + ", ".join(map(str, LENGTHS)) + " tokens")
    for name, position in (("own", own), ("alibi", alibi)):
        model = train(position)
        print(f"{name:6}" + "".join(f"{bits(model, length):7.2f}" for length in LENGTHS))
