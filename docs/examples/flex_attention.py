"""Encodings in FlexAttention: compiled on a GPU, eager and smaller on the CPU.

Compares with dense biases in scaled_dot_product_attention, which store a matrix [H, T, T].
"""

import time

import torch
from torch.nn.functional import scaled_dot_product_attention

import gnomon.torch
from gnomon.torch import flex

gpu = torch.cuda.is_available()
device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
B, H, T, D = (4, 16, 4096, 64) if gpu else (1, 4, 256, 32)
torch.manual_seed(0)
q, k, v = torch.randn(3, B, H, T, D, device=device, dtype=dtype, requires_grad=gpu).unbind()
future = torch.ones(T, T, dtype=torch.bool, device=device).triu(1)


def timed(function):
    function()  # compiles
    if gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    out = function()
    if gpu:
        torch.cuda.synchronize()
    return out, 1000 * (time.perf_counter() - start)


for name in ("alibi", "t5", "kerple", "fire", "rotary+alibi"):
    position = gnomon.torch.PositionEncoding(name, width=H * D, heads=H, length=T, device=device)
    encoding, parameters = position.mixture, position.matrices()

    def by_flex():
        return flex.attend(q, k, v, encoding, parameters)

    def dense():
        rotated = position.rotate(q, k) if name.startswith("rotary") else (q, k)
        bias = position.bias(T, dtype=dtype).masked_fill(future, -torch.inf)
        return scaled_dot_product_attention(*rotated, v, bias)

    (found, ms), (expected, dense_ms) = timed(by_flex), timed(dense)
    error = (found - expected).abs().max().item()
    print(f"{name:13} {device}: {ms:8.2f} ms, dense bias {dense_ms:8.2f} ms, error {error:.1e}")
    assert error < (0.1 if gpu else 1e-5)
    if gpu:  # FlexAttention has no gradient of q, k and v on the CPU
        found.sum().backward()
