"""Prints the list of the parts of a release, as SPDX 2.3 JSON.

    spdx.py DIST VERSION CACHE

DIST has the source archive, pypi/ and debian/; CACHE what tools/dist.sh downloaded. The list has
the source archive with all its files, each package made from it, and each dependency with its
version and the checksum of the file from which it was installed. Fails if a package loads or
contains a shared library that no table here names.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.parse
import zipfile

# Packages of Debian whose headers are compiled into the library, and their licenses.
HEADERS = {
    "libhwy-dev": "Apache-2.0",
    "libeigen3-dev": "MPL-2.0",
    "libspectra-dev": "MPL-2.0",
    "nlohmann-json3-dev": "MIT",
}
# Shared libraries by their name in a binary: Debian package and licenses.
SHARED = {
    "libfmt.so.9": ("libfmt9", "MIT"),
    "libgomp.so.1": ("libgomp1", "GPL-3.0-or-later WITH GCC-exception-3.1"),
}
# Of the compiler and the C library.
SYSTEM = re.compile(r"^(libc|libm|libstdc\+\+|libgcc_s|libpthread|ld-linux.*)\.so\.\d+$")
OWN = re.compile(r"^libgnomon_(core|graph|model|report)\.so\.\d+$")
# Only a build with the lab uses these; no package here contains the lab.
LAB = {
    "libtorch-dev": "BSD-3-Clause",
    "libsentencepiece-dev": "Apache-2.0",
    "libgloo-dev": "BSD-3-Clause",
    "libicu-dev": "Unicode-3.0",
    "libpng-dev": "libpng-2.0",
}
PUBLIC_DOMAIN = "LicenseRef-public-domain"
SCRIPTS = {
    "vega": "BSD-3-Clause",
    "vega-lite": "BSD-3-Clause",
    "vega-embed": "BSD-3-Clause",
    "vega-themes": "BSD-3-Clause",
    "d3": "ISC",
}


def sha(data: bytes, kind: str = "sha256") -> str:
    return hashlib.new(kind, data).hexdigest()


def checksums(data: bytes) -> list[dict[str, str]]:
    return [
        {"algorithm": "SHA1", "checksumValue": sha(data, "sha1")},
        {"algorithm": "SHA256", "checksumValue": sha(data)},
    ]


def identifier(name: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


class Document:
    def __init__(self, version: str) -> None:
        self.version = version
        self.packages: dict[str, dict] = {}
        self.files: list[dict] = []
        self.relations: list[dict[str, str]] = []

    def add(
        self, name: str, version: str, licenses: str, *, sha256: str = "", **fields: object
    ) -> str:
        """Adds a package once, and returns its identifier."""
        key = identifier(f"{name}-{version}")
        package = {
            "SPDXID": key,
            "name": name,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": licenses,
            "licenseDeclared": licenses,
            "copyrightText": "NOASSERTION",
        }
        if sha256:
            package["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
        self.packages.setdefault(key, package | fields)
        return key

    def relate(self, one: str, how: str, other: str) -> None:
        relation = {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other}
        if relation not in self.relations:
            self.relations.append(relation)

    def debian(self, name: str, licenses: str) -> str:
        """A package of Debian, with the checksum of its .deb in Debian's list."""
        run = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}\n", name],
            check=True,
            capture_output=True,
            text=True,
        )
        version = run.stdout.splitlines()[0]
        shown = subprocess.run(
            ["apt-cache", "show", f"{name}={version}"], capture_output=True, text=True
        ).stdout
        found = re.search(r"^SHA256: (\w+)$", shown, re.M)
        return self.add(
            name,
            version,
            licenses,
            sha256=found[1] if found else "",
            **purl(f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe=':~')}"),
        )


def purl(locator: str) -> dict[str, object]:
    return {
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": locator,
            }
        ]
    }


