#!/usr/bin/env python3
"""Records a training that runs already, or that it starts, for `rehearse import`.

    attach.py --pid PID --seconds 30 -o FOLDER          a process of this machine and its descendants
    attach.py -o FOLDER -- python3 train.py ...         a command, from its start to its end
    attach.py -o FOLDER --scenario cluster.json --model resnet50 --batch 32 --step-time 120ms -- COMMAND...

FOLDER gets series.csv: time_s, of an NVIDIA GPU gpu_utilization and memory_utilization, and receive_Bps and transmit_Bps
of the machine's network devices. With --scenario it gets measurements.json, too: `rehearse import` makes a dataset of it.
Ctrl-C keeps what was recorded. Needs Linux and nothing beside Python.
"""
import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time

from manifest import write_json, write_text
from monitor import MonitorError, NvmlReader, Sampler, missed, on_grid, series_text
from process import Network, Process, ProcessReader

NOISE = 0.01  # of a process' share of its processors: what a process that sleeps takes to look around
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def parse_arguments(arguments):
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument("--pid", type=int, help="process to look at, instead of a COMMAND")
    parser.add_argument("--seconds", type=float, help="recorded at most (default: until the process ends)")
    parser.add_argument("--after", type=float, default=0, help="seconds to wait first, such as for a warm-up (default: 0)")
    parser.add_argument("--period", type=float, default=0.01, help="between two samples, seconds (default: 0.01)")
    parser.add_argument("--device", choices=["cuda", "cpu", "none"],
                        help="whose utilization is gpu_utilization: that of a GPU (default, if NVML is there), the "
                             "process' share of the processors on which it may run, or nothing's")
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU, as NVML counts (default: 0)")
    parser.add_argument("--interface", action="append", default=[], metavar="NAME",
                        help="network device to count, such as eth0; repeatable (default: all that are hardware)")
    job = parser.add_argument_group("what measurements.json says")
    job.add_argument("--scenario", metavar="FILE", help="the cluster; without it there is no measurements.json")
    job.add_argument("--model", help="instead of the scenario's: a name of the catalogs, a model file (.json), or a "
                                     "GraphDef (.pbtxt, .pb)")
    job.add_argument("--batch", type=int, metavar="N", help="samples of a worker's step")
    job.add_argument("--set", action="append", default=[], metavar="/POINTER=VALUE", help="field of the scenario; repeatable")
    job.add_argument("--step-time", metavar="TIME", help="mean time between a worker's steps, such as 120ms")
    job.add_argument("--source", help="who measured, when and how (default: the host and the process)")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="after --")
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser, options):
    if (options.pid is None) == (not options.command):
        parser.error("expected either --pid or -- COMMAND...")
    if options.pid is not None and options.pid < 1:
        parser.error(f"--pid: expected a number from 1; found {options.pid}")
    if not 1e-3 <= options.period <= 60:
        parser.error(f"--period: expected 0.001 to 60 seconds; found {options.period:g}")
    if options.seconds is not None and not options.period * 3 <= options.seconds <= 1e7:
        parser.error(f"--seconds: expected at least three periods; found {options.seconds:g}")
    if not 0 <= options.after <= 1e7:
        parser.error(f"--after: expected seconds from 0; found {options.after:g}")
    if options.scenario is None:
        for name in ("model", "batch", "set", "step_time", "source"):
            if getattr(options, name):
                parser.error(f"--{name.replace('_', '-')} is for measurements.json, which needs --scenario")
    elif not os.path.isfile(options.scenario):
        parser.error(f"--scenario: there is no file {options.scenario}")
    if options.batch is not None and not 1 <= options.batch <= 65536:
        parser.error(f"--batch: expected 1 to 65536; found {options.batch}")
    if options.step_time and not re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?(us|ms|s|min|h)", options.step_time):
        parser.error(f"--step-time: expected a time with a unit, such as 120ms; found {options.step_time}")
    for setting in options.set:
        if not re.match(r"/.+=.", setting):
            parser.error(f"--set: expected /POINTER=VALUE; found {setting}")


