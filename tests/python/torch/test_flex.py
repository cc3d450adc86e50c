"""FlexAttention against Gnomon's attention and against dense formulas."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import gnomon
import gnomon.torch
from gnomon.torch import flex

B, H, T, D = 2, 4, 16, 16
RELATIVE = {"shaw", "relative-key", "relative-key-query", "wav2vec2-bert", "transformer-xl",
            "conformer", "deberta", "deberta-v3", "decomposed", "cope"}
# Trained angles, products other than q . k, and terms that a score_mod cannot add.
REFUSED = {"rotary-learned", "rotary-mixed", "comrope", "comrope-axial", "pope", "path", "wall",
           "selective", "rotary-contextual", "rotary-mamba3", "relative-logits",
           "grape-additive", "grape-path"}
NAMES = [one.name for one in gnomon.encodings()
         if one.name not in RELATIVE | REFUSED and one.enters not in ("embeddings", "weights")]
BIASES = [one.name for one in gnomon.encodings()
          if one.enters == "scores" and one.name not in RELATIVE | REFUSED and not one.causal]
T5 = gnomon.T5Bias(heads=H, direction="bidirectional")
ROPE = gnomon.Rotary(rotary_dim=D, pairing="halves")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """No warning that flex_attention is not compiled, and no limit on its traces."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        yield


def qkv(keys: int = T, key_heads: int = H, dtype: torch.dtype = torch.float64,
        queries: int = T) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(B, H, queries, D, dtype=dtype),
            torch.randn(B, key_heads, keys, D, dtype=dtype),
            torch.randn(B, key_heads, keys, D, dtype=dtype))


def parameters(spec: gnomon.Encoding, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(2)
    return [(torch.randn(p.rows, p.columns) * p.initial_deviation + p.initial_mean).to(dtype)
            for p in spec.parameters()]


def usual(name: str) -> gnomon.Encoding:
    return gnomon.usual(name, width=H * D, heads=H, length=T, reads="bidirectional")


@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_agrees_with_attention(name: str, visibility: str, random_terms) -> None:
    spec = usual(name)
    given = parameters(spec)
    if gnomon.find_encoding(name).causal and visibility != "causal":
        visibility = "causal"
    terms = {one: torch.from_numpy(array) for one, array in random_terms(spec, B, T).items()}
    options = {"visibility": visibility, "terms": terms}
    found = flex.attend(*qkv(), spec, given, **options)
    expected = gnomon.torch.attention(*qkv(), spec, given, **options)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_score_mod_cannot_compute_is_refused(name: str, random_terms) -> None:
    spec = usual(name)
    terms = {one: torch.from_numpy(array) for one, array in random_terms(spec, B, T).items()}
    with pytest.raises(ValueError, match=r"^\[flex\] .* must .*, got "):
        flex.attend(*qkv(), spec, parameters(spec), visibility="causal", terms=terms)


@pytest.mark.parametrize("name", sorted(RELATIVE))
def test_relative_vectors_are_refused(name: str) -> None:
    spec = usual(name)
    with pytest.raises(ValueError, match="must not depend on the queries"):
        flex.attend(*qkv(), spec, parameters(spec))


SEQUENCES = torch.tensor([[0] * 6 + [1] * 8 + [-1] * 2, [3] * 16])
POSITIONS = torch.stack([torch.cat([torch.arange(6), torch.arange(8), torch.zeros(2).long()]),
                         torch.arange(16)])


@pytest.mark.parametrize("options", [
    {"left": 3},
    {"left": 3, "right": 2, "visibility": "bidirectional"},
    {"right": 1, "visibility": "bidirectional"},
    {"cap": 1.5},
    {"softmax_scale": 1.0},
    {"sinks": torch.linspace(-1, 1, H, dtype=torch.float64)},
    {"positions": POSITIONS, "sequences": SEQUENCES},
    {"positions": POSITIONS, "sequences": SEQUENCES, "visibility": "bidirectional", "left": 4},
    {"positions": torch.arange(5, 5 + T)},
    {"positions": torch.arange(T), "query_positions": torch.arange(T).flip(0),
     "visibility": "bidirectional"},
    {"sequences": SEQUENCES},
    {"cap": 1.5, "left": 2, "sinks": torch.zeros(H, dtype=torch.float64)},
], ids=lambda options: "-".join(options))
def test_masks_and_options_agree_with_attention(options: dict[str, object]) -> None:
    given = parameters(T5)
    found = flex.attend(*qkv(), [ROPE, T5], given, **options)
    expected = gnomon.torch.attention(*qkv(), [ROPE, T5], given, **options)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


def test_key_heads_cache_and_layouts() -> None:
    q, k, v = qkv(keys=24, key_heads=2)
    given = parameters(T5)
    expected = gnomon.torch.attention(q, k, v, [ROPE, T5], given)
    torch.testing.assert_close(flex.attend(q, k, v, [ROPE, T5], given), expected, rtol=0,
                               atol=1e-13)
    swapped = flex.attend(*(one.transpose(1, 2) for one in (q, k, v)), [ROPE, T5], given,
                          layout="tokens_heads")
    torch.testing.assert_close(swapped.transpose(1, 2), expected, rtol=0, atol=1e-13)


def test_nan_in_padding_has_no_effect() -> None:
    q, k, v = qkv()
    options = {"positions": POSITIONS, "sequences": SEQUENCES}
    expected = flex.attend(q, k, v, ROPE, **options)
    k[0, :, 14:], v[0, :, 14:] = math.nan, math.nan
    assert torch.equal(flex.attend(q, k, v, ROPE, **options), expected)
    assert torch.equal(expected[0, :, 14:], torch.zeros(H, 2, D, dtype=torch.float64))


def test_sixteen_bits() -> None:
    q, k, v = qkv(dtype=torch.bfloat16)
    exact = flex.attend(q.double(), k.double(), v.double(), [ROPE, T5], parameters(T5))
    found = flex.attend(q, k, v, [ROPE, T5], parameters(T5))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=3e-2)


