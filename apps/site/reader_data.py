"""Writes the files of the trained models of the site from a folder of the lab.

    python3 apps/site/reader_data.py LAB [--out docs/book/data] [--gnomon gnomon]

Writes reader-NAME.safetensors (float16), reader.json (losses by length and position, with other
encodings than the trained one too) and tests/site/data/reader-logits.json. tools/site_model.sh
calls it after the training. Requires NumPy and the package gnomon.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import gnomon

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEST_TEXT = ROOT / "apps/lab/data/austen/northanger_abbey.txt"
LENGTHS = [128, 256, 512, 1024]
SEGMENTS = 48
STRETCH = 32  # bytes of a mean of the loss by position
# The two programs compute in float32 in other orders.
MOST_DIFFERENCE = 2e-3

# Trained models of the site, and the encodings that each runs with beside its own.
MODELS = {
    "rotary": ["linear", "ntk", "yarn", "window", "alibi", "none"],
    "alibi": ["window", "rotary", "none"],
    "sinusoidal": ["window", "none"],
    "none": ["window", "alibi", "rotary"],
}
TITLES = {"linear": "linear interpolation", "ntk": "NTK-aware", "yarn": "YaRN",
          "window": "window of the training length", "rotary": "RoPE", "alibi": "ALiBi",
          "sinusoidal": "sinusoidal", "none": "no position"}


@dataclasses.dataclass
class Model:
    """A folder DIR/models/NAME-seedN of the lab, with weights as the float16 file has them."""

    name: str
    config: dict
    weights: dict

    @property
    def settings(self):
        return self.config["settings"]


def read_safetensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin:8 + length + end], "<f4")
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors, metadata):
    types = {np.dtype("<f2"): "F16", np.dtype("<f4"): "F32"}
    header, blocks, at = {"__metadata__": metadata}, [], 0
    for name, values in tensors.items():
        block = values.tobytes()
        header[name] = {"dtype": types[values.dtype], "shape": list(values.shape),
                        "data_offsets": [at, at + len(block)]}
        blocks.append(block)
        at += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))


def to_half(tensors):
    """Rounds weights to float16. Raises ValueError if one is too large."""
    halves = {name: values.astype("<f2") for name, values in tensors.items()}
    for name, values in halves.items():
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has values beyond the range of float16")
    return halves


def read_model(lab, name):
    folders = sorted((lab / "models").glob(f"{name}-seed*"))
    if len(folders) != 1:
        raise ValueError(f"{lab}/models must have one folder {name}-seedN")
    config = json.loads((folders[0] / "config.json").read_text(encoding="utf-8"))
    weights = read_safetensors(folders[0] / "model.safetensors")
    return Model(name, config, to_half(weights))


def encoding_of(model, name, length):
    """The encoding of a name for a text of `length` bytes, and the window limit."""
    settings = model.settings
    sizes = {"width": settings["width"], "heads": settings["heads"],
             "length": settings["train_length"]}
    if name == "window":
        return encoding_of(model, model.name, length)[0], settings["train_length"] - 1
    if name not in ("linear", "ntk", "yarn"):
        return gnomon.usual(name, **sizes), None
    rotary = json.loads(gnomon.usual("rotary", **sizes).to_json())
    scaling = {"type": name, "factor": max(1.0, length / settings["train_length"])}
    if name == "yarn":
        scaling["original_length"] = settings["train_length"]
    return gnomon.Encoding.from_json(json.dumps(
        rotary | {"kind": "rotary-scaled", "scaling": scaling, "length": length})), None


def layer_norm(x, weights, name):
    mean = x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + np.float32(1e-5))
    return (x - mean) * scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x):
    """With erf of Abramowitz and Stegun 1964, formula 7.1.26: error below 1.5e-7."""
    size = np.abs(x) * np.float32(0.5 ** 0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    terms = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        terms = (terms + np.float32(factor)) * t
    return 0.5 * x * (1 + np.sign(x) * (1 - terms * np.exp(-size * size)))


def logits_of(model, weights, windows, encoding, left):
    """The logits [B, T, 256] of windows [B, T]."""
    batch, tokens = windows.shape
    width, heads = model.settings["width"], model.settings["heads"]
    plan = gnomon.lower(encoding, tokens, visibility="causal", left=left)
    x = weights["embedding.weight"][windows]
    if plan.table is not None:
        x = x + plan.table.reshape(-1, tokens, width)
    for layer in range(model.settings["layers"]):
        block = f"block{layer}"
        normed = layer_norm(x, weights, f"{block}.attention_norm")
        qkv = (normed @ weights[f"{block}.qkv.weight"].T).reshape(
            batch, tokens, 3, heads, width // heads)
        q, k, v = (np.ascontiguousarray(qkv[:, :, part]) for part in range(3))
        attended = gnomon.attention(q, k, v, plan).reshape(batch, tokens, width)
        x = x + attended @ weights[f"{block}.attention_out.weight"].T
        normed = layer_norm(x, weights, f"{block}.feed_norm")
        hidden = gelu(normed @ weights[f"{block}.feed_in.weight"].T)
        x = x + hidden @ weights[f"{block}.feed_out.weight"].T
    return layer_norm(x, weights, "norm") @ weights["head.weight"].T


def test_segments(text, longest):
    """The first targets of the test segments, as apps/lab/data/batches.h chooses them."""
    places = list(range(longest // 2 + 1, len(text) - longest + 1, longest))
    count = min(len(places), SEGMENTS)
    return [places[i * len(places) // count] for i in range(count)]


def losses(model, weights, text, length, encoding, left):
    """The loss of the second half of windows, and by position in adjacent windows, in bits."""
    longest, count = LENGTHS[-1], 2 * LENGTHS[-1] // length
    tails, positions = [], []
    for target in test_segments(text, longest):
        begins = target - 1 + (np.arange(count) - 1) * (length // 2)
        windows = text[begins[:, None] + np.arange(length + 1)].astype(np.int64)
        logits = logits_of(model, weights, windows[:, :-1], encoding, left)
        logits = logits - logits.max(-1, keepdims=True)
        nats = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
            logits, windows[:, 1:, None], -1)[..., 0]
        bits = nats / np.float32(np.log(2))
        tails.append(bits[:, length // 2:].mean())
        positions.append(bits[1::2].mean(0))
    return float(np.mean(tails)), np.mean(positions, 0)


def singles(model):
    return {name: one.astype("<f4") for name, one in model.weights.items()}


def evaluated(program, model):
    """The losses of `gnomon evaluate` for the float16 weights."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_safetensors(folder / "model.safetensors", singles(model), {})
        (folder / "config.json").write_text(json.dumps(model.config), encoding="utf-8")
        output = subprocess.run(
            [program, "evaluate", str(folder), str(TEST_TEXT), "--lengths",
             ",".join(map(str, LENGTHS)), "--segments", str(SEGMENTS), "--json"],
            check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def rounded(values, digits=4):
    return [round(float(one), digits) for one in values]


def last_logits(model, sample):
    """The logits after the first bytes of the sample, at each length, for the tests of the site."""
    weights, found = singles(model), []
    for length in LENGTHS[:2]:
        encoding, left = encoding_of(model, model.name, length)
        window = np.frombuffer(sample[:length].encode("ascii"), np.uint8)[None].astype(np.int64)
        found.append(rounded(logits_of(model, weights, window, encoding, left)[0, -1]))
    return found


def measured(model, text, name, expected=None):
    """The losses of a model with an encoding at every length."""
    weights = singles(model)
    own = name == model.name
    bits, position_bits, specs = [], None, []
    for length in LENGTHS:
        encoding, left = encoding_of(model, name, length)
        mean, position_bits = losses(model, weights, text, length, encoding, left)
        bits.append(mean)
        specs.append(json.loads(encoding.to_json()))
    if expected:
        difference = max(abs(a - b) for a, b in zip(bits, expected))
        print(f"{model.name}: gnomon evaluate differs by at most {difference:.1e} bits")
        if difference > MOST_DIFFERENCE:
            raise ValueError(f"{model.name}: differs from gnomon evaluate by {difference} bits")
    print(f"{model.name} with {name}:", *(f"{one:.3f}" for one in bits), flush=True)
    means = position_bits.reshape(-1, STRETCH).mean(1)
    changes = any(one != specs[0] for one in specs)
    return {"encoding": name, "own": own, "title": TITLES[name],
            "specs": specs if changes else specs[:1],
            "left": encoding_of(model, name, LENGTHS[0])[1],
            "bits": rounded(bits), "by_position": rounded(means)}


def described(lab, program, text, sample, out):
    entries, logits = [], {}
    for name, others in MODELS.items():
        model = read_model(lab, name)
        settings = model.settings
        spec = model.config["position"]["layers"][0]
        metadata = {"encoding": json.dumps(spec[0]), "layers": str(settings["layers"]),
                    "heads": str(settings["heads"]),
                    "train_length": str(settings["train_length"])}
        file = out / f"reader-{name}.safetensors"
        write_safetensors(file, model.weights, metadata)
        checked = [one["tail_bits"] for one in evaluated(program, model)["lengths"]]
        runs = [measured(model, text, name, checked)]
        runs += [measured(model, text, other) for other in others]
        entries.append({"name": name, "title": TITLES[name], "file": file.name,
                        "parameters": sum(one.size for one in model.weights.values()),
                        "runs": runs})
        logits[name] = last_logits(model, sample)
    path = ROOT / "tests/site/data/reader-logits.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(logits, separators=(",", ":")) + "\n", encoding="utf-8")
    return entries


def sample_of(text):
    """The first bytes of a chapter that the models have not read, with its line breaks."""
    begin = text.index("CHAPTER 2") + len("CHAPTER 2")
    return text[begin:].lstrip()[:LENGTHS[-1]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lab", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/book/data")
    parser.add_argument("--gnomon", default="gnomon")
    options = parser.parse_args()
    raw = TEST_TEXT.read_bytes()
    text = np.frombuffer(raw, np.uint8)
    options.out.mkdir(parents=True, exist_ok=True)
    sample = sample_of(raw.decode("ascii"))
    models = described(options.lab, options.gnomon, text, sample, options.out)
    settings = read_model(options.lab, "rotary").settings
    result = {
        "trained": settings["train_length"], "layers": settings["layers"],
        "width": settings["width"], "heads": settings["heads"], "steps": settings["steps"],
        "batch": settings["batch"], "text": TEST_TEXT.name, "segments": SEGMENTS,
        "lengths": LENGTHS, "stretch": STRETCH, "models": models,
        "sample": sample,
    }
    (options.out / "reader.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"reader_data.py: {error}")
