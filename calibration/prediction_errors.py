#!/usr/bin/env python3
"""Measures how far predictions of each kind are off, where no profile has been fitted on the row:
    calibration/prediction_errors.py FOLDER            writes platforms/catalog/prediction_errors.json
    calibration/prediction_errors.py FOLDER --auto     prints what "auto" gives, beside each study's own profile
    calibration/prediction_errors.py FOLDER --table    prints the coverage of the intervals by kind
Every study is predicted by every profile of its group with `rehearse validate STUDY --calibration PROFILE
--without-own-profiles`, by `kernels` with frameworks that were fitted without the study's source; what FOLDER has already is not
run again. A study counts with at most ROWS of its rows, in equal steps of its file. platforms/prediction_kind.hpp says what the
kinds are. Gavel's rows wait for their input, which nothing here simulates: they are in no table."""

import argparse
import collections
import csv
import gzip
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = 40
LEAST_INSIDE = 0.85
FEWEST = 40  # rows of a kind that stands by itself; PredictionErrors::of() has the same number
FEWEST_OF_FEWER = 20
OWN = ("nothing", "step time", "fitted")  # computations that no error of the exchange's hides behind
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
    "zeus-energy": ONE_GPU, "mxnet-perf-one-gpu": ONE_GPU,
    "vtrain-a100-megatron-allreduce": COLLECTIVES, "collective-microbenchmarks": COLLECTIVES, "nccl": COLLECTIVES,
    "baidu-deepbench-allreduce-maxwell": COLLECTIVES, "baidu-deepbench-allreduce-pascal": COLLECTIVES,
}


WITH_STEPS = ["hkbu-ddl-benchmarks", "hkbu-ddl-benchmarks-ps", "nvidia-deeplearningexamples", "oneflow-dlperf-resnet50",
              "oneflow-dlperf-bert", "pollux-t4-traces", "tensorflow-benchmarks-2017", "mxnet-perf-ps", "cm-dare-cluster",
              "spotdnn-resnet110-speed"]  # computation by their own profile, too
# Fitted again without their largest sizes, for what a fit to few workers says of many: column, largest size that is fitted.
SCALES = {"hkbu-ddl-benchmarks": ("gpus", 8), "hkbu-ddl-benchmarks-ps": ("gpus", 8), "cm-dare-cluster": ("num_workers", 2),
          "cscs-tf-ps-scaling-2017": ("gpus", 2), "pollux-t4-traces": ("gpus", 6),
          "baidu-deepbench-allreduce-maxwell": ("processors", 8), "baidu-deepbench-allreduce-pascal": ("processors", 8),
          "nccl": ("gpus", 2)}
STEPS = "steps-by-model"  # of one GPU, by which the frameworks of profile `kernels` are fitted
TABLE = ROOT / "platforms/catalog/prediction_errors.json"


def study_file(study):
    return ROOT / "scenarios/studies" / (study + ".json")


def measurements_of(study):
    """The file that the study's rows are in."""
    text = re.search(r'"measurements":\s*(?:\{[^}]*"file":\s*)?"([^"]*)"', study_file(study).read_text())[1]
    return (study_file(study).parent / text).resolve()


def without_comments(study):
    return json.loads(re.sub(r"(?m)^\s*//.*$|(?<=[,\[{}\]])\s+//.*$", "", study_file(study).read_text()))


def lines_of(study):
    """The header and all rows of the study's measurements."""
    file = measurements_of(study)
    with gzip.open(file, "rt") if file.suffix == ".gz" else open(file) as text:
        return [line for line in text if line.strip() and not line.startswith("#")]


