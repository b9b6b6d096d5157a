"""Cases: what the recorder writes, and that it writes it whole, twice the same, or not at all."""

import copy
import json
import math
import shutil

import jsonschema
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from conftest import ROOT, SMALL
from verdit import __main__ as cli
from verdit import files, moss_image, recorder, synth

SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "case.schema.json").read_text()))
TINY = {"dim": 64, "ffn_dim": 48, "num_heads": 2, "num_layers": 3, "text_dim": 32, "freq_dim": 16, "latent_channels": 8, "rope_base": 10000}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    synth.write_folder(folder / "transformer", TINY, 5)
    return folder


def record(model, case, **options):
    return recorder.record(str(model), str(case), **{"size": (3, 4), "text_rows": 5, "skip": (1,), "cuda": "no"} | options)


def read(case):
    return json.loads((case / "case.json").read_text()), {name: load_file(case / f"{name}.safetensors") for name in ("inputs", "nodes", "runs")}


@pytest.fixture(scope="module")
def made(tiny):
    record(tiny, tiny / "case")
    return tiny / "case"


# ---- Every case holds ----


@pytest.fixture(params=["made", "moss-small/case-bf16", "moss-small/case-f32"])
def case(request):
    return request.getfixturevalue("made") if request.param == "made" else ROOT / "models" / request.param


def test_schema(case):
    SCHEMA.validate(json.loads((case / "case.json").read_text()))


def test_hashes(case):
    head, _ = read(case)
    for entry in head["files"].values():
        assert files.sha256(case / entry["file"]) == entry["sha256"]
    for entry in head["model"]["weights"]:
        path = case / head["model"]["path"] / entry["file"]
        assert files.sha256(path) == entry["sha256"] and path.stat().st_size == entry["bytes"]


def test_tensors_are_as_documented(case):
    head, tensors = read(case)
    dtype = torch.bfloat16 if head["policy"] == "bf16" else torch.float32
    h, w = head["latent_size"]
    wanted = {
        "mod.used": (6, head["config"]["dim"], dtype),
        "head_mod.used": (2, head["config"]["dim"], dtype),
        "step.f32": (h * w, head["config"]["latent_channels"], torch.float32),
    }
    for node in head["nodes"]:
        wanted[node["name"] + ".f32"] = (node["rows"], node["cols"], torch.float32)
        if node["name"] not in ("mod", "head_mod", "video", "text.in"):
            wanted[node["name"] + ".in"] = (node["rows"], head["config"]["dim"], dtype)
    assert {name: (*x.shape, x.dtype) for name, x in tensors["nodes"].items()} == wanted
    assert tensors["inputs"]["text"].dtype == torch.bfloat16 and tensors["inputs"]["latents"].shape == (head["config"]["latent_channels"], h, w)
    assert tensors["inputs"]["t"].item() == head["t"]
    kept = [f"x.{i + 1}" for i in range(head["config"]["num_layers"]) if i not in head["skip"]]
    assert [node["name"] for node in head["nodes"]] == ["mod", "head_mod", "video", "text.in", "text.0", "text.1", *kept, "velocity"]


def test_statistics_come_from_the_tensors(case):
    head, tensors = read(case)
    names = set()
    for run in head["runs"]:
        for node in head["nodes"]:
            rows = tensors["runs"][f"{run['name']}/{node['name']}.row_errors"]
            said = run["nodes"][node["name"]]
            assert rows.shape == (node["rows"],) and int(rows.argmax()) == said["worst_row_index"]
            assert rows.max().item() == np.float32(said["worst_row"])
            names |= {f"{run['name']}/{node['name']}.row_errors"}
            if run["bytes"]:
                y, f = (x.double() for x in (tensors["runs"][f"{run['name']}/{node['name']}.bytes"], tensors["nodes"][node["name"] + ".f32"]))
                assert said["cosine"] == pytest.approx(1 - (y * f).sum().item() / (y.norm() * f.norm()).item(), abs=1e-12)
                assert torch.allclose(rows.double(), (y - f).norm(dim=1) / f.norm(dim=1), rtol=1e-6)
                names |= {f"{run['name']}/{node['name']}.bytes", f"{run['name']}/step.bytes"}
        v, f = tensors["runs"][f"{run['name']}/step"].double(), tensors["nodes"]["step.f32"].double()
        assert run["step"]["l2"] == pytest.approx(((v - f).norm() / f.norm()).item(), rel=1e-9)
        assert run["step"]["worst_row"] == pytest.approx(((v - f).norm(dim=1) / f.norm(dim=1)).max().item(), rel=1e-9)
        names |= {f"{run['name']}/step"}
    assert set(tensors["runs"]) == names


