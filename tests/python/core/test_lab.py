"""gnomon.lab: how the lab is found and started, and how its results are read.

A small script takes the place of gnomon-lab: `gnomon lab` starts the program of $GNOMON_LAB. The
tests of the notebooks start the real one.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import shutil
import signal
import sys
import threading
import time

import pytest

import gnomon.lab
from gnomon import _program

STORED = pathlib.Path(__file__).parents[3] / "docs" / "notebooks" / "results"

# Writes its arguments, copies the stored results into --out, prints as the lab does.
SCRIPT = f"""#!{sys.executable}
import json, pathlib, shutil, signal, sys, time
words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1]) if "--out" in words else pathlib.Path("report")
out.mkdir(parents=True, exist_ok=True)
texts = [pathlib.Path(one).read_text() for one in words[1:] if one.endswith(".txt")]
(out / "call.json").write_text(json.dumps(dict(words=words, texts=texts)))
print("Training on a text.", "Output folder: " + str(out), sep="\\n", flush=True)
if "--fail" in words:
    print("gnomon: [lab] first rule, got x", "gnomon: [lab] second rule, got y", sep="\\n",
          file=sys.stderr)
    sys.exit(2)
if "--crash" in words:
    sys.exit(9)
if "--wait" in words:
    def stop(*_):
        shutil.copytree({str(STORED)!r}, out, dirs_exist_ok=True)
        sys.exit(130)
    signal.signal(signal.SIGINT, stop)
    print("waiting", flush=True)
    (out / "ready").touch()
    time.sleep(60)
