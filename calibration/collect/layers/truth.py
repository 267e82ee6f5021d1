"""kernels.csv: which kernels an operator launches, from the profiler."""
import time

import torch

from . import layer_times, networks, steps, updates
from .layer_times import Pass
from .rows import status_of
from .trace import profiled
from .transformers import choose_grouping, set_precision

COLUMNS = ("phase", "kernel", "operator", "outermost", "input_shapes", "input_types", "count", "mean_s")
TOGETHER = 16  # small cases in one run of the profiler


def write_kernels(rows, kernels, errors):
    for k in kernels:
        if k.case:
            rows.write(k.case, phase=k.phase, kernel=k.kernel[:1500], operator=k.operator, outermost=k.outermost,
                       input_shapes=k.shapes, input_types=k.types, count=k.count, mean_s=k.mean_s)
    for case, error in errors.items():
        rows.write(case, status_of(error))


def profile_layer(bench, case, rows, name):
    layer, x, gradient = case.build(bench.device)
    with case.backend(bench.device):
        choose_grouping(layer, x)
        one = Pass(case, layer, x, gradient)
        for _ in range(2):
            one.forward()
            one.backward()
        layer_times.clear(layer, x)
        write_kernels(rows, *profiled(bench, [(name, "forward", one.forward), (name, "backward", one.backward)]))


def profile_update(bench, case, rows, name):
    work = case.build(bench.device)
    work()
    write_kernels(rows, *profiled(bench, [(name, "update", work)]))


def profile_step(bench, case, rows, name):
    training = case.build(bench.device)
    for _ in range(2):
        training.step()
    phases = (("forward", training.forward), ("backward", training.backward), ("update", training.update))
    write_kernels(rows, *profiled(bench, [(name, phase, work) for phase, work in phases]))


class Prepared:
    """A network of networks.py, run twice before the profiler looks."""

    def __init__(self, make):
        self.work = make()
        self.out, self.gradient = None, None
        for _ in range(2):
            self.forward()
            if self.has_backward():
                self.backward()

    def has_backward(self):
        return isinstance(self.out, torch.Tensor) and self.out.requires_grad

    def forward(self):
        self.out = self.work()

    def backward(self):
        if self.gradient is None:
            self.gradient = torch.ones_like(self.out)
        self.out.backward(self.gradient)


def profile_networks(bench, group, rows, name):
    """One run of the profiler over a group of (name, make); those that fail before it are written as failed."""
    runs, prepared = [], []
    for case, make in group:
        set_precision("fp32")
        try:
            one = Prepared(make)
            bench.synchronize()
        except Exception as error:
            rows.write(case, status_of(error))
            bench.recover(status_of(error))
            continue
        prepared.append(one)
        runs.append((case, "forward", one.forward))
        if one.has_backward():
            runs.append((case, "backward", one.backward))
    if runs:
        write_kernels(rows, *profiled(bench, runs))


def chosen_layers(bench):
    """The first cases of some models, and one of each variant."""
    every = layer_times.layer_cases(bench)
    if bench.is_tiny:
        return every[:3]
    wanted = [case for case in every if case.tensor in (1, 8) and (case.batch, case.sequence) == (1, 4096)]
    plain = [case for case in wanted if case.precision == "bf16" and case.attention == "flash"]
    others = [case for case in every if case.tensor == 1 and case not in plain and case.model.name in ("llama3-8b", "gpt3-6.7b")
              and (case.checkpointed or case.attention != "flash" or case.precision != "bf16" or case.norm != case.model.norm)]
    return plain[:8] + others + plain[8:]


def mixed(first, second):
    """Both lists in turn, each in its order, spread evenly over the whole."""
    places = [((i + 0.5) / len(items), item) for items in (first, second) for i, item in enumerate(items)]
    return [item for _, item in sorted(places, key=lambda place: place[0])]


def cases(bench):
    """Layers, then the networks in groups, with further layers, steps and updates between them."""
    bound = lambda run, case: lambda rows, name: run(bench, case, rows, name)
    layers = [(case.name, bound(profile_layer, case)) for case in chosen_layers(bench)]
    catalog = networks.catalog(bench)
    step = 4 if bench.is_tiny else TOGETHER
    groups = [catalog[i:i + step] for i in range(0, len(catalog), step)]
    small = [(f"networks {i}", bound(profile_networks, group)) for i, group in enumerate(groups)]
    whole = [(case.name, bound(profile_step, case)) for case in steps.step_cases(bench)[:: 2]]
    whole += [(case.name, bound(profile_update, case)) for case in updates.update_cases(bench)[:: 2]]
    return layers[:6] + mixed(small, whole[:2] + layers[6:] + whole[2:])
