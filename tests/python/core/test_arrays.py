"""Arrays through DLPack: layouts, element types, read-only memory, errors, no copies."""

from __future__ import annotations

import ctypes
import importlib.util

import numpy as np
import numpy_oracles as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon

if importlib.util.find_spec("ml_dtypes"):
    import ml_dtypes

    TYPES = {"f2": 2.0**-11, "f4": 2.0**-24, "f8": 2.0**-24, ml_dtypes.bfloat16: 2.0**-8}
else:
    TYPES = {"f2": 2.0**-11, "f4": 2.0**-24, "f8": 2.0**-24}

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")


def numbers(shape: tuple[int, ...], dtype: object = "f4") -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def rotated(x: np.ndarray, pairing: str = "halves", rotary_dim: int = 4) -> np.ndarray:
    angles = np.arange(x.shape[-3])[None, :, None] * oracle.inverse_frequencies(rotary_dim, 1e4)
    if x.ndim == 3:
        return oracle.rotate(x[None], angles, pairing)[0]
    return oracle.rotate(x, angles, pairing)


def assert_rotated(got: np.ndarray, before: np.ndarray, pairing: str = "halves") -> None:
    rounding = TYPES[got.dtype.str[1:] if got.dtype.kind == "f" else got.dtype.type]
    wide = np.asarray(before, np.float64)
    tolerance = (3 * 2.0**-24 + 1.01 * rounding) * 2 * max(1, np.abs(wide).max(initial=0))
    np.testing.assert_allclose(np.asarray(got, np.float64), rotated(wide, pairing), 0, tolerance)


@st.composite
def layouts(draw: st.DrawFn, least: int = 0, types: tuple = tuple(TYPES)) -> np.ndarray:
    """A writable array [B, T, H, D] as a view of a larger one, D contiguous."""
    batch, tokens, heads = (draw(st.integers(least, 4)) for _ in range(3))
    head_dim = draw(st.sampled_from([4, 5, 8, 16]))
    order = draw(st.permutations(range(3)))
    steps = [draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in range(3)]
    dtype = draw(st.sampled_from(types))
    shape = (batch, tokens, heads)
    stored = [shape[axis] * abs(steps[axis]) + 1 for axis in order]
    first = draw(st.integers(0, 3))
    memory = numbers((*stored, head_dim + first + 2), dtype)
    axes = np.argsort(order)
    whole = memory.transpose(*axes, 3)[..., first : first + head_dim]
    return whole[
        tuple(slice(None, None, step) for step in steps)
    ][tuple(slice(size) for size in shape)]


@given(layouts(), st.sampled_from(["halves", "adjacent"]))
def test_any_layout_is_rotated_in_place(x: np.ndarray, pairing: str) -> None:
    base = x
    while base.base is not None:
        base = base.base
    outside = np.array(base)
    before = np.array(x)
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=4, pairing=pairing), x.shape[1])
    gnomon.rotate(x, table)
    assert_rotated(x, before, pairing)
    np.testing.assert_array_equal(x[..., 4:], before[..., 4:])
    x[...] = before
    np.testing.assert_array_equal(base, outside)  # nothing else was written


@given(layouts())
def test_any_layout_is_read_and_written(x: np.ndarray) -> None:
    before = np.array(x)
    x.flags.writeable = False
    out = np.empty_like(x)
    gnomon.rotate(x, gnomon.RotaryTable(ROPE, x.shape[1]), out=out)
    np.testing.assert_array_equal(x, before)
    assert_rotated(out, before)


@given(layouts(1, ("f2", "f4", "f8")), layouts(1))
def test_attention_reads_any_layout(q: np.ndarray, k: np.ndarray) -> None:
    q, k = q[:1, : k.shape[1], :1, :4], k[:1, ::-1, :1, :4].astype(q.dtype)
    plan = gnomon.lower(None, q.shape[1], k.shape[1], visibility="bidirectional")
    sees = oracle.visible(q.shape[1], k.shape[1], visibility="bidirectional")
    want, _ = oracle.attention(q, k, k, sees=sees)
    error = (2.0**-17 + TYPES[q.dtype.str[1:]]) * np.abs(k).max(initial=1)
    np.testing.assert_allclose(gnomon.attention(q, k, k, plan), want, 0, error)


@pytest.mark.parametrize("dtype", TYPES)
def test_three_axes_are_a_batch_of_one(dtype: object) -> None:
    x = numbers((5, 2, 8), dtype)
    before = x.copy()
    gnomon.rotate(x, gnomon.RotaryTable(ROPE, 5))
    assert_rotated(x, before)


