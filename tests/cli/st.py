#!/usr/bin/env python3
"""Small things that golden scripts do to safetensors files, with nothing but Python's library.

    st.py merge OUT FILE[:NAME[=NEWNAME]]...   tensors of several files in one
    st.py same FILE:NAME FILE:NAME [ROWS]      equal bytes? ROWS: those rows of the first, in this order, are the second
    st.py flip FILE NAME BYTE                  changes one bit
    st.py hash FILE NAME                       SHA-256 of a tensor's bytes
    st.py make OUT NAME=TYPE:SHAPE[:FILL]...   new tensors; FILL: zero (default), ramp, nan
    st.py reseal RECEIPT KEY.KEY…=JSON...      changes values in a receipt and seals it again, as somebody who means harm would
"""
import hashlib
import json
import struct
import sys

SIZES = {"F32": 4, "BF16": 2, "F64": 8, "I64": 8, "F16": 2, "U8": 1}


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for name, t in header.items()}


def write(path, tensors):
    header, at = {}, 0
    for name in sorted(tensors):
        dtype, shape, data = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(tensors[name][2] for name in sorted(tensors)))


def merge(out, *parts):
    tensors = {}
    for part in parts:
        path, _, name = part.partition(":")
        name, _, new = name.partition("=")
        tensors.update({new or name: read(path)[name]} if name else read(path))
    write(out, tensors)


def same(first, second, rows=None):
    one, two = (read(path)[name] for path, name in (item.split(":") for item in (first, second)))
    data = one[2]
    if rows:
        width = len(data) // one[1][0]
        data = b"".join(data[width * int(row):width * int(row) + width] for row in rows.split(","))
    print("same" if data == two[2] else "different")


def flip(path, name, byte):
    tensors = read(path)
    dtype, shape, data = tensors[name]
    data = bytearray(data)
    data[int(byte)] ^= 1
    tensors[name] = (dtype, shape, bytes(data))
    write(path, tensors)


def digest(path, name):
    print(hashlib.sha256(read(path)[name][2]).hexdigest())


def make(out, *specs):
    tensors = {}
    for spec in specs:
        name, _, rest = spec.partition("=")
        dtype, shape, fill = (rest.split(":") + ["zero"])[:3]
        shape = [int(d) for d in shape.split("x")] if shape else []
        count = 1
        for d in shape:
            count *= d
        if dtype in ("F32", "BF16"):
            values = {"zero": [0.0] * count, "ramp": [(i % 17 - 8) / 4 for i in range(count)], "nan": [float("nan")] * count}[fill]
            data = struct.pack(f"<{count}f", *values)
            if dtype == "BF16":
                data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
        else:
            data = bytes(count * SIZES[dtype])
        tensors[name] = (dtype, shape, data)
    write(out, tensors)


def reseal(path, *changes):
    with open(path, encoding="utf-8") as file:
        receipt = json.load(file)
    for change in changes:
        keys, _, value = change.partition("=")
        *way, last = [int(key) if key.isdigit() else key for key in keys.split(".")]
        place = receipt
        for key in way:
            place = place[key]
        place[last] = json.loads(value)
    receipt.pop("seal")
    receipt["seal"] = hashlib.sha256(json.dumps(receipt, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
    with open(path, "w", encoding="utf-8") as file:
        json.dump(receipt, file, indent=2, ensure_ascii=False)


{"merge": merge, "same": same, "flip": flip, "hash": digest, "make": make, "reseal": reseal}[sys.argv[1]](*sys.argv[2:])
