"""MOSS-Image's transformer in torch, written from its formulas, with the published module's rounding points and a tap at every node.

Everything is one sample without a batch dimension: rows x channels, I = h*w image rows first, then T text rows, S = I + T.

Where a value is rounded follows from the types of the parameters alone, as in the published module; `parameter_dtype` is the table.
    bf16       every parameter bf16: the stream and all that is elementwise rounds to bf16 after each operation.
    f32        every parameter float32 but the linears of the blocks: the stream stays float32 around bf16 products and attention.
    f32-situ   as f32, SiTU in float32 rounded once, and the text embedder's linears in bf16 too.
    reference  every parameter float32 (or float64): the yardstick.
With fused=True each norm (with its modulation) and SiTU is computed in float32 and rounded once, as a port with fused kernels does.
"""

import re
from dataclasses import asdict, dataclass, fields

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

EPS = 1e-6
POLICIES = ("bf16", "f32", "f32-situ")
_BLOCK_LINEAR = re.compile(r"layers\.\d+\.proj\.")
_TEXT_LINEAR = re.compile(r"text_embedder\.(proj|blocks\.\d+\.(qkv|proj|ffn_gate|ffn_up|ffn_down))\.")


@dataclass(frozen=True)
class Config:
    """The keys of transformer/config.json; the defaults are the published model's."""

    dim: int = 3072
    ffn_dim: int = 8192
    num_heads: int = 24
    num_layers: int = 42
    text_dim: int = 4096
    freq_dim: int = 256
    latent_channels: int = 128
    rope_base: float = 10000.0

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.name != "rope_base"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or value <= 0:
                raise ValueError(f"config.json: {field.name} is {value!r}: must be a positive {'whole ' if whole else ''}number")
        if self.dim % self.num_heads or self.head_dim % 8 or self.freq_dim % 2:
            raise ValueError(
                f"config.json: dim {self.dim}, num_heads {self.num_heads}, freq_dim {self.freq_dim}: "
                "heads must divide dim, 8 must divide dim / heads, and freq_dim must be even"
            )

    @property
    def head_dim(self):
        return self.dim // self.num_heads

    @classmethod
    def from_dict(cls, values):
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def to_dict(self):
        return asdict(self)


def parameter_dtype(name, policy, reference=torch.float32):
    """The rounding table: the type of parameter `name` under `policy`."""
    if policy == "reference":
        return reference
    if policy == "bf16":
        return torch.bfloat16
    low = _BLOCK_LINEAR.match(name) or (policy == "f32-situ" and _TEXT_LINEAR.match(name))
    return torch.bfloat16 if low else torch.float32


def widen(x):
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def no_tap(name, value):
    pass


def check_skip(skip, num_layers):
    skip = tuple(skip)
    if any(isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < num_layers for index in skip):
        raise ValueError(f"skip {list(skip)}: each must be a whole number in [0, {num_layers})")
    return skip


# ---- Operations ----


