import os
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from verdit import moss_image, synth  # noqa: E402

SMALL = ROOT / "models" / "moss-small"


@pytest.fixture(scope="session")
def config():
    return moss_image.Config(dim=256, ffn_dim=192, num_heads=2, num_layers=3, text_dim=128, freq_dim=64, latent_channels=16)


@pytest.fixture(scope="session")
def state(config):
    return {name: bf16(synth.tensor(name, shape, 1)) for name, shape in synth.shapes(config.to_dict()).items()}


@pytest.fixture(scope="session")
def inputs(config):
    """(latents 4x6, text of 11 rows)"""
    return torch.from_numpy(synth.latents(config.latent_channels, 4, 6, 1)), bf16(synth.text(11, config.text_dim, 1))


@pytest.fixture(scope="session")
def wheel():
    path = os.environ.get("VERDIT_SGLANG_WHEEL")
    if not path:
        pytest.skip("VERDIT_SGLANG_WHEEL does not name SGLang's wheel")
    return path


@pytest.fixture(scope="session")
def program():
    path = os.environ.get("VERDIT")
    if not path:
        pytest.skip("VERDIT does not name the verdit program")
    return path


def bf16(bits):
    return torch.from_numpy(bits).view(torch.bfloat16)
