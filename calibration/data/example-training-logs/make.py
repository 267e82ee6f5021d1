#!/usr/bin/env python3
"""Writes logs.csv: training logs of simulated clusters, as `rehearse calibrate` reads them.

    calibration/data/example-training-logs/make.py build/rehearse

Seconds, bytes and exchange times are those of `simulate -o`; the loss is the convergence model of scenarios/spotdnn.json.
"""
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARAMETERS = 98_000_000
TYPES = {"g4dn.4xlarge": (1, 64), "g3.16xlarge": (4, 128)}  # GPUs, batch
CLUSTERS = [(1, 0), (0, 1), (1, 1), (2, 2), (4, 3)]


def loss(updates, weighted_batch, workers):
    return (-0.2 * weighted_batch + 2507.6) * math.sqrt(workers) / (updates + 876.5) + 0.5


def main():
    rows = []
    for counts in CLUSTERS:
        groups = [
            {"name": "ps", "role": "parameter_server", "instance": "m5.xlarge", "region": "us-east-1"}
        ] + [
            {"name": name, "role": "worker", "instance": name, "count": count, "region": "us-east-1",
             "workers_per_machine": 1, "batch_per_worker": TYPES[name][1]}
            for name, count in zip(TYPES, counts) if count
        ]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.argv[1], "simulate", str(ROOT / "scenarios/spotdnn.json"), "--quiet", "-o", folder]
                + [f"--set={pointer}={value}" for pointer, value in {
                    "/cluster/groups": json.dumps(groups),
                    "/workload/model": "spotdnn/inception_v3",
                    "/workload/framework": "figure 5b",
                    "/cluster/network/links/0/per_flow_rate": "562MBps",
                    "/training": json.dumps({
                        "strategy": {"kind": "parameter_server", "synchronization": "asynchronous", "overlap": "none",
                                     "partition_size": "512KiB"},
                        "steps_per_worker": 40, "step_time_variation": 0.02}),
                }.items()], check=True, stdout=subprocess.DEVNULL)
            steps = list(csv.DictReader(open(pathlib.Path(folder) / "iterations.csv")))
        machine_type = lambda step: next(name for name in TYPES if step["machine"].startswith(name))
        means = {}
        for step in steps:
            means.setdefault(step["machine"], []).append(float(step["end_s"]) - float(step["start_s"]))
        rates = {machine: len(times) / sum(times) for machine, times in means.items()}
        batch = sum(TYPES[next(n for n in TYPES if m.startswith(n))][1] * r for m, r in rates.items()) / sum(rates.values())
        for step in steps:
            gpus, own_batch = TYPES[machine_type(step)]
            start, end = float(step["start_s"]), float(step["end_s"])
            exchange = float(step["pull_end_s"]) - start + end - float(step["compute_end_s"])
            rows.append(["+".join(map(str, counts)), step["machine"], machine_type(step), gpus, own_batch,
                         step["global_step"], f"{end - start:.5f}",
                         f"{loss(int(step['global_step']), batch, sum(counts)):.5f}", 2 * PARAMETERS, f"{exchange:.5f}"])
    with open(HERE / "logs.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["cluster", "worker", "instance", "gpus", "batch", "step", "seconds_per_batch", "loss",
                         "exchanged_B", "exchange_s"])
        writer.writerows(rows)


main()
