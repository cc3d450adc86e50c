"""The protocol of the lab: its batches, seeds, schedule and tests, for any program that trains.

docs/lab/run-format.md describes the batches and the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _run_files as files
from ._evaluate import Guesses, bits_of, evaluate_examples, evaluate_texts
from ._find import find

if TYPE_CHECKING:
    import torch

_Path = str | os.PathLike[str]
_Batches = Iterator[tuple[np.ndarray, np.ndarray]]
_SIZE = re.compile(r"@([1-9]\d*)x([1-9]\d*)$")


class Protocol:
    """What the runs of a plan have in common, so that their results can be compared.

        protocol = gnomon.lab.Protocol("plan.json", add=["own:mine"])
        for step, (inputs, targets) in enumerate(protocol.batches(seed=1)):
            ...                                         # a step at protocol.learning_rate(step)
        found = protocol.evaluate(predict)              # predict: inputs [B, T] -> logits [B, T, V]
        protocol.write_run("mine", "own:mine", 1, found, curve, parameters)

    plan: a plan of `gnomon lab --list-runs`, or the settings.json of a folder of the lab, or that
        folder, or the contents as a dict.
    texts: paths of the texts, if they are not where the plan says.
    add: entries own:NAME that the plan does not have.

    settings: the settings, with the added entries. entries, seeds: of the runs.
    """

    def __init__(self, plan: _Path | Mapping[str, Any],
                 texts: _Path | Sequence[_Path] | None = None, add: Sequence[str] = ()) -> None:
        if isinstance(plan, Mapping):
            files.need(not files.is_plan(plan), "a plan of --list-runs must be a path", "a dict")
            self._source, sha256 = dict(plan), None
        else:
            path = pathlib.Path(plan)
            self._source, sha256 = files.read_json(
                path / "settings.json" if path.is_dir() else path)
        self._plan = files.checked_plan(self._source, sha256)
        self.settings: dict[str, Any] = self._plan["settings"]
        for entry in add:
            files.need(files.is_own(entry), "entries of add must be own:NAME", entry)
        self.entries: list[str] = list(dict.fromkeys([*self.settings["encodings"], *add]))
        self.settings["encodings"] = self.entries
        self.seeds: list[int] = self.settings["seeds"]
        texts = [texts] if isinstance(texts, (str, os.PathLike)) else texts or []
        self._texts = [os.fspath(one) for one in texts]
        self._header: dict[str, Any] = {}
        self._validation: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def vocabulary(self) -> int:
        """The number V of different tokens."""
        tokens: str = self.settings["tokens"]
        return int(tokens.removeprefix("bpe:")) if tokens != "bytes" else 256

    @property
    def causal(self) -> bool:
        """Whether a token sees the tokens before it only. False for masked text."""
        return bool(self.settings["task"] != "masked")

    def sizes(self, encoding: str) -> tuple[int, int, int]:
        """Returns layers, width and heads of the model of an entry."""
        layers, width, heads = (self.settings[key] for key in ("layers", "width", "heads"))
        if not (size := _SIZE.search(encoding)):
            return layers, width, heads
        return int(size[1]), int(size[2]), int(size[2]) * heads // width

    def learning_rate(self, step: int, encoding: str = "") -> float:
        """Returns the learning rate of a step, from 0 to settings["steps"] - 1.

        It rises over the first tenth of the steps, is constant, and falls linearly to a fiftieth
        over the last fifth. encoding: an entry, which has a peak of its own after --sweep. The
        parameters of an encoding have `settings["position_rate"]` times this rate.
        """
        steps, peak = self.settings["steps"], self.settings["learning_rate"]
        for one in self.settings.get("rates", ()):
            if one["encoding"] == encoding:
                peak = one["learning_rate"]
        warm, stable, at = max(1.0, 0.1 * steps), 0.8 * steps, step + 1.0
        if at < warm:
            return float(peak * at / warm)
        if at <= stable:
            return float(peak)
        return float(peak * max(0.02, 1 - (at - stable) / (steps - stable)))

    def initial_seed(self, seed: int) -> int:
        """Returns the seed of the random generator of the initial weights that all encodings share.

        The generator of the encoding's own parameters has this seed plus 1.
        """
        return 2 * seed

    def batches(self, seed: int, start: int = 0) -> _Batches:
        """Yields inputs and targets, int32 [B, T], of each step from `start` on.

        Targets of -1 have no loss. The loss of a step is the mean over all others.
        """
        files.need(seed in self.seeds, f"seed must be one of {self.seeds}", seed)
        return self._pairs("--seed", str(seed), "--from", str(start))

    def validation(self) -> _Batches:
        """Yields the four batches of validation, which are the same for all runs."""
        if not self._validation:
            self._validation = list(self._pairs("--part", "validation"))
        return iter(self._validation)

    def units(self, targets: Any) -> int:
        """Returns the number of bytes of the counted targets, or of targets if there are no bytes.

        The loss in bits per byte is the sum in nats, divided by it and by log(2).
        """
        counted = np.asarray(targets)
        counted = counted[counted >= 0]
        return int(counted.size if self.vocabulary == 256 else self.token_bytes()[counted].sum())

    def token_bytes(self) -> np.ndarray:
        """Returns the number of bytes of each token, float64 [V]."""
        return np.asarray(self._known("token_bytes", [1] * self.vocabulary), np.float64)

    def validation_bits(self, predict: Callable[[np.ndarray], Any]) -> float:
        """Returns the mean validation loss in bits per byte. predict: as in `evaluate`."""
        losses = []
        for inputs, targets in self.validation():
            bits, _ = bits_of(predict(inputs), targets, targets >= 0, self.vocabulary)
            losses.append(bits.sum() / self.units(targets))
        return float(np.mean(losses))

    def evaluate(self, predict: Callable[[np.ndarray], Any],
                 longest: int | None = None) -> dict[str, Any]:
        """Tests a trained model as the lab does. Returns the tests for `write_run`.

        predict: returns the logits or log probabilities [B, T, V] of inputs, int32 [B, T], as an
            array of NumPy, PyTorch or JAX. It is called once for each test segment and length.
        longest: the largest T of the model; tests of longer windows are "not applicable".
        """
        with contextlib.closing(self._stream("--part", "test")) as stream:
            header = next(stream)
            bytes_of = self.token_bytes()

            def guess(inputs: np.ndarray, targets: np.ndarray, counted: np.ndarray) -> Guesses:
                bits, right = bits_of(predict(inputs), targets, counted > 0, self.vocabulary)
                return Guesses(bits, right, np.where(counted > 0, bytes_of[targets], 0.0), counted)

            test = evaluate_examples if "stretches" in header else evaluate_texts
            return test(self.settings, header, stream, guess, longest)

    def write_run(self, folder: _Path, encoding: str, seed: int, evaluation: Mapping[str, Any],
                  curve: Sequence[Mapping[str, Any]], parameters: int, *,
                  position_parameters: int = 0, specification: Mapping[str, Any] | None = None,
                  train_seconds: float = 0.0, test_seconds: float = 0.0,
                  trainer: str | None = None) -> pathlib.Path:
        """Checks and writes a run, and returns its file. `gnomon lab --merge` reads the folder.

        folder: a new folder, or one with other runs of this plan. No file is overwritten.
        evaluation: as `evaluate` returns it.
        curve: dicts of step, train_bits (mean since the previous point) and, for some,
            validation_bits; steps ascend to settings["steps"].
        parameters: of the model. position_parameters: those of the encoding.
        specification: describes the encoding, as JSON.
        trainer: the program that trained, for the report; default: the versions of PyTorch and JAX.
        """
        files.need(encoding in self.entries, f"encoding must be one of {self.entries}", encoding)
        files.need(seed in self.seeds, f"seed must be one of {self.seeds}", seed)
        window = self.settings["train_length"]
        if self.settings["task"] not in ("text", "masked"):
            window = self._known("window_tokens", window)
        tokens = self.settings["steps"] * self.settings["batch"] * window
        run = {
            "format": files.FORMAT,
            "trainer": files.trainers() if trainer is None else trainer,
            "encoding": encoding, "seed": seed,
            "specification": dict(specification or {"kind": encoding.split("@")[0]}),
            "parameters": parameters, "position_parameters": position_parameters,
            "steps": self.settings["steps"], "trained_tokens": tokens,
            "train_seconds": train_seconds,
            "tokens_per_second": tokens / train_seconds if train_seconds else 0.0,
            "curve": [dict(one) for one in curve], "test_seconds": test_seconds,
            **evaluation, "picture": {}}
        files.check(run, self.settings)
        return files.write(pathlib.Path(folder), run, self._plan)

    def transformer(self, position: torch.nn.Module | None, seed: int,
                    encoding: str = "") -> torch.nn.Module:
        """Returns the lab's Transformer in PyTorch, with the lab's initial weights of this seed.

        position: a module of `embed(x)`, x [B, T, C], and `attend(q, k, v, visibility=...)`,
            [B, H, T, D], as gnomon.torch.PositionEncoding; None: no position. All layers share it.
        encoding: the entry, for its size if it has one.
        """
        from ._train_torch import Transformer

        return Transformer(self, position, seed, self.sizes(encoding))

    def train_torch(self, make_model: Callable[[int], torch.nn.Module], encoding: str, seed: int,
                    device: str = "cpu", longest: int | None = None) -> dict[str, Any]:
        """Trains with PyTorch as the lab does, tests, and returns the arguments of `write_run`.

        make_model: returns a model that returns logits [B, T, V] for int64 [B, T], given the seed.
            Parameters of a submodule `position` are those of the encoding: without weight decay.
        """
        from ._train_torch import train

        return train(self, make_model, encoding, seed, device, longest)

    def _pairs(self, *words: str) -> _Batches:
        with contextlib.closing(self._stream(*words)) as stream:
            next(stream)
            for _, _, inputs, targets in stream:
                yield inputs, targets

    def _known(self, key: str, default: Any) -> Any:
        """A value of the header, which every stream has."""
        if not self._header:
            self.validation()
        return self._header.get(key, default)

    def _stream(self, *words: str) -> Generator[Any, None, None]:
        """Yields the header of `gnomon batches`, then (index, group, arrays...) of each record."""
        with tempfile.TemporaryDirectory() as folder:
            plan, errors = pathlib.Path(folder) / "plan.json", pathlib.Path(folder) / "errors"
            plan.write_text(json.dumps(self._source), encoding="utf-8")
            command = [find(), "batches", *words, "--", str(plan), *self._texts]
            with open(errors, "wb") as file, subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=file) as process:
                assert process.stdout is not None
                try:
                    if line := process.stdout.readline():
                        header = json.loads(line)
                        files.need(header["format"] == files.FORMAT,
                                  f"batches must have the format {files.FORMAT}", header["format"])
                        self._header = header
                        yield header
                        while record := _record(process.stdout, len(header["arrays"])):
                            yield record
                except GeneratorExit:
                    process.kill()
                    raise
                status = process.wait()
            if status != 0:
                text = errors.read_text(encoding="utf-8", errors="replace").strip()
                raise ValueError(text.removeprefix("gnomon: ").replace(str(plan), "the plan")
                                 or f"[protocol] gnomon batches failed ({status})")


def _array(stream: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """The next int32 numbers; None at the end of the stream."""
    array = np.empty(shape, "<i4")
    wanted = array.reshape(-1).view(np.uint8).data
    read = stream.readinto(wanted)
    files.need(read in (0, len(wanted)), "a record of gnomon batches must be whole", read)
    return array if read else None


def _record(stream: Any, arrays: int) -> tuple[Any, ...] | None:
    head = _array(stream, (4,))
    if head is None:
        return None
    rows, tokens, index, group = (int(one) for one in head)
    return (index, group, *(_array(stream, (rows, tokens)) for _ in range(arrays)))
