# Two commands for a fresh Debian 12 machine: `make lab` and `make test`. Each installs missing
# packages, builds and runs. All outputs are in build/.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
LAB_FLAGS ?= --minutes 5 --seeds 4
# Where LibTorch is from, for `build` and `lab`: debian, or pypi (the newest, with CUDA).
TORCH ?= debian
ifneq ($(TORCH),debian)
ifneq ($(TORCH),pypi)
$(error TORCH must be debian or pypi, got $(TORCH))
endif
endif

# The tests also build the component cuda if nvcc is there.
nvcc := $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
components := core;graph;model;report$(if $(nvcc),;cuda)

release := build/release
program := $(if $(filter pypi,$(TORCH)),build/pypi,$(release))
asan := build/asan
tsan := build/tsan
neon := build/neon
fuzz := build/fuzz
gnomon := $(program)/apps/cli/gnomon

.PHONY: help setup setup-lab setup-neon setup-wasm setup-long configure-release build lab test build-tests build-asan \
        build-tsan build-neon build-fuzz asan wheel test-python test-gguf test-onnx test-neon test-torch2 test-long bench instructions peers \
        gpu gpu-bundle wasm test-wasm test-rust test-ggml test-vllm test-systems site test-site dist test-packages format \
        check-format install clean
.DEFAULT_GOAL := help

help:
	@echo 'make lab           train and compare encodings on six novels, write a report'
	@echo 'make lab TORCH=pypi   the same on a GPU, if there is one (downloads PyPI torch, 6 GB)'
	@echo 'make test          build and run all tests but the long ones'
	@echo 'make test-python   test the Python package with PyTorch, JAX, transformers (downloads about 6 GB)'
	@echo 'make test-gguf     compare the reader of GGUF files with llama.cpp (downloads as test-python)'
	@echo 'make test-onnx     compare exported layers and operators with ONNX Runtime (downloads 0.1 GB)'
	@echo 'make test-ggml     test the operators of bindings/ggml in graphs of ggml (compiles ggml-python)'
	@echo 'make test-vllm     test the plug-in bindings/vllm in vLLM for CPU (downloads 5 GB, unless make peers did)'
	@echo 'make wheel         build the Python wheel for manylinux and the source distribution'
	@echo 'make build         build the program: $(gnomon)'
	@echo 'make bench         build the program, and run `gnomon bench` with BENCH_FLAGS'
	@echo 'make instructions  count the instructions of each kernel, compare with the recorded counts'
	@echo 'make asan          build and run only the tests of files and models under the sanitizers'
	@echo 'make test-neon     build the library for 64-bit ARM, run its tests under emulation'
	@echo 'make test-torch2   test adapter and lab with the newest torch wheel (downloads 1 to 6 GB)'
	@echo 'make test-long     test everything under the sanitizers, also of threads, each instruction'
	@echo '                   set (shuffled), NEON, faults, fuzzing, the site, and all packages in fresh Debian'
	@echo '                   roots; takes hours, a second call goes on behind the part that failed (PARTS="asan ...")'
	@echo 'make peers         time Gnomon and packages from PyPI, write docs/benchmarks.md'
	@echo 'make gpu           check and time the CUDA kernels on a GPU, write docs/benchmarks-gpu.md'
	@echo 'make gpu-bundle    build for `make gpu` on a machine without a GPU: build/gpu/bundle.tar.gz'
	@echo 'make wasm          build the JavaScript package for pages and Node: build/wasm (downloads 0.12 GB)'
	@echo 'make test-wasm     build it, compare its numbers with those of the native library'
	@echo 'make test-rust     test the Rust crate with the compiler of Debian, offline'
	@echo 'make test-systems  compile the library for Windows, macOS, musl and WebAssembly, run C programs where possible'
	@echo 'make site          build the site in build/site: the book, guides, encodings, references, playground'
	@echo 'make test-site     build it, test its pages in Chromium, its figures, its code and its numbers'
	@echo 'make dist          write the files of a release to build/dist: source archive, wheel, Debian packages, recipes'
	@echo 'make test-packages install and use each package of build/dist in a fresh Debian root'
	@echo 'make format        run clang-format on all C++ files; check-format only checks'
	@echo 'make install       install to PREFIX=$(PREFIX)'
	@echo 'make setup         install all required packages; the other commands call it'
	@echo 'make clean         remove build/release, asan, tsan, neon, fuzz, additions, cuda, pypi, torch2, wasm, rust, dist, packages and the site'

setup:
	@tools/setup.sh test

setup-lab:
	@tools/setup.sh $(if $(filter pypi,$(TORCH)),pypi,lab)

setup-neon:
	@tools/setup.sh neon

setup-wasm:
	@tools/setup.sh wasm

setup-long:
	@tools/setup.sh long

# CMake runs again by itself if its files change. It is run here the first time, if the presets
# change, and if `make lab` ran before `make test`.
configure-release: setup-lab
	@[ $(release)/build.ninja -nt CMakePresets.json ] || cmake --preset release

ifeq ($(TORCH),pypi)
build: setup-lab
	@JOBS=$(JOBS) tools/torch2.sh build
