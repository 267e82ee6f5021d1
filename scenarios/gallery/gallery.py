#!/usr/bin/env python3
"""gallery.py PROGRAM FOLDER [--refresh]: twenty questions, each with its commands, its answer and a picture.

Runs the commands, writes FOLDER/NAME.svg and FOLDER/README.md; --refresh also takes the answers over into README.md beside this script.
"""

import html
import json
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GPUS = "/cluster/groups/0/instance"


class Question:
    """`answer` takes what the commands print as JSON, and returns a text and bars, [(label, value)], of `unit`."""

    def __init__(self, name, text, commands, unit, answer):
        self.name, self.text, self.commands, self.unit, self.answer = name, text, commands, unit, answer


def rows_of(swept, key="samples_per_s"):
    """Of a sweep of one place: its values, and a key of each summary."""
    return [(str(next(iter(row["parameters"].values()))), row["summary"][key]) for row in swept["rows"]]


def waits(run):
    step, waiting = run["iteration_time_s"] * 1e3, run["exposed_communication_s"] * 1e3
    return (f"{run['steps_per_s']:.1f} steps/s for {run['cost_usd']:.2f} USD: {run['bottleneck'].split(':')[0]}.",
            [("step", step), ("of which waiting", waiting)])


def faults(swept):
    bars = [(label, 100 * (1 - goodput)) for label, goodput in rows_of(swept, "goodput")]
    best, stated = min(bars, key=lambda bar: bar[1]), next(value for label, value in bars if label == "3h")
    young_daly = swept["rows"][0]["summary"]["young_daly_interval_s"] / 3600
    return (f"With checkpoints every 3 hours, as it did, {stated:.1f} % of its time; every {best[0]} would have been best, with {best[1]:.1f} %. Young and Daly "
            f"say {young_daly:.1f} h."), bars


def workers(swept):
    bars = rows_of(swept, "steps_per_s")
    best = max(value for _, value in bars)
    enough = next(label for label, value in bars if value > 0.98 * best)
    return f"Up to {enough}: the parameter server has no more than {best:.0f} steps/s in it.", bars


def servers(swept):
    bars = rows_of(swept, "steps_per_s")
    return f"A second one makes 24 workers {bars[1][1] / bars[0][1]:.2f} times as fast, a third {bars[2][1] / bars[1][1]:.2f} times more.", bars


def cheapest(swept):
    bars = [(row["parameters"][GPUS], row["summary"]["samples_per_s"] * row["summary"]["time_s"] / row["summary"]["cost_usd"] / 1e6) for row in swept["rows"]]
    fastest = max(swept["rows"], key=lambda row: row["summary"]["samples_per_s"])
    best = max(bars, key=lambda bar: bar[1])
    return (f"{best[0]}, with {best[1]:.1f} million images for a dollar; the fastest is {fastest['parameters'][GPUS]}, with "
            f"{fastest['summary']['samples_per_s']:.0f} images/s."), bars


def nvlink(with_it, without):
    bars = [("NVLink", with_it["samples_per_s"]), ("PCIe alone", without["samples_per_s"])]
    return f"A factor of {bars[0][1] / bars[1][1]:.2f} for BERT-Large in fp16.", bars


def algorithm(swept):
    bars = rows_of(swept)
    best = max(bars, key=lambda bar: bar[1])
    return f"{best[0]}, with {best[1]:.0f} images/s.", bars


def microbatches(swept):
    bars = rows_of(swept)
    return f"64 are {bars[-1][1] / bars[0][1]:.1f} times as fast as {bars[0][0]}, but only {100 * (bars[-1][1] / bars[-2][1] - 1):.0f} % faster than 32.", bars


def network(swept):
    bars = rows_of(swept)
    return f"100 instead of 10 Gbit/s: {bars[-1][1] / bars[0][1]:.1f} times as fast.", bars


def spot(runs):
    hours = [(name, runs[key] / 3600) for name, key in (("5 %", "time_s_p5"), ("mean", "time_s"), ("95 %", "time_s_p95"))]
    return (f"After {hours[1][1]:.1f} hours, between {hours[0][1]:.1f} and {hours[2][1]:.1f} in nine of ten cases, for {runs['cost_usd']:.0f} USD; "
            f"within 36 hours with a probability of {100 * runs['deadline_probability']:.0f} %."), hours


