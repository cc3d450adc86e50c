"""bench/gpu/report.py: the sentences of the page follow from the numbers, also if they are bad."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest
import report
from cases import Case, all_cases, targets

ROOT = pathlib.Path(__file__).resolve().parents[3]
LONG = Case("rotate", "rotate", 32768)
ONE = Case("rotate", "rotate", 1)
BIAS = Case("bias", "t5", 4096, requires="bias_gradient")


def row(case, name, role, seconds, ours, error=None, note=""):
    return {"case": case.key, "contender": name, "role": role, "seconds": seconds,
            "low": 0.9 * seconds, "high": 1.1 * seconds, "rounds": 51, "ratio": seconds / ours,
            "bytes": 671088640, "error": error, "note": note}


def results(*rows, device="NVIDIA H200", **changes):
    return {"rows": list(rows), "missing": {}, "failures": {}, "unmeasured": {},
            "machine": {"device": device, "system": "Linux 6.8", "driver": "580.1",
                        "cuda": "13.0", "python": "3.12.3", "L2": "50 MiB"},
            "versions": {"Gnomon": "0.1.0", "torch": "2.11.0"}, "rounds": 51, "calls": 64,
            "date": "2026-01-02", "command": "make gpu"} | changes


def rotation(ours, roof, peer=300e-6, peer_error=8e-3):
    return [row(LONG, "Gnomon", "Gnomon", ours, ours, 4e-3),
            row(LONG, "copy of the same bytes", "roof", roof, ours),
            row(LONG, "PyTorch", "peer", peer, ours, peer_error)]


def page(data, checks=()):
    return re.sub(r"\s+", " ", report.page(data, list(checks)))


def test_a_met_target_is_met():
    text = page(results(*rotation(170e-6, 162e-6)))
    assert "Met: rotation, 32768 tokens, bf16, halves: 0.953 of the roof (at least 0.93" in text
    assert "Met: rotation, 32768 tokens, bf16, halves: 170 µs (at most 172 µs on an H200)." in text
    assert f"Of {len(targets())} targets, 2 are met, 0 are missed" in text
    assert "**Missed**" not in text
    assert "No peer is faster in any of 1 cases. None has a smaller error than Gnomon." in text


def test_a_missed_target_is_missed():
    text = page(results(*rotation(185e-6, 162e-6)))
    assert "**Missed**: rotation, 32768 tokens, bf16, halves: 0.876 of the roof (at least" in text
    assert "**Missed**: rotation, 32768 tokens, bf16, halves: 185 µs (at most 172 µs" in text
    assert f"Of {len(targets())} targets, 0 are met, 2 are missed" in text
    assert "- Met:" not in text


def test_the_limit_itself_is_met():
    share, time = targets()[:2]
    assert report.judged(report.Results(results(*rotation(1.0, 0.93))), share)[0] is True
    assert report.judged(report.Results(results(*rotation(172e-6, 1.0))), time)[0] is True


def test_times_of_another_device_are_not_judged():
    text = page(results(*rotation(185e-6, 162e-6), device="NVIDIA A100"))
    assert "Not judged on this device: rotation, 32768 tokens, bf16, halves: 185 µs" in text
    assert "The targets are stated for an NVIDIA H200; this is another device, NVIDIA A100" in text
    assert f"Of {len(targets())} targets, 0 are met, 1 are missed" in text


@pytest.mark.parametrize(("ours", "verdict", "number"), [
    (1.9e-6, "Met", "400 ns more than"), (2.1e-6, "**Missed**", "600 ns more than"),
    (1.4e-6, "Met", "100 ns less than")])
def test_one_token_is_compared_with_an_empty_kernel(ours, verdict, number):
    text = page(results(row(ONE, "Gnomon", "Gnomon", ours, ours),
                        row(ONE, "empty kernel", "empty", 1.5e-6, ours)))
    assert f"{verdict}: rotation, 1 token, bf16, halves: {number} an empty kernel" in text


@pytest.mark.parametrize(("ours", "verdict"), [(1.39, "Met"), (1.41, "**Missed**")])
def test_the_bias_is_compared_with_its_baseline(ours, verdict):
    text = page(results(row(BIAS, "Gnomon", "Gnomon", ours, ours),
                        row(BIAS, "FlexAttention", "baseline", 1.0, ours)))
    assert f"{verdict}: T5 bias, backward, 4096 tokens, bf16: {ours:.2f}× the baseline" in text


def test_a_target_without_its_roof_is_not_known():
    text = page(results(*rotation(170e-6, 162e-6)[::2]))
    assert "Not known: rotation, 32768 tokens, bf16, halves: the roof was not measured" in text


def test_a_faster_and_more_exact_peer_is_named():
    text = page(results(*rotation(170e-6, 162e-6, peer=153e-6, peer_error=2e-3)))
    assert "A peer is faster in 1 of 1 cases" in text
    assert "rotation, 32768 tokens, bf16, halves: PyTorch, 0.90× the time of Gnomon." in text
    assert "A peer has a smaller error in these cases" in text
    assert "PyTorch, 2e-3; Gnomon 4e-3." in text
    assert "No peer is faster" not in text and "None has a smaller error" not in text


def test_failures_and_reasons_are_listed():
    checks = [{"name": "tests of the kernels", "status": "failed", "seconds": 3.2,
               "text": "2 failed"},
              {"name": "memcheck", "status": "passed", "seconds": 30.0, "text": ""}]
    text = page(results(*rotation(170e-6, 162e-6), missing={"vLLM": "No module named vllm"},
                        failures={"Liger, 1 token": "no kernel"},
                        unmeasured={ONE.key: "the limit of 240 s was reached"}), checks)
    assert "1 of 2 checks failed. - tests of the kernels: **failed**, 3 s; 2 failed." in text
    assert "- memcheck: passed, 30 s." in text
    assert "- vLLM: No module named vllm." in text and "- Liger, 1 token: no kernel." in text
    assert "- rotation, 1 token, bf16, halves; the limit of 240 s was reached." in text
    assert "No check of 1 failed." in page(results(*rotation(1, 1)), checks[1:])


def test_the_machine_and_the_command_are_named():
    text = page(results(*rotation(170e-6, 162e-6)))
    assert "Measured 2026-01-02 with `make gpu` on" in text
    assert "NVIDIA H200, 50 MiB of L2; driver 580.1, CUDA 13.0, Python 3.12.3, Linux 6.8." in text
    assert "Gnomon 0.1.0, torch 2.11.0." in text


def test_cases_have_unique_keys_and_targets_are_cases():
    keys = [case.key for case in all_cases()]
    assert len(keys) == len(set(keys))
    assert {target.case for target in targets()} <= set(all_cases())


def test_without_a_measurement_the_page_lists_everything():
    text = page(None)
    assert "**Not measured yet.**" in text
    assert "None of the" in text and "- Met:" not in text and "Missed" not in text
    for case in all_cases():
        assert f"- {case.title}." in text


def test_the_page_of_the_repository_is_written_by_the_program(tmp_path):
    """The page without times, or a page with times, which then says where from."""
    kept = (ROOT / "docs/benchmarks-gpu.md").read_text()
    if "**Not measured yet.**" not in kept:
        assert re.search(r"^Measured \d{4}-\d\d-\d\d with `", kept, re.M)
        return
    written = tmp_path / "page.md"
    subprocess.run([sys.executable, str(ROOT / "bench/gpu/report.py"), "--not-measured",
                    str(written)], check=True)
    assert written.read_text() == kept


def test_the_program_reads_results_and_checks(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(results(*rotation(170e-6, 162e-6))))
    (tmp_path / "checks.tsv").write_text("memcheck\tpassed\t12\t\n"
                                         "racecheck\tskipped\t0\tnot here\n")
    subprocess.run([sys.executable, str(ROOT / "bench/gpu/report.py"),
                    str(tmp_path / "results.json"), str(tmp_path / "page.md"), "--checks",
                    str(tmp_path / "checks.tsv")], check=True)
    text = (tmp_path / "page.md").read_text()
    assert "0.953 of the roof" in text
    assert "- memcheck: passed, 12 s.\n- racecheck: skipped, 0 s; not here.\n" in text
