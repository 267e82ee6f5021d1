#!/usr/bin/env python3
"""Measures what training of large models is made of on one GPU: layers, kernels, updates, products, streams, steps, power.

    measure_layers.py -o FOLDER --seconds 270                       on an NVIDIA GPU
    measure_layers.py -o FOLDER --device cpu --tiny --seconds 20    with the host's processors, for a try

Needs Python 3.8 and PyTorch. FOLDER gets system.json and a CSV file for each section; README.md says what is in them.
A worker process measures; this one starts another one behind a case that it did not survive.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

from layers.rows import SECTIONS, SHARES, Position, fill_launches, section_seconds

LOST = 3  # exit code of a worker whose GPU fails at everything
STALL_S = 40  # a case that takes longer hangs
GRACE_S = 12  # after the budget, for the last case


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=270, help="for everything (default: 270)")
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}, in the order to run them")
    parser.add_argument("--tiny", action="store_true", help="shapes that take milliseconds")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # file of the position
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)  # case of the first section
    arguments = parser.parse_args()
    arguments.sections = arguments.sections.split(",")
    if not set(arguments.sections) <= set(SECTIONS):
        parser.error(f"--sections: expected some of {', '.join(SECTIONS)}")
    return arguments


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


# --- the worker


def section_module(section):
    import importlib
    return importlib.import_module({"layers": "layers.layer_times", "kernels": "layers.truth"}.get(section, f"layers.{section}"))


def work(arguments):
    """Measures the sections in turn; returns the exit code."""
    end = time.monotonic() + arguments.seconds
    import torch
    from layers.bench import Bench, DeviceLost
    from layers.system import write_system

    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("measure_layers.py: this PyTorch finds no GPU; --device cpu --tiny tries the same with the host's processors")
    device = torch.device("cuda", arguments.gpu) if arguments.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(1)
    position = Position(arguments.worker)
    write_system(os.path.join(arguments.output, "system.json"), device)
    bench = Bench(device, arguments.tiny, arguments.output, position)
    for number, section in enumerate(arguments.sections):
        seconds = section_seconds(section, arguments.sections[number:], end - time.monotonic())
        start = time.monotonic()
        position.write(section, -1, "start")
        module = section_module(section)
        try:
            first = arguments.first if number == 0 else 0
            done, there = bench.run_cases(section, module.COLUMNS, module.cases(bench), seconds, first)
        except DeviceLost as error:
            say(f"{section}: the GPU is lost: {str(error).splitlines()[0]}")
            return LOST
        say(f"{section}: {done} of {there} cases in {time.monotonic() - start:.1f} s")
        bench.free()
    return 0


# --- the program above it


def wait_for(worker, position, end):
    """Waits for the worker; ends it after the budget or where a case does not end. Its exit code, None if it was ended."""
    while True:
        try:
            return worker.wait(0.2)
        except subprocess.TimeoutExpired:
            pass
        is_late = time.monotonic() > end + GRACE_S
        if is_late or position.age() > STALL_S:
            worker.kill()
            worker.wait()
            return None


def worker_command(arguments, sections, first, seconds, path):
    command = [sys.executable, os.path.abspath(__file__), "-o", arguments.output, "--device", arguments.device, "--gpu", str(arguments.gpu),
               "--seconds", f"{seconds:.3f}", "--sections", ",".join(sections), "--worker", path, "--first", str(first)]
    return command + (["--tiny"] if arguments.tiny else [])


def next_place(sections, place):
    """(sections, case of the first of them) behind a place; a section that did not start is left out."""
    section, index, name = place
    rest = sections[sections.index(section):]
    return (rest[1:], 0) if name == "start" else (rest, index + 1)


def supervise(arguments, path):
    """Runs workers until the sections are done or the time is over. False if not even the first one starts."""
    end, sections, first, position = time.monotonic() + arguments.seconds, list(arguments.sections), 0, Position(path)
    while sections and time.monotonic() < end:
        position.write(sections[0], first - 1, "start")
        worker = subprocess.Popen(worker_command(arguments, sections, first, end - time.monotonic(), path))
        code = wait_for(worker, position, end)
        place = position.read()
        if code == 0:
            return True
        if code is not None and place == (arguments.sections[0], -1, "start"):
            return False
        say(f"{place[0]}: {'ended' if code is None else f'the worker failed with {code}'} at {place[2]}")
        sections, first = next_place(sections, place)
    return True


def fill_all(arguments):
    for section in ("layers", "updates", "steps"):
        try:
            fill_launches(arguments.output, section)
        except (OSError, KeyError, ValueError) as error:
            say(f"{section}: launches not filled in: {error}")


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.output, exist_ok=True)
    if arguments.worker:
        sys.exit(work(arguments))
    present = [section for section in SECTIONS if os.path.exists(os.path.join(arguments.output, f"{section}.csv"))]
    if present:
        sys.exit(f"measure_layers.py: {arguments.output} has {present[0]}.csv already; name another folder")
    handle, path = tempfile.mkstemp(suffix=".position")
    os.close(handle)
    try:
        is_done = supervise(arguments, path)
    finally:
        os.remove(path)
    fill_all(arguments)
    say(f"results in {arguments.output}")
    sys.exit(0 if is_done else 1)


if __name__ == "__main__":
    main()
