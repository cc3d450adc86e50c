"""bindings/python/xla_ffi.h against the header of the installed jaxlib, and the handshake."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
from typing import Any

import jax
import jaxlib
import pytest

from gnomon import _core

ROOT = pathlib.Path(__file__).parents[3]

HEAD = "size struct_size, extensions extension_start, "
# Ours, theirs, the members of both, and whether we declare all members of theirs.
STRUCTS = [
    ("Extension", "XLA_FFI_Extension_Base", "size struct_size, type type, next next", True),
    (
        "Version",
        "XLA_FFI_Api_Version",
        HEAD + "major major_version, minor minor_version",
        True,
    ),
    (
        "ErrorArguments",
        "XLA_FFI_Error_Create_Args",
        HEAD + "message message, code errc",
        True,
    ),
    (
        "Api",
        "XLA_FFI_Api",
        HEAD + "version api_version, internal_api internal_api, create_error XLA_FFI_Error_Create",
        False,
    ),
    (
        "Buffer",
        "XLA_FFI_Buffer",
        HEAD + "type dtype, data data, rank rank, shape dims",
        True,
    ),
    ("Text", "XLA_FFI_ByteSpan", "data ptr, length len", True),
    (
        "Buffers",
        "XLA_FFI_Args",
        HEAD + "count size, types types, buffers args",
        True,
    ),
    (
        "Buffers",
        "XLA_FFI_Rets",
        HEAD + "count size, types types, buffers rets",
        True,
    ),
    (
        "Attributes",
        "XLA_FFI_Attrs",
        HEAD + "count size, types types, names names, values attrs",
        True,
    ),
    (
        "CallFrame",
        "XLA_FFI_CallFrame",
        HEAD + "api api, context ctx, stage stage, arguments args, results rets, attributes attrs",
        False,
    ),
    ("Metadata", "XLA_FFI_Metadata", "size struct_size, version api_version, traits traits", False),
    (
        "MetadataExtension",
        "XLA_FFI_Metadata_Extension",
        "base extension_base, metadata metadata",
        True,
    ),
]
VALUES = [
    ("ElementType::i32", "XLA_FFI_DataType_S32"),
    ("ElementType::i64", "XLA_FFI_DataType_S64"),
    ("ElementType::f16", "XLA_FFI_DataType_F16"),
    ("ElementType::f32", "XLA_FFI_DataType_F32"),
    ("ElementType::f64", "XLA_FFI_DataType_F64"),
    ("ElementType::bf16", "XLA_FFI_DataType_BF16"),
    ("ErrorCode::invalid_argument", "XLA_FFI_Error_Code_INVALID_ARGUMENT"),
    ("ErrorCode::resource_exhausted", "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED"),
    ("ErrorCode::internal", "XLA_FFI_Error_Code_INTERNAL"),
    ("ExtensionType::metadata", "XLA_FFI_Extension_Metadata"),
    ("AttributeType::string", "XLA_FFI_AttrType_STRING"),
]


def program() -> str:
    lines = [
        '#include "bindings/python/xla_ffi.h"',
        '#include "xla/ffi/api/c_api.h"',
        "namespace ours = gnomon::xla;",
        "template <typename T, typename S> constexpr bool same_size = sizeof(T) == sizeof(S);",
    ]
    for ours, theirs, members, whole in STRUCTS:
        if whole:
            lines.append(f'static_assert(same_size<ours::{ours}, {theirs}>, "{ours}");')
        for pair in members.split(", "):
            one, other = pair.split()
            lines += [
                f"static_assert(offsetof(ours::{ours}, {one}) == offsetof({theirs}, {other}), "
                f'"{ours}::{one}");',
                f"static_assert(same_size<decltype(ours::{ours}::{one}), "
                f'decltype({theirs}::{other})>, "{ours}::{one}");',
            ]
    for one, other in VALUES:
        lines.append(f'static_assert(static_cast<int>(ours::{one}) == {other}, "{one}");')
        enum = other.rsplit("_", 1)[0] if "Error" not in other else "XLA_FFI_Error_Code"
        enum = {"XLA_FFI_Extension": "XLA_FFI_Extension_Type"}.get(enum, enum)
        lines.append(f'static_assert(same_size<decltype(ours::{one}), {enum}>, "{one}");')
    lines += [
        'static_assert(ours::major_version == XLA_FFI_API_MAJOR, "major");',
        'static_assert(ours::minor_version <= XLA_FFI_API_MINOR, "minor");',
        "int main() {}",
    ]
    return "\n".join(lines) + "\n"


def compile_with(source: str, folder: pathlib.Path) -> str:
    file = folder / "abi.cc"
    file.write_text(source)
    done = subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-fsyntax-only",
            "-Wno-invalid-offsetof",
            f"-I{ROOT}",
            f"-I{jax.ffi.include_dir()}",
            str(file),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


def test_declarations_equal_those_of_jaxlib(tmp_path: pathlib.Path) -> None:
    assert compile_with(program(), tmp_path) == "", f"jaxlib {jaxlib.__version__}"


@pytest.mark.parametrize(
    "correct, wrong",
    [
        ("offsetof(XLA_FFI_CallFrame, ctx)", "offsetof(XLA_FFI_CallFrame, stage)"),
        ("== XLA_FFI_DataType_F16", "== XLA_FFI_DataType_BF16"),
        ("same_size<ours::Buffer, XLA_FFI_Buffer>", "same_size<ours::Buffer, XLA_FFI_Scalar>"),
    ],
)
def test_a_difference_is_found(tmp_path: pathlib.Path, correct: str, wrong: str) -> None:
    assert correct in program()
    assert "static assertion failed" in compile_with(program().replace(correct, wrong), tmp_path)


class Version(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


class ErrorArguments(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


CreateError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ErrorArguments))


class Api(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("version", Version),
        ("internal", ctypes.c_void_p),
        ("create_error", CreateError),
    ]


class CallFrame(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("api", ctypes.POINTER(Api)),
        ("rest", ctypes.c_byte * 256),
    ]


class Metadata(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("version", Version),
        ("traits", ctypes.c_uint32),
        ("state", ctypes.c_int64),
    ]


class MetadataExtension(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    ]


def handlers() -> dict[str, Any]:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    form = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(CallFrame))
    return {
        name: form(pointer(capsule, b"xla._CUSTOM_CALL_TARGET"))
        for name, capsule in _core.jax_targets().items()
    }


@pytest.mark.parametrize("name", sorted(_core.jax_targets()))
def test_handlers_report_their_version(name: str) -> None:
    metadata = Metadata(version=Version(major=-1, minor=-1))
    extension = MetadataExtension(type=1, metadata=ctypes.pointer(metadata))
    frame = CallFrame(extensions=ctypes.addressof(extension))
    assert handlers()[name](ctypes.byref(frame)) is None
    assert (metadata.version.major, metadata.version.minor) == (0, 1)


@pytest.mark.parametrize("name", sorted(_core.jax_targets()))
def test_handlers_refuse_a_newer_major_version(name: str) -> None:
    messages = []

    def create(arguments: Any) -> int:
        messages.append((arguments.contents.message.decode(), arguments.contents.code))
        return 1

    api = Api(version=Version(major=1, minor=0), create_error=CreateError(create))
    frame = CallFrame(api=ctypes.pointer(api))
    assert handlers()[name](ctypes.byref(frame)) == 1
    [(message, code)] = messages
    assert message.startswith("[jax] the major version of XLA's FFI must be 0")
    assert code == 3
