"""Records a case: see docs/cases.md for what it holds.

One pass over the model, stage by stage. The float32 run goes first in each stage and fixes the node's input; every reference run then computes
the node alone from that input, and takes its own step forward as well. So only one stage's weights are in memory, whatever the model's size.
"""

import json
import math
import os
import platform
import shutil
import sys
import time

import numpy as np
import torch

from . import __version__, files, synth
from .files import CannotRecord, Folder
from .moss_image import POLICIES, MossImage, check_skip, parameter_dtype, rope_table
from .weights import Symmetry, Weights

KINDS = tuple(Symmetry.KINDS)
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float64: "F64"}


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- Runs ----


class Run:
    """One run of the model: node by node on given inputs (`alone`), and from beginning to end (`advance`)."""

    def __init__(
        self,
        name,
        kind,
        what,
        config,
        size,
        text_rows,
        policy,
        device="cpu",
        symmetry=None,
        fused=False,
        math_attention=False,
        reference=torch.float32,
        seed=0,
    ):
        h, w = size
        self.name, self.kind, self.what, self.device, self.policy, self.reference = name, kind, what, device, policy, reference
        self.math, self.image_rows = math_attention, h * w
        self.symmetry = Symmetry(symmetry, config, h * w, text_rows, seed)
        self.model = MossImage.skeleton(config, policy, fused, reference)
        self.stream = parameter_dtype("final_norm_video.weight", policy, reference)
        rope = rope_table(config, h, w, text_rows, device, parameter_dtype("video_embedder.weight", policy, reference))
        self.rope_text = tuple(self._rows(part[h * w :], self.symmetry.text) for part in rope)
        self.rope = tuple(self._rows(part, self.symmetry.joint) for part in rope)
        self.state = {}
        self.out, self.stats = {}, {}

    @staticmethod
    def _rows(x, order):
        return x if order is None else x.index_select(0, order.to(x.device))

    # Weights come and go with the stage.

    def load(self, raw):
        self._loaded = list(raw)
        self.model.load_state_dict(
            {
                name: self.symmetry.weight(name, value).to(device=self.device, dtype=parameter_dtype(name, self.policy, self.reference))
                for name, value in raw.items()
                if name != "rope.bands"
            },
            strict=False,
            assign=True,
        )

    def unload(self):
        for name in self._loaded:
            if name != "rope.bands":
                module, _, leaf = name.rpartition(".")
                owner = self.model.get_submodule(module)
                old = getattr(owner, leaf)
                setattr(owner, leaf, torch.nn.Parameter(torch.empty_like(old, device="meta"), requires_grad=False))

    def _into(self, node, x):
        """A tensor in the model's own order, type and place."""
        return self.symmetry.enter(node, x).to(device=self.device, dtype=self.stream)

    def _back(self, node, x):
        return self.symmetry.leave(node, x.cpu())

    # The first nodes, which have the case's inputs: alone and in a run they are the same.

    def modulation(self, t):
        self.state["mod"], self.state["head_mod"] = self.model.modulation(t)
        return {name: self._back(name, self.state[name]) for name in ("mod", "head_mod")}

    def video(self, latents):
        rows = self._rows(latents.flatten(1).transpose(0, 1), self.symmetry.image)
        self.state["video"] = self.model.embed_video(rows.transpose(0, 1).to(self.device))
        return self._back("video", self.state["video"])

    def text(self, text):
        self.state["text"] = self.model.embed_text(self._rows(text, self.symmetry.text).to(self.device))
        return self._back("text.in", self.state["text"])

    # The nodes with an input of their own.

    def _compute(self, node, x, mod, head_mod):
        if node.startswith("text."):
            return self.model.text_embedder.blocks[int(node[5:])](x, self.rope_text, self.math)
        if node.startswith("x."):
            return self.model.layers[int(node[2:]) - 1](x, self.rope, mod, self.math)
        return self.model.head(x, head_mod)

    def alone(self, node, x, mod, head_mod):
        """The node from the given input and modulation (all in the case's order)."""
        mod, head_mod = self._into("mod", mod), self._into("head_mod", head_mod)
        inside = self._into(node, x) if node != "velocity" else self._into("video", x)
        return self._back(node, self._compute(node, inside, mod, head_mod))

    def advance(self, node):
        """The run's own next node; kept in the run's own order."""
        state = self.state
        if node.startswith("x.") and "x" not in state:
            both = (state.pop("video"), state.pop("text"))
            state["x"] = torch.cat(both if self.symmetry.joint is None else both[::-1])
        if node.startswith("text."):
            state["text"] = self._compute(node, state["text"], None, None)
        elif node.startswith("x."):
            state["x"] = self._compute(node, state["x"], state["mod"], None)
        else:
            state["velocity"] = self._compute(node, self.image_part(), None, state["head_mod"])

    def image_part(self):
        x = self.state["x"]
        return x[: self.image_rows] if self.symmetry.joint is None else x[-self.image_rows :]

    def current(self, node):
        """What enters `node` in this run, in the case's order."""
        if node.startswith("text."):
            return self._back(node, self.state["text"])
        if node.startswith("x."):
            if "x" in self.state:
                return self._back(node, self.state["x"])
            return torch.cat((self._back("video", self.state["video"]), self._back("text.1", self.state["text"])))
        return self._back("video", self.image_part())

    def velocity(self):
        return self._back("velocity", self.state["velocity"])


