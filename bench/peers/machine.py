"""Description of the machine, and its use by other processes."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path


def described() -> dict[str, str]:
    cpu = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", cpu)
    flags = re.search(r"flags\s*:\s*(.*)", cpu)
    known = set(flags[1].split()) if flags else set()
    wanted = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16")
    caches = subprocess.run(["lscpu", "-C=NAME,ALL-SIZE"], capture_output=True, text=True)
    sizes = [line.split() for line in caches.stdout.splitlines()[1:]]
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", pages.read_text()) if pages.exists() else None
    return {
        "cpu": model[1].strip() if model else platform.processor(),
        "instruction sets": " ".join(flag for flag in wanted if flag in known),
        "cores": str(len(os.sched_getaffinity(0))),
        "caches": ", ".join(f"{name} {size}" for name, size in sizes if name != "L1i"),
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "?",
        "huge pages": chosen[1] if chosen else "?",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def busy_seconds() -> float:
    """CPU time of all processes since boot, plus the time that a hypervisor took."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, first[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds(sessions: set[int]) -> float:
    """CPU time of the processes of these sessions and of their finished children."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) in sessions:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def can_prefer() -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except PermissionError:
        return False
    return True


@contextlib.contextmanager
def preferred(process: int) -> Iterator[None]:
    """Gives the threads of the process priority over others, if the system permits it."""

    def set_policy(policy: int, priority: int) -> None:
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))

    set_policy(os.SCHED_RR, 1)
    try:
        yield
    finally:
        set_policy(os.SCHED_OTHER, 0)


def asleep(process: int) -> bool:
    """Whether no thread of the process runs. Thread pools spin for a while after their work."""
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            if (task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "R":
                return False
        except FileNotFoundError:  # ended meanwhile
            continue
    return True
