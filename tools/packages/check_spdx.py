"""Checks a list of the parts of a release, SPDX 2.3 JSON: check_spdx.py FILE.

The required fields and the forms of their values are those of SPDX 2.3. Of the project are the
rules that each part of a binary has a version, a license, a purl and a SHA-256, and that the list
has the parts that every binary contains.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

ID = re.compile(r"^SPDXRef-[A-Za-z0-9.-]+$")
LENGTHS = {"SHA1": 40, "SHA256": 64}
LICENSES = {
    "MIT", "Apache-2.0", "MPL-2.0", "BSD-3-Clause", "ISC", "GPL-3.0-or-later", "Unicode-3.0",
    "libpng-2.0",
}  # fmt: skip
EXCEPTIONS = {"GCC-exception-3.1"}
RELATIONS = {
    "DESCRIBES", "CONTAINS", "GENERATED_FROM", "STATIC_LINK", "DYNAMIC_LINK", "DEPENDS_ON",
    "OPTIONAL_DEPENDENCY_OF",
}  # fmt: skip
PURL = re.compile(
    r"^pkg:(deb/debian|pypi|npm|github/[\w.-]+)/[A-Za-z0-9._-]+(@[A-Za-z0-9._~:%-]+)?$"
)
# Compiled into every package with binaries.
COMPILED = {"libhwy-dev", "libeigen3-dev", "libspectra-dev", "nlohmann-json3-dev"}


def _licenses(expression: str, extracted: set[str]) -> Iterator[str]:
    known = LICENSES | extracted | {"NOASSERTION", "NONE"}
    for part in re.split(r" (?:AND|OR) ", expression):
        name, _, exception = part.strip("()").partition(" WITH ")
        if name not in known or exception and exception not in EXCEPTIONS:
            yield f"the license {part}"


def _checksums(one: dict[str, Any], needed: str) -> Iterator[str]:
    found = {sum_["algorithm"]: sum_["checksumValue"] for sum_ in one.get("checksums", [])}
    for kind, value in found.items():
        if not re.fullmatch(rf"[0-9a-f]{{{LENGTHS.get(kind, 0)}}}", value):
            yield f"the checksum {kind} {value}"
    if needed and needed not in found:
        yield f"no {needed}"


def _package(one: dict[str, Any], extracted: set[str]) -> Iterator[str]:
    for key in ("name", "versionInfo", "downloadLocation", "licenseConcluded",
                "licenseDeclared", "copyrightText"):  # fmt: skip
        if not isinstance(one.get(key), str) or not one[key]:
            yield f"no {key}"
    for key in ("licenseConcluded", "licenseDeclared"):
        yield from _licenses(one.get(key, ""), extracted)
    yield from _checksums(one, "")
    if one.get("filesAnalyzed", True) != ("packageVerificationCode" in one):
        yield "packageVerificationCode does not match filesAnalyzed"
    for reference in one.get("externalRefs", []):
        if reference.get("referenceType") == "purl":
            if reference.get("referenceCategory") != "PACKAGE-MANAGER":
                yield "a purl of another category"
            if not PURL.match(reference.get("referenceLocator", "")):
                yield f"the purl {reference.get('referenceLocator')}"


def _part(one: dict[str, Any], inside: bool) -> Iterator[str]:
    """What a part of a binary has. `inside`: a part of a part, whose checksum contains it."""
    if not any(ref["referenceType"] == "purl" for ref in one.get("externalRefs", [])) and (
        one.get("versionInfo") != "NOASSERTION" or not inside
    ):
        yield "no purl"
    if not inside:
        yield from _checksums(one, "SHA256")
        if one.get("versionInfo") == "NOASSERTION":
            yield "no version"
    if one.get("licenseConcluded") == "NOASSERTION":
        yield "no license"


def problems(document: dict[str, Any]) -> list[str]:
    """Returns what is wrong with a document; empty if it is complete."""
    found: list[str] = []

    def need(holds: object, what: str) -> None:
        if not holds:
            found.append(what)

    need(document.get("spdxVersion") == "SPDX-2.3", "spdxVersion")
    need(document.get("dataLicense") == "CC0-1.0", "dataLicense")
    need(document.get("SPDXID") == "SPDXRef-DOCUMENT", "SPDXID")
    need(document.get("name"), "name")
    namespace = document.get("documentNamespace", "")
    need(re.match(r"^https?://[^#\s]+$", namespace), "documentNamespace")
    created = document.get("creationInfo", {})
    when = created.get("created", "")
    need(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", when), "created")
    creators = created.get("creators", [])
    need(creators, "creators")
    need(all(re.match(r"(Tool|Person|Organization): \S", one) for one in creators), "creators")
    extracted = set()
    for one in document.get("hasExtractedLicensingInfos", []):
        extracted.add(one.get("licenseId", ""))
        need(re.match(r"LicenseRef-[A-Za-z0-9.-]+$", one.get("licenseId", "")), "licenseId")
        need(one.get("extractedText"), "extractedText")

    packages = {one.get("SPDXID", ""): one for one in document.get("packages", [])}
    files = {one.get("SPDXID", ""): one for one in document.get("files", [])}
    need(len(packages) == len(document.get("packages", [])), "the same SPDXID twice")
    need(len(files) == len(document.get("files", [])), "the same SPDXID twice")
    for key in [*packages, *files]:
        need(ID.match(key), f"the SPDXID {key}")
    for key, one in packages.items():
        found += [f"{key}: {what}" for what in _package(one, extracted)]
    for key, one in files.items():
        need(one.get("fileName", "").startswith("./"), f"{key}: fileName")
        found += [f"{key}: {what}" for what in _checksums(one, "SHA1")]
        licenses = _licenses(one.get("licenseConcluded", ""), extracted)
        found += [f"{key}: {what}" for what in licenses]

    contents: dict[str, dict[str, str]] = {}
    for one in document.get("relationships", []):
        begin, how, end = (one.get(key, "") for key in (
            "spdxElementId", "relationshipType", "relatedSpdxElement"))  # fmt: skip
        need(how in RELATIONS, f"the relation {how}")
        for key in (begin, end):
            need(key in packages or key in files or key == "SPDXRef-DOCUMENT", f"no element {key}")
        contents.setdefault(begin, {})[end] = how
    need("DESCRIBES" in contents.get("SPDXRef-DOCUMENT", {}).values(), "DESCRIBES")
    for key, one in packages.items():
        if "GENERATED_FROM" in contents.get(key, {}).values():
            need(one.get("packageFileName"), f"{key}: packageFileName")
            found += [f"{key}: {what}" for what in _checksums(one, "SHA256")]
    for key, parts in contents.items():
        if key not in packages:
            continue
        linked = {end for end, how in parts.items() if how == "STATIC_LINK"}
        names = {packages[end]["name"] for end in linked if end in packages}
        if names:
            for name in sorted(COMPILED - names):
                found.append(f"{key}: no {name}")
        for end, how in parts.items():
            if how in ("STATIC_LINK", "DYNAMIC_LINK", "CONTAINS") and end in packages:
                inside = "GENERATED_FROM" not in parts.values()
                found += [f"{end}: {what}" for what in _part(packages[end], inside)]
    return sorted(set(found))


def main() -> None:
    wrong = problems(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    for one in wrong:
        print(f"spdx: {one}", file=sys.stderr)
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
