"""The runs of the lab as tasks of Ray: `gnomon.lab.run(..., cluster="ray")`.

The driver has a folder OUT.runs, which is a folder of `gnomon lab --run`: a task trains its run in
a scratch folder on its node, and sends checkpoints and at the end the result to the driver. A task
that Ray starts again on another node continues from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

# Of a launcher that has started Ray, as `srun ray symmetric-run`: a run is one process.
_LAUNCHER = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID",
             "SLURM_STEP_NUM_TASKS")
_EVENTS = 200  # of all runs in a second, at most; one in a second of each run
_LINE_SECONDS = 15.0  # between two lines of a driver without a terminal

Files = dict[str, bytes]


class LabFailed(RuntimeError):
    """The program of a run ended by a signal. Ray starts the task again."""


def run(cluster: str, program: str, files: Callable[[pathlib.Path], list[str]],
        options: dict[str, Any], words: Callable[[dict[str, Any]], Iterator[str]], *,
        out: str | os.PathLike[str] | None, progress: bool) -> str:
    """Plans the runs, trains them on the cluster and merges them. Returns the output folder.

    program: gnomon-lab. files: writes a text to a folder, and returns the paths of the texts.
    options: those of the lab, and those of a cluster. words: turns options into a command line.
    """
    if cluster != "ray":
        raise ValueError(f"[lab] cluster must be 'ray', got {cluster!r}")
    ray = _ray()
    protocol = options.pop("protocol", None)
    workers = options.get("workers_per_run") or 1
    num_cpus = options.pop("num_cpus", None) or workers
    num_gpus = options.pop("num_gpus", 0)
    max_retries = options.pop("max_retries", 3)
    checkpoint_seconds = options.pop("checkpoint_seconds", 60)
    if options.get("finetune") is not None:
        options["finetune"] = os.path.abspath(options["finetune"])
    if out is not None and os.path.isdir(out) and os.listdir(out):
        raise ValueError(f"[lab] out must be a new or empty folder, got {os.fspath(out)}")
    folder = pathlib.Path(os.fspath(out or "report") + ".runs")
    folder.mkdir(parents=True, exist_ok=True)
    texts = [os.path.abspath(one) for one in files(folder)]
    plan, digest = _plan(program, list(words(options)), texts, protocol, folder)
    settings = json.loads(plan)["settings"]
    names = [one["name"] for one in json.loads(plan)["runs"]]
    if not ray.is_initialized():
        _connect(ray)
    node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False)
    keeper = ray.remote(_Keeper).options(
        num_cpus=0, scheduling_strategy=node, max_restarts=-1, max_task_retries=-1
    ).remote(str(folder.absolute()))
    task = ray.remote(_train).options(num_cpus=num_cpus, num_gpus=num_gpus,
                                      max_retries=max_retries, retry_exceptions=[LabFailed])
    shared = ray.put((plan, [_packed(pathlib.Path(one)) for one in texts or settings["texts"]]))
    left = {name for name in names if not (folder / "runs" / f"{name}.json").exists()}
    runs = ray.cluster_resources().get("CPU", 1) / num_cpus  # at the same time
    pauses = (max(1.0, runs / _EVENTS), checkpoint_seconds)
    pending = {task.remote(program, name, shared, keeper, pauses, workers): name
               for name in names if name in left}
    failures: dict[str, str] = {}
    view = _View(len(names), len(names) - len(left), progress)
    try:
        with contextlib.closing(view):
            while pending:
                ready, _ = ray.wait(list(pending), num_returns=min(100, len(pending)), timeout=0.5)
                for one in ready:
                    name = pending.pop(one)
                    try:
                        stored, outcome = ray.get(one)
                        _store(folder, name, stored, digest)
                        view.ended(name, outcome)
                    except ray.exceptions.RayTaskError as error:
                        cause = error.cause if isinstance(error.cause, Exception) else error
                        if isinstance(cause, ValueError):
                            raise cause from None
                        failures[name] = str(cause)
                    except ray.exceptions.RayError as error:
                        failures[name] = type(error).__name__
                    if name in failures:
                        view.failed(name, failures[name])
                view.show(ray.get(keeper.events.remote()))
    except BaseException:
        for one in pending:
            ray.cancel(one, force=True)
        raise
    finally:
        ray.kill(keeper)
    if failures:
        raise RuntimeError(
            f"[lab] every run must end, got {len(failures)} that failed ({_first(failures)}); "
            f"the same call continues with the runs in {folder}")
    return _merge(program, folder, None if out is None else os.fspath(out))


def _ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ImportError("[lab] cluster='ray' requires the package ray: pip install ray"
                          ) from error
    return ray


def _has_cluster() -> bool:
    """Whether RAY_ADDRESS is set, or a cluster runs that this machine has started or joined."""
    if "RAY_ADDRESS" in os.environ:
        return True
    # Ray keeps the address of a cluster that has ended, and waits minutes for an answer.
    file = pathlib.Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    try:
        host, port = file.read_text(encoding="utf-8").strip().rsplit(":", 1)
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except (OSError, ValueError):
        return False
    return True


def _connect(ray: Any) -> None:
    """Connects to a cluster, or starts one on this machine."""
    if _has_cluster():
        ray.init(address="auto", log_to_driver=False)
        return
    version = tuple(int(one) for one in ray.__version__.split(".")[:2])
    if version < (2, 59) and "RAY_AUTH_MODE" not in os.environ:
        raise ValueError("[lab] a local cluster requires ray 2.59 or later, whose ports require "
                         f"a token, or the variable RAY_AUTH_MODE, got ray {ray.__version__}")
    ray.init(address="local", log_to_driver=False)


def _plan(program: str, words: Sequence[str], texts: Sequence[str],
          protocol: str | os.PathLike[str] | None, folder: pathlib.Path
          ) -> tuple[bytes, str | None]:
    """The plan with all of its runs, and the SHA-256 of the protocol, if one is given.

    An interrupted call has stored the plan in `folder`, so that the same call has the same steps.
    """
    written = None if protocol is None else pathlib.Path(protocol).read_bytes()
    call = json.dumps([list(words), list(texts), written and written.decode(errors="replace")])
    if (folder / "call.json").exists():
        if (folder / "call.json").read_text(encoding="utf-8") != call:
            raise ValueError(f"[lab] {folder} must be of the same call, or be removed, got the "
                             "runs of another call")
    else:
        given = [] if protocol is None else ["--protocol", os.fspath(protocol)]
        done = subprocess.run([program, "lab", *given, *words, "--list-runs", "--", *texts],
                              env=_environment(), capture_output=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(folder)
            raise ValueError(done.stderr.decode(errors="replace").strip()
                             .removeprefix("gnomon: "))
        _write(folder / "plan.json", done.stdout)
        _write(folder / "call.json", call.encode())
    return ((folder / "plan.json").read_bytes(),
            None if written is None else hashlib.sha256(written).hexdigest())


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _LAUNCHER}


def _write(path: pathlib.Path, data: bytes) -> None:
    """Writes a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_bytes(data)
    hidden.replace(path)


