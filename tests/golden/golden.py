#!/usr/bin/env python3
"""What the program prints today, kept as texts: key results of the shipped scenarios, programs, the help of each verb.

  tests/golden/golden.py [--build DIR]            compares, and names the first line that differs in each text
  tests/golden/golden.py [--build DIR] --refresh  takes over what is printed now, and shows what that changes

Equal texts mean equal results to the last bit: "numbers" is a digest of every number of summary.json with its key.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))

# Settings with which a scenario that runs long is run: enough for its strategy and for revocations.
SETTINGS = {
    "scenarios/cm-dare-heterogeneous.json": "--set /training/steps=16",
    "scenarios/cm-dare-spot.json": "--set /training/steps=100",
    "scenarios/cm-dare.json": "--set /training/steps=40",
    "scenarios/cscs-tf-ps.json": "--set /cluster/groups/0/count=4 --set /cluster/groups/1/count=4",
    "scenarios/deepseek-v3.json": "--set /training/strategy/global_batch=256",
    "scenarios/hkbu-byteps.json": "--set /training/steps=4",
    "scenarios/resnet50-spot.json": "--set /training/steps=2000",
    "scenarios/spotdnn-revocation.json": "--set /training/steps=14000",
    **{"scenarios/driple/" + name: "--set /training/steps=4" for name in os.listdir(ROOT + "/scenarios/driple")},
}
OTHERS = [
    "simulate scenarios/resnet50-spot.json --runs 10 --deadline 36h",
    "simulate scenarios/faults/opt-175b.json --runs 10",
    "simulate scenarios/control/cm-dare.json --runs 10",
    "simulate scenarios/control/spotdnn.json --runs 10",
    "provision scenarios/provision/resnet110.json --deadline 2600s --target-loss 0.8",
    "provision scenarios/provision/resnet110-spot.json --deadline 3000s --target-loss 0.8 --plans 1 --runs 3"
    " --candidate p3.2xlarge --candidate g3.8xlarge-on-demand",
    "sweep scenarios/sweeps/cm-dare-workers.json --set /training/steps=10",
    "sweep scenarios/sweeps/resnet50-ec2.json --set /training/steps=4 --constraint /cluster/groups/0/count<3",
    "remaining scenarios/cm-dare.json --set /training/steps=640 --step 320 --lost 1",
    "diagnose scenarios/cm-dare.json --set /training/steps=8 --measured-samples-per-s 1536",
    "diagnose scenarios/dgx.json --measured 1=330 --measured 8=2100",
    "validate scenarios/studies/cm-dare-single-worker.json",
    "validate scenarios/studies/spotdnn-resnet110.json",
    "generate scenarios/spaces/small.json --count 3 -o small.db",
]
PROGRAMS = {
    "parameter-server": "scenarios/cm-dare.json",
    "all-reduce": "scenarios/resnet50-ec2.json",
    "pair-averaging": "scenarios/tum/kungfu-pair-averaging.json",
}
KEYS = [  # JSON pointers, those that a summary has are shown
    "/time_s", "/steps_per_s", "/cost_usd", "/exposed_communication_s", "/staleness_mean", "/bottleneck_resource",
    "/bottleneck_share", "/machines/0/nic_send_utilization", "/interruptions/revocations", "/goodput", "/lost_time/redone", "/fingerprint",
    "/time_s/p50", "/cost_usd/p50", "/control/decisions", "/control/cost_usd_difference", "/answer/plan", "/answer/time_s/p50", "/answer/cost_usd/p50", "/combinations",
    "/rows/0/summary/time_s", "/rows/0/summary/fingerprint", "/remaining_time_s", "/simulated/steps_per_s", "/mape", "/bias",
    "/labels/step_time_s/p50",
]




class Written(str):
    """A number as a document writes it."""


def printed(build, arguments):
    """What the program prints, run in a folder of its own where the scenarios and their data have their names."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("scenarios", "calibration"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        run = subprocess.run(["rehearse", *arguments.split()], executable=os.path.join(build, "rehearse"), cwd=folder,
                             capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"rehearse {arguments}: exit code {run.returncode}\n{run.stderr}")
    return run.stdout


