#!/bin/sh
# make demo: from a bare machine to a verdict on the embedded model. Output goes to $BUILD/demo.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
clang=${CC:-clang}
model=models/moss-small
case=$model/case-bf16
out=$build/demo
verdit=$build/release/cli/verdit

say() { printf '\n== %s\n' "$*"; }
# show COMMAND: prints it as one would type it, then runs it.
show() {
    printf '$ %s\n' "$*"
    "$@"
}

say "Building ($build/release)"
mkdir -p "$build"
if ! { cmake -S . -B "$build/release" -G Ninja -DCMAKE_C_COMPILER="$clang" && cmake --build "$build/release" --target verdit_cli; } >"$build/demo.log" 2>&1; then
    tail -n 40 "$build/demo.log" >&2
    exit 1
fi
mkdir -p "$out"
rm -f "$out"/*

say "The embedded model: what it holds, what a run would take"
printf '$ %s\n' "$verdit info $model"
"$verdit" info "$model" >"$out/info.txt"
sed -n 1,4p "$out/info.txt"
echo "  … and its $(grep -c '^  ' "$out/info.txt") tensors"

say "One forward of the model, with a receipt"
show "$verdit" run -m "$model" -i "$case/inputs.safetensors" -o "$out/velocity.safetensors"

say "The same bytes again, from the receipt"
show "$verdit" verify "$out/velocity.safetensors.receipt.json"

say "The gate: every node against float32 as recorded from torch; which nodes equal torch's bytes"
show "$verdit" gate "$case" --html "$out/report.html"

say "The same with a fault planted: one row 5% off in block 3. It has to be caught, there"
status=0
show "$verdit" gate "$case" --plant row-5%@b3 --html "$out/planted.html" || status=$?
if [ "$status" != 1 ]; then
    echo "demo.sh: the planted fault must end with exit status 1, not $status" >&2
    exit 70
fi
echo "(exit status 1, as it must be)"

say "Reports"
echo "  $out/report.html    every node's error against its limits"
echo "  $out/planted.html   the same with the planted fault"

say "What to try next"
try() { printf '  %s\n      %s\n' "$1" "$2"; }
try "$verdit gate $case --plant list" "the faults that can be planted; try one in another place"
try "$verdit contract" "what is promised, proved on this machine"
try "$verdit info YOUR_MODEL_FOLDER" "a full-size MOSS-Image folder: sizes and memory, before any load"
try "$verdit synth /tmp/tiny --shape tiny" "a model from a seed: the same bytes on any machine"
try "make test" "all proofs (at most 20 minutes on two cores)"
try "docs/porting.md, docs/torch_bits.md" "how to hold your own port against this; how a CPU has a GPU's bits"
