"""Operators of all kinds, so that kernels.csv has the kernels of many libraries. Each entry of the catalog is (name, make);
make() returns a call whose result, if it wants a gradient, is followed by the backward pass."""
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from .transformers import attention_backend

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Maker:
    """Tensors and modules on one device; `scale` divides batches where the device is a processor."""

    def __init__(self, bench):
        self.device, self.is_gpu, self.is_tiny = bench.device, bench.is_gpu, bench.is_tiny
        self.scale = 16 if bench.is_tiny else 1

    def n(self, size):
        return max(1, size // self.scale)

    def random(self, *shape, dtype=torch.float32, grad=False):
        return torch.randn(*shape, device=self.device).to(dtype).requires_grad_(grad)

    def integers(self, high, *shape):
        return torch.randint(high, shape, device=self.device)

    def module(self, module, *shape, dtype=torch.float32, channels_last=False):
        module, x = module.to(self.device, dtype), self.random(*shape, dtype=dtype, grad=True)
        if channels_last:
            form = torch.channels_last_3d if x.dim() == 5 else torch.channels_last
            module, x = module.to(memory_format=form), x.detach().to(memory_format=form).requires_grad_()
        return lambda: first_tensor(module(x))


def first_tensor(out):
    return out[0] if isinstance(out, (tuple, list)) else out


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = width // 4
        self.path = nn.Sequential(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
                                  nn.Conv2d(inner, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
                                  nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(x + self.path(x))


def convolutional(m):
    """ResNet's stem and blocks, depthwise, transposed, grouped and dilated ones, in both layouts."""
    nets = {
        "stem": (lambda: nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
                 (m.n(32), 3, 224, 224)),
        "bottleneck256": (lambda: Bottleneck(256), (m.n(32), 256, 56, 56)),
        "bottleneck1024": (lambda: Bottleneck(1024), (m.n(32), 1024, 14, 14)),
        "stride2": (lambda: nn.Conv2d(512, 512, 3, 2, 1), (m.n(32), 512, 14, 14)),
        "basic64": (lambda: nn.Conv2d(64, 64, 3, padding=1), (m.n(64), 64, 56, 56)),
        "depthwise3": (lambda: nn.Conv2d(192, 192, 3, padding=1, groups=192), (m.n(32), 192, 28, 28)),
        "depthwise5s2": (lambda: nn.Conv2d(192, 192, 5, 2, 2, groups=192), (m.n(32), 192, 28, 28)),
        "depthwise7": (lambda: nn.Conv2d(96, 96, 7, padding=3, groups=96), (m.n(32), 96, 56, 56)),
        "grouped32": (lambda: nn.Conv2d(256, 256, 3, padding=1, groups=32), (m.n(32), 256, 28, 28)),
        "transposed": (lambda: nn.ConvTranspose2d(256, 128, 4, 2, 1), (m.n(16), 256, 28, 28)),
        "dilated": (lambda: nn.Conv2d(128, 128, 3, padding=2, dilation=2), (m.n(16), 128, 56, 56)),
        "patches": (lambda: nn.Conv2d(3, 768, 16, 16), (m.n(32), 3, 224, 224)),
        "pixels": (lambda: nn.Sequential(nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2)), (m.n(8), 64, 64, 64)),
        "excitation": (lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(256, 64, 1), nn.SiLU(), nn.Conv2d(64, 256, 1),
                                             nn.Sigmoid()), (m.n(32), 256, 28, 28)),
        "volume": (lambda: nn.Conv3d(32, 64, 3, padding=1), (m.n(4), 32, 16, 32, 32)),
    }
    found = []
    for precision, dtype in DTYPES.items():
        for last in (True, False):
            for name, (net, shape) in nets.items():
                found.append((f"conv {name} {precision} {'nhwc' if last else 'nchw'}",
                              lambda net=net, shape=shape, dtype=dtype, last=last: m.module(net(), *shape, dtype=dtype, channels_last=last)))
        found.append((f"conv 1d {precision}", lambda dtype=dtype: m.module(nn.Conv1d(80, 512, 3, padding=1), m.n(16), 80, 1500, dtype=dtype)))
        found.append((f"conv 1d depthwise {precision}",
                      lambda dtype=dtype: m.module(nn.Conv1d(512, 512, 4, padding=3, groups=512), m.n(16), 512, 1500, dtype=dtype)))
    return found


def pooling_and_norms(m):
    b = m.n(32)
    nets = {
        "maxpool": (lambda: nn.MaxPool2d(2), (b, 64, 56, 56)), "avgpool": (lambda: nn.AvgPool2d(2), (b, 64, 56, 56)),
        "adaptive avgpool": (lambda: nn.AdaptiveAvgPool2d(7), (b, 64, 28, 28)), "global avgpool": (lambda: nn.AdaptiveAvgPool2d(1), (b, 512, 7, 7)),
        "adaptive maxpool": (lambda: nn.AdaptiveMaxPool2d(7), (b, 64, 28, 28)), "maxpool1d": (lambda: nn.MaxPool1d(2), (b, 64, 1024)),
        "avgpool3d": (lambda: nn.AvgPool3d(2), (m.n(4), 16, 16, 32, 32)), "lppool": (lambda: nn.LPPool2d(2, 2), (b, 32, 28, 28)),
        "batchnorm": (lambda: nn.BatchNorm2d(256), (b, 256, 28, 28)), "batchnorm1d": (lambda: nn.BatchNorm1d(512), (m.n(1024), 512)),
        "groupnorm": (lambda: nn.GroupNorm(32, 256), (b, 256, 28, 28)), "instancenorm": (lambda: nn.InstanceNorm2d(64, affine=True), (b, 64, 56, 56)),
        "layernorm768": (lambda: nn.LayerNorm(768), (m.n(8), 1024, 768)), "layernorm4096": (lambda: nn.LayerNorm(4096), (m.n(8), 512, 4096)),
        "layernorm100": (lambda: nn.LayerNorm(100), (m.n(8), 512, 100)), "localresponse": (lambda: nn.LocalResponseNorm(5), (m.n(8), 96, 28, 28)),
        "pad reflect": (lambda: nn.ReflectionPad2d(2), (m.n(8), 32, 56, 56)), "pad replicate": (lambda: nn.ReplicationPad2d(2), (m.n(8), 32, 56, 56)),
        "pad zero": (lambda: nn.ZeroPad2d(2), (m.n(8), 32, 56, 56)), "unfold": (lambda: nn.Unfold(3), (m.n(8), 32, 28, 28)),
        "fold": (lambda: nn.Fold((28, 28), 2, stride=2), (m.n(8), 128, 196)), "dropout": (lambda: nn.Dropout(0.1), (m.n(8), 1024, 1024)),
        "dropout2d": (lambda: nn.Dropout2d(0.1), (b, 64, 28, 28)), "softmax1024": (lambda: nn.Softmax(-1), (m.n(64), 128, 1024)),
        "softmax32000": (lambda: nn.Softmax(-1), (m.n(512), 32000)), "logsoftmax": (lambda: nn.LogSoftmax(-1), (m.n(512), 32000)),
        "softmax channels": (lambda: nn.Softmax(1), (m.n(8), 64, 32, 32)), "glu": (lambda: nn.GLU(-1), (m.n(8), 512, 1024)),
        "prelu": (lambda: nn.PReLU(64), (b, 64, 28, 28)),
    }
    if hasattr(nn, "RMSNorm"):
        nets["rmsnorm"] = (lambda: nn.RMSNorm(4096), (m.n(8), 512, 4096))
    return [(f"layer-op {name} {precision}", lambda net=net, shape=shape, dtype=dtype: m.module(net(), *shape, dtype=dtype))
            for precision, dtype in DTYPES.items() for name, (net, shape) in nets.items()]


UNARY = ("relu gelu silu sigmoid tanh exp log1p sqrt rsqrt abs neg sin cos erf softplus elu leaky_relu hardswish mish square "
         "reciprocal floor sign clamp01 logit").split()


def unary(name):
    special = {"clamp01": lambda x: x.clamp(0, 1), "log1p": lambda x: torch.log1p(x.abs()), "sqrt": lambda x: x.abs().sqrt(),
               "rsqrt": lambda x: (x.abs() + 1).rsqrt(), "logit": lambda x: torch.logit(x, 1e-3)}
    return special.get(name) or getattr(torch, name, None) or getattr(F, name)


def elementwise(m):
    shape = (m.n(4096), 1024)
    found = []
    for precision, dtype in DTYPES.items():
        one = lambda f, dtype=dtype: (lambda: (lambda x: lambda: f(x))(m.random(*shape, dtype=dtype, grad=True)))
        two = lambda f, dtype=dtype: (lambda: (lambda x, y: lambda: f(x, y))(m.random(*shape, dtype=dtype, grad=True),
                                                                          m.random(*shape, dtype=dtype, grad=True)))
        found += [(f"pointwise {name} {precision}", one(unary(name))) for name in UNARY]
        pairs = {"add": torch.add, "mul": torch.mul, "sub": torch.sub, "div": torch.div, "maximum": torch.maximum, "pow": lambda x, y: x.abs().pow(y),
                 "where": lambda x, y: torch.where(x > y, x, y), "addcmul": lambda x, y: torch.addcmul(x, x, y), "lerp": lambda x, y: torch.lerp(x, y, 0.3),
                 "broadcast add": lambda x, y: x + y[:1], "strided add": lambda x, y: x[:, ::2] + y[:, 1::2], "cat": lambda x, y: torch.cat((x, y), 1),
                 "stack": lambda x, y: torch.stack((x, y)), "mse": F.mse_loss, "l1": F.l1_loss, "huber": F.smooth_l1_loss,
                 "cosine similarity": F.cosine_similarity, "bce logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach().sigmoid()),
                 "kl": lambda x, y: F.kl_div(F.log_softmax(x, -1), F.softmax(y.detach(), -1), reduction="batchmean")}
        found += [(f"pair {name} {precision}", two(f)) for name, f in pairs.items()]
        reductions = {"sum": lambda x: x.sum(), "sum rows": lambda x: x.sum(1), "sum columns": lambda x: x.sum(0), "mean": lambda x: x.mean(-1),
                      "amax": lambda x: x.amax(-1), "max": lambda x: x.max(-1), "argmax": lambda x: x.argmax(-1), "var": lambda x: x.var(-1), "norm": lambda x: x.norm(),
                      "norm rows": lambda x: x.norm(dim=1), "logsumexp": lambda x: x.logsumexp(-1), "prod": lambda x: x.prod(1), "cumsum": lambda x: x.cumsum(-1),
                      "cumsum columns": lambda x: x.cumsum(0), "all finite": lambda x: torch.isfinite(x).all(), "transpose": lambda x: x.t().contiguous(),
                      "flip": lambda x: x.flip(0), "roll": lambda x: x.roll(3, 0), "tril": lambda x: x.tril(), "masked fill": lambda x: x.masked_fill(x > 0, 0.0),
                      "sort": lambda x: x.sort(-1), "topk": lambda x: x.topk(8, -1), "topk50": lambda x: x.topk(50, -1), "median": lambda x: x.median(-1),
                      "to fp32": lambda x: x.float() * 1, "to bf16": lambda x: x.bfloat16() * 1, "to fp16": lambda x: x.half() * 1}
        found += [(f"reduce {name} {precision}", one(lambda x, f=f: first_tensor(f(x)))) for name, f in reductions.items()]
    return found


def indexing(m):
    """Embeddings, gather, scatter and the like; losses over classes."""
    tokens, found = m.n(4096), []
    for precision, dtype in DTYPES.items():
        table = lambda dtype=dtype: m.random(32000, 512, dtype=dtype, grad=True)
        ids = lambda: m.integers(32000, tokens)

        def add(name, f, dtype=dtype, table=table):
            found.append((f"index {name} {precision}", lambda: (lambda t, i: lambda: f(t, i))(table(), ids())))

        add("embedding", lambda t, i: F.embedding(i, t))
        add("embedding padded", lambda t, i: F.embedding(i, t, padding_idx=0))
        for mode in ("sum", "mean") if precision == "bf16" else ("sum", "mean", "max"):  # no backward of the maxima in bf16
            add(f"embedding bag {mode}", lambda t, i, mode=mode: F.embedding_bag(i.view(-1, 8), t, mode=mode))
        add("index select", lambda t, i: t.index_select(0, i))
        add("take rows", lambda t, i: t[i])
        add("gather", lambda t, i: t.gather(0, i[:, None].expand(-1, 512)))
        add("index add", lambda t, i: torch.zeros_like(t).index_add(0, i, t[: len(i)]))
        add("scatter add", lambda t, i: torch.zeros_like(t).scatter_add(0, i[:, None].expand(-1, 512), t[: len(i)]))
        add("scatter", lambda t, i: torch.zeros_like(t).scatter(0, i[:, None].expand(-1, 512), t[: len(i)]))
        add("index put", lambda t, i: torch.zeros_like(t).index_put((i,), t[: len(i)]))
        add("index put accumulate", lambda t, i: torch.zeros_like(t).index_put((i,), t[: len(i)], accumulate=True))
        add("cross entropy", lambda t, i: F.cross_entropy(t[: len(i)], i % 512))
        add("cross entropy fp32", lambda t, i: F.cross_entropy(t[: len(i)].float(), i % 512))
        add("nll", lambda t, i: F.nll_loss(t[: len(i)], i % 512))
        add("masked select", lambda t, i: t[: len(i)].masked_select(t[: len(i)].detach() > 0))
        add("repeat interleave", lambda t, i: t[: len(i)].repeat_interleave(2, 0))
    integer = {"bincount": lambda i: torch.bincount(i, minlength=64), "unique": torch.unique, "nonzero": torch.nonzero, "sort": lambda i: i.sort()[0], "argsort stable":
               lambda i: torch.sort(i, stable=True)[1], "histc": lambda i: torch.histc(i.float(), 64), "one hot": lambda i: F.one_hot(i % 64, 64),
               "cumsum": lambda i: i.cumsum(0), "searchsorted": lambda i: torch.searchsorted(i.sort()[0], i), "bucketize": lambda i: torch.bucketize(i, i[:8].sort()[0]),
               "arange": lambda i: torch.arange(4096, device=i.device), "add": lambda i: i + 1, "compare": lambda i: i == 3, "max": lambda i: i.max()}
    found += [(f"index int {name}", lambda f=f: (lambda i: lambda: f(i))(m.integers(64, tokens))) for name, f in integer.items()]
    return found


def recurrent(m):
    warnings.filterwarnings("ignore", message="RNN module weights are not part")  # cuDNN keeps none in bf16 in one piece
    nets = {"lstm": lambda: nn.LSTM(256, 512, 2), "gru": lambda: nn.GRU(256, 512, 2), "rnn": lambda: nn.RNN(256, 512), "bidirectional":
            lambda: nn.LSTM(256, 256, bidirectional=True), "lstm dropout": lambda: nn.LSTM(256, 256, 2, dropout=0.1)}
    found = [(f"recurrent {name} {precision}", lambda net=net, dtype=dtype: m.module(net(), 32, m.n(64), 256, dtype=dtype))
             for precision, dtype in DTYPES.items() for name, net in nets.items()]
    cells = {"lstm cell": lambda: nn.LSTMCell(256, 512), "gru cell": lambda: nn.GRUCell(256, 512)}
    return found + [(f"recurrent {name} {precision}", lambda net=net, dtype=dtype: m.module(net(), m.n(64), 256, dtype=dtype))
                    for precision, dtype in DTYPES.items() for name, net in cells.items()]


def images(m):
    found = []
    for precision, dtype in DTYPES.items():
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            extra = {"align_corners": False} if mode in ("bilinear", "bicubic") else {}
            found.append((f"image interpolate {mode} {precision}", lambda mode=mode, extra=extra, dtype=dtype: (
                lambda x: lambda: F.interpolate(x, scale_factor=2, mode=mode, **extra))(m.random(m.n(8), 32, 56, 56, dtype=dtype, grad=True))))
        found.append((f"image grid sample {precision}", lambda dtype=dtype: (lambda x, g: lambda: F.grid_sample(x, g, align_corners=False))(
            m.random(m.n(8), 32, 56, 56, dtype=dtype, grad=True), m.random(m.n(8), 28, 28, 2, dtype=dtype, grad=True))))
    return found


def spectra_and_algebra(m):
    square = lambda n, batch=(): m.random(*batch, n, n, grad=True)
    definite = lambda n: (lambda x: (x @ x.t() + n * torch.eye(n, device=x.device)).detach().requires_grad_())(m.random(n, n))
    of = lambda make, f: (lambda: (lambda x: lambda: first_tensor(f(x)))(make()))
    signal = lambda n: (lambda: m.random(m.n(64), n, grad=True))
    linalg = torch.linalg
    return [
        ("fft 1d", of(signal(1024), lambda x: torch.fft.fft(x).abs())), ("fft real", of(signal(4096), lambda x: torch.fft.rfft(x).abs())),
        ("fft 1000", of(signal(1000), lambda x: torch.fft.fft(x).abs())), ("fft 2d", of(lambda: m.random(m.n(8), 64, 64, grad=True), lambda x: torch.fft.fft2(x).abs())),
        ("fft inverse", of(signal(1024), lambda x: torch.fft.irfft(torch.fft.rfft(x)))),
        ("linalg svd", of(lambda: square(64), linalg.svdvals)), ("linalg cholesky", of(lambda: definite(256), linalg.cholesky)),
        ("linalg cholesky 1024", of(lambda: definite(1024), linalg.cholesky)), ("linalg qr", of(lambda: square(128), linalg.qr)),
        ("linalg inverse", of(lambda: definite(128), linalg.inv)), ("linalg solve", of(lambda: definite(256), lambda x: linalg.solve(x, x.detach()[:, :4]))),
        ("linalg eigh", of(lambda: definite(64), linalg.eigvalsh)), ("linalg lu", of(lambda: definite(128), lambda x: linalg.lu_factor(x))),
        ("linalg triangular", of(lambda: definite(128), lambda x: linalg.solve_triangular(x.tril(), x.detach(), upper=False))),
        ("linalg det", of(lambda: definite(64), linalg.det)), ("linalg batched inverse", of(lambda: square(16, (m.n(64),)), linalg.inv)),
        ("linalg einsum", of(lambda: square(64, (16,)), lambda x: torch.einsum("bij,bkj->ik", x, x))),
    ]


def products(m):
    """Dense products of all kinds: vectors, batches, biases, odd sizes, sparse, 8 bits, groups."""
    found = []
    for precision, dtype in DTYPES.items():
        r = lambda *shape, dtype=dtype: m.random(*shape, dtype=dtype, grad=True)
        sizes = {"square": (m.n(4096), 4096, 4096), "small": (128, 256, 256), "tall": (m.n(8192), 1024, 128), "odd": (m.n(1000), 1001, 333), "deep": (64, 8192, 64), "one": (1, 4096, 4096),
                 "wide": (m.n(512), 512, 32000)}
        for name, (rows, inner, columns) in sizes.items():
            found.append((f"product {name} {precision}", lambda r=r, a=rows, b=inner, c=columns: (lambda x, y: lambda: x @ y)(r(a, b), r(b, c))))
            found.append((f"linear {name} {precision}", lambda a=rows, b=inner, c=columns, dtype=dtype: m.module(nn.Linear(b, c), a, b, dtype=dtype)))
        found.append((f"product batched {precision}", lambda r=r: (lambda x, y: lambda: torch.bmm(x, y))(r(m.n(64), 512, 64), r(m.n(64), 64, 512))))
        found.append((f"product baddbmm {precision}", lambda r=r: (lambda x, y: lambda: torch.baddbmm(x @ y, x, y))(r(16, 128, 64), r(16, 64, 128))))
        found.append((f"product vector {precision}", lambda r=r: (lambda x, y: lambda: x @ y)(r(4096, 1024), r(1024))))
        found.append((f"product dot {precision}", lambda r=r: (lambda x, y: lambda: x.dot(y))(r(65536), r(65536))))
        found.append((f"product outer {precision}", lambda r=r: (lambda x, y: lambda: torch.outer(x, y))(r(1024), r(1024))))
    found.append(("product sparse", lambda: (lambda a, b: lambda: torch.sparse.mm(a, b))(
        torch.eye(1024, device=m.device).to_sparse(), m.random(1024, 64, grad=True))))
    found.append(("product sparse rows", lambda: (lambda a, b: lambda: a @ b)(torch.eye(1024, device=m.device).to_sparse_csr(), m.random(1024, 64))))
    if m.is_gpu:
        small = lambda *shape: torch.randint(-8, 8, shape, device=m.device, dtype=torch.int8)
        found.append(("product int8", lambda: (lambda a, b: lambda: torch._int_mm(a, b.t()))(small(1024, 1024), small(1024, 1024))))
        found.append(("product fp8", lambda: fp8_product(m, 2048, 4096, 4096)))
        found.append(("product fp8 rowwise", lambda: fp8_product(m, 2048, 4096, 4096, True)))
        found.append(("product grouped", lambda: grouped_product(m)))
    return found


def fp8_product(m, rows, inner, columns, is_rowwise=False):
    a, b = (m.random(n, inner).to(torch.float8_e4m3fn) for n in (rows, columns))
    scales = [torch.ones(shape if is_rowwise else (), device=m.device) for shape in ((rows, 1), (1, columns))]
    return lambda: torch._scaled_mm(a, b.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16)


def grouped_product(m):
    a, b = m.random(2048, 1024, dtype=torch.bfloat16, grad=True), m.random(8, 2048, 1024, dtype=torch.bfloat16, grad=True)
    ends = torch.arange(256, 2049, 256, device=m.device, dtype=torch.int32)
    return lambda: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)


