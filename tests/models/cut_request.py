#!/usr/bin/env python3
"""Cut a request down: the first ROWS text rows and latents[:, :SIDE, :SIDE], at another timestep.

    cut_request.py IN.safetensors OUT.safetensors ROWS SIDE T
"""
import json
import struct
import sys

from compare_recorded import Tensors


def main():
    given, rows, side = Tensors(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
    channels, _, width = given.shape("latents")[-3:]
    picture = given.bytes("latents")
    latents = b"".join(picture[4 * (c * len(picture) // (4 * channels) + y * width):][:4 * side] for c in range(channels) for y in range(side))
    text = given.bytes("text", 0, rows * given.shape("text")[-1] * 2)
    parts = [("latents", "F32", [channels, side, side], latents), ("t", "F32", [1], struct.pack("<f", float(sys.argv[5]))),
             ("text", "BF16", [rows, given.shape("text")[-1]], text)]
    head, at = {}, 0
    for name, dtype, shape, data in parts:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[2], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in parts))


if __name__ == "__main__":
    main()
