"""Runs a case in a folder of its own, and judges what a failed or killed call left behind."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

TIMES = {
    "date",
    "command",
    "machine",
    "seconds",
    "train_seconds",
    "test_seconds",
    "tokens_per_second",
    "cost",
}
# Files of the lab that an unfinished run keeps, and pages that contain times.
PROGRESS = re.compile(
    r"(^|/)(checkpoints|\.lock|\.settings\.lock|cost\.json|settings\.json|sweep\.json)(/|$)"
)
TIMED = re.compile(r"\.(html|csv)$|(^|/)cost\.json$")
LIMIT = 1200  # seconds of a call, for one that hangs; a busy machine is slow


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key not in TIMES}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def shown(name, data, of_lab):
    """The part of a file that is the same in all undisturbed calls."""
    if of_lab and TIMED.search(name):
        return len(data) > 0
    if of_lab and name.endswith(".json"):
        try:
            return timeless(json.loads(data))
        except ValueError:
            return data
    return data


def tree(folder, of_lab=False):
    """All files and folders below a folder: None for a folder, otherwise the content."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = None if path.is_dir() else shown(name, path.read_bytes(), of_lab)
    return found


@dataclasses.dataclass
class Outcome:
    code: int
    output: bytes
    errors: str


class Workplace:
    """Makes folders with the inputs of cases, below `base`."""

    def __init__(self, programs, base, needs):
        self.programs = programs
        self.base = pathlib.Path(base).resolve()
        inputs = self.base / "inputs"
        inputs.mkdir()
        self.inputs = programs.put_inputs(inputs, needs)

    def fill(self, folder, one):
        """The inputs of a case, and earlier outputs."""
        for name in one.needs:
            source = self.inputs / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)
        for name in one.outputs if one.earlier else ():
            if "." not in name:
                (folder / name).mkdir()
            (folder / name if "." in name else folder / name / "earlier").write_bytes(
                b"earlier" * 100
            )
        (folder / "temporary").mkdir()

    def folder(self, one):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.base, prefix="root-"))
        self.fill(folder, one)
        return folder

    def environment(self, folder):
        setup = os.environ | {
            "TMPDIR": str(folder / "temporary"),
            "OMP_NUM_THREADS": "1",
            "GNOMON_LAB": self.programs.lab,
            "HOME": str(folder / "home"),
        }
        return {name: value for name, value in setup.items() if not name.startswith("GNOMON_FAULT")}

    def run(self, one, folder, variables=None, again=False, **options):
        done = subprocess.run(
            self.programs.words(one, again),
            cwd=folder,
            timeout=LIMIT,
            check=False,
            env=self.environment(folder) | (variables or {}),
            stdin=subprocess.DEVNULL,
            **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),
        )
        return Outcome(
            done.returncode, done.stdout or b"", (done.stderr or b"").decode(errors="replace")
        )


class Reference:
    """The undisturbed call of a case: its files before and after, and its output."""

    def __init__(self, place, one):
        folder = place.folder(one)
        self.before = tree(folder, one.is_lab)
        self.outcome = place.run(one, folder)
        self.after = tree(folder, one.is_lab)
        shutil.rmtree(folder)
        if self.outcome.code != 0:
            raise RuntimeError(f"{one.name}: {self.outcome.errors}")


def is_progress(one, name):
    return one.progress and any(name == top or name.startswith(top + "/") for top in one.outputs)


def lost(one, before, after, reference):
    """Earlier files that are neither unchanged nor completely replaced."""
    for name, data in before.items():
        if name in after and (after[name] == data or after[name] == reference.get(name, data)):
            continue
        if name not in after and (name not in reference or is_progress(one, name)):
            continue  # a checkpoint of a run that is finished now
        if not (is_progress(one, name) and PROGRESS.search(name)):
            yield f"lost or changed: {name}"


def partial(one, before, after, reference):
    """New files that are not those of the undisturbed call."""
    for name, data in after.items():
        if name in before or (name in reference and data == reference[name]):
            continue
        if is_progress(one, name) and PROGRESS.search(name):
            continue
        yield name


def is_hidden(name):
    return any(part.startswith(".gnomon-") for part in name.split("/"))


def judge_error(one, outcome, reason):
    """An error is one line that names a file and the reason of the system."""
    lines = [line for line in outcome.errors.splitlines() if line.startswith("gnomon: ")]
    if outcome.code != 2:
        code = outcome.code
        yield f"exit status {signal.Signals(-code).name if code < 0 else code}"
    if (
        len(lines) != 1
        or not lines[0].startswith("gnomon: [")
        and not re.match(r"gnomon: .*, got ", lines[0])
    ):
        yield f"{len(lines)} lines of errors"
    elif "unexpected error" in lines[0]:
        yield "an error that nothing expects"
    elif reason and reason not in lines[0]:
        yield f"the reason is not {reason!r}"
    elif reason and not any(
        name in lines[0]
        for name in (*one.needs, *one.outputs, "/root-", "temporary", "standard output", "process",
                     "thread")
    ):
        yield "no file is named"


def judge(one, place, folder, reference, outcome, reason, killed=False, must_succeed=False):
    """All defects after a disturbed call. Then calls again without disturbance."""
    after = tree(folder, one.is_lab)
    defects = []
    if outcome.code == 0 and not killed:
        if after != reference.after:
            names = [
                name
                for name in after | reference.after
                if after.get(name, 0) != reference.after.get(name, 0)
            ]
            defects.append(f"success, but other files: {names}")
        if one.stable and outcome.output != reference.outcome.output:
            defects.append("success, but another output")
    elif not killed:
        defects += judge_error(one, outcome, reason)
        if must_succeed:
            defects.append("an error that the program must overcome")
    if killed or outcome.code != 0:
        defects += lost(one, reference.before, after, reference.after)
        defects += [
            f"left behind: {name}"
            for name in partial(one, reference.before, after, reference.after)
            if not (killed and is_hidden(name))
        ]
        if after != reference.after:
            later = place.run(one, folder, again=True)
            now = tree(folder, one.is_lab)
            if later.code != 0:
                defects.append(f"the later call fails: {later.errors.strip()}")
            elif now != reference.after:
                names = [
                    name
                    for name in now | reference.after
                    if now.get(name, 0) != reference.after.get(name, 0)
                ]
                defects.append(f"the later call gives other files: {names}")
    return defects
