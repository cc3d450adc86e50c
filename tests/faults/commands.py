"""The commands of `gnomon` and `gnomon-lab` that read or write files: arguments, inputs and
outputs.

faults.py, kills.py and traces.py run these cases. `missing` compares them with the program
itself, so that a new command, or a new choice of `convert --to`, `plot WHAT` and `table KIND`,
without a case is an error.
"""

import dataclasses
import re
import subprocess

TINY = (
    "--layers 1 --width 16 --heads 2 --batch 4 --seeds 1 --encodings none,t5 --train-length 16 "
    "--eval-lengths 32 --jobs 1"
).split()
LAB = ("lab", "generate", "evaluate", "compare", "batches")


@dataclasses.dataclass(frozen=True)
class Case:
    """One call. `outputs`: the files and folders that it writes, `earlier`: they exist before."""

    name: str
    words: tuple
    needs: tuple = ()
    outputs: tuple = ()
    earlier: bool = False
    resumes: bool = False  # the call that continues after a failure has --resume
    stable: bool = True  # the standard output has no times
    quick: bool = True  # a part of the sample for CI

    @property
    def command(self):
        return self.words[0]

    @property
    def is_lab(self):
        return self.command in LAB

    @property
    def progress(self):
        """Whether a failed call keeps what a later one continues from."""
        return self.command == "lab" and bool(self.outputs) and "--merge" not in self.words


def case(name, text, needs="", outputs="", **more):
    return Case(name, tuple(text.split()), tuple(needs.split()), tuple(outputs.split()), **more)


def table_cases(kinds):
    sizes = {
        "grid2d": "--grid 4x4 --dim 8",
        "grid": "--grid 4x4 --dim 8 --join summed",
        "video": "--grid 2x4x4 --dim 32 --recipe cogvideox",
        "fourier": "--grid 4x4 --recipe perceiver --count 4",
        "axial-rotary": "--grid 4x4 --dim 8 --recipe pixtral",
        "laplacian": "--graph edges.txt --dim 2 --laplacian symmetric",
        "random-walk": "--graph edges.txt --dim 2",
        "degree": "--graph edges.txt",
        "rotary": "--dim 8 --positions 0:9 --pairing halves",
        "xpos": "--dim 8 --positions 0:9 --pairing halves",
        "timestep": "--dim 8 --positions 0:9 --order sine-first",
    }
    for kind in kinds:
        words = sizes.get(kind, "--dim 8 --positions 0:9")
        yield case(
            f"table {kind}",
            f"table {kind} {words} -o out.npy",
            "edges.txt",
            "out.npy",
            earlier=True,
            quick=kind == "rotary",
        )


