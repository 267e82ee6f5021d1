"""What crosses the ports of the switch, every 10 ms, and its bursts, counted as Rehearse counts those of a simulated NIC; and how much of a
processor a node's program uses."""
import bisect
import statistics
import threading
import time

kPeriod = 0.01  # s
kSeries = ("receive_Bps", "transmit_Bps", "processor")
kShareOfMaximum = 0.01  # of the largest sample: above it a sample belongs to a burst


def port_counters():
    """(received, sent) bytes of the switch's port to each node, by its name: what a node sent, and what it was sent."""
    with open("/proc/self/net/dev") as file:
        rows = (line.split(":") for line in file if ":" in line)
        return {name.strip(): (int(values.split()[0]), int(values.split()[8])) for name, values in rows if name.strip().startswith("v")}


def processor_clock(process):
    """The clock of the processor time that a process, named by its id, has used."""
    return (~process << 3) | 2  # as the C library's clock_getcpuclockid makes it


class Sampler:
    """Counters of one port and the processor time of one process, in a thread, about four times in a period."""

    def __init__(self, port, process):
        self.port, self.clock, self.times, self.counters, self.is_over = port, processor_clock(process), [], [], threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def _sample(self):
        while not self.is_over.wait(kPeriod / 4):
            self.times.append(time.monotonic())
            self.counters.append((*port_counters()[self.port], time.clock_gettime(self.clock)))

    def series(self, begin, end):
        """In each whole period from begin to end: B/s that the node received, and transmitted, and processors that its program used."""
        periods = int((end - begin) / kPeriod + 1e-9)
        grid = [begin + i * kPeriod for i in range(periods + 1)]
        sent, received, used = (on_grid(self.times, [counter[i] for counter in self.counters], grid) for i in (0, 1, 2))
        return [[(b - a) / kPeriod for a, b in zip(counts, counts[1:])] for counts in (received, sent, used)]


def on_grid(times, counts, grid):
    """A growing counter at other times, in straight lines between its samples."""
    values = []
    for at in grid:
        i = bisect.bisect_left(times, at)
        if i == 0 or i == len(times):
            values.append(counts[0] if i == 0 else counts[-1])
        else:
            share = (at - times[i - 1]) / (times[i] - times[i - 1])
            values.append(counts[i - 1] + share * (counts[i] - counts[i - 1]))
    return values


def bursts(series):
    """Mean rate, and means over bursts: (B/s, duration in s of a burst, of a gap, largest sample in B/s). Runs that the ends of the series
    cut are left out, unless there is no other of their kind; 0 without any."""
    threshold = kShareOfMaximum * max(series, default=0)
    runs = []  # [is a burst, samples, largest]
    for value in series:
        is_burst = value > threshold
        if runs and runs[-1][0] == is_burst:
            runs[-1][1] += 1
            runs[-1][2] = max(runs[-1][2], value)
        else:
            runs.append([is_burst, 1, value])

    def whole(kind):
        inner = [run for run in runs[1:-1] if run[0] == kind]
        return inner or [run for run in runs if run[0] == kind]
    active, idle = whole(True), whole(False)

    def mean(values):
        return statistics.fmean(values) if values else 0.0
    return (mean(series), kPeriod * mean([run[1] for run in active]), kPeriod * mean([run[1] for run in idle]), mean([run[2] for run in active]))
