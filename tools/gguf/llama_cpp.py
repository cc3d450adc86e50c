"""llama.cpp from the wheel xllamacpp, through ctypes: models, contexts, logits, nodes of graphs.

    import llama_cpp

    llama_cpp.logits("model.gguf", [1, 5, 3])              # [T, vocabulary], one batch
    llama_cpp.logits("model.gguf", [1, 5, 3], step=True)   # token by token, with the KV cache

All computation is in float32: the KV cache too, and without flash attention.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

NAMES = 64  # GGML_MAX_NAME
F32, F16, I32 = 0, 1, 26  # ggml_type


class Tensor(ctypes.Structure):
    """`struct ggml_tensor`."""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.POINTER(Tensor)),
    ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p), ("name", ctypes.c_char * NAMES),
    ("extra", ctypes.c_void_p), ("padding", ctypes.c_char * 8),
]
SetData = ctypes.CFUNCTYPE(None, ctypes.POINTER(Tensor), ctypes.c_void_p)
Observe = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Tensor), ctypes.c_bool, ctypes.c_void_p)
Abort = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class ModelOptions(ctypes.Structure):
    """`struct llama_model_params`."""

    _fields_ = [
        ("devices", ctypes.c_void_p), ("buffer_overrides", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in (
            "n_gpu_layers", "split_mode", "load_mode", "lazy_mode", "main_gpu")),
        *((name, ctypes.c_void_p) for name in (
            "tensor_split", "progress", "progress_data", "kv_overrides")),
        *((name, ctypes.c_bool) for name in (
            "vocab_only", "check_tensors", "use_extra_bufts", "no_host", "no_alloc", "load_mtp")),
        ("room", ctypes.c_char * 64),
    ]


class ContextOptions(ctypes.Structure):
    """`struct llama_context_params`, as in xllamacpp 2026.10.11549."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in (
            "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max",
            "n_outputs_max_per_seq")),
        *((name, ctypes.c_int32) for name in (
            "n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type", "pooling_type",
            "attention_type", "flash_attn_type")),
        *((name, ctypes.c_float) for name in (
            "rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor",
            "yarn_beta_fast", "yarn_beta_slow")),
        ("yarn_orig_ctx", ctypes.c_uint32), ("defrag_thold", ctypes.c_float),
        ("cb_eval", Observe), ("cb_eval_data", ctypes.c_void_p),
        ("type_k", ctypes.c_int), ("type_v", ctypes.c_int),
        ("abort", ctypes.c_void_p), ("abort_data", ctypes.c_void_p),
        ("added", ctypes.c_void_p),  # later than llama.h of 2026-10-01
        *((name, ctypes.c_bool) for name in (
            "embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")),
        ("samplers", ctypes.c_void_p), ("n_samplers", ctypes.c_size_t),
        ("other", ctypes.c_void_p), ("room", ctypes.c_char * 64),
    ]


