#!/usr/bin/env python3
"""layers.py PROGRAM LAYERS.csv INSTANCE: layers of transformers as measured, beside what the profile "kernels" says of them.

LAYERS.csv is what calibration/collect/measure_layers.py has written; INSTANCE a machine of eight of the GPUs in the catalog. A layer is the
second one of a model of two, split over as many GPUs as its row says: its kernels by --print-program, without what ranks exchange, and what it keeps
for the backward pass by --dry-run. Prints median / p90 of absolute errors in percent by model and degree, and signed means.
"""

import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
KERNEL = re.compile(r"\d+ compute encoder/layer2/(\S+) on stream 0: (?:[\d.e-]+(?:ns|us|ms|s) host, )?([\d.e-]+)(ns|us|ms|s)")


def scenario(row, layers, instance):
    structure = {"family": "transformer", "layers": layers, "width": int(row["hidden"]), "heads": int(row["heads"]), "kv_heads": int(row["kv_heads"]),
                 "feed_forward": int(row["ffn"]), "vocabulary": 32000, "sequence_length": int(row["sequence"]), "normalisation": "pre",
                 "joint_projection": True, "fused_attention": True, "dropout": False, "head": "language_model"}
    if row["gated"] == "1":
        structure.update(rms_norm=True, rotary_positions=True, gated_feed_forward=True, attention_biases=False, feed_forward_biases=False, tied_embedding=False)
    return {"format": 1, "name": row["case"],
            "workload": {"model": {"format": 1, "source": "a measured layer", "name": row["model"], "structure": structure},
                         "batch_per_worker": int(row["batch"]), "optimizer": "sgd", "precision": "bf16"},
            "cluster": {"groups": [{"name": "machine", "role": "worker", "count": 1, "region": "r", "instance": instance}],
                        "network": {"links": [{"from": "r", "to": "r", "latency": "10us", "source": "not used"}]}},
            "training": {"strategy": {"kind": "all_reduce", "tensor": {"degree": int(row["tensor"])}}, "steps": 1, "warmup_steps": 0},
            "calibration": "kernels"}


def printed(program, file, *options):
    return subprocess.run([program, "simulate", file, *options], check=True, capture_output=True, text=True).stdout


def predicted(program, row, instance):
    """Seconds forward, seconds backward, bytes kept."""
    with tempfile.TemporaryDirectory() as folder:
        kept = []
        for layers in (1, 2):
            file = os.path.join(folder, f"{layers}.json")
            with open(file, "w", encoding="utf-8") as out:
                json.dump(scenario(row, layers, instance), out)
            kept.append(json.loads(printed(program, file, "--dry-run", "--json"))["gpu_memory_parts_B"]["activations"])
        times = {True: 0.0, False: 0.0}
        for line in printed(program, file, "--print-program").splitlines():
            kernel = KERNEL.match(line)
            if kernel:
                times["gradient" in kernel[1]] += float(kernel[2]) * UNITS[kernel[3]]
    return times[False], times[True], kept[1] - kept[0]


def errors(values):
    ordered = sorted(abs(value) for value in values)
    return f"{100 * statistics.median(ordered):5.1f} / {100 * ordered[int(0.9 * (len(ordered) - 1))]:4.1f} ({100 * statistics.mean(values):+5.1f})"


def main():
    program, table, instance = sys.argv[1:4]
    with open(table, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["precision"], row["attention"], row["checkpointed"], row["dropout"], row["status"]) ==
                ("bf16", "flash", "0", "0", "ok") and row["norm"] in ("rmsnorm", "layernorm")]
    compared = []
    for number, row in enumerate(rows):
        forward, backward, kept = predicted(program, row, instance)
        measured = float(row["forward_median_s"]), float(row["backward_median_s"])
        compared.append((row, kept / float(row["saved_B"]) - 1, forward / measured[0] - 1, backward / measured[1] - 1,
                         (forward + backward) / sum(measured) - 1))
        print(f"\r{number + 1} of {len(rows)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{'layers':24} {'rows':>4}  {'kept':>20}  {'forward':>20}  {'backward':>20}  {'both':>20}")
    groups = [("all", compared)]
    groups += [(f"degree {degree}", [one for one in compared if one[0]["tensor"] == degree]) for degree in ("1", "2", "4", "8")]
    groups += [(model, [one for one in compared if one[0]["model"] == model]) for model in sorted({one[0]["model"] for one in compared})]
    for name, group in groups:
        if group:
            print(f"{name:24} {len(group):4}  " + "  ".join(f"{errors([one[i] for one in group]):>20}" for i in range(1, 5)))


if __name__ == "__main__":
    main()
