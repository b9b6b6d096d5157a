#!/bin/sh
# Builds and runs the tests, step by step: scripts/test.sh [STEP...], by default all but the last:
#   release   clang, as installed; every test but the long ones
#   gcc       the other compiler, warnings as errors; quick tests
#   asan      AddressSanitizer and UndefinedBehaviorSanitizer; quick tests (golden ones repeat the same code on more data)
#   badluck   tiny tiles, shuffled work, 1 to 5 threads; quick and golden tests: no byte may change
#   fuzz      each fuzzer for a short run, under both sanitizers
#   arm       the generic level for aarch64; contracts, kernels, readers and forward under emulation
#   long      full-size runs and long fuzzing, before a release
# Every step runs even when an earlier one failed; the exit status says whether all held.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
clang=${CC:-clang}
jobs=$(nproc)
slow="golden|long|fuzz" # labels; a test without one is quick
mkdir -p "$build"
failed=
lines=

# configure_and_build NAME CMAKE_ARGUMENT...: everything, or $target
target=all
configure_and_build() {
    name=$1
    shift
    cmake -S . -B "$build/$name" -G Ninja "$@" >"$build/$name.log" 2>&1 &&
        cmake --build "$build/$name" --target "$target" >>"$build/$name.log" 2>&1 && return
    tail -n 60 "$build/$name.log" >&2
    return 1
}

# run_ctest NAME CTEST_ARGUMENT...
run_ctest() {
    name=$1
    shift
    rm -f "$build/$name.ctest"
    ctest --test-dir "$build/$name" -j "$jobs" --output-on-failure --no-tests=error --output-log "$(realpath "$build")/$name.ctest" "$@"
}

run_step() {
    target=all
    case $1 in
    release)
        configure_and_build release -DCMAKE_C_COMPILER="$clang" && run_ctest release -LE "long|fuzz"
        ;;
    gcc)
        configure_and_build gcc -DCMAKE_C_COMPILER=gcc && run_ctest gcc -LE "$slow"
        ;;
    asan)
        configure_and_build asan -DCMAKE_C_COMPILER="$clang" -DVERDIT_SANITIZE=ON && run_ctest asan -LE "$slow"
        ;;
    badluck)
        configure_and_build badluck -DCMAKE_C_COMPILER="$clang" -DVERDIT_BAD_LUCK=ON && run_ctest badluck -LE "long|fuzz"
        ;;
    fuzz)
        target=tests/fuzz/all
        configure_and_build fuzz -DCMAKE_C_COMPILER=clang -DVERDIT_SANITIZE=ON -DVERDIT_FUZZ=ON && run_ctest fuzz -L fuzz
        ;;
    arm)
        scripts/arm_sysroot.sh "$build/arm64-sysroot" &&
            configure_and_build arm64 -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" -DVERDIT_SYSROOT="$(realpath "$build")/arm64-sysroot" &&
            run_ctest arm64 -R "^test_" -E "gate|harness|recorded|alloc"
        ;;
    long)
        configure_and_build release -DCMAKE_C_COMPILER="$clang" && run_ctest release -L long &&
            target=tests/fuzz/all configure_and_build fuzz -DCMAKE_C_COMPILER=clang -DVERDIT_SANITIZE=ON -DVERDIT_FUZZ=ON &&
            FUZZ_SECONDS=${FUZZ_SECONDS:-600} run_ctest fuzz -L fuzz --timeout 3600
        ;;
    *)
        echo "test.sh: no step '$1'; steps are release, gcc, asan, badluck, fuzz, arm, long" >&2
        return 2
        ;;
    esac
}

[ $# -gt 0 ] || set -- release gcc asan badluck fuzz arm
rm -f "$build"/*.ctest
for step; do
    echo "== $step"
    begin=$(date +%s)
    if run_step "$step"; then verdict=passed; else verdict=FAILED failed="$failed $step"; fi
    lines="$lines$(printf '\n%-8s %s in %d s' "$step" "$verdict" $(($(date +%s) - begin)))"
done

echo "== steps$lines"
# ctest's "90% tests passed, 1 tests failed out of 10", added up.
cat "$build"/*.ctest 2>/dev/null |
    awk '/ tests passed, .* tests failed out of / { bad += $4; all += $NF } END { printf "%d passed, %d failed\n", all - bad, bad }'
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