def test_score_mod_refuses_cosine_attention() -> None:
    spec = usual("swin-v2")
    given = parameters(spec)
    plan = gnomon.lower(spec, T, parameters=given, visibility="bidirectional")
    for encoding in (spec, [ROPE, spec], plan):
        with pytest.raises(ValueError, match="must not scale q and k.*use flex.attend"):
            flex.score_mod(encoding, T, parameters=given)


@pytest.mark.parametrize("name", [one for one in BIASES if one != "swin-v2"])
def test_score_mod_is_the_bias_of_the_plan(name: str) -> None:
    """The scores themselves, element by element, without flex_attention."""
    spec = usual(name)
    given = parameters(spec)
    plan = gnomon.lower(spec, T, parameters=given, visibility="bidirectional")
    expected = torch.from_numpy(plan.bias())
    h, q, k = torch.meshgrid(torch.arange(H), torch.arange(T), torch.arange(T), indexing="ij")
    gates = torch.ones(1, H, T) if name == "wavlm" else None
    score = torch.zeros(H, T, T, dtype=torch.float64)
    for modify in (flex.score_mod(spec, T, parameters=given, gates=gates, dtype=torch.float64),
                   flex.score_mod(plan, gates=gates, dtype=torch.float64)):
        found = modify(score, torch.tensor(0), h, q, k)
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


def test_score_mod_of_a_plan_has_its_cap_and_offset() -> None:
    plan = gnomon.lower(gnomon.Alibi(heads=H), 4, 12, visibility="causal", cap=2.0)
    modify = flex.score_mod(plan, dtype=torch.float64)
    one = torch.tensor(1)
    score = modify(torch.tensor(3.0, dtype=torch.float64), one * 0, one, one * 2, one * 5)
    # Head 1 of 4 has the slope 2^-4; query row 2 is at position 10.
    assert math.isclose(score.item(), 2 * math.tanh(1.5) - 5 / 16, rel_tol=1e-12)


def test_nothing_to_add_is_none() -> None:
    assert flex.score_mod(None, T) is None and flex.score_mod(ROPE, T) is None
    assert flex.mask_mod("bidirectional") is None
    assert flex.block_mask(T, visibility="bidirectional") is None


@pytest.mark.parametrize("left", [None, 0, 3])
@pytest.mark.parametrize("right", [None, 2])
@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
def test_mask_mod(visibility: str, left: int | None, right: int | None) -> None:
    sees = flex.mask_mod(visibility, offset=5, left=left, right=right)
    expected = torch.tensor([[(j <= i + 5 or visibility == "bidirectional")
                              and (left is None or i + 5 - j <= left)
                              and (right is None or j - i - 5 <= right)
                              for j in range(12)] for i in range(7)])
    if sees is None:
        assert expected.all()
    else:
        assert torch.equal(create_mask(sees, 1, 1, 7, 12, "cpu")[0, 0], expected)


