"""Settings of all Python tests: versions in the header, no silent skips, a random generator."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import platform
from collections.abc import Iterator

import numpy as np
import pytest

import gnomon
import gnomon.lab

PACKAGES = (
    "numpy",
    "ml_dtypes",
    "hypothesis",
    "torch",
    "jax",
    "transformers",
    "timm",
    "diffusers",
    "rotary-embedding-torch",
    "onnx",
    "onnxscript",
    "ray",
    "altair",
    "vl-convert-python",
    "safetensors",
    "sentencepiece",
    "tensorboard",
    "tensorboardX",
    "xllamacpp",
    "gguf",
)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The versions of the packages that the tests compare with."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name}: not installed")
    return [
        f"gnomon {gnomon.__version__} ({gnomon.isa()}, {gnomon.threads()} threads), "
        f"python {platform.python_version()}",
        ", ".join(found),
    ]


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail") or "GNOMON_ALLOW_SKIP" in os.environ:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"A skipped test is a failure unless GNOMON_ALLOW_SKIP is set. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture
def real_lab(monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of gnomon-lab, in $GNOMON_LAB: the installed one, or that of the build folder."""
    try:
        path = gnomon.lab.find()
    except FileNotFoundError:
        path = str(pathlib.Path(__file__).parents[2] / "build/release/apps/lab/gnomon-lab")
        if not os.access(path, os.X_OK):
            pytest.skip("gnomon-lab is not built: make lab, which requires LibTorch")
    monkeypatch.setenv("GNOMON_LAB", path)
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of random numbers with the same seed in each test."""
    return np.random.default_rng(20240501)


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    """Keeps a test's number of threads from the next test."""
    count = gnomon.threads()
    yield
    gnomon.set_threads(count)


@pytest.fixture
def random_terms():
    """Returns a function that draws the terms of an encoding, {} if it has none: float32 arrays."""
    def draw(spec, batch, tokens, seed=3):
        rng, terms = np.random.default_rng(seed), {}
        for name, heads, size, _ in gnomon.token_terms(spec):
            shape = (batch, tokens, heads, size) if size else (batch, heads, tokens)
            one = rng.uniform(0.1, 1, shape).astype(np.float32)
            terms[name] = -one if name in ("log_gates", "channel_gates") else one
        return terms

    return draw


@pytest.fixture
def naive():
    """Returns a function that loads fla/ops/NAME/naive.py, whose package requires triton."""
    def load(name):
        spec = importlib.util.find_spec("fla")
        path = pathlib.Path(spec.submodule_search_locations[0], "ops", name, "naive.py")
        made = importlib.util.spec_from_file_location(f"fla_naive_{name}", path)
        module = importlib.util.module_from_spec(made)
        made.loader.exec_module(module)
        return module

    return load
