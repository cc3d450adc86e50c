"""gnomon.torch with the kernels for CUDA devices: in the emulator, and on a GPU if there is one."""

from __future__ import annotations

import functools

import emulated
import pytest
import torch

import gnomon
import gnomon.torch as gt
from gnomon.torch import _append, _device

ROPE = gnomon.Rotary(rotary_dim=16, pairing="halves", base=10000.0)
rotate = functools.partial(gt.rotate, layout="tokens_heads")
GPU = torch.cuda.is_available()


@pytest.fixture
def device(monkeypatch):
    """The GPU; without one, the CPU with the kernels of the emulator."""
    torch.manual_seed(0)
    if GPU:
        assert _device._cuda is not None, "the wheel has no gnomon._cuda"
        return "cuda"
    module = emulated.module()
    monkeypatch.setattr(_device, "kernels", lambda x: module if x.dtype in _device._KINDS else None)
    monkeypatch.setattr(_device, "stream", lambda x: 0)
    return "cpu"


def close(a, b, dtype=torch.float32):
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(a.float(), b.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("heads_tokens", [False, True])
def test_rotate_by_positions_on_the_device(device, dtype, heads_tokens):
    x = torch.randn(2, 5, 3, 32, dtype=dtype, device=device)
    if heads_tokens:
        x = x.transpose(1, 2)
    at = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], device=device)
    want = rotate(x.cpu(), gnomon.RotaryTable(ROPE, at.cpu().numpy()),
                     layout="heads_tokens" if heads_tokens else "tokens_heads")
    got = torch.ops.gnomon.rotate(x, ROPE.to_json(), [at], 0, 0, heads_tokens, False)
    close(got.cpu(), want, dtype)
    again = torch.ops.gnomon.rotate(got, ROPE.to_json(), [at], 0, 0, heads_tokens, True)
    close(again, x, dtype)
    torch.ops.gnomon.rotate_(x, ROPE.to_json(), [at], 0, 0, heads_tokens, False)
    assert torch.equal(x, got)


def test_gradients_flow_through_the_kernel(device):
    x = torch.randn(1, 4, 2, 16, device=device, requires_grad=True)
    at = torch.arange(4, device=device)
    weights = torch.randn(1, 4, 2, 16, device=device)
    out = torch.ops.gnomon.rotate(x, ROPE.to_json(), [at], 0, 0, False, False)
    (grad,) = torch.autograd.grad((out * weights).sum(), x)
    close(grad, torch.ops.gnomon.rotate(weights, ROPE.to_json(), [at], 0, 0, False, True))


def test_rotate_by_tables(device):
    x = torch.randn(2, 5, 3, 16, device=device)
    table = gnomon.RotaryTable(ROPE, 5)
    cos, sin = (torch.tensor(one, device=device) for one in (table.cos, table.sin))
    out = torch.empty_like(x)
    assert _device.rotate(out, x, cos, sin, "halves", 0, False, False)
    close(out.cpu(), rotate(x.cpu(), table))
    assert not _device.rotate(out, x.double(), cos, sin, "halves", 0, False, False) or not GPU


