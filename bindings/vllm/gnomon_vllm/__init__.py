"""Rotation and attention of Gnomon in vLLM for CPU.

vLLM calls `register` in each of its processes (entry point `vllm.general_plugins`). The
environment variable GNOMON_VLLM chooses the parts: "rotary,attention" (default), one of them, or
"" for none.
"""

from __future__ import annotations

import os

PARTS = ("rotary", "attention")


def chosen() -> tuple[str, ...]:
    """The parts that GNOMON_VLLM names."""
    names = [name.strip() for name in os.environ.get("GNOMON_VLLM", ",".join(PARTS)).split(",")]
    for name in names:
        if name and name not in PARTS:
            raise ValueError(f"GNOMON_VLLM must name parts of {', '.join(PARTS)}, got {name!r}")
    return tuple(name for name in PARTS if name in names)


def register() -> None:
    """Replaces vLLM's classes. A second call changes nothing. Does nothing on other devices."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    parts = chosen()
    if "rotary" in parts:
        from . import rotary

        rotary.register()
    if "attention" in parts:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

        # The CPU platform always takes CPU_ATTN, so that CUSTOM is never chosen.
        register_backend(AttentionBackendEnum.CPU_ATTN,
                         "gnomon_vllm.attention.GnomonAttentionBackend")
