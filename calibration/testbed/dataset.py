#!/usr/bin/env python3
"""Makes a list of measured jobs of the testbed's trainings, which the predictor imports as samples of a dataset.

    calibration/testbed/dataset.py calibration/data/testbed/training.csv -o results/testbed-jobs
    ./run.sh import results/testbed-jobs/measurements.json -o results/testbed.db

A job is a row that counts: its scenario with the layers as operators, its step time, and its series of 10 ms, where the table beside it
has them: payload at the first worker's NIC, and the processor that its program used, as the utilization of what stands for a GPU, a
core as fast as the row's computation shows. Left out are rows that waited instead of computing (`is_computed` 0), as no operators last
that long, and workers that begin in turns, which a dataset cannot tell; that connections take turns at a NIC, and when counters are read,
it does not tell, either."""
import argparse
import csv
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rates  # noqa: E402
import testbed  # noqa: E402

kScenarios = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scenarios", "testbed"))


def seconds(text):
    """Of a time such as testbed.py writes them."""
    return float(text.removesuffix("ms")) * 1e-3


def reason_against(row):
    """Why a row is no job; empty: it is one."""
    if row["counts"] != "1":
        return "the processors were busy"
    if row["is_computed"] != "1":
        return "it waits instead of computing" if row["layers"] != "0" else "it is no training"
    if float(row["loss"]) > 0:
        return "packets are lost"
    if seconds(row["start_interval"]) > 0 and row["workers"] != "1":
        return "workers begin in turns"
    return ""


def model_of(row):
    """The chain of square layers without biases that node.py computes."""
    width, layers = testbed.width_of(int(row["bytes"]), int(row["layers"])), [{"name": "samples", "layer": "input"}]
    for i in range(1, int(row["layers"]) + 1):
        layers.append({"name": f"dense {i}", "layer": "linear", "inputs": [layers[-1]["name"]], "features": width, "bias": False})
        layers.append({"name": f"tanh {i}", "layer": "activation", "inputs": [layers[-1]["name"]]})
    layers[0]["shape"] = [width]
    return {"format": 1, "name": f"{row['layers']} dense layers of {width}", "source": "calibration/testbed", "structure": {"family": "graph", "layers": layers}}


def core_of(row):
    """A processor core as an accelerator: 6 operations for each weight and sample in the row's time of a layer, forward and backward."""
    width = testbed.width_of(int(row["bytes"]), int(row["layers"]))
    speed = 6 * int(row["batch"]) * width ** 2 / (seconds(row["layer_forward"]) + seconds(row["layer_backward"]))
    return {"name": "core", "peak_fp32": f"{speed / 1e9:.4g}Gflops", "peak_fp16": f"{speed / 1e9:.4g}Gflops", "memory_bandwidth": "20GBps", "memory": "2GiB",
            "memory_reserved": "0B", "multiprocessors": 1, "host_link": "20GBps", "source": "speed as measured in calibration/testbed; memory is an assumption"}


def job_of(row, series):
    """An entry of the list."""
    servers = int(row["servers"])
    node = {"name": "node-" + row["mtu"], "vcpus": 1, "memory": "4GiB", "nic": row["rate"], "source": "calibration/testbed"}
    workers = f"/cluster/groups/{1 if servers else 0}"
    changes = {f"{workers}/count": int(row["workers"]), f"{workers}/instance": {**node, "accelerator": core_of(row)}, "/training/steps_per_worker": int(row["steps"]),
               "/output/reading_interval": "0s"}
    if servers:
        changes |= {"/cluster/groups/0/count": servers, "/cluster/groups/0/instance": node, "/training/strategy/synchronization": row["mode"], "/cluster/network/tcp/turn": "0B"}
    kind = f"{row['mode']}, {servers} servers" if servers else "all-reduce"
    return {"scenario": os.path.join(kScenarios, f"training-{'servers' if servers else 'all-reduce'}.json"), "set": changes,
            "setting": f"testbed: {row['workers']} workers, {kind}, {row['rate']}, MTU {row['mtu']}, {core_of(row)['peak_fp32']}", "model": model_of(row), "batch_per_worker": int(row["batch"]),
            "family": "testbed", "study": "testbed", "step_time": f"{float(row['median_s']) * 1e3:.6g}ms", **({"series": series} if series else {})}


def write_series(path, row):
    """Of all repetitions, one after another. False without any."""
    receive, transmit, processor = ([float(word) for word in row[name].split()] for name in rates.kSeries)
    if len(receive) < 3:
        return False
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("time_s", "gpu_utilization", "receive_Bps", "transmit_Bps"))
        writer.writerows((f"{i * rates.kPeriod:.2f}", f"{min(max(used, 0), 1):.2g}", f"{got:.0f}", f"{sent:.0f}") for i, (got, sent, used) in enumerate(zip(receive, transmit, processor)))
    return True


def convert(table, folder):
    """Writes the list and its series; (jobs, how many rows were left out by reason)."""
    results, jobs, left_out = testbed.Results(table), [], {}
    os.makedirs(folder, exist_ok=True)
    for key, row in results.rows.items():
        if reason := reason_against(row):
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        name = f"series-{len(jobs) + 1}.csv"
        has_series = key in results.series and write_series(os.path.join(folder, name), results.series[key])
        jobs.append(job_of(row, name if has_series else None))
    if not jobs:
        raise testbed.TestbedError(f"{table}: expected a training that counts")
    with open(os.path.join(folder, "measurements.json"), "w") as file:
        json.dump({"format": 1, "source": "trainings measured on the testbed: calibration/testbed/testbed.py", "profiles": jobs}, file, indent=1)
        file.write("\n")
    return jobs, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="CSV of trainings that testbed.py has measured")
    parser.add_argument("--output", "-o", required=True, help="folder of the list and its series")
    options = parser.parse_args()
    try:
        if not os.path.exists(options.table):
            raise testbed.TestbedError(f"{options.table}: no such file")
        jobs, left_out = convert(options.table, options.output)
    except (testbed.TestbedError, OSError, ValueError, KeyError) as error:
        print(f"dataset: {error}", file=sys.stderr)
        return 2
    print(f"{len(jobs)} jobs, {sum('series' in job for job in jobs)} with series; left out: " + (", ".join(f"{count} as {reason}" for reason, count in left_out.items()) or "none"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
