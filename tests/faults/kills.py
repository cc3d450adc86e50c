#!/usr/bin/env python3
"""Kills conversions and runs of the lab at random times, and checks what remains.

    kills.py BUILD [--lab N] [--convert N] [--jobs N] [--seed N]

The time is uniform over the measured duration of a call, or, for one half of the kills, over the
part after the first file. A call of the lab is killed up to three times in a row, each time while
it continues. After SIGKILL: no file lost or changed, no partial file at a final name. The next
call removes temporary files and gives the same result, bit by bit.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import inputs
import running


def names_below(folder):
    return {os.path.join(at, name) for at, _, files in os.walk(folder) for name in (".", *files)}


class Kills:
    def __init__(self, place, seed):
        self.place = place
        self.numbers = random.Random(seed)
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.failures = []

    def start(self, one, folder, again):
        return subprocess.Popen(
            self.place.programs.words(one, again),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.place.environment(folder),
        )

    def wait_for_files(self, child, folder, names):
        """Waits until the call has made or removed a file, or has ended."""
        while child.poll() is None and names_below(folder) == names:
            time.sleep(0.001)

    def durations(self, one):
        """Seconds until the first file, and from there to the end."""
        folder = self.place.folder(one)
        names = names_below(folder)
        begin = time.monotonic()
        child = self.start(one, folder, False)
        self.wait_for_files(child, folder, names)
        first = time.monotonic()
        child.wait()
        end = time.monotonic()
        shutil.rmtree(folder)
        return first - begin, end - first

    def kill(self, one, reference, until_files, after_files, rounds):
        """Kills a call, and the calls that continue it."""
        folder = self.place.folder(one)
        begun = running.tree(folder, one.is_lab)
        for again in range(rounds):
            with self.lock:
                is_late = self.numbers.random() < 0.5
                wait = self.numbers.uniform(0, after_files + (0 if is_late else until_files))
            names = names_below(folder)
            child = self.start(one, folder, again > 0)
            if is_late:
                self.wait_for_files(child, folder, names)
            time.sleep(wait)
            child.kill()
            code = child.wait()
            left = running.tree(folder, one.is_lab)
            with self.lock:
                self.counts["kills"] += 1
                self.counts["before the end"] += code == -9
                self.counts["after the first file"] += code == -9 and left != begun
                self.counts["with temporary files"] += any(running.is_hidden(name) for name in left)
            if code == 0:
                break
        defects = running.judge(
            one, self.place, folder, reference, running.Outcome(code, b"", ""), None, killed=True
        )
        with self.lock:
            self.failures += [f"{one.name}, killed: {text}" for text in defects]
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--lab", type=int, default=1000)
    parser.add_argument("--convert", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    programs = inputs.Programs(given.build)
    cases = {one.name: one for one in programs.cases()}
    train = cases.get("lab train")
    if train:  # 40 steps, in place of 6
        words = list(train.words)
        words[words.index("--steps") + 1] = "40"
        cases["lab train"] = dataclasses.replace(train, words=tuple(words))
    plan = [
        (name, given.convert // 4, 1)
        for name in ("convert a file", "convert a folder", "convert to gguf", "resize a checkpoint")
    ]
    if programs.has_lab:
        plan += [
            ("lab train", given.lab * 7 // 10, 3),
            ("lab run", given.lab * 2 // 10, 3),
            ("lab resume", given.lab // 10, 1),
        ]
    failed = 0
    for name, count, rounds in plan:
        if not count:
            continue
        one = cases[name]
        with tempfile.TemporaryDirectory(prefix="gnomon-kills-") as base:
            kills = Kills(running.Workplace(programs, base, set(one.needs)), given.seed)
            reference = running.Reference(kills.place, one)
            with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
                # As many at the same time as later.
                times = list(pool.map(kills.durations, [one] * 6))
                seconds = [statistics.median(part) for part in zip(*times)]
                while kills.counts["kills"] < count:
                    work = [
                        pool.submit(kills.kill, one, reference, *seconds, rounds)
                        for _ in range(given.jobs)
                    ]
                    for future in work:
                        future.result()
        for line in kills.failures:
            print(line)
        failed += len(kills.failures)
        print(
            f"kills of {name}: {kills.counts['kills']} within {sum(seconds):.2f} s, "
            + ", ".join(
                f"{kills.counts[key]} {key}"
                for key in ("before the end", "after the first file", "with temporary files")
            )
            + f", {len(kills.failures)} defects",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
