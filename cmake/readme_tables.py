#!/usr/bin/env python3
"""Tables of READMEs, as commands print their figures.

  cmake/readme_tables.py PROGRAM TABLE     prints a table; TABLE: kernels (2 min), transformers (1 min), frameworks, unseen, large (5 min), nccl, lifetimes, peers,
                                           prediction-models, -clusters, -testbed, -measured, -studies, -choices, -published
  cmake/readme_tables.py PROGRAM --check [TABLE...]
                                           compares the rows in the READMEs with what the program says now (default: all but
                                           the rows of kernels that take half a minute and more), and the names of timings
                                           with those that the benchmarks print
"""
import argparse
import functools
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = "calibration/README.md"
BENCH = "tests/bench"
sys.path.insert(0, os.path.join(ROOT, BENCH))
import peers as peers_benchmark  # noqa: E402
import prediction_tables  # noqa: E402
from prediction_tables import header, row  # noqa: E402


@functools.lru_cache(maxsize=None)
def validate(program, study):
    """The summary of a study in scenarios/studies."""
    command = [program, "validate", f"scenarios/studies/{study}.json", "--json", "--quiet"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def pair(errors):
    """Median and 90th percentile of the absolute errors in percent: "6.5 / 18"."""
    return f"{errors['median_ape']:.1f} / {errors['p90_ape']:.0f}"


# Rows of the table of kernels: the first cell, the study, the key of its errors, whether the launch is told apart, whether it takes long.
TRANSFORMERS = "kernels-transformers"
H200 = "kernels-h200-layers"
KERNELS = [
    ("`bf16-products`, above 20 us", "kernels-bf16-products", "all, above 20 us", False, False),
    ("the same, all", "kernels-bf16-products", "all", False, False),
    ("`fp32-products`", "kernels-fp32-products", "all", True, True),
    ("`convolutions`", "kernels-convolutions", "all", True, False),
    ("`memory-bound`", "kernels-memory-bound", "all", True, True),
    ("`transformers`, training (no row of it is fitted; an architecture left out whole)", TRANSFORMERS,
     "neusight-gpu-kernels/transformers transformer_training", False, True),
    ("the same, forward", TRANSFORMERS, "neusight-gpu-kernels/transformers transformer", False, True),
    ("`fp32-products-deepbench`", "kernels-fp32-products-deepbench", "all", False, False),
    ("`convolutions-deepbench`", "kernels-convolutions-deepbench", "all", False, False),
    ("`h200-layers`, products in bf16 (by the profile as it is, which is fitted to no row of it)", H200, "products of layers", False, False),
    ("the same, tensor-parallel degree 1", H200, "products of layers, tensor 1", False, False),
    ("the same, degree 16", H200, "products of layers, tensor 16", False, False),
]


def worst_gpu(errors, key):
    """The GPU with the largest median, of the rows that a key stands for: "P4 16.1 / 62"."""
    parts = {}
    for name, each in errors.items():
        gpu = name.removesuffix(", above 20 us")
        if key.startswith("all"):
            is_part = name.endswith(", above 20 us") == key.endswith(", above 20 us") and "/" not in name and gpu != "all"
        else:
            is_part = name.startswith(key + ", ")
            gpu = name.removeprefix(key + ", ")
        if is_part:
            parts[gpu] = each["kernel_model"]
    gpu = max(parts, key=lambda name: parts[name]["median_ape"])
    return f"{gpu} {pair(parts[gpu])}"


def kernels(program, is_quick=False):
    lines = header(["study (`scenarios/studies/kernels-*`)", "rows", "kernel model", "launch known", "roofline", "nearest row", "worst GPU"])
    for label, study, key, has_launch, is_slow in KERNELS:
        if is_quick and is_slow:
            continue
        errors = validate(program, study)["errors"]
        of = errors[key]
        by_fits = "nearest_row" in of
        lines.append(row([label, str(of["kernel_model"]["rows"]), pair(of["kernel_model"]),
                          pair(of["kernel_model_with_host"]) if has_launch else "", pair(of["roofline"]),
                          pair(of["nearest_row"]) if by_fits else "", worst_gpu(errors, key) if by_fits else ""]))
    return lines


def transformers(program, is_quick=False):
    """Steps of transformers by GPU; 30 s of a processor."""
    lines = header(["GPU", "training: rows", "median / p90", "forward: rows", "median / p90"])
    if is_quick:
        return lines
    errors = validate(program, TRANSFORMERS)["errors"]
    tables = [f"neusight-gpu-kernels/transformers {kind}, " for kind in ("transformer_training", "transformer")]
    gpus = {name.removeprefix(table): None for table in tables for name in errors if name.startswith(table)}  # in the order of the study
    for gpu in gpus:
        cells = [gpu]
        for table in tables:
            model = errors[table + gpu]["kernel_model"] if table + gpu in errors else None
            cells += [str(model["rows"]), pair(model)] if model else ["", ""]
        lines.append(row(cells))
    return lines


# Rows of the table of sources that no fit has seen: the first cell, the study, which part of its summary, the groups that are named.
UNSEEN = [
    ("`lambda-gpu-benchmarks`, 2 to 8 GPUs", "lambda-gpu-benchmarks", "predicted", ["gpus 2", "gpus 4", "gpus 8"]),
    ("the same, one GPU, seen by the fit", "lambda-gpu-benchmarks", "fitted", []),
    ("`zeus-energy`, one GPU", "zeus-energy", None,
     ["network resnet50", "network bert_base_uncased", "gpu A40", "gpu P100", "gpu RTX6000"]),
    ("`mlperf-resnet50`, 4 to 4320 GPUs", "mlperf-resnet50", None,
     ["accelerators 8", "accelerators 64", "accelerators 512", "accelerators 4320"]),
    ("`gavel-throughputs`, 1 to 8 GPUs", "gavel-throughputs", None,
     ["job ResNet-50", "job ResNet-18", "gpu k80", "gpu p100", "gpu v100", "gpus 1", "gpus 8"]),
]


def unseen(program, is_quick=False):
    del is_quick  # each row takes some seconds
    lines = header(["study", "rows", "median", "MAPE", "p90", "bias", "of them, medians"])
    for label, study, part, groups in UNSEEN:
        summary = validate(program, study)
        of = summary[part] if part else summary
        medians = [f"{name.replace(' ', '=', 1)}: {summary['groups'][name]['median_ape']:.1f}" for name in groups]
        lines.append(row([label, str(of["rows"]), f"{of['median_ape']:.1f}", f"{of['mape']:.1f}", f"{of['p90_ape']:.1f}",
                          f"{of['bias']:+.1f}", ", ".join(medians)]))
    return lines


# What the targets of studies are called that are no memory.
TARGETS = {None: "", "iteration_time_s": ", time", "gradient_wait_first_worker_s": ", wait for gradients"}

# Studies of large models: study and target; is it of many rows, which take a minute.
LARGE = [
    ("vtrain-a100-megatron", None, True),
    ("vtrain-a100-megatron-one-machine", None, True),
    ("bigscience-bloom", "iteration_time_s", True),
    ("bigscience-bloom", "gpu_memory_bytes", True),
    ("megatron-lm-recompute", None, True),
    ("internevo", None, True),
    ("nanotron-ultrascale", "iteration_time_s", True),
    ("nanotron-ultrascale", "gpu_memory_allocated_first_stage_bytes", True),
    ("simumax-b200", "iteration_time_s", False),
    ("simumax-b200", "gpu_memory_allocated_bytes", False),
    ("simumax-b200-context", "iteration_time_s", False),
    ("simumax-b200-context", "gpu_memory_allocated_bytes", False),
    ("dgx-cloud-context", None, False),
    ("dgx-cloud-experts", None, True),
    ("mlperf-llm", None, False),
    ("megatron-bridge", None, False),
    ("sailor-validation", "iteration_time_s", False),
    ("sailor-validation", "gpu_memory_bytes", False),
    ("sailor-validation", "gradient_wait_first_worker_s", False),
    ("llm-foundry-fsdp", None, True),
    ("torchtitan", "iteration_time_s", False),
    ("torchtitan", "gpu_memory_allocated_bytes", False),
    ("torchtitan-context", "iteration_time_s", False),
    ("torchtitan-context", "gpu_memory_allocated_bytes", False),
]


def large(program, is_quick=False):
    """Steps and memory of large models beside the best of other tools; some minutes."""
    lines = header(["study", "rows", "median", "MAPE", "p90", "bias", "rows seen by the fit", "MAPE of the others", "best of other tools, MAPE"])
    known = {}
    for study, target, is_slow in LARGE:
        if is_quick and is_slow:
            continue
        if study not in known:
            summary = validate(program, study)
            known[study] = {each["metric"]: each for each in (summary if isinstance(summary, list) else [summary])}
        of = known[study][target or "iteration_time_s"]
        others = of["predicted"]
        peers = sorted(of.get("peers", []), key=lambda peer: peer["mape"])
        lines.append(row([f"`{study}`" + TARGETS.get(target, ", memory"), str(of["rows"]), f"{of['median_ape']:.1f}",
                          f"{of['mape']:.1f}", f"{of['p90_ape']:.1f}", f"{of['bias']:+.1f}", str(of["fitted"]["rows"]),
                          f"{others['mape']:.1f}" if others["rows"] else "",
                          f"{peers[0]['peer']} {peers[0]['mape']:.1f}" if peers else ""]))
    return lines


def frameworks(program, is_quick=False):
    """What `calibration/refit.sh frameworks` has written of its cross-validation into profile kernels."""
    del program, is_quick
    with open(os.path.join(ROOT, "calibration/profiles/kernels.json")) as file:
        studies = json.load(file)["fit"]["studies"]
    lines = header(["left out", "rows", "median / p90", "MAPE", "of them, MAPE"])
    for study in studies:
        kind = study["left_out_by"][0]
        of = study["cross_validated"]
        groups = [f"{name.removeprefix(kind + ' ')} {mape:.1f}" for name, mape in study["cross_validated_mape_by_group"].items()
                  if name.startswith(kind + " ")]
        lines.append(row([f"{kind} (`{study['study']}`)", str(of["rows"]), pair(of), f"{of['mape']:.1f}", ", ".join(groups)]))
    return lines


def nccl_errors():
    """[study][group] of MAPE, median and 90th percentile, as `rehearse calibrate` has printed them (6 min)."""
    errors, study = {}, None
    with open(os.path.join(ROOT, "calibration/nccl_cross_validation.txt")) as file:
        for line in file:
            command = re.match(r"\$ rehearse calibrate scenarios/studies/([\w-]+)\.json ", line)
            study = command[1] if command else study
            group = re.match(r"(.+?) +MAPE ([\d.]+) %, median ([\d.]+) %, p90 ([\d.]+) %", line)
            if group:
                errors.setdefault(study, {})[group[1].strip()] = dict(zip(("mape", "median_ape", "p90_ape"), map(float, group.groups()[1:])))
    return errors


def nccl(program, is_quick=False):
    del program, is_quick
    errors = nccl_errors()
    with open(os.path.join(ROOT, "calibration/profiles/nccl.json")) as file:
        of_profile = json.load(file)["fit"]["studies"][0]["cross_validated_mape_by_group"]
    for group, mape in of_profile.items():  # of the fit that made the profile: what is kept is of the same law and rows
        if abs(errors["nccl"][group]["mape"] - mape) > 0.1:
            raise SystemExit(f"calibration/nccl_cross_validation.txt: {group}: MAPE {errors['nccl'][group]['mape']}, in profile nccl {mape}: "
                             "cmake/refresh_readmes.sh nccl")
    lines = header(["predicted", "by a fit to", "median / p90"])
    for gpus, others in ((8, "2 and 4"), (4, "2 and 8"), (2, "4 and 8")):
        lines.append(row([f"{gpus} GPUs", others, pair(errors["nccl"][f"gpus {gpus}"])]))
    for gpu, name in (("A100", "A100-SXM4-80GB"), ("B200", "B200-SXM-180GB"), ("H100", "H100-SXM5-80GB")):
        lines.append(row([gpu, "the other two", pair(errors["nccl-gpus"][f"gpu {name}"])]))
    return lines + [row(["A100, B200 or H100", "the other two", pair(errors["nccl-gpus"]["nccl-gpus"])])]


def lifetimes(program, is_quick=False):
    """What `calibration/refit.sh lifetimes` has printed of the pools in platforms/catalog/spot_pools.json (about 10 min)."""
    del program, is_quick
    with open(os.path.join(ROOT, "calibration/lifetime_distances.txt")) as file:
        printed = re.findall(r"^(\S+) .*?; KS ([\d.e-]+)(?:; mean size ([\d.]+), recorded ([\d.]+))?", file.read(), re.MULTILINE)
    distance = {name: float(value) for name, value, *_ in printed}
    size = {name: (float(fitted), float(recorded)) for name, _, fitted, recorded in printed if fitted}
    with open(os.path.join(ROOT, "platforms/catalog/spot_pools.json")) as file:
        if set(json.load(file)["spot_pools"]) != set(distance):
            raise SystemExit("calibration/lifetime_distances.txt: other pools than in spot_pools.json: calibration/refit.sh lifetimes")
    fleets = {name for name in size if size[name][1] > 1}
    numbers_alone = ["bamboo/p2-xlarge", "bamboo/v100-us-east1-c", "bamboo/g4dn-xlarge-us-east-1c",
                     "skypilot/aws-2023-08-us-east-2b-v100x1-fleet16"]
    machines = sorted(set(size) - fleets)

    def most(names):
        return f"{max(distance[name] for name in names):.3f}"

    alone = sorted(set(distance) - set(size))
    availability = max(abs(fitted - recorded) for fitted, recorded in (size[name] for name in machines))
    return header(["pools", "data", "distance"]) + [
        row([f"lifetimes, {len(alone)} series of at most 5 values", "CM-DARE, its pilot, Training on a Dime", f"at most {most(alone)}"]),
        row([f"single machines, {len(machines)} series", "SkyPilot", f"at most {most(machines)}; mean availability within {100 * availability:.1f} points"]),
        row(["fleets with names or few machines", "Bamboo p3 and g4dn, SkyPilot's fleets of 4 and one of 16",
             f"of up-times at most {most(fleets - set(numbers_alone))}"]),
        row(["fleets of which only the number is known", "Bamboo p2, V100; g4dn in Virginia; SkyPilot's other fleet of 16",
             "{}, {}; {}; {}".format(*(f"{distance[name]:.3f}" for name in numbers_alone))]),
    ]


def peers(program, is_quick=False):
    """Simulated times of the peers' benchmark."""
    del is_quick
    return header(peers_benchmark.HEADER[:4]) + list(peers_benchmark.simulated_rows(program))


def prediction(table):
    """A table of it."""
    def make(program, is_quick=False):
        del program, is_quick
        return prediction_tables.TABLES[table](prediction_tables.load(ROOT))
    return make


TABLES = {"kernels": (kernels, README), "transformers": (transformers, README), "frameworks": (frameworks, README),
          "unseen": (unseen, README), "large": (large, README), "nccl": (nccl, README), "lifetimes": (lifetimes, README), "peers": (peers, f"{BENCH}/README.md")}
TABLES |= {table: (prediction(table), "predictor/README.md") for table in prediction_tables.present(prediction_tables.load(ROOT))}
IN_PARTS = ("kernels", "transformers", "large")  # of which a check computes some rows


def stated(table):
    """The lines of a table in its README, between the two comments that name it."""
    with open(os.path.join(ROOT, TABLES[table][1])) as file:
        lines = file.read().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"<!-- {table}, written by ") and line.endswith(": begin -->"))
    return [line for line in lines[begin + 1:lines.index(f"<!-- {table}: end -->")] if line]


