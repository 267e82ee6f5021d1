#!/usr/bin/env python3
"""How well networks predict what they have not seen: python3 tests/bench/prediction.py build/rehearse FOLDER

Generates two datasets of random networks: on the reference settings, for models that were not seen, and on the random
clusters of the space "strategies", for what is left out whole and for ablations. Trains, compares each with baselines on
the test split, and prints a table. What is finished in FOLDER is not done again, so an interrupted call goes on. Needs
rehearse-predictor beside the program.
"""

import argparse
import array
import concurrent.futures
import csv
import json
import pathlib
import sqlite3
import statistics
import subprocess
import sys

SPACES = pathlib.Path(__file__).resolve().parents[2] / "scenarios" / "spaces"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/rehearse")
    parser.add_argument("folder", type=pathlib.Path, help="of datasets, models, comparisons and table.json")
    parser.add_argument("--samples", type=int, default=24000, help="simulated samples of the reference space (default 24000)")
    parser.add_argument("--strategy-samples", type=int, default=24000, help="simulated samples of the space strategies (default 24000)")
    parser.add_argument("--epochs", type=int, default=8, help="of trainings on random clusters (default 8)")
    parser.add_argument("--reference-epochs", type=int, default=10, help="of trainings on the reference space (default 10)")
    parser.add_argument("--fold-share", type=float, default=0.6, help="share of the graphs that folds and ablations train with (default 0.6)")
    parser.add_argument("--seeds", type=int, default=3, help="of the first row (default 3)")
    parser.add_argument("-j", type=int, default=2, help="trainings at the same time (default 2)")
    parser.add_argument("--only", help="rows whose name, or that of the fold, starts with this")
    return parser.parse_args()


