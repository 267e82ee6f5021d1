"""products.csv: the matrix products of large models as tensor-parallel ranks run them.

m, k, n are those of the product that runs, [m, k] x [k, n]: of rows R, inputs I and outputs O of a linear layer, forward is
(R, I, O), `data` (gradient of the input) is (R, O, I) and `weight` is (O, R, I). Operands come in turn from a pool of normal
values much larger than the cache, as weights do in training."""
import random

import torch
import torch.nn.functional as F

from .transformers import MODELS, TINY, set_precision

COLUMNS = ("kind", "model", "layer", "tensor", "rows", "groups", "m", "k", "n", "precision", "repetitions", "median_s", "min_s", "dispatch_s",
           "sm_clock_MHz")
ROTATED_B = 1 << 27  # operands together, where they are copied to keep them out of the cache
TIERS = ((4096,), (2048, 1024, 8192), (512, 256, 128))


class Pool:
    """Normal values of which operands are slices; they are drawn once."""

    def __init__(self, bench):
        self.elements = 1 << (20 if bench.is_tiny else 31 if bench.is_gpu else 24)
        self.values = torch.empty(self.elements, device=bench.device, dtype=torch.bfloat16).normal_()
        self.eighth = None

    def slices(self, values, shape, operand, count):
        """`count` tensors of a shape that lie apart as far as the pool reaches; operands 0 and 1 begin at different places."""
        size = shape[0] * shape[1] * (shape[2] if len(shape) > 2 else 1)
        if size > len(values):
            raise ValueError(f"an operand of {size} values is larger than the pool")
        room = len(values) - size
        starts = [(operand * len(values) // 2 + i * (size // 1024 + 1) * 1024) % (room + 1) // 16 * 16 for i in range(count)]
        return [values[start:start + size].view(shape) for start in starts]

    def operands(self, first, second, is_fp8=False):
        values = self.fp8() if is_fp8 else self.values
        size = values.element_size() * (first[0] * first[1] + torch.Size(second).numel())
        count = max(1, min(8, ROTATED_B // size + 1))
        return self.slices(values, first, 0, count), self.slices(values, second, 1, count)

    def fp8(self):
        if self.eighth is None:
            self.eighth = self.values[: self.elements // 2].to(torch.float8_e4m3fn)
        return self.eighth


def layers_of(model, tensor):
    """(name, inputs, outputs) of a rank's linear layers."""
    h, size = model.hidden, model.hidden // model.heads
    kv = max(1, model.kv_heads // tensor)
    found = [("qkv", h, (model.heads // tensor + 2 * kv) * size), ("projection", model.heads // tensor * size, h),
             ("fc1", h, model.ffn // tensor), ("fc2", model.ffn // tensor, h)]
    return found + [("head", h, -(-model.vocabulary // tensor // 16) * 16)]


def product(kind, pool, rows, inputs, outputs):
    """(m, k, n, work(i))"""
    if kind == "forward":
        x, w = pool.operands((rows, inputs), (outputs, inputs))
        return rows, inputs, outputs, lambda i: F.linear(x[i % len(x)], w[i % len(w)])
    if kind == "data":
        x, w = pool.operands((rows, outputs), (outputs, inputs))
        return rows, outputs, inputs, lambda i: x[i % len(x)] @ w[i % len(w)]
    if kind == "weight":
        x, y = pool.operands((rows, inputs), (rows, outputs))
        return outputs, rows, inputs, lambda i: y[i % len(y)].t() @ x[i % len(x)]
    x, w = pool.operands((rows, inputs), (outputs, inputs), is_fp8=True)
    one = torch.ones((), device=x[0].device)
    return rows, inputs, outputs, lambda i: torch._scaled_mm(x[i % len(x)], w[i % len(w)].t(), scale_a=one, scale_b=one,
                                                             out_dtype=torch.bfloat16, use_fast_accum=True)


def measure(bench, rows_out, name, work, **values):
    set_precision("bf16")
    timing = bench.time_many(work, 0.001 if bench.is_tiny else 0.008)
    rows_out.write(name, **values, repetitions=timing.repetitions, median_s=timing.median, min_s=timing.minimum, dispatch_s=timing.dispatch,
                   sm_clock_MHz=bench.clock())


def dense_case(bench, pool, kind, model, tensor, layer, rows):
    layer_name, inputs, outputs = layer

    def work(out, name):
        m, k, n, run = product(kind, pool, rows, inputs, outputs)
        measure(bench, out, name, run, kind=kind, model=model.name, layer=layer_name, tensor=tensor, rows=rows, m=m, k=k, n=n,
                precision="fp8" if kind == "fp8" else "bf16")
    return f"product {kind} {model.name} {layer_name} t{tensor} {rows}", work


def grouped_case(bench, pool, kind, experts, rows, hidden, ffn):
    """`grouped`: one call for all experts; `loop`: one product for each."""

    def work(out, name):
        x, w = pool.operands((experts * rows, hidden), (experts, ffn, hidden))
        ends = torch.arange(rows, experts * rows + 1, rows, device=bench.device, dtype=torch.int32)

        def loop(i):
            for part, weight in zip(x[i % len(x)].split(rows), w[i % len(w)]):
                part @ weight.t()

        run = loop if kind == "loop" else lambda i: torch._grouped_mm(x[i % len(x)], w[i % len(w)].transpose(1, 2), offs=ends)
        measure(bench, out, name, run, kind=kind, model="experts", layer="fc1", tensor=1, rows=rows, groups=experts, m=experts * rows,
                k=hidden, n=ffn, precision="bf16")
    return f"product {kind} {experts} experts {rows} rows {hidden} {ffn}", work


def dense_cases(bench, pool, kinds, models, degrees, row_counts):
    return [dense_case(bench, pool, kind, model, t, layer, rows) for rows in row_counts for model in models for t in degrees
            if model.heads % t == 0 for layer in layers_of(model, t) for kind in kinds]


def grouped_cases(bench, pool):
    sizes = [(64, 128)] if bench.is_tiny else [(4096, 14336), (7168, 2048)]
    return [grouped_case(bench, pool, kind, experts, rows, hidden, ffn) for hidden, ffn in sizes for experts in (8, 1, 4, 32)
            for rows in ((16,) if bench.is_tiny else (256, 64, 1024)) for kind in ("grouped", "loop")]


def cases(bench):
    """Tiers by rows, each mixed so that a budget that ends within it leaves some of everything."""
    pool, rng = Pool(bench), random.Random(1)
    models = list((TINY if bench.is_tiny else MODELS).values())
    degrees, kinds = (1, 2, 4, 8, 16), ("forward", "data", "weight")
    if bench.is_tiny:
        degrees = (1, 2)
    tiers = [dense_cases(bench, pool, kinds, models, degrees, [min(rows, 64) if bench.is_tiny else rows for rows in tier]) for tier in TIERS]
    for tier in tiers:
        rng.shuffle(tier)
    fp8 = dense_cases(bench, pool, ("fp8",), models[:3], degrees[:4], (4096, 1024)) if bench.is_gpu else []
    return tiers[0][:300] + fp8[:20] + grouped_cases(bench, pool) + tiers[0][300:] + fp8[20:] + tiers[1] + tiers[2]
