#!/usr/bin/env python3
"""What it costs to choose by a prediction: python3 tests/bench/choices.py DATASET COMPARISON

DATASET holds measured rows of studies (rehearse generate scenarios/studies/all.json), COMPARISON is what `rehearse compare MODEL ... DATASET
-o COMPARISON` has written of some of them. Rows of one study, model, batch and number of workers are alternatives: they differ in machines,
placement, strategy or framework. Of at least three, each predictor chooses the one with the least step time; its regret is the measured time
of the chosen over the least measured one, minus 1. "any" is the mean of all, a choice by chance.
"""

import argparse
import array
import collections
import csv
import pathlib
import sqlite3
import statistics

SAME = 1e-3  # relative difference that the four digits of a comparison may not show


def groups_of(dataset, comparison):
    """By study, model, batch and workers: rows of predictor -> step time."""
    connection = sqlite3.connect(dataset)
    columns = [name for (name,) in connection.execute("SELECT name FROM names WHERE kind = 'descriptor' ORDER BY position")]
    workers, studies = {}, {}
    for name, group, blob in connection.execute("SELECT name, grouped, descriptor FROM settings"):
        values = dict(zip(columns, array.array("d", blob)))
        workers[name], studies[name] = round(values["workers"]), group
    rows = collections.defaultdict(list)  # measured more than once: the mean
    with (comparison / "jobs-measured.csv").open() as file:
        for row in csv.DictReader(file):
            if row["metric"] == "step_time_s" and row["measured"]:
                rows[row["graph"], row["setting"]].append(row)
    groups = collections.defaultdict(list)
    for (graph, setting), same in rows.items():
        predictors = [key for key in same[0] if key not in ("graph", "setting", "metric") and not key.endswith("%")]
        times = {key: statistics.fmean(float(row[key]) if row[key] else float("nan") for row in same) for key in predictors}
        groups[studies[setting], graph, workers[setting]].append(times)
    return {key: rows for key, rows in groups.items() if len(rows) >= 3}


def regret(rows, predictor):
    """Of the choice by a predictor; None if it cannot tell of all of them."""
    if any(row.get(predictor) != row.get(predictor) or row.get(predictor) is None for row in rows):
        return None
    least = min(row[predictor] for row in rows)
    tied = [row["measured"] for row in rows if row[predictor] <= least * (1 + SAME)]  # one of them by chance
    return statistics.fmean(tied) / min(row["measured"] for row in rows) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("comparison", type=pathlib.Path)
    options = parser.parse_args()
    groups = groups_of(options.dataset, options.comparison)
    if not groups:
        raise SystemExit(f"choices: {options.comparison}: no three measured rows are alternatives")
    predictors = [key for key in next(iter(groups.values()))[0] if key != "measured"]
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for (study, _, _), rows in groups.items():
        for of in (study, "all"):
            found[of]["any"].append(statistics.fmean(row["measured"] for row in rows) / min(row["measured"] for row in rows) - 1)
            for predictor in predictors:
                if (value := regret(rows, predictor)) is not None:
                    found[of][predictor].append(value)
    for study, regrets in found.items():
        print(f"{study:30}", "   ".join(f"{name} {100 * statistics.fmean(values):5.2f} % of {len(values)}" for name, values in regrets.items()))


if __name__ == "__main__":
    main()
