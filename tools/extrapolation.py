#!/usr/bin/env python3
"""Compares the shares of `gnomon check` beyond the training length with the losses of the lab.

    gnomon check --all --length 1024 --json > check.json
    tools/extrapolation.py check.json lab-report/results.json

Prints a line of CSV for each encoding of the lab, then Spearman's rank correlation of the share and the
increase of the loss from the shortest to the longest tested length. The correlation is over encodings
without trained parameters; for the others the share is that of random parameters.
"""
import json
import sys


def ranks(values):
    """Ranks from 0; equal values have their mean rank."""
    return [sum(other < v for other in values) + (sum(other == v for other in values) - 1) / 2 for v in values]


def spearman(pairs):
    x, y = (ranks(values) for values in zip(*pairs))
    mean = (len(pairs) - 1) / 2
    products = [sum((a - mean) * (b - mean) for a, b in zip(u, v)) for u, v in ((x, y), (x, x), (y, y))]
    return products[0] / (products[1] * products[2]) ** 0.5


def main(check_path, lab_path):
    with open(check_path) as file:
        checked = {one["kind"]: one for one in json.load(file)["encodings"]}
    with open(lab_path) as file:
        encodings = json.load(file)["encodings"]
    lengths = sorted({one["length"] for encoding in encodings for one in encoding["lengths"]})
    print("encoding,far,unseen,share,parameters," + ",".join(f"bits_{n}" for n in lengths) + ",increase")
    pairs = {"none": [], "random": []}
    for encoding in encodings:
        name = encoding["name"]
        if name not in checked:
            continue  # a mixture, or random positions
        bits = {one["length"]: one.get("tail_bits") for one in encoding["lengths"]}
        beyond, parameters = checked[name]["beyond"], "random" if checked[name]["random_table"] else "none"
        first, last = bits.get(lengths[0]), bits.get(lengths[-1])
        increase = last / first - 1 if first and last else None
        cells = [beyond["far"], beyond["unseen"], beyond["share"], parameters,
                 *(bits.get(n) for n in lengths), increase]
        print(",".join([name, *("" if c is None else f"{c:.3f}" if isinstance(c, float) else c for c in cells)]))
        if increase is not None and beyond["share"] is not None:
            pairs[parameters].append((beyond["share"], increase))
    for which, points in (("without parameters", pairs["none"]), ("all", pairs["none"] + pairs["random"])):
        if len(points) > 2:
            print(f"rank correlation, {which}: {spearman(points):.2f} of {len(points)} encodings")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