def all_cases():
    lab = " ".join(TINY)
    train = f"lab text.txt {lab} --steps 6 --no-cost --checkpoint 0.001 --out out"
    cases = [
        *table_cases(
            (
                "sinusoidal timestep universal rotary xpos axial-rotary grid2d grid video fourier "
                "laplacian "
                "random-walk degree"
            ).split()
        ),
        case(
            "table csv",
            "table sinusoidal --dim 8 --positions at.npy -o out.csv",
            "at.npy",
            "out.csv",
        ),
        case("table json", "table sinusoidal --dim 8 --positions 0:9 -o out.json", "", "out.json"),
        case(
            "bias",
            "bias alibi --heads 2 --queries 4 --keys 4 -o out.npy",
            "",
            "out.npy",
            earlier=True,
        ),
        case(
            "bias trained",
            "bias t5 --heads 2 --buckets 4 --max-distance 8 --queries 4 --keys 4 "
            "--parameters t5.npy -o out.csv",
            "t5.npy",
            "out.csv",
        ),
        case(
            "bias graph",
            "bias graphormer --heads 2 --graph edges.txt --indices -o out.npy",
            "edges.txt",
            "out.npy",
            quick=False,
        ),
        case(
            "rotate",
            "rotate q.npy --positions 0:4 --config model -o out.npy",
            "q.npy model",
            "out.npy",
        ),
        case(
            "rotate in place",
            "rotate q.npy --positions 0:4 --pairing halves -o q.npy",
            "q.npy",
            "q.npy",
        ),
        case(
            "resize",
            "resize vit.npy --preset vit --to 4x4 -o out.npy",
            "vit.npy",
            "out.npy",
            earlier=True,
        ),
        case(
            "resize a checkpoint",
            "resize vit.safetensors --preset vit --to 4x4 -o out.safetensors",
            "vit.safetensors",
            "out.safetensors",
        ),
        case("export", "export model --layer 0 -o out.onnx", "model", "out.onnx", earlier=True),
        case(
            "convert a file",
            "convert one.safetensors --to adjacent --config model/config.json -o out.safetensors",
            "one.safetensors model",
            "out.safetensors",
            earlier=True,
        ),
        case("convert a folder", "convert model --to adjacent -o out", "model", "out"),
        case("convert to halves", "convert model --to halves -o out", "model", "out", quick=False),
        case("convert to gguf", "convert llama --to gguf -o out.gguf", "llama", "out.gguf"),
        case("inspect", "inspect model --json", "model"),
        case("inspect gguf", "inspect model.gguf", "model.gguf"),
        case("inspect page", "inspect model --html out.html", "model", "out.html", earlier=True),
        *(
            case(
                f"plot {what}",
                f"plot {what} {words} -o out.html",
                needs,
                "out.html",
                earlier=True,
                quick=what == "page",
            )
            for what, words, needs in (
                ("table", "sinusoidal --dim 8 --length 8", ""),
                ("similarity", "sinusoidal --dim 8 --length 8", ""),
                ("grid", "sinusoidal --dim 8 --grid 4x4 --cells 1,1", ""),
                ("rotary", "--dim 8 --length 8", ""),
                ("wavelengths", "--dim 8 --length 64", ""),
                ("bias", "alibi --heads 2 --length 8", ""),
                ("attention", "alibi --length 8", ""),
                ("shuffled", "rotary", ""),
                ("page", "--figures figures.json --title T", "figures.json"),
            )
        ),
        case("plot trained", "plot table --parameters t5.npy -o out.json", "t5.npy", "out.json"),
        case(
            "plot image",
            "plot bias alibi --heads 2 --length 8 -o out.svg",
            "",
            "out.svg",
            earlier=True,
            quick=False,
        ),
        case("list", "list"),
        case("explain", "explain rotary"),
        case("check", "check none"),
        case("bench", "bench fill --tokens 64 --threads 1", stable=False, quick=False),
        case("completion", "completion --share out", "", "out", earlier=True, quick=False),
        case("completion on stdout", "completion bash", quick=False),
        case("man", "man table"),
        case("lab train", train, "text.txt", "out", resumes=True, stable=False),
        case(
            "lab with cost",
            train.replace(" --no-cost", "").replace("none,t5", "t5"),
            "text.txt",
            "out",
            resumes=True,
            stable=False,
            quick=False,
        ),
        case(
            "lab resume",
            "lab --resume --out stopped --jobs 1",
            "text.txt stopped",
            "stopped",
            stable=False,
            quick=False,
        ),
        case(
            "lab sizes",
            "lab text.txt --sizes 1x32,1x64 --encodings none --seeds 1 --steps 2 --batch 4 "
            "--train-length 16 --eval-lengths 32 --no-cost --jobs 1 --out out",
            "text.txt",
            "out",
            resumes=True,
            stable=False,
            quick=False,
        ),
        case(
            "lab task",
            "lab --task copy --layers 1 --width 16 --heads 2 --encodings none --seeds 1 "
            "--steps 2 --train-length 2 --no-cost --jobs 1 --out out",
            "",
            "out",
            resumes=True,
            stable=False,
            quick=False,
        ),
        case(
            "lab plan",
            f"lab text.txt {lab} --steps 6 --no-cost --list-runs",
            "text.txt",
            quick=False,
        ),
        case(
            "lab run",
            "lab --protocol plan.json --run t5-seed1 --checkpoint 0.001 --out out",
            "text.txt plan.json",
            "out",
            stable=False,
            quick=False,
        ),
        case(
            "lab merge",
            "lab --merge trained --out out",
            "text.txt trained",
            "out",
            stable=False,
            quick=False,
        ),
        case(
            "generate",
            "generate trained/models/t5-seed1 It --bytes 4 --json",
            "trained",
            quick=False,
        ),
        case(
            "evaluate",
            "evaluate trained/models/t5-seed1 text.txt --segments 2 --json",
            "trained text.txt",
            quick=False,
        ),
        case("compare", "compare trained other --json", "trained other", quick=False),
        case("batches", "batches plan.json --seed 1", "text.txt plan.json", quick=False),
    ]
    names = [one.name for one in cases]
    assert len(set(names)) == len(names)
    return cases


def missing(gnomon, cases):
    """The commands and choices of the program without a case."""

    def output(*words):
        return subprocess.run([gnomon, *words], capture_output=True, text=True, check=True).stdout

    have = {one.command for one in cases} | {word for one in cases for word in one.words}
    absent = [
        name for name in re.findall(r"^  ([a-z]+)  +\S", output("--help"), re.M) if name not in have
    ]
    lines = output("completion", "fish").splitlines()
    for command, place in (("convert", "-l to "), ("plot", "-eq 2"), ("table", "-eq 2")):
        choices = [
            line for line in lines if f"from {command}" in line and place in line and "-a '" in line
        ]
        if len(choices) != 1:
            absent.append(f"the choices of {command}")
        for choice in re.findall(r"-a '([^']*)'", "".join(choices)):
            used = {word for one in cases if one.command == command for word in one.words}
            absent += [f"{command} {name}" for name in choice.split() if name not in used]
    # Every command with -o has a case that writes.
    for name in {line.split("from ")[1].split("'")[0] for line in lines if " -s o " in line}:
        if not any(one.command == name and one.outputs for one in cases):
            absent.append(f"{name} -o")
    return absent