def run(program, *words):
    command = [program, *[str(word) for word in words]]
    print("$", " ".join(command)[:300], file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def settings_of(data):
    """Name, group, GPU and descriptor by name of each setting of a dataset."""
    connection = sqlite3.connect(data)
    columns = [name for (name,) in connection.execute("SELECT name FROM names WHERE kind = 'descriptor' ORDER BY position")]
    for name, group, provenance, blob in connection.execute("SELECT name, grouped, provenance, descriptor FROM settings ORDER BY id"):
        accelerator = json.loads(provenance)["cluster"]["groups"][0]["instance"]["accelerator"]
        yield name, group, accelerator if isinstance(accelerator, str) else accelerator["name"], dict(zip(columns, array.array("d", blob)))


def folds(data):
    """Name of the row, name of the fold, options of train, options of compare."""
    connection = sqlite3.connect(data)
    families = [family for (family,) in connection.execute("SELECT DISTINCT family FROM graphs ORDER BY family")]
    settings = list(settings_of(data))
    for family in families:
        yield "family left out", family, ["--leave-out-family", family], ["--family", family]
    left_out = [("GPU left out", gpu, lambda s, gpu=gpu: s[2] == gpu) for gpu in sorted({s[2] for s in settings})]
    rates = (("payload below 1.5 Gbit/s", 0, 1.5e9), ("payload 5 to 10 Gbit/s", 5e9, 10e9), ("payload above 30 Gbit/s", 30e9, 1e15))
    left_out += [("network left out", name, lambda s, low=low, high=high: low <= 8 * s[3]["nic_Bps"] < high) for name, low, high in rates]
    left_out += [("network left out", "more than 5 machines", lambda s: s[3]["worker_machines"] > 5)]
    left_out += [("strategy left out", group, lambda s, group=group: s[1] == group) for group in dict.fromkeys(s[1] for s in settings)]
    for row, name, is_left_out in left_out:
        names = [s[0] for s in settings if is_left_out(s)]
        yield row, name, [word for n in names for word in ("--leave-out-setting", n)], ["--unseen", *(word for n in names for word in ("--setting", n))]


def testbed(options, model):
    """Bursts at the NICs of real trainings, by the engine and by a network that saw no such network: median errors in percent."""
    root, folder = SPACES.parents[1], options.folder / "testbed"
    if not (folder / "jobs.db").exists():
        run(sys.executable, root / "calibration/testbed/dataset.py", root / "calibration/data/testbed/training.csv", "-o", folder)
        run(options.program, "import", folder / "measurements.json", "--quiet", "-o", folder / "jobs.db")
    errors = {}
    for split in ("train", "validation", "test"):
        out = folder / split
        if not (out / "comparison.json").exists():
            command = [options.program, "compare", model, folder / "jobs.db", "--origin", "measured", "--unseen", "--no-baselines", "--split", split, "--quiet", "-o", out]
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                continue  # a split without jobs
        for row in csv.DictReader((out / "jobs-measured.csv").open()):
            metric = row["metric"].removeprefix("receive_").removeprefix("transmit_")
            if metric in ("idle_s", "active_s", "peak_Bps", "step_time_s") and not row["metric"].startswith(("gpu", "memory")) and float(row["measured"] or 0) > 0:
                for predictor in ("simulated", "learnt"):
                    errors.setdefault((predictor, "step" if metric == "step_time_s" else "bursts"), []).append(abs(100 * (float(row[predictor]) / float(row["measured"]) - 1)))
    for (predictor, what), values in sorted(errors.items()):
        print(f"{'testbed':24} {predictor:22} {what} median {statistics.median(values):6.2f}  of {len(values)} labels")


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


def line(row, fold, learnt, best):
    values = "  ".join(f"{metric} {value:6.2f}" for metric, value in learnt.items())
    return f"{row:24} {fold:36} {values}  best baseline {best['burst_median']:6.2f} {best['step_median']:6.2f}"


def measure(options, data, row, fold, train, ask, share, seed, epochs):
    """Trains, compares, prints a line, and gives it."""
    name = "".join(c if c.isalnum() else "-" for c in f"{row} {fold}")
    model = options.folder / name / "learnt"
    if not (model / "report.html").exists():
        run(options.program, "train", data, "--epochs", epochs, "--share", share, "--seed", seed, "--quiet", *train, "-o", model)
    predictors = compare(options.program, model, data, [*ask, "--share", share], options.folder / name / "comparison")
    result = {"row": row, "fold": fold, "share_of_training": share, "learnt": scores(predictors, "learnt")}
    result["learnt"]["in_90"] = 100 * predictors["learnt"]["coverage"]["90"]
    baselines = {other: scores(predictors, other) for other in predictors if other != "learnt"}
    result["baselines"] = baselines
    result["best_baseline"] = {metric: min(of[metric] for of in baselines.values() if metric in of) for metric in ("burst_median", "step_median")}
    print(line(row, fold, result["learnt"], result["best_baseline"]), flush=True)
    return result


def main():
    options = arguments()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)

    def generated(space, samples):
        data = folder / f"{space}.db"
        if not data.exists():
            run(options.program, "generate", SPACES / f"{space}.json", "--count", samples, "-j", 2, "--quiet", "-o", data)
        return data

    experiments = []

    def experiment(data, row, fold, train, ask, share=1.0, seed=1, epochs=options.epochs):
        if not options.only or row.startswith(options.only) or fold.startswith(options.only):
            experiments.append((data, row, fold, train, ask, share, seed, epochs))

    share = options.fold_share
    data = generated("strategies", options.strategy_samples)
    experiment(data, "any strategy", "models not seen", [], [], share)
    for ablation in ("edges", "rounds", "bounds"):
        experiment(data, "ablation", ablation, ["--ablation", ablation], [], share)
    for row, fold, train, ask in folds(data):
        experiment(data, row, fold, train, ask, share)
    if options.seeds > 0:
        data = generated("reference", options.samples)
    for seed in range(1, options.seeds + 1):
        experiment(data, "reference", f"models not seen, seed {seed}", [], [], seed=seed, epochs=options.reference_epochs)
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        rows = list(pool.map(lambda of: measure(options, *of), experiments))
    (folder / "table.json").write_text(json.dumps(rows, indent=1))
    if not options.only or "testbed".startswith(options.only):
        testbed(options, folder / "any-strategy-models-not-seen" / "learnt")
    for row in dict.fromkeys(result["row"] for result in rows if result["row"] != "ablation"):
        of_row = [result for result in rows if result["row"] == row]
        best = {metric: statistics.fmean(result["best_baseline"][metric] for result in of_row) for metric in ("burst_median", "step_median")}
        means = {metric: statistics.fmean(result["learnt"][metric] for result in of_row) for metric in of_row[0]["learnt"]}
        print(line(row, "mean", means, best) + f"  ratio {means['burst_median'] / best['burst_median']:.2f} {means['step_median'] / best['step_median']:.2f}")


if __name__ == "__main__":
    main()
