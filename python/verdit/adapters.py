"""Other people's classes of the same transformer, run as they are, to hold our module against.

    publisher   the class in the model folder's own pipeline_moss_image.py
    sglang      the class in SGLang's wheel (0.5.23), with its native operations; its imports that need servers or a GPU are stood in for

Both return an Adapter: `run` gives the velocity and the rows after each kept block.
"""

import importlib.util
import os
import sys
import types
import zipfile

import torch
from torch import nn
from torch.nn import functional as F

from . import files
from .moss_image import parameter_dtype

SGLANG_FILE = "sglang/multimodal_gen/runtime/models/dits/moss_image.py"
PUBLISHER_FILE = "pipeline_moss_image.py"
CLASS = "MOSSImageTransformer"


class Adapter:
    def __init__(self, name, module):
        self.name, self.module = name, module.eval().requires_grad_(False)

    @torch.no_grad()
    def run(self, latents, text, t, skip=()):
        """latents [C, h, w], text [T, text_dim] -> (velocity float32 [C, h, w], {"x.N": rows [S, dim]})"""
        rows = {}

        def keep(index):
            return lambda module, args, output: rows.__setitem__(f"x.{index + 1}", output[0])

        hooks = [layer.register_forward_hook(keep(index)) for index, layer in enumerate(self.module.layers)]
        try:
            velocity = self.module(latents[None], torch.tensor([t], dtype=torch.float32, device=latents.device), text[None], skip_layers=tuple(skip))
        finally:
            for hook in hooks:
                hook.remove()
        if not torch.is_tensor(velocity):
            velocity = velocity[0]
        return velocity[0], rows


def fill(module, state, policy):
    """Gives `module` the tensors of `state`, each in the type that the policy says, and recomputes the rotary bands where the class can."""
    state = {name: value.to(parameter_dtype(name, policy)) for name, value in state.items() if name != "rope.bands"}
    missing, unexpected = module.load_state_dict(state, strict=False, assign=True)
    missing = [name for name in missing if name != "rope.bands"]
    if missing or unexpected:
        raise ValueError(f"weights do not fit the class: missing {missing[:5]}, unexpected {list(unexpected)[:5]}")
    reset = getattr(getattr(module, "rope", None), "reset_bands", None)
    if reset:
        reset()
    return module


def load_publisher(model_dir, config, state, policy="bf16"):
    """The class from the folder's own file. This runs code from that folder: only for folders you trust."""
    path = os.path.join(model_dir, PUBLISHER_FILE)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: not there: the publisher's class is read from this file of the model folder")
    spec = importlib.util.spec_from_file_location("pipeline_moss_image", path)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    cls = getattr(source, CLASS, None)
    if cls is None:
        raise ValueError(f"{path}: has no class {CLASS}")
    build = getattr(cls, "from_config", None)
    module = build(config.to_dict()) if build else cls(**config.to_dict())
    return Adapter(f"publisher {files.sha256(path)}", fill(module, state, policy))


# ---- SGLang ----


def load_sglang(wheel, config, state, policy="bf16"):
    """wheel: sglang-0.5.23*.whl. Only the model's own file is taken from it."""
    with zipfile.ZipFile(wheel) as archive:
        source = archive.read(SGLANG_FILE).decode()
    saved = {name: sys.modules.get(name) for name in _stubs()}
    sys.modules.update(_stubs())
    try:
        module = types.ModuleType("verdit_sglang_moss_image")
        exec(compile(source, SGLANG_FILE, "exec"), module.__dict__)
    finally:
        for name, value in saved.items():
            if value is None:
                del sys.modules[name]
            else:
                sys.modules[name] = value
    arch = types.SimpleNamespace(**config.to_dict())
    transformer = getattr(module, CLASS)(types.SimpleNamespace(arch_config=arch, prefix=""))
    return Adapter("sglang 0.5.23", fill(transformer, state, policy))


class _Attention(nn.Module):
    """What SGLang's LocalAttention does on its torch backend: SDPA over [1, rows, heads, d]."""

    def __init__(self, num_heads, head_size, **_):
        super().__init__()
        self.scale = head_size**-0.5

    def forward(self, q, k, v):
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=self.scale).transpose(1, 2)


class _Base(nn.Module):
    def __init__(self, config, hf_config, **_):
        super().__init__()
        self.config = config.arch_config


class _Struct:
    """msgspec.Struct, as far as the file uses it."""

    def __init_subclass__(cls, **_):
        pass

    def __init__(self, **values):
        self.__dict__.update(values)


class _Gate:
    def __init__(self, *_, **__):
        pass


def _refuse(*_, **__):
    raise RuntimeError("a fused kernel was called: only native operations are used here")


def _never(**_):
    return False


def _stubs():
    """The modules that the file imports; every 'can use the fused kernel' answers no."""

    def module(name, **content):
        made = types.ModuleType(name)
        made.__dict__.update(content)
        made.__path__ = []
        return name, made

    top = "sglang.multimodal_gen"
    fused = (
        "fused_rope_rotate_half_bitexact",
        "fused_situ_softcap_mul_bitexact",
        "rmsnorm_cast_before_weight_bitexact",
        "rmsnorm_cast_before_weight_modulate_bitexact",
        "rmsnorm_cast_before_weight_rope_bitexact",
    )
    asks = (
        "can_use_fused_situ_softcap_mul",
        "can_use_rmsnorm_cast_before_weight",
        "can_use_rmsnorm_cast_before_weight_modulate",
        "can_use_rmsnorm_cast_before_weight_rope",
    )
    parents = (
        "sglang",
        "sglang.kernels",
        "sglang.kernels.ops",
        top,
        f"{top}.configs",
        f"{top}.configs.models",
        f"{top}.configs.models.dits",
        f"{top}.runtime",
        f"{top}.runtime.layers",
        f"{top}.runtime.managers",
        f"{top}.runtime.managers.memory_managers",
        f"{top}.runtime.models",
        f"{top}.runtime.models.dits",
        f"{top}.runtime.utils",
    )
    return dict(
        [
            *(module(name) for name in parents),
            module("msgspec", Struct=_Struct),
            module(
                "sglang.kernels.ops.diffusion",
                BitExactFusionGate=_Gate,
                **dict.fromkeys(fused, _refuse),
                **dict.fromkeys(asks, _never),
                modulate_scale_shift=lambda x, scale, shift: x * (1 + scale[:, None]) + shift[:, None],
                residual_gate_add=lambda residual, update, gate: residual + update * gate,
            ),
            module(f"{top}.configs.models.dits.moss_image", MOSSImageDiTConfig=object),
            module(f"{top}.configs.models.fsdp", is_layer=None),
            module(f"{top}.runtime.distributed", get_sp_world_size=lambda: 1, model_parallel_is_initialized=lambda: False),
            module(f"{top}.runtime.distributed.sp_shard_utils", gather_seq=_refuse, shard_like=_refuse, shard_seq=_refuse, tail_attn_meta=_refuse),
            module(f"{top}.runtime.layers.attention", USPAttention=_Attention),
            module(f"{top}.runtime.layers.attention.layer", LocalAttention=_Attention),
            module(f"{top}.runtime.managers.memory_managers.layerwise_offload", LayerwiseOffloadableModuleMixin=type("_Mixin", (), {})),
            module(f"{top}.runtime.models.dits.base", BaseDiT=_Base),
            module(f"{top}.runtime.platforms", AttentionBackendEnum=types.SimpleNamespace(FA=0, TORCH_SDPA=1)),
            module(f"{top}.runtime.utils.logging_utils", init_logger=lambda name: None),
        ]
    )