def test_the_nodes_can_be_computed_again(made, tiny):
    """x.1 alone, from its recorded input and modulation, with nothing but the module."""
    _, tensors = read(made)
    weights = recorder.Weights(str(tiny))
    model = moss_image.MossImage.build(weights.config, weights.stage(("",)), "reference")
    nodes = tensors["nodes"]
    with torch.no_grad():
        again = model.layers[0](nodes["x.1.in"].float(), model.rope(3, 4, 5), nodes["mod.used"].float(), math=True)
        head = model.head(nodes["velocity.in"].float(), nodes["head_mod.used"].float())
    assert torch.equal(again, nodes["x.1.f32"]) and torch.equal(head, nodes["velocity.f32"])
    assert torch.equal(nodes["text.0.in"], nodes["text.in.f32"].bfloat16())
    assert not torch.equal(nodes["text.1.in"], nodes["text.0.f32"].bfloat16())  # the stream is not the node alone


def test_the_embedded_gpu_run_is_torchs():
    """The embedded bf16 case's step on the GPU is the recorded whole run's velocity."""
    _, tensors = read(SMALL / "case-bf16")
    taps = load_file(ROOT / "tests" / "data" / "moss_small" / "h200_taps.safetensors")
    assert torch.equal(tensors["runs"]["cuda/step.bytes"], taps["velocity"])
    for node in ("mod", "head_mod", "video", "text.in"):
        assert torch.equal(tensors["runs"][f"cuda/{node}.bytes"], taps[node])


# ---- Recording ----


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("policy", ["bf16", "f32", "f32-situ"])
def test_twice_the_same(tiny, tmp_path, policy):
    for name in ("a", "b"):
        record(tiny, tiny / "again", policy=policy, out=str(tmp_path / name))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert sorted(contents(tmp_path / "a")) == ["case.json", "inputs.safetensors", "nodes.safetensors", "runs.safetensors"]
    SCHEMA.validate(json.loads((tmp_path / "a" / "case.json").read_text()))


def test_the_sixteen_runs_are_named_apart(tiny, tmp_path):
    head = record(tiny, tmp_path / "c", runs=16)
    names = [run["name"] for run in head["runs"]]
    assert len(set(names)) == 18 and names[:2] == ["cpu-default", "cpu-math"] and "tokens-fused-2" in names
    SCHEMA.validate(head)


def test_sglangs_class_agrees(tiny, tmp_path, wheel):
    head = record(tiny, tmp_path / "c", module="sglang", wheel=wheel, runs=0)
    assert "byte for byte" in head["versions"]["module"]
    with pytest.raises(recorder.CannotRecord, match="f32-situ"):
        record(tiny, tmp_path / "d", module="sglang", wheel=wheel, policy="f32-situ")


def test_a_class_with_other_roundings_is_refused(tiny, tmp_path):
    """A stand-in for the publisher's file whose SiTU is rounded once; and the same without that fault."""
    text = (
        "import torch\nfrom verdit.moss_image import Config, MossImage\n"
        "class MOSSImageTransformer(MossImage):\n"
        "    @classmethod\n    def from_config(cls, config):\n        return cls(Config.from_dict(config), fused=FUSED)\n"
        "    def forward(self, hidden_states, timestep, encoder_hidden_states, skip_layers=()):\n"
        "        return super().forward(hidden_states[0], encoder_hidden_states[0], timestep.item(), skip_layers)[None]\n"
    )
    model = tmp_path / "model"
    shutil.copytree(tiny / "transformer", model / "transformer")
    (model / "pipeline_moss_image.py").write_text(text.replace("FUSED", "False"))
    assert record(model, tmp_path / "good", module="publisher", runs=0)["versions"]["module"].startswith("publisher ")
    (model / "pipeline_moss_image.py").write_text(text.replace("FUSED", "True"))
    with pytest.raises(recorder.CannotRecord, match="velocities differ"):
        record(model, tmp_path / "bad", module="publisher", runs=0)
    assert not (tmp_path / "bad").exists()


def test_own_text_states(tiny, tmp_path):
    text = torch.linspace(-1, 1, 7 * 32).reshape(7, 32)
    files.write_safetensors(tmp_path / "t.safetensors", {"text": ("F32", text.shape, text.numpy())})
    head = record(tiny, tmp_path / "c", text_file=str(tmp_path / "t.safetensors"), runs=0)
    assert head["text_rows"] == 7 and torch.equal(load_file(tmp_path / "c" / "inputs.safetensors")["text"], text.bfloat16())
    files.write_safetensors(tmp_path / "t.safetensors", {"text": ("F32", (8, 28), text.numpy())})
    with pytest.raises(recorder.CannotRecord, match=r"\[8, 28\]"):
        record(tiny, tmp_path / "d", text_file=str(tmp_path / "t.safetensors"))


