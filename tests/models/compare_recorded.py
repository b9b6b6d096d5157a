#!/usr/bin/env python3
"""Compare a run of the synthetic full-size MOSS-Image with torch's own, recorded on an H200.

    compare_recorded.py OUT.safetensors tests/data/moss/run.safetensors    (or t10.safetensors)

OUT is written by `verdit run --match torch2.11-h200 --tap 'time,mod,head_mod,video,text.*,x.*,b20.*'`. Exit status 1 if one byte differs
or a recorded tensor has no counterpart. Python's standard library only.
"""
import json
import struct
import sys


class Tensors:
    def __init__(self, path):
        self.file = open(path, "rb")
        size = struct.unpack("<Q", self.file.read(8))[0]
        self.head = json.loads(self.file.read(size))
        self.head.pop("__metadata__", None)
        self.start = 8 + size

    def shape(self, name):
        return self.head[name]["shape"]

    def bytes(self, name, first=0, count=None):
        begin, end = self.head[name]["data_offsets"]
        self.file.seek(self.start + begin + first)
        return self.file.read(end - begin - first if count is None else count)


def row(tensors, name, index, columns, size=2, first=0, width=None):
    width = columns if width is None else width
    return tensors.bytes(name, (index * columns + first) * size, width * size)


def count_differences(a, b, size):
    return sum(a[i:i + size] != b[i:i + size] for i in range(0, max(len(a), len(b)), size)) if a != b else 0


def main():
    ours, theirs = Tensors(sys.argv[1]), Tensors(sys.argv[2])
    rows = struct.unpack("<10q", theirs.bytes("rows")) if "rows" in theirs.head else ()
    whole = {"time_out": "time", "mod": "mod", "head": "head_mod", "text": "text.1", "velocity": "velocity",
             "text10": "text.1", "text10.block0": "text.0", "text10.block1": "text.1", "velocity10": "velocity"}
    failed = compared = 0
    if "velocity" not in ours.head or ours.shape("velocity") != theirs.shape("velocity" if "velocity" in theirs.head else "velocity10"):
        sys.exit(f"{sys.argv[1]} is no run of the full-size model on the recorded request: its velocity is absent or of another shape")
    for name in sorted(theirs.head, key=lambda n: (not n.startswith("x."), len(n), n)):
        if name in ("rows", "time_in", "rope_cos_rows", "rope_sin_rows"):
            continue  # not nodes: the node tests cover them
        node = whole.get(name) or {"video_rows": "video"}.get(name) or (name.split("_")[0] if name.startswith("b20.att_") else name)
        if node not in ours.head:
            sys.exit(f"{sys.argv[1]} has no {node}: write it with --tap 'time,mod,head_mod,video,text.*,x.*,b20.*'")
        if name in whole:
            size = 4 if name.startswith("velocity") else 2
            pairs = [(ours.bytes(whole[name]), theirs.bytes(name))]
        elif name.startswith("b20.att_"):
            part, head = name[len("b20.att_"):].split(".h")
            node, size = {"q": "b20.q_rot", "k": "b20.k_rot", "v": "b20.v"}[part], 2
            columns = ours.shape(node)[-1]
            which = rows if part == "q" else range(theirs.shape(name)[0])
            pairs = [(row(ours, node, r, columns, 2, int(head) * 128, 128), row(theirs, name, i, 128)) for i, r in enumerate(which)]
        else:
            node, size = {"video_rows": "video"}.get(name, name), 2
            columns = theirs.shape(name)[-1]
            pairs = [(row(ours, node, rows[i], columns), row(theirs, name, i, columns)) for i in range(theirs.shape(name)[0])]
        if any(len(a) != len(b) for a, b in pairs):
            sys.exit(f"{sys.argv[1]}: what stands for {name} has another size")
        differ = sum(count_differences(a, b, size) for a, b in pairs)
        total = sum(len(b) for _, b in pairs) // size
        compared += total
        failed += differ
        print(f"{name:16} {differ:8} of {total} differ")
    print(f"{compared} values compared, {failed} differ from torch's")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
