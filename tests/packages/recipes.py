"""Checks the recipes that are not run: their syntax, and the checksum of the source archive.

recipes.py DIST VERSION
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import yaml
from rattler_build import Stage0Recipe, VariantConfig

dist, version = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
recipes = dist / "recipes"
archive = dist / f"gnomon-{version}.tar.gz"
sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()

# Runs the portfile with functions in place of those of vcpkg, which record their arguments.
VCPKG = """
cmake_minimum_required(VERSION 3.25)
function(vcpkg_download_distfile name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "FILENAME;SHA512" "URLS")
  file(SHA512 "${ARCHIVE}" actual)
  if(NOT A_SHA512 STREQUAL actual OR NOT A_URLS MATCHES "${A_FILENAME}$")
    message(FATAL_ERROR "portfile: ${A_SHA512} of ${A_URLS} is not the checksum ${actual}")
  endif()
  set(${name} "${ARCHIVE}" PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT "${A_ARCHIVE}" DESTINATION "${WORK}" PATTERNS "*/LICENSE")
  file(GLOB folder "${WORK}/gnomon-*")
  set(${name} "${folder}" PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 A "" "SOURCE_PATH" "OPTIONS")
  if(NOT A_OPTIONS MATCHES "COMPONENTS=core.+graph.+model.+report")
    message(FATAL_ERROR "portfile: options ${A_OPTIONS}")
  endif()
endfunction()
foreach(name vcpkg_cmake_install vcpkg_cmake_config_fixup vcpkg_fixup_pkgconfig)
  cmake_language(EVAL CODE "function(${name})\\nendfunction()")
endforeach()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 A "" "" "FILE_LIST")
  if(NOT EXISTS "${A_FILE_LIST}")
    message(FATAL_ERROR "portfile: no ${A_FILE_LIST}")
  endif()
endfunction()
set(CURRENT_PACKAGES_DIR "${WORK}/packages")
set(PORT gnomon)
set(FEATURES core graph model)
include("${PORTFILE}")
"""

# Reads the formula with a class in place of Homebrew's, and prints its facts.
FORMULA = """
class Formula
  @facts = {}
  class << self
    def facts = (@facts ||= {})
    %w[desc homepage url sha256 license].each do |name|
      define_method(name) { |value| facts[name] = value }
    end
    def depends_on(what) = nil
    def test = nil
  end
end
require "json"
load ARGV[0]
puts JSON.generate(Gnomon.facts)
"""


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"packages: recipes: {command[0]} failed: {done.stdout}{done.stderr}")
    return done.stdout


def check(what: str, holds: bool) -> None:
    if not holds:
        sys.exit(f"packages: recipes: {what}")


def check_vcpkg() -> None:
    manifest = json.loads((recipes / "vcpkg/vcpkg.json").read_text())
    check("vcpkg.json has another version", manifest["version"] == version)
    check("default features exist", set(manifest["default-features"]) <= set(manifest["features"]))
    with tempfile.TemporaryDirectory() as work:
        script = pathlib.Path(work) / "port.cmake"
        script.write_text(VCPKG)
        run(
            "cmake",
            f"-DARCHIVE={archive}",
            f"-DWORK={work}",
            f"-DPORTFILE={recipes}/vcpkg/portfile.cmake",
            "-P",
            script,
        )


def check_homebrew() -> None:
    formula = recipes / "homebrew/gnomon.rb"
    run("ruby", "-wc", formula)
    facts = json.loads(run("ruby", "-e", FORMULA, formula))
    check("gnomon.rb has another checksum", facts["sha256"] == sha256)
    check("gnomon.rb has another archive", facts["url"].endswith(archive.name))


def check_conda() -> None:
    recipe = yaml.safe_load((recipes / "conda/recipe.yaml").read_text())
    check("recipe.yaml has another version", recipe["context"]["version"] == version)
    check("recipe.yaml has another checksum", recipe["source"]["sha256"] == sha256)
    stage0 = Stage0Recipe.from_file(str(recipes / "conda/recipe.yaml"))
    variants = {"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.17"]}  # of conda-forge
    names = sorted(str(one.recipe.package.name) for one in stage0.render(VariantConfig(variants)))
    check(f"recipe.yaml renders {names}", names == ["gnomon", "libgnomon"])


def check_conan() -> None:
    data = yaml.safe_load((recipes / "conan/conandata.yml").read_text())["sources"]
    check("conandata.yml has another checksum", data[version]["sha256"] == sha256)


check_vcpkg()
check_homebrew()
check_conda()
check_conan()
print(
    "packages: recipes: vcpkg and Homebrew evaluated, conda rendered, checksums compared",
    file=sys.stderr,
)