def test_an_error_that_is_not_finite_sets_no_limit():
    with pytest.raises(recorder.CannotRecord, match="row 1"):
        recorder.distances(torch.ones(3, 4), torch.tensor([[1.0] * 4, [0.0] * 4, [1.0] * 4]), "run x, node y")
    rows, said = recorder.distances(torch.zeros(2, 4), torch.tensor([[0.0] * 4, [1.0] * 4]), "run x, node y")
    assert rows.tolist() == [0, 1] and said["worst_row_index"] == 1
    with pytest.raises(recorder.CannotRecord):
        recorder.distances(torch.tensor([[math.nan]]), torch.ones(1, 1), "run x, node y")


# ---- Files ----


def test_nothing_half_written(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "write_json", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        record(tiny, tmp_path / "c", runs=0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_replaced_unasked(tiny, tmp_path):
    record(tiny, tmp_path / "c", runs=0)
    before = contents(tmp_path / "c")
    with pytest.raises(recorder.CannotRecord, match="--force"):
        record(tiny, tmp_path / "c", runs=0, seed=2)
    assert contents(tmp_path / "c") == before
    record(tiny, tmp_path / "c", runs=0, seed=2, force=True)
    assert contents(tmp_path / "c") != before and [path.name for path in tmp_path.iterdir()] == ["c"]
    (tmp_path / "link").symlink_to(tmp_path / "c")
    with pytest.raises(recorder.CannotRecord, match="link"):
        record(tiny, tmp_path / "link", force=True)
    with pytest.raises(recorder.CannotRecord, match="no case"):
        record(tiny, tiny / "transformer", force=True)


def test_adding_a_run_needs_the_right_case(tiny, made, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(recorder.CannotRecord, match="no GPU"):
        recorder.add_cuda(str(tiny), str(made))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    shutil.copytree(made, tmp_path / "c")
    (tmp_path / "c" / "nodes.safetensors").write_bytes(b"other")
    with pytest.raises(recorder.CannotRecord, match="SHA-256"):
        recorder.add_cuda(str(tiny), str(tmp_path / "c"))
    with pytest.raises(recorder.CannotRecord, match="not the weights"):
        recorder.add_cuda(str(SMALL), str(made))


def test_adding_a_run_changes_nothing_else(tiny, made, tmp_path, monkeypatch):
    """On a machine without a GPU the run is made on the CPU under the GPU's name: the files are what is tested."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(recorder, "versions", lambda cuda: {"device": "stand-in"})

    def stand_in(config, size, text_rows, policy):
        run = recorder.Run("cuda", "torch", "stand-in", config, size, text_rows, policy)
        run.load_on_cpu, run.load = run.load, lambda raw: (setattr(run, "device", "cpu"), run.load_on_cpu(raw))
        run.unload_on_cpu, run.unload = run.unload, lambda: (run.unload_on_cpu(), setattr(run, "device", "cuda"))
        return run

    monkeypatch.setattr(recorder, "cuda_run", stand_in)
    before = contents(made)
    recorder.add_cuda(str(tiny), str(made), str(tmp_path / "c"))
    assert contents(made) == before
    after, old = contents(tmp_path / "c"), json.loads(before["case.json"])
    assert after["inputs.safetensors"] == before["inputs.safetensors"] and after["nodes.safetensors"] == before["nodes.safetensors"]
    head, tensors = read(tmp_path / "c")
    SCHEMA.validate(head)
    added = head["runs"].pop()
    assert added["name"] == "cuda" and added["bytes"] and added["versions"] == {"device": "stand-in"}
    head["files"]["runs"] = old["files"]["runs"]
    assert head == old
    for name, value in load_file(made / "runs.safetensors").items():
        assert torch.equal(tensors["runs"][name], value)
    # The stand-in is the CPU's own default run: alone and in the step it must repeat that.
    assert added["nodes"] == old["runs"][0]["nodes"] and added["step"] == old["runs"][0]["step"]
    with pytest.raises(recorder.CannotRecord, match="cuda already"):
        recorder.add_cuda(str(tiny), str(tmp_path / "c"))


CHANGES = {
    "less": lambda head: head.pop("policy"),
    "policy": lambda head: head.update(policy="fp16"),
    "more": lambda head: head.update(extra=1),
    "config": lambda head: head["config"].update(dim=0),
    "path": lambda head: head["files"]["nodes"].update(file="../nodes.safetensors"),
    "hash": lambda head: head["files"]["nodes"].update(sha256="00"),
    "node": lambda head: head["nodes"][0].update(name="x.0"),
    "kind": lambda head: head["runs"][0].update(kind="guess"),
    "statistic": lambda head: head["runs"][0]["nodes"]["mod"].pop("cosine"),
    "size": lambda head: head.update(latent_size=[3]),
    "skip": lambda head: head.update(skip=[1, 1]),
    "weights": lambda head: head["model"].update(weights=[]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_schema_refuses(made, change):
    head = copy.deepcopy(json.loads((made / "case.json").read_text()))
    change(head)
    assert not SCHEMA.is_valid(head)


# ---- The command ----


def run_cli(*arguments):
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as error:
        return error.code


def test_exit_codes(tiny, tmp_path, capsys):
    assert run_cli("record", tiny, tmp_path / "c", "--size", "2x3", "--text-rows", "4", "--runs", "1", "--cuda", "no") == 0
    assert (tmp_path / "c" / "case.json").is_file()
    for arguments, code, words in (
        (["record", tiny], 2, "CASE_DIR"),
        (["record", tiny, tmp_path / "d", "--size", "2by3"], 2, "HxW"),
        (["record", tiny, tmp_path / "d", "--skip", "x"], 2, "block numbers"),
        (["record", tiny, tmp_path / "d", "--skip", "3"], 3, "[0, 3)"),
        (["record", tiny, tmp_path / "d", "--skip", "0,1,2"], 4, "no block is left"),
        (["record", tiny, tmp_path / "d", "--t", "nan"], 4, "finite"),
        (["record", tmp_path, tmp_path / "d"], 3, "no config.json"),
        (["record", tiny, tmp_path / "c"], 4, "--force"),
        (["record", tiny, tmp_path / "d", "--module", "sglang"], 4, "--wheel"),
        (["record", tiny, tmp_path / "d", "--module", "publisher"], 3, "pipeline_moss_image.py"),
        (["record", tiny, tmp_path / "d", "--text", tmp_path / "none.safetensors"], 3, "none.safetensors"),
    ):
        capsys.readouterr()
        assert run_cli(*arguments) == code, arguments
        assert words in capsys.readouterr().err, arguments
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


@pytest.mark.parametrize("change, words", [
    (lambda config: config.update(dim=65), "heads must divide"),
    (lambda config: config.update(dim="64"), "dim"),
    (lambda config: config.update(num_layers=4), "missing"),
    (lambda config: config.update(num_layers=2), "not known"),
    (lambda config: config.update(ffn_dim=40), "other shape"),
])  # fmt: skip
def test_a_model_that_is_none(tiny, tmp_path, change, words, capsys):
    shutil.copytree(tiny / "transformer", tmp_path / "m")
    config = dict(TINY)
    change(config)
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    assert run_cli("record", tmp_path / "m", tmp_path / "c") == 3
    assert words in capsys.readouterr().err


def test_shards(tiny, made, tmp_path):
    """The same model in two files gives the same case, but for the list of files."""
    folder = tmp_path / "m" / "transformer"
    folder.mkdir(parents=True)
    shutil.copy(tiny / "transformer" / "config.json", folder)
    tensors = load_file(tiny / "transformer" / "diffusion_pytorch_model.safetensors")
    where = {}
    for number in range(2):
        part = {name: x for index, (name, x) in enumerate(sorted(tensors.items())) if index % 2 == number}
        file = f"diffusion_pytorch_model-0000{number + 1}-of-00002.safetensors"
        files.write_safetensors(folder / file, recorder.packed(part))
        where |= dict.fromkeys(part, file)
    (folder / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    head = record(tmp_path / "m", tmp_path / "m" / "case")
    assert len(head["model"]["weights"]) == 2
    assert {name: text for name, text in contents(tmp_path / "m" / "case").items() if name != "case.json"} == {
        name: text for name, text in contents(made).items() if name != "case.json"
    }


def test_import_needs_no_torch():
    import subprocess
    import sys

    code = "import sys; sys.path.insert(0, 'python'); import verdit.files, verdit.__main__; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_without_torch_it_says_so(tiny, tmp_path, monkeypatch, capsys):
    import sys

    monkeypatch.delitem(sys.modules, "verdit.recorder", raising=False)
    monkeypatch.delattr("verdit.recorder", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run_cli("record", tiny, tmp_path / "c") == 4
    assert "torch" in capsys.readouterr().err and not (tmp_path / "c").exists()
