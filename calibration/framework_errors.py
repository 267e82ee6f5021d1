#!/usr/bin/env python3
"""How far steps of large models were off that a framework's values in profile "large-models" were not fitted to.

  calibration/framework_errors.py [--build DIR] [--write] [FRAMEWORK ...]      (default: all below; some minutes each)

Prints, for each framework, ln(predicted speed / measured speed) at the 5th and 95th percentile: of its studies the lowest and the
highest, since a new training is more like one source than like all, and no narrower than all rows of a study have it, those that the
fit has seen among them, since a new training may be as small as those. Behind it the share of rows that such percentiles of
the other rows hold, where those of a value of the study's column are left out together. --write states them in the
profile, which makes them the intervals of runs on such machines.
"""
import argparse
import collections
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

from prediction_errors import error_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROFILE = os.path.join(ROOT, "calibration", "profiles", "large-models.json")
FEWEST = 20  # rows of a study, for its percentiles

# Studies, each with the column that is left out for the coverage; GPUs and NICs of a machine as the studies' scenarios have them.
Source = collections.namedtuple("Source", "studies accelerators nic_min nic_max")
FRAMEWORKS = {
    "nanotron": Source([("nanotron-ultrascale", "model")], ["H100"], "3200Gbps", "3200Gbps"),
    "Megatron-DeepSpeed": Source([("vtrain-a100-megatron", "hidden"), ("vtrain-a100-megatron-one-machine", "hidden"),
                                  ("bigscience-bloom", "hidden")], ["A100 80GB"], "80Gbps", "800Gbps"),
    "Megatron-DeepSpeed, launches that block": Source([("bigscience-bloom", "hidden")], ["A100 80GB"], "56Gbps", "80Gbps"),
    "InternEvo": Source([("internevo", "table")], ["A100 80GB"], "400Gbps", "400Gbps"),
    "llm-foundry": Source([("llm-foundry-fsdp", "model")], ["A100", "A100 80GB", "H100"], "1600Gbps", "3200Gbps"),
}


def middle_90(errors):
    twentieths = statistics.quantiles(errors, n=20, method="inclusive")
    return twentieths[0], twentieths[-1]


def errors_of(build, study, column):
    """[(value of the column, ln(predicted speed / measured speed), whether no fit has seen it)] of the rows."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "validated")
        subprocess.run([os.path.join(build, "rehearse"), "validate", f"scenarios/studies/{study}.json", "--quiet", "-o", folder],
                       cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        own = os.path.join(folder, study + ".iteration_time_s")  # of studies with several targets
        with open(os.path.join(own if os.path.isdir(own) else folder, "validation.csv"), newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["simulated"]]
    return [(row[column], error_of(row, study), row["use"] != "fitted") for row in rows]


def coverage(rows):
    """Of rows, by the percentiles of those with another value of the column."""
    inside = total = 0
    for value in {value for value, _ in rows}:
        others = [error for other, error in rows if other != value]
        if len(others) < FEWEST:
            continue
        low, high = middle_90(others)
        own = [error for other, error in rows if other == value]
        inside += sum(low <= error <= high for error in own)
        total += len(own)
    return inside, total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder of the program (default: build)")
    parser.add_argument("--write", action="store_true", help="state them in the profile")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(FRAMEWORKS))
    asked = parser.parse_args()
    if unknown := [name for name in asked.frameworks if name not in FRAMEWORKS]:
        parser.error(f"unknown framework {unknown[0]}: expected one of {', '.join(FRAMEWORKS)}")
    for name in asked.frameworks or FRAMEWORKS:
        source = FRAMEWORKS[name]
        count, ends = 0, []
        for study, column in source.studies:
            of_all = errors_of(asked.build, study, column)
            rows = [(value, error) for value, error, is_unseen in of_all if is_unseen]
            if len(rows) < FEWEST:
                print(f"{name}: {study}: {len(rows)} rows, too few")
                continue
            count += len(rows)
            ends += [middle_90([error for _, error in rows]), middle_90([error for _, error, _ in of_all])]
            inside, total = coverage(rows)
            print(f"{name}: {study}: {len(rows)} rows, {ends[-2][0]:+.3f} to {ends[-2][1]:+.3f} (all {len(of_all)}: {ends[-1][0]:+.3f} to {ends[-1][1]:+.3f}); "
                  f"by those with another {column}: {inside} of {total} inside", flush=True)
        errors = {"rows": count, "accelerators": source.accelerators, "nic_min": source.nic_min,
                  "nic_max": source.nic_max,
                  "low": round(min(low for low, _ in ends), 4), "high": round(max(high for _, high in ends), 4)}
        print(f"{name}: {json.dumps(errors)}", flush=True)
        if asked.write:
            with open(PROFILE) as file:
                profile = json.load(file)
            profile["frameworks"][name]["errors"] = errors
            with open(PROFILE + ".new", "w") as file:
                file.write(json.dumps(profile, indent=2, ensure_ascii=False) + "\n")
            os.replace(PROFILE + ".new", PROFILE)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"framework_errors.py: {error}")
