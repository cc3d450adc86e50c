"""The list of the parts of a release (tools/packages/spdx.py) and its check, without a release."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import zipfile
from types import ModuleType
from typing import Any

import pytest

from gnomon import _core

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "tools/packages"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = load("check_spdx")


def pack(path: pathlib.Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def write(folder: pathlib.Path, module: bytes) -> None:
    """Writes an invented release, whose wheel has the binary."""
    dist, cache = folder / "dist", folder / "cache"
    novel = "gnomon-1.2.3/apps/lab/data/austen/emma.txt"
    pack(dist / "gnomon-1.2.3.tar.gz", {"gnomon-1.2.3/README.md": b"read", novel: b"Emma"})
    (dist / "pypi").mkdir()
    (dist / "debian").mkdir()
    with zipfile.ZipFile(dist / "pypi/gnomon-1.2.3.whl", "w") as wheel:
        wheel.writestr("gnomon/_core.abi3.so", module)
    cmake = b"project(tsl-robin-map VERSION 1.4.0)"
    pack(cache / "pypi/nanobind-3.1.0.tar.gz",
         {"nanobind-3.1.0/ext/robin_map/CMakeLists.txt": cmake})
    (cache / "vega").mkdir(exist_ok=True)
    (cache / "vega/vega.js").write_text("vega")
    (cache / "vega.json").write_text(json.dumps(
        {"vl-convert-python": "1.9.0", "vega": "6.2.0", "vega-lite": "6.4",
         "vega-embed": "7.0.2", "vega-themes": "3.0.0"}))


def run(folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOLS / "spdx.py", folder / "dist", "1.2.3", folder / "cache"],
        capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "86400"})


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("spdx")
    write(folder, pathlib.Path(_core.__file__).read_bytes())
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert run(folder).stdout == done.stdout  # the same bits
    return json.loads(done.stdout)


def test_the_list_is_complete(document: dict[str, Any]) -> None:
    assert CHECK.problems(document) == []
    assert document["creationInfo"]["created"] == "1970-01-02T00:00:00Z"
    packages = {one["name"]: one for one in document["packages"]}
    ids = {one["SPDXID"]: one["name"] for one in document["packages"]}
    parts = {(ids[one["spdxElementId"]], one["relationshipType"], ids[one["relatedSpdxElement"]])
             for one in document["relationships"]
             if one["spdxElementId"] in ids and one["relatedSpdxElement"] in ids}
    wheel = "gnomon-1.2.3.whl"
    for name in ("libhwy-dev", "libeigen3-dev", "libspectra-dev", "nlohmann-json3-dev", "nanobind"):
        assert (wheel, "STATIC_LINK", name) in parts
        assert len(packages[name]["checksums"][0]["checksumValue"]) == 64
    assert ("nanobind", "CONTAINS", "robin-map") in parts
    assert packages["robin-map"]["versionInfo"] == "1.4.0"
    novels = [one["licenseConcluded"] for one in document["files"] if "austen" in one["fileName"]]
    assert novels == ["LicenseRef-public-domain"]


def test_an_unknown_library_is_refused(tmp_path: pathlib.Path) -> None:
    write(tmp_path, pathlib.Path("/usr/bin/objdump").read_bytes())
    done = run(tmp_path)
    assert done.returncode == 1 and "which no table names" in done.stderr


def changed(document: dict[str, Any], path: list[Any], value: Any) -> list[str]:
    document = copy.deepcopy(document)
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return CHECK.problems(document)


@pytest.mark.parametrize(("path", "value", "problem"), [
    (["spdxVersion"], "SPDX-2.2", "spdxVersion"),
    (["creationInfo", "created"], "yesterday", "created"),
    (["documentNamespace"], "https://gnomon.invalid/#", "documentNamespace"),
    (["packages", 0, "SPDXID"], "source", "SPDXID"),
    (["files", 0, "checksums"], [], "no SHA1"),
    (["files", 0, "licenseConcluded"], "Public", "the license Public"),
    (["relationships", 0, "relatedSpdxElement"], "SPDXRef-none", "no element"),
    (["relationships", 0, "relationshipType"], "HAS", "the relation HAS"),
    (["libhwy-dev", "checksums"], None, "no SHA256"),
    (["libhwy-dev", "versionInfo"], None, "no versionInfo"),
    (["libhwy-dev", "externalRefs", 0, "referenceLocator"], "pkg:deb/x y", "the purl"),
    (["libhwy-dev", "name"], "libhwy", "no libhwy-dev"),
    (["nanobind", "externalRefs"], None, "no purl"),
    (["nanobind", "licenseConcluded"], "BSD", "the license BSD")])
def test_a_wrong_list_is_refused(
    document: dict[str, Any], path: list[Any], value: Any, problem: str
) -> None:
    names = {one["name"]: i for i, one in enumerate(document["packages"])}
    where = ["packages", names[path[0]], *path[1:]] if path[0] in names else path
    assert any(problem in one for one in changed(document, where, value))
