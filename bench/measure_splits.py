#!/usr/bin/env python3
"""Where does torch's bf16 linear leave one ascending chain on this GPU, and how does it split K there?

    python3 bench/measure_splits.py [OUT.json]

For every shape of MOSS-Image and every number of rows M it compares F.linear with (a) the chain: the same rows inside a call of 1,088 rows,
which runs unsplit (checked against itself at 4,352 rows), and (b) S equal slices of K, each a chain, added ascending in fp32, then bias, then
one rounding. Prints ranges of M per S; "?" is none of them. The table in src/models/match.c comes from this. Needs a CUDA GPU and torch.
"""
import json
import sys

import torch
import torch.nn.functional as F

SHAPES = [  # n, k, bias
    (3072, 3072, False), (16384, 3072, False), (3072, 8192, False), (128, 3072, False),
    (3072, 128, True), (3072, 4096, True), (9216, 3072, True), (3072, 3072, True), (8192, 3072, True), (3072, 8192, True),
    (3072, 256, True), (18432, 3072, True), (6144, 3072, True),
]
ROWS = sorted(set(range(1, 1101)) | set(range(1104, 8193, 16)) | set(range(8192, 16385, 256)))
BASE = 1088


def chain(x, w):
    """fp32 sums in the chain's order, whatever the number of rows."""
    m = x.shape[0]
    rows = max(BASE, (m + 63) // 64 * 64)
    padded = torch.zeros(rows, x.shape[1], dtype=x.dtype, device=x.device)
    padded[:m] = x
    return torch.mm(padded, w.t(), out_dtype=torch.float32)[:m]


def split(x, w, slices):
    k = x.shape[1] // slices
    total = chain(x[:, :k].contiguous(), w[:, :k].contiguous())
    for i in range(1, slices):
        total = total + chain(x[:, i * k:(i + 1) * k].contiguous(), w[:, i * k:(i + 1) * k].contiguous())
    return total


def ranges(found):
    out = []
    for m, s in found:
        if out and out[-1][2] == s:
            out[-1][1] = m
        else:
            out.append([m, m, s])
    return out


def main():
    torch.manual_seed(1)
    result = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name(), "shapes": []}
    for n, k, has_bias in SHAPES:
        w = (torch.randn(n, k, device="cuda") * 0.02).bfloat16()
        b = torch.randn(n, device="cuda").bfloat16() if has_bias else None
        x_all = torch.randn(max(ROWS), k, device="cuda").bfloat16()
        wants = {}
        for s in (1, 2, 3, 4, 6, 8):
            if k % (16 * s) == 0:
                total = split(x_all, w, s)
                wants[s] = (total + b.float() if has_bias else total).bfloat16()
                del total
        found = []
        for m in ROWS:
            left = list(wants)  # few rows may suit two answers: several sets of rows tell them apart
            for first in range(0, max(1, min(x_all.shape[0] - m + 1, 64 if m < 32 else 4)), 1 if m >= 32 else 2):
                y = F.linear(x_all[first:first + m].contiguous(), w, b)
                left = [s for s in left if torch.equal(y, wants[s][first:first + m])]
            found.append((m, left[0] if len(left) == 1 else "?" if not left else "|".join(map(str, left))))
        rows = ranges(found)
        result["shapes"].append({"n": n, "k": k, "bias": has_bias, "ranges": rows})
        print(f"{n} x {k} {'bias' if has_bias else '    '}:", " ".join(f"{a}-{z}:{s}" if a != z else f"{a}:{s}" for a, z, s in rows), flush=True)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
