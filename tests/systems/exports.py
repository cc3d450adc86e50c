#!/usr/bin/env python3
"""Checks the symbols that shared libraries export: exports.py HEADER_FOLDER LIBRARY...

Each exported name must be one of namespace gnomon or of C that a public header contains. The functions of the
internal headers of tools/cmake/exports.cmake, which other components call, are allowed if there are several
libraries. Each function template that a public header declares must have an exported instance in one of them. Prints
the numbers of each library.
"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
headers, libraries = pathlib.Path(sys.argv[1]), sys.argv[2:]


def words(files):
    return set(re.findall(r"\w+", "\n".join(file.read_text() for file in files)))


def unqualified(symbol):
    """The last name of a demangled symbol, without template arguments and parameters."""
    if symbol.startswith("_ZN"):  # c++filt leaves names with long template arguments as they are
        at = len("_ZN")
        last = ""
        while match := re.match(r"\d+", symbol[at:]):
            begin = at + match.end()
            last = symbol[begin:begin + int(match[0])]
            at = begin + int(match[0])
        return last
    symbol = re.sub(r"^(vtable|typeinfo|typeinfo name|guard variable) for ", "", symbol)
    symbol = re.sub(r"operator[^\w(]+", "operator", symbol).replace("(anonymous namespace)", "")
    symbol = re.sub(r"\[abi:\w+\]| const$", "", symbol)
    while "<" in symbol:
        shorter = re.sub(r"<[^<>]*>", "", symbol)
        if shorter == symbol:
            break
        symbol = shorter
    return symbol.split("(")[0].split("::")[-1].lstrip("~").strip()


public = words(headers.rglob("*.h"))
listed = re.search(r"set\(gnomon_internal_exports\s+([^)\"]+)\)",
                   (root / "tools/cmake/exports.cmake").read_text())
internal = words(root / header for header in listed[1].split())
templates = {re.findall(r"\w+(?=\()", declaration)[0]
             for header in headers.rglob("*.h") if "cuda" not in header.parts
             for declaration in re.findall(r"^template <[^\n]*>\n((?:[^;{}]|\{\})*?\))(?: noexcept)?;",
                                           header.read_text(), re.M)}
failed, exported = False, set()
for library in libraries:
    lines = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    symbols = [line.split(" ", 2)[2] for line in lines]
    outside = [s for s in symbols
               if not re.search(r"(^|[\s*&])gnomon::|^gnomon_\w+$|^_ZN6gnomon", s) or re.search(r"::N_[A-Z0-9]+::|gnomon_hwy::", s)]
    unknown = [s for s in symbols if s not in outside and unqualified(s) not in public]
    if len(libraries) > 1:
        unknown = [s for s in unknown if unqualified(s) not in internal]
    of_c = sum(bool(re.fullmatch(r"gnomon_\w+", s)) for s in symbols)
    of_internal = sum("internal::" in s for s in symbols)
    exported |= {unqualified(s) for s in symbols if "<" in s}
    print(f"{pathlib.Path(library).name}: {len(symbols)} symbols, {of_c} of C, {of_internal} internal")
    for symbol in outside + unknown:
        print(f"  not in a public header: {symbol}")
    failed |= bool(outside or unknown) or not of_c
for name in sorted(templates - exported):
    print(f"  no exported instance of the function template {name}")
print(f"{len(templates & exported)} of {len(templates)} function templates")
sys.exit(failed or not templates or bool(templates - exported))