def paged(device, narrow, flat):
    q, k, v = (torch.randn(3, 2, h, 16, dtype=torch.bfloat16, device=device) for h in (4, 2, 2))
    kind = torch.float8_e4m3fn if narrow else torch.bfloat16
    keys, values = (torch.zeros(8, 2, 4, 16, device=device).to(kind).transpose(1, 2)
                    for _ in range(2))  # [P, S, Hk, D] of [P, Hk, S, D]
    if flat:
        q, k, v = (one.flatten(0, 1) for one in (q, k, v))
    return q, k, v, keys, values


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("by_table", [False, True])
def test_rotate_append_equals_the_operators(device, narrow, flat, by_table):
    at = torch.tensor([[5, 6], [0, 1], [3, 2]], device=device)
    slots = torch.tensor([[21, 22], [0, 1], [-1, 30]], device=device)
    places = {"slots": slots.flatten() if flat else slots}
    if by_table:
        of = torch.tensor([[0, 0], [1, 1], [2, 2]], dtype=torch.int32, device=device)
        places = {"block_table": torch.tensor([[3, 5], [0, 1], [7, -1]], dtype=torch.int32,
                                              device=device),
                  "entries": at.flatten() if flat else at}
        if flat:
            places["sequences"] = of.flatten()
    if narrow:
        places |= {"key_scales": torch.tensor([0.01], device=device),
                   "value_scales": torch.tensor([0.02, 0.5], device=device)}
    if flat:
        at = at.flatten()
    given = paged(device, narrow, flat)
    want = [one.clone() for one in given]
    gt.rotate_append(*given[:3], ROPE, at, *given[3:], **places)
    order = ("slots", "block_table", "entries", "sequences", "key_scales", "value_scales")
    _append._by_operators(*want[:3], [at], ROPE.to_json(), 0, *want[3:],
                          *(places.get(name) for name in order))
    close(given[0], want[0], torch.bfloat16)
    for got, expected in zip(given[3:], want[3:]):
        difference = (got.float() - expected.float()).abs()
        step = 2 ** -3 if narrow else 2 ** -7  # a tie may be rounded to the other side
        assert (difference <= step * expected.float().abs() + 2 ** -9).all()
        assert torch.equal(got.float() == 0, expected.float() == 0)


def test_rotate_append_errors(device):
    q, k, v, keys, values = paged(device, False, True)
    at = torch.arange(6, device=device)
    with pytest.raises(ValueError, match="either slots, or block_table and entries must be given"):
        gt.rotate_append(q, k, v, ROPE, at, keys, values)
    with pytest.raises(ValueError, match="must both be given, or both left out"):
        gt.rotate_append(q, k, None, ROPE, at, keys, values, slots=at)


LEARNED = gnomon.Learned(rows=12, width=16, offset=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("positions", [None, [3, 0, 9, 9, 1], [[3, 0, 9, 9, 1], [0, 1, 2, 3, 4]]])
def test_a_learned_table_is_added_on_the_device(device, dtype, positions):
    x = torch.randn(2, 5, 16, dtype=dtype)
    table = torch.randn(12, 16, requires_grad=True)
    weights = torch.randn(2, 5, 16, dtype=dtype)
    at = None if positions is None else torch.tensor(positions)
    rows = torch.arange(3, 8) if at is None else at + 2
    want = (x.float() + table[rows]).to(dtype)
    expected = torch.zeros(12, 16).index_put((rows.expand(2, 5),), weights.float(),
                                             accumulate=True)
    there = table.detach().to(device).requires_grad_()
    out = torch.ops.gnomon.add_position(x.to(device), [there], None if at is None else
                                        at.to(device), "[" + LEARNED.to_json() + "]",
                                        0 if at is not None else 1)
    close(out.detach().cpu(), want.detach(), dtype)
    (grad,) = torch.autograd.grad((out * weights.to(device)).sum(), there)
    close(grad.cpu(), expected, torch.float32)


def test_ids_outside_a_learned_table_give_nan(device):
    x = torch.zeros(1, 3, 16, device=device)
    table = torch.ones(12, 16, device=device)
    got = torch.ops.gnomon.add_position(x, [table], torch.tensor([0, 10, -1], device=device),
                                        "[" + LEARNED.to_json() + "]", 0)
    assert got.isnan().any(-1).tolist() == [[False, True, True]]
    with pytest.raises(ValueError, match="10"):  # a slice is checked by the host
        gt.add_position(torch.zeros(1, 12, 16, device=device), LEARNED, [table])


def test_a_computed_table_is_added_on_the_device(device):
    x = torch.randn(2, 5, 16, device=device)
    spec = gnomon.Sinusoidal(width=16, recipe="half_split")
    rows = _device._plans.embedding("[" + spec.to_json() + "]", [], None, 0, 5)
    table = _device._plans.device_table(rows, x)
    got = x.clone()
    assert _device.add_table(got, table[0])
    close(got.cpu(), gt.add_position(x.cpu(), spec))
