"""The weights of a model folder, read stage by stage, and the exact symmetries of the model that permute them."""

import json
import os

import numpy as np
import torch
from safetensors import safe_open

from . import files, synth
from .moss_image import Config

WEIGHTS = "diffusion_pytorch_model.safetensors"


class BadModel(ValueError):
    """A folder that is not a MOSS-Image transformer."""


def component_folder(path):
    """`path` itself, or its transformer/: the folder with config.json and the weights."""
    for folder in (os.path.join(path, "transformer"), path):
        if os.path.isfile(os.path.join(folder, "config.json")):
            return folder
    raise BadModel(f"{path}: no config.json there and none in {os.path.join(path, 'transformer')}")


class Weights:
    """Tensors by name, mapped from one file or from shards; nothing is read before it is asked for."""

    def __init__(self, path):
        self.folder = component_folder(path)
        config_path = os.path.join(self.folder, "config.json")
        try:
            with open(config_path, encoding="utf-8") as file:
                self.config = Config.from_dict(json.load(file))
        except (ValueError, TypeError, AttributeError) as error:
            raise BadModel(f"{config_path}: {error}") from error
        index = os.path.join(self.folder, WEIGHTS + ".index.json")
        if os.path.isfile(index):
            with open(index, encoding="utf-8") as file:
                self._where = dict(json.load(file)["weight_map"])
        else:
            self._where = dict.fromkeys(files.read_header(os.path.join(self.folder, WEIGHTS)), WEIGHTS)
        self.files = sorted(set(self._where.values()))
        for name in self.files:
            if "/" in name or "\\" in name:
                raise BadModel(f"{index}: file {name!r} lies outside the folder")
        self._open = {name: safe_open(os.path.join(self.folder, name), "pt") for name in self.files}
        self._check()

    def _check(self):
        wanted = {name: list(shape) for name, shape in synth.shapes(self.config.to_dict()).items()}
        have = set(self._where) - {"rope.bands"}
        missing, extra = sorted(set(wanted) - have), sorted(have - set(wanted))
        wrong = [
            f"{name} {shape} for {wanted[name]}"
            for name, file in self._where.items()
            if name in wanted and (shape := self._open[file].get_slice(name).get_shape()) != wanted[name]
        ]
        if missing or extra or wrong:
            raise BadModel(
                f"{self.folder}: the tensors are not MOSS-Image's for its config.json: missing {missing[:8]}, not known {extra[:8]}, "
                f"other shape {wrong[:8]} ({len(missing)}, {len(extra)}, {len(wrong)} in all)"
            )

    def stage(self, prefixes):
        """{name: tensor} of the tensors whose names begin with one of `prefixes`."""
        return {name: self._open[file].get_tensor(name) for name, file in sorted(self._where.items()) if name.startswith(prefixes)}

    def hashes(self):
        return [
            {"file": name, "sha256": files.sha256(os.path.join(self.folder, name)), "bytes": os.path.getsize(os.path.join(self.folder, name))}
            for name in self.files
        ]


# ---- Symmetries ----


def permutation(name, count, seed):
    """A permutation of `count` that depends on nothing but its name and the seed; never the identity, if count > 1."""
    order = np.argsort(synth.values(name, count, seed), kind="stable")
    if count > 1 and (order == np.arange(count)).all():
        order = np.roll(order, 1)
    return torch.from_numpy(order.astype(np.int64))


def _take(x, rows=None, cols=None):
    if rows is not None:
        x = x.index_select(0, rows)
    return x if cols is None else x.index_select(1, cols)


def _repeat(order, times, size):
    """The same permutation inside each of `times` consecutive parts of `size`."""
    return None if order is None else torch.cat([order + part * size for part in range(times)])


class Symmetry:
    """A change of names that a transformer cannot notice, but for the order of its sums.

    channels   the stream's channels (and those of the time embedding)
    heads      whole heads
    ffn        the units of every FFN (and of the time MLP)
    tokens     image rows and text rows, each with its position; in the blocks the text comes first
    """

    KINDS = {
        "channels": "the residual stream's channels permuted",
        "heads": "the attention heads permuted",
        "ffn": "the units of every FFN permuted",
        "tokens": "the tokens permuted together with their positions",
    }

    def __init__(self, kind, config, image_rows, text_rows, seed):
        self.config = config
        dim = config.dim
        self.channels = self.time = self.heads = self.ffn = self.time_units = self.image = self.text = self.joint = None
        if kind == "channels":
            self.channels, self.time = permutation("permutation.channels", dim, seed), permutation("permutation.time", dim, seed)
        elif kind == "heads":
            order = permutation("permutation.heads", config.num_heads, seed)
            self.heads = (order[:, None] * config.head_dim + torch.arange(config.head_dim)).flatten()
        elif kind == "ffn":
            self.ffn, self.time_units = permutation("permutation.ffn", config.ffn_dim, seed), permutation("permutation.time_units", dim, seed)
        elif kind == "tokens":
            self.image, self.text = permutation("permutation.image", image_rows, seed), permutation("permutation.text", text_rows, seed)
            self.joint = torch.cat((self.text + image_rows, self.image))
        elif kind is not None:
            raise ValueError(f"no symmetry {kind!r}")

    def weight(self, name, x):
        """The tensor `name` of the permuted model."""
        dim, ffn = self.config.dim, self.config.ffn_dim
        module, _, kind = name.rpartition(".")
        leaf = module.rpartition(".")[2]
        c, h, f = self.channels, self.heads, self.ffn
        if module == "text_embedder.proj":
            rows, cols = c, None
        elif module == "time_embedding.0":
            rows, cols = self.time_units, None
        elif module == "time_embedding.2":
            rows, cols = self.time, self.time_units
        else:
            rows, cols = {
                "video_embedder": (c, None),
                "shared_block_modulation": (_repeat(c, 6, dim), self.time),
                "video_head_modulation": (_repeat(c, 2, dim), self.time),
                "norm1": (c, None), "norm2": (c, None), "final_norm_video": (c, None), "q_norm": (None, None), "k_norm": (None, None),
                "qkv": (_repeat(h, 3, dim), c), "q": (h, c), "k": (h, c), "v": (h, c), "o": (c, h), "proj": (c, h),
                "ffn_gate": (f, c), "ffn_up": (f, c), "ffn_up_gate": (_repeat(f, 2, ffn), c), "ffn_down": (c, f),
                "final_linear_video": (None, c),
            }[leaf]  # fmt: skip
        return _take(x, rows, cols if x.ndim == 2 else None)

    def _of(self, node):
        """(rows, cols) of a node's tensor."""
        if node in ("mod", "head_mod"):
            return None, self.channels
        if node == "velocity":
            return self.image, None
        return {"v": self.image, "t": self.text, "x": self.joint}[node[0]], self.channels

    def enter(self, node, x):
        """A node's tensor in the permuted model's order."""
        return _take(x, *self._of(node))

    def leave(self, node, x):
        """…and back."""
        rows, cols = (None if order is None else torch.argsort(order) for order in self._of(node))
        return _take(x, rows, cols)
