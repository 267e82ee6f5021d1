#!/usr/bin/env python3
"""How well networks predict what they have not seen: python3 tests/bench/prediction.py build/rehearse FOLDER

Generates a dataset of random networks on the reference settings, trains on all of it with several seeds, with parts of it left out, and with
ablations, compares each with baselines on the test split, and prints a table. What is finished in FOLDER is not done again, so an interrupted
call goes on. Needs rehearse-predictor beside the program.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SPACES = pathlib.Path(__file__).resolve().parents[2] / "scenarios" / "spaces"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/rehearse")
    parser.add_argument("folder", type=pathlib.Path, help="of datasets, models, comparisons and table.json")
    parser.add_argument("--samples", type=int, default=36000, help="simulated samples (default 36000)")
    parser.add_argument("--epochs", type=int, default=16, help="of each training (default 16)")
    parser.add_argument("--fold-share", type=float, default=0.35, help="share of the graphs that folds and ablations train with (default 0.35)")
    parser.add_argument("--seeds", type=int, default=3, help="of the first row (default 3)")
    parser.add_argument("--only", help="rows whose name starts with this")
    return parser.parse_args()


def run(program, *words):
    command = [program, *[str(word) for word in words]]
    print("$", " ".join(command), file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def folds():
    """Name of the row, name of the fold, options of train, options of compare."""
    groups = {"V100": "v100", "RTX 2080 Ti": "2080ti", "Titan RTX": "titanrtx"}
    space = json.loads("\n".join(line for line in (SPACES / "reference.json").read_text().splitlines() if not line.strip().startswith("//")))
    names = [cluster["name"] for cluster in space["clusters"]]
    families = []
    for family in space["workloads"]:
        if family["family"] not in families:
            families.append(family["family"])
    for family in families:
        yield "one family left out", family, ["--leave-out-family", family], ["--family", family]
    for gpu, word in groups.items():
        of_gpu = [name for name in names if f"-{word}-" in name]
        yield ("one GPU left out", gpu, [w for name in of_gpu for w in ("--leave-out-setting", name)],
               ["--unseen", *(w for name in of_gpu for w in ("--setting", name))])
    slow = [name for name in names if name.split("/")[1][:2] in ("11", "12", "13", "14")]
    for name, left_out in (("1 GbE, 5 machines", slow), ("40 GbE, 2 machines", [n for n in names if n.split("/")[1][:2] in ("07", "08", "09", "10")])):
        yield ("one network left out", name, [w for n in left_out for w in ("--leave-out-setting", n)], ["--unseen", *(w for n in left_out for w in ("--setting", n))])


def compare(program, model, data, options, out):
    if not (out / "comparison.json").exists():
        run(program, "compare", model, data, *options, "--quiet", "-o", out)
    return json.loads((out / "comparison.json").read_text())["origins"]["simulated"]["predictors"]


def scores(predictors, name):
    """Of the burst labels: means over the twelve of median and p90; of the step time: median."""
    labels = predictors[name]["labels"]
    bursts = [score for label, score in labels.items() if label != "step_time_s" and "_mean_" not in label]
    found = {"step_median": labels["step_time_s"]["median_ape"]} if "step_time_s" in labels else {}
    if bursts:
        found["burst_median"] = statistics.fmean(score["median_ape"] for score in bursts)
        found["burst_p90"] = statistics.fmean(score["p90_ape"] for score in bursts)
    return found


def main():
    options = arguments()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data.db"
    if not data.exists():
        run(options.program, "generate", SPACES / "reference.json", "--count", options.samples, "-j", 2, "-o", data)
    rows = []

    def experiment(row, fold, train, ask, share=1.0, seed=1):
        if options.only and not row.startswith(options.only):
            return
        name = "".join(c if c.isalnum() else "-" for c in f"{row} {fold}")
        model = folder / name / "learnt"
        if not (model / "report.html").exists():
            run(options.program, "train", data, "--epochs", options.epochs, "--share", share, "--seed", seed, "--quiet", *train, "-o", model)
        predictors = compare(options.program, model, data, [*ask, "--share", share], folder / name / "comparison")
        result = {"row": row, "fold": fold, "share_of_training": share, "learnt": scores(predictors, "learnt")}
        result["baselines"] = {other: scores(predictors, other) for other in predictors if other != "learnt"}
        rows.append(result)
        best = {metric: min(of[metric] for of in result["baselines"].values() if metric in of) for metric in ("burst_median", "step_median")}
        print(f"{row:24} {fold:22} " + "  ".join(f"{metric} {value:6.2f}" for metric, value in result["learnt"].items())
              + f"  best baseline {best['burst_median']:6.2f} {best['step_median']:6.2f}", flush=True)
        (folder / "table.json").write_text(json.dumps(rows, indent=1))

    for seed in range(1, options.seeds + 1):
        experiment("models not seen", f"seed {seed}", [], [], seed=seed)
    share = options.fold_share
    experiment("ablation", "none", [], [], share)
    for ablation in ("edges", "rounds", "bounds"):
        experiment("ablation", ablation, ["--ablation", ablation], [], share)
    for row, fold, train, ask in folds():
        experiment(row, fold, train, ask, share)
    for row in dict.fromkeys(result["row"] for result in rows):
        if row == "ablation":
            continue
        of_row = [result for result in rows if result["row"] == row]
        means = {metric: statistics.fmean(result["learnt"][metric] for result in of_row) for metric in of_row[0]["learnt"]}
        print(f"{row:24} {'mean':22} " + "  ".join(f"{metric} {value:6.2f}" for metric, value in means.items()))


if __name__ == "__main__":
    main()
