"""The program `gnomon`, which the package contains."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys


def path() -> str:
    """Returns the path of the program: $GNOMON_PROGRAM, or the one in this package."""
    given = os.environ.get("GNOMON_PROGRAM")
    program = given or str(pathlib.Path(__file__).parent / "bin" / "gnomon")
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(f"the program gnomon must be at {program}; reinstall the package, "
                                "or set GNOMON_PROGRAM to its path")
    return program


def run(*arguments: str, stdin: str | None = None, statuses: tuple[int, ...] = (0,)) -> str:
    """Runs the program and returns what it prints. Raises ValueError with its error message.

    statuses: the exit statuses of success.
    """
    done = subprocess.run([path(), *arguments], input=stdin, capture_output=True, text=True)
    if done.returncode == 2:
        message = done.stderr.strip()
        raise ValueError(message.removeprefix("gnomon: "))
    if done.returncode not in statuses:
        raise RuntimeError(
            f"gnomon {' '.join(arguments)} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """The console script `gnomon`: replaces this process by the program."""
    os.execv(path(), ["gnomon", *sys.argv[1:]])
