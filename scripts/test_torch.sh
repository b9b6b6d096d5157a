#!/bin/sh
# Cross-checks against torch: makes a venv, builds the program, runs tests/python. At most 15 minutes on two cores, from nothing.
#   VENV     where the venv lies (default .venv-torch); made on first use, and again when the list of packages below changes
#   VERDIT   the program to check (default: built here, under $BUILD/release)
# Arguments go to pytest: scripts/test_torch.sh -k synth
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv-torch}
build=${BUILD:-build}
packages="torch==2.11.0 numpy safetensors pytest jsonschema"
sglang=sglang==0.5.23

if [ "$(cat "$venv/made-of" 2>/dev/null)" != "$packages $sglang" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $packages
    # One file of SGLang's wheel is read; it is not installed, so any Python does.
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 311 --implementation cp --abi cp311 \
        --platform manylinux_2_34_x86_64 --dest "$venv/wheels" "$sglang"
    echo "$packages $sglang" >"$venv/made-of"
fi

if [ -z "${VERDIT:-}" ]; then
    mkdir -p "$build"
    if ! { cmake -S . -B "$build/release" -G Ninja -DCMAKE_C_COMPILER="${CC:-clang}" && cmake --build "$build/release" --target verdit_cli; } >"$build/torch.log" 2>&1; then
        tail -n 40 "$build/torch.log" >&2
        exit 1
    fi
    VERDIT=$build/release/cli/verdit
fi

VERDIT=$(realpath "$VERDIT") VERDIT_SGLANG_WHEEL=$(ls "$venv"/wheels/sglang-*.whl) exec "$venv/bin/python" -m pytest tests/python --no-header -q -rs "$@"
