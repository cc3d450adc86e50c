"""Writes docs/book/data/lab.json and costs.json: measured results for the figures of the book.

    python3 apps/site/data.py            # reads the pages and results below, writes the two files
    python3 apps/site/data.py --check    # exit status 1 if a file differs from what would be written

Sources, all in this repository:

    docs/lab/expectations.md                  text by length (5 seeds), extensions, tasks with 3 seeds
    docs/lab/protocols/*.json                 seeds, steps and lengths of these sessions
    docs/lab/statistics.md                    the losses of single seeds
    docs/lab/tasks.md                         tasks with one seed
    docs/lab/finetune.md                      a trained model by context length
    docs/notebooks/results/results.json       text by length with intervals over three seeds
    docs/attention/costs.md                   time and memory beside plain attention

A page that no longer has the expected line or table stops the script with one sentence.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/book/data"
NAMES = {"ALiBi": "alibi", "FoX": "fox", "PaTH": "path", "Wall": "wall", "T5": "t5"}


def page(path):
    return (ROOT / path).read_text(encoding="utf-8")


def only(pattern, text, what):
    """Returns the groups of the only match of a pattern."""
    found = re.findall(pattern, text)
    if len(found) != 1:
        raise SystemExit(f"[data] {what} must be found once, got {len(found)} times")
    return found[0]


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(text, head, what):
    """Returns the rows of the Markdown table whose head line begins with a text."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(head)]
    if len(starts) != 1:
        raise SystemExit(f"[data] the table of {what} must be found once, got {len(starts)} times")
    rows = []
    for line in lines[starts[0] + 2:]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def protocol(name):
    return json.loads(page(f"docs/lab/protocols/{name}.json"))["settings"]


def text_by_length(expectations):
    """Perplexity per byte relative to the training length, from statements of expectations.md."""
    statements = {
        "none": "No position fails at long lengths, where ALiBi does not",
        "sinusoidal": "Sinusoidal fails at shorter lengths than rotary",
        "rotary": "Rotary gets worse, more than ALiBi",
        "alibi": "The loss of ALiBi stays constant",
        "t5": "T5 beyond its length",
        "kerple": "The loss of KERPLE stays constant",
        "fire": "FIRE holds to 2x",
    }
    settings = protocol("text")
    encodings = []
    for name, statement in statements.items():
        row = only(rf"(?m)^\| {re.escape(statement)} \|(.*)$", expectations, statement)
        measured, verdict = cells(row)[1:3]
        ratios = re.findall(r"(\d+)x (\d+\.\d+)", measured.split(";")[0])
        if [int(times) for times, _ in ratios] != [2, 4, 8, 16]:
            raise SystemExit(f"[data] {statement}: ratios at 2x, 4x, 8x, 16x are required")
        agree = re.search(r"\((\d) of \d seeds\)", verdict)
        encodings.append({"name": name, "times": [1, 2, 4, 8, 16],
                          "ratio": [1.0] + [float(ratio) for _, ratio in ratios],
                          "agree": int(agree[1]) if agree else None})
    return {"seeds": len(settings["seeds"]), "steps": settings["steps"],
            "train_length": settings["eval_lengths"][0], "encodings": encodings}


def statements(expectations):
    """How many published statements the lab reproduces."""
    reproduced, counted = only(r"(\d+) of (\d+) statements are reproduced", expectations,
                               "the number of reproduced statements")
    return {"reproduced": int(reproduced), "counted": int(counted)}


def interpolation(expectations):
    """Rotary at 4x after YaRN and linear interpolation, from the session `interpolation`."""
    settings = protocol("interpolation")
    methods = []
    for name in ("linear", "yarn"):
        row = only(rf"(?m)^\| `{name}` with a short fine-tune restores .*$", expectations, name)
        number = only(r"(\d+\.\d+) before, (\d+\.\d+) without, (\d+\.\d+) after 200 steps; "
                      r"without scaling (\d+\.\d+)", row, f"numbers of {name}")
        before, without, after, control = map(float, number)
        methods.append({"name": name, "before": before, "without": without, "after": after,
                        "control": control})
    return {"seeds": len(settings["seeds"]), "steps": settings["steps"], "times": 4,
            "methods": methods}


def single_seeds(statistics):
    """Losses of three seeds each, from the default session of statistics.md."""
    steps = int(only(r"Three seeds and (\d+) steps of the six default encodings gave, "
                     r"at 128 bytes", statistics, "the default session"))
    rows = table(statistics, "| | seeds 1 to 3 |", "single seeds")
    names = {"rotary": "rotary", "ALiBi": "alibi", "T5": "t5", "sinusoidal": "sinusoidal",
             "learned": "learned", "none": "none"}
    encodings = [{"name": names[row[0]], "bits": [float(x) for x in row[1].split(",")],
                  "fall": float(row[2]), "verdict": row[3].split(":")[0].split(" (")[0]}
                 for row in rows]
    return {"steps": steps, "length": 128, "encodings": encodings}


def notebook():
    """Text by length with 95 % intervals over seeds, from the results of the notebook."""
    results = json.loads(page("docs/notebooks/results/results.json"))
    settings = results["settings"]
    encodings = []
    for entry in results["encodings"]:
        rows = [{"length": row["length"], "bits": round(row["tail_bits"], 4),
                 "uncertainty": round(row["uncertainty"], 4)}
                for row in entry["lengths"] if row["applicable"]]
        encodings.append({"name": entry["name"], "training": entry["training"], "rows": rows})
    return {"seeds": len(settings["seeds"]), "steps": settings["steps"],
            "train_length": settings["train_length"], "encodings": encodings}


