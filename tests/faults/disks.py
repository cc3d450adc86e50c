#!/usr/bin/env python3
"""Runs the commands on small disks that become full: a tmpfs with a limit of bytes or of files.

    disks.py BUILD [--case NAME]

Requires root, for a mount in a namespace of its own; prints that it is skipped otherwise.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import inputs
import running

PAGE = 4096
PARTS = 6


def mount(folder, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def pages(files):
    return sum(-(-len(data) // PAGE) for data in files.values() if isinstance(data, bytes))


def check(place, one):
    """The number of full disks, and the defects."""
    reference = running.Reference(place, one)
    inputs, outputs = pages(reference.before), pages(reference.after)
    inodes = len(reference.before) + 2  # the root, and that of the file system
    limits = [f"size={PAGE * (inputs + max(1, outputs * part // PARTS))}" for part in range(PARTS)]
    limits += [f"nr_inodes={inodes + part}" for part in range(3)]
    folder = place.base / "disk"
    folder.mkdir(exist_ok=True)
    full, defects = 0, []
    for limit in limits:
        mount(folder, limit)
        try:
            place.fill(folder, one)
            outcome = place.run(one, folder)
            full += outcome.code != 0
            subprocess.run(
                ["mount", "-o", "remount,size=1g,nr_inodes=10000", str(folder)], check=True
            )
            defects += [
                f"{one.name}, {limit}: {text} | {outcome.errors.strip()}"
                for text in running.judge(one, place, folder, reference, outcome, None)
            ]
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    return full, defects


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--case")
    given = parser.parse_args()
    if os.environ.get("GNOMON_UNSHARED") != "1":
        with tempfile.TemporaryDirectory() as trial:
            works = (
                subprocess.run(
                    ["unshare", "--mount", "mount", "-t", "tmpfs", "none", trial],
                    capture_output=True,
                    check=False,
                ).returncode
                == 0
            )
        if not works:
            print("disks: skipped, because mounting is not permitted")
            return 0
        os.environ["GNOMON_UNSHARED"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    programs = inputs.Programs(given.build)
    # The lab refuses a disk with less than 16 MiB of free space before it writes.
    cases = [
        one
        for one in programs.cases()
        if one.outputs and not one.is_lab and given.case in (None, one.name)
    ]
    full, defects = 0, []
    with tempfile.TemporaryDirectory(prefix="gnomon-disks-") as base:
        place = running.Workplace(programs, base, {name for one in cases for name in one.needs})
        for one in cases:
            more, found = check(place, one)
            full += more
            defects += found
    for line in defects:
        print(line)
    print(f"disks: {len(cases)} calls, {full} full disks, {len(defects)} defects")
    return 1 if defects or not full else 0


if __name__ == "__main__":
    sys.exit(main())
