"""The Conan recipe of the library, without the program. conandata.yml names the source archive."""

import os

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get
from conan.tools.system.package_manager import Apt

required_version = ">=2.0"


class Gnomon(ConanFile):
    name = "gnomon"
    description = "Positional encodings for Transformers"
    license = "MIT"
    topics = ("transformers", "positional-encoding", "attention", "simd")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        "threads": ["openmp", "std", "none"],
        # Highway, Eigen, Spectra and nlohmann-json of the system in place of those of Conan.
        "system_dependencies": [True, False],
    }
    default_options = {
        "shared": False,
        "fPIC": True,
        "threads": "std",
        "system_dependencies": False,
    }
    implements = ["auto_shared_fpic"]

    def set_version(self):
        self.version = self.version or next(iter(self.conan_data["sources"]))

    def layout(self):
        cmake_layout(self, src_folder="src")

    def requirements(self):
        if not self.options.system_dependencies:
            self.requires("highway/[>=1.0.3 <2]")
            self.requires("eigen/[>=3.4 <4]", visible=False)
            self.requires("spectra/[>=1.0 <2]", visible=False)
            self.requires("nlohmann_json/[>=3.11 <4]", visible=False)

    def system_requirements(self):
        if self.options.system_dependencies:
            Apt(self).install(
                ["libhwy-dev", "libeigen3-dev", "libspectra-dev", "nlohmann-json3-dev"], check=True
            )

    def validate(self):
        check_min_cppstd(self, 20)

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("PROGRAM", "LAB", "TESTS", "BENCH"):
            toolchain.cache_variables[f"GNOMON_{part}"] = False
        toolchain.cache_variables["GNOMON_THREADS"] = str(self.options.threads)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The package has its own files for find_package, with the components of the library.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "gnomon")]
        self.cpp_info.libs = ["gnomon_report", "gnomon_model", "gnomon_graph", "gnomon_core"]