def _is_part(name: str, path: str) -> bool:
    """Whether a file of a task belongs to its run."""
    return path in ("settings.json", f"checkpoints/{name}.safetensors", f"runs/{name}.json") or (
        re.fullmatch(rf"models/{re.escape(name)}/[A-Za-z0-9_][A-Za-z0-9_.]*", path) is not None)


def _store(folder: pathlib.Path, name: str, files: Files, protocol: str | None) -> None:
    """Stores the files of a run, its result last. protocol: the SHA-256 of that of the call."""
    for path, data in sorted(files.items(), key=lambda one: one[0].startswith("runs/")):
        if not _is_part(name, path):
            raise ValueError(f"[lab] a task must send files of its run {name}, got {path}")
        if path == "settings.json":
            settings = json.loads(data)
            settings.pop("protocol")  # the plan of this call
            if protocol is not None:
                settings["protocol"] = {"sha256": protocol}
            data = json.dumps(settings, indent=1).encode()
        _write(folder / path, data)
    shutil.rmtree(folder / "state" / name, ignore_errors=True)


def _packed(path: pathlib.Path) -> dict[str, bytes]:
    """A text, or a folder of pictures, by the paths of its files below its own folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(one.relative_to(path.parent)): one.read_bytes() for one in files if one.is_file()}


def _unpacked(files: Mapping[str, bytes], folder: pathlib.Path) -> str:
    for name, data in files.items():
        _write(folder / name, data)
    return str(folder / next(iter(files)).split(os.sep, 1)[0])


class _Keeper:
    """On the node of the driver: the checkpoints of unfinished runs, and their last events."""

    def __init__(self, folder: str) -> None:
        self._folder = pathlib.Path(folder)
        self._events: dict[str, dict[str, Any]] = {}

    def checkpoint(self, name: str) -> Files:
        """The files with which a task begins: none, or a checkpoint and the settings."""
        file = self._folder / "state" / name
        if not file.is_dir():
            return {}
        return {str(one.relative_to(file)): one.read_bytes()
                for one in file.rglob("*") if one.is_file()}

    def keep(self, name: str, files: Files) -> None:
        for path, data in files.items():
            if _is_part(name, path):
                _write(self._folder / "state" / name / path, data)

    def event(self, event: dict[str, Any]) -> None:
        self._events[event["run"]] = event

    def events(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        found, self._events = list(self._events.values()), {}
        return found


def _end_with_parent() -> None:
    """The program ends if the worker of Ray is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _program(path: str) -> str:
    """The program at the path of the driver, or that of this node."""
    if os.access(path, os.X_OK):
        return path
    from ._find import find

    return find()


