"""The mixed runs' symmetries are exact: in float64 a permuted model computes the same, and a wrong permutation does not."""

import pytest
import torch

from verdit import moss_image
from verdit.recorder import Run, plan, prefixes
from verdit.weights import Symmetry, permutation


def step(config, state, inputs, run):
    """The whole step of one run, through the recorder's stages: {node: tensor in the case's order}."""
    latents, text = inputs
    out = {}
    with torch.no_grad():
        for node, _, _ in plan(config, latents[0].numel(), len(text), (1,)):
            run.load({name: value for name, value in state.items() if name.startswith(prefixes(node))})
            if node == "mod":
                out |= run.modulation(910.0)
            elif node == "video":
                out[node] = run.video(latents)
            elif node == "text.in":
                out[node] = run.text(text)
            elif node != "head_mod":
                run.advance(node)
                out[node] = run.velocity() if node == "velocity" else run.symmetry.leave(node, run.state[{"t": "text", "x": "x"}[node[0]]])
    return out


def make(config, inputs, symmetry, policy="reference"):
    return Run("r", "mixed", "", config, inputs[0].shape[1:], len(inputs[1]), policy, symmetry=symmetry, math_attention=True, reference=torch.float64)


@pytest.fixture(scope="module")
def plain(config, state, inputs):
    return step(config, state, inputs, make(config, inputs, None))


def worst(a, b):
    return max(((a[node] - b[node]).norm() / b[node].norm()).item() for node in b)


@pytest.mark.parametrize("kind", list(Symmetry.KINDS))
def test_exact(config, state, inputs, plain, kind):
    assert worst(step(config, state, inputs, make(config, inputs, kind)), plain) < 1e-12


@pytest.mark.parametrize("kind", list(Symmetry.KINDS))
def test_it_permutes_something(config, inputs, kind):
    """…and the bf16 runs that it makes do not all come out the same."""
    symmetry = make(config, inputs, kind).symmetry
    orders = [order for order in (symmetry.channels, symmetry.heads, symmetry.ffn, symmetry.joint) if order is not None]
    assert len(orders) == 1 and not torch.equal(orders[0], torch.arange(len(orders[0])))


def test_a_wrong_permutation_shows(config, state, inputs, plain):
    run = make(config, inputs, "heads")
    right = run.symmetry.weight
    run.symmetry.weight = lambda name, x: x if name == "layers.2.proj.v.weight" else right(name, x)
    assert worst(step(config, state, inputs, run), plain) > 1e-3


def test_stages_are_the_forward(config, state, inputs):
    """Stage by stage in bf16 equals the module called whole, bit for bit."""
    taps = {}
    moss_image.MossImage.build(config, state)(*inputs, 910.0, (1,), tap=taps.__setitem__)
    run = Run("r", "torch", "", config, inputs[0].shape[1:], len(inputs[1]), "bf16")
    for node, value in step(config, state, inputs, run).items():
        assert value.dtype == taps[node].dtype and torch.equal(value, taps[node]), node


def test_permutations_depend_on_name_and_seed_alone():
    assert permutation("a", 5, 1).tolist() == permutation("a", 5, 1).tolist()
    assert permutation("a", 50, 1).tolist() != permutation("a", 50, 2).tolist()
    assert all(permutation("permutation.heads", 2, seed).tolist() == [1, 0] for seed in range(20))
    assert permutation("a", 1, 1).tolist() == [0]