def add_source(document: Document, archive: pathlib.Path) -> str:
    """The source archive and all its files."""
    sums = []
    key = identifier("source")
    with tarfile.open(archive) as tar:
        for member in sorted(tar.getmembers(), key=lambda one: one.name):
            if not member.isfile():
                continue
            data = tar.extractfile(member).read()  # type: ignore[union-attr]
            name = member.name.split("/", 1)[1]
            licenses = PUBLIC_DOMAIN if re.match(r"apps/lab/data/austen/.*\.txt$", name) else "MIT"
            sums.append(sha(data, "sha1"))
            document.files.append(
                {
                    "SPDXID": f"SPDXRef-file-{sha(name.encode(), 'sha1')}",
                    "fileName": f"./{name}",
                    "checksums": checksums(data),
                    "licenseConcluded": licenses,
                    "licenseInfoInFiles": ["NOASSERTION"],
                    "copyrightText": "NOASSERTION",
                }
            )
            document.relate(key, "CONTAINS", document.files[-1]["SPDXID"])
    code = sha("".join(sorted(sums)).encode(), "sha1")
    document.packages[key] = {
        "SPDXID": key,
        "name": "gnomon",
        "versionInfo": document.version,
        "downloadLocation": "NOASSERTION",
        "packageFileName": archive.name,
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": code},
        "checksums": checksums(archive.read_bytes()),
        "licenseConcluded": f"MIT AND {PUBLIC_DOMAIN}",
        "licenseDeclared": "MIT",
        "licenseInfoFromFiles": ["NOASSERTION"],
        "copyrightText": "Copyright (c) 2026 The Gnomon authors",
    }
    return key


def binaries(path: pathlib.Path) -> dict[str, bytes]:
    """The files of a wheel or of a Debian package that are binaries of Linux."""
    files: dict[str, bytes] = {}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            files = {name: wheel.read(name) for name in wheel.namelist()}
    elif path.suffix == ".deb":
        tar = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(tar)) as members:
            files = {
                one.name: members.extractfile(one).read()  # type: ignore[union-attr]
                for one in members
                if one.isfile()
            }
    return {name: data for name, data in files.items() if data.startswith(b"\x7fELF")}


def needed(data: bytes) -> set[str]:
    """The shared libraries that a binary loads."""
    path = f"/proc/self/fd/{(fd := os.memfd_create('binary'))}"
    with os.fdopen(fd, "wb", closefd=True) as file:
        file.write(data)
        file.flush()
        text = subprocess.run(
            ["objdump", "-p", path], check=True, capture_output=True, text=True, pass_fds=[fd]
        ).stdout
    return set(re.findall(r"NEEDED +(\S+)", text))


def shared_library(name: str) -> tuple[str, str] | None:
    """Package and licenses of a shared library, also under the names that auditwheel gives."""
    return SHARED.get(
        re.sub(r"^(lib\w+)-[0-9a-f]+(?:\.\d+)*(\.so\.\d+).*$", r"\1\2", name)
    ) or SHARED.get(name)


def add_binary_package(
    document: Document, source: str, path: pathlib.Path, parts: dict[str, str]
) -> None:
    data = path.read_bytes()
    key = document.add(path.name, document.version, "MIT", packageFileName=path.name)
    document.packages[key]["checksums"] = checksums(data)
    document.relate(key, "GENERATED_FROM", source)
    found = binaries(path)
    inside = {pathlib.PurePath(name).name for name in found}
    for name in found:
        if ".libs/" in name:  # copied by auditwheel
            copied = shared_library(pathlib.PurePath(name).name)
            if copied is None:
                raise SystemExit(f"spdx: {path.name} contains {name}, which no table names")
            document.relate(key, "CONTAINS", document.debian(*copied))
        for library in needed(found[name]):
            if SYSTEM.match(library) or OWN.match(library) or library in inside:
                continue
            provided = shared_library(library)
            if provided is None:
                raise SystemExit(f"spdx: {path.name}: {name} loads {library}, which no table names")
            document.relate(key, "DYNAMIC_LINK", document.debian(*provided))
    if found:
        for name, licenses in HEADERS.items():
            document.relate(key, "STATIC_LINK", document.debian(name, licenses))
    if any(b"vega-embed" in data for data in found.values()):
        document.relate(key, "CONTAINS", parts["bundle"])
    modules = [name for name in found if "_core." in name and name.endswith(".so")]
    if modules:
        document.relate(key, "STATIC_LINK", parts["nanobind"])
        numpy = document.add("numpy", ">=1.24", "BSD-3-Clause", **purl("pkg:pypi/numpy"))
        document.relate(key, "DEPENDS_ON", numpy)
    if any(".abi3." in name for name in modules):
        backend = document.add(
            "nanobind-backend", ">=1.0,<2", "BSD-3-Clause", **purl("pkg:pypi/nanobind-backend")
        )
        document.relate(key, "DEPENDS_ON", backend)