def _train(program: str, name: str, shared: tuple[bytes, list[dict[str, bytes]]], keeper: Any,
           pauses: tuple[float, float], workers: int) -> tuple[Files, str]:
    """The task: trains one run, and returns the files of its folder and its result in words.

    pauses: seconds between two events, and between two checkpoints, that are sent.
    """
    import ray

    plan, texts = shared
    with tempfile.TemporaryDirectory(prefix="gnomon-run-") as scratch:
        here = pathlib.Path(scratch)
        out = here / "out"
        for path, data in ray.get(keeper.checkpoint.remote(name)).items():
            _write(out / path, data)
        _write(here / "plan.json", plan)
        paths = [_unpacked(one, here / str(i)) for i, one in enumerate(texts)]
        command = [_program(program), "lab", "--protocol", str(here / "plan.json"), "--run", name,
                   "--out", str(out), "--json", "--checkpoint", str(pauses[1])]
        if workers > 1:
            command += ["--workers-per-run", str(workers)]
        with open(here / "errors", "w+", encoding="utf-8", errors="replace") as errors:
            with subprocess.Popen([*command, "--", *paths], stdout=subprocess.PIPE, stderr=errors,
                                  env=_environment(), encoding="utf-8",
                                  preexec_fn=_end_with_parent) as process:
                assert process.stdout is not None
                last = _forward(process.stdout, out, name, keeper, pauses)
            errors.seek(0)
            said = [one.rstrip("\n") for one in errors if one.startswith("gnomon: ")]
        message = "\n".join(said).removeprefix("gnomon: ")
        if process.returncode == 2:
            raise ValueError(message)
        if process.returncode != 0:
            raise LabFailed(f"{name} ended with status {process.returncode}: {message}")
        model = out / "models" / name
        files = [out / "settings.json", out / "runs" / f"{name}.json",
                 *(model.iterdir() if model.is_dir() else ())]
        return ({str(one.relative_to(out)): one.read_bytes() for one in files},
                last.get("outcome", ""))


