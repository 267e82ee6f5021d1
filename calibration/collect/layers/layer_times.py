"""layers.csv: one layer of a large model, forward and backward."""
import torch

from . import transformers
from .bench import saved_bytes
from .transformers import Layer, attention_backend, build, checkpointed, choose_grouping, set_precision, splits

SETUP = ("model", "hidden", "heads", "kv_heads", "ffn", "gated", "norm", "tensor", "batch", "sequence", "precision",
         "attention", "dropout", "checkpointed")
TIMES = tuple(f"{phase}_{what}" for phase in ("forward", "backward", "accumulate")
              for what in ("median_s", "min_s", "natural_s", "dispatch_s"))
COLUMNS = (*SETUP, "kv_repeated", "repetitions", *TIMES, "kept_B", "saved_B", "backward_peak_B", "accumulate_peak_B",
           "weights_B", "sm_clock_MHz", "forward_launches", "forward_kernels_s", "backward_launches", "backward_kernels_s")
SHAPES = ((1, 4096), (1, 2048), (2, 4096), (1, 8192), (4, 1024), (1, 1024))


class LayerCase:
    """A layer with all that is chosen for it; `name` is the same in kernels.csv."""

    def __init__(self, model, tensor, shape, precision="bf16", attention="flash", dropout=0.0, norm=None, checkpointed=False):
        self.model, self.tensor, (self.batch, self.sequence) = model, tensor, shape
        self.precision, self.attention, self.dropout = precision, attention, dropout
        self.norm, self.checkpointed = norm or model.norm, checkpointed
        self.name = f"layer {model.name} t{tensor} {self.batch}x{self.sequence} {precision} {attention}"
        self.name += f" dropout{dropout:g}" if dropout else ""
        self.name += f" {norm}" if norm else ""
        self.name += " checkpointed" if checkpointed else ""

    def setup(self):
        m = self.model
        values = (m.name, m.hidden, m.heads, m.kv_heads, m.ffn, m.gated, self.norm, self.tensor, self.batch, self.sequence,
                  self.precision, self.attention, self.dropout, self.checkpointed)
        return dict(zip(SETUP, values))

    def build(self, device):
        """(layer, input that wants a gradient, gradient of the output)"""
        set_precision(self.precision)
        dtype = transformers.DTYPES[self.precision]
        make = lambda: Layer(self.model, self.tensor, self.sequence, self.attention, self.dropout, self.norm)
        layer = build(make, device, dtype)
        shape = (self.batch, self.sequence, self.model.hidden)
        x = torch.randn(shape, device=device, dtype=dtype).requires_grad_()
        return layer, x, torch.randn(shape, device=device, dtype=dtype)

    def backend(self, device):
        return attention_backend(self.attention, device)


def clear(layer, x):
    for tensor in (x, *layer.parameters()):
        tensor.grad = None


class Pass:
    """Forward and backward of a layer as two calls."""

    def __init__(self, case, layer, x, gradient):
        self.layer, self.x, self.gradient, self.out = layer, x, gradient, None
        self.apply = (lambda: checkpointed(layer, x)) if case.checkpointed else (lambda: layer(x))

    def forward(self):
        self.out = self.apply()

    def backward(self):
        self.out.backward(self.gradient)
        self.out = None


def measure_memory(bench, one, layer):
    """Bytes: after the forward pass above those before (output included, input not); peaks of two backward passes above
    their starts, the first without gradients there, the second with."""
    clear(layer, one.x)
    bench.synchronize()
    before = bench.allocated()
    one.forward()
    kept, start = bench.allocated(), bench.allocated()
    bench.reset_peak()
    one.backward()
    peak = bench.peak()
    one.x.grad = None
    one.forward()
    second = bench.allocated()
    bench.reset_peak()
    one.backward()
    if before is None:
        return {}
    return {"kept_B": kept - before, "backward_peak_B": peak - start, "accumulate_peak_B": bench.peak() - second}


def measure_layer(bench, case, rows, name):
    layer, x, gradient = case.build(bench.device)
    seconds = 0.002 if bench.is_tiny else 0.1
    with case.backend(bench.device):
        values = {"kv_repeated": choose_grouping(layer, x)}
        one = Pass(case, layer, x, gradient)
        fresh = bench.time_phases([one.forward, one.backward], seconds, lambda: clear(layer, x))

        def drop_input_gradient():
            x.grad = None

        values["sm_clock_MHz"] = bench.clock()
        again = bench.time_phases([one.forward, one.backward], seconds / 2, drop_input_gradient, warm_up=1)
        values.update(measure_memory(bench, one, layer))
        clear(layer, x)
        if not case.checkpointed:
            values["saved_B"] = saved_bytes(one.apply, list(layer.parameters()))
    for phase, timing in (("forward", fresh[0]), ("backward", fresh[1]), ("accumulate", again[1])):
        values.update({f"{phase}_median_s": timing.median, f"{phase}_min_s": timing.minimum,
                       f"{phase}_natural_s": timing.natural, f"{phase}_dispatch_s": timing.dispatch})
    weights = sum(p.numel() * p.element_size() for p in layer.parameters())
    rows.write(name, **case.setup(), **values, repetitions=fresh[0].repetitions, weights_B=weights)


def sharded(model, shape, **options):
    return [LayerCase(model, t, shape, **options) for t in (1, 8, 2, 4) if splits(model, t)]


def variants(models):
    """Few of each: checkpointing, attention written out and on other backends, precisions, norm written out."""
    some = [models[name] for name in ("llama3-8b", "gpt3-6.7b", "llama3.2-1b", "gpt2-small") if name in models] or list(models.values())
    short, long = ((1, 16), (2, 16)) if "tiny-gpt" in models else ((1, 2048), (1, 4096))
    cases = [LayerCase(model, t, long, checkpointed=True) for model in some for t in (1, 8) if splits(model, t)]
    cases += [LayerCase(model, t, short, attention="eager", dropout=0.1 * (not model.gated))
              for model in some for t in (1, 8) if splits(model, t)]
    cases += [LayerCase(model, 1, long, attention=kind) for model in some for kind in ("cudnn", "efficient")]
    cases += [LayerCase(model, 1, long, norm="rmsnorm-eager") for model in some if model.gated]
    cases += [LayerCase(model, t, short, precision, "efficient" if precision in ("tf32", "fp32") else "flash")
              for model in some[:2] for precision in ("fp16", "tf32", "fp32") for t in (1, 8) if splits(model, t)]
    return cases


def layer_cases(bench):
    models = transformers.TINY if bench.is_tiny else transformers.MODELS
    shapes = ((1, 16), (2, 16)) if bench.is_tiny else SHAPES
    cases = [case for model in models.values() for case in sharded(model, shapes[0])]
    cases += variants(models)
    for shape in shapes[1:]:
        cases += [case for model in models.values() for case in sharded(model, shape)]
    return cases


def cases(bench):
    bound = lambda case: lambda rows, name: measure_layer(bench, case, rows, name)
    return [(case.name, bound(case)) for case in layer_cases(bench)]