def plan(provision):
    answer = provision["answer"]
    machines = " and ".join(f"{count} {name}" for name, count in answer["machines"].items())
    return (f"{machines}, for {answer['cost_usd']['p50']:.2f} USD in {answer['time_s']['p50'] / 60:.0f} min.",
            [("spot", answer["cost_usd"]["p50"]), ("on demand", answer["closed_form"]["on_demand_cost_usd"])])


def degrees(swept):
    fit = {str(next(iter(row["parameters"].values()))): row["summary"] for row in swept["rows"] if row["summary"]}
    missing = [str(next(iter(row["parameters"].values()))) for row in swept["rows"] if not row["summary"]]
    best = min(fit, key=lambda degree: fit[degree]["time_s"])
    return (f"Over {best}: {fit[best]['time_s'] / 86400:.0f} days for a trillion tokens, {fit[best]['cost_usd'] / 1e6:.2f} million USD; over 8 it takes "
            f"{fit['8']['time_s'] / fit[best]['time_s']:.2f} times as long. On {' or '.join(missing)} alone a layer does not fit with its activations.",
            [(degree, summary["samples_per_s"]) for degree, summary in fit.items()])


def experts(swept):
    fit = {str(next(iter(row["parameters"].values()))): row["summary"] for row in swept["rows"] if row["summary"]}
    missing = [str(next(iter(row["parameters"].values()))) for row in swept["rows"] if not row["summary"]]
    best = max(fit, key=lambda degree: fit[degree]["samples_per_s"])
    return (f"{fit[best]['samples_per_s'] * 4096 / 1e6:.2f} million over {best}, with GPUs busy {fit[best]['gpu_utilization']:.0%} of the time." +
            (f" With {' or '.join(missing)} a worker's experts do not fit." if missing else ""),
            [(degree, summary["samples_per_s"]) for degree, summary in fit.items()])


def way_to_train(provision):
    answer = provision["answer"]
    plans = [answer, *answer["next"]]
    return (f"{answer['plan']}: {answer['time_s'] / 86400:.0f} days for a trillion tokens, {answer['cost_usd'] / 1e6:.2f} million USD.\n"
            f"The next, {answer['next'][0]['plan']}, takes {100 * (answer['next'][0]['step_s'] / answer['step_s'] - 1):.1f} % longer.",
            [(f"{i + 1}.", plan["step_s"]) for i, plan in enumerate(plans)])


def policies(queue):
    bars = [(policy["policy"], policy["mean_completion_time_s"] / 3600) for policy in queue["policies"]]
    best, worst = min(queue["policies"], key=lambda p: p["mean_completion_time_s"]), max(queue["policies"], key=lambda p: p["mean_completion_time_s"])
    last = (best["makespan_s"] - worst["makespan_s"]) / 3600
    return (f"{best['policy']}: a job is done after {best['mean_completion_time_s'] / 3600:.1f} h in the mean, under {worst['policy']} after "
            f"{worst['mean_completion_time_s'] / 3600:.1f} h; but the last one ends {abs(last):.1f} h {'later' if last > 0 else 'sooner'}.", bars)


def control(*runs):
    bars = [(label, run["control"]["cost_usd_" + part] + (run["control"]["cost_usd_fixed"] if part == "difference" else 0))
            for run, name in zip(runs, ("spotDNN", "CM-DARE", "Pollux")) for label, part in ((f"{name}, fixed", "fixed"), (f"{name}, rule", "difference"))]
    replan, servers, batch = (run["control"] for run in runs)
    def saved(gain, what):
        return -100 * gain[what + "_difference"] / gain[what + "_fixed"]
    return (f"Planned anew at each notice, spotDNN's job costs {saved(replan, 'cost_usd'):.0f} % less than one that replaces each machine by its like, and is in time in "
            f"{100 * (replan['deadline_share_fixed'] + replan['deadline_share_difference']):.1f} instead of {100 * replan['deadline_share_fixed']:.1f} % of the runs.\n"
            f"CM-DARE's added servers make eight P100 {saved(servers, 'time_s'):.0f} % sooner done, for {saved(servers, 'cost_usd'):.0f} % less.\n"
            f"A batch that follows the noise of the gradient, as Pollux's, costs {saved(batch, 'cost_usd'):.0f} % less than 32 samples a GPU to the end, but only "
            f"{saved(batch['best_fixed_batch'], 'cost_usd'):.1f} % less than {batch['best_fixed_batch']['times']} times as many.\n"
            "The planner knows of no outages: where pools have some (scenarios/control/spotdnn-outages.json) most runs come late, "
            "[cheaper all the same](../../sim/job/README.md).", bars)


