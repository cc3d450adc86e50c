#!/usr/bin/env python3
"""Writes bindings/rust/src/sys.rs, the declarations of the C headers in Rust.

tools/rust/write_sys.py           rewrites the file
tools/rust/write_sys.py --check   exits with 1 if the file is not what the headers say

The headers use a small part of C: enums, structs, opaque structs, function pointers, functions.
Any other declaration is an error here.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ["gnomon.h", "gnomon_context.h", "gnomon_ragged.h", "gnomon_paged_cache.h"]
TARGET = ROOT / "bindings/rust/src/sys.rs"
SCALARS = {
    "void": "c_void", "char": "c_char", "float": "f32", "double": "f64", "size_t": "usize",
    "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32",
    "uint64_t": "u64",
}
PREAMBLE = """\
//! The declarations of `gnomon.h`, `gnomon_context.h`, `gnomon_ragged.h` and
//! `gnomon_paged_cache.h`.
//!
//! `tools/rust/write_sys.py` writes this file. The headers describe the functions.
#![allow(missing_docs, non_camel_case_types)]

use std::os::raw::{c_char, c_uint, c_void};
"""


def statements(text):
    """Yields (section, declaration) for each declaration of a header."""
    section = ""
    text = re.sub(r"/\* --- (.*?) -+ \*/", r"@section \1;", text)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    # Without DLPack's header, gnomon_tensor is the struct of gnomon.h.
    text = re.sub(r"#if defined\(DLPACK.*?#else", "", text, flags=re.S)
    text = re.sub(r"^#.*(\\\n.*)*$", "", text, flags=re.M)
    text = text.replace('extern "C" {', "")
    part, depth = "", 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if depth < 0:  # the end of extern "C"
            depth = 0
            continue
        if character != ";" or depth:
            part += character
            continue
        one, part = " ".join(part.split()), ""
        if one.startswith("@section "):
            section = one.removeprefix("@section ")
        elif one:
            yield section, one


def type_of(text):
    """The Rust type of a C type such as "const gnomon_tensor* const*"."""
    tokens = re.findall(r"\w+|\*", text)
    base = [token for token in tokens[: tokens.index("*") if "*" in tokens else None]]
    is_const = "const" in base
    (name,) = [token for token in base if token != "const"]
    rust = SCALARS.get(name, name)
    for i, token in enumerate(tokens):
        if token == "*":
            rust = f"*{'const' if is_const else 'mut'} {rust}"
            is_const = i + 1 < len(tokens) and tokens[i + 1] == "const"
    return rust


def name_of(name):
    return f"r#{name}" if name in ("type", "in", "ref", "box", "move", "fn", "use") else name


def arguments(text):
    """[(name, type)] of the parameters of a function."""
    if text.strip() in ("", "void"):
        return []
    found = []
    for one in text.split(","):
        of_type, name = re.fullmatch(r"\s*(.*?)(\w+)\s*", one).groups()
        found.append((name_of(name), type_of(of_type)))
    return found


def listed(found):
    return ", ".join(f"{name}: {of_type}" for name, of_type in found)


def result(text):
    return "" if text.strip() == "void" else f" -> {type_of(text)}"


def fields(text):
    for one in filter(None, (part.strip() for part in text.split(";"))):
        base, names = re.fullmatch(r"((?:const )?\w+) ?(.*)", one).groups()
        for name in names.split(","):
            yield name_of(name.strip(" *")), type_of(base + "*" * name.count("*"))


def has_size(found):
    """Whether the caller sets the first member to the size of the struct."""
    return found[0] == ("size", "usize")


def translated(declaration):
    """(what, Rust) of a declaration."""
    if found := re.fullmatch(r"typedef enum (\w+) \{(.*)\} \1", declaration):
        name, body = found.groups()
        lines = [f"pub type {name} = c_uint;"]
        for one in filter(None, (part.strip() for part in body.split(","))):
            constant, value = one.split(" = ")
            lines.append(f"pub const {constant}: {name} = {value};")
        return "item", "\n".join(lines)
    if found := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", declaration):
        name, body = found.groups()
        found = list(fields(body))
        members = "".join(f"    pub {field}: {of_type},\n" for field, of_type in found)
        struct = f"#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{\n{members}}}"
        return "item", struct if name in ("gnomon_device", "gnomon_data_type") else struct + f"""
impl Default for {name} {{
    fn default() -> Self {{
        // SAFETY: numbers may be 0, and pointers NULL.
        {"let mut zero: Self =" if has_size(found) else ""} unsafe {{ std::mem::zeroed() }}
        {"; zero.size = std::mem::size_of::<Self>(); zero" if has_size(found) else ""}
    }}
}}"""
    if found := re.fullmatch(r"typedef struct (\w+) \1", declaration):
        return "item", f"#[repr(C)]\npub struct {found[1]} {{\n    opaque: [u8; 0],\n}}"
    if found := re.fullmatch(r"typedef (.*)\(\*(\w+)\)\((.*)\)", declaration):
        of_result, name, of_arguments = found.groups()
        called = f'unsafe extern "C" fn({listed(arguments(of_arguments))}){result(of_result)}'
        return "item", f"pub type {name} = Option<{called}>;"
    if found := re.fullmatch(r"([\w* ]+?)(gnomon_\w+)\((.*)\)", declaration):
        of_result, name, of_arguments = found.groups()
        return "function", f"pub fn {name}({listed(arguments(of_arguments))}){result(of_result)};"
    sys.exit(f"write_sys: cannot translate: {declaration}")


def written():
    items, core, model = [], [], []
    for header in HEADERS:
        for section, declaration in statements((ROOT / "include" / header).read_text()):
            what, rust = translated(declaration)
            of_model = section.startswith("Model")
            if what == "item":
                feature = '#[cfg(feature = "model")]\n' if of_model else ""
                items.append(feature + rust.replace("\nimpl ", f"\n{feature}impl "))
            else:
                (model if of_model else core).append(rust)
    parts = [PREAMBLE, *items, 'extern "C" {\n' + "\n".join(core) + "\n}",
             '#[cfg(feature = "model")]\nextern "C" {\n' + "\n".join(model) + "\n}"]
    text = "\n".join(parts) + "\n"
    formatted = subprocess.run(
        ["rustfmt", "--edition", "2021", "--config-path", str(ROOT / "bindings/rust")],
        input=text, text=True, capture_output=True, check=False)
    if formatted.returncode:
        sys.exit(f"write_sys: rustfmt: {formatted.stderr}")
    return formatted.stdout


def main():
    text = written()
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text() != text:
            sys.exit("write_sys: bindings/rust/src/sys.rs is not what the headers say; run"
                     " tools/rust/write_sys.py")
    else:
        TARGET.write_text(text)


main()
