# Two commands for a fresh Debian 12 machine: `make lab` and `make test`. Each installs what is
# missing, builds what is out of date, and goes. Everything made lies under build/.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
LAB_FLAGS ?=

release := build/release
asan := build/asan
neon := build/neon
fuzz := build/fuzz
gnomon := $(release)/apps/cli/gnomon

.PHONY: help setup setup-lab setup-neon setup-long build lab test build-tests build-asan \
        build-asan-apps build-neon build-fuzz asan test-neon test-torch2 test-long bench instructions peers format \
        check-format install clean
.DEFAULT_GOAL := help

help:
	@echo 'make lab           train and compare encodings on the novels in data/, write a report'
	@echo 'make test          build and run every test, those of the library also under the sanitizers'
	@echo 'make build         the program: $(gnomon)'
	@echo 'make bench         build and run the benchmarks'
	@echo 'make instructions  what kernels execute, counted, against what is kept'
	@echo 'make asan          only the tests under the sanitizers'
	@echo 'make test-neon     the library for 64-bit ARM, its tests under emulation'
	@echo 'make test-torch2   adapter and lab with the LibTorch of the newest torch wheel (a download of 1 to 6 GB)'
	@echo 'make test-long     program and lab under the sanitizers; every test on each instruction set, shuffled'
	@echo '                   and repeated; NEON; fuzzing; the component core in a fresh Debian root'
	@echo 'make peers         time Gnomon beside what PyPI offers, write docs/benchmarks.md'
	@echo 'make format        clang-format over all C++; check-format only looks'
	@echo 'make install       to PREFIX=$(PREFIX)'
	@echo 'make setup         install what all of these need; they call it themselves'
	@echo 'make clean         remove build/release, build/asan, build/asan-apps, build/neon, build/fuzz and build/torch2'

setup:
	@tools/setup.sh test

setup-lab:
	@tools/setup.sh lab

setup-neon:
	@tools/setup.sh neon

setup-long:
	@tools/setup.sh long

# CMake runs itself again when its files change; here it only needs a first time, and another
# when the presets change or when `make lab` came before `make test`.
build: setup-lab
	@[ $(release)/build.ninja -nt CMakePresets.json ] || cmake --preset release
	@cmake --build $(release) -j$(JOBS) --target gnomon-program gnomon-lab

build-tests: setup
	@[ $(release)/build.ninja -nt CMakePresets.json ] && \
	  grep -qs '^GNOMON_TESTS:BOOL=ON' $(release)/CMakeCache.txt || cmake --preset dev
	@cmake --build $(release) -j$(JOBS)

build-asan: setup
	@[ $(asan)/build.ninja -nt CMakePresets.json ] || cmake --preset asan
	@cmake --build $(asan) -j$(JOBS)

build-asan-apps: setup
	@[ build/asan-apps/build.ninja -nt CMakePresets.json ] || cmake --preset asan-apps
	@cmake --build build/asan-apps -j$(JOBS) --target gnomon_cli_tests gnomon_torch_tests

build-neon: setup-neon
	@[ $(neon)/build.ninja -nt CMakePresets.json ] || cmake --preset neon
	@cmake --build $(neon) -j$(JOBS) --target gnomon_tests

build-fuzz: setup-long
	@[ $(fuzz)/build.ninja -nt CMakePresets.json ] || cmake --preset fuzz
	@cmake --build $(fuzz) -j$(JOBS)

lab: build
	$(gnomon) lab $(LAB_FLAGS)

# One ctest run over both build folders, so that its last lines count everything.
test: build-tests build-asan
	@echo 'subdirs(release asan)' >build/CTestTestfile.cmake
	@ctest --test-dir build --output-on-failure -j$(JOBS)

asan: build-asan
	@ctest --test-dir $(asan) --output-on-failure -j$(JOBS)

test-neon: build-neon
	@ctest --test-dir $(neon) --output-on-failure -j$(JOBS)

test-torch2: setup
	@JOBS=$(JOBS) tools/torch2.sh $(TORCH_VERSION)

test-long: build-tests build-asan-apps build-fuzz test-neon
	@ctest --test-dir build/asan-apps --output-on-failure -j$(JOBS) -R '^asan[.]'
	@tools/test_long.sh $(release) $(fuzz)
	@tools/clean_root.sh

bench: build-tests
	@$(release)/bench/gnomon_bench $(BENCH_FLAGS)

instructions: build-tests
	@tools/instructions.sh $(release)/bench/gnomon_instructions $(UPDATE)

peers: setup
	@bench/peers/run.sh $(PEERS_FLAGS)

format: setup
	@tools/check_format.sh --fix

check-format: setup
	@tools/check_format.sh

install: build
	@cmake --install $(release) --prefix $(PREFIX)

clean:
	@rm -rf $(release) $(asan) build/asan-apps $(neon) $(fuzz) build/torch2
