#!/usr/bin/env python3
"""Random questions to `rehearse provision`, each answered by its search and by simulating every plan on every set of machines.

The search is to be never dearer than the cheapest of all plans that is in time, and to find a plan where there is one.

usage: questions.py PROGRAM [--questions N] [--seed N]
Prints a line for each question and a summary; ends with 1 if the search was dearer anywhere.
"""

import argparse
import json
import random
import subprocess
import sys
import time

MODELS = ["resnet50", "vgg16", "inception_v3", "bert_base", "gpt2"]
INSTANCES = ["p3.2xlarge", "p3.8xlarge", "p3.16xlarge", "g4dn.xlarge", "g4dn.12xlarge", "p4d.24xlarge", "gce-custom-8-v100", "p2.xlarge", "g5.12xlarge"]
STRATEGIES = ["all_reduce", "synchronous_servers", "asynchronous_servers", "pairwise_averaging"]


def question(draw):
    """The options of a question."""
    chosen = draw.sample(INSTANCES, draw.choice([1, 1, 2]))
    batches = draw.sample([128, 256, 512], draw.choice([1, 1, 1, 2]))
    options = ["--model", draw.choice(MODELS), "--samples", f"{draw.choice([1, 3, 10, 30])}M", "--instance", ",".join(chosen), "--max-gpus", str(draw.choice([4, 8])),
               "--global-batch", ",".join(map(str, batches))]
    if draw.random() < 0.3:
        options += ["--strategy", ",".join(draw.sample(STRATEGIES, draw.choice([1, 2, 3])))]
    if draw.random() < 0.3:
        options += ["--market", "spot,on-demand"]
    if draw.random() < 0.7:
        options += ["--deadline", f"{draw.choice([1, 2, 5, 10, 30])}h", "--confidence", draw.choice(["50%", "90%", "95%"])]
    if draw.random() < 0.2:
        options += ["--budget", f"{draw.choice([20, 100, 500])}USD"]
    return options


def answer(program, options):
    """Time, cost and simulations of the answer; none if nothing meets the goal, or if the question is refused; its message; seconds."""
    began = time.monotonic()
    done = subprocess.run([program, "provision", *options, "--json", "--quiet"], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    if done.returncode not in (0, 3):
        return None, message, seconds
    found = json.loads(done.stdout)
    simulated = sum(each.get("simulated", 0) for each in found["candidates"])
    best = found["answer"]
    return ({"time": best["time_s"], "cost": best["cost_usd"], "simulated": simulated} if best else None), message, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first that is asked: goes on where a run was ended")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    worse = answered = refused = 0
    took, took_all, most = 0.0, 0.0, 0.0
    for number in range(1, arguments.questions + 1):
        options = question(draw)
        if number < arguments.first:
            continue
        found, message, seconds = answer(arguments.program, options)
        best, best_message, all_seconds = answer(arguments.program, [*options, "--planner", "exhaustive"])
        took += seconds
        took_all += all_seconds
        most = max(most, seconds)
        by_time = "--budget" in options and "--deadline" not in options
        key = "time" if by_time else "cost"
        is_worse = best is not None and (found is None or (found[key] or 0) > (best[key] or 0) * (1 + 1e-9))
        worse += is_worse
        answered += best is not None
        refused += best is None
        said = f"{found[key]:.6g} of {best[key]:.6g}, {found['simulated']} of {best['simulated']} simulated" if found and best else message[:120]
        print(f"{number}: {'WORSE ' if is_worse else ''}{' '.join(options)}: {said}", flush=True)
        if (found is None) != (best is None):
            print(f"   all: {best_message[:200]}", flush=True)
    print(f"{answered} questions with an answer, {refused} without; worse than all plans: {worse}; {took:.0f} s instead of {took_all:.0f}, at most {most:.1f} s")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