def attention(m):
    found = []
    for precision in ("bf16", "fp16", "fp32"):
        for kind in ("efficient", "math") if precision == "fp32" else ("flash", "efficient", "cudnn", "math"):
            for size in (64, 128):
                for causal in (True, False):
                    found.append((f"attention {kind} {precision} d{size} {'causal' if causal else 'full'}",
                                  lambda kind=kind, size=size, causal=causal, dtype=DTYPES[precision]: attend(m, kind, dtype, size, causal)))
    found.append(("attention efficient masked", lambda: attend(m, "efficient", torch.bfloat16, 64, False, mask=True)))
    found.append(("attention flash dropout", lambda: attend(m, "flash", torch.bfloat16, 64, True, dropout=0.1)))
    return found


def attend(m, kind, dtype, size, causal, mask=False, dropout=0.0):
    q, k, v = (m.random(m.n(4), 16, 512, size, dtype=dtype, grad=True) for _ in range(3))
    bias = m.random(1, 1, 512, 512, dtype=dtype) if mask else None

    def work():
        with attention_backend(kind, m.device):
            return F.scaled_dot_product_attention(q, k, v, bias, dropout, causal)
    return work


def moves_and_numbers(m):
    """Copies, fills, random numbers, scaling of gradients; nothing has a backward pass."""
    big, dtype = m.n(1 << 22), torch.float32
    buffer = lambda: torch.empty(big, device=m.device)
    draw = {"normal": lambda x: x.normal_(), "uniform": lambda x: x.uniform_(), "bernoulli": lambda x: x.bernoulli_(0.1), "exponential": lambda x: x.exponential_(),
            "fill": lambda x: x.fill_(1), "zero": lambda x: x.zero_(), "copy": lambda x: x.clone(), "random": lambda x: x.random_(0, 100), "log normal": lambda x: x.log_normal_()}
    found = [(f"draw {name}", lambda f=f: (lambda x: lambda: f(x).detach())(buffer())) for name, f in draw.items()]
    found += [("draw randint", lambda: lambda: torch.randint(100, (big,), device=m.device)), ("draw randperm", lambda: lambda: torch.randperm(65536, device=m.device)),
              ("draw multinomial", lambda: (lambda x: lambda: torch.multinomial(x, 4))(m.random(m.n(64), 1000).abs())),
              ("copy to host", lambda: (lambda x: lambda: x.cpu())(buffer())), ("copy scalar", lambda: (lambda x: lambda: x[0].item() and None)(buffer())),
              ("copy from host", lambda: (lambda x, y: lambda: y.copy_(x))(torch.empty(big), buffer())), ("copy strided", lambda: (lambda x: lambda: x.view(-1, 64).t().contiguous())(buffer())),
              ("copy within", lambda: (lambda x, y: lambda: y.copy_(x))(buffer(), buffer()))]
    if m.is_gpu:
        found.append(("copy from pinned", lambda: (lambda x, y: lambda: y.copy_(x, non_blocking=True))(torch.empty(big).pin_memory(), buffer())))
        found += [(f"scaler {name}", lambda name=name: scaled_update(m, name)) for name in ("loop", "foreach", "fused")]
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"):
        for how in ("loop", "foreach", "fused") if name in FUSED else ("loop", "foreach"):
            found.append((f"optimizer {name} {how}", lambda name=name, how=how: small_update(m, name, how)))
    return found