def test_fortran_order_is_refused_where_the_head_is_not_contiguous() -> None:
    x = np.asfortranarray(numbers((2, 5, 3, 4)))
    with pytest.raises(ValueError, match=r"^\[rotary\] .*contiguous"):
        gnomon.rotate(x, gnomon.RotaryTable(ROPE, 5))
    one_token = np.asfortranarray(numbers((1, 1, 1, 4)))  # contiguous in both orders
    gnomon.rotate(one_token, gnomon.RotaryTable(ROPE, 1))


def test_heads_before_tokens() -> None:
    x = numbers((2, 3, 5, 4))  # [B, H, T, D]
    before = x.copy()
    gnomon.rotate(x.transpose(0, 2, 1, 3), gnomon.RotaryTable(ROPE, 5))
    np.testing.assert_allclose(
        x.transpose(0, 2, 1, 3), rotated(before.transpose(0, 2, 1, 3)), 0, 2e-6
    )


def test_packed_queries_keys_and_values() -> None:
    qkv = numbers((2, 5, 3, 4, 8))  # [B, T, 3, H, D]
    before = qkv.copy()
    table = gnomon.RotaryTable(ROPE, 5)
    gnomon.rotate(qkv[:, :, 0], table, k=qkv[:, :, 1])
    assert_rotated(qkv[:, :, 0], before[:, :, 0])
    assert_rotated(qkv[:, :, 1], before[:, :, 1])
    np.testing.assert_array_equal(qkv[:, :, 2], before[:, :, 2])


def test_a_zero_stride_is_read() -> None:
    x = np.broadcast_to(numbers((1, 5, 1, 4)), (3, 5, 2, 4))
    out = np.empty((3, 5, 2, 4), np.float32)
    gnomon.rotate(x, gnomon.RotaryTable(ROPE, 5), out=out)
    assert_rotated(out, np.array(x))
    plan = gnomon.lower(None, 5, visibility="causal")
    whole = np.ascontiguousarray(x)
    np.testing.assert_array_equal(
        gnomon.attention(x, x, x, plan), gnomon.attention(whole, whole, whole, plan)
    )


@pytest.mark.parametrize("strides", [(0, 0, 0, 4), (40, 8, 4, 4), (40, 4, 8, 4), (0, -8, 0, 4)])
@pytest.mark.parametrize("operation", ["rotate", "attention", "prepare", "add_position"])
def test_a_written_array_that_overlaps_itself_is_refused(operation: str, strides: tuple) -> None:
    memory = numbers((60,))[20:]
    x = np.lib.stride_tricks.as_strided(memory, (1, 5, 3, 4), strides)
    rows = x[:, :, 0, :]
    plan = gnomon.lower(ROPE, 5, visibility="causal")
    table = gnomon.lower(
        gnomon.Sinusoidal(width=4, recipe="interleaved"), 5, visibility="causal"
    )
    with pytest.raises(ValueError, match=rf"^\[{operation}\] .* overlap"):
        if operation == "rotate":
            gnomon.rotate(x, plan.query_rotary)
        elif operation == "attention":
            q = numbers((1, 5, 3, 4))
            gnomon.attention(q, q, q, plan, out=x)
        elif operation == "prepare":
            gnomon.prepare(x, None, None, plan)
        else:
            gnomon.add_position(rows, table)


def test_read_only_memory_is_refused() -> None:
    x = numbers((1, 5, 2, 4))
    plan = gnomon.lower(ROPE, 5, visibility="causal")
    out = np.empty_like(x)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"^\[rotate\] x must be writable.*read-only"):
        frozen = x.copy()
        frozen.flags.writeable = False
        gnomon.rotate(frozen, plan.query_rotary)
    with pytest.raises(ValueError, match=r"^\[rotate\] k must be writable"):
        gnomon.rotate(x, plan.query_rotary, k=out)
    with pytest.raises(ValueError, match=r"^\[rotate\] out must be writable"):
        gnomon.rotate(x, plan.query_rotary, out=out)
    with pytest.raises(ValueError, match=r"^\[attention\] out must be writable"):
        gnomon.attention(x, x, x, plan, out=out)
    with pytest.raises(ValueError, match=r"^\[add_position\] x must be writable"):
        gnomon.add_position(np.broadcast_to(np.float32(0), (1, 5, 4)), plan)
    with pytest.raises(ValueError, match=r"^\[rotate\] x must be writable"):
        gnomon.rotate(plan.query_rotary.cos[..., None], plan.query_rotary)


