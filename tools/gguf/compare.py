"""Compares the GGUF reader of Gnomon with llama.cpp, on tiny random files.

    python tools/gguf/compare.py                          # cases of single architectures
    python tools/gguf/compare.py --sweep                  # also changes of keys for each of them
    python tools/gguf/compare.py --arch gemma3 --set attention.sliding_window=8
    python tools/gguf/compare.py --table docs/model/gguf_compared.md

llama.cpp runs a file; q, k and v are taken before their norms and rotations. Gnomon reads the
same file, and its plans compute the attention from these q, k and v. A row for each case: agree,
differ, refused (by Gnomon) or not run (by llama.cpp). Requires the packages gnomon, xllamacpp
and gguf.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import queue
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))

TOLERANCE = 2e-5  # of the largest output, in float32


@dataclass
class Result:
    outcome: str  # agree, differ, refused, not run
    error: float = 0.0  # the greatest, over all layers, positions and elements
    detail: str = ""  # Gnomon's sentence, or where it differs
    notes: list[str] = field(default_factory=list)


class ShapeError(ValueError):
    """A tensor has another shape than a parameter of Gnomon: ModelPlan refuses the file too."""


def tensor_of(parameter: str, layer: int, part: str, tensors: dict[str, np.ndarray]) -> Any:
    """Returns the tensor of a parameter of Gnomon's layers."""
    block = {"encoder": "enc.blk", "decoder": "dec.blk"}.get(part, "blk")
    names = {
        "sinks": [f"{block}.{layer}.attn_sinks.weight"],
        "query_norm.weight": [f"{block}.{layer}.attn_q_norm.weight"],
        "query_norm.bias": [f"{block}.{layer}.attn_q_norm.bias"],
        "key_norm.weight": [f"{block}.{layer}.attn_k_norm.weight"],
        "key_norm.bias": [f"{block}.{layer}.attn_k_norm.bias"],
        "buckets": [f"{block}.{layer}.attn_rel_b.weight", f"{block}.0.attn_rel_b.weight"],
    }
    for name in names.get(parameter, []):
        if name in tensors:
            return tensors[name]
    return None


