"""Files: safetensors written deterministically, everything written aside and renamed. Standard library only."""

import contextlib
import hashlib
import json
import os
import shutil

SIZES = {"F64": 8, "F32": 4, "BF16": 2, "I64": 8, "I32": 4, "U16": 2, "U8": 1}


class CannotRecord(Exception):
    """What was asked for cannot be done as asked."""


@contextlib.contextmanager
def replacing(path):
    """A binary file that appears under its name only when it is complete."""
    aside = f"{path}.partial-{os.getpid()}"
    try:
        with open(aside, "xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, data)}; data has the buffer interface, or is a function that returns such (called in order of names, so that
    only one tensor need be in memory). Names ascending, no gaps, the header padded with spaces to 8 bytes."""
    header, offset = {}, 0
    for name in sorted(tensors):
        dtype, shape, _ = tensors[name]
        size = SIZES[dtype]
        for extent in shape:
            size *= int(extent)
        header[name] = {"dtype": dtype, "shape": [int(extent) for extent in shape], "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for name in sorted(tensors):
            data = tensors[name][2]
            data = memoryview(data() if callable(data) else data)
            begin, end = header[name]["data_offsets"]
            if data.nbytes != end - begin or not data.c_contiguous:
                raise ValueError(f"{path}: {name}: {data.nbytes} bytes given, {end - begin} expected")
            out.write(data.cast("B") if data.nbytes else b"")


def read_header(path):
    """{name: (dtype, shape, begin, end)} with file offsets."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ValueError(f"{path}: header of {length} bytes in a file of {size}")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    start = 8 + length
    return {
        name: (entry["dtype"], tuple(entry["shape"]), start + entry["data_offsets"][0], start + entry["data_offsets"][1])
        for name, entry in header.items()
    }


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


class Folder:
    """A case folder that appears whole or not at all."""

    def __init__(self, path, replace):
        self.path, self.replace = os.path.normpath(path), replace
        if os.path.islink(self.path):
            raise CannotRecord(f"{path}: is a link: give the folder itself")
        if os.path.exists(self.path) and not replace:
            raise CannotRecord(f"{path}: exists: give --force to replace it")
        if (
            os.path.exists(self.path)
            and not os.path.isfile(os.path.join(self.path, "case.json"))
            and (not os.path.isdir(self.path) or os.listdir(self.path))
        ):
            raise CannotRecord(f"{path}: exists and is no case: it is not replaced")

    def __enter__(self):
        self.aside = f"{self.path}.partial-{os.getpid()}"
        os.makedirs(self.aside)
        return self.aside

    def __exit__(self, kind, *_):
        if kind:
            shutil.rmtree(self.aside, ignore_errors=True)
            return
        old = None
        if os.path.exists(self.path):
            old = f"{self.path}.old-{os.getpid()}"
            os.rename(self.path, old)
        os.rename(self.aside, self.path)
        if old:
            shutil.rmtree(old)
