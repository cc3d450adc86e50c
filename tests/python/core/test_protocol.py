"""gnomon.lab.Protocol: the batches of a plan, and the numbers of the tests.

A small script takes the place of gnomon-lab and writes invented batches. The tests of torch start
the real one. The oracles are loops over single targets, from docs/lab/run-format.md.
"""

from __future__ import annotations

import copy
import json
import math
import os
import pathlib
import sys
import time
from typing import Any

import numpy as np
import pytest
from invented_plan import CURVE, PLAN, SETTINGS

import gnomon.lab

SCRIPT = f"""#!{sys.executable}
import json, os, pathlib, sys, time
folder, words = pathlib.Path(__file__).parent, sys.argv[1:]
(folder / "call.json").write_text(json.dumps(words))
(folder / "plan.json").write_text(pathlib.Path(words[words.index("--") + 1]).read_text())
part = words[words.index("--part") + 1] if "--part" in words else "train"
if not (folder / part).exists():
    sys.exit("gnomon: [lab] TEXT must be the texts of " + words[words.index("--") + 1] + ", got x")
sys.stdout.buffer.write((folder / part).read_bytes())
sys.stdout.flush()
if (folder / "forever").exists():
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(600)
"""

def stream(records: list[tuple[int, int, list[np.ndarray]]], **header: Any) -> bytes:
    header = {"format": 1, "vocabulary": 256, "window_tokens": 4,
              "arrays": ["inputs", "targets"] + ["counted"] * (len(records[0][2]) - 2)} | header
    parts = [json.dumps(header).encode() + b"\n"]
    for index, group, arrays in records:
        parts.append(np.array([*arrays[0].shape, index, group], "<i4").tobytes())
        parts += [np.asarray(one, "<i4").tobytes() for one in arrays]
    return b"".join(parts)


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
            rng: np.random.Generator) -> pathlib.Path:
    """The folder of the script. Six batches to train, four to validate."""
    path = tmp_path / "program" / "gnomon-lab"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    path.chmod(0o755)
    monkeypatch.setenv("GNOMON_LAB", str(path))
    for name, count in (("train", 6), ("validation", 4)):
        batches = [(i, 0, [rng.integers(0, 256, (3, 4)) for _ in range(2)]) for i in range(count)]
        (path.parent / name).write_bytes(stream(batches))
    return path.parent


def words_of(program: pathlib.Path) -> list[str]:
    return json.loads((program / "call.json").read_text())


def test_batches_are_those_of_the_program(program: pathlib.Path) -> None:
    plan = program.parent / "listed.json"
    plan.write_text(json.dumps(PLAN | {"protocol": 1, "tokenizer": "AAAA"}))
    protocol = gnomon.lab.Protocol(plan, texts=[pathlib.Path("b.txt"), "-c.txt"])
    batches = list(protocol.batches(2, start=1))
    words = words_of(program)
    assert words[:6] == ["batches", "--seed", "2", "--from", "1", "--"]
    assert words[7:] == ["b.txt", "-c.txt"]
    written = (program / "train").read_bytes()
    numbers = np.frombuffer(written[written.index(b"\n") + 1:], "<i4").reshape(6, 4 + 2 * 12)
    assert len(batches) == 6
    for row, (inputs, targets) in zip(numbers, batches):
        assert inputs.dtype == np.int32 and inputs.shape == targets.shape == (3, 4)
        assert inputs.flags.writeable  # PyTorch warns of others
        np.testing.assert_array_equal(row[4:], np.concatenate([inputs, targets]).ravel())
    assert json.loads((program / "plan.json").read_text()) == json.loads(plan.read_text())
    assert len(list(protocol.validation())) == 4 == len(list(protocol.validation()))
    with pytest.raises(ValueError, match=r"^\[protocol\] seed must be one of \[1, 2\], got 3$"):
        protocol.batches(3)


def test_what_a_plan_says(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(PLAN))
    protocol = gnomon.lab.Protocol(tmp_path, add=["own:a", "own:b@4x32"])
    assert protocol.entries == ["none", "rotary", "own:a", "own:b@4x32"]
    assert protocol.settings["encodings"] == protocol.entries and protocol.causal
    assert protocol.sizes("own:a") == (2, 16, 2) and protocol.sizes("own:b@4x32") == (4, 32, 4)
    assert SETTINGS["encodings"] == ["none", "rotary"]  # the caller's dict stays as it is
    assert protocol.seeds == [1, 2]
    assert protocol.initial_seed(3) == 6
    rates = [protocol.learning_rate(step) for step in range(6)]
    assert rates[0] == 0.01 and rates[-1] == pytest.approx(0.0002)
    assert sorted(rates, reverse=True) == rates
    long = gnomon.lab.Protocol(PLAN | {"settings": SETTINGS | {"steps": 1000}})
    assert long.learning_rate(49) == pytest.approx(0.005)
    assert long.learning_rate(99) == 0.01
    assert long.learning_rate(799) == 0.01
    assert long.learning_rate(899) == pytest.approx(0.005)  # half of the fall
    assert long.learning_rate(999) == pytest.approx(0.0002)
    assert long.learning_rate(99, "own:a") == 0.01
    swept = gnomon.lab.Protocol(PLAN | {"settings": SETTINGS | {
        "steps": 1000, "rates": [{"encoding": "own:a", "learning_rate": 0.04}]}})
    assert swept.learning_rate(99, "own:a") == 0.04 and swept.learning_rate(99, "none") == 0.01


