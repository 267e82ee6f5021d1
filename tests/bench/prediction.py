#!/usr/bin/env python3
"""What predictor/README.md says of the accuracy of predictions: python3 tests/bench/prediction.py build/rehearse FOLDER

Generates two datasets of random networks: on the reference settings, for models that were not seen, and on the random
clusters of the space "strategies", with --ablations and --left-out for what is taken away and left out whole; with --measured
one of the measured rows of studies.
Trains, compares each network with baselines on the test split, and writes FOLDER/accuracy.json, of which
`cmake/refresh_readmes.sh prediction=FOLDER` makes the tables. What is finished in FOLDER is not done again, so an
interrupted call goes on. Needs rehearse-predictor beside the program.
"""

import argparse
import concurrent.futures
import csv
import json
import pathlib
import sqlite3
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABLATIONS = ("edges", "rounds", "bounds")
LINKS = {"NICs below 2 Gbit/s": (0, 2), "NICs above 40 Gbit/s": (40, 1e6)}
LEFT_OUT = {  # some of each kind that the space "strategies" has: old and new, near to others and far from them
    "family": ("densenet", "gnmt", "inception", "lstm", "transformer", "vgg"),
    "strategy": ("synchronous", "asynchronous", "ring in buckets", "unequal machines"),
    "GPU": ("K80", "H100"),
    "network": tuple(LINKS)}


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/rehearse")
    parser.add_argument("folder", type=pathlib.Path, help="of datasets, models, comparisons and accuracy.json")
    parser.add_argument("--reference-samples", type=int, default=24000, help="simulated samples on the settings of Driple (default 24000)")
    parser.add_argument("--samples", type=int, default=8000, help="simulated samples on random clusters (default 8000)")
    parser.add_argument("--epochs", type=int, default=8, help="of trainings on random clusters (default 8)")
    parser.add_argument("--reference-epochs", type=int, default=40, help="of trainings on the reference space (default 40)")
    parser.add_argument("--seeds", type=int, default=1, help="of trainings on the reference space (default 1)")
    parser.add_argument("--ablations", action="store_true", help="also take parts of what the network is told away")
    parser.add_argument("--left-out", action="store_true", help="also leave families, strategies, GPUs and ranges of links out of the training")
    parser.add_argument("--measured", action="store_true", help="also ask for measured rows of studies and trainings of the testbed")
    parser.add_argument("-j", type=int, default=2, help="trainings at the same time (default 2)")
    return parser.parse_args(words)


