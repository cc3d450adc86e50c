"""Compares results of the lab with published results: the table of docs/lab/expectations.md.

    python3 tools/expectations.py OUT    # the output folder of tools/expectations.sh
"""

import json
import pathlib
import sys

TASKS = ["copy", "reverse", "addition", "recall"]


def read(path):
    return json.loads(path.read_text()) if path.exists() else None


def encoding(results, name):
    return next((e for e in results["encodings"] if e["name"] == name), None)


def runs(results, name):
    return [r for r in results["runs"] if r["encoding"] == name]


def bits(one, times, key="tail_bits"):
    """Returns the bits per byte at a multiple of the training length, or None."""
    first = one["lengths"][0]["length"]
    for at in one["lengths"]:
        if at["length"] == times * first and at["applicable"]:
            return at[key]
    return None


def ratio(one, times, key="tail_bits"):
    """Returns the perplexity per byte, divided by that at the training length."""
    there, here = bits(one, times, key), bits(one, 1, key)
    return None if there is None else 2 ** (there - here)


def shown(values):
    return ", ".join("%s %.3f" % (label, value) for label, value in values)


def verdict(holds):
    return "yes" if holds else "no"


def text_facts(results):
    get = lambda name: encoding(results, name)
    multiples = [2, 4, 8, 16]
    rows = []

    def add(fact, published, measured, holds):
        rows.append((fact, published, measured, holds))

    def ratios(name):
        return [("%dx" % t, ratio(get(name), t)) for t in multiples if ratio(get(name), t)]

    alibi, rotary, learned, none = get("alibi"), get("rotary"), get("learned"), get("none")
    sinusoidal, kerple, fire, t5 = get("sinusoidal"), get("kerple"), get("fire"), get("t5")
    add("The loss of ALiBi stays constant", "0.93 to 0.97 at 15x to 32x", shown(ratios("alibi")),
        verdict(all(v <= 1.05 for _, v in ratios("alibi"))))
    seeds = zip(runs(results, "rotary"), runs(results, "alibi"))
    worse = all(ratio(r, 16) > ratio(a, 16) for r, a in seeds) if ratio(rotary, 16) else False
    add("Rotary gets worse, more than ALiBi in every seed", "1.06 to 2.3 at 2x, 2.3 to 11 at 16x to 32x",
        shown(ratios("rotary")),
        verdict(worse and ratio(rotary, 4) >= 1.15 and ratio(rotary, 16) >= 1.5))
    add("Sinusoidal fails at shorter lengths than rotary", "2.2 to 23 at 2x",
        shown(ratios("sinusoidal")) + "; 0.1 bits above the cut context from %s on, rotary from %s on"
        % (times_text(cliff(results, "sinusoidal")), times_text(cliff(results, "rotary"))),
        verdict(ratio(sinusoidal, 2) >= 1.5 and ratio(sinusoidal, 2) > ratio(rotary, 2)))
    add("A learned table has no positions beyond its length", "no position",
        "n/a from 2x on" if bits(learned, 2) is None else "has one",
        verdict(bits(learned, 2) is None))
    if kerple:
        add("The loss of KERPLE stays constant", "0.90 to 0.95 at 8x and 32x; 1.2 in one paper",
            shown(ratios("kerple")), verdict(ratio(kerple, 8) <= 1.15))
    if fire:
        add("FIRE holds to 2x", "0.99 to 1.15 at 2x, 1.3 at 4x", shown(ratios("fire")),
            verdict(ratio(fire, 2) <= 1.2))
    add("T5 beyond its length", "papers disagree: 0.92 to 2.2 at 2x", shown(ratios("t5")), "-")
    near = 2 ** (bits(none, 1) - bits(learned, 1))
    add("No position is nearly as good at the training length", "0.4 % to 4 % worse than learned",
        "%.3f of learned's perplexity" % near, verdict(near <= 1.08))
    add("No position fails at long lengths, where ALiBi does not", "16x and more from 1.8x on",
        shown(ratios("none")), verdict(ratio(none, 8) > ratio(alibi, 8)))
    relative = 2 ** (bits(alibi, 1) - bits(learned, 1))
    add("ALiBi at least as good as learned at the training length", "0.90 of its perplexity",
        "%.3f" % relative, verdict(relative <= 1.02))
    ends = [bits(alibi, t, "window_bits") for t in [1] + multiples]
    add("The loss in adjacent windows decreases with the length, the loss in the second half of windows does not",
        "28.5 to 21.7 in perplexity; constant", "ALiBi " + " ".join("%.3f" % e for e in ends),
        verdict(ends[-1] < ends[0] and abs(ratio(alibi, 16) - 1) <= 0.05))
    place = cliff(results, "rotary")
    add("The loss of rotary rises between the training length and twice the training length", "from 1.2x to 1.6x",
        "0.1 bits above the cut context from %s on" % times_text(place),
        verdict(place is not None and 1 < place <= 2))
    rows += extension_facts(results)
    spread = sorted(bits(e, 1) for e in results["encodings"])
    add("Encodings differ little at the training length", "19.7 to 21.0 in perplexity",
        "%.3f to %.3f bits" % (spread[0], spread[-1]), verdict(spread[-1] - spread[0] < 0.35))
    return rows