def _forward(lines: IO[str], out: pathlib.Path, name: str, keeper: Any,
             pauses: tuple[float, float]) -> dict[str, Any]:
    """Sends events of a run, and new checkpoints, to the driver. Returns the last event.

    Checkpoints are rarer if the driver needs long for one: they take a twentieth of the time.
    """
    import ray

    file = out / "checkpoints" / f"{name}.safetensors"
    stored = file.stat().st_mtime_ns if file.exists() else 0
    sent = next_checkpoint = 0.0
    event: dict[str, Any] = {}
    for line in lines:
        event = json.loads(line)
        now = time.monotonic()
        if now - sent >= pauses[0] or event["event"] != "training":
            keeper.event.remote(event | {"node": os.uname().nodename})
            sent = now
        with contextlib.suppress(FileNotFoundError):  # the run has just finished
            made = file.stat().st_mtime_ns
            if made == stored or now < next_checkpoint:
                continue
            paths = ["settings.json", str(file.relative_to(out))]
            ray.get(keeper.keep.remote(name, {one: (out / one).read_bytes() for one in paths}))
            stored = made
            next_checkpoint = now + max(pauses[1], 20 * (time.monotonic() - now))
    return event


def _merge(program: str, folder: pathlib.Path, out: str | None) -> str:
    words = [] if out is None else ["--out", out]
    done = subprocess.run([program, "lab", "--merge", str(folder), *words], env=_environment(),
                          capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip().removeprefix("gnomon: "))
    shutil.rmtree(folder)
    prefix = "Output folder: "
    return next(one for one in done.stdout.splitlines() if one.startswith(prefix)
                ).removeprefix(prefix)


def _first(failures: Mapping[str, str]) -> str:
    name, reason = next(iter(failures.items()))
    return f"{name}: {reason}"


class _View:
    """The progress on stderr: a table of the runs in training, or lines without a terminal."""

    def __init__(self, runs: int, finished: int, shown: bool) -> None:
        self._runs, self._finished, self._shown = runs, finished, shown
        self._live = shown and sys.stderr.isatty()
        self._events: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        self._drawn = 0
        self._printed = time.monotonic()

    def ended(self, name: str, outcome: str) -> None:
        self._finished += 1
        self._say(name, outcome)

    def failed(self, name: str, reason: str) -> None:
        self._say(name, "failed: " + reason)

    def _say(self, name: str, text: str) -> None:
        self._events.pop(name, None)
        self._ended.add(name)
        if self._shown:
            self._erase()
            print(f"{name}  {text}", file=sys.stderr, flush=True)

    def show(self, events: Sequence[Mapping[str, Any]]) -> None:
        for event in events:
            if event["run"] not in self._ended:
                self._events[event["run"]] = dict(event)
        if self._live:
            self._erase()
            columns, rows = shutil.get_terminal_size()
            lines = [*list(self._lines())[:max(0, rows - 2)], self._summary()]
            print("\n".join(one[:columns - 1] for one in lines), file=sys.stderr, flush=True)
            self._drawn = len(lines)
        elif self._shown and time.monotonic() - self._printed > _LINE_SECONDS:
            print(self._summary(), file=sys.stderr, flush=True)
            self._printed = time.monotonic()

    def close(self) -> None:
        self._erase()

    def _erase(self) -> None:
        if self._drawn:
            print(f"\x1b[{self._drawn}A\x1b[J", end="", file=sys.stderr)
        self._drawn = 0

    def _summary(self) -> str:
        steps = sum(one.get("tokens_per_second") or 0 for one in self._events.values())
        return (f"{self._finished} of {self._runs} runs finished, {len(self._events)} in training, "
                f"{steps:.0f} tokens/s")

    def _lines(self) -> Iterator[str]:
        width = max(map(len, self._events), default=0)
        for name, event in sorted(self._events.items()):
            if event["event"] != "training":
                yield f"{name:<{width}}  {event['event']}  on {event['node']}"
                continue
            bits = "diverged" if event["bits"] is None else f"{event['bits']:.3f} bits"
            yield (f"{name:<{width}}  step {event['step']:>6} of {event['steps']}  {bits:>12} "
                   f"{event['tokens_per_second']:>8.0f} tokens/s  on {event['node']}")
