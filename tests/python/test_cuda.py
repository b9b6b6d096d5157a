"""On a GPU of the kind that the data was recorded on: the module's run there is still the recorded one."""

import pytest
import torch
from safetensors.torch import load_file

from conftest import ROOT, SMALL
from verdit import moss_image, recorder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")


def test_the_recorded_run_is_repeated():
    if torch.cuda.get_device_capability() != (9, 0) or not torch.__version__.startswith("2.11."):
        pytest.skip(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}: recorded on an H200 with torch 2.11")
    weights = recorder.Weights(str(SMALL))
    inputs = {name: x.cuda() for name, x in load_file(SMALL / "case-bf16" / "inputs.safetensors").items()}
    taps = {}
    model = moss_image.MossImage.build(weights.config, weights.stage(("",)), device="cuda")
    model(inputs["latents"], inputs["text"], inputs["t"].item(), (4,), tap=taps.__setitem__)
    for name, value in load_file(ROOT / "tests" / "data" / "moss_small" / "h200_taps.safetensors").items():
        assert torch.equal(taps[name].cpu(), value), name


def test_a_gpu_run_added_is_the_one_recorded_at_once(tmp_path):
    common = dict(size=(2, 3), text_rows=4, skip=(4,), runs=2)
    recorder.record(str(SMALL), str(tmp_path / "both"), cuda="yes", **common)
    recorder.record(str(SMALL), str(tmp_path / "cpu"), cuda="no", **common)
    recorder.add_cuda(str(SMALL), str(tmp_path / "cpu"))
    assert load_file(tmp_path / "both" / "runs.safetensors").keys() == load_file(tmp_path / "cpu" / "runs.safetensors").keys()
    assert (tmp_path / "both" / "runs.safetensors").read_bytes() == (tmp_path / "cpu" / "runs.safetensors").read_bytes()
