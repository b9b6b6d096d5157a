#!/bin/sh
# run_fuzzer.sh FUZZER WORK MAX_LEN SEEDS...: fuzzes for FUZZ_SECONDS (10), keeping what it finds in WORK/corpus and failures in WORK.
set -eu
fuzzer=$1 work=$2 longest=$3
shift 3
mkdir -p "$work/corpus"
# Seeds that are empty or absent would end the run before it starts: say so instead.
for seeds; do
    [ -n "$(ls -A "$seeds")" ] || { echo "no seeds in $seeds" >&2; exit 1; }
done
exec "$fuzzer" -max_total_time="${FUZZ_SECONDS:-10}" -max_len="$longest" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$work/" "$work/corpus" "$@"