def json_or_text(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def profile_of(options):
    """The entry of measurements.json."""
    folder = options.output
    profile = {"scenario": os.path.relpath(options.scenario, folder)}
    if options.set:
        profile["set"] = {pointer: json_or_text(value) for pointer, _, value in (s.partition("=") for s in options.set)}
    if options.model and options.model.endswith((".pb", ".pbtxt")):
        if not os.path.isfile(options.model):
            raise MonitorError(f"--model: there is no file {options.model}")
        profile["graph"] = os.path.relpath(options.model, folder)
    elif options.model and options.model.endswith(".json"):
        try:
            with open(options.model, encoding="utf-8") as file:
                profile["model"] = json.load(file)
        except (OSError, ValueError) as error:
            raise MonitorError(f"--model: {options.model}: {error}") from error
    elif options.model:
        profile["model"] = options.model
    if options.batch:
        profile["batch_per_worker"] = options.batch
    profile["series"] = "series.csv"
    if options.step_time:
        profile["step_time"] = options.step_time
    return profile


def gpu_reader(options):
    """Nothing if there is no GPU and none was asked for."""
    if options.device in ("cpu", "none"):
        return None
    try:
        return NvmlReader(options.gpu, reads_pcie=False)  # for which NVML waits 40 ms
    except MonitorError:
        if options.device == "cuda":
            raise
        return None


def rows_of(samples, options, processors):
    """(rows of the series, mean of the processors that were busy)"""
    rows = on_grid(samples, options.period, totals=ProcessReader.TOTALS, longest_gap=float("inf"))
    if not rows:
        raise MonitorError("the recording is shorter than a period")
    busy = sum(values[4] for _, values in rows) / len(rows)
    if options.device == "cpu":
        shares = [min(1.0, values[4] / processors) for _, values in rows]
        rows = [(at, (share if share >= NOISE else 0.0, *values[1:])) for share, (at, values) in zip(shares, rows)]
    return [(at, values[:4]) for at, values in rows], busy


def write(options, samples, processors, what):
    rows, busy = rows_of(samples, options, processors)
    write_text(os.path.join(options.output, "series.csv"), series_text(rows))
    if options.scenario:
        source = options.source or f"attach.py on {platform.node()}, {what}; {len(rows) * options.period:g} s at {options.period:g} s"
        write_json(os.path.join(options.output, "measurements.json"),
                   {"format": 1, "source": source, "profiles": [options.profile]})
    count, longest = missed(samples, options.period)
    if count > 0:
        tell(f"{count} of {len(rows)} samples were missed: up to {longest:.3g} s are averages")
    tell(f"{len(rows) * options.period:.3g} s recorded, {busy:.3g} processors busy on average: {options.output}")


def tell(text):
    print(f"attach.py: {text}", file=sys.stderr, flush=True)


class OneLineParser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"attach.py: {message}\n")


class Interrupted(Exception):
    """By Ctrl-C, or by SIGTERM."""


def interrupt(number, frame):
    raise Interrupted(number)


def reader_of(options, pid):
    network = Network(pid, options.interface)
    reader = ProcessReader(Process(pid), network, gpu_reader(options))
    if not network.devices and reader.gpu is None and options.device != "cpu":
        raise MonitorError("there is nothing to record: no GPU, no network device, and no --device cpu")
    return reader


def record(options, reader, what):
    """Writes the files. The signal that ended it, or nothing."""
    processors = reader.process.processors()
    sampler = Sampler(reader, options.period)
    number = error = None
    try:
        sleep_while(reader.process, options.after)
        sampler.start()
        tell(f"recording {what}")
        sampler.wait(options.seconds)
    except Interrupted as interrupted:
        number = interrupted.args[0]
    for ignored in SIGNALS:  # what was recorded is about to be written
        signal.signal(ignored, signal.SIG_IGN)
    try:
        sampler.stop()
    except (MonitorError, OSError) as failure:
        error = failure
    reader.close()
    if len(sampler.samples) < 3:
        found = f"{len(sampler.samples)} samples were recorded of {what}: expected at least 3"
        raise MonitorError(f"{found}; {error}" if error else found)
    write(options, sampler.samples, processors, what)
    if error:
        raise MonitorError(f"the recording ends early: {error}")
    return number


def sleep_while(process, seconds):
    """As long as the process lives."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.is_alive():
        time.sleep(min(0.05, max(0.0, end - time.monotonic())))


def main(arguments=None):
    options = parse_arguments(arguments)
    if os.path.exists(os.path.join(options.output, "series.csv")):
        sys.exit(f"attach.py: {options.output} has a recording: choose another folder")
    child = reader = failure = number = None
    is_new = False
    for handled in SIGNALS:
        signal.signal(handled, interrupt)
    try:
        if options.scenario:
            options.profile = profile_of(options)
        is_new = not os.path.isdir(options.output)
        os.makedirs(options.output, exist_ok=True)
        if options.command:
            child = subprocess.Popen(options.command)
        what = f"process {options.pid}" if child is None else " ".join(options.command)[:200]
        reader = reader_of(options, options.pid or child.pid)
        number = record(options, reader, what)
    except MonitorError as error:
        failure = str(error)
    except OSError as error:
        failure = f"{error.filename or options.output}: {(error.strerror or str(error)).lower()}"
    except Interrupted as interrupted:
        number = interrupted.args[0]
    for handled in SIGNALS:
        signal.signal(handled, signal.SIG_DFL)
    status = 0
    if child:  # which has got Ctrl-C, too, from the terminal
        if number == signal.SIGTERM or reader is None:
            child.terminate()
        status = child.wait()
    if failure:
        if is_new and not os.listdir(options.output):
            os.rmdir(options.output)
        sys.exit(f"attach.py: {failure}")
    if number:
        sys.exit(INTERRUPTED)
    if status != 0:
        sys.exit(f"attach.py: the command ended with {status}; what was recorded is kept")


if __name__ == "__main__":
    main()