# ---- Statistics ----


def distances(y, f, what):
    """(row errors float64, {cosine, worst_row, worst_row_index}) of y against f."""
    y, f = y.double(), f.double()
    error, size = (y - f).norm(dim=1), f.norm(dim=1)
    rows = torch.where(size > 0, error / size, torch.where(error > 0, math.inf, 0.0))
    scale = (y.norm() * f.norm()).item()
    cosine = 1.0 - (y * f).sum().item() / scale if scale > 0 else 0.0
    worst = int(rows.argmax())
    result = {"cosine": cosine, "worst_row": rows[worst].item(), "worst_row_index": worst}
    if not all(math.isfinite(value) for value in result.values()):
        raise CannotRecord(f"{what}: the error against float32 is not finite (row {worst}): this run cannot set a limit")
    return rows, result


def step_distance(v, f, what):
    _, result = distances(v, f, what)
    return {"l2": ((v.double() - f.double()).norm() / f.double().norm()).item(), "cosine": result["cosine"], "worst_row": result["worst_row"]}


# ---- Plan ----


def plan(config, image_rows, text_rows, skip):
    """[(name, rows, cols)] of the gate nodes, in execution order."""
    nodes = [("mod", 6, config.dim), ("head_mod", 2, config.dim), ("video", image_rows, config.dim)]
    nodes += [(name, text_rows, config.dim) for name in ("text.in", "text.0", "text.1")]
    nodes += [(f"x.{i + 1}", image_rows + text_rows, config.dim) for i in range(config.num_layers) if i not in skip]
    return nodes + [("velocity", image_rows, config.latent_channels)]


def prefixes(node):
    """The tensors that a node needs."""
    if node in ("mod", "head_mod"):
        return ("time_embedding.", "shared_block_modulation.", "video_head_modulation.")
    if node == "video":
        return ("video_embedder.",)
    if node == "text.in":
        return ("text_embedder.proj.",)
    if node.startswith("text."):
        return (f"text_embedder.blocks.{node[5:]}.",)
    if node.startswith("x."):
        return (f"layers.{int(node[2:]) - 1}.",)
    return ("final_norm_video.", "final_linear_video.")


