#!/usr/bin/env python3
"""Traces the system calls of each command: no network, and no change of a file that the user did
not name.

    traces.py BUILD [--python PYTHON] [--case NAME]

Runs each case, all inputs of tests/fuzz/corpus, and the Python package (build/python/core) under
strace. Refused: a socket other than of the system's own services (AF_UNIX), and a file outside
the outputs of the call that is created, opened for writing, renamed or removed. Temporary files
are in the folders of the outputs (`.gnomon-*`) and, for pictures, below $TMPDIR.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import commands
import inputs
import running

CALLS = (
    "%network,open,openat,openat2,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,"
    "renameat2,link,linkat,symlink,symlinkat,truncate,mknod,mknodat,chmod,fchmodat,chown,"
    "fchownat,lchown,utimensat,setxattr,mount,umount2,execve"
)
# A call, its folder if it has one, and the path that changes.
CHANGE = re.compile(r'^\d+\s+(\w+)\((?:[^"(]*?<([^>]*)>, |\w+, )?"((?:[^"\\]|\\.)*)"(.*)$')
ALWAYS = re.compile(r"^/dev/(null|tty|full)$|^/proc/(self|\d+)/(clear_refs|task/.*/comm)$")
READS = {"open", "openat", "openat2"}
ROOT = pathlib.Path(__file__).resolve().parents[2]

# The fuzzers' inputs that are files: the name of the file, and a command that reads it.
FILES = {
    "chart": ("in.json", "plot page --figures in.json --title T -o out.html"),
    "config": ("config.json", "inspect config.json"),
    "edges": ("in.txt", "table degree --graph in.txt -o out.npy"),
    "gguf": ("in.gguf", "inspect in.gguf"),
    "gguf_model": ("in.gguf", "inspect in.gguf"),
    "npy": ("in.npy", "rotate in.npy --positions 0:4 --pairing halves -o out.npy"),
    "safetensors": (
        "in.safetensors",
        "convert in.safetensors --to halves --heads 2 --head-dim 8 -o out.safetensors",
    ),
    "shard_index": (
        "model.safetensors.index.json",
        "convert . --to halves --heads 2 --head-dim 8 -o out",
    ),
}
# Those that choose arguments of functions, and those of JSON that no command reads.
DRAWN = {"attention", "c_api", "dlpack", "encoding", "rotation", "scheme"}

PYTHON = """
import numpy
import gnomon, gnomon.model, gnomon.plot
table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=8, pairing="halves"), 4)
gnomon.rotate(numpy.ones((4, 2, 8), numpy.float32), table)
model = gnomon.model.from_pretrained("model")
model.frequencies()
gnomon.plot.bias("alibi").save("out.html")
print(gnomon.check("rotary"), model.describe())
"""


def defects_of(log, folder, allowed):
    """The lines of a trace that break a rule. `allowed`: names in the folder that may change."""
    found, calls = [], 0
    for line in log.read_text(errors="replace").splitlines():
        line = re.sub(r"<\.\.\. (\w+) resumed>.*", "", line)
        calls += 1
        if " execve(" in line:
            continue
        if re.search(r"\b(socket|socketpair)\((?!AF_UNIX|AF_NETLINK)", line) or re.search(
            r"sa_family=(?!AF_UNIX|AF_NETLINK)AF_", line
        ):
            found.append(line)
            continue
        match = CHANGE.match(line)
        if not match:
            continue
        call, at, path, rest = match.groups()
        if call in ("connect", "sendto", "sendmsg") or (
            call in READS and not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE", rest)
        ):
            continue
        paths = [path] + re.findall(r'"((?:[^"\\]|\\.)*)"', rest if "rename" in call else "")
        if call in ("link", "linkat"):
            paths = re.findall(r'"((?:[^"\\]|\\.)*)"', rest)
        for one in paths:
            full = os.path.normpath(os.path.join(at or folder, one))
            if ALWAYS.match(full):
                continue
            name = os.path.relpath(full, folder)
            top = name.split("/")[0]
            nameless = "O_TMPFILE" in rest and top in (".", *allowed)
            if name.startswith("..") or not (
                top in allowed or top.startswith(".gnomon-") or nameless
            ):
                found.append(line)
    return found, calls


class Traces:
    def __init__(self, place):
        self.place, self.failures, self.commands, self.calls = place, [], 0, 0

    def run(self, name, words, folder, allowed, statuses):
        log = self.place.base / "trace"
        done = subprocess.run(
            [
                "strace",
                "-f",
                "-y",
                "-qq",
                "-s",
                "4096",
                "-e",
                f"trace={CALLS}",
                "-o",
                str(log),
                *words,
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            env=self.place.environment(folder),
            timeout=running.LIMIT,
        )
        found, calls = defects_of(log, str(folder), {*allowed, "temporary"})
        self.commands += 1
        self.calls += calls
        if not calls:
            found.append("no calls were traced")
        if done.returncode not in statuses:
            found.append(f"exit status {done.returncode}: {done.stderr.strip()}")
        self.failures += [f"{name}: {line}" for line in found]

    def case(self, one):
        folder = self.place.folder(one)
        self.run(one.name, self.place.programs.words(one), folder, one.outputs, (0,))
        shutil.rmtree(folder)

    def hostile(self):
        """Every input of the fuzzers that is a file, where the program reads such files."""
        for path in sorted((ROOT / "tests/fuzz/corpus").glob("*/*")):
            kind = path.parent.name
            if kind in DRAWN:
                continue
            if kind not in FILES:
                self.failures.append(f"{kind}: no command for these inputs")
                continue
            name, words = FILES[kind]
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.place.base))
            content = path.read_bytes()
            if kind == "chart":
                content = b'[{"title": "T", "caption": "C", "spec": ' + content + b"}]"
            (folder / name).write_bytes(content)
            (folder / "temporary").mkdir()
            self.run(
                f"hostile {kind}/{path.name}",
                [self.place.programs.gnomon, *words.split()],
                folder,
                ("out.npy", "out.safetensors", "out.html", "out"),
                (0, 2),
            )
            shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--python", default=str(ROOT / "build/python/core/bin/python"))
    parser.add_argument("--case")
    given = parser.parse_args()
    programs = inputs.Programs(given.build)
    cases = [one for one in programs.cases() if given.case in (None, one.name)]
    with tempfile.TemporaryDirectory(prefix="gnomon-traces-") as base:
        traces = Traces(
            running.Workplace(programs, base, {name for one in cases for name in one.needs})
        )
        for one in cases:
            traces.case(one)
        if not given.case:
            traces.hostile()
            one = commands.case("python", "python", "model")
            folder = traces.place.folder(one)
            # -B: Python itself writes compiled modules.
            traces.run(
                "python package",
                [given.python, "-B", "-I", "-c", PYTHON],
                folder,
                ("out.html",),
                (0,),
            )
    for line in traces.failures:
        print(line)
    print(
        f"traces: {traces.commands} processes, {traces.calls} calls, {len(traces.failures)} defects"
    )
    return 1 if traces.failures else 0


if __name__ == "__main__":
    sys.exit(main())
