# Verdit behind one short Makefile; the real build is CMakeLists.txt. CC, BUILD, PREFIX and DESTDIR may be set on the command line.
CC     = clang
BUILD  = build
PREFIX = /usr/local

help: ## list these targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the Debian packages that building and testing need
	@scripts/install_deps.sh build test arm torch

build: ## build library and program into $(BUILD)/release
	@scripts/install_deps.sh build
	@CC="$(CC)" cmake -S . -B $(BUILD)/release -G Ninja -DCMAKE_INSTALL_PREFIX="$(PREFIX)" $(CMAKE_ARGS)
	@cmake --build $(BUILD)/release

demo: ## from nothing to a verdict: build, run and gate the embedded model, catch a planted fault, write a report
	@scripts/install_deps.sh build
	@BUILD="$(BUILD)" CC="$(CC)" scripts/demo.sh

test: ## everything that needs no torch and no GPU (at most 20 minutes on two cores); STEPS="release asan" picks
	@scripts/install_deps.sh build test arm
	@BUILD="$(BUILD)" CC="$(CC)" scripts/test.sh $(STEPS)

test-torch: ## cross-checks against torch, in a venv made on first use (at most 15 minutes)
	@scripts/install_deps.sh build test torch
	@BUILD="$(BUILD)" CC="$(CC)" scripts/test_torch.sh

test-long: ## the full-size model and long fuzzing, before a release
	@scripts/install_deps.sh build test
	@BUILD="$(BUILD)" CC="$(CC)" scripts/test.sh long

bench: ## ratios to named peers (oneDNN, OpenBLAS), one thread
	@scripts/install_deps.sh build test bench
	@BUILD="$(BUILD)" CC="$(CC)" scripts/bench.sh

install: ## install below PREFIX (header, libraries, pkg-config and CMake files, program, manual); builds no tests
	@scripts/install_deps.sh build
	@CC="$(CC)" cmake -S . -B $(BUILD)/release -G Ninja -DCMAKE_INSTALL_PREFIX="$(PREFIX)" $(CMAKE_ARGS)
	@cmake --build $(BUILD)/release --target verdit verdit_shared verdit_cli
	@cmake --install $(BUILD)/release --prefix "$(PREFIX)"

clean: ## remove the build folder
	@rm -rf $(BUILD)

.PHONY: help deps build demo test test-torch test-long bench install clean