def make_runs(config, size, text_rows, policy, mixed, seed, cuda):
    common = dict(config=config, size=size, text_rows=text_rows, policy=policy)
    runs = [
        Run("cpu-default", "torch", "as published, on the CPU, torch's default attention", **common),
        Run("cpu-math", "torch", "as published, on the CPU, attention by the MATH backend", math_attention=True, **common),
    ]
    if cuda:
        runs.append(cuda_run(config, size, text_rows, policy))
    for index in range(mixed):
        kind, fused, again = KINDS[index % 4], index // 4 % 2 == 1, index // 8
        name = kind + ("-fused" if fused else "") + (f"-{again + 1}" if again else "")
        what = f"on the CPU, {Symmetry.KINDS[kind]}, " + ("norms and SiTU rounded once" if fused else "roundings as published")
        runs.append(Run(name, "mixed", what, symmetry=kind, fused=fused, seed=seed + index, **common))
    return runs


def cuda_run(config, size, text_rows, policy):
    return Run("cuda", "torch", "as published, on a GPU, torch's default attention", config, size, text_rows, policy, device="cuda")


# ---- The pass ----


def go_through(weights, nodes, runs, inputs, policy, reference=None, recorded=None):
    """All stages. With `reference` (a Run) the nodes' inputs and float32 outputs are made and returned; else they come from `recorded`.
    Returns {tensor name: tensor} of the nodes file."""
    tensors = dict(recorded or {})
    kept = parameter_dtype("final_norm_video.weight", policy)  # the type of the stream between nodes
    begin = time.monotonic()
    with torch.no_grad():
        stages = [node for node, _, _ in nodes if node != "head_mod"]  # which comes with mod
        for number, node in enumerate(stages, 1):
            raw = weights.stage(prefixes(node))
            outputs = {}
            for run in ([reference] if reference else []) + runs:
                run.load(raw)
                if node == "mod":
                    result = run.modulation(inputs["t"].item())
                elif node == "video":
                    result = {node: run.video(inputs["latents"])}
                elif node == "text.in":
                    result = {node: run.text(inputs["text"])}
                else:
                    if run is reference:
                        tensors[f"{node}.in"] = run.current(node).to(kept).contiguous()
                    result = {node: run.alone(node, tensors[f"{node}.in"], tensors["mod.used"], tensors["head_mod.used"])}
                    run.advance(node)
                run.unload()
                if run is reference:
                    for name, value in result.items():
                        tensors[f"{name}.f32"] = value.float().contiguous()
                        if name in ("mod", "head_mod"):
                            tensors[f"{name}.used"] = value.to(kept).contiguous()
                else:
                    outputs[run.name] = result
            for run in runs:
                for name, value in outputs[run.name].items():
                    rows, run.stats[name] = distances(value, tensors[f"{name}.f32"], f"run {run.name}, node {name}")
                    run.out[f"{run.name}/{name}.row_errors"] = rows.float()
                    if run.device == "cuda":
                        run.out[f"{run.name}/{name}.bytes"] = value.contiguous()
            say(f"[{number}/{len(stages)}] {'mod, head_mod' if node == 'mod' else node}  {time.monotonic() - begin:.1f} s")
    if reference:
        tensors["step.f32"] = reference.velocity().float().contiguous()
    for run in runs:
        value = run.velocity()
        run.step = step_distance(value, tensors["step.f32"], f"run {run.name}, whole step")
        run.out[f"{run.name}/step"] = value.float().contiguous()
        if run.device == "cuda":
            run.out[f"{run.name}/step.bytes"] = value.contiguous()
    return tensors


def run_entry(run):
    return {
        "name": run.name,
        "kind": run.kind,
        "what": run.what,
        "device": run.device,
        "bytes": run.device == "cuda",
        "nodes": run.stats,
        "step": run.step,
    }


