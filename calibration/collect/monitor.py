"""Utilization of a GPU (NVML) or of the host's processors at a fixed period, in a thread of its own."""
import ctypes
import math
import threading
import time

COLUMNS = ("gpu_utilization", "memory_utilization", "receive_Bps", "transmit_Bps")


class MonitorError(Exception):
    pass


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]  # percent


class NvmlReader:
    """What NVML says of GPU `index`: shares of 0 to 1, and bytes per second over PCIe as the GPU receives and sends
    them. A throughput is the mean over the 20 ms before, for which NVML waits: `reads_pcie` says whether it is asked.
    Utilization is the mean over NVML's own period, 1/6 s to 1 s by GPU.
    """

    TRANSMIT, RECEIVE = 0, 1  # nvmlPcieUtilCounter_t

    def __init__(self, index=0, library=None, reads_pcie=True):
        self.reads_pcie = reads_pcie
        try:
            self.nvml = library or ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise MonitorError(f"NVML is not there: {error}") from error
        self._check(self.nvml.nvmlInit_v2(), "nvmlInit")
        self.device = ctypes.c_void_p()
        self._check(self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device)), f"GPU {index}")

    @staticmethod
    def _check(status, what):
        if status != 0:
            raise MonitorError(f"NVML: {what} failed with {status}")

    def _throughput(self, counter):
        if not self.reads_pcie:
            return math.nan
        value = ctypes.c_uint()
        status = self.nvml.nvmlDeviceGetPcieThroughput(self.device, counter, ctypes.byref(value))
        return value.value * 1000.0 if status == 0 else math.nan  # KB/s; not all GPUs count

    def read(self):
        use = _Utilization()
        status = self.nvml.nvmlDeviceGetUtilizationRates(self.device, ctypes.byref(use))
        self._check(status, "nvmlDeviceGetUtilizationRates")
        return (use.gpu / 100.0, use.memory / 100.0, self._throughput(self.RECEIVE), self._throughput(self.TRANSMIT))

    def close(self):
        self.nvml.nvmlShutdown()


class ProcessorReader:
    """The processors' share of time that was not idle since the read before, from the first line of /proc/stat:
    user, nice, system, idle, iowait, irq, softirq, steal."""

    def __init__(self, path="/proc/stat"):
        self.path = path
        self.before = self._times()
        self.share = 0.0

    def _times(self):
        with open(self.path, encoding="ascii") as file:
            fields = file.readline().split()
        if len(fields) < 6 or fields[0] != "cpu":
            raise MonitorError(f"{self.path}: expected the processors' times")
        times = [int(field) for field in fields[1:9]]
        return sum(times), times[3] + times[4]

    def read(self):
        now = self._times()
        total, idle = now[0] - self.before[0], now[1] - self.before[1]
        if total > 0:  # else less than the kernel's tick has passed
            self.share = min(1.0, max(0.0, 1.0 - idle / total))
            self.before = now
        return (self.share, math.nan, math.nan, math.nan)

    def close(self):
        pass


class Sampler:
    """Reads at multiples of `period` seconds from start() to stop(), which returns [(seconds since start, values)], or
    until the reader has nothing more to tell. `samples` and `error` hold what there is after that, too."""

    def __init__(self, reader, period, clock=time.monotonic):
        self.reader, self.period, self.clock = reader, period, clock
        self.samples, self.error = [], None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._start = self.clock()
        self._thread.start()

    def wait(self, seconds):
        """Until there is nothing more to tell, or so many seconds. Whether it is over."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self):
        self._is_over.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()
        if self.error:
            raise self.error
        return self.samples

    def _run(self):
        try:
            count = 0
            while not self._is_over.is_set():
                values = self.reader.read()
                if values is None:
                    break
                self.samples.append((self.clock() - self._start, values))
                count = max(count, math.floor((self.clock() - self._start) / self.period)) + 1
                self._is_over.wait(max(0.0, self._start + count * self.period - self.clock()))
        except Exception as error:  # told by stop()
            self.error = error


def missed(samples, period):
    """(periods without a sample, the longest time between two samples)"""
    gaps = [after - before for (before, _), (after, _) in zip(samples, samples[1:])]
    return sum(max(0, round(gap / period) - 1) for gap in gaps), max(gaps, default=0.0)


def on_grid(samples, period, totals=(), longest_gap=3.0):
    """Samples as the last values at the times 0, period, 2 period, ... up to the last one.

    Columns in `totals` are counters: they become the rates of the periods that begin at these times, as if counters grew
    evenly between two samples, so that rates times the period add up to what was counted. The last period is then that
    before the last sample. MonitorError if two samples are more than `longest_gap` periods apart: what happened in
    between is not known."""
    if len(samples) < 3:
        raise MonitorError(f"expected at least 3 samples; found {len(samples)}")
    for (before, _), (after, _) in zip(samples, samples[1:]):
        if after - before > longest_gap * period:
            raise MonitorError(f"no sample from {before:.3f} s to {after:.3f} s, at a period of {period} s")
    grid, at = [], 0
    first = samples[0][0]
    for i in range(int((samples[-1][0] - first) / period + 1e-9) + 1):
        while at + 1 < len(samples) and samples[at + 1][0] - first <= i * period + period / 2:
            at += 1
        grid.append((i * period, samples[at][1]))
    return _with_rates(samples, grid, period, totals) if totals else grid


def _with_rates(samples, grid, period, totals):
    counted, at = [], 0  # by time of the grid: the totals then
    for seconds, _ in grid:
        date = samples[0][0] + seconds
        while at + 2 < len(samples) and samples[at + 1][0] < date:
            at += 1
        (before, low), (after, high) = samples[at], samples[at + 1]
        share = min(1.0, (date - before) / (after - before)) if after > before else 1.0
        counted.append([low[c] + (high[c] - low[c]) * share for c in totals])
    rows = []
    for (seconds, values), now, then in zip(grid, counted, counted[1:]):
        values = list(values)
        for c, low, high in zip(totals, now, then):
            values[c] = max(0.0, high - low) / period  # counters that were set back count as still
        rows.append((seconds, tuple(values)))
    return rows


def series_text(grid):
    """CSV of time_s and of the columns that were recorded throughout."""
    recorded = [c for c in range(len(COLUMNS)) if all(not math.isnan(values[c]) for _, values in grid)]
    lines = [",".join(["time_s", *(COLUMNS[c] for c in recorded)])]
    lines += [",".join([f"{at:.10g}", *(f"{values[c]:.6g}" for c in recorded)]) for at, values in grid]
    return "\n".join(lines) + "\n"
