"""The cost of many runs for the driver of gnomon.lab.run(..., cluster="ray").

    python bench/lab/ray_driver.py [RUNS] [CHECKPOINTS]

A program that takes no time stands for gnomon-lab: each run sends files of the default model (a
result and its model of 3.5 MB, checkpoints of 10.3 MB). Prints the CPU time of the driver and of
the actor that keeps the checkpoints, and what follows for 10 000 runs on 1000 workers
(docs/lab/cluster.md).
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import sys
import tempfile
import time

import ray

import gnomon.lab
from gnomon.lab import _ray

RESULT, CHECKPOINT = 3_500_000, 10_260_000  # bytes
# Writes the files of a run without training.
PROGRAM = f"""#!/bin/bash
words=" $* "
out=${{words##* --out }}; out=${{out%% *}}
name=${{words##* --run }}; name=${{name%% *}}
case $words in
  *" --list-runs "*) cat "$PLAN" ;;
  *" --merge "*)
    mkdir -p "$out"
    echo '{{"schema": 4}}' >"$out/results.json"
    echo "Output folder: $out"
    ;;
  *)
    mkdir -p "$out/runs" "$out/models/$name" "$out/checkpoints"
    echo '{{"protocol": {{}}}}' >"$out/settings.json"
    for step in $(seq 1 "$CHECKPOINTS"); do
      head -c {CHECKPOINT} /dev/zero >"$out/checkpoints/$name.safetensors"
      echo '{{"event": "training", "run": "'$name'", "step": '$step', "steps": 9, "bits": 2,' \\
        '"tokens_per_second": 1}}'
      sleep 1.1
    done
    head -c {RESULT} /dev/zero >"$out/models/$name/model.safetensors"
    echo '{{}}' >"$out/runs/$name.json"
    echo '{{"event": "finished", "run": "'$name'", "outcome": ""}}'
    ;;
esac
"""


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Keeper(_ray._Keeper):
    """Tells the CPU time of its process."""

    def events(self) -> list[dict[str, object]]:
        (self._folder / "seconds").write_text(str(cpu_seconds()))
        return super().events()


def measured(runs: int, checkpoints: int) -> tuple[float, float, float]:
    """CPU seconds of the driver and of the keeper, and the time for all runs."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        program = pathlib.Path("gnomon-lab").absolute()
        program.write_text(PROGRAM)
        program.chmod(0o755)
        names = [{"name": f"run-seed{i}"} for i in range(runs)]
        plan = pathlib.Path("plan.json").absolute()
        plan.write_text(json.dumps({"settings": {"texts": []}, "runs": names}))
        os.environ |= {"GNOMON_LAB": str(program), "PLAN": str(plan),
                       "CHECKPOINTS": str(checkpoints)}
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
        found = 0.0
        store = _ray._store

        def stored(path: pathlib.Path, *more: object) -> None:
            nonlocal found
            with contextlib.suppress(OSError, ValueError):
                found = float((path / "seconds").read_text())
            store(path, *more)  # type: ignore[arg-type]

        _ray._Keeper, _ray._store = Keeper, stored  # type: ignore[misc]
        before, start = cpu_seconds(), time.monotonic()
        gnomon.lab.run(cluster="ray", out="out", progress=False, checkpoint_seconds=0.1)
        passed = time.monotonic() - start
        _ray._store = store
        ray.shutdown()
        return cpu_seconds() - before, found, passed


def main() -> None:
    runs, checkpoints = (int(one) for one in [*sys.argv[1:], "500", "3"][:2])
    plain_driver, plain_keeper, passed = measured(runs, 0)
    driver, keeper, _ = measured(runs // 5, checkpoints)
    result = plain_driver / runs
    each = (keeper + driver - result * runs // 5) / (runs // 5 * checkpoints)
    print(f"{runs} runs without training: {passed:.0f} s")
    print(f"driver: {1000 * result:.1f} ms of CPU for each run")
    print(f"keeper: {1000 * plain_keeper / runs:.1f} ms for each run, "
          f"{1000 * each:.1f} ms for each checkpoint")
    workers, all_runs, seconds, interval = 1000, 10_000, 600.0, 60.0
    print(f"{all_runs} runs of {seconds:.0f} s on {workers} workers, "
          f"a checkpoint every {interval:.0f} s:")
    share = workers * ((result + plain_keeper / runs) / seconds + each / interval)
    traffic = workers * (CHECKPOINT / interval + RESULT / seconds)
    print(f"  {share:.2f} cores and {traffic / 1e6:.0f} MB/s at the driver")


if __name__ == "__main__":
    main()
