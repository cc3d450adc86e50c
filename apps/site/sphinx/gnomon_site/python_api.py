"""The pages of the Python package, from its source and its stubs. Nothing is imported, so that the
extension module need not be built."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from .comments import inline, to_rst
from .headers import heading
from .tree import Entry, Tree

# Pages: name, title of the sidebar. The specs are attributes of gnomon.
MODULES = {
    "gnomon": "gnomon",
    "gnomon.specs.embedding": "Specs: embeddings",
    "gnomon.specs.rotary": "Specs: rotary",
    "gnomon.specs.scaling": "Specs: scalings",
    "gnomon.specs.bias": "Specs: biases",
    "gnomon.specs.relative": "Specs: relative vectors",
    "gnomon.specs.attention": "Specs: attention",
    "gnomon.model": "gnomon.model",
    "gnomon.torch": "gnomon.torch",
    "gnomon.torch.flex": "gnomon.torch.flex",
    "gnomon.jax": "gnomon.jax",
    "gnomon.plot": "gnomon.plot",
    "gnomon.lab": "gnomon.lab",
}
GUIDES = {
    "gnomon": "python/package", "gnomon.model": "model/layer", "gnomon.torch": "python/torch",
    "gnomon.torch.flex": "python/flex", "gnomon.jax": "python/jax", "gnomon.plot": "python/plot",
    "gnomon.lab": "python/lab",
}  # fmt: skip


@dataclass
class Source:
    """A module: its file, its names, and the modules that they come from."""

    path: Path
    tree: ast.Module

    @property
    def docstring(self) -> str:
        text = ast.get_docstring(self.tree) or ""
        return re.sub(r"\n\nWritten by tools/[^\n]*", "", text)  # for those who edit the file


class Package:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache: dict[str, Source] = {}

    def source(self, module: str) -> Source:
        if module not in self.cache:
            base = self.folder.joinpath(*module.split(".")[1:])
            candidates = [base / "__init__.py", base.with_suffix(".py"), base.with_suffix(".pyi")]
            path = next((p for p in candidates if p.is_file()), None)
            if path is None:
                raise ValueError(f"the Python package has no module {module}")
            self.cache[module] = Source(path, ast.parse(path.read_text(encoding="utf-8")))
        return self.cache[module]

    def public(self, module: str) -> list[str]:
        """The names in __all__, without those of star imports."""
        for node in self.source(module).tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                assert isinstance(node.value, ast.List)
                return [e.value for e in node.value.elts if isinstance(e, ast.Constant)]
        raise ValueError(f"{module} has no __all__")

    def find(self, module: str, name: str) -> tuple[str, list[ast.stmt]]:
        """The module that defines a name, and its definitions (several for overloads)."""
        body = self.source(module).tree.body
        own = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        if own:
            return module, list(own)
        for node in body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.find(self.absolute(module, node), alias.name)
        raise ValueError(f"{module}.{name} is defined nowhere")

    def absolute(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        if self.source(module).path.name == "__init__.py":
            parts.append("")
        parts = parts[: -node.level]
        return ".".join(parts + ([node.module] if node.module else []))


def decorators(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    return [ast.unparse(one) for one in node.decorator_list]


def signature(node: ast.FunctionDef, drop_first: bool) -> str:
    arguments = node.args
    if drop_first:
        positional = arguments.posonlyargs or arguments.args
        positional = positional[1:]
        if arguments.posonlyargs:
            arguments = ast.arguments(**{**vars(arguments), "posonlyargs": positional})
        else:
            arguments = ast.arguments(**{**vars(arguments), "args": positional})
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def parameters(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one]
    return [one.arg for one in every]


def fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [
        item
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and not item.target.id.startswith("_")
        and "ClassVar" not in ast.unparse(item.annotation)
    ]


def constructor(node: ast.ClassDef) -> str:
    """The arguments of a class: those of __init__, or the fields of a dataclass."""
    inits = [i for i in node.body if isinstance(i, ast.FunctionDef) and i.name == "__init__"]
    if inits:
        return signature(inits[-1], drop_first=True).removesuffix(" -> None")
    made = [one for one in decorators(node) if one.startswith("dataclass")]
    named_tuple = any(ast.unparse(base) == "NamedTuple" for base in node.bases)
    if not made and not named_tuple:
        return ""
    parts = [
        f"{ast.unparse(item.target)}: {ast.unparse(item.annotation)}"
        + (f" = {ast.unparse(item.value)}" if item.value else "")
        for item in fields(node)
    ]
    if parts and any("kw_only=True" in one for one in made):
        parts.insert(0, "*")
    return f"({', '.join(parts)})"


class PythonApi:
    def __init__(self, root: Path, tree: Tree) -> None:
        self.package = Package(root / "bindings/python/gnomon")
        self.tree = tree

    def add_pages(self) -> Entry:
        for module in MODULES:
            self.tree.add(f"api/python/{module}.rst", self.page(module))
        rows = []
        for module in MODULES:
            first = self.package.source(module).docstring.split("\n\n")[0].replace("\n", " ")
            rows.append(f":doc:`{module} </api/python/{module}>`\n   {inline(first)}\n")
        self.tree.add(
            "api/python/index.rst",
            heading("Python", "=")
            + "The modules of the package ``gnomon``. All specs are attributes of ``gnomon``.\n\n"
            + "\n".join(rows),
        )
        children = [Entry(f"api/python/{name}", title) for name, title in MODULES.items()]
        return Entry("api/python/index", "Python", children=children)

    def page(self, module: str) -> str:
        source = self.package.source(module)
        shown = "gnomon" if ".specs." in module else module
        parts = [heading(module, "="), to_rst(source.docstring)]
        if module in GUIDES:
            parts.append(f"Guide: :doc:`/{GUIDES[module]}`.\n")
        parts.append(f".. py:currentmodule:: {shown}\n")
        functions, classes = [], []
        for name in self.package.public(module):
            if f"{module}.{name}" in MODULES:
                continue
            _, nodes = self.package.find(module, name)
            if isinstance(nodes[0], ast.ClassDef):
                classes.append(self.class_of(name, nodes[0]))
            else:
                functions.append(self.function_of(name, nodes))
        if functions and classes:
            parts += [heading("Functions", "-"), *functions, heading("Classes", "-"), *classes]
        else:
            parts += functions + classes
        if module == "gnomon.torch":
            parts += self.named_modules()
        return "\n".join(parts)

    def named_modules(self) -> list[str]:
        """The modules of gnomon.torch/_named.py: a class of two lines for each spec."""
        source = self.package.source("gnomon.torch._named")
        rows = []
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and node.name != "Named":
                spec = ast.unparse(node.body[-1]).removeprefix("spec_type = specs.")
                rows.append(f"- ``gnomon.torch.{node.name}``: :py:class:`gnomon.{spec}`\n")
        text = (
            "Each is a :py:class:`PositionEncoding` of one spec. Its arguments are the fields of"
            " the spec, ``device`` and ``dtype``.\n\n"
        )
        return [heading("Modules of the specs", "-"), text + "".join(rows)]

    def function_of(
        self, name: str, nodes: list[ast.stmt], directive: str = "function", method: bool = False
    ) -> str:
        overloads = [n for n in nodes if "overload" in decorators(n)] or nodes[-1:]
        drop = method and "staticmethod" not in decorators(nodes[-1])
        lines = [name + signature(node, drop) for node in overloads]
        start = f".. py:{directive}:: "
        text = [start + lines[0], *[" " * len(start) + line for line in lines[1:]]]
        if "staticmethod" in decorators(nodes[-1]):
            text.append("   :staticmethod:")
        if "classmethod" in decorators(nodes[-1]):
            text.append("   :classmethod:")
        docstring = next((d for n in nodes if (d := ast.get_docstring(n))), "")
        body = to_rst(docstring, names={p for node in nodes for p in parameters(node)})
        return "\n".join(text) + "\n\n" + textwrap.indent(body, "   ")

    def class_of(self, name: str, node: ast.ClassDef) -> str:
        inits = [i for i in node.body if isinstance(i, ast.FunctionDef) and i.name == "__init__"]
        names = {ast.unparse(item.target) for item in fields(node)}
        names |= {p for init in inits for p in parameters(init)}
        parts = [f".. py:class:: {name}{constructor(node)}\n"]
        body = [to_rst(ast.get_docstring(node) or "", names=names)]
        methods: dict[str, list[ast.stmt]] = {}
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                methods.setdefault(item.name, []).append(item)
        for method, nodes in methods.items():
            first = nodes[0]
            if any(one.endswith(".setter") for one in decorators(first)):
                continue
            if {"property", "functools.cached_property"} & set(decorators(first)):
                returns = first.returns
                text = f".. py:property:: {method}\n"
                if returns is not None:
                    text += f"   :type: {ast.unparse(returns)}\n"
                text += "\n" + textwrap.indent(to_rst(ast.get_docstring(first) or ""), "   ")
                body.append(text)
            else:
                body.append(self.function_of(method, nodes, "method", method=True))
        parts.append(textwrap.indent("\n".join(body), "   "))
        return "\n".join(parts)
