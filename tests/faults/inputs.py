"""The two programs, and the inputs of the cases in commands.py."""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

import commands


def npy(shape, values, kind):
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape!r}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    letter = {"f4": "f", "i8": "q"}[kind]
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header.encode()
        + struct.pack(f"<{len(values)}{letter}", *values)
    )


def safetensors(shapes, numbers):
    header, data = {}, b""
    for name, shape in shapes.items():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [len(data), len(data) + size],
        }
        data += b"".join(struct.pack("<f", numbers.uniform(-1, 1)) for _ in range(size // 4))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def attention(layer):
    prefix = f"model.layers.{layer}.self_attn."
    return {
        prefix + "q_proj.weight": [32, 32],
        prefix + "k_proj.weight": [16, 32],
        prefix + "v_proj.weight": [16, 32],
        prefix + "o_proj.weight": [32, 32],
    }


def put_inputs(folder):
    """Writes the inputs that the program itself does not make."""
    numbers = random.Random(1)
    config = {
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "max_position_embeddings": 64,
        "rope_theta": 10000.0,
    }
    some = lambda count: [numbers.uniform(-1, 1) for _ in range(count)]  # noqa: E731
    (folder / "edges.txt").write_text("0 1\n1 2\n2 3\n3 4\n4 0\n0 2\n")
    (folder / "at.npy").write_bytes(npy((4,), [0, 5, 9, 131071], "i8"))
    (folder / "q.npy").write_bytes(npy((4, 2, 8), some(64), "f4"))
    (folder / "t5.npy").write_bytes(npy((4, 2), some(8), "f4"))
    (folder / "vit.npy").write_bytes(npy((1, 5, 8), some(40), "f4"))
    (folder / "vit.safetensors").write_bytes(
        safetensors({"position_embeddings": [1, 5, 8]}, numbers)
    )
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    (folder / "text.txt").write_text(" ".join(numbers.choice(words) for _ in range(3000)))
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config))
    (model / "tokenizer.json").write_text("{}")
    index = {}
    for layer in range(2):
        name = f"model-0000{layer + 1}-of-00002.safetensors"
        (model / name).write_bytes(safetensors(attention(layer), numbers))
        index |= {tensor: name for tensor in attention(layer)}
    (model / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )
    (folder / "one.safetensors").write_bytes(safetensors(attention(0), numbers))
    llama = folder / "llama"
    llama.mkdir()
    layer = "model.layers.0."
    tensors = attention(0) | {
        f"{layer}{norm}.weight": [32] for norm in ("input_layernorm", "post_attention_layernorm")
    }
    tensors |= {f"{layer}mlp.{name}_proj.weight": [48, 32] for name in ("gate", "up")}
    tensors |= {
        f"{layer}mlp.down_proj.weight": [32, 48],
        "model.norm.weight": [32],
        "model.embed_tokens.weight": [1000, 32],
    }
    (llama / "model.safetensors").write_bytes(safetensors(tensors, numbers))
    (llama / "config.json").write_text(
        json.dumps(
            config
            | {
                "num_hidden_layers": 1,
                "vocab_size": 1000,
                "rms_norm_eps": 1e-6,
                "tie_word_embeddings": True,
                "intermediate_size": 48,
            }
        )
    )


class Programs:
    """The two programs of a build folder, and the inputs that they make."""

    def __init__(self, build):
        self.gnomon = str(pathlib.Path(build, "apps/cli/gnomon").resolve())
        self.lab = str(pathlib.Path(build, "apps/lab/gnomon-lab").resolve())
        self.has_lab = os.path.exists(self.lab)

    def words(self, one, again=False):
        words = (*one.words, "--resume") if again and one.resumes else one.words
        return [self.lab if one.is_lab else self.gnomon, *words]

    def cases(self):
        return [one for one in commands.all_cases() if self.has_lab or not one.is_lab]

    def _run(self, folder, program, text, stdout=subprocess.DEVNULL):
        subprocess.run([program, *text.split()], cwd=folder, check=True, stdout=stdout)

    def put_inputs(self, folder, needs):
        """All inputs; those of the lab only if `needs` names them."""
        put_inputs(folder)
        self._run(folder, self.gnomon, "convert llama --to gguf -o model.gguf")
        with open(folder / "figures.json", "w", encoding="utf-8") as file:
            file.write("[")
            file.flush()
            self._run(folder, self.gnomon, "plot bias alibi --heads 2 --length 8 --json", file)
            file.write("]")
        lab = f"lab text.txt {' '.join(commands.TINY)} --no-cost"
        if "plan.json" in needs:
            with open(folder / "plan.json", "w", encoding="utf-8") as file:
                self._run(folder, self.lab, f"{lab} --steps 6 --list-runs", file)
        for name, steps in (("trained", 6), ("other", 5)):
            if name in needs:
                self._run(folder, self.lab, f"{lab} --steps {steps} --out {name}")
        steps = 100
        while "stopped" in needs and not list(folder.glob("stopped/checkpoints/*.safetensors")):
            shutil.rmtree(folder / "stopped", ignore_errors=True)
            steps *= 2  # the run ended before
            with subprocess.Popen(
                [self.lab, *f"{lab} --steps {steps} --checkpoint 0.01 --out stopped".split()],
                cwd=folder,
                stdout=subprocess.DEVNULL,
            ) as child:
                while child.poll() is None and not list(
                    folder.glob("stopped/checkpoints/*.safetensors")
                ):
                    time.sleep(0.005)
                child.send_signal(signal.SIGTERM)
        return folder
