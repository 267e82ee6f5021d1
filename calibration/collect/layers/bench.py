"""Times, memory and order of cases on one device. Times are seconds, from CUDA events or, on processors, the clock."""
import gc
import statistics
import time

import torch

from .rows import Rows, status_of
from .sensor import open_sensor

SLEEP_CYCLES_PER_S = 2e9  # at most as fast as the clocks of present GPUs: a sleep lasts at least as long as asked
LONGEST_SLEEP_S = 0.03


class DeviceLost(Exception):
    """The CUDA context fails at everything since an earlier error; only a new process helps."""


class Timing:
    """Seconds of one phase. `device`: as if the host were always ahead; `natural`: from an idle device, so that waits for
    the host count; `dispatch`: until the host has handed the phase over (None on processors)."""

    def __init__(self, device, natural, dispatch):
        self.median, self.minimum, self.repetitions = statistics.median(device), min(device), len(device)
        self.natural = statistics.median(natural) if natural else None
        self.dispatch = statistics.median(dispatch) if dispatch else None


class Bench:
    def __init__(self, device, is_tiny, folder, position):
        self.device, self.is_tiny, self.folder, self.position = device, is_tiny, folder, position
        self.is_gpu = device.type == "cuda"
        self.end = float("inf")  # of the section, by time.monotonic()
        self.sensor = open_sensor(device.index or 0) if self.is_gpu else None
        gc.collect()
        gc.freeze()  # else each collection between cases walks through all of PyTorch

    # --- time

    def synchronize(self):
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def _marker(self):
        if not self.is_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, before, after):
        return before.elapsed_time(after) * 1e-3 if self.is_gpu else after - before

    def _hold(self, seconds):
        """Keeps the device busy so that the host gets ahead of it."""
        if self.is_gpu and seconds > 0:
            torch.cuda._sleep(int(min(seconds, LONGEST_SLEEP_S) * SLEEP_CYCLES_PER_S))

    def run_once(self, phases, hold_s=0.0):
        """([device seconds by phase], [host seconds by phase]) of one run of the phases in order."""
        self.synchronize()
        self._hold(hold_s)
        markers, hosts = [self._marker()], []
        for phase in phases:
            start = time.perf_counter()
            phase()
            hosts.append(time.perf_counter() - start)
            markers.append(self._marker())
        self.synchronize()
        return [self._between(a, b) for a, b in zip(markers, markers[1:])], hosts

    def time_phases(self, phases, seconds, before=None, warm_up=2, least=3, most=60):
        """A Timing for each of `phases`, which run one after another, with `before` unmeasured before each run."""
        before = before or (lambda: None)
        hosts = []
        for _ in range(warm_up):
            before()
            hosts = self.run_once(phases)[1]
        start, natural, ahead, dispatch = time.perf_counter(), [], [], []
        hold = 1.5 * sum(hosts) + 2e-4
        spread = 5
        while len(ahead) < least or (time.perf_counter() - start < seconds and len(ahead) < most):
            if time.perf_counter() - start > 2 * seconds:
                spread, least = 2, min(least, 2)  # a slow case
            if self.is_gpu and len(natural) < spread:
                before()
                times, hosts = self.run_once(phases)
                natural.append(times)
                dispatch.append(hosts)
            before()
            ahead.append(self.run_once(phases, hold)[0])
        by_phase = lambda runs, phase: [run[phase] for run in runs]
        return [Timing(by_phase(ahead, p), by_phase(natural, p), by_phase(dispatch, p)) for p in range(len(phases))]

    def time_many(self, work, seconds=0.02, least=3, batch_s=2e-4):
        """Timing of `work(i)` for i = 0, 1, 2, ...; short ones are timed in batches with the host ahead."""
        work(0)
        first = self.run_once([lambda: work(1)])
        device, host = self.run_once([lambda: work(2)])
        device, host = min(device[0], first[0][0]), min(host[0], first[1][0])
        inner = max(1, min(200, int(batch_s / max(device, 1e-6))))

        def batch():
            for i in range(inner):
                work(i)

        start, runs = time.perf_counter(), []
        while len(runs) < least or (time.perf_counter() - start < seconds and len(runs) < 50):
            runs.append(self.run_once([batch], 1.2 * inner * host + 5e-5)[0][0] / inner)
        return Timing(runs, [], [host] if self.is_gpu else [])

    def clock(self):
        """MHz of the multiprocessors, as the work before has left them: a GPU at its power limit lowers them. None if not known."""
        return self.sensor.clock() if self.sensor else None

    # --- memory, None on processors

    def allocated(self):
        return torch.cuda.memory_allocated(self.device) if self.is_gpu else None

    def reset_peak(self):
        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self):
        return torch.cuda.max_memory_allocated(self.device) if self.is_gpu else None

    def peak_reserved(self):
        return torch.cuda.max_memory_reserved(self.device) if self.is_gpu else None

    def free(self):
        """Releases what a case held; the allocator's cache only where it has grown over half of the memory."""
        gc.collect()
        if self.is_gpu:
            total = torch.cuda.get_device_properties(self.device).total_memory
            if torch.cuda.memory_reserved(self.device) > total // 2:
                torch.cuda.empty_cache()

    # --- cases

    def check_device(self):
        """Raises DeviceLost if the device does not even add any more."""
        if not self.is_gpu:
            return
        try:
            (torch.ones(1, device=self.device) + 1).item()
        except Exception as error:
            raise DeviceLost(str(error)) from error

    def run_cases(self, section, columns, cases, seconds, first=0):
        """Runs `cases`, pairs of a name and work(rows, name), until `seconds` have passed; (cases run, cases there)."""
        self.end = time.monotonic() + seconds
        rows, count = Rows(self.folder, section, columns), 0
        for index, (name, work) in enumerate(cases):
            if index < first:
                continue
            if time.monotonic() > self.end:
                break
            self.position.write(section, index, name)
            count += 1
            status = self._run_case(rows, name, work)
            if status is not None:
                rows.write(name, status)
                self.recover(status)
            self.free()
        rows.close()
        return first + count, len(cases)

    def _run_case(self, rows, name, work):
        """None, or what went wrong. Traceback and frame are gone when it returns, and with them their tensors."""
        try:
            work(rows, name)
            return None
        except DeviceLost:
            raise
        except Exception as error:
            return status_of(error)

    def recover(self, status):
        """After an error: gives memory back, and raises DeviceLost where nothing works any more."""
        gc.collect()
        if status == "oom" and self.is_gpu:
            torch.cuda.empty_cache()
        self.check_device()


def storage_of(tensor):
    """(address, bytes) of the memory behind a tensor."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr(), storage.nbytes()


def saved_bytes(work, parameters):
    """Bytes of distinct memory that autograd keeps for the backward pass of work(), parameters not counted."""
    weights = {storage_of(parameter)[0] for parameter in parameters}
    seen, kept = {}, []

    def pack(tensor):
        address, size = storage_of(tensor)
        if address not in weights:
            seen[address] = size
        kept.append(tensor.detach())  # nothing may take its address meanwhile
        return kept[-1]

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = work()
    del out, kept
    return sum(seen.values())
