"""Writes bindings/python/gnomon/specs/*.py: a dataclass for each encoding of the library.

    PYTHONPATH=bindings/python python tools/python/write_specs.py [--check]

Names, types and defaults come from the library, which completes the JSON of a spec and names the
known keys in its errors. Descriptions of fields come from the headers. `--check` compares the file
and changes nothing.
"""

import importlib.util
import json
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "bindings/python/gnomon/specs"

HEADERS = {p: p.read_text() for p in sorted((ROOT / "include/gnomon").rglob("*.h"))}
MODULES = {
    "embedding": "Specs of encodings that add a table to the embeddings, and of no position.",
    "rotary": "Specs of rotations of queries and keys.",
    "scaling": "Scalings of rotary: context extensions.",
    "bias": "Specs of biases on the scores.",
    "relative": "Specs of vectors by distance on queries, keys and weights.",
    "attention": "Specs of weights that are not those of a softmax.",
}
SCALINGS = {
    "none": "NoScaling", "linear": "LinearScaling", "ntk": "NtkScaling",
    "dynamic": "DynamicNtkScaling", "yarn": "YarnScaling", "longrope": "LongRopeScaling",
    "llama3": "Llama3Scaling", "proportional": "ProportionalScaling",
    "factors": "FrequencyFactors", "clipped": "ClippedScaling",
}
SCALING_FIELDS = {
    "none": [], "linear": ["factor"], "ntk": ["factor"], "dynamic": ["factor", "trained_length"],
    "yarn": ["factor", "original_length", "beta_fast", "beta_slow", "ramp", "attention_factor",
             "mscale", "mscale_all_dim", "softmax_mscale"],
    "longrope": ["factor", "original_length", "attention_factor", "long_attention_factor",
                 "short_factors", "long_factors"],
    "llama3": ["factor", "low_freq_factor", "high_freq_factor", "original_length"],
    "proportional": ["rotated_pairs", "factor"], "factors": ["factors"],
    "clipped": ["original_length", "clipped_pairs"],
}
# Fields that only some settings of a spec require.
OPTIONAL = {("fourier", "resolution"), ("fourier", "length"), ("cross-modal", "types")}
# Fields whose elements or members are values of their own.
NESTED = {
    ("rotary-axial", "parts"): "tuple[AxialPart, ...]",
    ("sinusoidal-grid", "axes"): "tuple[GridAxis, ...]",
    ("cross-modal", "text"): "Sinusoidal",
    ("cross-modal", "patches"): "SinusoidalGrid",
    ("rotary-scaled", "scaling"): "Scaling",
}
FLOATS = {"inv_freq", "resolution", "short_factors", "long_factors", "factors"}
# Structs in which a field of the JSON is declared, if not in the spec's own.
BORROWED = {"ScaledRotary": "Rotary", "XPos": "Rotary", "WavLm": "T5Bias", "MRope": "Rotary",
            "AxialRotary": "Rotary"}


def error(core, spec):
    try:
        core.complete(json.dumps(spec))
    except ValueError as refused:
        return str(refused)
    return ""


def struct_of(name):
    """Returns the comment and the body of a struct."""
    for text in HEADERS.values():
        found = re.search(rf"((?://[^\n]*\n)*)struct {name} {{\n(.*?)\n}};", text, re.S)
        if found:
            comment = re.sub(r"^// ?", "", found[1], flags=re.M)
            return comment.strip(), found[2]
    raise SystemExit(f"no struct {name}")


def field_comment(name, member):
    """Returns the comment of a member: at the end of its line, or in the lines before it."""
    lines = struct_of(name)[1].split("\n")
    for i, line in enumerate(lines):
        declared, _, comment = line.partition("//")
        if not re.search(rf"\b{member}\b(?=\s*(=|;|,|{{))", declared):
            continue
        parts = [comment.strip()]
        if not comment:
            before = i - 1
            while before >= 0 and lines[before].strip().startswith("//"):
                parts.insert(0, lines[before].strip()[2:].strip())
                before -= 1
        else:  # the comment goes on in the next lines
            for after in lines[i + 1:]:
                if not after.strip().startswith("//") or after.index("//") < len(declared) - 4:
                    break
                parts.append(after.strip()[2:].strip())
        return " ".join(part for part in parts if part)
    if name in BORROWED:
        return field_comment(BORROWED[name], member)
    return ""


