"""What was collected: manifest.json, and measurements.json, the list that `rehearse import` reads."""
import json
import os


def scenario_of(machine):
    """A scenario of one machine with one GPU. `machine`: name, peak_fp32 (FLOP/s), memory_bandwidth (B/s), memory (B),
    multiprocessors, host_link (B/s), source. Its workload is replaced by that of each run."""
    return {
        "format": 1,
        "name": f"one {machine['name']}",
        "workload": {"model": "resnet18", "batch_per_worker": 1, "optimizer": "momentum", "precision": "fp32"},
        "cluster": {
            "groups": [{
                "name": "workers", "role": "worker", "count": 1, "region": "here",
                "instance": {
                    "vcpus": machine["vcpus"], "memory": f"{machine['host_memory']}B", "accelerators": 1, "nic": "10Gbps",
                    "accelerator": {
                        "name": machine["name"], "peak_fp32": f"{machine['peak_fp32']:.6g}flops",
                        "peak_fp16": f"{machine['peak_fp32']:.6g}flops",
                        "memory_bandwidth": f"{machine['memory_bandwidth']:.6g}Bps", "memory": f"{machine['memory']}B",
                        "memory_reserved": "0B", "multiprocessors": machine["multiprocessors"],
                        "host_link": f"{machine['host_link']:.6g}Bps", "source": machine["source"]},
                    "source": machine["source"]}}],
            "network": {"topology": "star", "links": [
                {"from": "here", "to": "here", "latency": "5us", "source": "one machine: not used"}]}},
        "training": {"strategy": {"kind": "all_reduce", "algorithm": "ring"}, "steps": 20},
        "calibration": "ideal",
    }


def run_entry(name, family, batch, optimizer, period_s, step_time_s):
    if not (period_s > 0 and step_time_s > 0 and batch > 0):
        raise ValueError(f"{name}: expected a period, a step time and a batch above 0")
    return {"name": name, "family": family, "graph": f"graphs/{name}.pbtxt", "batch": batch, "optimizer": optimizer,
            "scenario": "scenario.json", "series": f"series/{name}.csv", "period_s": period_s,
            "step_time_s": step_time_s}


def measurement_list(runs, source):
    return {"format": 1, "source": source, "profiles": [
        {"scenario": run["scenario"], "family": run["family"], "graph": run["graph"], "batch_per_worker": run["batch"],
         "optimizer": run["optimizer"], "series": run["series"], "step_time": f"{run['step_time_s'] * 1e6:.6g}us"}
        for run in runs]}


def write_text(path, text):
    """By rename: a reader finds the old file or the new one."""
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def write_json(path, value):
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_manifest(folder, runs, source):
    write_json(os.path.join(folder, "manifest.json"), {"format": 1, "runs": runs})
    write_json(os.path.join(folder, "measurements.json"), measurement_list(runs, source))


def load_runs(folder):
    """Those of an earlier call, whose files are all there."""
    try:
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            runs = json.load(file)["runs"]
    except FileNotFoundError:
        return []
    return [r for r in runs if all(os.path.exists(os.path.join(folder, r[key])) for key in ("graph", "series"))]
