"""Synthetic models: every tensor is a function of its name, a flat index and a seed, in numpy. `verdit synth` makes the same bytes.

Value i of a tensor: SplitMix64's output for the state (FNV-1a of the name, xor seed) + (i + 1) * golden, its upper 16 bits as v in [-32768, 32767];
x = offset + v * 2^-15 * s. bf16 tensors are numpy uint16 arrays of bit patterns.
"""

import json
import os

import numpy as np

from . import files

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
MASSIVE = ((1356, 300.0), (77, -140.0))
CHUNK = 1 << 22


def base_state(name, seed):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h ^ (seed & MASK)


def values(name, count, seed, start=0):
    """int32 v of the elements start … start + count - 1."""
    index = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(base_state(name, seed)) + index * np.uint64(GOLDEN)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(48)).astype(np.int32) - 32768


def to_bf16(x):
    """float32 -> bf16 bits, to nearest even (finite values)."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bf16(bits):
    return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def scale_and_offset(name, shape):
    if len(shape) == 2 and name.endswith(".weight"):
        power = -1
        while 3 * 4 ** (power + 1) <= shape[1]:  # floor(log2(sqrt(K / 3)))
            power += 1
        return 2.0 ** -(power + ("modulation" in name)), 0.0
    if "norm" in name:
        return 0.25, 2.0 if "q_norm" in name or "k_norm" in name else 1.0
    return 0.125, 0.0


def tensor(name, shape, seed):
    """The bf16 bits of one tensor of the model."""
    count = int(np.prod(shape, dtype=np.int64))
    scale, offset = scale_and_offset(name, shape)
    out = np.empty(count, np.uint16)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        x = np.float32(offset) + values(name, stop - start, seed, start).astype(np.float32) * np.float32(2.0**-15 * scale)
        if len(shape) == 1:
            _special(name, x, start, count)
        out[start:stop] = to_bf16(x)
    return out.reshape(shape)


def _special(name, x, start, count):
    """Massive channels, gates and the weights that carry them: changes elements start … of a 1-D tensor in place."""

    def at(index):
        return index - start if index < count and start <= index < start + len(x) else None

    if name in ("video_embedder.bias", "text_embedder.proj.bias"):
        for index, gain in MASSIVE:
            if at(index) is not None:
                x[at(index)] += np.float32(gain)
    if name == "shared_block_modulation.bias":
        sixth = (np.arange(start, start + len(x)) * 6) // count
        x[(sixth == 2) | (sixth == 5)] += np.float32(0.5)
    if name.endswith(("norm1.weight", "norm2.weight", "final_norm_video.weight")):
        x *= np.float32(4)
        for index, _ in MASSIVE:
            if at(index) is not None:
                x[at(index)] = np.float32(0.0625)


def shapes(config):
    """{name: shape} of every bf16 tensor; config is a dict with config.json's keys."""
    dim, ffn, head = config["dim"], config["ffn_dim"], config["dim"] // config["num_heads"]
    out = {}

    def linear(name, rows, cols, bias=True):
        out[name + ".weight"] = (rows, cols)
        if bias:
            out[name + ".bias"] = (rows,)

    def norms(prefix):
        for name, size in (("norm1", dim), ("norm2", dim), ("q_norm", head), ("k_norm", head)):
            out[f"{prefix}.{name}.weight"] = (size,)

    linear("video_embedder", dim, config["latent_channels"])
    linear("text_embedder.proj", dim, config["text_dim"])
    for i in range(2):
        prefix = f"text_embedder.blocks.{i}"
        norms(prefix)
        for name, rows, cols in (("qkv", 3 * dim, dim), ("proj", dim, dim), ("ffn_gate", ffn, dim), ("ffn_up", ffn, dim), ("ffn_down", dim, ffn)):
            linear(f"{prefix}.{name}", rows, cols)
    linear("time_embedding.0", dim, config["freq_dim"])
    linear("time_embedding.2", dim, dim)
    linear("shared_block_modulation", 6 * dim, dim)
    linear("video_head_modulation", 2 * dim, dim)
    for i in range(config["num_layers"]):
        prefix = f"layers.{i}"
        norms(prefix)
        for name in "qkvo":
            linear(f"{prefix}.proj.{name}", dim, dim, bias=False)
        linear(f"{prefix}.proj.ffn_up_gate", 2 * ffn, dim, bias=False)
        linear(f"{prefix}.proj.ffn_down", dim, ffn, bias=False)
    out["final_norm_video.weight"] = (dim,)
    linear("final_linear_video", config["latent_channels"], dim, bias=False)
    return out


def bands(config):
    """e = fp32(j / n), p = fp32(base^e), fp32(1 / p): the power in double, rounded once."""
    count = config["dim"] // config["num_heads"] // 8
    exponent = np.arange(count, dtype=np.float32) / np.float32(count)
    power = (np.float64(config["rope_base"]) ** exponent.astype(np.float64)).astype(np.float32)
    return np.float32(1) / power


def latents(channels, h, w, seed):
    """float32 [C, h, w]"""
    return (values("input.latents", channels * h * w, seed).astype(np.float32) * np.float32(2.0**-14)).reshape(channels, h, w)


def text(rows, text_dim, seed):
    """bf16 bits [T, text_dim]"""
    return to_bf16(values("input.text", rows * text_dim, seed).astype(np.float32) * np.float32(2.0**-14)).reshape(rows, text_dim)


def write_folder(path, config, seed):
    """config.json and diffusion_pytorch_model.safetensors in `path` (made if need be)."""
    os.makedirs(path, exist_ok=True)
    tensors = {name: ("BF16", shape, lambda name=name, shape=shape: tensor(name, shape, seed)) for name, shape in shapes(config).items()}
    table = bands(config)
    tensors["rope.bands"] = ("F32", table.shape, lambda: table)
    files.write_safetensors(os.path.join(path, "diffusion_pytorch_model.safetensors"), tensors)
    with files.replacing(os.path.join(path, "config.json")) as out:
        out.write((json.dumps({"_class_name": "MOSSImageTransformer"} | config, indent=2) + "\n").encode())
