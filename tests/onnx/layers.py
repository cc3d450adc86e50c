"""Exports layers of released models, runs them in ONNX Runtime, and compares with Gnomon.

    layers.py PROGRAM [--operators onnx|microsoft] [NAME...]

Every group of layers of every config in tests/model/released is exported. The file layers.json
beside this one has the groups that are refused, with the reason. Any other result is an error.
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
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = ROOT / "tests/model/released"
TOKENS = 23
BOUND = 2e-5  # of the largest element of the result; float32 sums of ONNX Runtime
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
        self.equal = 0

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
                out, facts = self.export(path, layer, part, [*options, "--grid", "8x12"])
        label = f"{name}:{layer.part + ':' if layer.part else ''}{layer.index}"
        if out is None:
            self.refused[label] = facts.removeprefix("gnomon: ")
            return
        proto = onnx.load(out)
        onnx.checker.check_model(proto, full_check=False)
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
        if name in REFERENCE and self.operators == "onnx":
            again = ReferenceEvaluator(proto).run(None, feeds)
            for value, other in zip(again, got.values()):
                np.testing.assert_allclose(value, other, atol=2e-5, rtol=1e-4)
        self.nodes.update(facts["operators"])
        self.equal += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--operators", default="onnx")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(given.program, given.operators, pathlib.Path(folder))
        for file in sorted(RELEASED.glob("*.json")):
            if given.names and file.stem not in given.names:
                continue
            case = json.loads(file.read_text())
            path = check.folder / "config.json"
            path.write_text(json.dumps(case["config"]))
            part = case.get("part", "")
            try:
                model = gnomon.model.from_pretrained(str(path), part=part)
            except Exception as error:
                print("read", file.stem, error); continue
            for layer in groups(model):
                try:
                    check.layer(file.stem, path, model, layer, part)
                except Exception as error:
                    print("FAIL", file.stem, layer.part, layer.index, type(error).__name__, str(error)[:300])
    for key, count in collections.Counter(check.refused.values()).most_common():
        print(count, key, [l for l, v in check.refused.items() if v == key][:3])
    print(check.equal, "equal;", sorted(check.worst)[-8:])
    print(dict(check.nodes))


if __name__ == "__main__":
    sys.exit(main())