def check(program, table):
    """What the README states otherwise than the program: texts for a person, none if all is as printed."""
    make, readme = TABLES[table]
    in_readme, printed = stated(table), [line for line in make(program, is_quick=True) if line]
    wrong = [f"{readme}, {table}: states\n  {next((line for line in in_readme if line.split(' | ')[0] == wanted.split(' | ')[0]), '(no such row)')}"
             f"\nshould be\n  {wanted}\nto refresh: cmake/refresh_readmes.sh {table}"
             for wanted in printed if wanted not in in_readme]
    if table not in IN_PARTS:
        wrong += [f"{readme}, {table}: states\n  {line}\nwhich nothing prints" for line in in_readme if line not in printed]
    return wrong


def rows_below(readme, heading):
    """The rows of the table in a README below its line of column names, as lists of cells."""
    with open(os.path.join(ROOT, readme)) as file:
        lines = file.read().splitlines()
    below = lines[lines.index(heading) + 2:]
    end = next((i for i, line in enumerate(below) if not line.startswith("|")), len(below))
    return [line.strip("| ").split(" | ") for line in below[:end]]


def check_timings():
    """Timings in the README of the benchmarks whose work no benchmark prints, and the other way round."""
    with open(os.path.join(ROOT, BENCH, "run.sh")) as file:
        labels = re.findall(r'^compare "([^"]+)"', file.read(), re.MULTILINE)
    timed = [cells[0] for cells in rows_below(f"{BENCH}/README.md", "| work | wall |")]
    cases = {(name, str(ranks)) for name, ranks, _, _ in peers_benchmark.cases()}
    return ([f"{BENCH}/README.md: times \"{name}\", which run.sh does not print" for name in timed if name not in labels] +
            [f"{BENCH}/README.md: has no time of \"{name}\", which run.sh prints" for name in labels if name not in timed] +
            [f"{BENCH}/README.md: times \"{cells[0]}\" of {cells[1]}, which peers.py does not print"
             for cells in rows_below(f"{BENCH}/README.md", "| work | N | wall | memory |") if (cells[0], cells[1]) not in cases])


