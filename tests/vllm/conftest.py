"""vLLM in this process, without its plug-ins: tests call the classes of the plug-in themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ["VLLM_PLUGINS"] = ""
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import pytest  # noqa: E402
import torch  # noqa: E402
from vllm.config import (  # noqa: E402
    CompilationConfig,
    DeviceConfig,
    VllmConfig,
    set_current_vllm_config,
)


def made_config() -> VllmConfig:
    """Of a process without a model."""
    made = VllmConfig(device_config=DeviceConfig("cpu"),
                      compilation_config=CompilationConfig(mode=0, custom_ops=["all"]))
    made.model_config = type("Model", (), {"dtype": torch.float32})()
    return made


@pytest.fixture(autouse=True)
def config() -> Iterator[VllmConfig]:
    made = made_config()
    with set_current_vllm_config(made):
        yield made
