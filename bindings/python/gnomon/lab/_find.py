"""Where the program gnomon-lab is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from .. import _program


def find() -> str:
    """Returns the path of gnomon-lab.

    Looks at $GNOMON_LAB, then near the program `gnomon` of this package (a build folder), then in
    the folders of $PATH and in ../libexec/gnomon beside them (`make install`). Raises
    FileNotFoundError, which names the ways to get it.
    """
    given = os.environ.get("GNOMON_LAB")
    if given:
        if not os.access(given, os.X_OK):
            raise FileNotFoundError(f"[lab] GNOMON_LAB must be the path of a program, got {given}")
        return given
    for folder in _folders():
        for place in ("gnomon-lab", "../libexec/gnomon/gnomon-lab", "../lab/gnomon-lab"):
            if found := shutil.which(os.path.join(folder, place)):
                return os.path.realpath(found)
    raise FileNotFoundError(
        "[lab] the program gnomon-lab must be installed: run `make lab` or `make install` in the "
        "source tree of Gnomon (LibTorch is required), or set GNOMON_LAB to its path, got none")


def _folders() -> Iterator[str]:
    try:
        yield os.path.dirname(os.path.realpath(_program.path()))
    except FileNotFoundError:
        pass
    yield from filter(None, os.environ.get("PATH", "").split(os.pathsep))