def refused_at_zero(core, kind, name):
    """Whether the usual spec of the kind cannot be lowered with 0 or an empty list here."""
    import numpy

    spec = json.loads(core.usual(kind, 64, 4, 16, "causal"))
    spec[name] = [] if isinstance(spec.get(name), list) else 0

    def lowers(one):
        text = json.dumps(one)
        try:
            values = [numpy.zeros(p[1:3], "f4") for p in core.parameters(text)]
            core.lower(text, 4, parameters=values, visibility="bidirectional")
            return True
        except ValueError:
            return False

    return not lowers(spec)


def python_type(kind, name, default, refusal):
    if (kind, name) in NESTED:
        return NESTED[kind, name]
    if "one of" in refusal:
        choices = refusal.split("one of ")[1].split(", got")[0].split(", ")
        return "Literal[" + ", ".join(f'"{one}"' for one in choices) + "]"
    if "a list" in refusal:
        return "tuple[float, ...]" if name in FLOATS else "tuple[int, ...]"
    return "int" if "integer" in refusal else "float"


def literal(value):
    if isinstance(value, list):
        return "()"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def class_text(name, base, header, fields, sentence, source, attribute):
    lines = ["@dataclass(frozen=True, kw_only=True, repr=False, eq=False)", f"class {name}({base}):"]
    doc = [sentence]
    if source:
        doc += ["", f"Source: {source}"]
    notes = [(field, field_comment(header, field)) for field, _, _ in fields]
    notes = [(field, note) for field, note in notes if note]
    if notes:
        doc.append("")
        for field, note in notes:
            if note[:2].istitle() and note[1:2].islower():
                note = note[0].lower() + note[1:]
            doc += textwrap.wrap(f"{field}: {note}", 88, subsequent_indent="    ")
    if len(doc) == 1:
        lines.append(f'    """{doc[0]}"""')
    else:
        lines.append(f'    """{doc[0]}')
        lines += [f"    {line}".rstrip() for line in doc[1:]]
        lines.append('    """')
    lines.append("")
    if attribute:
        lines.append(f"    {attribute}")
    for field, kind, default in fields:
        lines.append(f"    {field}: {kind}" + (f" = {default}" if default is not None else ""))
    return "\n".join(lines).rstrip()


def fields_of(core, kind):
    keys = error(core, {"kind": kind, "?": 0}).split("keys must be of kind")[1]
    keys = [key for key in keys.split(", got {")[0].strip(", ").split(", ") if key]
    known = json.loads(core.complete(json.dumps({"kind": kind})))
    fields = []
    for key in keys:
        refusal = error(core, {"kind": kind, key: "?"}) or "a string"
        default = known.get(key)
        kind_of = python_type(kind, key, default, refusal)
        if (kind, key) in NESTED:
            text = "NoScaling()" if key == "scaling" else None
        elif default is None:
            text = None if "Literal" in kind_of else "None"
            kind_of = kind_of if text is None else f"{kind_of} | None"
        elif (default in (0, []) and (kind, key) not in OPTIONAL
              and refused_at_zero(core, kind, key)):
            text = None
        else:
            text = literal(default)
        fields.append((key, kind_of, text))
    return fields


def encodings_of(core):
    """Returns the kind, the name and the module of each alternative of model::Encoding."""
    kinds = error(core, {"kind": "?"}).split("one of ")[1].split(", got")[0].split(", ")
    variant = re.search(r"using Encoding =\s*std::variant<(.*?)>;",
                        (ROOT / "include/gnomon/model/encoding.h").read_text(), re.S)[1]
    names = [name.strip() for name in variant.split(",")]
    assert len(names) == len(kinds), (names, kinds)
    for kind, name in zip(kinds, names):
        module = next((path.parent.name for path, text in HEADERS.items()
                     if re.search(rf"^struct {name} {{", text, re.M)), "")
        yield kind, name, module if module in MODULES else "embedding"