def energy(swept):
    by_limit = {str(next(iter(row["parameters"].values()))): row["summary"] for row in swept["rows"]}
    full, least = by_limit["700W"], min(by_limit.items(), key=lambda entry: entry[1]["energy_kwh"])
    return (f"{full['energy_kwh'] / 1e3:.0f} MWh and {full['co2_kg'] / 1e3:.0f} t of CO2 for a trillion tokens; with GPUs limited to {least[0][:-1]} W "
            f"{100 * (1 - least[1]['energy_kwh'] / full['energy_kwh']):.0f} % less, in {100 * (least[1]['time_s'] / full['time_s'] - 1):.0f} % more time.",
            [(limit, summary["co2_kg"] / 1e3) for limit, summary in by_limit.items()])


def loading(swept):
    bars = [(label, value) for label, value in rows_of(swept)]
    bound = [str(next(iter(row["parameters"].values()))) for row in swept["rows"] if row["summary"]["bottleneck_resource"] == "input_load"]
    return (f"With {' or '.join(bound)} loaders for each GPU the input is the bottleneck: {bars[0][0]} feed {bars[0][1]:.0f} images/s, {bars[1][0]} feed {bars[1][1]:.0f}, "
            f"and {bars[-1][0]}, one for each vCPU, {bars[-1][1]:.0f}, which is as much as the GPUs take.", bars)


def slow_machine(swept):
    bars = rows_of(swept)
    full = bars[-1][1]
    lost = {label: 100 * (1 - value / full) for label, value in bars}
    return (f"One machine of eight at 400 W instead of 700 W slows all of them by {lost['400W']:.0f} %, at 300 W by {lost['300W']:.0f} %: all wait for the slowest.", bars)


def optimizer(swept):
    bars = rows_of(swept)
    speed = dict(bars)
    return (f"A kernel for many variables at once makes steps {speed['foreach'] / speed['loop']:.2f} times as fast as one for each, a fused one {speed['fused'] / speed['loop']:.2f} times.", bars)