@pytest.mark.parametrize("change, message", [
    ({"settings": None}, "a plan must have settings, got NoneType"),
    ({"settings": SETTINGS | {"steps": "6"}}, "a plan must have the setting steps, got '6'"),
    ({"settings": SETTINGS | {"steps": True}}, "a plan must have the setting steps, got True"),
    ({"settings": SETTINGS | {"seeds": 2}}, "a plan must have the setting seeds, got 2"),
    ({"settings": {key: SETTINGS[key] for key in SETTINGS if key != "position_rate"}},
     "a plan must have the setting position_rate, got None"),
    ({"settings": SETTINGS | {"finetune": "gpt2"}}, "a plan must be without --finetune, got both"),
    ({"fingerprint": ""}, "a plan must have the key fingerprint, got "),
    ({"fingerprint": 3}, "a plan must have the key fingerprint, got 3"),
    ({"format": 2}, "a plan must have the format 1, got 2")])
def test_plans_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        gnomon.lab.Protocol(PLAN | change)
    assert str(caught.value) == "[protocol] " + message


def test_files_and_entries_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="must be JSON"):
        gnomon.lab.Protocol(tmp_path / "plan.json")
    for bad in ("rotary", "own:", "own:a/b", "own:a@random"):
        with pytest.raises(ValueError, match="entries of add must be own:NAME"):
            gnomon.lab.Protocol(PLAN, add=[bad])


def test_errors_of_the_program(program: pathlib.Path) -> None:
    protocol = gnomon.lab.Protocol(PLAN)
    with pytest.raises(ValueError) as caught:
        protocol.evaluate(lambda inputs: inputs)
    assert str(caught.value) == "[lab] TEXT must be the texts of the plan, got x"
    whole = (program / "train").read_bytes()
    (program / "train").write_bytes(whole[:-5])
    with pytest.raises(ValueError, match="a record of gnomon batches must be whole"):
        list(protocol.batches(1))
    (program / "train").write_bytes(whole.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(ValueError, match="batches must have the format 1, got 2"):
        next(protocol.batches(1))


def test_the_program_ends_with_the_iterator(program: pathlib.Path) -> None:
    (program / "forever").touch()
    batches = gnomon.lab.Protocol(PLAN).batches(1)
    next(batches)
    while not (program / "pid").exists() or not (program / "pid").read_text():
        time.sleep(0.001)
    batches.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((program / "pid").read_text()), 0)


# The numbers of the tests.


def naive_bits(table: np.ndarray, token: int, target: int) -> float:
    row = [float(one) for one in table[token]]
    return -math.log2(math.exp(row[target]) / math.fsum(math.exp(one) for one in row))