class Batch(ctypes.Structure):
    """`struct llama_batch`."""

    _fields_ = [
        ("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p),
        ("pos", ctypes.c_void_p), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    ]


class GgufOptions(ctypes.Structure):
    """`struct gguf_init_params`."""

    _fields_ = [("no_alloc", ctypes.c_bool), ("context", ctypes.c_void_p)]


class Failure(RuntimeError):
    """llama.cpp refused a file or a batch. The text is its last messages."""


def _load() -> ctypes.CDLL:
    found = importlib.util.find_spec("xllamacpp")
    if found is None or found.origin is None:
        raise ImportError("llama_cpp requires the wheel xllamacpp")
    library = ctypes.CDLL(str(pathlib.Path(found.origin).parent / "xllamacpp.abi3.so"))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, returned, arguments in (
        ("llama_version", text, []),
        ("llama_log_set", None, [Log, pointer]),
        ("llama_backend_init", None, []),
        ("llama_model_default_params", ModelOptions, []),
        ("llama_context_default_params", ContextOptions, []),
        ("llama_model_load_from_file", pointer, [text, ModelOptions]),
        ("llama_model_init_from_user", pointer, [pointer, SetData, pointer, ModelOptions]),
        ("llama_model_free", None, [pointer]),
        ("llama_model_has_encoder", ctypes.c_bool, [pointer]),
        ("llama_model_has_decoder", ctypes.c_bool, [pointer]),
        ("llama_model_get_vocab", pointer, [pointer]),
        ("llama_model_n_embd_inp", ctypes.c_int32, [pointer]),
        ("llama_model_n_embd_out", ctypes.c_int32, [pointer]),
        ("llama_model_rope_type", ctypes.c_int, [pointer]),
        ("llama_vocab_n_tokens", ctypes.c_int32, [pointer]),
        ("llama_init_from_model", pointer, [pointer, ContextOptions]),
        ("llama_free", None, [pointer]),
        ("llama_n_ctx", ctypes.c_uint32, [pointer]),
        ("llama_encode", ctypes.c_int32, [pointer, Batch]),
        ("llama_decode", ctypes.c_int32, [pointer, Batch]),
        ("llama_get_logits_ith", pointer, [pointer, ctypes.c_int32]),
        ("llama_get_embeddings_ith", pointer, [pointer, ctypes.c_int32]),
        ("gguf_init_from_file", pointer, [text, GgufOptions]),
        ("gguf_free", None, [pointer]),
        ("ggml_set_abort_callback", ctypes.c_void_p, [Abort]),
        ("ggml_op_name", text, [ctypes.c_int]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = returned, arguments
    context, model = library.llama_context_default_params(), library.llama_model_default_params()
    if (context.n_ctx, context.type_k, context.flash_attn_type) != (512, F16, -1) or (
            context.embeddings, context.offload_kqv, context.swa_full, context.kv_unified) != (
            False, True, True, False) or (model.n_gpu_layers, model.use_extra_bufts) != (-1, True):
        raise ImportError("llama_cpp knows the structures of xllamacpp 2026.10.11549; "
                          "those of the installed version differ")
    return library


LIBRARY = _load()
_messages: list[str] = []
_abort_file: list[str] = []


@Log
def _log(level: int, text: bytes, _: Any) -> None:
    if level >= 3:  # GGML_LOG_LEVEL_WARN
        _messages.append(text.decode(errors="replace").strip())
        del _messages[:-20]


@Abort
def _abort(message: bytes) -> None:
    if _abort_file:
        pathlib.Path(_abort_file[0]).write_bytes(message)


def report_aborts(path: str) -> None:
    """Writes the message of an abort to a file before the process ends."""
    _abort_file[:] = [path]


LIBRARY.llama_log_set(_log, None)
LIBRARY.ggml_set_abort_callback(_abort)
LIBRARY.llama_backend_init()


def version() -> str:
    """Returns the version of llama.cpp."""
    return LIBRARY.llama_version().decode()


def _failure(act: str) -> Failure:
    return Failure(f"{act}: " + "; ".join(_messages[-3:]))


def array(tensor: Tensor) -> np.ndarray | None:
    """Returns a copy of a tensor, with the axes of GGML reversed, or None if it has no numbers."""
    kind = {F32: np.float32, F16: np.float16, I32: np.int32}.get(tensor.type)
    if kind is None or not tensor.data or not all(tensor.ne):
        return None
    size = 1 + sum((n - 1) * step for n, step in zip(tensor.ne, tensor.nb)) // kind().itemsize
    flat = np.ctypeslib.as_array(
        (ctypes.c_uint8 * (size * kind().itemsize)).from_address(tensor.data)).view(kind)
    return np.lib.stride_tricks.as_strided(flat, tensor.ne[::-1], tensor.nb[::-1]).copy()


def _options() -> ModelOptions:
    options = LIBRARY.llama_model_default_params()
    options.use_extra_bufts = False  # weights stay in the layout of the file
    return options


@contextlib.contextmanager
def model_of_file(path: Any) -> Iterator[int]:
    """Opens a GGUF file."""
    _messages.clear()
    model = LIBRARY.llama_model_load_from_file(str(path).encode(), _options())
    if not model:
        raise _failure("the file was not opened")
    try:
        yield model
    finally:
        LIBRARY.llama_model_free(model)


def tensors_of_keys(path: Any) -> list[tuple[str, tuple[int, ...], int]]:
    """Returns (name, shape, type) of the tensors of a model that has the keys of this file.

    Shapes are in the order of GGML: the width of a row is first.
    """
    _messages.clear()
    found: list[tuple[str, tuple[int, ...], int]] = []

    @SetData
    def collect(tensor: Any, _: Any) -> None:
        one = tensor.contents
        ctypes.memset(one.data, 0, one.nb[3] * one.ne[3])
        found.append((one.name.decode(), tuple(one.ne), one.type))

    keys = LIBRARY.gguf_init_from_file(str(path).encode(), GgufOptions(True, None))
    try:
        model = LIBRARY.llama_model_init_from_user(keys, collect, None, _options())
        if not model:
            raise _failure("no model has these keys")
        LIBRARY.llama_model_free(model)
    finally:
        LIBRARY.gguf_free(keys)
    return found


@contextlib.contextmanager
def context_of(model: int, length: int, observe: Callable[[Tensor], None] | None = None,
               **options: Any) -> Iterator[int]:
    """Makes a context of `length` tokens. `observe` is called after each node of each graph."""
    given = LIBRARY.llama_context_default_params()
    given.n_ctx = given.n_batch = given.n_ubatch = length
    given.n_threads = given.n_threads_batch = 1
    given.flash_attn_type, given.type_k, given.type_v = 0, F32, F32
    given.offload_kqv = given.op_offload = False
    given.kv_unified = True
    for name, value in options.items():
        setattr(given, name, value)

    @Observe
    def called(tensor: Any, ask: bool, _: Any) -> bool:
        if not ask and observe:
            observe(tensor.contents)
        return True

    if observe:
        given.cb_eval = called
    _messages.clear()
    context = LIBRARY.llama_init_from_model(model, given)
    if not context:
        raise _failure("no context was made")
    try:
        yield context
    finally:
        LIBRARY.llama_free(context)


def run(context: int, tokens: Sequence[int] | np.ndarray, positions: np.ndarray,
        sequences: Sequence[int] | None = None, encode: bool = False) -> None:
    """Runs one batch.

    tokens: ids [T], or embeddings [T, C].
    positions: [T], or [4, T] (t, h, w, 0) for embeddings of a model with M-RoPE.
    sequences: the sequence of each token; default: all 0.
    """
    ids = np.asarray(tokens)
    count = len(ids)
    given = np.ascontiguousarray(ids, np.float32 if ids.ndim == 2 else np.int32)
    places = np.ascontiguousarray(positions, np.int32)
    numbers = np.ascontiguousarray(sequences if sequences is not None else [0] * count, np.int32)
    counts, outputs = np.ones(count, np.int32), np.ones(count, np.int8)
    pointers = (ctypes.c_void_p * (count + 1))(
        *(numbers.ctypes.data + 4 * i for i in range(count)), None)
    data = given.ctypes.data
    batch = Batch(count, None if ids.ndim == 2 else data, data if ids.ndim == 2 else None,
                  places.ctypes.data, counts.ctypes.data, ctypes.addressof(pointers),
                  outputs.ctypes.data)
    _messages.clear()
    if status := (LIBRARY.llama_encode if encode else LIBRARY.llama_decode)(context, batch):
        raise _failure(f"the batch was refused with {status}")


def logits(path: Any, tokens: Sequence[int], step: bool = False) -> np.ndarray:
    """Returns the logits [T, V] of all tokens.

    step: one batch for each token, with the KV cache; otherwise one batch.
    """
    with model_of_file(path) as model, context_of(model, max(len(tokens), 1)) as context:
        size = LIBRARY.llama_vocab_n_tokens(LIBRARY.llama_model_get_vocab(model))
        rows = []
        for begin, end in ([(i, i + 1) for i in range(len(tokens))] if step
                           else [(0, len(tokens))]):
            run(context, tokens[begin:end], np.arange(begin, end))
            for i in range(end - begin):
                row = LIBRARY.llama_get_logits_ith(context, i)
                rows.append(np.ctypeslib.as_array(
                    (ctypes.c_float * size).from_address(row)).copy())
    return np.stack(rows)