def matrix(parameter: Any, layer: int, part: str, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Returns a parameter of a layer, as `Model.lower` takes it."""
    found = tensor_of(parameter.name, layer, part, tensors)
    if found is None:  # a norm without bias, or a table, which is added to the embeddings
        value = 1 if parameter.name.endswith(".weight") else 0
        return np.full((parameter.rows, parameter.columns), value, np.float32)
    if found.size != parameter.rows * parameter.columns:
        raise ShapeError(f"{parameter.name} must have {parameter.rows} x {parameter.columns} "
                         f"elements, but its tensor has {' x '.join(map(str, found.shape))}")
    return np.ascontiguousarray(found.reshape(parameter.rows, parameter.columns))


def attend(model: Any, layer: Any, site: Any, tokens: Any, length: int,
           tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the attention of a layer, from q, k and v of llama.cpp."""
    import gnomon

    parameters = [matrix(one, site.layer, layer.part, tensors)
                  for one in model.parameters(site.layer, layer.part)]
    axes = {axis for one in layer.position for axis in getattr(one, "axes", ())}
    if isinstance(tokens, int) and 3 in axes:
        tokens = (np.arange(tokens),) * 3
    if isinstance(tokens, tuple) and 3 in axes:  # in llama.cpp, positions on this axis are 0
        tokens = (*tokens, np.zeros_like(tokens[0]))
    plan = model.lower(site.layer, tokens, part=layer.part, parameters=parameters,
                       length=length)
    q, k, v = (np.ascontiguousarray(one[None]) for one in (site.q, site.k, site.v))
    gnomon.prepare(q, k, v, plan)
    return np.asarray(gnomon.attention(q, k, v, plan))[0]


def compare(path: pathlib.Path, runs: Sequence[Any], tensors: dict[str, np.ndarray],
            tolerance: float = TOLERANCE, layers_run: int = 1 << 30) -> Result:
    """Compares recorded attentions with those of Gnomon.

    layers_run: llama.cpp runs no further layers: those predict several tokens ahead.
    """
    import gnomon.model

    try:
        model = gnomon.model.from_pretrained(path)
    except ValueError as error:
        return Result("refused", detail=sentence(error, path))
    worst, where, refused = 0.0, "", ""
    layers = {(one.part, one.index): one for one in model.layers if one.heads}
    described = set(layers)
    for part, site, tokens, length in runs:
        place = f"{part} {site.layer}".strip()
        if (part, site.layer) not in layers:
            return Result("differ", np.inf, f"layer {place}: Gnomon describes no attention",
                          model.notes)
        described.discard((part, site.layer))
        layer = layers[part, site.layer]
        if layer.unsupported:
            refused = refused or layer.unsupported
            continue
        try:
            got = attend(model, layer, site, tokens, length, tensors)
        except ShapeError as error:
            refused = refused or str(error)
            continue
        except ValueError as error:
            return Result("differ", np.inf, f"layer {place}: {sentence(error, path)}", model.notes)
        if got.shape != site.out.shape:
            return Result("differ", np.inf, f"layer {place}: output {got.shape}, but "
                          f"{site.out.shape} in llama.cpp", model.notes)
        far = float(np.abs(got - site.out).max() / max(1.0, np.abs(site.out).max()))
        if not far <= worst:  # also if it is NaN
            worst, where = (far if far >= 0 else np.inf), f"layer {place}"
    if worst > tolerance:
        return Result("differ", worst, where, model.notes)
    if refused:
        return Result("refused", worst, refused, model.notes)
    described = {one for one in described if one[1] < layers_run}
    if described:
        left = ", ".join(f"{part} {layer}".strip() for part, layer in sorted(described))
        return Result("differ", np.inf, f"layer {left}: no attention in llama.cpp", model.notes)
    return Result("agree", worst, "", model.notes)


def sentence(error: ValueError, path: pathlib.Path) -> str:
    """Returns the text of an error without the file and the byte."""
    text = str(error).replace(str(path), path.name).removeprefix(f"[{path.name}] ")
    return re.sub(r", at byte \d+$", "", text)


def run_case(case: Any, message: str = "") -> Result:
    """Runs a case in this process. `message`: a file for the message of an abort of llama.cpp."""
    import cases
    import llama_cpp

    if message:
        llama_cpp.report_aborts(message)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model-00001-of-00002.gguf"
        try:
            tensors = case.write(path)
            runs = cases.record(path, case)
        except llama_cpp.Failure as error:
            return Result("not run", detail=str(error))
        if not runs:
            return Result("not run", detail="the graph has no softmax attention")
        if not all(np.isfinite(site.out).all() for _, site, _, _ in runs):
            return Result("not run", detail="llama.cpp computes infinite numbers")
        return compare(path, runs, tensors, case.tolerance, case.layers_run())


class Runner:
    """Runs cases in a process of its own, which is started again after a crash of llama.cpp."""

    def __init__(self, message: pathlib.Path) -> None:
        self._message = message
        self._context = multiprocessing.get_context("forkserver")
        # The server imports the modules once.
        self._context.set_forkserver_preload(["cases", "graph", "tiny_gguf", "gnomon.model"])
        self._process: ProcessPoolExecutor | None = None

    def run(self, case: Any) -> Result:
        self._process = self._process or ProcessPoolExecutor(1, self._context)
        self._message.unlink(missing_ok=True)
        try:
            return self._process.submit(run_case, case, str(self._message)).result()
        except BrokenProcessPool:
            self._process = None
            why = self._message.read_text() if self._message.exists() else "no message"
            return Result("not run", detail=f"llama.cpp aborts: {why}")

    def close(self) -> None:
        if self._process:
            self._process.shutdown()


class Pool:
    """Runs cases in several processes."""

    def __init__(self, jobs: int = 1) -> None:
        os.environ["GGML_NO_BACKTRACE"] = "1"  # a backtrace starts a debugger
        # The server finds the modules through the environment.
        paths = [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        self._all = [Runner(folder / f"abort{job}") for job in range(jobs)]
        self._free: queue.SimpleQueue[Runner] = queue.SimpleQueue()
        for one in self._all:
            self._free.put(one)
        self._threads = ThreadPoolExecutor(jobs)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: Any) -> None:
        self._threads.shutdown(cancel_futures=True)
        for one in self._all:
            one.close()
        self._folder.cleanup()

    def run(self, case: Any) -> Result:
        runner = self._free.get()
        try:
            return runner.run(case)
        finally:
            self._free.put(runner)

    def submit(self, case: Any) -> Future[Result]:
        return self._threads.submit(self.run, case)

    def map(self, cases: Iterable[Any]) -> Iterator[Result]:
        """Returns the results in the order of the cases."""
        return self._threads.map(self.run, cases)


def row(case: Any, result: Result) -> str:
    error = f"{result.error:.1e}" if result.outcome in ("agree", "differ") else ""
    notes = "; notes: " + "; ".join(result.notes) if result.outcome == "differ" else ""
    return (f"{case.architecture:16} {case.name:28} {result.outcome:8} {error:8} "
            f"{result.detail}{notes}")


def main(arguments: Sequence[str] | None = None) -> int:
    import cases

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--arch", action="append", help="only cases of this architecture")
    parser.add_argument("--case", help="only cases whose name contains this text")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a key without the architecture, and a value as JSON; "
                             "int32 as i[0, 1]; runs one case instead of the known ones")
    parser.add_argument("--factors", action="append", default=[],
                        help="with --set: write the tensors of this name (rope_freqs)")
    parser.add_argument("--sweep", action="store_true",
                        help="also every change of cases.SWEEP for every architecture")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--graph", action="store_true", help="list the graph of the first case")
    parser.add_argument("--table", type=pathlib.Path, help="write the results to this page")
    options = parser.parse_args(arguments)
    if options.set or options.factors:
        if not options.arch:
            parser.error("--set requires --arch")
        changes = dict(one.split("=", 1) for one in options.set)
        keys = {name: value_of(text) for name, text in changes.items()}
        chosen = [cases.Case(name, " ".join(options.set), keys, tuple(options.factors))
                  for name in options.arch]
    else:
        known = cases.single() + (cases.sweep() if options.sweep else [])
        chosen = [one for one in known
                  if (not options.arch or one.architecture in options.arch)
                  and (options.case or "") in one.name]
    if not chosen:
        parser.error("no case has this architecture and name")
    if options.graph:
        print("\n".join(cases.listing(chosen[0])))
        return 0
    results = []
    with Pool(options.jobs) as pool:
        for case, result in zip(chosen, pool.map(chosen)):
            results.append(result)
            print(row(case, result), flush=True)
    totals = collections.Counter(one.outcome for one in results)
    print(", ".join(f"{outcome} {count}" for outcome, count in sorted(totals.items())))
    if options.table:
        import table

        table.write(options.table, list(zip(chosen, results)), cases.changes())
    return 0


def value_of(text: str) -> Any:
    if text[:1] == "i":
        return np.array(json.loads(text[1:]), np.int32)
    return json.loads(text)


if __name__ == "__main__":
    raise SystemExit(main())