def leaves(document, place=""):
    """Numbers and texts of a document by their JSON pointers."""
    if isinstance(document, (dict, list)):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        return {pointer: leaf for key, value in items for pointer, leaf in leaves(value, f"{place}/{key}").items()}
    return {place: document}


def results(build, arguments):
    """Lines of results.txt about a command."""
    document = leaves(json.loads(printed(build, arguments + " --json --quiet"), parse_float=Written, parse_int=Written))
    numbers = "\n".join(f"{key} {value}" for key, value in document.items() if isinstance(value, Written) or not isinstance(value, str))
    lines = [f"  {key[1:]:32} {document[key]}" for key in KEYS if document.get(key) is not None]
    digest = hashlib.sha256(numbers.encode()).hexdigest()[:16]
    return "\n".join(["rehearse " + arguments, *lines, f"  {'numbers':32} {digest}", ""])


def verbs_of(name):
    """The verbs that a program's source lists."""
    with open(os.path.join(ROOT, name)) as file:
        listed = re.search(r"#define REHEARSE_VERBS\(verb\)((?:.*\\\n)*.*)", file.read())[1]
    return re.findall(r"verb\((\w+)\)", listed)


def shipped_scenarios():
    """The files of scenarios/ that simulate runs."""
    names = sorted(glob.glob("scenarios/**/*.json", root_dir=ROOT, recursive=True))
    return [name for name in names if name.split("/")[1] in ("driple", "tum", os.path.basename(name))]


def found_texts(build):
    """The golden texts by their names in this folder, as the program of this build has them."""
    scenarios = shipped_scenarios()
    simulations = [f"simulate {name} {SETTINGS.get(name, '')}".strip() for name in scenarios]
    own, others = (verbs_of("sim/app/" + name) for name in ("main.cpp", "predictor_main.cpp"))
    overview = printed(build, "--help")
    verbs = re.findall(r"^  (\w+) {2,}", overview.split("Subcommands:")[1], re.MULTILINE)
    if not os.path.exists(os.path.join(build, "rehearse-predictor")):
        verbs = [verb for verb in verbs if verb in own or verb not in others]
    for verb in ("microbench", "view"):
        if not os.path.exists(os.path.join(build, f"rehearse-{verb}")):
            verbs.remove(verb)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        blocks = pool.map(lambda arguments: results(build, arguments), simulations + OTHERS)
        programs = pool.map(lambda name: printed(build, f"simulate {name} --set /workload/model=alexnet --print-program"), PROGRAMS.values())
        helps = pool.map(lambda verb: printed(build, f"{verb} --help"), verbs)
        return {"results.txt": "".join(blocks), "help/rehearse.txt": overview,
                **{f"program/{name}.txt": text for name, text in zip(PROGRAMS, programs)},
                **{f"help/{verb}.txt": text for verb, text in zip(verbs, helps)}}


def kept_text(name):
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def first_difference(name, kept, found):
    """One message on the first line that differs; "" where none does."""
    block = ""
    for number, (expected, line) in enumerate(itertools.zip_longest(kept.splitlines(), found.splitlines()), 1):
        if expected != line:
            told = [f'"{text}"' if text is not None else "the end" for text in (expected, line)]
            return f"tests/golden/{name}:{number}: {block}expected {told[0]}; found {told[1]}"
        if line.startswith("rehearse "):
            block = f"{line}: "
    return ""


def refresh(texts):
    for name, text in texts.items():
        path = os.path.join(FOLDER, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    subprocess.run(["git", "add", "--intent-to-add", FOLDER], check=True)  # so that the difference shows new texts
    for how in ["--stat", "--unified=3"]:
        subprocess.run(["git", "--no-pager", "diff", how, "--", FOLDER], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder of the program (default: build)")
    parser.add_argument("--refresh", action="store_true", help="take over what is printed now")
    options = parser.parse_args()
    texts = found_texts(os.path.abspath(options.build))
    if options.refresh:
        return refresh(texts)
    differences = [line for name, text in sorted(texts.items()) if (line := first_difference(name, kept_text(name), text))]
    if differences:
        raise SystemExit("\n".join([*differences, "if this is what you meant: tests/golden/golden.py --refresh"]))


if __name__ == "__main__":
    sys.exit(main())
