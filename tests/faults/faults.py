#!/usr/bin/env python3
"""Makes system calls of each command fail, and checks what the command leaves behind.

    faults.py BUILD [--every | --sample N] [--case NAME] [--jobs N]

A library for LD_PRELOAD (preload.c) counts the calls of a command that concern files of its
folder, then fails each of them in turn (--every), or N of them (4). Then the disk is full after a
number of bytes, and the standard output fails. After each: exit status 0 or 2, one line that
names file and reason, no file lost or changed, no partial or temporary file, and the same result
in a later call.
"""

import argparse
import collections
import concurrent.futures
import errno
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

E = errno
# The errors of each call; those that the program must overcome are in `overcome`.
ERRORS = {
    "open_nameless": [E.ENOSPC, E.EOPNOTSUPP],
    "open_write": [E.EACCES, E.ENOSPC],
    "open_read": [E.EIO, E.EMFILE],
    "open_folder": [E.EMFILE],
    "write": [E.ENOSPC, E.EIO, E.EINTR, "short"],
    "read": [E.EIO, E.EINTR, "short"],
    "fsync": [E.EIO, E.EINTR, E.EINVAL],
    "link": [E.ENOSPC, E.EIO],
    "rename": [E.EIO, E.ENOSPC],
    "close": [E.EIO],
    "mkdir": [E.ENOSPC, E.EACCES],
    "unlink": [E.EIO],
    "mmap": [E.ENOMEM],
    "stat": [E.EIO],
    "fstat": [E.EIO],
    "access": [E.EACCES],
    "chmod": [E.EPERM],
    "truncate": [E.ENOSPC],
    "statvfs": [E.EIO],
    "readlink": [E.EIO],
    "flock": [E.ENOLCK, E.EINTR, E.EWOULDBLOCK],
    "readdir": [E.EIO],
    "thread": [E.EAGAIN],
    "fork": [E.EAGAIN],
    "pipe": [E.EMFILE],
}
OVERCOME = {
    ("open_nameless", E.EOPNOTSUPP),
    ("write", E.EINTR),
    ("write", "short"),
    ("read", E.EINTR),
    ("read", "short"),
    ("fsync", E.EINTR),
    ("fsync", E.EINVAL),
    ("flock", E.EINTR),
}
# Another process has the lock: a call of the lab refuses its folder, others take another name.
OVERCOME_OUTSIDE_THE_LAB = {("flock", E.EWOULDBLOCK)}

# What remains if a file cannot be removed: a temporary file or folder, or a lock or folder of the lab.
UNREMOVED = (
    r"left behind: (.*/)?\.gnomon-|success, but other files: \[('temporary/gnomon-[^']*'(, )?)+\]|"
    r"success, but other files: \['(out|stopped)/(\.lock|checkpoints(/[^/']*\.lock)?)'\]"
)


def variables(library, folder, **more):
    names = {
        f"GNOMON_FAULT{'_' + key.upper() if key else ''}": str(value) for key, value in more.items()
    }
    return {"LD_PRELOAD": library, "GNOMON_FAULT_ROOT": str(folder)} | names