else
build: configure-release
	@cmake --build $(release) -j$(JOBS) --target gnomon-program gnomon-lab
endif

build-tests: setup
	@tools/python.sh tools
	@$(if $(nvcc),tools/python.sh cuda)
	@[ $(release)/build.ninja -nt CMakePresets.json ] && \
	  grep -qs '^GNOMON_TESTS:BOOL=ON' $(release)/CMakeCache.txt && \
	  grep -qsxF 'GNOMON_COMPONENTS:STRING=$(components)' $(release)/CMakeCache.txt || \
	  cmake --preset dev '-DGNOMON_COMPONENTS=$(components)'
	@cmake --build $(release) -j$(JOBS)

build-asan: setup
	@[ $(asan)/build.ninja -nt CMakePresets.json ] || cmake --preset asan
	@cmake --build $(asan) -j$(JOBS)

build-tsan: setup
	@[ $(tsan)/build.ninja -nt CMakePresets.json ] || cmake --preset tsan
	@cmake --build $(tsan) -j$(JOBS)

build-neon: setup-neon
	@[ $(neon)/build.ninja -nt CMakePresets.json ] || cmake --preset neon
	@cmake --build $(neon) -j$(JOBS)

build-fuzz: setup-long
	@[ $(fuzz)/build.ninja -nt CMakePresets.json ] || cmake --preset fuzz
	@cmake --build $(fuzz) -j$(JOBS)

# Builds and runs what `gnomon lab` starts, without the program.
ifeq ($(TORCH),pypi)
lab: setup-lab
	@JOBS=$(JOBS) tools/torch2.sh lab $(LAB_FLAGS)
else
lab: configure-release
	@cmake --build $(release) -j$(JOBS) --target gnomon-lab
	@$(release)/apps/lab/gnomon-lab $(LAB_FLAGS)
endif

# The wheel uses the objects of the build folder.
test: build-tests
	@tools/python.sh wheel $(release)
	@tools/test.sh $(release) -j$(JOBS)

wheel: setup-lab
	@tools/python.sh release

test-python: build-tests
	@tools/python.sh all $(PYTEST_FLAGS)

test-onnx: build-tests
	@nice tests/onnx/check.sh

test-gguf: build-tests
	@tools/python.sh gguf $(PYTEST_FLAGS)

asan: setup
	@tools/python.sh tools
	@[ $(release)/build.ninja -nt CMakePresets.json ] || cmake --preset dev
	@cmake --build $(release) -j$(JOBS) --target gnomon_sanitized_tests gnomon_sanitized_allocation_tests
	@tools/test.sh $(release) -j$(JOBS) -C asan -R '^asan[.]'

test-ggml: setup
	@JOBS=$(JOBS) tests/ggml/check.sh

test-vllm: build-tests
	@tools/python.sh wheel $(release)
	@tests/vllm/check.sh

test-neon: build-neon
	@tools/test.sh $(neon) -j$(JOBS)

test-torch2: setup
	@JOBS=$(JOBS) tools/torch2.sh test $(TORCH_VERSION)

test-long: build-tests
	@tools/python.sh wheel $(release)
	@JOBS=$(JOBS) tools/test_long.sh $(PARTS)

bench: build
	@$(gnomon) bench $(BENCH_FLAGS)

instructions: build-tests
	@tools/instructions.sh $(release)/bench/gnomon_instructions $(UPDATE)

peers: setup
	@bench/peers/run.sh $(PEERS_FLAGS)

gpu:
	@tools/gpu.sh $(GPU_FLAGS)

gpu-bundle: setup
	@JOBS=$(JOBS) tools/gpu_bundle.sh

wasm: setup-wasm
	@JOBS=$(JOBS) tools/wasm.sh

test-wasm: configure-release wasm
	@cmake --build $(release) -j$(JOBS) --target gnomon-recorded
	@GNOMON_RECORDED=$(CURDIR)/$(release)/tests/wasm/gnomon-recorded node --expose-gc --test tests/wasm/*.test.mjs

test-rust: wasm
	@JOBS=$(JOBS) tests/rust/check.sh

test-systems:
	@JOBS=$(JOBS) tests/systems/check.sh
	@tools/abi.sh

site: configure-release wasm
	@tools/setup.sh site
	@JOBS=$(JOBS) tools/site.sh build

test-site: configure-release wasm
	@tools/setup.sh site
	@JOBS=$(JOBS) tools/site.sh test

dist:
	@JOBS=$(JOBS) tools/dist.sh

test-packages: dist
	@tests/packages/check.sh

format: setup
	@tools/check_format.sh --fix

check-format: setup
	@tools/check_format.sh

install: build
	@cmake --install $(program) --prefix $(PREFIX)

clean:
	@rm -rf $(release) $(asan) $(tsan) $(neon) $(fuzz) build/additions build/cuda build/pypi build/torch2 build/rust build/systems build/abi build/wasm build/wasm-objects build/wasm-tools \
	  build/dist build/dist-work build/dist-check build/dist-cache build/packages build/site build/site-work build/site-tools build/site-screenshots
