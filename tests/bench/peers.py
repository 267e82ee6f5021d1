#!/usr/bin/env python3
"""The peers' benchmark:  tests/bench/peers.py [RUNS]

Synthetic data-parallel workloads on which ASTRA-sim and others are timed; printed, not judged. For each case: simulated
time, what a closed form says, wall time of the whole process (median of RUNS, default 5, in turn with an empty SimGrid
program, whose own goes to stderr) and peak memory. Closed forms: a ring takes 2 (N - 1) (alpha + ceil(S / N) / beta), alpha = 1 us from NIC to NIC,
beta = 50 GB/s; one all-reduce is under way at a time, in the order in which gradients become ready.
"""
import json, math, os, statistics, sys, tempfile, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(ROOT, "build", "rehearse")
EMPTY = os.path.join(ROOT, "build", "tests", "bench", "empty_simgrid")
ALPHA, BETA = 1e-6, 50e9
MIB = 1 << 20


def load(path):
    with open(os.path.join(ROOT, path)) as file:
        return json.loads("".join(line for line in file if not line.lstrip().startswith("//")))


def run(arguments, output):
    """Wall seconds and peak memory in MiB of a process."""
    start = time.perf_counter()
    to = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, to, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    pid = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    os.close(to)
    os.close(null)
    if status != 0:
        sys.exit("failed: " + " ".join(arguments))
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def ring(ranks, size):
    return 2 * (ranks - 1) * (ALPHA + math.ceil(size / ranks) / BETA) if ranks > 1 else 0


def seconds(text):
    units = {"us": 1e-6, "ms": 1e-3, "s": 1}
    unit = next(u for u in units if text.endswith(u) and text[: -len(u)].replace(".", "").isdigit())
    return float(text[: -len(unit)]) * units[unit]


def iteration(layers, optimizer, ranks, buckets):
    """Ends of backward layers, then a queue of collectives; `buckets` are sets of layer indices."""
    at = sum(seconds(layer["forward"]) for layer in layers)
    ready = {}
    for i in reversed(range(len(layers))):
        at += seconds(layers[i]["backward"])
        ready[i] = at
    end = 0
    for bucket in buckets:
        size = sum(int(layers[i]["gradient"][:-1]) for i in bucket)
        end = max(end, max(ready[i] for i in bucket)) + ring(ranks, size)
    return max(end, at) + optimizer


def bucketed(layers, first, limit):
    buckets, bucket, size = [], [], 0
    for i in reversed(range(len(layers))):
        bucket.append(i)
        size += int(layers[i]["gradient"][:-1])
        if size >= (limit if buckets else first):
            buckets.append(bucket)
            bucket, size = [], 0
    return buckets + ([bucket] if bucket else [])


def timed(layers):
    return {"format": 1, "source": "benchmark", "structure": {"family": "timed_layers", "batch": 32, "layers": layers}}


def cases():
    resnet = load("workloads/models/timed/resnet50.json")["structure"]["layers"]
    base = load("tests/bench/peers.json")

    def scenario(workers, strategy, model="timed/resnet50", servers=0, profile="ideal", **training):
        copy = json.loads(json.dumps(base))
        copy["workload"]["model"] = model
        copy["cluster"]["groups"][0]["count"] = workers
        copy["training"].update(strategy=strategy, **training)
        copy["calibration"] = profile
        if servers:
            copy["cluster"]["groups"].append(
                {"name": "ps", "role": "parameter_server", "region": "rack", "count": servers,
                 "instance": {"vcpus": 8, "memory": "64GiB", "nic": "400Gbps", "source": "benchmark"}})
        return copy

    all_reduce = {"kind": "all_reduce", "algorithm": "ring", "bucket_size": "0B"}  # each tensor by itself, as peers do
    buckets = {"bucket_size": "25MiB", "first_bucket_size": "1MiB"}
    one = timed([{"name": "tensor", "gradient": "100000000B", "forward": "0s", "backward": "0s"}])
    for n in (64, 1024):
        yield "all-reduce 100 MB", n, scenario(n, all_reduce, one), ring(n, 100_000_000)
    in_buckets = bucketed(resnet, MIB, 25 * MIB)
    for n in (4, 64, 256, 1024):
        yield "ResNet-50 B, 5 buckets", n, scenario(n, all_reduce | buckets), iteration(resnet, 1e-3, n, in_buckets)
    for n in (4, 64, 256, 1024):
        yield ("ResNet-50 L, 161 all-reduces", n, scenario(n, all_reduce),
               iteration(resnet, 1e-3, n, [[i] for i in reversed(range(len(resnet)))]))
    yield ("ResNet-50 B, 10 iterations", 1024, scenario(1024, all_reduce | buckets, steps=10),
           10 * iteration(resnet, 1e-3, 1024, in_buckets))
    yield ("ResNet-50 B, 5 % jitter", 1024, scenario(1024, all_reduce | buckets, step_time_variation=0.0289), None)
    profile = load("calibration/profiles/ideal.json")
    profile["servers"]["time_per_update"] = "200us"
    synchronous = {"kind": "parameter_server", "synchronization": "synchronous", "pushes_back_each_variable": True}
    yield "parameter server, 5 buckets", 256, scenario(256, synchronous | buckets, servers=1, profile=profile), None
    layers = [{"name": f"tensor{i}", "gradient": "1000000B", "forward": "100us", "backward": "200us"} for i in range(50)]
    for n in (1024, 4096):
        yield ("32 servers, 50 tensors, 10 % jitter", n,
               scenario(n, {"kind": "parameter_server", "synchronization": "synchronous"}, timed(layers), servers=32,
                        step_time_variation=0.1), None)


HEADER = ["work", "N", "simulated", "closed form", "wall", "memory"]


def row(name, ranks, simulated, expected, *measured):
    """A line of the table in tests/bench/README.md."""
    form = f"{expected * 1e3:.4f} ms" if expected else "-"
    return "| " + " | ".join([name, str(ranks), f"{simulated * 1e3:.4f} ms", form, *measured]) + " |"


def simulated_rows(program):
    """The rows without what is measured: the same on each machine."""
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, scenario, expected in cases():
            path, output = os.path.join(folder, "scenario.json"), os.path.join(folder, "out")
            with open(path, "w") as file:
                json.dump(scenario, file)
            run([program, "simulate", path, "--json", "--quiet"], output)
            with open(output) as file:
                yield row(name, ranks, json.load(file)["time_s"], expected)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| " + " | ".join(HEADER) + " |\n" + "| --- " * len(HEADER) + "|")
    empties = []
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, scenario, expected in cases():
            path, output = os.path.join(folder, "scenario.json"), os.path.join(folder, "out")
            with open(path, "w") as file:
                json.dump(scenario, file)
            walls, memory = [], 0
            for _ in range(runs):
                empties.append(run([EMPTY], os.devnull)[0])
                wall, memory = run([PROGRAM, "simulate", path, "--json", "--quiet"], output)
                walls.append(wall)
            with open(output) as file:
                simulated = json.load(file)["time_s"]
            print(row(name, ranks, simulated, expected, f"{statistics.median(walls):.3f} s", f"{memory:.0f} MiB"))
    print(f"empty SimGrid program: {statistics.median(empties):.3f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
