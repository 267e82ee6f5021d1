"""system.json: what the measurements ran on."""
import json
import os
import platform
import subprocess
import time

import torch

from .sensor import open_sensor

SMI = ("name", "driver_version", "power.limit", "power.default_limit", "clocks.max.sm", "clocks.max.memory", "clocks.applications.graphics",
       "persistence_mode", "ecc.mode.current", "pcie.link.gen.current", "pcie.link.width.current", "vbios_version")


def processor_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.processor())
    except OSError:
        return platform.processor()


def ask_smi(index):
    """Fields of nvidia-smi as texts with units; those that it does not know are left out."""
    found = {}
    try:
        text = subprocess.run(["nvidia-smi", f"--id={index}", f"--query-gpu={','.join(SMI)}", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=10, check=True).stdout
        found = dict(zip(SMI, (field.strip() for field in text.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        found["error"] = str(error)[:200]
    return found


def describe_gpu(device):
    properties = torch.cuda.get_device_properties(device)
    sensor = open_sensor(device.index or 0)
    free, total = torch.cuda.mem_get_info(device)
    return {"name": properties.name, "memory_B": properties.total_memory, "free_B": free, "total_B": total,
            "multiprocessors": properties.multi_processor_count, "capability": f"{properties.major}.{properties.minor}",
            "l2_cache_B": getattr(properties, "L2_cache_size", None), "at_start": sensor.read() if sensor else None,
            "power_limit_W": sensor.limit_W() if sensor else None, "nvidia_smi": ask_smi(device.index or 0)}


def write_system(path, device):
    """Writes the file unless it is there: a worker that goes on later does not see the GPU idle."""
    if os.path.exists(path):
        return
    facts = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "torch": torch.__version__, "cuda": torch.version.cuda,
             "cudnn": torch.backends.cudnn.version() if device.type == "cuda" else None, "python": platform.python_version(),
             "system": f"{platform.system()} {platform.release()}", "processor": processor_name(), "cores": os.cpu_count(),
             "host_memory_B": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
             "environment": {k: v for k, v in os.environ.items() if k.startswith(("CUDA_", "PYTORCH_", "NVIDIA_TF32", "TORCH_", "OMP_"))}}
    try:
        facts["gpu"] = describe_gpu(device) if device.type == "cuda" else None
    except Exception as error:  # measurements matter more than their label
        facts["gpu"] = {"error": str(error)[:200]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2)
        file.write("\n")