def text_records(rng: np.random.Generator, segments: int, vocabulary: int = 256,
                 lengths: tuple[int, ...] = (4, 8)) -> list[tuple[int, int, list[np.ndarray]]]:
    records = []
    for group, length in enumerate(lengths):
        for segment in range(segments):
            rows = 2 * lengths[-1] // length
            inputs, targets = (rng.integers(0, vocabulary, (rows, length)) for _ in range(2))
            counted = np.zeros((rows, length), int)
            counted[:, length // 2:] += 1
            counted[1::2] += 2
            records.append((segment, group, [inputs, targets, counted]))
    return records


@pytest.mark.parametrize("tokens", ["bytes", "bpe:512"])
def test_texts(program: pathlib.Path, rng: np.random.Generator, tokens: str) -> None:
    settings = SETTINGS | {"tokens": tokens}
    size = 256 if tokens == "bytes" else 512
    token_bytes = [1] * size if tokens == "bytes" else rng.integers(1, 9, size).tolist()
    header = {} if tokens == "bytes" else {"token_bytes": token_bytes, "vocabulary": size}
    records = text_records(rng, 3, size)
    (program / "test").write_bytes(stream(records, lengths=[4, 8], **header))
    (program / "validation").write_bytes(
        stream([(0, 0, [rng.integers(0, size, (3, 4)) for _ in range(2)])], **header))
    table = rng.normal(0, 2, (size, size)).astype(np.float32)
    protocol = gnomon.lab.Protocol(PLAN | {"settings": settings})
    calls: list[int] = []

    def predict(inputs: np.ndarray) -> np.ndarray:
        calls.append(inputs.shape[1])
        return table[inputs]

    found = protocol.evaluate(predict)
    assert calls == [4] * 3 + [8] * 3
    for group, length in enumerate((4, 8)):
        tails, windows, rights = [], [], []
        for segment, at, (inputs, targets, counted) in records:
            if at != group:
                continue
            sums = {1: [0.0, 0.0, 0.0], 2: [0.0, 0.0, 0.0]}
            for token, target, role in zip(inputs.flat, targets.flat, counted.flat):
                for bit in (1, 2):
                    if role & bit:
                        sums[bit][0] += naive_bits(table, token, target)
                        sums[bit][1] += token_bytes[target]
                        sums[bit][2] += table[token].argmax() == target
            tails.append(sums[1][0] / sums[1][1])
            windows.append(sums[2][0] / sums[2][1])
            rights.append(sums[1][2] / 8)
        test = found["lengths"][group]
        assert test["applicable"] and test["length"] == length and test["windows"] == 24 // length
        assert test["tail_by_segment"] == pytest.approx(tails, rel=1e-12)
        assert test["tail_bits"] == pytest.approx(sum(tails) / 3, rel=1e-12)
        assert test["window_bits"] == pytest.approx(sum(windows) / 3, rel=1e-12)
        assert test["accuracy"] == pytest.approx(sum(rights) / 3)
    # Positions 0 to 7 are ranges of one position each; the targets of both lengths count.
    means = []
    for position in range(8):
        bits = byte_count = 0.0
        for _, _, (inputs, targets, counted) in records:
            if position < inputs.shape[1]:
                for row in range(1, len(inputs), 2):
                    bits += naive_bits(table, inputs[row, position], targets[row, position])
                    byte_count += token_bytes[targets[row, position]]
        means.append(bits / byte_count)
    smooth = [(means[0] * 2 + means[1]) / 3,
              *((means[i - 1] + 2 * means[i] + means[i + 1]) / 4 for i in range(1, 7)),
              (means[6] + 2 * means[7]) / 3]
    assert found["by_position"]["length"] == 8
    assert found["by_position"]["positions"] == [i + 1 for i in range(8)]
    assert found["by_position"]["bits"] == pytest.approx(smooth, rel=1e-12)

    (inputs, targets), = protocol.validation()
    bits = sum(naive_bits(table, *pair) for pair in zip(inputs.flat, targets.flat))
    size_in_bytes = sum(token_bytes[one] for one in targets.flat)
    assert protocol.units(targets) == size_in_bytes
    assert protocol.validation_bits(predict) == pytest.approx(bits / size_in_bytes, rel=1e-12)


def test_masked_texts(program: pathlib.Path, rng: np.random.Generator) -> None:
    records = []
    for group, length in enumerate((4, 8)):
        for segment in range(2):
            inputs, targets = (rng.integers(0, 256, (8 // length, length)) for _ in range(2))
            targets[:, 1::2] = -1
            records.append((segment, group, [inputs, targets, np.where(targets < 0, 0, 3)]))
    (program / "test").write_bytes(stream(records, lengths=[4, 8]))
    table = rng.normal(0, 2, (256, 256))
    protocol = gnomon.lab.Protocol(PLAN | {"settings": SETTINGS | {"task": "masked"}})
    found = protocol.evaluate(lambda inputs: table[inputs])
    assert not protocol.causal
    for group in (0, 1):
        tails = [np.mean([naive_bits(table, token, target)
                          for token, target in zip(inputs.flat, targets.flat) if target >= 0])
                 for _, at, (inputs, targets, _) in records if at == group]
        assert found["lengths"][group]["tail_by_segment"] == pytest.approx(tails, rel=1e-12)
        assert found["lengths"][group]["window_bits"] == pytest.approx(np.mean(tails), rel=1e-12)
    # Those of the last length only. Position 1 has no targets, but neighbours have.
    means = [np.mean([naive_bits(table, inputs[0, i], targets[0, i])
                      for _, at, (inputs, targets, _) in records if at == 1])
             for i in (0, 2, 4, 6)]
    expected = [means[0], (means[0] + means[1]) / 2, means[1]]
    assert found["by_position"]["bits"][:3] == pytest.approx(expected, rel=1e-12)


def test_examples(program: pathlib.Path, rng: np.random.Generator) -> None:
    stretches = [{"from": 1, "to": 2, "up_to": 4, "tokens": 5, "examples": 4,
                  "chance_score": 0.25, "chance_second": 0.5},
                 {"from": 3, "to": 4, "up_to": 4, "tokens": 9, "examples": 2,
                  "chance_score": 0.125, "chance_second": 0.375}]
    table = rng.normal(0, 2, (256, 256))
    records = []
    for index, group, rows, tokens in ((0, 0, 3, 5), (3, 0, 1, 4), (0, 1, 2, 9)):
        inputs = rng.integers(0, 256, (rows, tokens))
        targets = rng.integers(0, 256, (rows, tokens))
        targets[:, :2] = -1
        targets[0, 2:] = table[inputs[0, 2:]].argmax(1)  # a right answer
        targets[1:, 2] = table[inputs[1:, 2]].argmax(1)  # a right byte of a wrong answer
        records.append((index, group, [inputs, targets, np.where(targets < 0, 0, 3)]))
    (program / "test").write_bytes(stream(records, stretches=stretches, window_tokens=7))
    (program / "validation").write_bytes(
        stream([(0, 0, [records[0][2][0], records[0][2][1]])], window_tokens=7))
    settings = SETTINGS | {"task": "copy"}
    protocol = gnomon.lab.Protocol(PLAN | {"settings": settings}, add=["own:a"])
    found = protocol.evaluate(lambda inputs: table[inputs])
    for group, test in enumerate(found["stretches"]):
        rows = [(inputs[i], targets[i]) for _, at, (inputs, targets, _) in records if at == group
                for i in range(len(inputs))]
        right = [[table[token].argmax() == target for token, target in zip(*row) if target >= 0]
                 for row in rows]
        bits = [np.mean([naive_bits(table, token, target) for token, target in zip(*row)
                         if target >= 0]) for row in rows]
        assert test["score"] == pytest.approx(np.mean([all(one) for one in right]))
        assert test["second"] == pytest.approx(np.mean([np.mean(one) for one in right]))
        assert test["scores"] == [float(all(one)) for one in right]
        assert test["seconds"] == pytest.approx([np.mean(one) for one in right])
        assert test["bits"] == pytest.approx(np.mean(bits), rel=1e-12)
        assert 0 < test["score"] < test["second"] and test["up_to"] == 4 and test["applicable"]
        assert test["chance_second"] == stretches[group]["chance_second"]
    short = protocol.evaluate(lambda inputs: table[inputs], longest=5)
    assert short["stretches"][0] == found["stretches"][0]
    assert short["stretches"][1] == {"from": 3, "to": 4, "up_to": 4, "applicable": False}
    with pytest.raises(ValueError, match="longest must be at least 5, got 4"):
        protocol.evaluate(lambda inputs: table[inputs], longest=4)
    run = json.loads(protocol.write_run(program / "out", "own:a", 1, short, CURVE, 10).read_text())
    for change, message in (
            (lambda one: one.pop("seconds"), "a stretch must have"),
            (lambda one: one["scores"].pop(), "scores must have a number for each example"),
            (lambda one: one.update(seconds=0.5), "seconds must have a number for each example"),
            (lambda one: one["scores"].__setitem__(0, 1.5), "scores must be 0 to 1")):
        bad = copy.deepcopy(short)
        change(bad["stretches"][0])
        with pytest.raises(ValueError, match=message):
            protocol.write_run(program / "bad", "own:a", 1, bad, CURVE, 10)
    assert run["stretches"] == short["stretches"] and run["trained_tokens"] == 6 * 3 * 7


def test_losses_of_any_array(program: pathlib.Path, rng: np.random.Generator) -> None:
    (program / "test").write_bytes(stream(text_records(rng, 1), lengths=[4, 8]))
    protocol = gnomon.lab.Protocol(PLAN)
    table = rng.normal(0, 2, (256, 256))
    table[:, 7] = -np.inf  # a token that never comes
    found = protocol.evaluate(lambda inputs: table[inputs])
    shifted = protocol.evaluate(lambda inputs: (table + 1000.0)[inputs].tolist())
    assert shifted["lengths"][0]["window_bits"] == pytest.approx(
        found["lengths"][0]["window_bits"], rel=1e-9)
    diverged = protocol.evaluate(lambda inputs: np.full((*inputs.shape, 256), np.nan))
    assert diverged["lengths"][1]["tail_bits"] == math.inf
    assert diverged["lengths"][1]["accuracy"] == 0 or diverged["lengths"][1]["accuracy"] < 0.2
    short = protocol.evaluate(lambda inputs: table[inputs], longest=4)
    assert short["lengths"][1] == {"length": 8, "applicable": False}
    assert short["lengths"][0] == found["lengths"][0] and short["by_position"]["length"] == 4
    with pytest.raises(ValueError, match="longest must be at least 4, got 3"):
        protocol.evaluate(lambda inputs: table[inputs], longest=3)
    with pytest.raises(ValueError, match=r"predict must return the shape \(4, 4, 256\), got"):
        protocol.evaluate(lambda inputs: table[inputs][..., :255])
