"""Attention layers of released model families, recorded from transformers' own code.

    python tools/released/layers.py              # all cases
    python tools/released/layers.py llama gpt_oss

Writes tests/model/layers/NAME.json and NAME.safetensors: small models with random weights that
depend on NAME only. A file is kept if nothing in it differs by more than rounding. The format
is described in tests/model/layers/README.md.
"""

import json
import pathlib
import sys
import traceback

import numpy
import safetensors.numpy
import torch
import transformers

import build
import encoder_cases
import record
import spelling_cases
import text_cases
import tower_cases

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "model" / "layers"
ROUNDING = 5e-6  # of a tensor's largest value: models in float32 differ by 2e-6 between runs
CASES = [*text_cases.CASES, *encoder_cases.CASES, *tower_cases.CASES]
CASES += spelling_cases.CASES


def array(tensor):
    tensor = tensor.detach().contiguous()
    if tensor.is_floating_point():
        tensor = tensor.float()
    return tensor.clone().numpy()


def run(case):
    """Returns the JSON description, the tensors by name, and a line of text for each layer."""
    model, config, rng = build.build(case)
    inputs = case.inputs or build.text_inputs
    arguments, positions = inputs(case, model.config, rng)
    recorder = record.Recorder(case, model)
    if case.extra:
        case.extra(recorder, model)
    try:
        with torch.no_grad():
            entry = model.get_submodule(case.entry) if case.entry else model
            entry(**arguments)
    finally:
        recorder.close()
    assert recorder.layers, "no attention layer"
    tensors = build.of_position(case, build.checkpoint(model))
    if positions is not None:
        tensors["@positions"] = positions.to(torch.int64)
    if case.padded:
        tensors["@mask"] = arguments["attention_mask"].to(torch.uint8)
    words = []
    for layer in recorder.layers:
        words.append(record.check(case, layer, positions))
        for key in ("q", "k", "v", "out"):
            name = f"@{layer['part']}.{layer['number']}.{key}"
            assert name not in tensors, name
            tensors[name] = layer[key]
    tensors |= recorder.tensors
    for part, position, total in case.embed:
        tensors |= record.embedding(recorder, part, position, total)
    about = {"transformers": transformers.__version__, "class": case.cls, "config": config}
    about |= {"part": case.part, "precision": case.precision}
    if positions is not None:
        about["length"] = int(positions.max()) + 1
    if case.image:
        about["image"] = case.image
    about["tolerance"] = case.tolerance
    return about, {name: array(t) for name, t in tensors.items()}, words


def difference(old, new):
    """Returns the largest difference, relative to the largest value of the tensor; infinity if
    the names differ."""
    if old.keys() != new.keys():
        return float("inf")
    largest = 0.0
    for name, b in new.items():
        a = old[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        a, b = a.astype(numpy.float64), b.astype(numpy.float64)
        scale = max(numpy.abs(b).max(initial=0), 1e-30)
        largest = max(largest, float(numpy.abs(a - b).max(initial=0) / scale))
    return largest


def write(case, about, tensors):
    """Writes files that are new or differ by more than rounding. Returns the result as text."""
    text, weights = FOLDER / f"{case.name}.json", FOLDER / f"{case.name}.safetensors"
    changed, distance = set(about), float("inf")
    exists = text.exists() and weights.exists()
    if exists:
        old = json.loads(text.read_text())
        changed = {k for k in old | about if old.get(k) != about.get(k)} - {"transformers"}
        distance = difference(safetensors.numpy.load_file(weights), tensors)
    if not changed and distance <= ROUNDING:
        return "kept"
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    text.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if distance > ROUNDING:
        safetensors.numpy.save_file(tensors, weights)
        weights.chmod(0o644)
    if not exists:
        return "new"
    return f"changed: tensors by {distance:.1e} {' '.join(sorted(changed))}".strip()


def main(names):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"no such cases: {' '.join(sorted(unknown))}")
    failed = []
    for case in CASES:
        if names and case.name not in names:
            continue
        try:
            about, tensors, words = run(case)
        except Exception as error:  # a release may have removed or changed a family
            failed.append(case.name)
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{pathlib.Path(where.filename).name}:{where.lineno}"
            print(f"{case.name}: FAILED {type(error).__name__} {error} ({place})", flush=True)
            continue
        size = sum(t.nbytes for t in tensors.values())
        outcome = write(case, about, tensors)
        print(f"{case.name}: {outcome}, {size} bytes: {'; '.join(words)}", flush=True)
    if failed:
        sys.exit(f"{len(failed)} cases failed: {' '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
