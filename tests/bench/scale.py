#!/usr/bin/env python3
"""Large jobs, many runs, searches:  tests/bench/scale.py [WORD...]

Wall time and peak memory of whole processes, once each, on an idle machine; printed, not judged, beside what is aimed at. With
words: only the rows whose names contain one of them. A row that has not ended after five times its aim is ended and says so.
"""
import os, subprocess, sys, tempfile, threading, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(ROOT, "build", "rehearse")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers


def sets(**values):
    """--set options: workload_model="x" sets /workload/model."""
    options = []
    for key, value in values.items():
        options += ["--set", "/" + key.replace("__", "/") + "=" + str(value)]
    return options


def scenario(name):
    return os.path.join(ROOT, "scenarios", name)


def simulate(name, *options, **values):
    return ["simulate", scenario(name), "--quiet", *options, *sets(**values)]


def servers(folder, workers):
    """The incast of tests/bench/peers.py."""
    found = next(each for name, count, each, _ in peers.cases() if count == workers and name.startswith("32 servers"))
    path = os.path.join(folder, f"servers-{workers}.json")
    with open(path, "w") as file:
        file.write(peers.json.dumps(found))
    return ["simulate", path, "--quiet"]


def messages(folder):
    """Eight workers and a server, asynchronous: 100 messages a step of a worker, gradients and variables of 50 tensors."""
    layers = [{"name": f"tensor{i}", "gradient": "100000B", "forward": "10us", "backward": "20us"} for i in range(50)]
    base = peers.load("tests/bench/peers.json")
    base["workload"]["model"] = peers.timed(layers)
    base["cluster"]["groups"][0]["count"] = 8
    base["cluster"]["groups"].append(
        {"name": "ps", "role": "parameter_server", "region": "rack", "count": 1,
         "instance": {"vcpus": 8, "memory": "64GiB", "nic": "400Gbps", "source": "benchmark"}})
    base["training"].update(strategy={"kind": "parameter_server", "synchronization": "asynchronous"}, steps=8000)
    base["calibration"] = "ideal"
    path = os.path.join(folder, "messages.json")
    with open(path, "w") as file:
        file.write(peers.json.dumps(base))
    return ["simulate", path, "--quiet"]


def llama405(machines, global_batch, **values):
    return simulate("llama3-8b.json", workload__model="llama3_405b", workload__recompute="full", cluster__groups__0__count=machines,
                    training__strategy__global_batch=global_batch, training__steps=1,
                    training__strategy__pipeline='{"stages":16,"schedule":"1f1b"}', **values)


def rows(folder):
    """Name, arguments, what is aimed at: seconds and MiB."""
    context = {"training__strategy__context": '{"degree":2}'}
    for topology, keys in (("star", {}), ("rail", {}), ("fat_tree", {"cluster__network__machines_per_leaf": 16})):
        yield f"405B, 16,384 GPUs: tensor 8, 16 stages, context 2, 32 micro-batches, {topology}", llama405(2048, 2048, cluster__network__topology=topology, **keys, **context), 1, 200
    yield "405B, 100,352 GPUs: tensor 8, 16 stages, 16 micro-batches", llama405(12544, 12544), 3, 500
    yield "DeepSeek-V3, 2,048 GPUs: experts 64, 16 stages", simulate("deepseek-v3.json"), 1.5, None
    data = {"workload__batch_per_worker": 64, "calibration": "kernels", "training__warmup_steps": 0}
    yield "ResNet-50, hgx-h200, 65,536 GPUs, 10 steps", simulate("dgx.json", cluster__groups__0__instance="hgx-h200", cluster__groups__0__count=8192, training__steps=10, **data), 2, 400
    yield "ResNet-50, dgx-a100, 4,096 GPUs, 100 steps", simulate("dgx.json", cluster__groups__0__instance="dgx-a100", cluster__groups__0__count=512, training__steps=100, **data), 0.2, None
    yield "32 servers, 50 tensors, 10 % jitter, 1,024 workers", servers(folder, 1024), 0.5, None
    yield "32 servers, 50 tensors, 10 % jitter, 4,096 workers", servers(folder, 4096), 2.6, 600
    yield "asynchronous, 8 workers x 1,000 steps of 100 messages", messages(folder), 0.4, None
    for machines, aim in ((64, 3), (512, 15), (4096, 90)):
        yield f"1,000 runs of a day on {machines:,} spot GPUs", simulate("resnet50-spot.json", "--runs", "1000", "-j", "2", cluster__groups__0__count=machines, training__steps=10000000, training__recovery__give_up_after="24h"), aim, None
    yield ("5,000 plans of 70B on 512 GPUs", ["provision", "--model", "llama3_70b", "--tokens", "1T", "--gpus", "512", "--instance", "p5.48xlarge", "--quiet", "-j", "2"], 60, 1024)
    yield ("sweep of 5,000 smallest cells, 2 processes", ["sweep", os.path.join(ROOT, "tests/bench/smallest.json"), "--grid", "/seed=1..5000", "-j", "2", "--quiet", "-o", os.path.join(folder, "sweep")], 10, None)
    yield ("generate of the reference space, 1,000 samples", ["generate", scenario("spaces/reference.json"), "--count", "1000", "-j", "2", "--quiet", "-o", os.path.join(folder, "generated.sqlite")], 4, None)
    yield ("provision, 500 candidates, 200 of them near-duplicates", candidates(folder), 5, None)


def candidates(folder):
    """ResNet-110 with spotDNN's machines, and each of them many times over with prices that differ by a hundredth."""
    file = peers.load("scenarios/provision/resnet110.json")
    file["scenario"] = os.path.abspath(os.path.join(ROOT, "scenarios", "provision", file["scenario"]))
    found = file["candidates"]
    many = []
    for i in range(500):
        copy = dict(found[i % len(found)], name=f"machine-{i}", quota=2)
        copy["usd_per_hour"] = 0.5 + (i if i < 300 else 299) * 0.003 + i * 1e-5
        many.append(copy)
    file["candidates"] = many
    path = os.path.join(folder, "candidates.json")
    with open(path, "w") as out:
        out.write(peers.json.dumps(file))
    return ["provision", path, "--deadline", "2600s", "--target-loss", "0.8", "--quiet", "-j", "2"]


def measure(arguments, limit):
    """Seconds, none if it was ended after `limit`; MiB; an error, or nothing."""
    began = time.perf_counter()
    process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(limit, process.kill)
    timer.start()
    error = process.stderr.read().strip()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    wall = time.perf_counter() - began
    memory = usage.ru_maxrss / 1024
    if os.WIFSIGNALED(status):
        return None, memory, ""
    return wall, memory, "" if os.waitstatus_to_exitcode(status) in (0, 3) else error.splitlines()[-1]


def main():
    words = sys.argv[1:]
    print("| work | wall | memory | aim |\n| --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments, aim, most in rows(folder):
            if words and not any(word in name for word in words):
                continue
            wall, memory, error = measure(arguments, 5 * aim + 5)
            text = "ended" if wall is None else f"{wall:.2f} s"
            print(f"| {name} | {text} | {memory:.0f} MiB | {aim} s{f', {most} MiB' if most else ''} |" + (f" {error}" if error else ""), flush=True)


if __name__ == "__main__":
    main()