QUESTIONS = [
    Question("bottleneck", "How fast do four K80 train ResNet-32, and what do they wait for?", ["simulate scenarios/cm-dare.json"], "ms", waits),
    Question("workers", "How many workers pay off?", ["sweep scenarios/cm-dare.json --grid /cluster/groups/1/count=4..24+4"], "steps/s", workers),
    Question("servers", "Would more parameter servers help?",
             ["sweep scenarios/cm-dare.json --grid /cluster/groups/0/count=1..3 --set /cluster/groups/1/count=24"], "steps/s", servers),
    Question("gpus", "Which GPU that nobody measured trains ResNet-50 in fp16 for the least money?",
             [f"sweep scenarios/data-sheet.json --grid {GPUS}=g5.xlarge,g6e.xlarge,p3.2xlarge,p5.4xlarge --set /workload/precision=fp16 --set /training/steps=100000"],
             "million images per USD", cheapest),
    Question("nvlink", "What is NVLink worth in a DGX-1?",
             [f"simulate scenarios/dgx.json --set /workload/model=bert_large --set /workload/batch_per_worker=4 --set /workload/precision=fp16{more}"
              for more in ("", " --set " + shlex.quote(GPUS + '/interconnect={"name": "pcie", "pcie": "12GBps", "source": "PCIe 3.0 x16"}'))],
             "samples/s", nvlink),
    Question("all-reduce", "Which all-reduce between four machines of eight V100?",
             ["sweep scenarios/resnet50-ec2.json --grid /training/strategy/algorithm=ring,hierarchical,tree --set /training/steps=100"], "images/s", algorithm),
    Question("microbatches", "How many microbatches fill a pipeline of eight stages with GPT-2 XL?",
             ["sweep scenarios/gpt2-xl-pipeline.json --grid /training/strategy/pipeline/microbatches=4..64*2"], "samples/s", microbatches),
    Question("network", "What would a faster network bring to BERT-Large on two machines?",
             [f"sweep scenarios/hkbu-bert-large.json --grid {GPUS}/nic=10Gbps,25Gbps,100Gbps"], "samples/s", network),
    Question("spot", "When is ResNet-50 finished on 64 spot V100, and for how much?", ["simulate scenarios/resnet50-spot.json --runs 100 --deadline 36h"],
             "hours", spot),
    Question("plan", "What is the cheapest plan that reaches a loss of 0.8 in 2600 s?",
             ["provision scenarios/provision/resnet110.json --deadline 2600s --target-loss 0.8"], "USD", plan),
    Question("large-model", "Llama 3 8B on 64 H100: how long, how much, does it fit, over how many GPUs a layer?",
             ["sweep scenarios/llama3-8b.json --grid /training/strategy/tensor/degree=1,2,4,8 --set /training/steps=953675"], "sequences/s", degrees),
    Question("experts", "DeepSeek-V3 on 2,048 H100: how many tokens a second, with the experts of a layer over how many GPUs?",
             ["sweep scenarios/deepseek-v3.json --grid /training/strategy/experts/degree=8,32,64,128"], "sequences/s", experts),
    Question("degrees", "Which degrees for Llama 3 70B on 512 H100?",
             ["provision --model llama3_70b --tokens 1T --gpus 512 --instance p5.48xlarge"], "s of a step, of the best plans", way_to_train),
    Question("queue", "Which policy for a queue of jobs of two teams on 32 V100?",
             ["queue scenarios/queue/two-teams.json"], "h from arrival to end, in the mean", policies),
    Question("control", "What does re-planning gain when machines are taken away, what a parameter server that is added, what a batch that grows?",
             [f"simulate scenarios/control/{name}.json --runs 1000" for name in ("spotdnn", "cm-dare", "pollux")], "USD, in the mean", control),
    Question("energy", "What does Llama 3 8B on 64 H100 take in kWh and CO2, and with less power?",
             ["sweep scenarios/llama3-8b.json --grid /cluster/groups/0/power_limit=300W,400W,500W,600W,700W --set /training/steps=953675 --set "
              + shlex.quote('/cluster/electricity={"gco2_per_kwh": 400, "pue": 1.2}')], "t CO2", energy),
    Question("faults", "What do faults cost BLOOM's 384 A100, and how often should it have saved?",
             ["sweep scenarios/faults/bloom-176b.json --grid /training/checkpoint/every=10min,30min,1h,2h,3h,6h,12h --runs 100"], "% of the time lost", faults),
    Question("input", "Is it the input? ResNet-50 in fp16 on the eight V100 of a DGX-1, images of 110 kB that take 8 ms of a vCPU",
             ["sweep scenarios/dgx.json --set /workload/precision=fp16 --grid /workload/input/loaders=2,4,8,10 --set "
              + shlex.quote('/workload/input={"sample_size": "110kB", "read_rate": "2GBps", "decode_time": "8ms"}')], "images/s", loading),
    Question("slow-machine", "What does a slow machine cost?",
             ["sweep scenarios/slow-machine.json --grid /cluster/groups/1/power_limit=300W,400W,500W,600W,700W"], "sequences/s", slow_machine),
    Question("optimizer", "What does an optimizer that updates variables one by one cost? ResNet-50 with 16 images in fp16 and Adam on a V100",
             ["sweep scenarios/data-sheet.json --set /workload/precision=fp16 --set /workload/batch_per_worker=16 --set /workload/optimizer=adam --set "
              "/workload/framework=PyTorch --grid /workload/optimizer_implementation=loop,foreach,fused"], "images/s", optimizer),
]