def test_mask_mod_of_sequences() -> None:
    sees = flex.mask_mod("bidirectional", sequences=SEQUENCES)
    mine = SEQUENCES[:, :, None]
    expected = (mine == SEQUENCES[:, None, :]) & (mine >= 0)
    assert torch.equal(create_mask(sees, B, 1, T, T, "cpu")[:, 0], expected)


def test_the_scale_has_the_factor_of_yarn() -> None:
    yarn = gnomon.YarnScaling(factor=4.0, original_length=8, softmax_mscale=1.0)
    spec = gnomon.ScaledRotary(rotary_dim=D, pairing="adjacent", length=32, scaling=yarn)
    assert gnomon.lower(spec, T, visibility="causal").softmax_factor > 1.2
    torch.testing.assert_close(flex.attend(*qkv(), spec), gnomon.torch.attention(*qkv(), spec),
                               rtol=0, atol=1e-13)


def test_block_mask_is_shared() -> None:
    assert flex.block_mask(300, visibility="causal") is flex.block_mask(300, visibility="causal")
    given = flex.block_mask(T, visibility="causal", sequences=SEQUENCES)
    expected = flex.attend(*qkv(), T5, parameters(T5), sequences=SEQUENCES)
    found = flex.attend(*qkv(), T5, parameters(T5), mask=given)
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=0)
    torch.testing.assert_close(found[0, :, :14], expected[0, :, :14], rtol=0, atol=0)


def test_more_tokens_than_a_block() -> None:
    torch.manual_seed(3)
    q, k, v = torch.randn(3, 1, H, 300, D, dtype=torch.float64).unbind()
    given = parameters(T5)
    found = flex.attend(q, k, v, [ROPE, T5], given, left=40)
    expected = gnomon.torch.attention(q, k, v, [ROPE, T5], given, left=40)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["t5", "clipped", "kerple", "fire", "swin", "layout",
                                  "dynamic-log"])
def test_gradients_of_the_parameters_agree_with_attention(name: str) -> None:
    spec = usual(name)
    given = [one.requires_grad_() for one in parameters(spec)]
    tensors = qkv(dtype=torch.float32)
    weights = torch.randn(B, H, T, D)
    found = torch.autograd.grad((flex.attend(*tensors, spec, given) * weights).sum(), given)
    expected = torch.autograd.grad(
        (gnomon.torch.attention(*tensors, spec, given) * weights).sum(), given)
    for p, a, b in zip(spec.parameters(), found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5, msg=lambda m, n=p.name: f"{n}: {m}")


def test_parts_with_flex_attention() -> None:
    q, k, v = qkv()
    given = parameters(T5)
    found = flex_attention(q, k, v, scale=1.0,
                           score_mod=flex.score_mod(T5, T, parameters=given, dtype=q.dtype),
                           block_mask=flex.block_mask(T, visibility="causal"))
    bias = gnomon.lower(T5, T, parameters=given, visibility="causal").bias()
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    mask = torch.from_numpy(bias).masked_fill(hidden, -math.inf)
    expected = scaled_dot_product_attention(q, k, v, mask, scale=1.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["rotary", "t5", "fire", "swin", "layout"])
def test_compiled(name: str) -> None:
    """Traced without graph breaks. The backend runs the traced operators."""
    spec = usual(name)
    given, tensors = parameters(spec), qkv(dtype=torch.float32)
    kernel = torch.compile(flex_attention, fullgraph=True, backend="aot_eager")
    found = flex.attend(*tensors, spec, given, kernel=kernel)
    expected = gnomon.torch.attention(*tensors, spec, given)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


def test_errors() -> None:
    with pytest.raises(ValueError, match="visibility must be one of"):
        flex.mask_mod("full")
    with pytest.raises(ValueError, match="left must not be negative, got -1"):
        flex.mask_mod("causal", left=-1)
    with pytest.raises(ValueError, match="gates must be given"):
        spec = usual("wavlm")
        flex.attend(*qkv(), spec, parameters(spec))
    with pytest.raises(ValueError, match="queries must be given"):
        flex.score_mod(T5, parameters=parameters(T5))
    with pytest.raises(ValueError, match="layout must be one of"):
        flex.attend(*qkv(), layout="bhtd")