shutil.copytree({str(STORED)!r}, out, dirs_exist_ok=True)
print("rotary     50 %", "", "The answer", sep="\\n")
"""


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    path = tmp_path / "gnomon-lab"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    monkeypatch.setenv("GNOMON_LAB", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def words_of(results: gnomon.lab.LabResults) -> list[str]:
    return json.loads((results.path / "call.json").read_text())["words"]


def test_run_passes_options_and_reads_the_results(script: pathlib.Path,
                                                  tmp_path: pathlib.Path) -> None:
    results = gnomon.lab.run(["a.txt", tmp_path / "b.txt"] if (tmp_path / "a.txt").write_text("a")
                             and (tmp_path / "b.txt").write_text("b") else None,
                             encodings=["none", "rotary+alibi"], minutes=1.5, seeds=2, out="r",
                             eval_lengths=[64, 128], learning_rate=0.001, no_cost=True,
                             resume=False, task=None)
    assert words_of(results) == [
        "lab", "a.txt", str(tmp_path / "b.txt"), "--encodings", "none,rotary+alibi", "--minutes",
        "1.5", "--seeds", "2", "--out", "r", "--eval-lengths", "64,128", "--learning-rate",
        "0.001", "--no-cost"]
    assert results.path == pathlib.Path("r") and results.report == pathlib.Path("r/index.html")
    assert "\nAt the training length of 64 bytes, in bits per byte" in results.answer


def test_seeds_are_a_number_or_a_list(script: pathlib.Path) -> None:
    assert words_of(gnomon.lab.run(seeds=4, out="a"))[1:3] == ["--seeds", "4"]
    assert words_of(gnomon.lab.run(seeds=[4], out="b"))[1:3] == ["--seeds", "4,"]
    assert words_of(gnomon.lab.run(seeds=(1, 7), out="c"))[1:3] == ["--seeds", "1,7,"]


def test_run_passes_every_kind_of_option(script: pathlib.Path, tmp_path: pathlib.Path) -> None:
    results = gnomon.lab.run(finetune=tmp_path / "tiny", extend=("yarn", "ntk"), tokens="bpe:1000",
                             task="image-text", workers_per_run=2, steps=5, out="r")
    assert words_of(results) == [
        "lab", "--steps", "5", "--out", "r", "--finetune", str(tmp_path / "tiny"), "--extend",
        "yarn,ntk", "--tokens", "bpe:1000", "--task", "image-text", "--workers-per-run", "2"]


def test_a_cluster_requires_ray(script: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^\[lab\] cluster must be 'ray', got 'slurm'$"):
        gnomon.lab.run(cluster="slurm")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="requires the package ray: pip install ray"):
        gnomon.lab.run(cluster="ray")


def test_the_runs_of_a_cluster_are_a_table_or_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    training = {"event": "training", "run": "t5-seed1", "step": 7, "steps": 60, "bits": 2.5,
                "tokens_per_second": 900.4, "node": "n1"}

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((Terminal(), True), (io.StringIO(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        view = gnomon.lab._run._ray._View(3, 1, shown)
        view.show([training, training | {"run": "none-seed1", "bits": None}])
        view.ended("t5-seed1", "2.1 at 16")
        view.show([training, training | {"run": "none-seed1", "event": "testing"}])
        view.failed("none-seed1", "WorkerCrashedError")
        view.show([])
        view.close()
        text = stream.getvalue()
        if not shown:
            assert text == ""
            continue
        assert "t5-seed1  2.1 at 16\n" in text
        assert "none-seed1  failed: WorkerCrashedError\n" in text
        if stream.isatty():
            table = text.split("\x1b[3A\x1b[J")  # three lines up, and the rest erased
            first = table[0].splitlines()[0]
            assert first.split() == "none-seed1 step 7 of 60 diverged 900 tokens/s on n1".split()
            assert "1 of 3 runs finished, 2 in training, 1801 tokens/s\n" in table[0]
            # A late event of a run that has ended is not shown.
            assert "2 of 3 runs finished, 1 in training" in text
            assert text.endswith("\x1b[J")


def test_a_text_is_written_to_a_file(script: pathlib.Path) -> None:
    results = gnomon.lab.run("first line\nsecond line\n")
    assert results.path == pathlib.Path("report")
    call = json.loads((results.path / "call.json").read_text())
    assert call["texts"] == ["first line\nsecond line\n"]
    assert not os.path.exists(call["words"][1])  # removed afterwards


def test_errors(script: pathlib.Path) -> None:
    both = r"^\[lab\] first rule, got x\n\[lab\] second rule, got y$"
    with pytest.raises(ValueError, match=both):
        gnomon.lab.run(fail=True)
    with pytest.raises(RuntimeError, match=r"gnomon lab failed \(9\)"):
        gnomon.lab.run(crash=True)


def test_progress_is_one_line(script: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    gnomon.lab.run()
    shown = capfd.readouterr()
    assert shown.out == "" and "\n" not in shown.err
    assert "rotary     50 %" in shown.err and "The answer" not in shown.err
    gnomon.lab.run(progress=False)
    assert capfd.readouterr().err == ""


def is_default_handler() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def wait_for(file: pathlib.Path) -> None:
    """Waits for a file of the started program, and until interrupts are passed to it."""
    while not file.exists() or is_default_handler():
        time.sleep(0.001)


def test_an_interrupt_stops_the_lab(script: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def interrupt() -> None:
        wait_for(tmp_path / "r" / "ready")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    results = gnomon.lab.run(wait=True, out="r", progress=False)
    thread.join()
    assert results.rows()  # what the lab wrote when it was stopped


def test_interrupts_lose_no_line(tmp_path: pathlib.Path) -> None:
    begun, printed_all, stopped = (tmp_path / name for name in ("begun", "printed", "stopped"))
    code = f"""import pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path({str(begun)!r}).touch()
for i in range(30000): print(i, flush=True)
pathlib.Path({str(printed_all)!r}).touch()
for _ in range(2000):
    if pathlib.Path({str(stopped)!r}).exists(): break
    time.sleep(0.01)
