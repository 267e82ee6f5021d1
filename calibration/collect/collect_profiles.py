#!/usr/bin/env python3
"""Trains networks for some seconds each on one GPU, and writes what a predictor learns from.

    collect_profiles.py -o FOLDER                       100 networks at two batches, about 10 s each, on an NVIDIA GPU
    collect_profiles.py -o FOLDER --device cpu --tiny   the same with the host's processors, for a try

Needs PyTorch and, for a GPU, NVIDIA's driver. FOLDER gets
    manifest.json, measurements.json   the runs; the second is for `rehearse import`
    scenario.json                      this machine: peak rates as measured by a large product and a large copy
    graphs/NAME.pbtxt                  operators of a training step (torch.fx), as TensorFlow's GraphDef
    series/NAME.csv                    time_s, gpu_utilization, memory_utilization, receive_Bps, transmit_Bps
What is there already is kept: the same command goes on where it was stopped.
"""
import argparse
import gc
import os
import platform
import sys
import time

from manifest import load_runs, run_entry, scenario_of, write_json, write_manifest
from monitor import MonitorError, NvmlReader, ProcessorReader, Sampler, on_grid, series_text


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU, as NVML and CUDA count (default: 0)")
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--families", default="resnet,vgg,mobilenet,densenet,transformer,lstm")
    parser.add_argument("--batches", default="16,64", help="samples per step (default: 16,64)")
    parser.add_argument("--seconds", type=float, default=10, help="recorded for each run (default: 10)")
    parser.add_argument("--period", type=float, default=0.1, help="between two samples, seconds (default: 0.1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="networks that take milliseconds")
    return parser.parse_args()


def timed(torch, device, work, repeats):
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    work()
    synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    synchronize()
    return (time.perf_counter() - start) / repeats


def describe_machine(torch, device):
    """Rates as this machine reaches them; a catalog's are a little above."""
    is_gpu = device.type == "cuda"
    size = 8192 if is_gpu else 1024
    a, b = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    product = timed(torch, device, lambda: torch.mm(a, b), 5)
    values = torch.empty((1 << 28) if is_gpu else (1 << 24), device=device)  # of 4 bytes
    target = torch.empty_like(values)
    copy = timed(torch, device, lambda: target.copy_(values), 5)
    link = 0.0
    if is_gpu:
        pinned = torch.empty(1 << 26).pin_memory()
        link = 4 * pinned.numel() / timed(torch, device, lambda: target[: pinned.numel()].copy_(pinned), 5)
    host_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    properties = torch.cuda.get_device_properties(device) if is_gpu else None
    return {
        "name": properties.name if is_gpu else "host processors",
        "peak_fp32": 2 * size**3 / product,
        "memory_bandwidth": 2 * 4 * values.numel() / copy,
        "memory": properties.total_memory if is_gpu else host_memory,
        "multiprocessors": properties.multi_processor_count if is_gpu else os.cpu_count(),
        "host_link": link or 2 * 4 * values.numel() / copy,
        "vcpus": os.cpu_count(),
        "host_memory": host_memory,
        "source": f"measured by collect_profiles.py: product of {size} x {size} matrices in fp32, copies of "
                  f"{4 * values.numel() >> 20} MiB; PyTorch {torch.__version__}",
    }


def train(torch, spec, batch, optimizer, device, arguments, reader):
    """(text of the graph, text of the series, step time in seconds)"""
    from traced_graph import trace

    torch.manual_seed(arguments.seed)
    model = spec.build()
    graph = trace(spec, model, spec.make_batch(batch, "cpu")[0])
    model = model.to(device)
    rates = {"lr": 1e-4} if optimizer == "adam" else {"lr": 1e-3, "momentum": 0.9 if optimizer == "momentum" else 0.0}
    update = (torch.optim.Adam if optimizer == "adam" else torch.optim.SGD)(model.parameters(), **rates)
    loss_of = torch.nn.CrossEntropyLoss()
    samples, labels = spec.make_batch(batch, "cpu")
    if device.type == "cuda":
        samples, labels = samples.pin_memory(), labels.pin_memory()
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def step():
        x, y = samples.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        logits = model(x)
        loss = loss_of(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        update.zero_grad(set_to_none=True)
        loss.backward()
        update.step()

    for _ in range(3):  # libraries choose their kernels
        step()
    synchronize()
    sampler = Sampler(reader, arguments.period)
    sampler.start()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < arguments.seconds or steps < 3:
        step()
        steps += 1
        if steps % 10 == 0:
            synchronize()  # the host runs at most ten steps ahead
    synchronize()
    length = time.perf_counter() - start
    series = series_text(on_grid(sampler.stop(), arguments.period))
    return graph.to_text(optimizer), series, length / steps


def main():
    arguments = parse_arguments()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"collect_profiles.py: PyTorch is not there: {error}")
    from networks import FAMILIES, draw_networks

    families = arguments.families.split(",")
    if not set(families) <= set(FAMILIES):
        sys.exit(f"collect_profiles.py: --families: expected some of {', '.join(FAMILIES)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("collect_profiles.py: this PyTorch finds no GPU; --device cpu tries the same with the host's processors")
    device = torch.device("cuda", arguments.gpu) if arguments.device == "cuda" else torch.device("cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # fp32, as the scenario says
    batches = [int(batch) for batch in arguments.batches.split(",")]
    folder = arguments.output
    for sub in ("graphs", "series"):
        os.makedirs(os.path.join(folder, sub), exist_ok=True)
    try:
        reader = NvmlReader(arguments.gpu) if arguments.device == "cuda" else ProcessorReader()
    except MonitorError as error:
        sys.exit(f"collect_profiles.py: {error}")
    machine = describe_machine(torch, device)
    scenario = os.path.join(folder, "scenario.json")
    if not os.path.exists(scenario):
        write_json(scenario, scenario_of(machine))
    source = (f"collect_profiles.py on {machine['name']}, {platform.system()} {platform.release()}, PyTorch "
              f"{torch.__version__}; {arguments.seconds:g} s each at {arguments.period:g} s")

    runs = load_runs(folder)
    known = {run["name"] for run in runs}
    specs = draw_networks(arguments.networks, families, arguments.seed, arguments.tiny)
    for number, spec in enumerate(specs):
        optimizer = ("momentum", "adam", "sgd")[number // len(families) % 3]
        for batch in batches:
            name = f"{spec.name} batch {batch}"
            if name in known:
                continue
            try:
                graph, series, step_time = train(torch, spec, batch, optimizer, device, arguments, reader)
            except (MonitorError, ValueError, RuntimeError) as error:  # out of memory is a RuntimeError
                print(f"{name}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            finally:
                gc.collect()
                if arguments.device == "cuda":
                    torch.cuda.empty_cache()
            for file, text in ((f"graphs/{name}.pbtxt", graph), (f"series/{name}.csv", series)):
                with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                    out.write(text)
            runs.append(run_entry(name, spec.family, batch, optimizer, arguments.period, step_time))
            write_manifest(folder, runs, source)
            print(f"{number + 1}/{len(specs)} {name}: {step_time * 1e3:.4g} ms a step", file=sys.stderr)
    reader.close()
    if not runs:
        sys.exit("collect_profiles.py: no run succeeded")


if __name__ == "__main__":
    main()
