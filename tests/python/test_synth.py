"""Synthetic models: the law, and the program's bytes."""

import json
import subprocess

import numpy as np
import torch
from safetensors import safe_open

from conftest import SMALL
from verdit import files, synth


def test_the_law():
    assert synth.values("a", 6, 1).tolist() == [16636, -4216, 22298, -8382, -5621, 30349]
    assert synth.values("a", 3, 1, start=3).tolist() == [-8382, -5621, 30349]
    assert synth.values("language_model.layers.0.linear_attn.A_log", 4, 1).tolist() == [-25275, 6080, 521, 23206]
    assert synth.scale_and_offset("layers.0.proj.q.weight", (8, 3072)) == (2.0**-5, 0.0)
    assert synth.scale_and_offset("layers.0.proj.q.weight", (8, 3071)) == (2.0**-4, 0.0)
    assert synth.scale_and_offset("shared_block_modulation.weight", (8, 3072)) == (2.0**-6, 0.0)
    assert synth.scale_and_offset("x.weight", (8, 1)) == (2.0, 0.0)
    assert synth.scale_and_offset("layers.0.q_norm.weight", (8,)) == (0.25, 2.0)
    assert synth.scale_and_offset("layers.0.norm1.weight", (8,)) == (0.25, 1.0)


def test_massive_channels_and_gates():
    bias = synth.from_bf16(synth.tensor("video_embedder.bias", (3072,), 1))
    assert sorted(np.argsort(-abs(bias))[:2].tolist()) == [77, 1356] and bias[77] < -139 and bias[1356] > 299
    assert abs(synth.from_bf16(synth.tensor("video_embedder.bias", (64,), 1))).max() < 0.13
    assert synth.from_bf16(synth.tensor("layers.0.norm1.weight", (3072,), 1))[[77, 1356]].tolist() == [0.0625, 0.0625]
    sixths = synth.from_bf16(synth.tensor("shared_block_modulation.bias", (600,), 1)).reshape(6, 100).mean(1)
    assert (abs(sixths - np.array([0, 0, 0.5, 0, 0, 0.5])) < 0.03).all()


def test_rounding_is_torchs():
    x = np.concatenate(
        [synth.values("round", 100000, 1).astype(np.float32) * np.float32(1.0009765625), np.float32([0, -0.0, 1.00390625, 1.01171875, 3e38])]
    )
    ours = torch.from_numpy(synth.to_bf16(x)).view(torch.bfloat16)
    assert torch.equal(ours, torch.from_numpy(x).to(torch.bfloat16))


def test_chunks_do_not_show(monkeypatch):
    names = {
        "video_embedder.bias": (300,),
        "shared_block_modulation.bias": (1536,),
        "layers.0.norm1.weight": (300,),
        "video_embedder.weight": (300, 16),
    }
    whole = {name: synth.tensor(name, shape, 3) for name, shape in names.items()}
    monkeypatch.setattr(synth, "CHUNK", 37)
    for name, shape in names.items():
        assert (synth.tensor(name, shape, 3) == whole[name]).all(), name


def test_the_embedded_model_is_seed_1():
    config = json.loads((SMALL / "transformer" / "config.json").read_text())
    with safe_open(SMALL / "transformer" / "diffusion_pytorch_model.safetensors", "pt") as model:
        shapes = synth.shapes(config)
        assert set(model.keys()) == set(shapes) | {"rope.bands"}
        for name, shape in shapes.items():
            assert (model.get_tensor(name).view(torch.uint16).numpy() == synth.tensor(name, shape, 1)).all(), name


def test_the_programs_bytes(program, tmp_path):
    """`verdit synth` makes the same folder, tensor by tensor, and the same inputs."""
    request = tmp_path / "in.safetensors"
    subprocess.run(
        [
            program,
            "synth",
            tmp_path / "c",
            "--shape",
            "small",
            "--seed",
            "7",
            "--inputs",
            request,
            "--latents",
            "3x5",
            "--text-rows",
            "9",
            "--t",
            "910",
        ],
        check=True,
        capture_output=True,
    )
    path = next((tmp_path / "c").rglob("config.json"))
    config = {key: value for key, value in json.loads(path.read_text()).items() if not key.startswith("_")}
    synth.write_folder(tmp_path / "py", config, 7)
    theirs, ours = (files.read_header(folder / "diffusion_pytorch_model.safetensors") for folder in (path.parent, tmp_path / "py"))
    assert list(theirs) == list(ours)
    a, b = ((folder / "diffusion_pytorch_model.safetensors").read_bytes() for folder in (path.parent, tmp_path / "py"))
    for name in ours:
        (dtype, shape, begin, end), (dtype2, shape2, begin2, end2) = theirs[name], ours[name]
        assert (dtype, shape) == (dtype2, shape2) and a[begin:end] == b[begin2:end2], name
    with safe_open(request, "pt") as made:
        assert (made.get_tensor("latents").numpy().view(np.uint32) == synth.latents(config["latent_channels"], 3, 5, 7).view(np.uint32)).all()
        assert (made.get_tensor("text").view(torch.uint16).numpy() == synth.text(9, config["text_dim"], 7)).all()
        assert made.get_tensor("t").tolist() == [910.0]
