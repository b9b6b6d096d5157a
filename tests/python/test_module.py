"""Our module against SGLang's class, bit for bit, on the CPU."""

import pytest
import torch

from conftest import bf16
from verdit import adapters, moss_image, synth


@pytest.mark.parametrize("policy", ["bf16", "f32", "reference"])
@pytest.mark.parametrize("skip", [(), (1,)])
def test_ours_is_sglangs_bit_for_bit(config, state, inputs, wheel, policy, skip):
    taps = {}
    ours = moss_image.MossImage.build(config, state, policy)(*inputs, 910.0, skip, tap=taps.__setitem__)
    theirs, rows = adapters.load_sglang(wheel, config, state, policy).run(*inputs, 910.0, skip)
    assert sorted(rows) == [f"x.{i + 1}" for i in range(3) if i not in skip]
    for name, value in rows.items():
        assert value.dtype == taps[name].dtype and torch.equal(value, taps[name]), name
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("h, w, text_rows, t", [(1, 1, 1, 1000.0), (2, 7, 3, 24.0), (5, 4, 33, 932.99994)])
def test_odd_sizes(config, state, wheel, h, w, text_rows, t):
    latents, text = torch.from_numpy(synth.latents(16, h, w, 2)), bf16(synth.text(text_rows, 128, 2))
    ours = moss_image.MossImage.build(config, state)(latents, text, t)
    theirs, _ = adapters.load_sglang(wheel, config, state).run(latents, text, t)
    assert torch.equal(ours, theirs)


def test_a_rounding_point_moved_is_noticed(config, state, inputs, wheel):
    model = moss_image.MossImage.build(config, state)
    model.layers[1].situ_once = True
    theirs, _ = adapters.load_sglang(wheel, config, state).run(*inputs, 910.0)
    assert not torch.equal(model(*inputs, 910.0), theirs)


def test_sglang_refuses_what_we_refuse(config, state, inputs, wheel):
    for skip in ([3], [-1], [True], [1.0]):
        with pytest.raises(ValueError, match="skip"):
            moss_image.MossImage.build(config, state)(*inputs, 910.0, skip)
        with pytest.raises(ValueError, match="skip"):
            adapters.load_sglang(wheel, config, state).run(*inputs, 910.0, skip)


def test_every_node_is_tapped_in_order(config, state, inputs):
    names = []
    moss_image.MossImage.build(config, state)(*inputs, 910.0, (1,), tap=lambda name, value: names.append((name, value.ndim)))
    inside = ["a", "q", "k", "v", "q_rot", "k_rot", "att", "o", "mid", "b", "ug", "situ", "down"]
    wanted = ["time", "mod", "head_mod", "video", "text.in", "text.0", "text.1", "x.0"]
    for block in (0, 2):
        wanted += [f"b{block}.{name}" for name in inside] + [f"x.{block + 1}"]
    assert [name for name, _ in names] == wanted + ["velocity"]
    assert all(ndim == 2 for _, ndim in names)


def test_policies_keep_their_types(config, state, inputs):
    for policy, stream in (("bf16", torch.bfloat16), ("f32", torch.float32), ("f32-situ", torch.float32)):
        taps = {}
        v = moss_image.MossImage.build(config, state, policy)(*inputs, 910.0, tap=taps.__setitem__)
        assert v.dtype == torch.float32 and v.shape == inputs[0].shape
        for name, value in taps.items():
            inner = name.startswith("b") and not name.endswith(".mid")
            assert value.dtype == (torch.bfloat16 if inner else stream), (policy, name)


def test_policies_differ_and_come_near_float32(config, state, inputs):
    reference = moss_image.MossImage.build(config, state, "reference", reference=torch.float64)(*inputs, 910.0).double()
    distance = {}
    for policy in (*moss_image.POLICIES, "reference"):
        v = moss_image.MossImage.build(config, state, policy)(*inputs, 910.0).double()
        distance[policy] = ((v - reference).norm() / reference.norm()).item()
    assert distance["reference"] < 1e-5 < 1e-3 < distance["f32"] < distance["bf16"] < 3e-2
    assert distance["f32"] != distance["f32-situ"]


def test_bands_are_the_published_words():
    words = "3f800000 3f0ff59a 3ea1e89b 3e361887 3dcccccd 3d6655c2 3d0186e3 3c91ad39 "
    words += "3c23d70a 3bb8449c 3b4f3e38 3ae91528 3a83126f 3a136a16 39a5cb60 393a7753"
    bands = moss_image.rope_bands(moss_image.Config())
    assert [f"{word & 0xFFFFFFFF:08x}" for word in bands.view(torch.int32).tolist()] == words.split()


@pytest.mark.parametrize(
    "key, value", [("num_heads", 3), ("num_heads", 64), ("freq_dim", 63), ("dim", 0), ("dim", 2.5), ("num_layers", True), ("rope_base", "1")]
)
def test_a_config_that_cannot_be(config, key, value):
    with pytest.raises(ValueError, match="config.json"):
        moss_image.Config.from_dict(config.to_dict() | {key: value})


# ---- The publisher's class, from a model folder ----

STAND_IN = '''
"""Stands in for the publisher's file: a class of the same name and interface, over our own module."""
import torch
from torch import nn
from verdit.moss_image import Config, MossImage

class MOSSImageTransformer(MossImage):
    @classmethod
    def from_config(cls, config):
        return cls(Config.from_dict(config))

    def forward(self, hidden_states, timestep, encoder_hidden_states, encoder_attention_mask=None, skip_layers=()):
        return torch.stack([super(MOSSImageTransformer, self).forward(z, c, t.item(), skip_layers){fault}
                            for z, c, t in zip(hidden_states, encoder_hidden_states, timestep)])
'''


def test_the_publishers_class_is_loaded_from_the_folder(tmp_path, config, state, inputs):
    with pytest.raises(FileNotFoundError, match="pipeline_moss_image.py"):
        adapters.load_publisher(tmp_path, config, state)
    (tmp_path / "pipeline_moss_image.py").write_text(STAND_IN.replace("{fault}", ""))
    taps = {}
    ours = moss_image.MossImage.build(config, state)(*inputs, 910.0, (1,), tap=taps.__setitem__)
    # The stand-in's layers return rows without a batch dimension, so its hooks see one row only.
    theirs, rows = adapters.load_publisher(tmp_path, config, state).run(*inputs, 910.0, (1,))
    assert torch.equal(ours, theirs) and sorted(rows) == ["x.1", "x.3"]
    (tmp_path / "pipeline_moss_image.py").write_text("class Other: pass\n")
    with pytest.raises(ValueError, match="MOSSImageTransformer"):
        adapters.load_publisher(tmp_path, config, state)


def test_weights_that_do_not_fit_the_class(config, state, wheel):
    less = {name: value for name, value in state.items() if name != "layers.1.proj.q.weight"}
    with pytest.raises(ValueError, match="layers.1.proj.q.weight"):
        adapters.load_sglang(wheel, config, less)