def cliff(results, name):
    """Returns the first context, in training lengths, at which the loss of the first seed is 0.1 bits
    above the loss with the cut context, or None. Contexts below half of a training length are
    shorter than the cut context."""
    first = results["settings"]["train_length"]
    run = runs(results, name)[0]
    cut = bits(run, 1)  # the cut context is the context at the training length
    for place, whole in zip(run["by_position"]["positions"], run["by_position"]["bits"]):
        if place > first / 2 and whole is not None and whole > cut + 0.1:
            return place / first
    return None


def times_text(place):
    return "no length" if place is None else "%.1fx" % place


def extension_facts(results):
    rows = []
    for one in results["extensions"]:
        at = one["lengths"].index(one["factor"] * one["lengths"][0])
        found = {(r["method"], r["stage"]): r["bits"] for r in one["rows"]}
        before = found["none", "before"]
        over = lambda key: 2 ** (found[key][at] - before[0])
        for method in ["linear", "yarn"]:
            if (method, "after") in found:
                rows.append(("`%s` with a short fine-tune restores the loss at %dx" % (method, one["factor"]),
                             "16.1 to 7.1 in perplexity in 200 steps (2.3x)",
                             "%.3f before, %.3f without, %.3f after %d steps; without scaling %.3f"
                             % (2 ** (before[at] - before[0]), over((method, "without")),
                                over((method, "after")), one["steps"], over(("control", "after"))),
                             verdict(over((method, "after")) <= 1.1 and
                                     over((method, "after")) < over(("control", "after")))))
        if ("linear", "without") in found:
            rose = 2 ** (found["linear", "without"][0] - before[0])
            rows.append(("Interpolation without a fine-tune increases the loss at the training length",
                         "7.2 to 16.1", "%.3f" % rose, verdict(rose > 1.02)))
        if ("drope", "after") in found:
            flat = 2 ** (found["drope", "after"][at] - found["drope", "after"][0])
            rows.append(("A model whose positions were dropped, then fine-tuned, holds at longer lengths",
                         "best of its table at 2x",
                         "%.3f at %dx relative to its own 1x, which is %.3f times that of rotary"
                         % (flat, one["factor"], 2 ** (found["drope", "after"][0] - before[0])),
                         verdict(flat <= 1.1)))
    return rows


def masked_facts(results):
    plain = bits(encoding(results, "none"), 1)
    best = min(bits(e, 1) for e in results["encodings"] if e["name"] != "none")
    chance = results["texts"]["byte_frequency_bits"]
    return [("Masked text without position fails", "147 against 4.1 in perplexity",
             "%.2f bits, the best with position %.2f, byte frequencies %.2f" % (plain, best, chance),
             verdict(plain - best >= 0.3 * 1.4427))]


def is_learned(results):
    """Whether an encoding answers the task at the training lengths. Otherwise lengths beyond show nothing."""
    return max(e["ranges"][0]["score"] for e in results["encodings"]) >= 0.95


