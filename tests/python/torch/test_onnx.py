"""torch.onnx.export(dynamo=True): graphs without operators of Gnomon that agree with eager mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

import gnomon
import gnomon.torch as gt

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)
PARTS = tuple(gnomon.AxialPart(axis=axis, rotary_dim=4) for axis in (0, 1))
AXIAL = gnomon.AxialRotary(parts=PARTS, pairing="halves", order="blocks", grid=(2, 4))
TABLE = gnomon.RotaryTable(ROPE, 5)
AT = torch.tensor([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]])
MASK = torch.tensor([[-1, 0, 0, 0, 0], [0, 0, 0, 1, 1]])


class Call(nn.Module):
    def __init__(self, call, *rest):
        super().__init__()
        self.call = call
        self.rest = nn.ParameterList([nn.Parameter(one) for one in rest])

    def forward(self, *inputs):
        return self.call(*inputs, *self.rest)


def exported(module, inputs, **options):
    program = torch.onnx.export(module.eval(), tuple(inputs), dynamo=True, verbose=False, **options)
    assert all(not node.domain or node.domain in ("ai.onnx", "pkg.onnxscript.torch_lib")
               for node in program.model_proto.graph.node)
    return program.model_proto


def check(module, inputs, shapes=(), **options):
    """Compares the exported model with eager mode, also on inputs of other shapes."""
    model = exported(module, inputs, **options)
    run = ReferenceEvaluator(model)
    names = [one.name for one in model.graph.input]
    for given in (inputs, *shapes):
        with torch.no_grad():
            want = module(*given)
        got = run.run(None, {name: one.numpy() for name, one in zip(names, given, strict=True)})
        for one, other in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(one, other.numpy(), atol=3e-6, rtol=1e-5)


def heads(tokens=5, count=1, axes=(2, 4)):
    torch.manual_seed(0)
    return [torch.randn(axes[0], axes[1], tokens, 8) for _ in range(count)]


CALLS = {  # of q, k, v
    "rotate": lambda q, *_: gt.rotate(q, ROPE, 3),
    "rotate at positions": lambda q, *_: gt.rotate(q, ROPE, AT),
    "rotate by a grid": lambda q, *_: gt.rotate(q, AXIAL),
    "rotate by a table": lambda q, *_: gt.rotate(q, TABLE),
    "rotate inverse": lambda q, *_: gt.rotate(
        q.transpose(1, 2), ROPE, inverse=True, layout="tokens_heads"),
    "attention": lambda *x: gt.attention(*x, ROPE, left=3),
    "alibi, cap": lambda *x: gt.attention(*x, gnomon.Alibi(heads=4), cap=5.0),
    "sequences": lambda *x: gt.attention(*x, ROPE, sequences=MASK, positions=AT),
    "mask": lambda *x: gt.attention(*x, ROPE, attn_mask=AT[0] > 0),
    "apply_rotary_pos_emb": lambda q, k, v: torch.cat(gt.apply_rotary_pos_emb(
        q, k, torch.full((1, 5, 8), 0.5), torch.full((1, 5, 8), 0.25))),
    "add_position": lambda q, *_: gt.add_position(
        q[0], gnomon.Sinusoidal(width=8, recipe="interleaved"), offset=2),
}


def test_functions():
    check(Call(lambda *x: tuple(call(*x) for call in CALLS.values())), heads(count=3))


def test_trained_parameters():
    learned = gnomon.Learned(rows=16, width=8)
    check(Call(lambda q, k, v, buckets, rows: (
        gt.attention(q, k, v, [ROPE, T5], [buckets]),
        gt.add_position(q[0], learned, [rows], offset=3)), torch.randn(8, 4), torch.randn(16, 8)),
        heads(count=3))


NAMES = ["rotary", "alibi", "t5", "fire", "kerple", "swin", "swin-v2", "rotary-axial", "xpos"]


def test_modules():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.all = nn.ModuleList([gt.PositionEncoding(name, width=32, heads=4, length=8)
                                      for name in NAMES])

        def forward(self, q, k, v):
            return tuple(one.attend(q, k, v, visibility="bidirectional") for one in self.all)

    check(Layers(), heads(count=3))


def test_lengths_stay_free():
    tokens = torch.export.Dim("tokens", min=2, max=64)
    call = Call(lambda *x: (gt.rotate(x[0], ROPE), gt.attention(*x, ROPE, left=3),
                            gt.attention(*x, gnomon.Alibi(heads=4))))
    check(call, heads(count=3), [heads(9, 3)], dynamic_shapes=(({2: tokens},) * 3,))


def test_exported_programs_have_decompositions():
    module = Call(lambda q, k, v, w: gt.attention(gt.rotate(q, ROPE), k, v, T5, [w]),
                  torch.randn(8, 4))
    program = torch.export.export(module, tuple(heads(count=3)))
    assert "gnomon" in str(program.graph)
    plain = program.run_decompositions(gt.decompositions())
    assert "gnomon" not in str(plain.graph)
    inputs = heads(count=3)
    torch.testing.assert_close(plain.module()(*inputs), module(*inputs), atol=2e-6, rtol=0)
    model = torch.onnx.export(plain, verbose=False).model_proto
    got = ReferenceEvaluator(model).run(None, {
        place.name: one.numpy() for place, one in zip(model.graph.input, inputs, strict=True)})
    np.testing.assert_allclose(got[0], module(*inputs).detach().numpy(), atol=3e-6, rtol=1e-5)


def test_what_cannot_be_exported_is_refused():
    shaw = gt.PositionEncoding("shaw", width=32, heads=4, length=8)
    program = torch.export.export(Call(lambda *x: shaw.attend(*x, visibility="causal")),
                                  tuple(heads(count=3)))
    with pytest.raises(ValueError, match="relative vectors must have .* ONNX, got shaw"):
        program.run_decompositions(gt.decompositions())
