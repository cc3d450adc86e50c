"""Description of the GPU, of its software, and of the installed packages."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess

import torch

PACKAGES = ("torch", "triton", "flash-attn", "vllm", "liger-kernel", "flashinfer-python")


def driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    found = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                           capture_output=True, text=True, check=False)
    return found.stdout.splitlines()[0].strip() if found.stdout.strip() else "unknown"


def described(device: torch.device) -> dict[str, str]:
    found = {"python": platform.python_version(),
             "system": f"{platform.system()} {platform.release().split('-')[0]}"}
    if device.type != "cuda":
        return {"device": "no GPU (dry run in the emulator)", **found}
    about = torch.cuda.get_device_properties(device)
    return {"device": about.name, "multiprocessors": str(about.multi_processor_count),
            "memory": f"{about.total_memory / 2**30:.0f} GiB",
            "L2": f"{about.L2_cache_size / 2**20:.0f} MiB", "driver": driver(),
            "cuda": torch.version.cuda or "unknown", **found}


def versions(gnomon: str) -> dict[str, str]:
    found = {"Gnomon": gnomon}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