def scores(text):
    """Reads `alibi 99.2, rotary-axial@text 52.0`."""
    return {name: float(score) for name, score in re.findall(r"([\w@-]+) (\d+(?:\.\d+)?)", text)}


def one_seed_tasks(tasks):
    """The table of results of tasks.md: two ranges of lengths for each task and score."""
    found, name = [], None
    for row in table(tasks, "| command | seconds | length |", "tasks"):
        title, _, length, chance, none, best, others = row
        if title:
            name = title.replace("`", "").replace("gnomon lab --task ", "").split(":")[0]
            score = title.split(": ")[1] if ": " in title else ""
            if title == "classes (second score)":
                name, score = "graph", "classes"
            key = f"{name}-{score}" if score else name
            found.append({"name": key, "task": name, "seeds": 1, "ranges": []})
        values = {"none": float(none), **scores(best), **scores(others)}
        found[-1]["ranges"].append({"length": length, "chance": float(chance), "scores": [
            {"name": key, "value": value} for key, value in values.items()]})
    return found


def letter_tasks(expectations):
    """copy and addition at the training lengths, three seeds."""
    found = []
    for name in ("copy", "addition"):
        row = only(rf"(?m)^\| {name}: all encodings learn it at the training lengths .*$",
                   expectations, name)
        settings = protocol(name)
        unit = "letters" if name == "copy" else "digits"
        found.append({"name": name, "task": name, "seeds": len(settings["seeds"]), "ranges": [
            {"length": f"1 to {settings['train_length']} {unit}", "chance": 0.0, "scores": [
                {"name": key, "value": value} for key, value in scores(cells(row)[2]).items()]}]})
    return found


def flip_flop(expectations):
    """Right reads with 95 % intervals over three seeds: one layer, and two layers beyond training."""
    def rows(pieces):
        found = []
        for name, text in pieces:
            value, low, high = only(rf"{name} (\d+\.\d) \((\d+) to (\d+)\)", text, name)
            found.append({"name": NAMES.get(name, name), "value": float(value), "low": float(low),
                          "high": float(high)})
        return found

    def line(start):
        return cells(only(rf"(?m)^\| {start} .*$", expectations, start))[3]

    text = line("Rotary does not solve it with one layer").split("17 to 32")[0]
    pieces = [(name, text) for name in ("none", "rotary", "ALiBi")]
    for name, start in (("FoX", "FoX does not solve it"), ("PaTH", "PaTH solves flip-flop")):
        first = line(start).split(";")[0].replace("5 to 16:", f"{name}")
        pieces.append((name, first))
    longer = line("Encodings by tokens reach further").split("33 to 64: ")[1]
    names = ("none", "rotary", "ALiBi", "FoX", "PaTH", "Wall", "selective")
    return [
        {"name": "flipflop-1", "task": "flipflop", "seeds": 3, "ranges": [
            {"length": "5 to 16 instructions", "chance": 50.0, "scores": rows(pieces)}]},
        {"name": "flipflop-2", "task": "flipflop", "seeds": 3, "ranges": [
            None,
            {"length": "33 to 64 instructions", "chance": 50.0,
             "scores": rows([(name, longer) for name in names])}]}]


def finetune(text):
    rows = table(text, "| model | 64 | 128 | 256 |", "fine-tuning")
    return {"seeds": 1, "steps": 100, "lengths": [64, 128, 256], "models": [
        {"name": row[0].strip("`"), "bits": [float(x) for x in row[1:]]} for row in rows]}


def lab():
    expectations = page("docs/lab/expectations.md")
    tasks = (one_seed_tasks(page("docs/lab/tasks.md")) + letter_tasks(expectations)
             + flip_flop(expectations))
    return {"statements": statements(expectations), "text": text_by_length(expectations),
            "interpolation": interpolation(expectations), "notebook": notebook(),
            "single": single_seeds(page("docs/lab/statistics.md")),
            "tasks": tasks, "finetune": finetune(page("docs/lab/finetune.md"))}


def costs():
    text = page("docs/attention/costs.md")
    machine = only(r"Measured on ([^,]+), one round", text, "the machine of the costs")
    rows = table(text, "| encoding | forward, avx2 |", "costs")
    return {"machine": machine, "tokens": 4096, "heads": 2, "head_dim": 64, "encodings": [
        {"name": row[0].strip("`"),
         "forward": float(row[1]), "backward": float(row[2]),
         "forward_avx512": float(row[3]), "backward_avx512": float(row[4]),
         "forward_mb": float(row[5].split()[0]), "backward_mb": float(row[6].split()[0])}
        for row in rows]}


def written(value, indent=0):
    """JSON in which each object or list that fits into 150 columns is one line."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= 150 or not isinstance(value, (dict, list)):
        return line
    inner = "\n" + " " * (indent + 1)
    if isinstance(value, list):
        items = [written(item, indent + 1) for item in value]
        return "[" + inner + ("," + inner).join(items) + "]"
    items = [f"{json.dumps(key)}: {written(item, indent + 1)}" for key, item in value.items()]
    return "{" + inner + ("," + inner).join(items) + "}"


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit("usage: python3 apps/site/data.py [--check]")
    DATA.mkdir(exist_ok=True)
    stale = []
    for name, value in (("lab", lab()), ("costs", costs())):
        path, text = DATA / f"{name}.json", written(value) + "\n"
        if arguments and (not path.exists() or path.read_text(encoding="utf-8") != text):
            stale.append(path.name)
        if not arguments:
            path.write_text(text, encoding="utf-8")
    if stale:
        raise SystemExit(f"[data] {', '.join(stale)} must be written again: "
                         "python3 apps/site/data.py")


if __name__ == "__main__":
    main(sys.argv[1:])