def scaling_class(core, kind, name):
    known = json.loads(core.complete(json.dumps(
        {"kind": "rotary-scaled", "scaling": {"type": kind}})))["scaling"]
    assert set(known) - {"type"} <= set(SCALING_FIELDS[kind]), known
    fields = []
    for field in SCALING_FIELDS[kind]:
        default = known.get(field)
        if default is None:
            whole = any(f"std::optional<std::int64_t> {field} " in text
                        for text in HEADERS.values())
            fields.append((field, "int | None" if whole else "float | None", "None"))
        elif isinstance(default, list):
            fields.append((field, "tuple[float, ...]", None))
        elif isinstance(default, str):
            fields.append((field, 'Literal["whole_pairs", "fractional"]', literal(default)))
        else:
            required = default == 0 and "mscale" not in field
            fields.append((field, type(default).__name__, None if required else repr(default)))
    sentence = textwrap.fill(" ".join(struct_of(name)[0].split()), 88, subsequent_indent="    ")
    return class_text(name, "Scaling", name, fields, sentence, "", f'type = "{kind}"')


def encoding_class(core, kind, name):
    info = core.find_encoding(kind)
    sentence = textwrap.fill(f"{info['title']}: {info['summary']}.", 88, subsequent_indent="    ")
    source = info["source"] + "." if info["source"] else ""
    return class_text(name, "Encoding", name, fields_of(core, kind), sentence, source,
                      f'kind = "{kind}"')


def names_in(body):
    return sorted(re.findall(r"^class (\w+)", body, re.M))


def write(core):
    """Returns the text of each file by its name."""
    classes = {module: [] for module in MODULES}
    classes["scaling"] += [scaling_class(core, *one) for one in SCALINGS.items()]
    classes["rotary"].append(class_text(
        "AxialPart", "Value", "AxialPart",
        [("axis", "int", "0"), ("rotary_dim", "int", None),
         ("inv_freq", "tuple[float, ...]", "()")],
        "A run of pairs that rotate by one position axis.", "", ""))
    for kind, name, module in encodings_of(core):
        classes[module].append(encoding_class(core, kind, name))
        if name == "Sinusoidal":
            classes[module].append(class_text(
                "GridAxis", "Value", "GridAxis",
                [("column", "int", None), ("sinusoidal", "Sinusoidal", None)],
                "One axis of sinusoids of a grid.", "", ""))
    texts = {}
    for module, all_of_module in classes.items():
        body = "\n\n\n".join(all_of_module)
        bases = [base for base in ("Encoding", "Scaling", "Value")
                 if re.search(rf"\({base}\)|: {base}\b", body)]
        others = [name for name in SCALINGS.values()
                  if f" = {name}()" in body and name not in names_in(body)]
        typing = ["from typing import Literal", ""] if "Literal[" in body else [""]
        texts[f"{module}.py"] = "\n".join([
            f'"""{MODULES[module]}', "",
            "Written by tools/python/write_specs.py from the library; do not edit.",
            '"""', "", "from __future__ import annotations", "",
            "from dataclasses import dataclass", *typing,
            f"from .._spec import {', '.join(bases)}",
            *([f"from .scaling import {', '.join(others)}"] if others else []), "",
            "__all__ = [", *[f'    "{name}",' for name in names_in(body)], "]", "", "", body, ""])
    return texts


def extension_module():
    """Imports gnomon._core without the package, whose specs may be missing."""
    package = importlib.util.find_spec("gnomon").submodule_search_locations[0]
    file = next(pathlib.Path(package).glob("_core.*so"))
    spec = importlib.util.spec_from_file_location("gnomon._core", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    for name, text in write(extension_module()).items():
        file = TARGET / name
        if "--check" not in sys.argv:
            file.write_text(text)
        elif file.read_text() != text:
            raise SystemExit(f"{file.relative_to(ROOT)} is not what {sys.argv[0]} writes")


if __name__ == "__main__":
    main()
