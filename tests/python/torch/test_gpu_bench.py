"""A dry run of bench/gpu: all cases with few tokens on the CPU, with the emulator's kernels."""

from __future__ import annotations

import dataclasses
import json

import append
import cases
import compare
import contender
import emulated
import pytest
import report
import rotate_peers
import torch
from measure import Clock, Times, ratios

CPU = torch.device("cpu")
FEW = {1: 1, 64: 3, 256: 4, 1024: 5, 4096: 32, 8192: 6, 32768: 16, 131072: 70}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(append, "CONTEXT", 48)
    torch.manual_seed(0)


def small_cases():
    return [dataclasses.replace(case, tokens=FEW[case.tokens]) for case in cases.all_cases()]


@pytest.fixture(scope="module")
def data():
    clock = Clock(CPU, rounds=2, calls=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "CONTEXT", 48)
        found = compare.run(small_cases(), emulated.module(), CPU, clock, 600.0)
    return found | {"versions": {"Gnomon": "0"}, "command": "a test"}


def test_every_case_has_our_time_and_its_roof(data):
    assert data["unmeasured"] == {}
    assert data["failures"] == {}
    for case in small_cases():
        roles = {row["role"] for row in data["rows"] if row["case"] == case.key}
        assert contender.OURS in roles
        assert (contender.BASELINE if case.group == "bias" else contender.ROOF) in roles
        assert (contender.EMPTY in roles) == case.graph


def test_our_results_are_exact_to_the_type(data):
    """Half an ulp of bf16 is 4e-3 below 2, and 1.6e-2 below 4 (a sum of two elements)."""
    limits = {"rotate": 4e-3, "append": 4e-3, "table": 4e-8, "embedding": 5e-3, "bias": 5e-2}
    for row in data["rows"]:
        group, _, _, dtype, _ = row["case"].split("/")
        if row["role"] != contender.OURS:
            continue
        limit = 1e-6 if (group, dtype) == ("rotate", "f32") else limits[group]
        if dtype == "f8":
            limit = 0.0625 * 1.4142
        assert row["error"] <= limit, row


def test_peers_compute_the_same_work(data):
    peers = [row for row in data["rows"] if row["role"] == contender.PEER]
    assert {"PyTorch (transformers)", "torch.compile (transformers)", "PyTorch, index_add_",
            "FlexAttention, its own gradient"} <= {row["contender"] for row in peers}
    for row in peers:
        assert row["error"] < 0.1, row


def test_packages_that_are_missing_are_named_with_the_reason(data):
    for name in ("flash-attn", "vLLM", "FlashInfer", "Liger-Kernel"):
        assert name in data["missing"] and data["missing"][name]


def test_the_layouts_of_peers_keep_the_memory():
    q, k = (torch.arange(2.0 * heads * 128).view(2, heads, 128) for heads in (4, 2))
    for arrange, back in ((rotate_peers.flat, rotate_peers.unflatten),
                          (rotate_peers.heads_first,
                           lambda _, *all: rotate_peers.from_heads_first(all))):
        arguments = arrange(q, k)
        for got, want in zip(back(None, *arguments), (q, k)):
            assert torch.equal(got, want) and got.data_ptr() == want.data_ptr()


def test_a_case_without_a_function_or_time_is_listed():
    few = small_cases()
    without = [case for case in few if case.requires == "bias_gradient"]
    late = compare.run(few[:1], emulated.module(), CPU, Clock(CPU, 1, 1), -1.0)
    assert "limit of -1 s" in late["unmeasured"][few[0].key]
    none = compare.run(without, object(), CPU, Clock(CPU, 1, 1), 600.0)
    assert none["unmeasured"] == {without[0].key: "gnomon._cuda has no bias_gradient"}


def test_a_failing_contender_keeps_the_others():
    def fail(x):
        raise RuntimeError("no kernel image\nis available")

    work = contender.Work([torch.zeros(2)], 8, [
        contender.Contender("Gnomon", contender.OURS, lambda x: x),
        contender.Contender("other", contender.PEER, fail)])
    times, failures = Clock(CPU, 2, 2).time(work, graph=True)
    assert list(times) == ["Gnomon"] and failures == {"other": "no kernel image"}


def test_copies_exceed_the_cache():
    clock = Clock(CPU, 1, 64)
    clock.l2 = 50 << 20
    assert clock.copies(20480, graph=False) == 1
    assert clock.copies(20480, graph=True) == 64
    count = clock.copies(2 * 10_485_760, graph=True)
    assert count * 10_485_760 >= 3 * clock.l2 > (count - 1) * 10_485_760


def test_ratios_are_of_the_same_round():
    times = {"Gnomon": Times([1.0, 2.0, 4.0]), "peer": Times([2.0, 4.0, 8.0])}
    assert ratios(times, "Gnomon") == {"Gnomon": 1.0, "peer": 2.0}
    assert ratios({"peer": Times([1.0])}, "Gnomon") == {"peer": None}
    assert Times([3.0, 1.0, 2.0]).quantile(0.9) == 3.0


def test_the_page_of_a_dry_run_has_all_groups(data):
    text = report.page(json.loads(json.dumps(data)), [])
    assert "no GPU (dry run in the emulator)" in text
    assert "### Rotation, 1 token, bf16, halves\n" in text
    assert "**Gnomon**" in text and "(roof)" in text
