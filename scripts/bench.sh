#!/bin/sh
# Builds and runs the benchmarks, one thread each: ratios to named peers in the same run. Arguments go to every program (--json, --cpu LEVEL).
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
mkdir -p "$build"
if ! { cmake -S . -B "$build/bench" -G Ninja -DCMAKE_C_COMPILER="${CC:-clang}" -DVERDIT_BENCH=ON -DVERDIT_TESTS=OFF && cmake --build "$build/bench"; } >"$build/bench.log" 2>&1; then
    tail -n 40 "$build/bench.log" >&2
    exit 1
fi
for name in bench_tc16 bench_fma bench_rows bench_attention; do
    printf '\n== %s\n' "$name"
    if [ -x "$build/bench/bench/$name" ]; then
        OMP_NUM_THREADS=1 "$build/bench/bench/$name" "$@"
    else
        echo "not built: see $build/bench.log"
    fi
done
venv=${VENV:-.venv-torch}
if [ -x "$venv/bin/python" ]; then
    printf '\n== attention against torch\n'
    "$venv/bin/python" bench/bench_attention_torch.py "$build/bench/bench/bench_attention" "$@"
else
    echo "attention against torch: not run, make test-torch makes the venv that it needs"
fi