"""

    def interrupt() -> None:
        wait_for(begun)
        while not printed_all.exists():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.0005)
        stopped.touch()

    threading.Thread(target=interrupt, daemon=True).start()
    status, printed = gnomon.lab._run._watch([sys.executable, "-c", code], os.environ, False)
    assert status == 0 and printed == [str(i) for i in range(30000)]
    assert stopped.exists() and is_default_handler()


def test_find(script: pathlib.Path, tmp_path: pathlib.Path,
              monkeypatch: pytest.MonkeyPatch) -> None:
    assert gnomon.lab.find() == str(script)
    monkeypatch.setenv("GNOMON_LAB", str(tmp_path / "no"))
    with pytest.raises(FileNotFoundError, match=r"GNOMON_LAB must be the path of a program, got"):
        gnomon.lab.find()
    monkeypatch.delenv("GNOMON_LAB")
    monkeypatch.setattr(_program, "path", lambda: str(tmp_path / "package" / "gnomon"))
    monkeypatch.setenv("PATH", str(tmp_path / "usr" / "bin"))
    with pytest.raises(FileNotFoundError, match=r"`make lab` or `make install`"):
        gnomon.lab.find()
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "libexec" / "gnomon").mkdir(parents=True)
    installed = tmp_path / "usr" / "libexec" / "gnomon" / "gnomon-lab"
    shutil.copy(script, installed)
    assert gnomon.lab.find() == str(installed)
    (tmp_path / "package").mkdir()
    shutil.copy(script, tmp_path / "package" / "gnomon-lab")
    assert gnomon.lab.find() == str(tmp_path / "package" / "gnomon-lab")


def test_rows_of_a_text() -> None:
    rows = gnomon.lab.load(STORED).rows()
    assert len(rows) == 18
    assert rows[0] == {
        "encoding": "rotary", "title": "Rotary (RoPE)", "seeds": 3, "position_parameters": 0,
        "length": 64, "context": "whole", "method": None, "bits": rows[0]["bits"],
        "uncertainty": 0.00605, "accuracy": rows[0]["accuracy"], "verdict": "best"}
    data = gnomon.lab.load(STORED).data
    means = {(one["name"], at["length"]): at["tail_bits"] for one in data["encodings"]
             for at in one["lengths"] if at["applicable"]}
    whole = {(row["encoding"], row["length"]): row["bits"] for row in rows
             if row["context"] == "whole"}
    assert whole == pytest.approx(means, rel=1e-5) and len(whole) == 10


def test_empty_fields_of_an_extension(tmp_path: pathlib.Path) -> None:
    shutil.copy(STORED / "results.json", tmp_path)
    (tmp_path / "results.csv").write_text(
        "encoding,title,seeds,position_parameters,length,context,method,bits,uncertainty,accuracy,"
        "verdict\nrotary,Rotary (RoPE),1,0,256,extended,yarn,2.5,,,described\n")
    (row,) = gnomon.lab.load(tmp_path).rows()
    assert row["method"] == "yarn" and row["bits"] == 2.5 and row["verdict"] == "described"
    assert row["uncertainty"] is None and row["accuracy"] is None


def test_rows_and_chart_of_examples(tmp_path: pathlib.Path) -> None:
    data = {"schema": 4, "answer": ["One.", "Two."], "settings": {"encodings": ["none"]},
            "length_unit": "words",
            "metric": {"name": "whole answers", "what": "the share", "chance": "0"}}
    (tmp_path / "results.json").write_text(json.dumps(data))
    (tmp_path / "results.csv").write_text(
        "encoding,title,seeds,position_parameters,from,to,examples,score,score_deviation,second,"
        "chance_score,chance_second\n"
        'none,"No position, none",1,0,1,5,480,0.5,0,0.75,7e-08,0.3\n'
        'none,"No position, none",1,0,6,10,480,0,0,0.25,7e-08,0.3\n')
    results = gnomon.lab.load(tmp_path)
    assert results.answer == "One.\nTwo."
    assert results.rows()[0]["title"] == "No position, none"
    assert [(row["to"], row["score"], row["chance_score"]) for row in results.rows()] == [
        (5, 0.5, 7e-8), (10, 0, 7e-8)]
    spec = results.plot().spec
    values = spec["data"]["values"]
    assert [(one["x"], one["y"]) for one in values] == [(5, 0.5), (10, 0)]
    assert "longest length of the range (words)" in json.dumps(spec)


def test_chart_of_a_fine_tune_has_lengths_in_tokens(tmp_path: pathlib.Path) -> None:
    data = {"schema": 4, "answer": [], "settings": {"encodings": ["released", "yarn@tuned"]},
            "length_unit": "tokens",
            "metric": {"name": "bits per byte", "what": "the loss", "chance": "4.4"}}
    (tmp_path / "results.json").write_text(json.dumps(data))
    (tmp_path / "results.csv").write_text(
        "encoding,title,seeds,position_parameters,length,context,method,bits,uncertainty,accuracy,"
        "verdict\nreleased,Released model,1,0,64,whole,,2.5,0.02,0.4,worse\n"
        "yarn@tuned,YaRN + fine-tune,1,0,64,whole,,2.25,0.02,0.5,best\n")
    results = gnomon.lab.load(tmp_path)
    assert results.rows()[1]["encoding"] == "yarn@tuned"
    spec = json.dumps(results.plot().spec)
    assert "context length (tokens)" in spec and "(bytes)" not in spec


def test_chart_and_display(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    results = gnomon.lab.load(STORED)
    values = results.plot().spec["data"]["values"]
    learned = [one["y"] for one in values if one["name"] == "Learned table"]
    assert learned[0] > 1 and learned[1:] == [None, None]  # the table ends
    bundle = results._repr_mimebundle_()
    assert bundle["text/plain"].startswith(results.answer)
    assert "18 rows" in bundle["text/html"] and "index.html" not in bundle["text/html"]
    (tmp_path / "index.html").touch()
    results.report = tmp_path / "index.html"
    assert str(results.report) in results._repr_mimebundle_()["text/html"]


def test_compare_returns_the_output_of_the_program(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gnomon-lab"
    program.write_text(f"""#!{sys.executable}
