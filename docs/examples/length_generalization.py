"""Train short, test long: the loss of a small GPT by length, for several encodings.

    python length_generalization.py rotary,alibi,kerple
"""

import sys

import torch
from gpt import HEADS, LAYERS, LENGTH, TEST, WIDTH, train
from torch.nn.functional import cross_entropy

from gnomon.torch import PositionScheme

LENGTHS = [LENGTH, 2 * LENGTH, 4 * LENGTH, 8 * LENGTH]


@torch.no_grad()
def bits(model, length, scored=16):
    """The loss of the same bytes after more or less context, in bits per byte."""
    ends = torch.arange(LENGTHS[-1] + 1, len(TEST), 500)[:, None]
    tokens = TEST[ends + torch.arange(-length - 1, 0)]
    logits = model(tokens[:, :-1])[:, -scored:]
    return cross_entropy(logits.flatten(0, 1), tokens[:, -scored:].flatten()).item() / 0.693147


def main(names):
    print(f"{'bits per byte':14}" + "".join(f"{length:7} tokens" for length in LENGTHS))
    for name in names:
        model = train(PositionScheme(name, layers=LAYERS, width=WIDTH, heads=HEADS, length=LENGTH))
        losses = []
        for length in LENGTHS:
            try:
                losses.append(f"{bits(model, length):14.2f}")
            except ValueError:  # a learned table ends
                losses.append(f"{'-':>14}")
        print(f"{name:14}" + "".join(losses))


if __name__ == "__main__":
    main(sys.argv[1].split(",") if len(sys.argv) > 1
         else ["none", "learned", "sinusoidal", "rotary", "t5", "alibi", "kerple"])