def versions(cuda):
    import safetensors

    found = {
        "verdit": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "safetensors": safetensors.__version__,
        "device": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": torch.get_num_threads(),
    }
    if cuda:
        found |= {"device": torch.cuda.get_device_name(0), "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return found


# ---- Files ----


def packed(tensors):
    def entry(x):
        return NAMES[x.dtype], tuple(x.shape), (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()

    return {name: entry(x.contiguous()) for name, x in tensors.items()}


def write_json(path, value):
    with files.replacing(path) as out:
        out.write((json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def load_tensors(path):
    from safetensors.torch import load_file

    return load_file(path)


def read_text(path, text_dim):
    """bf16 [T, text_dim] from the tensor `text` of a safetensors file."""
    tensors = load_tensors(path)
    if "text" not in tensors:
        raise CannotRecord(f"{path}: no tensor text (found {sorted(tensors)[:8]})")
    text = tensors["text"]
    if text.ndim != 2 or text.shape[0] == 0 or text.shape[1] != text_dim:
        raise CannotRecord(f"{path}: text has shape {list(text.shape)}: must be [T, {text_dim}], T at least 1")
    return text.to(torch.bfloat16).contiguous()


def use_cuda(cuda):
    if cuda not in ("auto", "no", "yes"):
        raise CannotRecord(f"--cuda {cuda}: must be auto, yes or no")
    there = torch.cuda.is_available()
    if cuda == "yes" and not there:
        raise CannotRecord("--cuda yes: torch sees no GPU here")
    return there and cuda != "no"


def settle():
    """The state of torch that a reference needs."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)


# ---- What is called ----


def record(
    model_dir,
    case_dir,
    size=(8, 12),
    text_rows=40,
    text_file=None,
    t=910.0,
    seed=1,
    skip=(),
    policy="bf16",
    runs=8,
    branch="positive",
    step=0,
    cuda="auto",
    out=None,
    force=False,
    module="ours",
    wheel=None,
):
    """Records a case into `case_dir` (or into `out`, as if it were case_dir). Returns case.json's content."""
    settle()
    if policy not in POLICIES:
        raise CannotRecord(f"policy {policy}: must be one of {', '.join(POLICIES)}")
    if policy == "f32-situ" and module != "ours":
        raise CannotRecord(f"--module {module}: no published class has policy f32-situ's rounding points")
    folder = Folder(out or case_dir, force)
    weights = Weights(model_dir)
    config = weights.config
    skip = check_skip(sorted(set(skip)), config.num_layers)
    if len(skip) == config.num_layers:
        raise CannotRecord("skip: no block is left")
    h, w = size
    text = read_text(text_file, config.text_dim) if text_file else torch.from_numpy(synth.text(text_rows, config.text_dim, seed)).view(torch.bfloat16)
    t = torch.tensor([t], dtype=torch.float32)
    if not math.isfinite(t.item()) or t.item() < 0:
        raise CannotRecord(f"t {t.item()}: must be a finite number, 0 or more")
    inputs = {"latents": torch.from_numpy(synth.latents(config.latent_channels, h, w, seed)), "text": text, "t": t}
    with_cuda = use_cuda(cuda)
    # Where a policy computes in float32 itself, float32 is no yardstick: then it is float64, rounded to float32 at the end of each node.
    wide = torch.float32 if policy == "bf16" else torch.float64
    reference = Run("reference", "torch", "", config, size, len(text), "reference", math_attention=True, reference=wide)
    made = make_runs(config, size, len(text), policy, runs, seed, with_cuda)
    nodes = plan(config, h * w, len(text), skip)
    tensors = go_through(weights, nodes, made, inputs, policy, reference)
    found = versions(with_cuda) | {"reference": str(wide).removeprefix("torch.")}
    if module != "ours":
        found["module"] = check_module(module, wheel, weights, inputs, skip, policy, made[0], h, w)
    case = {
        "schema": "verdit-case/1",
        "family": "moss_image",
        "config": config.to_dict(),
        "model": {
            "path": os.path.relpath(os.path.realpath(weights.folder), os.path.realpath(case_dir)).replace(os.sep, "/"),
            "weights": weights.hashes(),
        },
        "branch": branch,
        "step": step,
        "sigma": t.item() / 1000,
        "t": t.item(),
        "latent_size": [h, w],
        "text_rows": len(text),
        "skip": list(skip),
        "seed": seed,
        "policy": policy,
        "versions": found,
        "files": {},
        "nodes": [{"name": name, "rows": rows, "cols": cols} for name, rows, cols in nodes],
        "runs": [run_entry(run) for run in made],
    }
    with folder as aside:
        for name, content in (("inputs", inputs), ("nodes", tensors), ("runs", {key: value for run in made for key, value in run.out.items()})):
            file = f"{name}.safetensors"
            files.write_safetensors(os.path.join(aside, file), packed(content))
            case["files"][name] = {"file": file, "sha256": files.sha256(os.path.join(aside, file))}
        write_json(os.path.join(aside, "case.json"), case)
    say(f"wrote {folder.path}")
    return case


def check_module(module, wheel, weights, inputs, skip, policy, run, h, w):
    """Runs the whole step in somebody else's class and wants our run's bytes."""
    from . import adapters

    state = weights.stage(("",))
    if module == "publisher":
        adapter = adapters.load_publisher(os.path.dirname(weights.folder), weights.config, state, policy)
    else:
        adapter = adapters.load_sglang(wheel, weights.config, state, policy)
    velocity, _ = adapter.run(inputs["latents"], inputs["text"], inputs["t"].item(), skip)
    ours = run.velocity().float().transpose(0, 1).reshape(-1, h, w)
    if not torch.equal(velocity.float(), ours):
        different = int((velocity.float() != ours).sum())
        raise CannotRecord(
            f"{adapter.name}: {different} of {ours.numel()} velocities differ from ours on the same CPU: this class has other rounding points"
        )
    return f"{adapter.name}: the whole step equals ours byte for byte"


def add_cuda(model_dir, case_dir, out=None):
    """Adds the GPU's run to an existing case; inputs, nodes and the other runs stay byte for byte. With `out` the changed case is written there."""
    settle()
    if not torch.cuda.is_available():
        raise CannotRecord("--add-runs cuda: torch sees no GPU here")
    path = os.path.join(case_dir, "case.json")
    with open(path, encoding="utf-8") as file:
        case = json.load(file)
    if case.get("schema") != "verdit-case/1":
        raise CannotRecord(f"{path}: schema {case.get('schema')!r}: must be verdit-case/1")
    if any(run["name"] == "cuda" for run in case["runs"]):
        raise CannotRecord(f"{path}: has a run named cuda already")
    where = {name: os.path.join(case_dir, entry["file"]) for name, entry in case["files"].items()}
    for name, entry in case["files"].items():
        if files.sha256(where[name]) != entry["sha256"]:
            raise CannotRecord(f"{where[name]}: its SHA-256 is not the one in case.json")
    weights = Weights(model_dir)
    if weights.hashes() != case["model"]["weights"]:
        raise CannotRecord(f"{weights.folder}: not the weights that {path} was recorded from")
    folder = Folder(out or case_dir, replace=out is None)
    size, skip = tuple(case["latent_size"]), tuple(case["skip"])
    run = cuda_run(weights.config, size, case["text_rows"], case["policy"])
    nodes = plan(weights.config, size[0] * size[1], case["text_rows"], skip)
    go_through(weights, nodes, [run], load_tensors(where["inputs"]), case["policy"], recorded=load_tensors(where["nodes"]))
    case["runs"].append(run_entry(run) | {"versions": versions(True)})
    with folder as aside:
        for name in ("inputs", "nodes"):
            shutil.copyfile(where[name], os.path.join(aside, case["files"][name]["file"]))
        file = os.path.join(aside, case["files"]["runs"]["file"])
        files.write_safetensors(file, packed(load_tensors(where["runs"]) | run.out))
        case["files"]["runs"]["sha256"] = files.sha256(file)
        write_json(os.path.join(aside, "case.json"), case)
    say(f"wrote {folder.path}")
    return case