def add_parts(document: Document, cache: pathlib.Path) -> dict[str, str]:
    """nanobind and the script of the pages, which packages contain."""
    sources = next((cache / "pypi").glob("nanobind-*.tar.gz"))
    number = sources.name.removeprefix("nanobind-").removesuffix(".tar.gz")
    nanobind = document.add(
        "nanobind",
        number,
        "BSD-3-Clause AND MIT",
        sha256=sha(sources.read_bytes()),
        **purl(f"pkg:pypi/nanobind@{number}"),
    )
    with tarfile.open(sources) as tar:
        list_ = next(one for one in tar.getnames() if one.endswith("robin_map/CMakeLists.txt"))
        text = tar.extractfile(list_).read().decode()  # type: ignore[union-attr]
    robin = re.search(r"project\(tsl-robin-map VERSION ([\d.]+)", text)[1]  # type: ignore[index]
    map_ = document.add("robin-map", robin, "MIT", **purl(f"pkg:github/tessil/robin-map@v{robin}"))
    document.relate(nanobind, "CONTAINS", map_)
    facts = json.loads((cache / "vega.json").read_text())
    converter = facts.pop("vl-convert-python")
    script = sha((cache / "vega/vega.js").read_bytes())
    bundle = document.add(
        "vega-bundle",
        converter,
        "BSD-3-Clause AND ISC",
        sha256=script,
        summary="The script that draws the charts of HTML pages, written by vl-convert-python.",
        **purl(f"pkg:pypi/vl-convert-python@{converter}"),
    )
    for name, licenses in SCRIPTS.items():
        number = facts.get(name, "NOASSERTION")
        known = purl(f"pkg:npm/{name}@{number}") if name in facts else {}
        document.relate(bundle, "CONTAINS", document.add(name, number, licenses, **known))
    return {"nanobind": nanobind, "bundle": bundle}


def main() -> None:
    dist, version, cache = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    archive = dist / f"gnomon-{version}.tar.gz"
    document = Document(version)
    source = add_source(document, archive)
    parts = add_parts(document, cache)
    made = sorted((dist / "pypi").iterdir()) + sorted((dist / "debian").iterdir())
    for path in made:
        add_binary_package(document, source, path, parts)
    for name, licenses in LAB.items():
        optional = document.add(name, "NOASSERTION", licenses, **purl(f"pkg:deb/debian/{name}"))
        document.relate(optional, "OPTIONAL_DEPENDENCY_OF", source)
    when = datetime.datetime.fromtimestamp(
        int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc
    )
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", source)
    print(
        json.dumps(
            {
                "spdxVersion": "SPDX-2.3",
                "dataLicense": "CC0-1.0",
                "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"gnomon-{version}",
                "documentNamespace": f"https://gnomon.invalid/spdx/{sha(archive.read_bytes())}",
                "creationInfo": {
                    "created": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "creators": ["Tool: tools/packages/spdx.py"],
                },
                "hasExtractedLicensingInfos": [
                    {
                        "licenseId": PUBLIC_DOMAIN,
                        "name": "Public domain",
                        "extractedText": "The novels of Jane Austen, whose copyright has expired.",
                    }
                ],
                "packages": list(document.packages.values()),
                "files": document.files,
                "relationships": document.relations,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