@pytest.mark.parametrize(
    "wrong", [3, 3.5, "text", [1.0, 2.0], [[1.0]], object(), b"1234", {1: 2}, np.float32(3)]
)
def test_other_objects_are_refused(wrong: object) -> None:
    table = gnomon.RotaryTable(ROPE, 5)
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\] x must"):
        gnomon.rotate(wrong, table)
    with pytest.raises(ValueError, match=r"^\[attention\] q must"):
        x = numbers((1, 5, 2, 4))
        gnomon.attention(wrong, x, x, gnomon.lower(None, 5, visibility="causal"))


def test_none_is_refused_where_an_array_is_required() -> None:
    table = gnomon.RotaryTable(ROPE, 5)
    x = numbers((1, 5, 2, 4))
    with pytest.raises(TypeError, match="rotate"):
        gnomon.rotate(None, table)
    with pytest.raises(TypeError, match="attention"):
        gnomon.attention(x, None, None, gnomon.lower(None, 5, visibility="causal"))


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1", "?", "c8", "c16", "f2,f4", "M8[s]", "U4", "O"])
def test_other_element_types_are_refused(dtype: str) -> None:
    x = np.zeros((1, 5, 2, 4), dtype)
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\] x must"):
        gnomon.rotate(x, gnomon.RotaryTable(ROPE, 5))


def test_the_byte_order_of_the_machine_is_required() -> None:
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\] x must"):
        gnomon.rotate(np.zeros((1, 5, 2, 4), ">f4"), gnomon.RotaryTable(ROPE, 5))


def test_mixed_element_types_are_refused() -> None:
    table = gnomon.RotaryTable(ROPE, 5)
    x = numbers((1, 5, 2, 4))
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\]"):
        gnomon.rotate(x, table, k=x.astype("f8"))
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\]"):
        gnomon.rotate(x, table, out=x.astype("f2"))
    with pytest.raises(ValueError, match=r"^\[attention\]"):
        gnomon.attention(x.astype("f8"), x, x, gnomon.lower(None, 5, visibility="causal"))


class OnGpu:
    """An array whose DLPack capsule says that it is on a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        capsule = self._array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        device_type = pointer(capsule, b"dltensor") + 8  # after `data`
        ctypes.c_int32.from_address(device_type).value = 2  # kDLCUDA
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_another_device_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\] x must"):
        gnomon.rotate(OnGpu(numbers((1, 5, 2, 4))), gnomon.RotaryTable(ROPE, 5))


class ByDlpack:
    """An array that supports DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_any_object_with_dlpack_is_an_array() -> None:
    x = numbers((1, 5, 2, 4))
    before = x.copy()
    gnomon.rotate(ByDlpack(x), gnomon.RotaryTable(ROPE, 5))
    assert_rotated(x, before)


def test_buffers_are_arrays() -> None:
    x = numbers((1, 5, 2, 4))
    before = x.copy()
    gnomon.rotate(memoryview(x), gnomon.RotaryTable(ROPE, 5))
    assert_rotated(x, before)


@pytest.mark.parametrize("shape", [(0, 5, 2, 4), (1, 5, 0, 4)])
def test_empty_arrays_are_allowed(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    gnomon.rotate(x, gnomon.RotaryTable(ROPE, 5))
    plan = gnomon.lower(ROPE, 5, visibility="causal")
    if shape[2]:
        assert gnomon.attention(x, x, x, plan).shape == shape


def test_no_tokens_are_allowed() -> None:
    x = np.zeros((1, 0, 2, 4), np.float32)
    gnomon.rotate(x, gnomon.RotaryTable(ROPE, 0))
    plan = gnomon.lower(ROPE, 0, visibility="causal")
    assert gnomon.attention(x, x, x, plan).shape == x.shape


@pytest.mark.parametrize("shape", [(4,), (5, 4), (1, 1, 5, 2, 4), ()])
def test_other_numbers_of_axes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\] x must"):
        gnomon.rotate(np.zeros(shape, np.float32), gnomon.RotaryTable(ROPE, 5))


def test_the_memory_of_the_argument_is_used() -> None:
    x = numbers((1, 5, 2, 4))
    table = gnomon.RotaryTable(ROPE, 5)
    address = x.ctypes.data
    gnomon.rotate(x, table)
    assert x.ctypes.data == address
    out = np.empty_like(x)
    plan = gnomon.lower(ROPE, 5, visibility="causal")
    assert gnomon.attention(x, x, x, plan, out=out) is out


def test_views_of_a_table_keep_it_alive() -> None:
    cos = gnomon.RotaryTable(ROPE, 1000).cos
    copies = [gnomon.RotaryTable(ROPE, 1000).sin for _ in range(20)]  # would reuse freed memory
    want = np.cos(np.arange(1000)[:, None] * oracle.inverse_frequencies(4, 1e4))
    np.testing.assert_allclose(cos[0], want, 0, 2.0**-24)
    assert not cos.flags.writeable and len(copies) == 20