FUSED = ("SGD", "Adam", "AdamW")  # optimizers that have one
HOW = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def small_update(m, name, how):
    parameters = [m.random(256, 256, grad=True) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = m.random(256, 256)
    options = dict(HOW[how], **({"momentum": 0.9} if name == "SGD" else {}))
    return getattr(torch.optim, name)(parameters, lr=1e-3, **options).step


def scaled_update(m, how):
    parameters = [m.random(256, 256, grad=True) for _ in range(4)]
    update, scaler = torch.optim.Adam(parameters, lr=1e-3, **HOW[how]), torch.amp.GradScaler("cuda")

    def work():
        update.zero_grad()
        scaler.scale(sum((p * p).sum() for p in parameters)).backward()
        scaler.unscale_(update)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(update)
        scaler.update()
    return work


def catalog(bench):
    """All entries, the kinds in turn so that a short run has some of each."""
    m = Maker(bench)
    kinds = [kind(m) for kind in (convolutional, products, indexing, attention, pooling_and_norms, moves_and_numbers, recurrent, elementwise,
                                  images, spectra_and_algebra)]
    if bench.is_tiny:
        kinds = [kind[:4] + kind[-2:] for kind in kinds]
    turns = 12  # slices of each kind
    part = lambda kind, turn: kind[len(kind) * turn // turns:len(kind) * (turn + 1) // turns]
    return [entry for turn in range(turns) for kind in kinds for entry in part(kind, turn)]
