"""Writes the table of docs/attention/costs.md: encodings beside plain attention of the same call.

    python3 tools/costs.py [--gnomon build/release/apps/cli/gnomon] [--isa avx2 --isa avx512] [--rounds 5]

One thread. Each number is the median over rounds of `gnomon bench beside`, which alternates each
encoding with plain attention.
"""

import argparse
import json
import pathlib
import platform
import re
import statistics
import subprocess

root = pathlib.Path(__file__).parent.parent
page = root / "docs/attention/costs.md"


def measure(gnomon, isa):
    command = [gnomon, "bench", "beside", "--threads", "1", "--isa", isa, "--json"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    for kernel in json.loads(run.stdout)["kernels"]:
        name, direction, _ = kernel["detail"].split(" ", 2)
        yield name, direction, 1 / kernel["share"], kernel["extra_bytes"]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gnomon", default=root / "build/release/apps/cli/gnomon")
    parser.add_argument("--isa", action="append")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    instructions = options.isa or ["avx2", "avx512"]
    times, memory = {}, {}
    for _ in range(options.rounds):
        for isa in instructions:
            for name, direction, ratio, extra in measure(options.gnomon, isa):
                times.setdefault(name, {}).setdefault((isa, direction), []).append(ratio)
                memory[name, direction] = extra
    columns = [(isa, direction) for isa in instructions for direction in ("forward", "backward")]
    heads = [f"{direction}, {isa}" for isa, direction in columns]
    rounds = "one round" if options.rounds == 1 else f"the median of {options.rounds} rounds"
    lines = [
        f"Measured on {processor()}, {rounds}:",
        "",
        f"| encoding | {' | '.join(heads)} | extra forward | extra backward |",
        "|" + "---|" * (len(columns) + 3),
    ]
    for name, measured in times.items():
        cells = [f"{statistics.median(measured[column]):.2f}" for column in columns]
        cells += [f"{memory[name, direction] / 1e6:.1f} MB" for direction in ("forward", "backward")]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    text = page.read_text()
    marks = r"(<!-- costs -->\n).*(<!-- end of costs -->)"
    page.write_text(re.sub(marks, lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.S))


if __name__ == "__main__":
    main()
