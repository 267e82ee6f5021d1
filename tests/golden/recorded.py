#!/usr/bin/env python3
"""A run has the same numbers to the last bit, and the same fingerprint, whether it is recorded or not.

  tests/golden/recorded.py [--build DIR]

Of each shipped scenario, summary.json of `simulate -o` is compared with what `simulate --json` prints; of some, with other
options of recording.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import golden

# Of one scenario of each kind of strategy: options that change what is recorded, or how.
OPTIONS = ["--trace-format kineto", "--trace-window 0s..10ms", "--trace-workers 0", "--trace-window 0s..10ms --pcap pcap",
           "--set /output/sampling_period=10ms"]
KINDS = ["scenarios/cm-dare.json", "scenarios/resnet50-ec2.json", "scenarios/tum/kungfu-pair-averaging.json",
         "scenarios/cm-dare-spot.json", "scenarios/gpt2-xl-pipeline.json"]
# What is recorded takes gigabytes and minutes where a step has millions of operations.
SHORTER = {
    "scenarios/deepseek-v3.json": "--set /training/strategy/global_batch=256",
    "scenarios/bigscience-bloom.json": "--set /training/strategy/pipeline/microbatches=12",
    "scenarios/gpt2-xl-pipeline.json": "--set /training/steps=4",
    "scenarios/llama3-8b.json": "--set /cluster/groups/0/count=2 --set /training/steps=1",
    "scenarios/megatron-lm-recompute.json": "--set /training/strategy/pipeline/microbatches=8",
    "scenarios/nanotron-ultrascale.json": "--set /cluster/groups/0/count=2",
    "scenarios/resnet50-ec2.json": "--set /training/steps=20",
}


def run(build, arguments):
    outcome = subprocess.run([os.path.join(build, "rehearse"), *arguments], cwd=golden.ROOT, capture_output=True, text=True)
    if outcome.returncode != 0:
        raise SystemExit(f"rehearse {' '.join(arguments)}: exit code {outcome.returncode}\n{outcome.stderr}")
    return outcome.stdout


def difference(build, name, options):
    """What differs; "" where nothing does."""
    asked = f"simulate {name} {golden.SETTINGS.get(name, '')} {SHORTER.get(name, '')} --quiet".split()
    settings = options.split() if options.startswith("--set") else []
    recording = [] if settings else options.split()
    with tempfile.TemporaryDirectory() as folder:
        recording = [os.path.join(folder, word) if word == "pcap" else word for word in recording]
        plain = run(build, [*asked, *settings, "--json"])
        printed = run(build, [*asked, *settings, *recording, "-o", os.path.join(folder, "run"), "--json"])
        with open(os.path.join(folder, "run", "summary.json")) as file:
            written = file.read()
    for what, text in [("printed with -o", printed), ("written", written)]:
        for line, expected in zip(text.splitlines() + [""], plain.splitlines() + [""]):
            if line != expected:
                return f"{name} {options}: {what}:{line}; without -o:{expected}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(golden.ROOT, "build"), help="folder of the program (default: build)")
    build = os.path.abspath(parser.parse_args().build)
    cases = [(name, "") for name in golden.shipped_scenarios()] + [(name, options) for name in KINDS for options in OPTIONS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        differences = [line for line in pool.map(lambda case: difference(build, *case), cases) if line]
    if differences:
        raise SystemExit("\n".join(differences))
    print(f"{len(cases)} runs")


if __name__ == "__main__":
    sys.exit(main())