import json, sys
if sys.argv[3] == "bad":
    sys.exit("gnomon: [compare] both folders must have the same task, got text and copy")
print(json.dumps({{"words": sys.argv[1:], "differences": []}}))
""")
    program.chmod(0o755)
    monkeypatch.setenv("GNOMON_LAB", str(program))
    found = gnomon.lab.compare("a", tmp_path)
    assert found == {"words": ["compare", "a", str(tmp_path), "--json"], "differences": []}
    with pytest.raises(ValueError, match=r"^\[compare\] both folders must have the same task"):
        gnomon.lab.compare("a", "bad")


@pytest.mark.parametrize("content, message", [
    (None, "must have the results of a run"), ("{", "must have the results of a run"),
    ("[]", "must have the schema 4, got list"), ("{}", "must have the schema 4, got None"),
    ('{"schema": 3}', "must have the schema 4, got 3")])
def test_load_refuses(content: str | None, message: str, tmp_path: pathlib.Path) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        gnomon.lab.load(tmp_path)


KEPT = pathlib.Path(__file__).resolve().parents[2] / "kept"


@pytest.mark.parametrize("folder", sorted(one.parent for one in KEPT.glob("*/lab/*/results.json")),
                         ids=lambda one: str(one.relative_to(KEPT)))
def test_load_reads_what_each_version_wrote(folder: pathlib.Path) -> None:
    results = gnomon.lab.load(folder)
    rows, wanted = results.rows(), json.loads((folder / "results.json").read_text())
    assert {row["encoding"] for row in rows} == set(wanted["settings"]["encodings"])
    assert results.answer and results.table() and results.to_csv()


@pytest.mark.parametrize("schema", [2, 3])
def test_load_names_the_version_of_an_earlier_layout(schema: int, tmp_path: pathlib.Path) -> None:
    shutil.copy(KEPT / f"earlier/results-schema-{schema}.json", tmp_path / "results.json")
    with pytest.raises(ValueError, match=f"got {schema} of version 0.1.0"):
        gnomon.lab.load(tmp_path)