def rms(x):
    """x * rsqrt(mean(x^2) + eps) in float32, not rounded."""
    x = widen(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


class RMSNorm(nn.Module):
    """Two roundings: to x's type before the weight, and of the product."""

    def __init__(self, dim, fused=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.fused = fused

    def forward(self, x):
        if self.fused:
            return (rms(x) * widen(self.weight)).to(torch.promote_types(x.dtype, self.weight.dtype))
        return rms(x).to(x.dtype) * self.weight

    def modulated(self, x, scale, shift):
        """norm(x) * (1 + scale) + shift: 1 + scale, the product and the sum each round."""
        if self.fused:
            y = rms(x) * widen(self.weight) * (1 + widen(scale)) + widen(shift)
            return y.to(torch.promote_types(x.dtype, self.weight.dtype))
        return self(x) * (1 + scale) + shift


def situ(u, g, once=False):
    """(4 tanh(g/4) sigmoid(g)) (25 tanh(u/25)): nine roundings, or one."""
    if once:
        return situ(widen(u), widen(g)).to(u.dtype)
    return (4.0 * torch.tanh(g / 4.0) * torch.sigmoid(g)) * (25.0 * torch.tanh(u / 25.0))


def rotate(x, rope):
    """Half-split rotary of [rows, heads, d]: both products and the sum round."""
    sin, cos = (part.unsqueeze(-2) for part in rope)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def attend(q, k, v, math=False):
    """softmax(q k' / sqrt(d)) v over [rows, heads, d]; the result is [rows, heads * d]."""
    q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    if math:
        with sdpa_kernel(SDPBackend.MATH):
            o = F.scaled_dot_product_attention(q, k, v)
    else:
        o = F.scaled_dot_product_attention(q, k, v)
    return o.squeeze(0).transpose(0, 1).flatten(1)


def rope_bands(config):
    """16 frequencies per axis, always computed on the CPU in float32; the file's copy is never trusted."""
    count = config.head_dim // 8
    exponent = torch.arange(count, dtype=torch.float32, device="cpu") / count
    return 1 / (config.rope_base**exponent)


def rope_table(config, h, w, text_rows, device, dtype):
    """(sin, cos), each [S, head_dim]. Axes r, f, h, w. Positions: image row (y, x): 0, T, y - (h-1)/2, x - (w-1)/2; text row i: 0, i, 0, 0."""
    y, x = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    image = torch.stack((torch.zeros_like(y), torch.full_like(y, text_rows), y, x), -1).flatten(0, 1).float()
    image[:, 2] -= (h - 1) / 2
    image[:, 3] -= (w - 1) / 2
    text = torch.zeros(text_rows, 4, device=device)
    text[:, 1] = torch.arange(text_rows, device=device)
    phase = (torch.cat((image, text)).unsqueeze(-1) * rope_bands(config).to(device)).flatten(1)  # fp32, [S, head_dim / 2]
    if dtype == torch.float64:
        phase = phase.double()
    return tuple(torch.cat((part, part), -1) for part in (phase.sin().to(dtype), phase.cos().to(dtype)))


def sinusoid(t, freq_dim, device):
    """[1, freq_dim] fp32: cos first, phases in float64."""
    half = freq_dim // 2
    frequency = 10000 ** (-torch.arange(half, device=device, dtype=torch.float64) / half)
    phase = torch.as_tensor(t, device=device, dtype=torch.float32).reshape(1, 1).double() * frequency
    return torch.cat((phase.cos(), phase.sin()), -1).float()


# ---- Parts ----


class TextBlock(nn.Module):
    def __init__(self, config, fused, situ_once):
        super().__init__()
        dim, ffn_dim = config.dim, config.ffn_dim
        self.heads, self.situ_once = config.num_heads, situ_once or fused
        self.norm1, self.norm2 = RMSNorm(dim, fused), RMSNorm(dim, fused)
        self.q_norm, self.k_norm = RMSNorm(config.head_dim, fused), RMSNorm(config.head_dim, fused)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ffn_gate, self.ffn_up, self.ffn_down = nn.Linear(dim, ffn_dim), nn.Linear(dim, ffn_dim), nn.Linear(ffn_dim, dim)

    def forward(self, x, rope, math=False):
        dtype = self.qkv.weight.dtype
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in self.qkv(self.norm1(x).to(dtype)).chunk(3, -1))
        q, k = rotate(self.q_norm(q), rope), rotate(self.k_norm(k), rope)
        x = x + self.proj(attend(q.to(v.dtype), k.to(v.dtype), v, math))
        n = self.norm2(x).to(dtype)
        return x + self.ffn_down(situ(self.ffn_up(n), self.ffn_gate(n), self.situ_once))


class TextEmbedder(nn.Module):
    def __init__(self, config, fused, situ_once):
        super().__init__()
        self.proj = nn.Linear(config.text_dim, config.dim)
        self.blocks = nn.ModuleList(TextBlock(config, fused, situ_once) for _ in range(2))


class Block(nn.Module):
    """x += gate_a * Wo attention(modulated norm of x); x += gate_f * Wd situ(Wug (modulated norm of x))."""

    def __init__(self, config, fused, situ_once):
        super().__init__()
        dim, ffn_dim = config.dim, config.ffn_dim
        self.heads, self.situ_once = config.num_heads, situ_once or fused
        self.norm1, self.norm2 = RMSNorm(dim, fused), RMSNorm(dim, fused)
        self.q_norm, self.k_norm = RMSNorm(config.head_dim, fused), RMSNorm(config.head_dim, fused)
        self.proj = nn.ModuleDict({name: nn.Linear(dim, dim, bias=False) for name in ("q", "k", "v", "o")})
        self.proj["ffn_up_gate"] = nn.Linear(dim, 2 * ffn_dim, bias=False)
        self.proj["ffn_down"] = nn.Linear(ffn_dim, dim, bias=False)

    def forward(self, x, rope, mod, math=False, tap=no_tap):
        shift_a, scale_a, gate_a, shift_f, scale_f, gate_f = mod.unbind(0)
        dtype = self.proj["q"].weight.dtype

        def keep(name, value):
            tap(name, value)
            return value

        a = keep("a", self.norm1.modulated(x, scale_a, shift_a).to(dtype))
        q, k, v = (keep(name, self.proj[name](a)).unflatten(-1, (self.heads, -1)) for name in ("q", "k", "v"))
        q = rotate(self.q_norm(q), rope).to(v.dtype)
        k = rotate(self.k_norm(k), rope).to(v.dtype)
        tap("q_rot", q.flatten(1))
        tap("k_rot", k.flatten(1))
        o = keep("o", self.proj["o"](keep("att", attend(q, k, v, math))))
        x = keep("mid", x + o * gate_a)
        b = keep("b", self.norm2.modulated(x, scale_f, shift_f).to(dtype))
        u, g = keep("ug", self.proj["ffn_up_gate"](b)).chunk(2, -1)
        down = keep("down", self.proj["ffn_down"](keep("situ", situ(u, g, self.situ_once))))
        return x + down * gate_f


class MossImage(nn.Module):
    """The whole transformer. `tap(name, value)` is called at every node, in execution order."""

    def __init__(self, config, policy="bf16", fused=False):
        super().__init__()
        self.config, self.policy = config, policy
        situ_once = policy == "f32-situ"
        self.video_embedder = nn.Linear(config.latent_channels, config.dim)
        self.text_embedder = TextEmbedder(config, fused, situ_once)
        self.time_embedding = nn.Sequential(nn.Linear(config.freq_dim, config.dim), nn.SiLU(), nn.Linear(config.dim, config.dim))
        self.shared_block_modulation = nn.Linear(config.dim, 6 * config.dim)
        self.layers = nn.ModuleList(Block(config, fused, situ_once) for _ in range(config.num_layers))
        self.final_norm_video = RMSNorm(config.dim, fused)
        self.final_linear_video = nn.Linear(config.dim, config.latent_channels, bias=False)
        self.video_head_modulation = nn.Linear(config.dim, 2 * config.dim)

    @classmethod
    def skeleton(cls, config, policy="bf16", fused=False, reference=torch.float32):
        """A model without storage, each parameter in the type that the policy says."""
        with torch.device("meta"):
            model = cls(config, policy, fused)
        for name, parameter in model.named_parameters():
            parameter.data = parameter.data.to(parameter_dtype(name, policy, reference))
        return model.requires_grad_(False)

    @classmethod
    def build(cls, config, state, policy="bf16", fused=False, reference=torch.float32, device="cpu"):
        """A model with the tensors of `state` (rope.bands, if there, is dropped)."""
        model = cls.skeleton(config, policy, fused, reference)
        model.load_state_dict(
            {name: value.to(device=device, dtype=parameter_dtype(name, policy, reference)) for name, value in state.items() if name != "rope.bands"},
            assign=True,
        )
        return model.requires_grad_(False)

    # The parts of a forward, in order.

    def modulation(self, t, tap=no_tap):
        """(mod [6, dim], head_mod [2, dim]). No SiLU between the time MLP and the modulations."""
        weight = self.time_embedding[0].weight
        time = self.time_embedding(sinusoid(t, self.config.freq_dim, weight.device).to(weight.dtype))
        tap("time", time)
        time = widen(time)
        mod = self.shared_block_modulation(time.to(self.shared_block_modulation.weight.dtype)).view(6, -1)
        head = self.video_head_modulation(time.to(self.video_head_modulation.weight.dtype)).view(2, -1)
        tap("mod", mod)
        tap("head_mod", head)
        return mod, head

    def rope(self, h, w, text_rows):
        weight = self.video_embedder.weight
        return rope_table(self.config, h, w, text_rows, weight.device, weight.dtype)

    def embed_video(self, latents):
        """[C, h, w] -> [I, dim]"""
        rows = latents.flatten(1).transpose(0, 1)
        return self.video_embedder(rows.to(self.video_embedder.weight.dtype).contiguous())

    def embed_text(self, text):
        """[T, text_dim] -> [T, dim]"""
        part = self.text_embedder
        return part.proj(text.to(part.proj.weight.dtype)).to(part.blocks[0].norm1.weight.dtype)

    def head(self, x, head_mod):
        """[I, dim] -> [I, C], in the head's type"""
        shift, scale = head_mod.unbind(0)
        x = self.final_norm_video.modulated(x.to(self.final_norm_video.weight.dtype), scale, shift)
        return self.final_linear_video(x.to(self.final_linear_video.weight.dtype))

    @torch.no_grad()
    def forward(self, latents, text, t, skip=(), math=False, tap=no_tap):
        """latents [C, h, w], text [T, text_dim], t = 1000 sigma -> velocity float32 [C, h, w]"""
        skip = check_skip(skip, self.config.num_layers)
        channels, h, w = latents.shape
        image_rows, text_rows = h * w, text.shape[0]
        mod, head_mod = self.modulation(t, tap)
        video = self.embed_video(latents)
        tap("video", video)
        rope = self.rope(h, w, text_rows)
        text = self.embed_text(text)
        tap("text.in", text)
        for index, block in enumerate(self.text_embedder.blocks):
            text = block(text, tuple(part[image_rows:] for part in rope), math)
            tap(f"text.{index}", text)
        x = torch.cat((video, text))
        tap("x.0", x)
        for index, block in enumerate(self.layers):
            if index not in skip:
                x = block(x, rope, mod, math, lambda name, value, index=index: tap(f"b{index}.{name}", value))
                tap(f"x.{index + 1}", x)
        v = self.head(x[:image_rows], head_mod)
        tap("velocity", v)
        return v.float().transpose(0, 1).reshape(channels, h, w).contiguous()
