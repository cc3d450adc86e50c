"""Paged caches and packed batches of PyTorch tensors in one call."""

import pytest
import torch

import gnomon
import gnomon.torch as gt

LENGTHS, CHUNKS = torch.tensor([30, 17, 40]), [1, 3, 9]


def paged(kind):
    """Returns pages [P, 16, 2, 8] with the rows of three sequences, their table, and the rows."""
    rows = [torch.randn(int(n), 2, 8).to(kind) for n in LENGTHS]
    table = torch.tensor([[3, 1, -1], [6, 0, -1], [2, 7, 4]], dtype=torch.int32)
    pages = torch.full((8, 16, 2, 8), torch.nan).to(kind)
    for n, one in enumerate(rows):
        for j in range(len(one)):
            pages[table[n, j // 16], j % 16] = one[j]
    return pages, table, rows


@pytest.mark.parametrize("encoding", [None, gnomon.Alibi(heads=4)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_pages_give_the_numbers_of_separate_calls(encoding, kind):
    (k, table, ks), (v, _, vs) = paged(kind), paged(kind)
    ends = torch.tensor([0, 1, 4, 13])
    q = torch.randn(13, 4, 8).to(kind)
    got = gt.attention(q, k, v, encoding, cu_seqlens_q=ends, key_lengths=LENGTHS,
                       block_table=table, left=20)
    assert got.shape == q.shape and got.dtype == kind
    for n in range(3):
        rows = slice(ends[n], ends[n + 1])
        want = gt.attention(q[None, rows], ks[n][None], vs[n][None], encoding, left=20,
                            layout="tokens_heads")
        assert torch.equal(got[rows], want[0])

    one = torch.randn(3, 4, 1, 8).to(kind)  # one token of each sequence
    got = gt.attention(one, k, v, encoding, key_lengths=LENGTHS.int(), block_table=table)
    for n in range(3):
        want = gt.attention(one[n:n + 1].transpose(1, 2), ks[n][None], vs[n][None], encoding,
                            layout="tokens_heads")
        assert torch.equal(got[n:n + 1], want.transpose(1, 2))


def test_pages_of_float8():
    pages, table, _ = paged(torch.float32)
    narrow = pages.to(torch.float8_e4m3fn)
    exact = narrow.float() * torch.tensor([0.5, 2.0])[:, None]
    q, scale = torch.randn(3, 4, 1, 8), torch.tensor([0.5, 2.0])
    want = gt.attention(q, exact, exact, key_lengths=LENGTHS, block_table=table)
    for one in (narrow, narrow.view(torch.uint8)):
        got = gt.attention(q, one, one, key_lengths=LENGTHS, block_table=table, k_scales=scale,
                           v_scales=scale)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=0)


@pytest.mark.parametrize("change, message", [
    ({"attn_mask": torch.ones(1, 1)}, "must be given without .*, got attn_mask"),
    ({"dropout": 0.5}, "got dropout"),
    ({"encoding": gnomon.Rotary(rotary_dim=8, pairing="halves", base=10000.0)}, "by distance"),
    ({"key_lengths": None}, "key_lengths must be given with block_table"),
    ({"key_lengths": LENGTHS + 40}, r"key_lengths\[0\] must be 0 to the rows of 3 blocks"),
    ({"block_table": torch.full((3, 3), 8, dtype=torch.int32)}, "block of the cache, 0 to 7"),
])
def test_errors_name_the_rule_and_the_value(change, message):
    pages, table, _ = paged(torch.float32)
    options = {"key_lengths": LENGTHS, "block_table": table} | change
    with pytest.raises(ValueError, match=message):
        gt.attention(torch.randn(3, 4, 1, 8), pages, pages, **options)
    with pytest.raises(ValueError, match="without gradients"):
        gt.attention(torch.randn(3, 4, 1, 8, requires_grad=True), pages, pages, key_lengths=LENGTHS,
                     block_table=table)
