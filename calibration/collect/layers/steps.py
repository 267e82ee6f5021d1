"""steps.csv: whole training steps of small models: bf16 weights, fused AdamW, loss over fp32 logits, eager."""
import statistics
import time

import torch
import torch.nn.functional as F

from .bench import saved_bytes
from .transformers import MODELS, TINY, Stack, build, gpt, set_precision

PHASES = ("forward", "backward", "update")
COLUMNS = ("model", "layers", "parameters", "batch", "sequence", "checkpointed", "repetitions", "step_median_s", "step_min_s",
           "step_dispatch_s", *(f"{phase}_{what}" for phase in PHASES for what in ("median_s", "dispatch_s", "launches", "kernels_s")),
           "saved_B", "after_forward_B", "peak_B", "peak_reserved_B", "after_step_B", "weights_B")


class Training:
    """Three phases of a step as calls."""

    def __init__(self, case, device):
        set_precision("bf16")
        make = lambda: Stack(case.model, case.layers, case.sequence, is_bert=case.is_bert)
        self.net = build(make, device, torch.bfloat16)
        self.net.checkpoints = case.checkpointed
        self.parameters = list(self.net.parameters())
        options = {"fused": True} if device.type == "cuda" else {}
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4, **options)
        shape = (case.batch, case.sequence)
        self.tokens, self.labels = (torch.randint(case.model.vocabulary, shape, device=device) for _ in range(2))
        self.loss = None

    def forward(self):
        logits = self.net(self.tokens)
        self.loss = F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), self.labels.view(-1))

    def backward(self):
        self.loss.backward()
        self.loss = None

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.forward()
        self.backward()
        self.update()


class StepCase:
    def __init__(self, model, layers, batch, sequence, checkpointed=False, is_bert=False):
        self.model, self.layers, self.batch, self.sequence = model, layers, batch, sequence
        self.checkpointed, self.is_bert = checkpointed, is_bert
        self.name = f"step {model.name} {batch}x{sequence}" + (" checkpointed" if checkpointed else "")

    def build(self, device):
        return Training(self, device)


def memory_of(bench, training):
    """Bytes: all that is allocated after the forward pass, at the peak and after a step."""
    if not bench.is_gpu:
        training.step()
        return {}
    bench.reset_peak()
    training.forward()
    after_forward = bench.allocated()
    training.backward()
    training.update()
    return {"after_forward_B": after_forward, "peak_B": bench.peak(), "peak_reserved_B": bench.peak_reserved(),
            "after_step_B": bench.allocated()}


def free_running(bench, training, seconds):
    """Seconds of steps that follow each other without a wait, in groups of three."""
    times, start = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - start < seconds and len(times) < 30):
        times.append(bench.run_once([lambda: [training.step() for _ in range(3)]])[0][0] / 3)
    return times


def measure_step(bench, case, rows, name):
    if bench.is_gpu:
        torch.cuda.empty_cache()  # peak_reserved_B is that of this case alone
    training = case.build(bench.device)
    training.step()
    values = memory_of(bench, training)
    seconds = 0.001 if bench.is_tiny else 0.3
    times = free_running(bench, training, seconds)
    runs = [bench.run_once([training.forward, training.backward, training.update]) for _ in range(4)]
    for index, phase in enumerate(PHASES):
        values[f"{phase}_median_s"] = statistics.median(device[index] for device, _ in runs)
        values[f"{phase}_dispatch_s"] = statistics.median(host[index] for _, host in runs)
    if not case.checkpointed:
        values["saved_B"] = saved_bytes(lambda: (training.forward(), training.loss)[1], training.parameters)
        training.loss = None
    rows.write(name, model=case.model.name, layers=case.layers, parameters=sum(p.numel() for p in training.parameters), batch=case.batch,
               sequence=case.sequence, checkpointed=case.checkpointed, repetitions=3 * len(times), step_median_s=statistics.median(times),
               step_min_s=min(times), step_dispatch_s=statistics.median(sum(host) for _, host in runs), **values,
               weights_B=sum(p.numel() * p.element_size() for p in training.parameters))


def step_cases(bench):
    if bench.is_tiny:
        return [StepCase(model, 2, 2, 16, checkpointed) for model in TINY.values() for checkpointed in (False, True)]
    small, medium = MODELS["gpt2-small"], gpt("gpt2-medium", 1024, 16, 50257)
    llama, bert = MODELS["llama3.2-1b"], gpt("bert-large", 1024, 16, 30522)
    cases = []
    for checkpointed in (False, True):
        for which in range(2):
            cases += [StepCase(llama, 16, (4, 1)[which], 2048, checkpointed), StepCase(small, 12, (16, 4)[which], 1024, checkpointed),
                      StepCase(bert, 24, (32, 8)[which], 512, checkpointed, is_bert=True),
                      StepCase(medium, 24, (8, 2)[which], 1024, checkpointed)]
    return cases


def cases(bench):
    bound = lambda case: lambda rows, name: measure_step(bench, case, rows, name)
    return [(case.name, bound(case)) for case in step_cases(bench)]
