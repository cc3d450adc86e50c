"""The part of gnomon.h that the node cases call, by ctypes."""

from __future__ import annotations

import ctypes
import pathlib

import ml_dtypes
import numpy as np

HEADER = (pathlib.Path(__file__).resolve().parents[2] / "include/gnomon.h").read_text()
SIZED = "size_t size" in HEADER  # structs that a caller fills begin with their size
KINDS = {"float32": (2, 32), "float64": (2, 64), "float16": (2, 16), "bfloat16": (4, 16),
         "int64": (0, 64)}


class Tensor(ctypes.Structure):
    """gnomon_tensor of a contiguous array, which it keeps alive."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]

    def __init__(self, array):
        self.array = array
        self.extents = (ctypes.c_int64 * array.ndim)(*array.shape)
        assert array.flags.c_contiguous
        super().__init__(array.ctypes.data, 1, 0, array.ndim, *KINDS[array.dtype.name], 1,
                         ctypes.addressof(self.extents), None, 0)


def _sized(fields):
    return ([("size", ctypes.c_size_t)] if SIZED else []) + fields


class RotarySpec(ctypes.Structure):
    _fields_ = _sized([("rotary_dim", ctypes.c_int64), ("pairing", ctypes.c_int32),
                       ("base", ctypes.c_double), ("head_offset", ctypes.c_int64)])


class AttentionInput(ctypes.Structure):
    _fields_ = _sized([(name, ctypes.c_void_p) for name in
                       ("q", "k", "v", "k_scales", "v_scales", "gates", "terms")])


def _filled(cls, **values):
    made = cls(**values)
    if SIZED:
        made.size = ctypes.sizeof(cls)
    return made


class Library:
    def __init__(self, path):
        self.functions = ctypes.CDLL(str(path))
        self.functions.gnomon_error_message.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        given = [ctypes.byref(one) if isinstance(one, ctypes.Structure) else one
                 for one in arguments]
        if getattr(self.functions, name)(*given):
            raise ValueError(self.functions.gnomon_error_message().decode())

    def rotated(self, x, angles, pairing):
        """x [H, 2 N], rotated by N angles: at position 1 by frequencies that are the angles."""
        spec = _filled(RotarySpec, rotary_dim=2 * len(angles), pairing=pairing)
        frequencies, x = ctypes.c_void_p(), np.ascontiguousarray(x[None])
        self.call("gnomon_frequencies_from", spec, Tensor(np.ascontiguousarray(angles, np.float64)),
                  None, ctypes.c_double(1), ctypes.byref(frequencies))
        tensor = Tensor(x)
        self.call("gnomon_rotate_at", tensor, None, Tensor(np.ones(1, np.int64)), frequencies)
        self.functions.gnomon_frequencies_destroy(frequencies)
        return x[0]

    def attention(self, q, k, v, *, causal=False, offset=0, left=-1, right=-1, scale=None, cap=0,
                  bias=None, what="out"):
        """q, k, v [B, T, H, D]. what: 'out', or the matrix 'weights' or 'scores' [B, H, T, S]."""
        plan, name = ctypes.c_void_p(), "gnomon_layer_plan_"
        self.call(name + "create", ctypes.byref(plan))
        self.call(name + "set_mask", plan, 1 if causal else 2, ctypes.c_int64(offset),
                  ctypes.c_int64(left), ctypes.c_int64(right))
        self.call(name + "set_softmax", plan,
                  ctypes.c_double(float("nan") if scale is None else scale), ctypes.c_double(cap),
                  None)
        kept = [Tensor(np.ascontiguousarray(one)) for one in (q, k, v)]
        if bias is not None:
            kept.append(Tensor(np.ascontiguousarray(bias, np.float32)))
            self.call(name + "set_dense", plan, kept[-1])
        given = _filled(AttentionInput, **{
            key: ctypes.addressof(one) for key, one in zip("qkv", kept)})
        batch, tokens, heads = q.shape[:3]
        if what == "out":
            out = np.zeros((batch, tokens, heads, v.shape[3]), q.dtype)
            self.call("gnomon_attention", given, plan, Tensor(out), None)
        else:
            out = np.zeros((batch, heads, tokens, k.shape[1]), np.float32)
            both = (Tensor(out), None) if what == "weights" else (None, Tensor(out))
            self.call("gnomon_attention_weights", given, plan, *both)
        self.functions.gnomon_layer_plan_destroy(plan)
        return out

    def encoded(self, json, causal, q, k, v, parameters, hidden):
        """Attention with an encoding whose terms are computed from hidden [B, S, C]."""
        encoding, plan, terms = (ctypes.c_void_p() for _ in range(3))
        values = [Tensor(one) for one in parameters]
        list_of = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        count = ctypes.c_int64(len(values))
        self.call("gnomon_encoding_from_json", json.encode(), ctypes.byref(encoding))
        self.call("gnomon_encoding_lower", encoding, list_of, count, ctypes.c_int64(q.shape[1]),
                  ctypes.c_int64(k.shape[1]), ctypes.byref(plan))
        self.call("gnomon_layer_plan_set_mask", plan, 1 if causal else 2,
                  ctypes.c_int64(k.shape[1] - q.shape[1]), ctypes.c_int64(-1), ctypes.c_int64(-1))
        self.call("gnomon_encoding_terms", encoding, list_of, count, Tensor(hidden),
                  ctypes.byref(terms))
        kept = [Tensor(one) for one in (q, k, v)]
        out = np.zeros((*q.shape[:3], v.shape[3]), np.float32)
        lse = np.zeros((q.shape[0], q.shape[2], q.shape[1]), np.float32)
        given = _filled(AttentionInput, terms=terms.value, **{
            key: ctypes.addressof(one) for key, one in zip("qkv", kept)})
        self.call("gnomon_attention", given, plan, Tensor(out), Tensor(lse))
        for name, handle in (("encoding", encoding), ("layer_plan", plan), ("terms", terms)):
            getattr(self.functions, f"gnomon_{name}_destroy")(handle)
        return [out, lse]


__all__ = ["Library", "ml_dtypes"]