def task_facts(found):
    rows = []
    for task, results in found.items():
        inside = {e["name"]: e["ranges"][0]["score"] for e in results["encodings"]
                  if "@" not in e["name"]}
        rows.append(("%s: all encodings learn it at the training lengths" % task, "about 100 %",
                     shown([(n, 100 * v) for n, v in inside.items()]),
                     verdict(min(inside.values()) >= 0.95)))
    unlearned = [task for task, results in found.items() if not is_learned(results)]
    found = {task: results for task, results in found.items() if task not in unlearned}
    for task in unlearned:
        rows.append(("%s beyond the training lengths" % task, "as for the other tasks",
                     "no encoding learns it at the training lengths", "-"))
    if not found:
        return rows
    beyond = {}
    for results in found.values():
        for one in results["encodings"]:
            there = one["ranges"][1]
            beyond.setdefault(one["name"], []).append(there["second"] if there["applicable"] else 0)
    mean = {name: sum(v) / len(v) for name, v in beyond.items()}
    order = sorted((n for n in mean if "@" not in n), key=lambda n: -mean[n])
    rows.append(("At twice the length no position, T5 and ALiBi are best, then rotary, then absolute encodings",
                 "mean reciprocal rank 0.69, 0.55, 0.50, 0.33, 0.22",
                 "right bytes, mean over " + " and ".join(found) + ": " + shown([(n, 100 * mean[n]) for n in order]),
                 verdict(min(mean[n] for n in ["none", "t5", "alibi"]) >= mean["rotary"] >=
                         max(mean[n] for n in ["sinusoidal", "learned"] if n in mean))))
    if "addition" in found:
        place = list(found).index("addition")
        digits = {name: values[place] for name, values in beyond.items() if "@" not in name}
        rows.append(("addition: no position is better than absolute encodings and rotary at twice the length",
                     "best of its figure 3", "right bytes: " + shown([(n, 100 * v) for n, v in digits.items()]),
                     verdict(digits["none"] >= max(digits["sinusoidal"], digits["rotary"]))))
    for name in ["sinusoidal", "rotary"]:
        if name + "@random" in beyond:
            gains = [b - a for a, b in zip(beyond[name], beyond[name + "@random"])]
            rows.append(("Random positions in training help %s at twice the length" % name,
                         "12 points, mean of 15 tasks",
                         shown([(t, 100 * g) for t, g in zip(found, gains)]) + " points of right bytes",
                         verdict(max(gains) > 0.01)))
    return rows


def shuffle_facts(shuffled):
    """shuffled: the output of `gnomon evaluate none-seed1 --shuffle N --json`, by N."""
    at = {kept: found["shuffled"][0] for kept, found in shuffled.items()}
    text = ["%.2f bits in order" % at[0]["bits"]]
    for kept, one in sorted(at.items()):
        text.append("%.2f ± %.2f more with %s in random order" % (
            one["shuffled_bits"] - one["bits"], one["margin"],
            {0: "all bytes", 1: "all bytes but the last"}[kept]))
    return [("Permuted tokens harm a causal model without position",
             "a large rise (figure 5)",
             ", ".join(text),
             verdict(all(one["shuffled_bits"] - one["bits"] > one["margin"] for one in at.values())))]


def main():
    out = pathlib.Path(sys.argv[1])
    rows = []
    if (results := read(out / "text/results.json")) is not None:
        rows += text_facts(results)
    shuffled = {kept: r for kept in [0, 1] if (r := read(out / ("shuffle-%d.json" % kept))) is not None}
    if shuffled:
        rows += shuffle_facts(shuffled)
    if (results := read(out / "masked/results.json")) is not None:
        rows += masked_facts(results)
    found = {t: r for t in TASKS if (r := read(out / t / "results.json")) is not None}
    if found:
        rows += task_facts(found)
    print("| published statement | published numbers | lab | reproduced |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    verdicts = [row[-1] for row in rows if row[-1] != "-"]
    print("\n%d of %d statements are reproduced." % (verdicts.count("yes"), len(verdicts)))


if __name__ == "__main__":
    main()