def few_rows(study, folder, above=0):
    """The header and at most ROWS rows in equal steps of those that the study does not leave out, of sizes above `above`."""
    few = folder / (study + (".above.csv" if above else ".csv"))
    if few.exists():
        return few
    lines = lines_of(study)
    excluded = [rule["where"] for rule in without_comments(study).get("exclude", [])]

    def is_left_out(row):
        if above and float(row[SCALES[study][0]]) <= above:
            return True
        return any(all(row[column] in (wanted if isinstance(wanted, list) else [str(wanted)])
                       for column, wanted in where.items()) for where in excluded)

    rows = [i for i, row in enumerate(csv.DictReader(lines)) if not is_left_out(row)]
    taken = [rows[i * len(rows) // ROWS] for i in range(ROWS)] if len(rows) > ROWS else rows
    few.write_text(lines[0] + "".join(lines[1 + i] for i in taken))
    return few


def source_of(study, folder):
    """Who measured: the folder of the rows, or what they say themselves."""
    with open(few_rows(study, folder)) as text:
        said = {row.get("source") for row in csv.DictReader(text)}
    return said.pop() if len(said) == 1 and None not in said else measurements_of(study).parent.name


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


def fit_without(study, column, left_out, profile, rehearse):
    """Writes what the study's fit gives without rows that have one of the values `left_out` in `column`; whether it could."""
    if profile.exists():
        return True
    smaller = without_comments(study)
    smaller["exclude"] = smaller.get("exclude", []) + [{"where": {column: left_out}, "reason": "predicted"}]
    for key in ("cross_validate", "interval_by", "leave_out_of"):
        smaller["fit"].pop(key, None)
    profile.parent.mkdir(parents=True, exist_ok=True)
    scratch = profile.with_suffix(".study.json")
    scratch.write_text(json.dumps(smaller).replace('"../', f'"{ROOT}/scenarios/'))
    done = subprocess.run([rehearse, "calibrate", str(scratch), "--quiet", "-o", str(profile)], capture_output=True, text=True)
    scratch.unlink()
    if done.returncode:
        print(f"{study} without {column} {', '.join(left_out)}: {done.stderr.strip()}", file=sys.stderr)
    return not done.returncode


def smaller_fit(study, folder, rehearse):
    """A catalog with a profile "smaller", like the study's own, that has seen no size above that of SCALES."""
    catalog = folder / study / "catalog"
    column, largest = SCALES[study]
    sizes = {row[column] for row in csv.DictReader(lines_of(study))}
    larger = sorted(size for size in sizes if float(size) > largest)
    return catalog if fit_without(study, column, larger, catalog / "profiles/smaller.json", rehearse) else None


def unseen_kernels(study, folder, rehearse):
    """Options for a catalog whose profile `kernels` has frameworks that were fitted without steps of the study's source: none
    where the shipped one has not seen any."""
    source = source_of(study, folder)
    if source not in {row["source"] for row in csv.DictReader(lines_of(STEPS))}:
        return []
    catalog = folder / ("without-" + source)
    return ["--catalog", str(catalog)] if fit_without(STEPS, "source", [source], catalog / "profiles/kernels.json", rehearse) else []


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


def middle(errors, scale):
    """The 5th and 95th percentile, their distances from the median times `scale`."""
    centre, low, high = (quantile(errors, share) for share in (0.5, 0.05, 0.95))
    return centre + scale * (low - centre), centre + scale * (high - centre)


def scale_of(pairs):
    """By how much the middle of errors is wider or narrower so that LEAST_INSIDE of all lie in that of the other sources, each of
    which has a bias of its own; times sqrt(1 + 1 / sources), for the bias of another one beside that of the mean. At most 2;
    1.5 of a single source."""
    sources = sorted({source for source, _ in pairs})
    if len(sources) < 2:
        return 1.5
    apart = [([error for source, error in pairs if source == one], [error for source, error in pairs if source != one])
             for one in sources]
    for step in range(17, 40):
        ends = [(own, middle(others, step / 20)) for own, others in apart]
        if sum(low <= error <= high for own, (low, high) in ends for error in own) >= LEAST_INSIDE * len(pairs):
            return min(2, step / 20 * math.sqrt(1 + 1 / len(sources)))
    return 2


def errors_of(pairs):
    """Of [(source, error)]."""
    errors = [error for _, error in pairs]
    low, high = middle(errors, scale_of(pairs))
    return {"rows": len(pairs), "sources": len({source for source, _ in pairs}),
            "median": round(quantile([abs(error) for error in errors], 0.5), 4), "low": round(low, 4), "high": round(high, 4)}


def collect(folder, rehearse):
    """[(source, study, kind, error)] of all predictions."""
    found = []
    for study, profiles in STUDIES.items():
        rows = few_rows(study, folder)
        unseen = unseen_kernels(study, folder, rehearse)
        runs = [(profile, ["--calibration", profile, "--without-own-profiles"] + (unseen if profile == "kernels" else []))
                for profile in profiles]
        if study in WITH_STEPS:
            runs.append(("exchange", ["--exchange", "predicted"]))
        for name, options in runs:
            for row in validate(rehearse, study, folder / study / name, options, rows):
                found.append((source_of(study, folder), study, row["kind"], error_of(row, study)))
    for study, (_, largest) in SCALES.items():
        catalog = smaller_fit(study, folder, rehearse)
        if catalog is None:
            continue
        options = ["--catalog", str(catalog), "--calibration", "smaller"]
        for row in validate(rehearse, study, folder / study / "scale", options, few_rows(study, folder, above=2 * largest)):
            found.append((source_of(study, folder), study, row["kind"], error_of(row, study)))
    return found


def pooled(found):
    """{text: [(source, error)]}, as PredictionErrors has them: whole kinds; computations, of one worker where these are
    enough; exchanges, of those whose computation is stated or measured, wherever their costs come from; but of fits to fewer
    workers their own, where these are enough."""
    pools = collections.defaultdict(list)
    alone = collections.defaultdict(list)
    of_fewer = collections.defaultdict(list)
    for source, _, kind, error in found:
        computation, exchange = kind.split("; ")
        pools[kind].append((source, error))
        pools[computation].append((source, error))
        if exchange == "no exchange":
            alone[computation].append((source, error))
        elif computation in OWN and exchange.endswith(": fitted to fewer"):
            of_fewer[exchange].append((source, error))
        elif computation in OWN and not exchange.endswith(": fitted"):
            for elsewhere in ("fitted to fewer", "other links", "other profile"):
                pools[exchange.split(": ")[0] + ": " + elsewhere].append((source, error))
    for computation, pairs in alone.items():
        if len(pairs) >= FEWEST:
            pools[computation] = pairs
    for exchange, pairs in of_fewer.items():
        pools[exchange] = pairs if len(pairs) >= FEWEST_OF_FEWER else pools[exchange] + pairs
    return {text: pairs for text, pairs in pools.items()
            if text not in OWN and not (text.split("; ")[0] in OWN and text.endswith((": fitted", "no exchange")))}


def write_table(found):
    entries = {text: errors_of(pairs) for text, pairs in sorted(pooled(found).items())}
    lines = [f'    {json.dumps(text)}: {json.dumps(entry)}' for text, entry in entries.items()]
    TABLE.write_text('{\n  "format": 1,\n  "prediction_errors": {\n' + ",\n".join(lines) + "\n  }\n}\n")


def interval_by(found, kind):
    """What PredictionErrors::of() gives the kind from these predictions."""
    pools = pooled(found)
    computation, exchange = kind.split("; ")
    if kind in pools:
        whole = errors_of(pools[kind])
        if whole["rows"] >= FEWEST and whole["sources"] > 1:
            return whole["low"], whole["high"]
    sums = [0.0, 0.0]
    for part in (computation, exchange):
        if part in ("nothing", "step time", "fitted", "no exchange") or part.endswith(": fitted"):
            continue
        if part not in pools:
            return None
        errors = errors_of(pools[part])
        sums = [math.hypot(sums[0], min(errors["low"], 0)), math.hypot(sums[1], max(errors["high"], 0))]
    return -sums[0], sums[1]


def left_out(found):
    """[(row, ends of the interval that the other sources give its kind)], of kinds that these know."""
    pairs = []
    for source in sorted({row[0] for row in found}):
        others = [row for row in found if row[0] != source]
        ends = {kind: interval_by(others, kind) for kind in {row[2] for row in found if row[0] == source}}
        pairs += [(row, ends[row[2]]) for row in found if row[0] == source and ends[row[2]] not in (None, (-0.0, 0.0))]
    return pairs


def print_coverage(found):
    """By kind, and pooled by what the profiles had not seen: rows, their sources, how many are inside of the interval that the
    other sources give, its ends as factors of a speed, and its width beside the spread of the errors, in logarithms."""
    pairs = left_out(found)

    def line(label, chosen, ends=None):
        rows = [row for row, _ in chosen]
        inside = sum(low <= row[3] <= high for row, (low, high) in chosen)
        width = quantile([high - low for _, (low, high) in chosen], 0.5)
        errors = [row[3] for row in rows]
        spread = quantile(errors, 0.95) - quantile(errors, 0.05)
        ends = f"{math.exp(-ends[1]):.2f} to {math.exp(-ends[0]):.2f}" if ends else ""
        print(f"| {label} | {len(rows)} | {len({row[0] for row in rows})} | {100 * inside / len(rows):.0f} | {ends} "
              f"| {math.exp(width):.1f} | {width / spread:.1f} |")

    print("| predicted | rows | sources | inside, % | interval of a speed | high / low, median | width / spread |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    line("**more workers than twice those of the fit**", [pair for pair in pairs if "fitted to fewer" in pair[0][2]])
    line("**another source, all kinds**", [pair for pair in pairs if "fitted to fewer" not in pair[0][2]])
    line("**another source, data sheets between machines**",
         [pair for pair in pairs if pair[0][2] == "data sheet; cluster: other profile"])
    for kind in sorted({row[2] for row, _ in pairs}):
        chosen = [pair for pair in pairs if pair[0][2] == kind]
        if len(chosen) >= FEWEST:
            line(kind, chosen, interval_by(found, kind))


def print_left_out():
    """Of profiles' own intervals, by what was left out of the fits that they are from: each row by the errors of the others."""
    pools = collections.defaultdict(list)
    for file in sorted((ROOT / "calibration/profiles").glob("*.json")):
        fit = json.loads(file.read_text()).get("fit", {})
        studies = [study for study in fit.get("studies", []) if "left_out_by" in study]
        if not studies or "spread" not in fit:
            continue
        spread = fit["spread"]
        rows = sum(study["cross_validated"]["rows"] for study in studies)
        others = [study.get("interval_left_out_by", {}) for study in studies]
        ends = [other.get("error_quantiles", study["cross_validated_error_quantiles"]) for study, other in zip(studies, others)]
        label = " or ".join(sorted({", ".join(other.get("columns", study["left_out_by"])) for study, other in zip(studies, others)}))
        pools[label].append((file.stem, rows, fit["interval_coverage"], spread["residual"] * (spread["high"] - spread["low"]),
                             statistics.mean(one["p95"] - one["p5"] for one in ends)))
    print("| left out of a fit, each value in turn | profiles | rows | inside, % | high / low | width / spread |")
    print("| --- | --- | --- | --- | --- | --- |")
    for label, found in sorted(pools.items()):
        rows = sum(count for _, count, *_ in found)
        inside = sum(count * share for _, count, share, *_ in found) / rows
        width = statistics.median(width for *_, width, _ in found)
        ratio = statistics.median(width / spread for *_, width, spread in found)
        print(f"| {label} | {', '.join(name for name, *_ in found)} | {rows} | {100 * inside:.0f} | {math.exp(width):.1f} | {ratio:.1f} |")
    print()


def median_error(rows):
    return quantile([abs(100 * (float(row["simulated"]) / float(row["measured"]) - 1)) for row in rows], 0.5)


def inside_of(rows):
    known = [row for row in rows if row["low"]]
    return f"{100 * sum(float(r['low']) <= float(r['measured']) <= float(r['high']) for r in known) / len(known):.0f}" if known else ""


def print_automatic(folder, rehearse):
    """Each study by its own profile, by what "auto" takes, and by that without the profiles that have seen its rows."""
    print('| study | rows | its own profile: median | "auto": median, ratio, inside % | without its own: rows, median, ratio, inside % |')
    print("| --- | --- | --- | --- | --- |")
    all_taken, all_without, ratios = [], [], []
    for study in STUDIES:
        few = few_rows(study, folder)
        own = validate(rehearse, study, folder / study / "own", [], few)
        taken = validate(rehearse, study, folder / study / "auto", ["--calibration", "auto"], few)
        without = validate(rehearse, study, folder / study / "auto-without", ["--calibration", "auto", "--without-own-profiles"]
                           + unseen_kernels(study, folder, rehearse), few)
        if not own or not taken:
            continue
        best = median_error(own)
        cells = [f"{median_error(taken):.1f}, {median_error(taken) / best:.1f}, {inside_of(taken)}"]
        cells.append(f"{len(without)}, {median_error(without):.1f}, {median_error(without) / best:.1f}, {inside_of(without)}" if without else "no row")
        print(f"| {study} | {len(own)} | {best:.1f} | " + " | ".join(cells) + " |")
        all_taken += taken
        all_without += without
        ratios += [median_error(without) / best] if without else []
    twice = sum(ratio <= 2 for ratio in ratios)
    print(f"| all | {len(all_taken)} | | inside {inside_of(all_taken)} | {len(all_without)}, inside {inside_of(all_without)}; "
          f"{twice} of {len(ratios)} studies at most 2 |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rehearse", default=str(ROOT / "build/rehearse"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.auto:
        return print_automatic(arguments.folder, arguments.rehearse)
    found = collect(arguments.folder, arguments.rehearse)
    if arguments.table:
        print_left_out()
        return print_coverage(found)
    write_table(found)


if __name__ == "__main__":
    main()
