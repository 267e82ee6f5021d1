"""updates.csv: optimizers over lists of variables, and clipping of gradients. The gradients are there."""
import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
COLUMNS = ("variables_of", "optimizer", "implementation", "precision", "variables", "elements", "repetitions", "update_median_s",
           "update_min_s", "update_natural_s", "update_dispatch_s", "update_launches", "update_kernels_s")


def bert_large():
    h, f = 1024, 4096
    layer = [(h, h), (h,)] * 4 + [(h,)] * 2 + [(f, h), (f,), (h, f), (h,)] + [(h,)] * 2
    embeddings = [(30522, h), (512, h), (2, h), (h,), (h,)]
    return embeddings + layer * 24 + [(h, h), (h,), (h, h), (h,), (h,), (h,), (30522,), (2, h), (2,)]


def llama_1b():
    h, kv, f = 2048, 512, 8192
    layer = [(h, h), (kv, h), (kv, h), (h, h), (f, h), (f, h), (h, f), (h,), (h,)]
    return [(128256, h)] + layer * 16 + [(h,)]


def resnet_50():
    shapes, inputs = [(64, 3, 7, 7), (64,), (64,)], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            kernels = [(width, inputs, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if block == 0:
                kernels.append((4 * width, inputs, 1, 1))
            for kernel in kernels:
                shapes += [kernel, kernel[:1], kernel[:1]]
            inputs = 4 * width
    return shapes + [(1000, 2048), (1000,)]


def gpt2_small():
    h = 768
    layer = [(h,), (h,), (3 * h, h), (3 * h,), (h, h), (h,), (h,), (h,), (4 * h, h), (4 * h,), (h, 4 * h), (h,)]
    return [(50257, h), (1024, h)] + layer * 12 + [(h,), (h,)]


VARIABLES = {"resnet-50": resnet_50, "gpt2-small": gpt2_small, "bert-large": bert_large, "llama-1b": llama_1b}
OPTIMIZERS = {
    "adamw": lambda p, **how: torch.optim.AdamW(p, lr=1e-4, weight_decay=0.1, **how),
    "adam": lambda p, **how: torch.optim.Adam(p, lr=1e-4, **how),
    "momentum": lambda p, **how: torch.optim.SGD(p, lr=1e-3, momentum=0.9, **how),
    "sgd": lambda p, **how: torch.optim.SGD(p, lr=1e-3, **how),
}
IMPLEMENTATIONS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class UpdateCase:
    def __init__(self, variables_of, shapes, optimizer, implementation, precision):
        self.variables_of, self.shapes, self.optimizer = variables_of, shapes, optimizer
        self.implementation, self.precision = implementation, precision
        self.name = f"update {variables_of} {optimizer} {implementation} {precision}"

    def elements(self):
        return sum(torch.Size(shape).numel() for shape in self.shapes)

    def build(self, device):
        """One update as a call."""
        dtype = DTYPES[self.precision]
        parameters = [torch.randn(shape, device=device, dtype=dtype).requires_grad_() for shape in self.shapes]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter) * 1e-3
        if self.optimizer == "clip":
            return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, **IMPLEMENTATIONS[self.implementation])
        return OPTIMIZERS[self.optimizer](parameters, **IMPLEMENTATIONS[self.implementation]).step


def measure_update(bench, case, rows, name):
    work = case.build(bench.device)
    timing = bench.time_phases([work], 0.002 if bench.is_tiny else 0.1)[0]
    rows.write(name, variables_of=case.variables_of, optimizer=case.optimizer, implementation=case.implementation,
               precision=case.precision, variables=len(case.shapes), elements=case.elements(), repetitions=timing.repetitions,
               update_median_s=timing.median, update_min_s=timing.minimum, update_natural_s=timing.natural,
               update_dispatch_s=timing.dispatch)


def update_cases(bench):
    """AdamW first, in each precision; the loop over variables last, as it is the slowest to measure."""
    lists = {name: shapes() for name, shapes in VARIABLES.items()}
    if bench.is_tiny:
        lists = {"tiny": [(64, 64), (64,)] * 3}
    cases = []
    for optimizers in (("adamw",), ("clip", "momentum"), ("adam", "sgd")):
        for precision in DTYPES:
            for implementation in ("fused", "foreach", "loop"):
                cases += [UpdateCase(name, shapes, optimizer, implementation, precision) for optimizer in optimizers
                          for name, shapes in lists.items() if (optimizer, implementation) != ("clip", "fused")]
    return cases


def cases(bench):
    bound = lambda case: lambda rows, name: measure_update(bench, case, rows, name)
    return [(case.name, bound(case)) for case in update_cases(bench)]
