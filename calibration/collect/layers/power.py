"""power.csv: clocks, power and speed of a GPU that works without a pause; one row for each quarter of a second."""
import statistics
import time

import torch

from .layer_times import LayerCase, Pass, clear
from .sensor import open_sensor
from .transformers import MODELS, TINY, choose_grouping, set_precision

COLUMNS = ("elapsed_s", "repetitions", "median_s", "min_s", "sm_clock_MHz", "memory_clock_MHz", "power_W", "temperature_C",
           "throttle_reasons")
PERIOD_S = 0.25


class Loop:
    """Batches of a work with events between, the next one always launched before the last is waited for."""

    def __init__(self, bench, work, seconds):
        self.bench, self.work = bench, work
        for _ in range(2):
            work()
        once = bench.run_once([work])[0][0]
        self.batch = max(1, min(400, round(PERIOD_S / max(once, 1e-6))))
        self.seconds = seconds

    def launch(self):
        markers = [self.bench._marker()]
        for _ in range(self.batch):
            self.work()
            markers.append(self.bench._marker())
        return markers

    def run(self):
        """Yields (elapsed seconds, times of a batch)."""
        start, pending = time.perf_counter(), self.launch()
        while time.perf_counter() - start < self.seconds:
            following = self.launch()
            if self.bench.is_gpu:
                pending[-1].synchronize()
            yield time.perf_counter() - start, [self.bench._between(a, b) for a, b in zip(pending, pending[1:])]
            pending = following
        self.bench.synchronize()


def record(bench, work, seconds, rows, name):
    sensor = open_sensor(bench.device.index or 0) if bench.is_gpu else None
    for elapsed, times in Loop(bench, work, seconds).run():
        rows.write(name, elapsed_s=elapsed, repetitions=len(times), median_s=statistics.median(times), min_s=min(times),
                   **(sensor.read() if sensor else {}))


def sustained_product(bench, rows, name, seconds):
    size = 128 if bench.is_tiny else 8192
    set_precision("bf16")
    a, b = (torch.randn(size, size, device=bench.device, dtype=torch.bfloat16) for _ in range(2))
    time.sleep(0.1 if bench.is_tiny else 1.0)  # from a cool GPU
    record(bench, lambda: a @ b, seconds, rows, name)


def sustained_layer(bench, rows, name, seconds):
    model = next(iter((TINY if bench.is_tiny else MODELS).values()))
    case = LayerCase(model, 1, (1, 16) if bench.is_tiny else (1, 4096))
    layer, x, gradient = case.build(bench.device)
    with case.backend(bench.device):
        choose_grouping(layer, x)
        one = Pass(case, layer, x, gradient)

        def work():
            clear(layer, x)
            one.forward()
            one.backward()
        record(bench, work, seconds, rows, name)


def cases(bench):
    """Each takes half of what is left of the section when it starts, 20 s at most."""
    left = lambda share: max(0.3, min(20.0, share * (bench.end - time.monotonic()) - 1.5))
    return [("sustained product", lambda rows, name: sustained_product(bench, rows, name, left(0.5))),
            ("sustained layer", lambda rows, name: sustained_layer(bench, rows, name, left(1.0)))]