def picture(question, bars):
    """Bars from the left, with their values."""
    width, row, left, most = 640, 30, 170, max(value for _, value in bars)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{row * (len(bars) + 2)}" font-family="sans-serif" font-size="14">',
             '<rect width="100%" height="100%" fill="white"/>', f'<text x="12" y="22" font-weight="bold">{html.escape(question.text)}</text>']
    for i, (label, value) in enumerate(bars):
        y, length = row * (i + 1) + 8, (width - left - 120) * value / most
        lines += [f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">{html.escape(label)}</text>',
                  f'<rect x="{left}" y="{y}" width="{length:.1f}" height="20" fill="#3b75af"/>',
                  f'<text x="{left + length + 6:.1f}" y="{y + 15}">{value:.4g}</text>']
    lines.append(f'<text x="{left}" y="{row * (len(bars) + 1) + 22}" fill="#555">{html.escape(question.unit)}</text></svg>')
    return "\n".join(lines) + "\n"


def wrapped(line):
    """A long command in two lines of a shell."""
    middle = line.rfind(" --", 0, 140)
    return line if len(line) <= 150 else f"{line[:middle]} \\\n   {line[middle:]}"


def write(file, text):
    with open(f"{file}.new", "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(f"{file}.new", file)


# Headline results of published systems, a command that shows each, and where it is said how far off. Not run here: some take minutes.
ACCURACY = "../../calibration/README.md"
PAPERS = [
    ("CM-DARE (Li, Walls, Guo, ICDCS 2020)", "speed of K80, P100 and V100 clusters", "./run.sh validate scenarios/studies/cm-dare-cluster.json --baselines", ACCURACY),
    ("CM-DARE", "when the parameter server is the bottleneck", "./run.sh sweep scenarios/cm-dare.json --grid /cluster/groups/1/count=4..24+4", "#2-how-many-workers-pay-off"),
    ("CM-DARE", "when revoked machines let a training end", "./run.sh simulate scenarios/cm-dare-spot.json --runs 200", "../../sim/plan/README.md"),
    ("spotDNN (IWQoS 2023)", "the cheapest spot plan that meets a deadline", "./run.sh provision scenarios/provision/resnet110.json --deadline 2600s --target-loss 0.8",
     "../../sim/plan/README.md"),
    ("spotDNN", "speed of mixed machines", "./run.sh validate scenarios/studies/spotdnn-resnet110-speed.json", ACCURACY),
    ("Driple (Yang et al., SIGMETRICS 2022)", "resource profiles in its 14 settings",
     "./run.sh generate scenarios/spaces/reference.json -o results/reference.db", "../../predictor/README.md"),
    ("Driple", "its four networks beside ours", "tests/bench/predictor_table.sh results/networks", "../../predictor/README.md"),
    ("Driple", "transfer to a new setting", "./run.sh train results/other.db --transfer-from results/predictor -o results/new", "../../predictor/README.md"),
    ("TUM (CNSM 2021)", "traffic of its settings, lost packets too", "./run.sh traffic scenarios/sweeps/tum.json scenarios/sweeps/tum-loss.json -o results/tum",
     "../../sim/traffic/README.md"),
]


def papers():
    rows = "\n".join(f"| {paper} | {what} | `{command}` | [here]({said}) |" for paper, what, command, said in PAPERS)
    return ("## Papers: their headline results, one command each\n\n| paper | what | command | how far off |\n| --- | --- | --- | --- |\n" + rows + "\n")


def main():
    program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    parts = ["# Twenty questions\n\n`gallery.py PROGRAM FOLDER` runs the commands and makes this page with a picture of each answer; "
             "`--refresh` takes the answers over.\n"]
    pages = list(parts)
    for number, question in enumerate(QUESTIONS, 1):
        printed = [json.loads(subprocess.run([program, *shlex.split(command), "--json", "--quiet"], cwd=ROOT, check=True, capture_output=True).stdout)
                   for command in question.commands]
        answer, bars = question.answer(*printed)
        write(os.path.join(folder, f"{question.name}.svg"), picture(question, bars))
        commands = "\n".join(wrapped(f"./run.sh {command}") for command in question.commands)
        part = f"## {number}. {question.text}\n\n{answer}\n\n```\n{commands}\n```\n"
        parts.append(part)
        pages.append(part + f"\n![{question.text}]({question.name}.svg)\n")
        print(f"{number}. {question.text} {answer}", flush=True)
    for lines in (parts, pages):
        lines.append(papers())
    write(os.path.join(folder, "README.md"), "\n".join(pages))
    if "--refresh" in sys.argv:
        write(os.path.join(HERE, "README.md"), "\n".join(parts))


if __name__ == "__main__":
    main()
