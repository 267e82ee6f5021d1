"""What Linux counts of a process: the time that it and its descendants had of the processors, and the bytes of its
network. All are totals, of which monitor.on_grid() makes rates."""
import math
import os
import time

from monitor import MonitorError

DESCENDANTS_EVERY = 0.1  # seconds


def error_of(error, path):
    return MonitorError(f"{path}: {(error.strerror or str(error)).lower()}")


class Process:
    """A process and its descendants, told apart from later ones with the same number by when it began.

    A descendant counts from where it was first seen, which is up to 0.1 s after its start; one that has ended keeps what
    it was last seen to have had. MonitorError if there is no such process, or none that may be looked at."""

    def __init__(self, pid, proc="/proc", clock=time.monotonic):
        self.pid, self.proc, self.clock = pid, proc, clock
        try:
            self.start = self._fields(pid)[19]
        except (FileNotFoundError, ProcessLookupError) as error:
            raise MonitorError(f"there is no process {pid}") from error
        except OSError as error:
            raise error_of(error, f"process {pid}") from error
        self.first, self.last = {}, {}  # pid -> seconds of the processors
        self.looked_at = -math.inf

    def _fields(self, pid):
        """Of /proc/PID/stat, from the state on: the name before it may have any letters. [1] is the parent, [11] and
        [12] the ticks in the program and in the kernel, [19] the start."""
        with open(os.path.join(self.proc, str(pid), "stat"), encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()

    def is_alive(self):
        try:
            fields = self._fields(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        except OSError as error:
            raise error_of(error, f"process {self.pid}") from error
        return fields[0] not in "ZX" and fields[19] == self.start

    def _processor_time(self, pid):
        """Exact where the kernel hands out another process' clock, else in ticks of some 10 ms."""
        if self.proc == "/proc":
            try:
                return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) makes of a pid
            except OSError:
                pass
        fields = self._fields(pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _find_descendants(self):
        children = {}
        for name in os.listdir(self.proc):
            if name.isdigit():
                try:
                    children.setdefault(int(self._fields(name)[1]), []).append(int(name))
                except (OSError, IndexError):
                    continue  # ended while we looked, or another user's
        found, left = set(), [self.pid]
        while left:
            pid = left.pop()
            if pid not in found:
                found.add(pid)
                left.extend(children.get(pid, []))
        return found

    def processor_seconds(self):
        """Since the first call."""
        if self.clock() - self.looked_at >= DESCENDANTS_EVERY:
            self.looked_at = self.clock()
            for pid in self._find_descendants():
                self.first.setdefault(pid, None)
        for pid, first in self.first.items():
            try:
                now = self._processor_time(pid)
            except (OSError, IndexError):
                continue
            if first is None:
                self.first[pid] = now
            self.last[pid] = max(now, self.last.get(pid, 0.0))  # a number that another process got counts less
        return sum(self.last[pid] - self.first[pid] for pid in self.last)

    def processors(self):
        """On how many it may run."""
        try:
            return len(os.sched_getaffinity(self.pid))
        except OSError:
            return os.cpu_count()


class Network:
    """Bytes that the network devices of a process have received and sent: `devices`, or those that are hardware,
    or, where none is (as in a container), all but the loopback. A bridge or a bond counts what its devices count, too."""

    def __init__(self, pid, devices=(), proc="/proc", hardware="/sys/class/net"):
        self.path = os.path.join(proc, str(pid), "net", "dev")
        counts = self._counts()
        missing = [device for device in devices if device not in counts]
        if missing:
            raise MonitorError(f"the process has no network device {missing[0]}; it has {', '.join(sorted(counts))}")
        others = [device for device in sorted(counts) if device != "lo"]
        real = [device for device in others if os.path.exists(os.path.join(hardware, device, "device"))]
        self.devices = list(devices) or real or others

    def _counts(self):
        """device -> (received, sent); nothing once the process has ended."""
        try:
            with open(self.path, encoding="utf-8") as file:
                lines = file.read().splitlines()[2:]
        except (FileNotFoundError, ProcessLookupError):
            return {}
        except OSError as error:
            if os.path.exists(self.path):
                raise error_of(error, self.path) from error
            return {}
        counts = {}
        for line in lines:
            device, _, numbers = line.partition(":")
            numbers = numbers.split()
            if len(numbers) >= 9:
                counts[device.strip()] = (int(numbers[0]), int(numbers[8]))
        return counts

    def bytes(self):
        """(received, sent) since the devices are there; nothing once the process has ended."""
        counts = self._counts()
        if not counts:
            return None
        found = [counts.get(device, (0, 0)) for device in self.devices]
        return sum(count[0] for count in found), sum(count[1] for count in found)


class ProcessReader:
    """What Sampler reads of a process: utilizations of `gpu` (a reader), or shares without it, and totals of seconds of
    the processors and of bytes: (gpu, memory, received, sent, processor seconds). Nothing once the process has ended."""

    TOTALS = (2, 3, 4)

    def __init__(self, process, network, gpu=None):
        self.process, self.network, self.gpu = process, network, gpu

    def read(self):
        if not self.process.is_alive():
            return None
        count = self.network.bytes()
        if count is None:
            return None
        received, sent = count if self.network.devices else (math.nan, math.nan)
        gpu, memory = self.gpu.read()[:2] if self.gpu else (math.nan, math.nan)
        return gpu, memory, received, sent, self.process.processor_seconds()

    def close(self):
        if self.gpu:
            self.gpu.close()
