"""The process ends, forks, gets signals or has several interpreters while threads compute.

edges.py has the scenarios. GNOMON_EDGE_REPEATS: the repeats of each; default 3.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import edges

REPEATS = os.environ.get("GNOMON_EDGE_REPEATS", "3")


def run(name: str, *options: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", Path(edges.__file__), name, *options],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize("name", edges.SCENARIOS)
def test_repeats_in_forked_children(name: str) -> None:
    run(name, REPEATS)


@pytest.mark.parametrize("name", ["exit_with_daemon_threads", "exit_with_live_objects"])
def test_repeats_in_new_interpreters(name: str) -> None:
    run(name, str(max(1, int(REPEATS) // 10)), "fresh")


@pytest.mark.parametrize("name", ["fails", "hangs"])
def test_a_bad_repeat_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_EDGE_LIMIT", "1")
    with pytest.raises(AssertionError, match="1 of 1 bad"):
        run(name, "1")
