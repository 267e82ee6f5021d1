#!/usr/bin/env python3
"""Measures how far predictions of each kind are off, where no profile has been fitted on the row:
    calibration/prediction_errors.py FOLDER            writes platforms/catalog/prediction_errors.json
    calibration/prediction_errors.py FOLDER --auto     prints what "auto" gives, beside each study's own profile
    calibration/prediction_errors.py FOLDER --table    prints the coverage of the intervals by kind
Every study is predicted by every profile of its group with `rehearse validate STUDY --calibration PROFILE
--without-own-profiles`; what FOLDER has already is not run again. A study counts with at most ROWS of its rows, in equal steps
of its file. platforms/prediction_kind.hpp says what the kinds are."""

import argparse
import collections
import csv
import gzip
import json
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = 24
FEWEST = 40  # rows of a kind that stands by itself; PredictionErrors::of() has the same number
ONE_GPU = ["kernels", "hkbu-ddl-benchmarks", "nvidia-deeplearningexamples", "oneflow-dlperf"]
RINGS = ONE_GPU + ["pollux-t4-traces", "nccl"]
SERVERS = ["kernels", "cm-dare", "spotdnn", "cscs", "mxnet-perf", "tensorflow-benchmarks-2017", "hkbu-ddl-benchmarks"]
COLLECTIVES = ["nccl", "vtrain-a100-megatron", "collective-microbenchmarks", "baidu-deepbench-maxwell", "hkbu-ddl-benchmarks"]
STUDIES = {
    "cm-dare-cluster": SERVERS, "cm-dare-single-worker": SERVERS, "spotdnn-resnet110-speed": SERVERS,
    "hkbu-ddl-benchmarks-ps": SERVERS, "cscs-tf-ps-scaling-2017": SERVERS, "mxnet-perf-ps": SERVERS,
    "tensorflow-benchmarks-2017": SERVERS,
    "hkbu-ddl-benchmarks": RINGS, "oneflow-dlperf-resnet50": RINGS, "oneflow-dlperf-bert": RINGS,
    "nvidia-deeplearningexamples": RINGS, "pollux-t4-traces": RINGS, "lambda-gpu-benchmarks": RINGS,
    "gavel-throughputs": RINGS, "zeus-energy": ONE_GPU, "mxnet-perf-one-gpu": ONE_GPU,
    "vtrain-a100-megatron-allreduce": COLLECTIVES, "collective-microbenchmarks": COLLECTIVES, "nccl": COLLECTIVES,
    "baidu-deepbench-allreduce-maxwell": COLLECTIVES, "baidu-deepbench-allreduce-pascal": COLLECTIVES,
}


def study_file(study):
    return ROOT / "scenarios/studies" / (study + ".json")


def measurements_of(study):
    """The file that the study's rows are in."""
    text = re.search(r'"measurements":\s*(?:\{[^}]*"file":\s*)?"([^"]*)"', study_file(study).read_text())[1]
    return (study_file(study).parent / text).resolve()


def few_rows(study, folder):
    """The header and at most ROWS rows in equal steps of those that the study does not leave out."""
    file = measurements_of(study)
    few = folder / (study + ".csv")
    if few.exists() or file.suffix not in (".csv", ".gz"):
        return few if few.exists() else file
    with gzip.open(file, "rt") if file.suffix == ".gz" else open(file) as text:
        lines = [line for line in text if line.strip() and not line.startswith("#")]
    study_text = re.sub(r"(?m)^\s*//.*$|(?<=[,\[{}\]])\s+//.*$", "", study_file(study).read_text())
    excluded = [rule["where"] for rule in json.loads(study_text).get("exclude", [])]

    def is_left_out(row):
        return any(all(row[column] in (wanted if isinstance(wanted, list) else [str(wanted)])
                       for column, wanted in where.items()) for where in excluded)

    rows = [i for i, row in enumerate(csv.DictReader(lines)) if not is_left_out(row)]
    taken = [rows[i * len(rows) // ROWS] for i in range(ROWS)] if len(rows) > ROWS else rows
    few.write_text(lines[0] + "".join(lines[1 + i] for i in taken))
    return few


def validate(rehearse, study, output, options, rows):
    if not (output / "validation.csv").exists():
        command = [rehearse, "validate", str(study_file(study)), "--quiet", "-o", str(output)] + options
        if rows:
            command += ["--measurements", str(rows)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{study} {' '.join(options)}: {done.stderr.strip()}", file=sys.stderr)
            return []
    with open(output / "validation.csv") as text:
        return [row for row in csv.DictReader(text) if row["use"] != "step_time" and row["simulated"]]


def is_rate(row_metric):
    return "_per_s" in row_metric or row_metric.endswith("_Bps")


def metric_of(study):
    return re.search(r'"metric":\s*"([^"]*)"', study_file(study).read_text())[1]


def error_of(row, study):
    """ln(predicted / measured) of a speed; a time is one by a speed."""
    error = math.log(float(row["simulated"]) / float(row["measured"]))
    return error if is_rate(metric_of(study)) else -error


def quantile(values, share):
    """Linear between order statistics, a little outside of the wanted one so that another value lies inside as often."""
    values = sorted(values)
    place = min(max(share * (len(values) + 1) - 1, 0), len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def errors_of(pairs):
    """Of [(source, error)]: a source counts as much as any other, whatever its rows are."""
    return {"rows": len(pairs), "sources": len({source for source, _ in pairs}),
            "median": round(quantile([abs(error) for _, error in pairs], 0.5), 4),
            "low": round(quantile([error for _, error in pairs], 0.05), 4),
            "high": round(quantile([error for _, error in pairs], 0.95), 4)}


def parts(kind):
    computation, exchange = kind.split("; ")
    return [kind] + [part for part in (computation, exchange) if part != "nothing"]


def collect(folder, rehearse):
    """{kind: [(source, error)]}; of a kind's parts, those rows whose other part costs nothing or is fitted."""
    by_kind = collections.defaultdict(list)
    for study, profiles in STUDIES.items():
        rows = few_rows(study, folder)
        for profile in profiles:
            done = validate(rehearse, study, folder / study / profile,
                            ["--calibration", profile, "--without-own-profiles"], rows)
            for row in done:
                by_kind[row["kind"]].append((measurements_of(study).parent.name, error_of(row, study)))
    return by_kind


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rehearse", default=str(ROOT / "build/rehearse"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for kind, pairs in sorted(collect(arguments.folder, arguments.rehearse).items()):
        print(kind, errors_of(pairs))


if __name__ == "__main__":
    main()