class Check:
    def __init__(self, place, library, jobs):
        self.place, self.library = place, library
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.injected = collections.Counter()
        self.failures = []

    def disturbed(self, one, reference, what, reason, variables_of, must_succeed=False):
        """One disturbed call. `variables_of`: the variables of the library, given the folder."""
        folder = self.place.folder(one)
        log = self.place.base / (folder.name + ".log")
        try:
            outcome = self.place.run(one, folder, variables_of(folder, log))
            lines = log.read_text().splitlines() if log.exists() else []
            hit = next(
                (line.split(" ", 1)[1] for line in lines if line.startswith("FAULT ")), "none"
            )
            defects = running.judge(
                one, self.place, folder, reference, outcome, reason, must_succeed=must_succeed
            )
            # A temporary file that cannot be removed remains until the next call.
            if hit.startswith("unlink"):
                defects = [text for text in defects if not re.match(UNREMOVED, text)]
            # Another lab owns the lock.
            if hit.startswith("flock") and reason is None and not must_succeed:
                defects = [text for text in defects if text != "left behind: out/.lock"]
        except subprocess.TimeoutExpired:
            defects, outcome, hit = ["no end"], running.Outcome(0, b"", ""), what
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            log.unlink(missing_ok=True)
        self.injected[one.name] += hit != "none"
        for text in defects:
            self.failures.append(f"{one.name}, {what} ({hit}): {text} | {outcome.errors.strip()}")

    def calls_of(self, one):
        """The names of the counted calls of an undisturbed run, in their order."""
        folder = self.place.folder(one)
        log = self.place.base / (folder.name + ".log")
        self.place.run(one, folder, variables(self.library, folder, log=log))
        names = (
            [line.split(" ", 1)[0] for line in log.read_text().splitlines()] if log.exists() else []
        )
        shutil.rmtree(folder)
        log.unlink(missing_ok=True)
        return names

    def faults_of(self, one, sample):
        """Tuples of call, number and error."""
        seen, faults = collections.Counter(), []
        for name in self.calls_of(one):
            seen[name] += 1
            faults += [(name, seen[name], error) for error in ERRORS[name]]
        if sample is None or sample >= len(faults):
            return faults
        # Writing first: every third is any other call.
        writing = [
            one
            for one in faults
            if one[0] in ("write", "fsync", "link", "rename", "close", "mkdir")
        ]
        others = [one for one in faults if one not in writing]
        take = lambda list_, count: (
            [list_[int((i + 0.5) * len(list_) / count)] for i in range(count)] if list_ else []
        )  # noqa: E731,E501
        return take(writing, sample - sample // 3) + take(others, sample // 3)

    def start(self, one, sample):
        reference = running.Reference(self.place, one)
        work = []

        def add(*arguments, **options):
            work.append(self.pool.submit(self.disturbed, one, reference, *arguments, **options))

        for name, number, error in self.faults_of(one, sample):
            text = error if error == "short" else errno.errorcode[error]
            locked = (name, error) in OVERCOME_OUTSIDE_THE_LAB
            add(
                f"{name} {number} {text}",
                None if error == "short" or locked else os.strerror(error),
                lambda folder, log, f=f"{name}:{number}:{error}": variables(
                    self.library, folder, log=log, **{"": f}
                ),
                must_succeed=(name, error) in OVERCOME or (locked and not one.is_lab),
            )
        if one.outputs:
            size = (
                sum(
                    len(data)
                    for name, data in reference.after.items()
                    if isinstance(data, bytes) and name not in reference.before
                )
                or 20000
            )
            parts = 1 if sample is not None else 8
            for part in range(parts):
                add(
                    f"full after {part}/{parts}",
                    os.strerror(E.ENOSPC),
                    lambda folder, log, n=size * part // parts: variables(
                        self.library, folder, log=log, full=n
                    ),
                )
            # As the first, without nameless files.
            add(
                "full, named files",
                os.strerror(E.ENOSPC),
                lambda folder, log: variables(
                    self.library, folder, log=log, full=size // 2, named=1
                ),
            )
            add(
                "named files",
                None,
                lambda folder, log: variables(self.library, folder, log=log, named=1),
                must_succeed=True,
            )
        work.append(self.pool.submit(self.streams, one, reference, sample is None))
        return work

    def streams(self, one, reference, every):
        """The standard output is full, closed, or a pipe without a reader."""
        kinds = {"full": 'exec "$@" >/dev/full', "closed": 'exec "$@" >&-'}
        kinds |= {
            "broken pipe": None,
            "ignored broken pipe": None,
            "all closed": 'exec "$@" <&- >&- 2>&-',
        }
        if not every:  # the lab takes longer
            left_out = ["all closed" if len(one.name) % 2 else "ignored broken pipe"]
            for name in [*kinds][2:] if one.is_lab else left_out:
                kinds.pop(name)
        for what, script in kinds.items():
            folder = self.place.folder(one)
            words = self.place.programs.words(one)
            options = {
                "cwd": folder,
                "env": self.place.environment(folder),
                "stdin": subprocess.DEVNULL,
                "stderr": subprocess.PIPE,
                "timeout": running.LIMIT,
                "check": False,
            }
            if script:
                done = subprocess.run(["/bin/sh", "-c", script, "sh", *words], **options)
            else:
                read, write = os.pipe()
                os.close(read)
                done = subprocess.run(
                    words, stdout=write, restore_signals=what == "broken pipe", **options
                )
                os.close(write)
            outcome = running.Outcome(
                done.returncode, reference.outcome.output, done.stderr.decode()
            )
            after = running.tree(folder, one.is_lab)
            defects = []
            killed = what == "broken pipe" and done.returncode < 0
            if killed and done.returncode != -13:
                defects.append(f"signal {-done.returncode}")
            if not killed and reference.outcome.output and what != "all closed":
                if done.returncode == 0:
                    defects.append("success without output")
                else:
                    defects += running.judge_error(one, outcome, None)
                    if "standard output" not in outcome.errors:
                        defects.append("the standard output is not named")
            elif not killed and not reference.outcome.output and done.returncode != 0:
                defects.append(f"exit status {done.returncode} without need")
            if what == "all closed" and done.returncode not in (0, 2):
                defects.append(f"exit status {done.returncode}")
            defects += running.lost(one, reference.before, after, reference.after)
            defects += [
                f"left behind: {name}"
                for name in running.partial(one, reference.before, after, reference.after)
                if not (killed and name.endswith("/.lock"))  # the next call takes it
            ]
            shutil.rmtree(folder)
            self.injected[one.name] += 1
            self.failures += [
                f"{one.name}, standard output {what}: {text} | {outcome.errors.strip()}"
                for text in defects
            ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument(
        "--library", help="the compiled preload.c (BUILD/tests/libgnomon_faults.so)"
    )
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--sample", type=int, default=4)
    parser.add_argument("--case")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    programs = inputs.Programs(given.build)
    library = given.library or str(pathlib.Path(given.build, "tests/libgnomon_faults.so").resolve())
    cases = [
        one
        for one in programs.cases()
        if (one.name == given.case if given.case else given.every or one.quick)
    ]
    absent = commands.missing(programs.gnomon, commands.all_cases())
    with tempfile.TemporaryDirectory(prefix="gnomon-faults-") as base:
        needs = {name for one in cases for name in one.needs}
        check = Check(running.Workplace(programs, base, needs), library, given.jobs)
        work = [
            future
            for one in cases
            for future in check.start(one, None if given.every else given.sample)
        ]
        for future in work:
            future.result()
    for line in [f"no case: {name}" for name in absent] + sorted(check.failures):
        print(line)
    bad = len(absent) + len(check.failures)
    print(
        f"faults: {len(cases)} calls of {len({one.command for one in cases})} commands, "
        f"{sum(check.injected.values())} faults, {bad} defects"
    )
    return 1 if bad or not check.injected else 0


if __name__ == "__main__":
    sys.exit(main())
