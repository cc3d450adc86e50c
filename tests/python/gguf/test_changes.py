"""The GGUF reader against llama.cpp: changes of keys in files of all architectures."""

from __future__ import annotations

import architectures
import cases
import compare
import expected
import pytest


@pytest.mark.parametrize("architecture", architectures.KEYS)
def test_changes_of_keys(architecture: str, pool: compare.Pool) -> None:
    """A case that llama.cpp does not run is no deviation here: many changes have no meaning."""
    chosen = [case for case in cases.sweep() if case.architecture == architecture]
    found = [expected.deviation(case, result) for case, result in zip(chosen, pool.map(chosen))
             if result.outcome != "not run"]
    assert len(found) > len(chosen) // 2
    assert not list(filter(None, found))
