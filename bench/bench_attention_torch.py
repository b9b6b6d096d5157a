#!/usr/bin/env python3
"""Attention of this library against torch's scaled_dot_product_attention on the CPU in fp32: one thread each, by turns, CPU time.
24 heads of 128, as many keys as rows. Ratio: torch's time over ours; above 1 ours is faster.
usage: bench_attention_torch.py PATH/TO/bench_attention [--json] [--rows N] [--turns N] [--cpu LEVEL]"""
import argparse
import json
import statistics
import subprocess
import time

import torch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("--json", action="store_true")
parser.add_argument("--rows", type=int, default=1088)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--cpu")
options = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(1)
# rows of all heads side by side, as projections leave them and as ours get them
q, k, v = (torch.randn(1, options.rows, 24, 128).transpose(1, 2) for _ in range(3))


def time_torch():
    start = time.thread_time()
    with torch.inference_mode():
        torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return time.thread_time() - start


def time_ours(order):
    command = [options.program, "--json", "--turns", "1", "--order", order, "--rows", str(options.rows)]
    out = subprocess.run(command + (["--cpu", options.cpu] if options.cpu else []), check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    return result["seconds"][0], result["level"], result["gflop"]


time_torch()
results = []
for order in ("attn/k128/f32", "attn/k128/pair"):
    pairs = [(time_ours(order), time_torch()) for _ in range(options.turns)]
    gflop, level = pairs[0][0][2], pairs[0][0][1]
    results.append({
        "order": order, "rows": options.rows, "level": level, "threads": 1, "peer": f"torch {torch.__version__} sdpa fp32",
        "ratio": round(statistics.median(theirs / ours[0] for ours, theirs in pairs), 3),
        "gflops": round(gflop / statistics.median(ours[0] for ours, _ in pairs), 1),
        "peer_gflops": round(gflop / statistics.median(theirs for _, theirs in pairs), 1), "turns": options.turns,
    })
if options.json:
    print(json.dumps({"bench": "attention", "results": results}, indent=2))
else:
    for r in results:
        print(f"{r['order']}, {r['level']}, {r['rows']} rows: {r['gflops']} GFLOP/s; {r['peer']}: {r['peer_gflops']}; ratio {r['ratio']}")
