"""docs/examples/cluster: the commands of the examples, with the variables of their engine."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
from typing import Any

import pytest
import yaml
from tiny_runs import ROOT, called, models, results, tiny

EXAMPLES = ROOT / "docs/examples/cluster"


@pytest.fixture
def folder(lab: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A working folder with the plan of two runs, `gnomon` in $PATH, and the results of one
    machine in `whole`."""
    program = tmp_path / "bin" / "gnomon"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(lab))} "$@"\n')
    program.chmod(0o755)
    settings = [*tiny(30), "--encodings", "none,t5", "--seeds", "1"]
    called(lab, *settings, "--out", "whole")
    pathlib.Path("plan.json").write_text(called(lab, *settings, "--list-runs"))
    return tmp_path


def environment(folder: pathlib.Path, **variables: str) -> dict[str, str]:
    return os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"} | variables


def expect_whole(lab: pathlib.Path) -> None:
    called(lab, "--merge", "runs", "--out", "report")
    found = results("report")
    assert len(found.pop("protocol")["sha256"]) == 64
    assert found == results("whole")
    assert models("report") == models("whole")


def test_slurm(lab: pathlib.Path, folder: pathlib.Path) -> None:
    script = (EXAMPLES / "slurm.sh").read_text().splitlines()
    options = [word for line in script if line.startswith("#SBATCH")
               for word in line.split()[1:]]
    assert options and all(word.startswith("--") for word in options)
    assert script[0] == "#!/bin/bash"
    for task in ("0", "1"):
        called("bash", EXAMPLES / "slurm.sh",
               env=environment(folder, SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_TASK_COUNT="2",
                               SLURM_JOB_ID="7", SLURM_NTASKS="1", SLURM_PROCID="0"))
    expect_whole(lab)


def test_kubernetes(lab: pathlib.Path, folder: pathlib.Path) -> None:
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["backoffLimitPerIndex"] >= 1
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # backoffLimitPerIndex requires it
    container, = pod["containers"]
    mount, = container["volumeMounts"]
    assert mount["name"] in [one["name"] for one in pod["volumes"]]
    for index in range(2):
        command = [one.replace(mount["mountPath"], str(folder)) for one in container["command"]]
        called(*command, env=environment(folder, JOB_COMPLETION_INDEX=str(index)))
    expect_whole(lab)


def test_gnu_parallel(lab: pathlib.Path, folder: pathlib.Path) -> None:
    called("sh", EXAMPLES / "parallel.sh", env=environment(folder, PARALLEL="--will-cite"))
    assert json.loads((folder / "plan.json").read_text())["runs"][1]["name"] == "t5-seed1"
    expect_whole(lab)
