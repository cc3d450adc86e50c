#!/usr/bin/env python3
"""Measures how many one-token changes of the sources the tests notice.

    mutate.py build                      the build folder build/mutation, without changes
    mutate.py baseline                   the tests without changes, and their times
    mutate.py run RESULTS [--count 300] [--seed 1] [--share 0/1]
    mutate.py again RESULTS [INDEX...]   survivors again, after tests were added
    mutate.py verify RESULTS...          the cases that noticed a change, without it: all must pass
    mutate.py report RESULTS...

`run` draws places of src and apps/lab (sites.py), changes one, builds what depends on it and runs
tests: those of the file, those of its module, then all others. RESULTS has one line of JSON for
each change, and one for each state of the sources. A call with the same RESULTS goes on behind the
last line, also after the sources changed: then it draws from the present ones. Change `INDEX`
depends on the sources, the seed and the index only, so several calls, each in a worktree of its
own, can have a share each: --share 0/2 and --share 1/2. results.jsonl has the last campaign.

Results: killed (a test failed), timeout (a test took ten times as long as without the change),
survived, equivalent (the same object files), invalid (does not compile). After one of the last
two, the same index is drawn again.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

from sites import Site, all_sites

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/mutation"
BASELINE = BUILD / "baseline.json"
ORIGINAL = BUILD / "original.json"  # the file that is changed at the moment
GLOBS = ["src/**/*.cc", "src/**/*.h", "apps/lab/**/*.cc", "apps/lab/**/*.h"]
# Not compiled here, or not a part of any test.
LEFT_OUT = re.compile(r"_windows\.cc$|^src/cuda/device\.cu$|tokenizer_program\.cc$|openblas\.h$")

TESTS = "tests/gnomon_tests"
TORCH = "tests/gnomon_torch_tests"
CUDA = "tests/cuda/gnomon_cuda_tests"
# Programs of the tests in the order in which they run, with their share of memory in GiB.
PROGRAMS = {
    TESTS: 8, CUDA: 8, "tests/gnomon_allocation_tests": 8, "tests/gnomon_cli_tests": 8, TORCH: 16,
}  # fmt: skip
C_PROGRAMS = [f"tests/gnomon_c_{name}_test" for name in ("core", "model", "paged_cache")]
FAST = 0.3  # seconds: files of cases that run before slower ones


def environment() -> dict[str, str]:
    temporary = BUILD / "temporary"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    return os.environ | {
        "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1",
        "TMPDIR": str(temporary),
    }  # fmt: skip


def ninja(targets: list[str], jobs: int) -> tuple[bool, float]:
    begin = time.monotonic()
    command = ["ninja", "-C", str(BUILD), f"-j{jobs}", *targets]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output = process.communicate()[0]
    except BaseException:  # a compiler must not write an object of the change later
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode and re.search(r"manifest|No space left|Killed", output):
        sys.exit(output[-3000:])
    return process.returncode == 0, time.monotonic() - begin


def build(jobs: int) -> None:
    subprocess.run(
        ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={ROOT}/tools/mutation/build.cmake",
         "-DGNOMON_BENCH=OFF", "-DGNOMON_LEFT_OUT=|HWY_SSE4",
         "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"],
        check=True,
    )  # fmt: skip
    subprocess.run(["ninja", "-C", str(BUILD), f"-j{jobs}", *PROGRAMS, *C_PROGRAMS], check=True)


def limit_process(program: str, limit: float) -> None:
    seconds = int(limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = PROGRAMS.get(program, 8) << 30
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))  # not what is only reserved


def run_tests(program: str, cases: list[str] | None, limit: float) -> tuple[str, str, float]:
    """Returns ok, failed or timeout; the first case that failed; the seconds of the processor."""
    command = [str(BUILD / program)]
    if cases is not None:
        # A long list does not fit into an argument.
        command += ["--gtest_fail_fast", f"--gtest_flagfile={BUILD / 'flags'}"]
        (BUILD / "flags").write_text("--gtest_filter=" + ":".join(cases))

    before = os.times()
    log = BUILD / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment(), cwd=BUILD,
            preexec_fn=lambda: limit_process(program, limit), start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(timeout=20 * limit + 60)
        except subprocess.TimeoutExpired:
            status = -signal.SIGXCPU
        try:
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
        except ProcessLookupError:
            pass
        process.wait()
    after = os.times()
    seconds = sum(after[2:4]) - sum(before[2:4])  # of processes that ended
    if status == 0:
        return "ok", "", seconds
    text = log.read_text(errors="replace")
    failed = re.search(r"^\[  FAILED  \] ([\w./]*\w)", text, re.MULTILINE)
    started = re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)
    name = failed[1] if failed else started[-1] if started else program
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout", name, seconds
    return "failed", name if failed else f"{name} (status {status})", seconds


def baseline() -> None:
    """Records the times of all cases, and the cases that fail here without a change."""
    files: dict[str, dict] = {}
    for program in PROGRAMS:
        out = BUILD / f"cases/{pathlib.PurePath(program).name}.json"
        if not out.exists() or out.stat().st_mtime < (BUILD / program).stat().st_mtime:
            subprocess.run(
                [str(BUILD / program), f"--gtest_output=json:{out}"], stdout=subprocess.DEVNULL,
                env=environment(), cwd=BUILD, preexec_fn=lambda: limit_process(program, 3600),
            )  # fmt: skip
        for suite in json.loads(out.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                path = os.path.relpath(os.path.join(BUILD, case["file"]), ROOT)
                one = files.setdefault(
                    path, {"program": program, "seconds": 0.0, "cases": [], "left_out": []}
                )
                name = f"{suite['name']}.{case['name']}"
                one["left_out" if "failures" in case else "cases"].append(name)
                one["seconds"] += float(case["time"].rstrip("s"))
    BASELINE.write_text(json.dumps(files, indent=1))
    for program in PROGRAMS:
        of = [one for one in files.values() if one["program"] == program]
        print(program, len(of), "files,", sum(len(one["cases"]) for one in of), "cases,",
              round(sum(one["seconds"] for one in of)), "s; left out:",
              sorted(name for one in of for name in one["left_out"]))  # fmt: skip


def uses(test: str, program: str, module: str) -> bool:
    """Returns whether a file of cases runs for changes of a module: those of the lab are slow."""
    if module == "lab":
        return program == TORCH
    if module == "cuda":
        return program == CUDA
    return module == "plot" or not test.startswith("tests/lab/")


def stages(path: str, files: dict[str, dict]) -> list[tuple[str, list[str] | None, float]]:
    """Returns programs, their cases and their times: first those that most likely notice."""
    parts = pathlib.PurePosixPath(path).parts
    module = "lab" if parts[0] == "apps" else parts[1]
    stem = re.sub(r"(_simd|-inl|_kernel|_command)$", "", pathlib.PurePosixPath(path).stem)
    folder = parts[-2]

    def distance(test: str) -> int:
        name = re.sub(r"_test$", "", pathlib.PurePosixPath(test).stem)
        if not test.startswith(f"tests/{module}/"):
            return 2
        near = name.startswith((stem, folder + "_")) or stem.startswith(name + "_")
        return 0 if near else 1

    groups: dict[tuple, list[str]] = collections.defaultdict(list)
    for test, one in files.items():
        if not one["cases"] or not uses(test, one["program"], module):
            continue
        slow = one["seconds"] > FAST
        order = list(PROGRAMS).index(one["program"])
        key = distance(test), slow, one["seconds"] if slow else order, order, one["program"]
        groups[key].append(test)
    result: list[tuple[str, list[str] | None, float]] = []
    for key in sorted(groups):
        cases = [case for test in groups[key] for case in files[test]["cases"]]
        seconds = sum(files[test]["seconds"] for test in groups[key])
        result.append((key[-1], cases, seconds))
    if module not in ("lab", "cuda"):
        result += [(program, None, 2.0) for program in C_PROGRAMS]
    return result


def dependents() -> dict[str, list[str]]:
    """Returns the objects of each source and header, from the last build."""
    listed = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = collections.defaultdict(list)
    target = ""
    for line in listed.split("\n"):
        if line and not line.startswith(" "):
            target = line.split(":")[0]
        elif line.strip() and (BUILD / target).exists():
            path = os.path.relpath(os.path.join(BUILD, line.strip()), ROOT)
            if path.startswith(("src/", "apps/")):
                found[path].append(target)
    return found


def digests(objects: list[str]) -> list[str]:
    return [hashlib.sha256((BUILD / one).read_bytes()).hexdigest() for one in objects]


def restore() -> None:
    """Undoes a change, also that of a call that was killed."""
    if ORIGINAL.exists():
        saved = json.loads(ORIGINAL.read_text())
        (ROOT / saved["path"]).write_text(saved["text"])
        ORIGINAL.unlink()


class Campaign:
    def __init__(self, results: pathlib.Path, seed: int, jobs: int) -> None:
        restore()
        ninja([*PROGRAMS, *C_PROGRAMS], jobs)
        self.results, self.seed, self.jobs = results, seed, jobs
        self.sites = all_sites(ROOT, GLOBS, LEFT_OUT)
        self.files = json.loads(BASELINE.read_text())
        self.objects = dependents()
        listed = hashlib.sha256(repr(self.sites).encode()).hexdigest()[:16]
        text = results.read_text() if results.exists() else ""
        self.done = [json.loads(line) for line in text.split("\n") if line]
        head = {"seed": seed, "sites": len(self.sites), "digest": listed}
        heads = [one for one in self.done if "seed" in one]
        if heads and heads[-1]["seed"] != seed:
            sys.exit(f"{results} is of seed {heads[-1]['seed']}: use a new file")
        if not heads or heads[-1] != head:
            self.write(head)

    def write(self, record: dict) -> None:
        self.done.append(record)
        with self.results.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def draw(self, index: int, attempt: int) -> Site:
        return random.Random(f"{self.seed}:{index}:{attempt}").choice(self.sites)

    def found_again(self, record: dict) -> Site | None:
        """Returns the place of an earlier change, also if the lines around it have moved."""
        same = {}
        for site in self.sites:
            if site.path == record["file"]:
                place = self.place(site)
                if all(place[key] == record[key] for key in place if key != "line"):
                    same[abs(place["line"] - record["line"])] = site
        return same[min(same)] if same else None

    def place(self, site: Site) -> dict:
        text = (ROOT / site.path).read_text()
        line = text.count("\n", 0, site.begin)
        return {
            "file": site.path, "line": line + 1, "column": site.begin - text.rfind("\n", 0, site.begin),
            "kind": site.kind, "before": site.before, "after": site.after,
            "text": text.split("\n")[line].strip(),
        }  # fmt: skip

    def change(self, index: int, attempt: int, site: Site) -> str:
        path = ROOT / site.path
        text = path.read_text()
        record = {"index": index, "attempt": attempt} | self.place(site)
        # Objects of programs that are not built here have no file.
        objects = [one for one in self.objects.get(site.path, []) if (BUILD / one).exists()]
        if not objects:
            self.write(record | {"result": "invalid", "by": "not compiled"})
            return "invalid"
        before = digests(objects)
        ORIGINAL.write_text(json.dumps({"path": site.path, "text": text}))
        try:
            path.write_text(text[: site.begin] + site.after + text[site.end :])
            record |= self.examine(site, objects, before)
        finally:
            restore()
        ninja(objects, self.jobs)  # from the compiler's cache
        self.write(record)
        print(index, attempt, record["result"], f"{site.path}:{record['line']}", repr(site.before), "->",
              repr(site.after), record.get("by", ""), record["seconds"], flush=True)  # fmt: skip
        return record["result"]

    def examine(self, site: Site, objects: list[str], before: list[str]) -> dict:
        valid, compiling = ninja(objects, self.jobs)
        seconds = {"compile": round(compiling, 1)}
        if not valid:
            return {"result": "invalid", "seconds": seconds}
        if digests(objects) == before:
            return {"result": "equivalent", "seconds": seconds}
        seconds |= {"link": 0.0, "test": 0.0, "wall": 0.0}
        built: set[str] = set()
        for program, cases, usual in stages(site.path, self.files):
            if program not in built:
                linked, linking = ninja([program], self.jobs)
                seconds["link"] = round(seconds["link"] + linking, 1)
                if not linked:
                    return {"result": "invalid", "by": "link", "seconds": seconds}
                built.add(program)
            begin = time.monotonic()
            result, name, used = run_tests(program, cases, 10 * usual + 20)
            seconds["test"] = round(seconds["test"] + used, 1)
            seconds["wall"] = round(seconds["wall"] + time.monotonic() - begin, 1)
            if result != "ok":
                killed = "killed" if result == "failed" else "timeout"
                return {"result": killed, "by": f"{program}: {name}", "seconds": seconds}
        return {"result": "survived", "seconds": seconds}

    def run(self, count: int, part: int, parts: int) -> None:
        finished = {(r["index"], r["attempt"]): r["result"] for r in self.done if "index" in r}
        for index in range(part, count, parts):
            attempt = 0
            while True:
                result = finished.get((index, attempt)) or self.change(
                    index, attempt, self.draw(index, attempt)
                )
                if result not in ("invalid", "equivalent"):
                    break
                attempt += 1

    def again(self, indices: list[int]) -> None:
        last = {r["index"]: r for r in self.done if "index" in r}
        for index, record in sorted(last.items()):
            if index in indices or not indices and record["result"] == "survived":
                if site := self.found_again(record):
                    self.change(index, record["attempt"], site)
                else:
                    print(index, "is not in the sources any more:", record["text"])


def verify(records: list[dict]) -> None:
    """Runs the cases that noticed changes without a change."""
    programs: dict[str, set[str]] = collections.defaultdict(set)
    for one in records:
        if one["result"] in ("killed", "timeout"):
            program, _, case = one["by"].partition(": ")
            programs[program].add(case.split(" ")[0])
    restore()
    ninja(list(programs), 1)
    wrong = 0
    for program, cases in sorted(programs.items()):
        for case in sorted(cases):
            result, _, _ = run_tests(program, [case] if program in PROGRAMS else None, 600)
            if result != "ok":
                wrong += 1
                print(f"{program}: {case}: {result} without a change")
    print(f"{sum(map(len, programs.values()))} cases, {wrong} fail without a change")


def records_of(paths: list[pathlib.Path]) -> list[dict]:
    last: dict[tuple[int, int], dict] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            one = json.loads(line)
            if "index" in one:
                last[one["index"], one["attempt"]] = one
    return list(last.values())


def report(last: list[dict]) -> None:
    count = collections.Counter(one["result"] for one in last)
    valid = [one for one in last if one["result"] in ("killed", "timeout", "survived")]
    noticed = sum(one["result"] != "survived" for one in valid)
    print(f"{len(last)} drawn: {dict(count)}")
    print(f"noticed {noticed} of {len(valid)}: {100 * noticed / max(1, len(valid)):.1f} %")
    modules: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for one in valid:
        key = "/".join(one["file"].split("/")[:2])
        modules[key][0] += one["result"] != "survived"
        modules[key][1] += 1
    for key, (some, all_) in sorted(modules.items()):
        print(f"  {key}: {some} of {all_}")
    for what in ("compile", "link", "test", "wall"):
        times = [one["seconds"].get(what, 0) for one in valid]
        print(f"  {what}: {sum(times):.0f} s, {sum(times) / max(1, len(times)):.1f} s each")
    for one in valid:
        if one["result"] == "survived":
            change = f"{one['before']!r} -> {one['after']!r}"
            print(f"survived {one['index']}: {one['file']}:{one['line']}: {change}: {one['text']}")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # undoes the change
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = ["build", "baseline", "run", "again", "report", "verify"]
    parser.add_argument("command", choices=commands)
    parser.add_argument("arguments", nargs="*", help="RESULTS, and for `again` indices")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.command == "build":
        build(options.jobs)
    elif options.command == "baseline":
        baseline()
    elif not options.arguments:
        parser.error("RESULTS required")
    elif options.command in ("report", "verify"):
        records = records_of([pathlib.Path(one) for one in options.arguments])
        report(records) if options.command == "report" else verify(records)
    else:
        results = pathlib.Path(options.arguments[0]).resolve()
        campaign = Campaign(results, options.seed, options.jobs)
        if options.command == "run":
            part, parts = map(int, options.share.split("/"))
            campaign.run(options.count, part, parts)
        else:
            campaign.again([int(one) for one in options.arguments[1:]])


if __name__ == "__main__":
    main()
