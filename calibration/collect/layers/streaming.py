"""streaming.csv: operators that do little but read and write. `least_B`: every input, kept value and result moved once."""
import torch
import torch.nn.functional as F

from .bench import saved_bytes
from .transformers import DTYPES, RmsNorm, rotate

COLUMNS = ("operator", "phase", "precision", "elements", "width", "least_B", "repetitions", "median_s", "min_s", "dispatch_s")
WIDTH = 4096


def rows_of(bench, elements, width=WIDTH):
    return max(1, elements // width), width


class Streams:
    """Inputs of one size; each method returns (inputs that want gradients, other inputs, work)."""

    def __init__(self, bench, elements, precision):
        self.device, self.dtype, self.elements = bench.device, DTYPES[precision], elements
        self.shape = rows_of(bench, elements)

    def random(self, *shape, dtype=None, grad=True):
        return torch.randn(*(shape or self.shape), device=self.device, dtype=dtype or self.dtype).requires_grad_(grad)

    def rmsnorm(self, is_eager=False):
        norm, x = RmsNorm(WIDTH, is_eager).to(self.device, self.dtype), self.random()
        return [x, norm.weight], [], lambda: norm(x)

    def rmsnorm_eager(self):
        return self.rmsnorm(True)

    def layernorm(self):
        norm, x = torch.nn.LayerNorm(WIDTH).to(self.device, self.dtype), self.random()
        return [x, norm.weight, norm.bias], [], lambda: norm(x)

    def softmax(self):
        x = self.random()
        return [x], [], lambda: torch.softmax(x, -1)

    def swiglu(self):
        x, y = self.random(), self.random()
        return [x, y], [], lambda: F.silu(x) * y

    def gelu(self):
        x = self.random()
        return [x], [], lambda: F.gelu(x)

    def dropout(self):
        x = self.random()
        return [x], [], lambda: F.dropout(x, 0.1)

    def rotary(self):
        x = self.random(1, 32, max(1, self.elements // WIDTH), 128)
        cosine, sine = (self.random(*x.shape[2:], grad=False) for _ in range(2))
        return [x], [cosine, sine], lambda: rotate(x, cosine, sine)

    def add(self):
        x, y = self.random(), self.random()
        return [x, y], [], lambda: x + y

    def copy(self):
        x, y = self.random(grad=False), self.random(grad=False)
        return [], [x], lambda: y.copy_(x)

    def accumulate(self):
        """fp32 += values of the precision, as gradients are summed."""
        x, y = self.random(grad=False), self.random(dtype=torch.float32, grad=False)
        return [], [x, y], lambda: y.add_(x)

    def cast(self):
        x = self.random(grad=False)
        other = torch.float32 if self.dtype == torch.bfloat16 else torch.bfloat16
        return [], [x], lambda: x.to(other)

    def cross_entropy(self, classes=32000):
        """Logits of the precision, loss in fp32."""
        rows = max(1, self.elements // classes)
        x, y = self.random(rows, classes), torch.randint(classes, (rows,), device=self.device)
        return [x], [y], lambda: F.cross_entropy(x.float(), y)

    def cross_entropy_128256(self):
        return self.cross_entropy(128256)

    def embedding(self, rows=32000):
        """Looked-up elements; the gradient of the table is dense. The table is no input: only its rows are read."""
        table = self.random(rows, WIDTH)
        tokens = torch.randint(rows, (max(1, self.elements // WIDTH),), device=self.device)
        return [table], [tokens], lambda: F.embedding(tokens, table)

    def embedding_128256(self):
        return self.embedding(128256)


OPERATORS = ("rmsnorm layernorm swiglu gelu add cross_entropy_128256 softmax rotary rmsnorm_eager copy accumulate cast embedding "
             "cross_entropy embedding_128256 dropout").split()


def size_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def measure(bench, operator, elements, precision, rows, name):
    wanted, others, work = getattr(Streams(bench, elements, precision), operator)()
    seconds = 0.001 if bench.is_tiny else 0.015
    out = work()
    read = size_of([out]) if operator.startswith("embedding") else size_of(wanted)
    values = {"operator": operator, "precision": precision, "elements": elements, "width": wanted[0].shape[-1] if wanted else WIDTH}
    write = lambda phase, timing, least: rows.write(
        name, phase=phase, **values, least_B=least, repetitions=timing.repetitions, median_s=timing.median, min_s=timing.minimum,
        dispatch_s=timing.dispatch)
    write("forward", bench.time_many(lambda i: work(), seconds), read + size_of(others) + size_of([out]))
    if wanted and operator != "add":  # whose backward pass hands the gradient on and launches nothing
        gradient = torch.randn_like(out)
        kept = saved_bytes(work, [])
        backward = lambda i: torch.autograd.grad(out, wanted, gradient, retain_graph=True)
        write("backward", bench.time_many(backward, seconds), size_of([gradient]) + kept + size_of(wanted))


def cases(bench):
    sizes = (12,) if bench.is_tiny else (26, 24, 22, 28, 20)
    bound = lambda *case: lambda rows, name: measure(bench, *case, rows, name)
    return [(f"stream {operator} {precision} 2^{size}", bound(operator, 1 << size, precision))
            for precision in ("bf16", "fp32") for size in sizes for operator in OPERATORS
            if not (bench.is_tiny and operator.startswith(("embedding", "cross_entropy_")))]
