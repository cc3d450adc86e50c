#!/usr/bin/env python3
"""Checks the compiled CUDA kernels: registers, spills, and 128-bit loads and stores.

Usage: cuda_kernels.py LIBRARY COMPILER_VERSION [--update]

Uses cuobjdump and nvdisasm of the PATH, or those that `tools/python.sh cuda` installs.

Compares the kernels for sm_90 with bench/instructions/cuda.tsv. Fails if a kernel of any device
has local memory (spills), if one with 16-byte vectors has no 128-bit load or store on sm_90, if the
library has no PTX for newer devices, or if a kernel needs more registers than recorded, by more
than one step of allocation (8) with the recorded compiler or 16 with another one.
"""

from __future__ import annotations

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
TABLE = ROOT / "bench/instructions/cuda.tsv"
MAIN = "sm_90"
# 16-byte vectors: the width of the element types f32, f16 and bf16.
WHOLE = {"f32": 4, "f16": 8, "bf16": 8}


def run(*command: str, stdin: str | None = None) -> str:
    return subprocess.run(command, input=stdin, text=True, check=True, capture_output=True).stdout


def short(name: str) -> str:
    """Returns "Rotate bf16 halves 8 4 TableAngles" for a demangled kernel."""
    name = re.sub(r"^void gnomon::cuda::run_kernel<gnomon::cuda::(.*)>\(T1\)$", r"\1", name)
    name = re.sub(r"^void gnomon::cuda::run_kernel<gnomon::cuda::(.*)>\(.*\)$", r"\1", name)
    name = name.replace("gnomon::cuda::", "").replace("gnomon::", "")
    name = name.replace("(Pairing)1", "halves").replace("(Pairing)2", "adjacent")
    name = re.sub(r"\((?:int|bool)\)", "", name).replace("Float8", "f8")
    name = name.replace("BFloat16", "bf16").replace("Half", "f16").replace("float", "f32")
    return re.sub(r"[<>, ]+", " ", name.replace("Kernel", "")).strip()


def kernels_of(library: str, cuobjdump: str) -> dict[tuple[str, str], dict[str, int]]:
    """Returns numbers of each (kernel, device)."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    mangled = set()
    arch = ""
    name = None
    for line in run(cuobjdump, "--dump-resource-usage", library).splitlines():
        if match := re.match(r"arch = (sm_\d+)", line):
            arch = match[1]
        elif match := re.match(r"\s*Function (\S+):", line):
            name = match[1]
        elif name and "REG:" in line:
            numbers = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)}
            found[name, arch] = {"registers": numbers["REG"],
                                 "local": numbers["LOCAL"] + numbers["STACK"],
                                 "ldg128": 0, "stg128": 0, "instructions": 0}
            mangled.add(name)
            name = None
    current = None
    for line in run(cuobjdump, "--dump-sass", "--gpu-architecture", MAIN, library).splitlines():
        if match := re.match(r"\s*(?:arch = |code for )(sm_\d+)", line):
            arch = match[1]
        elif match := re.match(r"\s*Function : (\S+)", line):
            current = found.get((match[1], arch))
        elif current is not None and (match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line)):
            current["instructions"] += 1
            current["ldg128"] += bool(re.search(r"\bLDG\.E\S*\.128", match[1]))
            current["stg128"] += bool(re.search(r"\bSTG\.E\S*\.128", match[1]))
    names = sorted(mangled)
    readable = dict(zip(names, run("c++filt", stdin="\n".join(names)).splitlines()))
    return {(short(readable[name]), device): numbers
            for (name, device), numbers in found.items()}


def vectors(kernel: str) -> bool:
    """Whether the kernel moves elements 16 bytes at a time."""
    words = kernel.split()
    types = [word for word in words if word in WHOLE]
    return bool(types) and str(WHOLE[types[0]]) in words


def main() -> int:
    library, compiler = [word for word in sys.argv[1:] if word != "--update"]
    for folder in ROOT.glob("build/python/cuda/lib/python3*/site-packages/nvidia/*/bin"):
        os.environ["PATH"] += f":{folder}"
    cuobjdump = shutil.which("cuobjdump")
    if not cuobjdump:
        print("cuobjdump is missing: run `tools/python.sh cuda`")
        return 1
    kernels = kernels_of(library, cuobjdump)
    problems = []
    if not re.search(r"PTX file|\.ptx", run(cuobjdump, "--list-ptx", library)):
        problems.append("the library has no PTX for newer devices")
    devices = collections.Counter(device for _, device in kernels)
    if not kernels or devices[MAIN] == 0:
        problems.append(f"the library has no kernels for {MAIN}")
    for (kernel, device), numbers in sorted(kernels.items()):
        if numbers["local"]:
            problems.append(f"{kernel} for {device}: {numbers['local']} bytes of local memory")
        reads = not kernel.startswith("Fill")
        if device == MAIN and vectors(kernel) and not (numbers["stg128"] and (numbers["ldg128"] or not reads)):
            problems.append(f"{kernel} for {device}: no 128-bit load or store")
    rows = {kernel: numbers for (kernel, device), numbers in kernels.items() if device == MAIN}
    columns = ("registers", "ldg128", "stg128", "instructions")
    if "--update" in sys.argv:
        lines = [f"# Kernels compiled for {MAIN}. tools/cuda_kernels.py compares; with --update it writes.",
                 f"# compiler: nvcc {compiler}", "# kernel\t" + "\t".join(columns)]
        lines += ["\t".join([kernel, *(str(numbers[key]) for key in columns)])
                  for kernel, numbers in sorted(rows.items())]
        TABLE.write_text("\n".join(lines) + "\n")
        print(f"wrote {TABLE.name}")
    else:
        text = TABLE.read_text()
        slack = 8 if f"# compiler: nvcc {compiler}\n" in text else 16
        recorded = {line.split("\t")[0]: int(line.split("\t")[1])
                    for line in text.splitlines() if not line.startswith("#")}
        for kernel, numbers in rows.items():
            if kernel not in recorded:
                problems.append(f"{kernel}: not in {TABLE.name}")
            elif numbers["registers"] > recorded[kernel] + slack:
                problems.append(f"{kernel}: {numbers['registers']} registers, recorded "
                                f"{recorded[kernel]}")
        problems += [f"{kernel}: recorded, but no such kernel"
                     for kernel in recorded if kernel not in rows]
    most = max((numbers["registers"] for numbers in kernels.values()), default=0)
    print(f"{len(rows)} kernels for {', '.join(sorted(devices))} and PTX: at most {most} "
          f"registers, {sum(map(vectors, rows))} with 16-byte vectors")
    for problem in problems:
        print(problem)
    if problems:
        print("If a change is intended: tools/cuda_kernels.py LIBRARY VERSION --update")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
