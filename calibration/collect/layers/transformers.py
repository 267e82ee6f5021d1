"""Transformer layers as one tensor-parallel rank runs them, without communication, and whole small models of them.

A rank of degree t holds h x (q + 2 kv)/t of the joint query, key and value product, a/t heads, (q/t) x h of the projection
and f/t of the feed-forward part; norms are whole. Rotary positions, RMSNorm ("rmsnorm-eager") and SwiGLU are written out in
elementwise operators as most eager code has them; "rmsnorm" calls PyTorch's own function where there is one.
"""
import collections
import contextlib
import inspect
import warnings

import torch
import torch.nn.functional as F
from torch import nn

Model = collections.namedtuple("Model", "name hidden heads kv_heads ffn gated norm rotary bias vocabulary")


def llama(name, hidden, heads, kv_heads, ffn, vocabulary=128256):
    return Model(name, hidden, heads, kv_heads, ffn, True, "rmsnorm", True, False, vocabulary)


def gpt(name, hidden, heads, vocabulary=50304):
    return Model(name, hidden, heads, heads, 4 * hidden, False, "layernorm", False, True, vocabulary)


MODELS = {model.name: model for model in (
    llama("llama3-8b", 4096, 32, 8, 14336),
    llama("llama3-70b", 8192, 64, 8, 28672),
    llama("llama2-7b", 4096, 32, 32, 11008, 32000),
    gpt("gpt3-6.7b", 4096, 32),
    llama("llama3.1-405b", 16384, 128, 8, 53248),
    llama("llama3.2-1b", 2048, 32, 8, 8192),
    gpt("gpt3-175b", 12288, 96),
    gpt("gpt3-1.3b", 2048, 16),
    gpt("gpt2-small", 768, 12, 50257),
)}
TINY = {model.name: model for model in (llama("tiny-llama", 64, 4, 2, 128, 512), gpt("tiny-gpt", 64, 4, 512))}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}


def splits(model, tensor):
    """Whether `tensor` ranks can share the heads; key and value heads are not replicated."""
    return model.heads % tensor == 0 and model.kv_heads % tensor == 0 and model.ffn % tensor == 0


def set_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"


BACKENDS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH"}


def attention_backend(name, device):
    """A context in which attention runs on that backend alone; PyTorch before 2.3 and processors choose themselves."""
    if name not in BACKENDS or device.type != "cuda":
        return contextlib.nullcontext()
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return contextlib.nullcontext()
    return sdpa_kernel(getattr(SDPBackend, BACKENDS[name]))


def takes_grouped_queries():
    function = getattr(F, "scaled_dot_product_attention", None)
    return function is not None and "enable_gqa" in (function.__doc__ or "")


def repeat_heads(x, times):
    if times == 1:
        return x
    b, heads, s, d = x.shape
    return x[:, :, None].expand(b, heads, times, s, d).reshape(b, heads * times, s, d)


