"""Clocks, power and temperature of a GPU. Needs no PyTorch."""
import ctypes
import subprocess
import time


class Nvml:
    """Clocks (MHz), power (W) and temperature of a GPU by NVML's C functions; NaN-free: what is not told is None."""

    def __init__(self, index=0):
        self.nvml, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device)):
            raise OSError("NVML does not start")

    def ask(self, function, *arguments, kind=ctypes.c_uint):
        value = kind()
        try:
            status = getattr(self.nvml, function)(self.device, *arguments, ctypes.byref(value))
        except AttributeError:
            return None
        return value.value if status == 0 else None

    def read(self):
        milliwatts = self.ask("nvmlDeviceGetPowerUsage")
        reasons = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return {"sm_clock_MHz": self.ask("nvmlDeviceGetClockInfo", 1), "memory_clock_MHz": self.ask("nvmlDeviceGetClockInfo", 2),
                "power_W": None if milliwatts is None else milliwatts / 1e3, "temperature_C": self.ask("nvmlDeviceGetTemperature", 0),
                "throttle_reasons": None if reasons is None else hex(reasons)}

    def clock(self):
        """MHz of the multiprocessors, quickly; None if that takes long."""
        return self.ask("nvmlDeviceGetClockInfo", 1)

    def limit_W(self):
        milliwatts = self.ask("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1e3


QUERY = {"sm_clock_MHz": "clocks.sm", "memory_clock_MHz": "clocks.mem", "power_W": "power.draw", "temperature_C": "temperature.gpu"}


class Smi:
    """The same from nvidia-smi, asked at most once a second since it takes long."""

    def __init__(self, index=0):
        self.index, self.last = index, 0.0
        self.read()

    def read(self):
        if time.monotonic() - self.last < 1.0:
            return {}
        self.last = time.monotonic()
        text = subprocess.run(["nvidia-smi", f"--id={self.index}", f"--query-gpu={','.join(QUERY.values())}",
                               "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=5, check=True).stdout
        return dict(zip(QUERY, (field.strip() for field in text.splitlines()[0].split(","))))

    def clock(self):
        return None

    def limit_W(self):
        return None


def open_sensor(index=0):
    """What can be read of the GPU, or None."""
    for kind in (Nvml, Smi):
        try:
            return kind(index)
        except (OSError, AttributeError, subprocess.SubprocessError, IndexError):
            continue
    return None
