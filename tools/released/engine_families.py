"""Families of language models that the engine of docs/examples runs.

    python tools/released/engine_families.py build/release/tests/gnomon_engine

Makes a small model with random weights of each decoder in text_cases.py and engine.py, and
compares the engine's logits and tokens with those of transformers. Prints a line for each model:
`same`, `DIFFERS`, or the engine's refusal. The last line has the number of families. The exit
status is 1 if a model differs.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import safetensors.numpy
import torch
import transformers

import engine
import text_cases

BOUND = 1e-5  # of the largest logit, as in tests/examples/engine_test.cc


def cases():
    """Returns one case for each name. Composite and padded models are left out."""
    decoders = [case for case in text_cases.CASES
                if case.cls.endswith(("ForCausalLM", "LMHeadModel"))
                and not case.padded and not case.part]
    return {case.name: case for case in [*decoders, *engine.CASES]}.values()


def result(program, case):
    """Returns the model type, and the comparison as text."""
    config, tensors, expected = engine.run(dataclasses.replace(case, precision="float32"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text(json.dumps(config))
        safetensors.numpy.save_file(tensors, folder / "model.safetensors")
        done = subprocess.run(
            [program, folder, "--steps", str(len(expected["steps"])), "--logits",
             folder / "logits.npy", *map(str, expected["prompt"])],
            capture_output=True, text=True)
        if done.returncode:
            return config["model_type"], done.stderr.strip()
        logits, exact = numpy.load(folder / "logits.npy"), numpy.array(expected["logits"])
    error = numpy.abs(logits - exact).max() / numpy.abs(exact).max()
    same = error <= BOUND and [int(token) for token in done.stdout.split()] == expected["steps"]
    return config["model_type"], f"{'same' if same else 'DIFFERS'} ({error:.1e})"


def main(program):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    results = []
    for case in cases():
        kind, text = result(program, case)
        results.append((kind, text))
        print(f"{case.name}: {text}", flush=True)
    families = {kind for kind, text in results if text.startswith("same")}
    differ = sum(text.startswith("DIFFERS") for _, text in results)
    refused = {kind for kind, _ in results} - families
    print(f"{len(families)} families run, {len(refused)} are refused, {differ} models differ")
    return min(differ, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