def rotate(x, cosine, sine):
    """Rotary positions, halves of a head rotated: x cos + (-x2, x1) sin. Shapes [b, heads, s, d] and [s, d]."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class RmsNorm(nn.Module):
    def __init__(self, width, is_eager):
        super().__init__()
        self.weight, self.is_eager, self.eps = nn.Parameter(torch.ones(width)), is_eager, 1e-5

    def forward(self, x):
        if not self.is_eager and hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


class Attention(nn.Module):
    """`kind`: a backend of BACKENDS; or "eager": product, scale, mask, softmax, dropout, product."""

    def __init__(self, model, tensor, sequence, kind, dropout, is_causal=True):
        super().__init__()
        self.size = model.hidden // model.heads
        self.heads, self.kv_heads = model.heads // tensor, model.kv_heads // tensor
        self.kind, self.dropout, self.is_causal, self.groups_itself = kind, dropout, is_causal, False
        self.qkv = nn.Linear(model.hidden, (self.heads + 2 * self.kv_heads) * self.size, bias=model.bias)
        self.out = nn.Linear(self.heads * self.size, model.hidden, bias=model.bias)
        self.has_rotary = model.rotary
        angles = torch.arange(sequence)[:, None] / 10000 ** (torch.arange(0, self.size, 2)[None] / self.size)
        self.register_buffer("cosine", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sine", torch.cat((angles, angles), -1).sin(), persistent=False)
        mask = torch.full((sequence, sequence), float("-inf")).triu(1) if kind == "eager" and is_causal else torch.zeros(1)
        self.register_buffer("mask", mask, persistent=False)

    def written_out(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.size ** -0.5 + self.mask
        weights = F.dropout(torch.softmax(scores, -1), self.dropout, True)
        return torch.matmul(weights, v)

    def attend(self, q, k, v):
        ratio = self.heads // self.kv_heads
        if self.kind != "eager" and ratio > 1 and self.groups_itself:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=self.is_causal, enable_gqa=True)
        k, v = repeat_heads(k, ratio), repeat_heads(v, ratio)
        if self.kind == "eager" or not hasattr(F, "scaled_dot_product_attention"):
            return self.written_out(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=self.is_causal)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).split([n * self.size for n in (self.heads, self.kv_heads, self.kv_heads)], -1)
        q, k, v = (y.view(b, s, -1, self.size).transpose(1, 2) for y in (q, k, v))
        if self.has_rotary:
            q, k = rotate(q, self.cosine, self.sine), rotate(k, self.cosine, self.sine)
        y = self.attend(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, s, self.heads * self.size))


class FeedForward(nn.Module):
    """Two products with GELU between them, or three with SwiGLU."""

    def __init__(self, model, tensor):
        super().__init__()
        width = model.ffn // tensor
        self.inner = nn.Linear(model.hidden, width, bias=model.bias)
        self.gate = nn.Linear(model.hidden, width, bias=model.bias) if model.gated else None
        self.outer = nn.Linear(width, model.hidden, bias=model.bias)

    def forward(self, x):
        if self.gate is None:
            return self.outer(F.gelu(self.inner(x)))
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


class Layer(nn.Module):
    """Norms before each part, or, with `is_post_norm`, after each sum as BERT has them."""

    def __init__(self, model, tensor, sequence, attention, dropout=0.0, norm=None, is_post_norm=False, is_causal=True):
        super().__init__()
        make = lambda: norm_of(norm or model.norm, model.hidden)
        self.norms = nn.ModuleList([make(), make()])
        self.attention = Attention(model, tensor, sequence, attention, dropout, is_causal)
        self.feed_forward = FeedForward(model, tensor)
        self.is_post_norm = is_post_norm

    def forward(self, x):
        if self.is_post_norm:
            x = self.norms[0](x + self.attention(x))
            return self.norms[1](x + self.feed_forward(x))
        x = x + self.attention(self.norms[0](x))
        return x + self.feed_forward(self.norms[1](x))


def norm_of(name, width):
    return nn.LayerNorm(width) if name == "layernorm" else RmsNorm(width, name == "rmsnorm-eager")


class Stack(nn.Module):
    """Embedding, layers, norm and head; `is_tied`: the head is the embedding."""

    def __init__(self, model, layers, sequence, is_tied=True, is_bert=False):
        super().__init__()
        self.tokens = nn.Embedding(model.vocabulary, model.hidden)
        self.places = None if model.rotary else nn.Embedding(sequence, model.hidden)
        self.layers = nn.ModuleList(Layer(model, 1, sequence, "flash", is_post_norm=is_bert, is_causal=not is_bert)
                                    for _ in range(layers))
        self.norm = norm_of(model.norm, model.hidden)
        self.head = nn.Linear(model.hidden, model.vocabulary, bias=False)
        if is_tied:
            self.head.weight = self.tokens.weight
        self.checkpoints = False

    def forward(self, tokens):
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places.weight
        for layer in self.layers:
            x = checkpointed(layer, x) if self.checkpoints else layer(x)
        return self.head(self.norm(x))


def checkpointed(layer, x):
    from torch.utils.checkpoint import checkpoint
    has_choice = "use_reentrant" in inspect.signature(checkpoint).parameters
    return checkpoint(layer, x, **({"use_reentrant": False} if has_choice else {}))


def build(make, device, dtype):
    """A module made on `device` in `dtype` with normal weights of deviation 0.02, biases of 0 and norms of 1."""
    with on_device(device):
        module = make()
    module = module.to(device=device, dtype=dtype)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                part.weight.normal_(0, 0.02)
                if getattr(part, "bias", None) is not None:
                    part.bias.zero_()
    return module


@contextlib.contextmanager
def on_device(device):
    """New tensors on `device`, where PyTorch (2.0) can; no time is spent on weights that are drawn anew anyway."""
    inits = {name: getattr(nn.init, name) for name in ("kaiming_uniform_", "uniform_", "normal_")}
    for name in inits:
        setattr(nn.init, name, lambda tensor, *_, **__: tensor)
    try:
        with device if hasattr(torch, "set_default_device") else contextlib.nullcontext():
            yield
    finally:
        for name, function in inits.items():
            setattr(nn.init, name, function)


def choose_grouping(layer, x):
    """Lets attention take fewer key heads than query heads where the backend can; returns 1 if heads are repeated."""
    attention = layer.attention
    if attention.heads == attention.kv_heads:
        return 0
    attention.groups_itself = attention.kind != "eager" and takes_grouped_queries()
    if attention.groups_itself:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch says why each backend declines
                out = layer(x)
                out.backward(torch.zeros_like(out))
        except RuntimeError as error:
            if "out of memory" in str(error):
                raise
            attention.groups_itself = False
        for tensor in (x, *layer.parameters()):
            tensor.grad = None
    return int(not attention.groups_itself)