def run(program, *words, result=None):
    """`result`: where what it prints is kept."""
    command = [str(word) for word in (program, *words)]
    print("$", " ".join(command)[:300], file=sys.stderr, flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    if result:
        result.write_bytes(done.stdout)


def rounded(values):
    """Numbers with four digits, in whatever they are nested in."""
    if isinstance(values, dict):
        return {name: rounded(value) for name, value in values.items()}
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return float(f"{values:.4g}") if isinstance(values, float) else values


def settings_of(data):
    """Name, group, GPU and rate of the NIC in Gbit/s of the first machines of each setting of a dataset."""
    connection = sqlite3.connect(data)
    for name, group, provenance in connection.execute("SELECT name, grouped, provenance FROM settings ORDER BY id"):
        instance = json.loads(provenance)["cluster"]["groups"][0]["instance"]
        accelerator = instance["accelerator"]
        yield name, group, accelerator if isinstance(accelerator, str) else accelerator["name"], float(instance["nic"].removesuffix("Mbps")) / 1000


def is_left_out(kind, name, group, gpu, nic):
    if kind == "network":
        low, high = LINKS[name]
        return low <= nic < high
    return name == (group if kind == "strategy" else gpu)


def folds(data):
    """What is left out, its name, options of train, options of compare."""
    settings = list(settings_of(data))
    for kind, names in LEFT_OUT.items():
        for name in names:
            if kind == "family":
                yield kind, name, ["--leave-out-family", name], ["--family", name]
                continue
            of = [setting for setting, *what in settings if is_left_out(kind, name, *what)]
            yield kind, name, [word for one in of for word in ("--leave-out-setting", one)], ["--unseen", *(word for one in of for word in ("--setting", one))]


def scores(predictor):
    """Of the burst labels: means over the twelve of median and 90th percentile; the same of the step time. In percent."""
    labels = predictor["labels"]
    bursts = [score for label, score in labels.items() if label != "step_time_s" and "_mean_" not in label]
    found = {}
    if "step_time_s" in labels:
        found |= {"step_median": labels["step_time_s"]["median_ape"], "step_p90": labels["step_time_s"]["p90_ape"]}
    if bursts:
        found |= {f"burst_{quantile}": statistics.fmean(score[f"{quantile}_ape"] for score in bursts) for quantile in ("median", "p90")}
    return found


def compare(program, out, *words):
    if not (out / "comparison.json").exists():
        run(program, "compare", *words, "--quiet", "-o", out)
    return json.loads((out / "comparison.json").read_text())["origins"]


def measure(options, data, kind, name, train, ask):
    """Trains and compares; the errors of the network and of the baselines, which an ablation does not change."""
    folder = options.folder / "".join(c if c.isalnum() else "-" for c in f"{data.stem} {kind} {name}")
    folder.mkdir(exist_ok=True)
    model = folder / "learnt"
    if not (folder / "train.json").exists():
        run(options.program, "train", data, "--quiet", "--json", *train, "-o", model, result=folder / "train.json")
    predictors = compare(options.program, folder / "comparison", model, data, *ask)["simulated"]["predictors"]
    learnt = predictors.pop("learnt")
    bursts = [score for label, score in learnt["labels"].items() if label != "step_time_s" and "_mean_" not in label]
    row = {"space": data.stem, "left_out": kind, "name": name, "test_samples": learnt["samples"], "test_models": learnt["models"],
           "on_scale": sum(score["on_scale"] for score in bursts) / sum(score["samples"] for score in bursts),
           "learnt": scores(learnt) | {"inside": {word: 100 * share for word, share in learnt["coverage"].items() if word != "labels"}},
           "baselines": {baseline: scores(of) for baseline, of in predictors.items()}}
    trained = json.loads((folder / "train.json").read_text())
    row["training_samples"] = trained["training_samples"]
    print(f"{row['space']:12} {kind:10} {name:36} bursts {row['learnt']['burst_median']:6.2f}  step time {row['learnt']['step_median']:6.2f}", flush=True)
    return row


def measure_studies(options, learnt):
    """Measured rows of the test split, choices among them, and studies left out whole. No profile was fitted on their rows."""
    data, taught, corrected = options.folder / "measured.db", options.folder / "taught", options.folder / "corrected"
    if not data.exists():
        run(options.program, "generate", ROOT / "scenarios/studies/measured.json", "--without-own-profiles", "--quiet", "-o", data)
    if not (taught / "report.html").exists():
        run(options.program, "train", data, "--transfer-from", learnt, "--epochs", options.epochs, "--seed", 1, "--quiet", "-o", taught)
    if not (corrected / "left_out.json").exists():
        run(options.program, "train", data, "--network", "corrected", "--quiet", "-o", corrected)
    measured = compare(options.program, options.folder / "measured-comparison", learnt, taught, corrected, data, "--origin", "measured", "--unseen")["measured"]
    times = {name: of["labels"]["step_time_s"] for name, of in measured["predictors"].items()}
    with (options.folder / "measured-comparison" / "jobs-measured.csv").open() as file:
        described = [row for row in csv.DictReader(file) if row["metric"] == "step_time_s" and row["learnt"] and row["simulated"]]
    same = statistics.fmean(abs(100 * (float(row["simulated"]) / float(row["measured"]) - 1)) for row in described)
    with sqlite3.connect(data) as connection:
        splits = dict(connection.execute("SELECT split, count(*) FROM samples GROUP BY split"))
        studies = connection.execute("SELECT count(DISTINCT grouped) FROM settings").fetchone()[0]
    return {"rows": splits, "studies": studies, "engine_where_learnt": {"rows": len(described), "mape": same},
            "test": [{"predictor": name, "rows": of["samples"], "pairs": of["models"], "mape": of["mape"], "by_pair_mape": of["by_model_mape"],
                      "inside_90": 100 * measured["predictors"][name]["coverage"]["90"] if "coverage" in measured["predictors"][name] else None}
                     for name, of in times.items()],
            "choices": [{"free": free, "predictor": name, "choices": of["choices"], "mean_regret": 100 * of["mean_regret"], "by_chance": 100 * of["regret_by_chance"]}
                        for free, by_study in measured["choices"].items() for name, of in by_study["all"].items()],
            "left_out_studies": json.loads((corrected / "left_out.json").read_text())["left_out_studies"]}


def measure_testbed(options, learnt):
    """Bursts at the NICs of real trainings, by the engine and by a network that saw no such network: median errors in percent."""
    folder = options.folder / "testbed"
    if not (folder / "jobs.db").exists():
        run(sys.executable, ROOT / "calibration/testbed/dataset.py", ROOT / "calibration/data/testbed/training.csv", "-o", folder)
        run(options.program, "import", folder / "measurements.json", "--quiet", "-o", folder / "jobs.db")
    errors, jobs = {}, 0
    with sqlite3.connect(folder / "jobs.db") as connection:
        splits = [split for (split,) in connection.execute("SELECT DISTINCT split FROM samples ORDER BY split")]
    for split in splits:
        jobs += compare(options.program, folder / split, learnt, folder / "jobs.db", "--origin", "measured", "--unseen", "--no-baselines", "--split", split)["measured"]["samples"]
        for row in csv.DictReader((folder / split / "jobs-measured.csv").open()):
            metric = row["metric"].removeprefix("receive_").removeprefix("transmit_")
            if metric in ("idle_s", "active_s", "peak_Bps", "step_time_s") and float(row["measured"] or 0) > 0:
                for predictor in ("simulated", "learnt"):
                    errors.setdefault((predictor, "step" if metric == "step_time_s" else "burst"), []).append(abs(100 * (float(row[predictor]) / float(row["measured"]) - 1)))
    return {"jobs": jobs, "labels": {what: len(errors["simulated", what]) for what in ("burst", "step")},
            "predictors": [{"predictor": predictor} | {f"{what}_median": statistics.median(errors[predictor, what]) for what in ("burst", "step")}
                           for predictor in ("simulated", "learnt")]}


def text_of(accuracy):
    """JSON with one line for each row of a list."""
    parts = []
    for key, value in accuracy.items():
        if isinstance(value, list):
            parts.append(f"{json.dumps(key)}: [\n  " + ",\n  ".join(json.dumps(row, allow_nan=False) for row in value) + "\n ]")
        elif isinstance(value, dict) and any(isinstance(of, list) for of in value.values()):
            parts.append(f"{json.dumps(key)}: {text_of(value).strip()}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def main():
    options = arguments()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)

    def generated(space, samples):
        data = folder / f"{space}.db"
        if not data.exists():
            run(options.program, "generate", ROOT / "scenarios" / "spaces" / f"{space}.json", "--count", samples, "-j", options.j, "--quiet", "-o", data)
        return data

    reference, strategies = generated("reference", options.reference_samples), generated("strategies", options.samples)
    first = [(reference, "nothing", f"seed {seed}", ["--epochs", options.reference_epochs, "--seed", seed], ["--no-baselines"] if seed > 1 else [])
             for seed in range(1, options.seeds + 1)]
    epochs = ["--epochs", options.epochs, "--seed", 1]
    first += [(strategies, "nothing", "seed 1", epochs, [])]
    first += [(strategies, "ablation", ablation, [*epochs, "--ablation", ablation], ["--no-baselines"]) for ablation in (ABLATIONS if options.ablations else ())]
    others = [(strategies, kind, name, [*epochs, *train], ask) for kind, name, train, ask in folds(strategies)] if options.left_out else []
    learnt = folder / "strategies-nothing-seed-1" / "learnt"
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        rows = list(pool.map(lambda of: measure(options, *of), first))
        more = {"testbed": pool.submit(measure_testbed, options, learnt), "measured": pool.submit(measure_studies, options, learnt)} if options.measured else {}
        rows += pool.map(lambda of: measure(options, *of), others)
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    accuracy = {"format": 1, "program": version,
                "options": {name: getattr(options, name) for name in ("reference_samples", "reference_epochs", "seeds", "samples", "epochs")},
                "simulated": rows} | {part: of.result() for part, of in more.items()}
    if not options.measured:  # of the corrected engine, which sees nothing of what networks are told
        accuracy["measured"] = {"left_out_studies": json.loads((ROOT / "predictor/accuracy.json").read_text())["measured"]["left_out_studies"]}
    (folder / "accuracy.json").write_text(text_of(rounded(accuracy)))


if __name__ == "__main__":
    main()
