"""The fields of each spec, from the Python package: choices, defaults and help, for the forms of the explorer."""

import ast
import pathlib
import re

SPECS = pathlib.Path(__file__).resolve().parents[2] / "bindings/python/gnomon/specs"


def _help(text):
    """The lines `name: help` of a docstring, with their continuations."""
    found, name = {}, None
    for line in (text or "").splitlines():
        start = re.match(r"([a-z_0-9]+): (.*)", line)
        if start:
            name = start[1]
            found[name] = start[2].replace("`", "")
        elif name and line.startswith("  "):
            found[name] += " " + line.strip().replace("`", "")
        else:
            name = None
    return found


def _choices(annotation):
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return [element.value for element in elements]
    return None


def _fields(class_node):
    help_of = _help(ast.get_docstring(class_node))
    fields = {}
    for node in class_node.body:
        if not isinstance(node, ast.AnnAssign):
            continue
        name = node.target.id
        field = {"type": ast.unparse(node.annotation), "help": help_of.get(name, "")}
        if choices := _choices(node.annotation):
            field["choices"] = choices
        if node.value is not None:
            try:
                field["default"] = ast.literal_eval(node.value)
            except ValueError:
                pass
        fields[name] = field
    return fields


def all_fields():
    """Returns {"encodings": {kind: fields}, "scalings": {type: fields}}."""
    result = {"encodings": {}, "scalings": {}}
    for path in sorted(SPECS.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            for name, group in (("kind", "encodings"), ("type", "scalings")):
                for line in node.body:
                    if isinstance(line, ast.Assign) and line.targets[0].id == name:
                        result[group][line.value.value] = _fields(node)
    return result