def check_paths():
    """Files of this repository that a README names for a figure or command, from the root, and that are not there."""
    readmes = subprocess.run(["git", "ls-files", "--", "README.md", "*/README.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    wrong = []
    for readme in readmes.stdout.split():
        with open(os.path.join(ROOT, readme)) as file:
            named = re.findall(r"(?<![\w./-])((?:calibration|cmake|platforms|predictor|scenarios|sim|tests|workloads)/[\w./-]+\.(?:py|sh|json|csv|gz|txt|cpp|hpp|ipynb))(?![\w*])",
                               file.read())
        wrong += [f"{readme}: names {path}, which is not there" for path in dict.fromkeys(named)
                  if "NAME" not in path and not os.path.exists(os.path.join(ROOT, path)) and not os.path.exists(os.path.join(ROOT, os.path.dirname(readme), path))]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/rehearse")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_intermixed_args()
    unknown = [name for name in arguments.tables if name not in TABLES]
    if unknown:
        parser.error(f'unknown table "{unknown[0]}"; known: {", ".join(TABLES)}')
    program = os.path.abspath(arguments.program)
    tables = arguments.tables or list(TABLES)
    if not arguments.check:
        print("\n\n".join("\n".join(TABLES[table][0](program)) for table in tables))
        return 0
    wrong = [text for table in tables for text in check(program, table)] + ([] if arguments.tables else check_timings() + check_paths())
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
