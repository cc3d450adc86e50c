"""Exports layers of released models, runs them in ONNX Runtime, and compares with Gnomon.

    layers.py PROGRAM [--operators onnx|microsoft] [--only NAME...]

Every group of layers of every config in tests/model/released is exported. refused.json has the
groups that the program refuses, with its messages. Any other result is an error.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import gnomon
import gnomon.model
import numpy as np
import onnx
import onnxruntime
import oracle
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = ROOT / "tests/model/released"
TOKENS = 23
# Of the largest element of the result. ONNX Runtime sums scores in float32: those of Gemma 3n
# and 4, which have no softmax scale, are up to 100.
BOUND = 5e-5
OPERATORS = ("Attention", "RotaryEmbedding", "MultiHeadAttention", "GroupQueryAttention", "Softmax")
REFERENCE = ("llama-2-7b", "t5-small", "bloom-560m", "gemma-2-27b", "gpt-j-6b")


def groups(model):
    """Yields the first layer of each group."""
    seen = set()
    for layer in model.layers:
        key = (layer.part, layer.position, layer.left, layer.softmax_scale, layer.heads,
               layer.head_dim, layer.softcap, layer.unsupported, layer.key_heads)
        if key not in seen:
            seen.add(key)
            yield layer


def positions_of(batch, tokens, rng):
    """Row 0 at 0, 1, ...; the others at increasing positions with gaps."""
    rows = [np.arange(tokens)]
    for _ in range(batch - 1):
        rows.append(np.cumsum(rng.integers(1, 4, tokens)) - 1)
    return np.stack(rows).astype(np.int64)


def inputs_of(session, tokens, batch, rng, rows):
    feeds = {}
    for one in session.get_inputs():
        shape = [{"batch": batch, "tokens": tokens}.get(extent, extent) for extent in one.shape]
        if one.name == "positions":
            made = np.minimum(positions_of(batch, tokens, rng), rows - 1)
            if len(shape) == 3:
                made = np.stack([made, made // 2, made[:, ::-1]])[:shape[0]]
            feeds[one.name] = np.ascontiguousarray(made)
        else:
            assert one.type == "tensor(float)"
            feeds[one.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


def expected(model, layer, feeds, tokens, image):
    """What Gnomon computes for the same inputs, in double. Returns {output: array}."""
    options = {} if image is None else {"image": image}
    values = []
    for one in model.parameters(layer.index, layer.part):
        values.append(feeds.get(one.name, np.zeros((one.rows, one.columns), np.float32)))
    results = collections.defaultdict(list)
    positions = feeds.get("positions")
    batch = feeds["q"].shape[0]
    for row in range(batch):
        if image is None:
            at = np.arange(tokens) if positions is None else positions[..., row, :]
            queries = tuple(at) if at.ndim == 2 else at
            options["queries"] = queries
        plan = model.lower(layer.index, part=layer.part, parameters=values, **options)
        heads = {}
        for name, count, size in (("q", layer.heads, layer.head_dim),
                                  ("k", layer.key_heads, layer.head_dim),
                                  ("v", layer.key_heads, layer.value_dim)):
            data = feeds[name][row].reshape(1, tokens, count, size)
            heads[name] = np.ascontiguousarray(data, np.float64)
        gnomon.prepare(heads["q"], heads["k"], heads["v"], plan)
        terms = {name: feeds[name][row:row + 1] for name in ("gates", "sinks")
                 if name in feeds and feeds[name].ndim == 3}
        out = gnomon.attention(heads["q"], heads["k"], heads["v"], plan, terms=terms or None)
        results["out"].append(np.asarray(out).reshape(tokens, -1))
        if "hidden" in feeds:
            hidden = feeds["hidden"][row].astype(np.float64)
            if plan.table is not None:
                results["hidden_out"].append(hidden + plan.table)
            else:
                results["hidden_out"].append(rotated_hidden(model, layer, hidden, at))
    return {name: np.stack(rows) for name, rows in results.items()}


def rotated_hidden(model, layer, hidden, at):
    table = gnomon.RotaryTable(model.frequencies(layer.index, part=layer.part), at)
    heads = np.ascontiguousarray(hidden.reshape(1, len(at), layer.heads, -1))
    gnomon.rotate(heads, table)
    return heads.reshape(len(at), -1)


class Check:
    def __init__(self, program, operators, folder):
        self.program, self.operators, self.folder = program, operators, folder
        self.refused, self.worst, self.nodes = {}, [], collections.Counter()
        self.equal, self.by_oracle, self.failed = 0, 0, []

    def export(self, path, layer, part, options):
        out = self.folder / "layer.onnx"
        arguments = [self.program, "export", path, "--layer", str(layer.index), "--operators",
                     self.operators, *options, "--json", "-o", out]
        if layer.part or part:
            arguments += ["--part", layer.part or part]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr.strip()
        return out, json.loads(done.stdout)

    def layer(self, name, path, model, layer, part):
        options = ["--rows", "128"]
        out, facts = self.export(path, layer, part, options)
        if out is not None and facts["image"] is not None:
            count = int(facts["inputs"][0]["shape"][1])
            if count > 800:
                again, more = self.export(path, layer, part, [*options, "--grid", "8x12"])
                out, facts = (again, more) if again is not None else (out, facts)
        if out is None and "size of the image" in facts:
            out, facts = self.export(path, layer, part, [*options, "--grid", "8x12"])
        label = f"{name}:{layer.part + ':' if layer.part else ''}{layer.index}"
        if out is None:
            self.refused[label] = facts.removeprefix("gnomon: ")
            return
        proto = onnx.load(out)
        onnx.checker.check_model(out, full_check=True)
        rng = np.random.default_rng(len(label))
        session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
        image = facts["image"]
        tokens = TOKENS if image is None else session.get_inputs()[0].shape[1]
        feeds = inputs_of(session, tokens, 2, rng, 128)
        got = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds)))
        want = expected(model, layer, feeds, tokens, image)
        assert sorted(got) == sorted(want), (label, sorted(got), sorted(want))
        for key, value in got.items():
            error = np.abs(value - want[key]).max() / max(1, np.abs(want[key]).max())
            self.worst.append((float(error), label, key))
        if name in oracle.MODELS:
            error = np.abs(got["out"] - oracle.out_of(name, feeds)).max()
            self.worst.append((float(error), label, "out, by the oracle"))
            self.by_oracle += 1
        if name in REFERENCE and self.operators == "onnx":
            again = ReferenceEvaluator(proto).run(None, feeds)
            for value, other in zip(again, got.values()):
                np.testing.assert_allclose(value, other, atol=2e-5, rtol=1e-4)
        self.nodes.update(facts["operators"])
        self.equal += 1

    def report(self, given):
        listed = pathlib.Path(__file__).with_name("refused.json")
        refused = dict(sorted(self.refused.items()))
        if given.write:
            listed.write_text(json.dumps(refused, indent=1) + "\n")
        known = {key: reason for key, reason in json.loads(listed.read_text()).items()
                 if not given.only or key.split(":")[0] in given.only}
        if refused != known:
            self.failed.append(f"refused layers differ from {listed.name}: "
                               f"{sorted(refused.items() ^ known.items())}")
        errors = sorted(self.worst, reverse=True)
        self.failed += [f"{label} {key}: error {error:.2g} above {BOUND}"
                        for error, label, key in errors if not error <= BOUND]
        for one in self.failed:
            print("FAILED", one)
        for error, label, key in errors[:3]:
            print(f"largest difference {error:.2g}: {label} {key}")
        print("operators:", ", ".join(f"{name} {count}" for name, count in self.nodes.most_common()
                                      if name.split(".")[-1] in OPERATORS))
        print(f"{given.operators}: {self.equal} layers equal, {self.by_oracle} also equal to "
              f"the oracle, {len(self.refused)} refused as "
              f"listed, {len(self.failed)} failed")
        return 1 if self.failed or not self.equal else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--operators", default="onnx", choices=("onnx", "microsoft"))
    parser.add_argument("--only", nargs="*", default=[], help="names of configs")
    parser.add_argument("--write", action="store_true", help="write refused.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(given.program, given.operators, pathlib.Path(folder))
        for file in sorted(RELEASED.glob("*.json")):
            if given.only and file.stem not in given.only:
                continue
            case = json.loads(file.read_text())
            path = check.folder / "config.json"
            path.write_text(json.dumps(case["config"]))
            part = case.get("part", "")
            model = gnomon.model.from_pretrained(str(path), part=part)
            for layer in groups(model):
                try:
                    check.layer(file.stem, path, model, layer, part)
                except Exception as error:  # reported with the others
                    label = f"{file.stem} {layer.part} {layer.index}"
                    check.failed.append(f"{label}: {type(error).__name__}: {str(error)[:400]}")
    return check.report(given)


if __name__ == "__main__":
    sys.exit(main())
