#!/usr/bin/env python3
"""Measures transfers, all-reduces and parameter servers on a network of this machine, whose links have a stated rate and loss.

    calibration/testbed/testbed.py calibration/testbed/plans/lossless.json -o calibration/data/testbed/lossless.csv

The nodes are network namespaces (network.py); what they run is real: TCP of the kernel, Gloo, sockets (node.py). Each row of the result is
a setting of the plan with the times of its repetitions. A row counts only if the processors were idle enough meanwhile: else the
scheduler would be measured. The same command goes on where it was stopped, and measures again what did not count.

Needs root, or a kernel that lets users make namespaces; Debian's iproute2, ethtool, iptables; python3-torch for Gloo."""
import argparse
import contextlib
import csv
import glob
import itertools
import json
import math
import os
import random
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import capture  # noqa: E402
import network  # noqa: E402
import rates  # noqa: E402
from network import Network, TestbedError  # noqa: E402
from node import width_of  # noqa: E402

kMostBusy = 0.7  # share of the processors' time above which a row does not count
kKeys = ("workload", "workers", "servers", "mode", "connections", "bytes", "layers", "batch", "mtu", "rate", "loss")
kRates = tuple(f"{way}_{what}" for way in ("receive", "transmit") for what in ("mean_Bps", "burst_s", "gap_s", "peak_Bps"))  # of the first worker
kComputation = ("layer_gradient", "layer_forward", "layer_backward", "update", "is_computed")
kResults = ("start_interval", "repetitions", "steps", "median_s", "mean_s", "p95_s", "min_s", "max_s", "with_timeout", "timeouts", "retransmitted", "probes",
            "sent_segments", "sent_bytes", *kRates, *kComputation, "busy", "counts")
kFewest = 5  # repetitions of a row, unless the plan says otherwise
kSeries = ("times_s", "timed_out", "receive_Bps", "transmit_Bps", "processor")  # of a row, in a table of their own: lists between spaces
kTools = {"iperf3": {"iperf3": "iperf3"}, "all_reduce_mpi": {"mpirun": "openmpi-bin", "cc": "gcc"}}  # of workloads, with their packages
kOneThread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # else a thread of OpenBLAS spins for 100 ms after each product
kMostComputing = 2  # nodes that compute for real, on a processor each; more wait instead, for as long as one alone takes
kStudies = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scenarios", "studies"))
kReplayed = {"tensor": "testbed-training-tensor.json", "pipeline": "testbed-training-pipeline.json"}  # workloads, with the study whose scenario they run
kDefaults = {"servers": 0, "mode": "", "connections": 1, "layers": 0, "batch": 0, "mtu": 1500, "loss": 0.0}


class Node:
    def __init__(self, network_, rank, python):
        self.rank = rank
        self.process = subprocess.Popen(network_.inside(rank, python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "node.py")),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=network.die_with_parent,
                                        env={**os.environ, **kOneThread})

    def tell(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise TestbedError(f"node {self.rank} " + ("has ended" if ready else f"did not answer for {seconds:.0f} s"))
        answer = json.loads(line)
        if "error" in answer:
            raise TestbedError(f"node {self.rank}: {answer['error']}")
        return answer

    def stop(self):
        self.process.kill()
        self.process.wait()


def waiting_time(process):
    """For which threads of a process, named by its id, were ready and waited for a processor, in s."""
    waited = 0
    for path in glob.glob(f"/proc/{process}/task/*/schedstat"):
        with contextlib.suppress(OSError), open(path) as file:  # a thread may end meanwhile
            waited += int(file.read().split()[1])
    return waited * 1e-9


def processor_times(nodes):
    """Idle and total time of all processors, in ticks. Where the nodes go before other programs (nice -n -15), what these use is idle time, too,
    but for what the nodes waited."""
    with open("/proc/stat") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    if os.getpriority(os.PRIO_PROCESS, 0) >= 0:
        return times[3] + times[4], sum(times)
    needed = sum(time.clock_gettime(rates.processor_clock(node.process.pid)) + waiting_time(node.process.pid) for node in nodes)
    return sum(times[:5]) - needed * os.sysconf("SC_CLK_TCK"), sum(times)  # interrupts are behind these


def bits_per_second(rate):
    """Of a text such as 100Mbps."""
    match = re.fullmatch(r"([0-9.]+)([MG])bps", rate)
    if not match:
        raise TestbedError(f"rate {rate}: expected a number and Mbps or Gbps")
    return float(match[1]) * {"M": 1e6, "G": 1e9}[match[2]]


def settings_of(plan):
    """Each combination of the lists of each part of a plan, as a setting with its repetitions."""
    for part in plan["parts"]:
        axes = {key: part.get(key, kDefaults.get(key)) for key in kKeys}
        lists = [value if isinstance(value, list) else [value] for value in axes.values()]
        for values in itertools.product(*lists):
            setting = dict(zip(kKeys, values))
            expected = 8 * setting["bytes"] / bits_per_second(setting["rate"])
            if expected > part.get("longest_s", 10):
                continue
            yield setting, {"repetitions": part.get("repetitions", 10), "fewest": part.get("fewest", kFewest), "steps": part.get("steps", 1),
                            "seconds": part.get("seconds", 10)}


def check_tools(plan, captures, rehearse=""):
    """Throws if a program is missing that the plan's workloads need, or captures."""
    tools = {"tcpdump": "tcpdump"} if captures else {}
    for part in plan["parts"]:
        tools |= kTools.get(part["workload"], {})
        if part["workload"] in kReplayed and not os.access(rehearse, os.X_OK):
            raise TestbedError(f"{rehearse}: build it first, or name another with --rehearse")
    if missing := network.missing_tools(tools):
        raise TestbedError("install " + " ".join(missing))


def start_interval(setting):
    """Between the starts of two asynchronous workers, s: that share of an exchange which makes them use the links in turns. Workers that
    begin together would go on in step, or not, by chance."""
    if setting["mode"] != "asynchronous":
        return 0.0
    exchange = 2 * 8 * setting["bytes"] / setting["servers"] / bits_per_second(setting["rate"])
    return exchange / setting["workers"]


def changes_of(study, setting):
    """What a study changes in its scenario for a setting, by JSON pointers, as for a measured row."""
    changes = dict(study.get("set", {}))
    for column, places in study["columns"].items():
        if isinstance(places, dict):
            changes |= places[str(setting[column])]
        else:
            changes |= dict.fromkeys(places if isinstance(places, list) else [places], setting[column])
    return changes


def read_study(workload):
    with open(os.path.join(kStudies, kReplayed[workload])) as file:
        return json.loads(re.sub(r"^\s*//.*$", "", file.read(), flags=re.M))


def export(setting, rehearse, folder):
    """Writes traces of the step that the setting's study simulates, `step.RANK.et`, into a new folder."""
    study = read_study(setting["workload"])
    changes = [f"--set={place}={value if isinstance(value, str) else json.dumps(value)}" for place, value in changes_of(study, setting).items()]
    result = subprocess.run([rehearse, "export", os.path.join(kStudies, study["scenario"]), "--name", "step", "-o", folder, *changes],
                            capture_output=True, text=True)
    if result.returncode:
        raise TestbedError(result.stderr.strip().splitlines()[-1])


class Lab:
    """A network with a node's program on each of its nodes."""

    def __init__(self, nodes, mtu, python):
        self.network, self.nodes, self.port = Network(nodes, mtu), [], 7000
        self.network.__enter__()
        self.nodes = [Node(self.network, rank, python) for rank in range(nodes)]

    def close(self):
        for node in self.nodes:
            node.stop()
        self.network.__exit__()

    def tell(self, order, seconds):
        """All nodes' answers to an order."""
        for node in self.nodes:
            node.tell({**order, "rank": node.rank})
        return [node.answer(seconds) for node in self.nodes]

    def prepare(self, setting, effort):
        self.network.shape(bits_per_second(setting["rate"]), 0)  # connections are made without loss
        self.port += 1
        times = {}
        if setting["layers"]:
            self.nodes[0].tell({"do": "compute", **setting})
            times = self.nodes[0].answer(120)
        waits = {"times": times} if setting["workers"] > kMostComputing else {}
        self.tell({"do": "prepare", "port": self.port, "addresses": [self.network.address(node.rank) for node in self.nodes],
                   "steps": effort["steps"], "traces": effort.get("traces"), "nodes": len(self.nodes), "start_interval": start_interval(setting),
                   **waits, **setting}, 120)
        self.network.shape(bits_per_second(setting["rate"]), setting["loss"])
        if not times:
            return {}
        return {"layer_gradient": f"{4 * width_of(setting['bytes'], setting['layers']) ** 2}B", "update": milliseconds(times["update"]), "is_computed": int(not waits),
                **{f"layer_{way}": milliseconds(times[way] / setting["layers"]) for way in ("forward", "backward")}}


def milliseconds(seconds):
    return f"{seconds * 1e3:.6g}ms"


def payload_share(mtu):
    """Of a full frame: what is neither Ethernet's header, nor IPv4's and TCP's with time stamps."""
    return (mtu - 52) / (mtu + network.kEthernet)


def end_of(setting, ends):
    """When a repetition has ended, of when its nodes have: asynchronous workers tell it less their own start, and count alike."""
    if setting["workload"] == "iperf3":
        return ends[0]
    return statistics.fmean(ends[setting["servers"]:]) if setting["mode"] == "asynchronous" else max(ends)


def is_enough(number, effort, begun):
    """Whether a row ends before its repetition `number`."""
    return number >= effort["repetitions"] or (number >= effort["fewest"] and time.monotonic() - begun > effort["seconds"])


def on_payload(series, mtu):
    return [value * payload_share(mtu) for value in series]


def measure(lab, setting, effort, captures=None):
    """One row, and its series: the setting repeated until it has taken `seconds`, at least `fewest` and at most `repetitions` times.
    `captures`: a folder for what crosses the nodes' NICs meanwhile."""
    times, timed_out, total, idle, ticks, bursts, series = [], [], {}, 0, 0, [], {name: [] for name in rates.kSeries}
    computation = lab.prepare(setting, effort)
    begun = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        for repetition in itertools.count(-1):  # the first opens windows and is not counted
            if is_enough(repetition, effort, begun):
                break
            if repetition == 0 and captures:
                cleanup.enter_context(capture.Captures(lab.network, captures))
            counted, before = lab.tell({"do": "count"}, 60), processor_times(lab.nodes)
            at = time.monotonic() + 0.005
            with rates.Sampler(f"v{setting['servers']}", lab.nodes[setting["servers"]].process.pid) if setting["layers"] else contextlib.nullcontext() as sampler:
                ends = [answer["end"] for answer in lab.tell({"do": "run", "at": at}, 300)]
            after = processor_times(lab.nodes)
            if repetition < 0:
                continue
            idle, ticks = idle + after[0] - before[0], ticks + after[1] - before[1]
            times.append((end_of(setting, ends) - at) / effort["steps"])
            if sampler:
                receive, transmit, processor = sampler.series(at, end_of(setting, ends))
                bursts.append([value * payload_share(setting["mtu"]) ** (number % 4 in (0, 3)) for way in (receive, transmit)
                               for number, value in enumerate(rates.bursts(way))])
                for name, values in zip(rates.kSeries, (on_payload(receive, setting["mtu"]), on_payload(transmit, setting["mtu"]), processor)):
                    series[name] += values
            time.sleep(0.002)  # for acknowledgements that are still on their way
            changes = [{name: now[name] - then[name] for name in now} for now, then in zip(lab.tell({"do": "count"}, 60), counted)]
            if any(change["timeouts"] for change in changes):
                timed_out.append(repetition)
            for name in changes[0]:
                total[name] = total.get(name, 0) + sum(change[name] for change in changes)
    busy = 1 - idle / ticks if ticks > 0 else 0
    ordered = sorted(times)
    row = {**setting, "start_interval": milliseconds(start_interval(setting)), "repetitions": len(times), "steps": effort["steps"], "median_s": statistics.median(times), "mean_s": statistics.fmean(times),
           "p95_s": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], "min_s": ordered[0], "max_s": ordered[-1], "with_timeout": len(timed_out),
           **{name: total[name] for name in ("timeouts", "retransmitted", "probes", "sent_segments", "sent_bytes")},
           **dict(zip(kRates, map(statistics.fmean, zip(*bursts)))), **computation, "busy": busy, "counts": int(busy < kMostBusy)}
    return row, {"times_s": times, "timed_out": timed_out, **series}


def key_of(row):
    return tuple(str(row[key]) for key in kKeys)


def as_text(row):
    return {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in row.items()}


def series_path(path):
    return os.path.splitext(path)[0] + "-series.csv"


def series_as_text(series):
    digits = {"times_s": ".6g", "timed_out": "d", "receive_Bps": ".0f", "transmit_Bps": ".0f", "processor": ".2g"}
    return {name: " ".join(format(value, digits[name]) for value in series[name]) for name in kSeries}


def read_rows(path, columns):
    if not os.path.exists(path):
        return {}
    csv.field_size_limit(1 << 24)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if rows and tuple(rows[0]) != columns:
        raise TestbedError(f"{path}: other columns than this program writes")
    return {key_of(row): row for row in rows}


def write_rows(path, rows, columns):
    """In an order that does not depend on when they were measured."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows, key=lambda key: [word.zfill(12) for word in key]))
    os.replace(path + ".part", path)


class Results:
    """Rows and their series, in two tables side by side."""

    def __init__(self, path):
        self.path, self.rows, self.series = path, read_rows(path, kKeys + kResults), read_rows(series_path(path), kKeys + kSeries)

    def lacks(self, setting, effort):
        """Whether there is no row that counts, of as many repetitions as are asked for."""
        row = self.rows.get(key_of(as_text(setting)), {"counts": "0"})
        return row["counts"] != "1" or int(row["repetitions"]) < min(effort["fewest"], effort["repetitions"])

    def add(self, row, series):
        self.rows[key_of(row)] = row
        self.series[key_of(row)] = {**{key: row[key] for key in kKeys}, **series_as_text(series)}
        write_rows(series_path(self.path), self.series, kKeys + kSeries)
        write_rows(self.path, self.rows, kKeys + kResults)


def in_labs(settings):
    """Settings in an order in which few networks are made, and otherwise at random: a disturbance meets not all rows of a kind."""
    by_lab = {}
    for setting, effort in settings:
        by_lab.setdefault((setting["workers"] + setting["servers"], setting["mtu"]), []).append((setting, effort))
    order = random.Random(1)
    for shape in order.sample(sorted(by_lab), len(by_lab)):
        for setting, effort in order.sample(by_lab[shape], len(by_lab[shape])):
            yield shape, setting, effort


def name_of(setting):
    return " ".join(f"{key}={value}" for key, value in setting.items() if value not in ("", 0, kDefaults.get(key)))


def measure_plan(plan, path, python, again=False, captures=None, minutes=math.inf, rehearse=""):
    """How many settings failed, and how many rows do not count."""
    results, settings = Results(path), list(settings_of(plan))
    todo = list(in_labs([(setting, effort) for setting, effort in settings if again or results.lacks(setting, effort)]))
    print(f"{len(todo)} of {len(settings)} settings to measure", file=sys.stderr)
    begun, failed, lab, lab_shape = time.monotonic(), 0, None, None
    traces = tempfile.TemporaryDirectory()
    try:
        for number, (shape, setting, effort) in enumerate(todo, 1):
            if time.monotonic() - begun > 60 * minutes:
                print(f"{len(todo) - number + 1} are left; the same command goes on", file=sys.stderr)
                break
            try:
                if setting["workload"] in kReplayed:
                    effort["traces"] = os.path.join(traces.name, str(number))
                    export({**setting, "steps": effort["steps"]}, rehearse, effort["traces"])
                if lab is None or shape != lab_shape:
                    if lab is not None:
                        lab.close()
                    lab, lab_shape = Lab(*shape, python), shape
                row, series = measure(lab, setting, effort, captures and os.path.join(captures, name_of(setting).replace(" ", ",")))
            except TestbedError as error:
                failed += 1
                print(f"{number} of {len(todo)}: {name_of(setting)}: {error}", file=sys.stderr)
                lab_shape = None
                continue
            row = as_text(row)
            results.add(row, series)
            left = (time.monotonic() - begun) / number * (len(todo) - number)
            print(f"{number} of {len(todo)}: {name_of(setting)}: {float(row['median_s']) * 1e3:.3f} ms, processors {float(row['busy']):.0%} busy"
                  f"{'' if row['counts'] == '1' else ', does not count'}; {left / 60:.0f} min left", file=sys.stderr)
    finally:
        if lab is not None:
            lab.close()
        traces.cleanup()
    return failed, sum(row["counts"] != "1" for row in results.rows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", help="what to measure: a file of plans/")
    parser.add_argument("--output", "-o", required=True, help="CSV of results; goes on there if it exists")
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter of the nodes, one that has torch (default: Debian's)")
    parser.add_argument("--rehearse", default=os.path.join(kStudies, *[".."] * 2, "build", "rehearse"), help="the program, which compiles what is replayed (default: build/rehearse)")
    parser.add_argument("--again", action="store_true", help="measure also what counts already")
    parser.add_argument("--captures", metavar="DIR", help="folder of captures: for each setting a folder with a file of each node's NIC, for rehearse traffic")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no setting after so many minutes")
    options = parser.parse_args()
    try:
        with open(options.plan) as file:
            plan = json.load(file)
        check_tools(plan, options.captures, options.rehearse)
        network.enter()
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # which the first process of a namespace would not feel
        failed, left_out = measure_plan(plan, options.output, options.python, options.again, options.captures, options.minutes,
                                        options.rehearse)
    except (TestbedError, OSError, ValueError, KeyError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("testbed: interrupted; the same command goes on", file=sys.stderr)
        return 130
    if left_out:
        print(f"testbed: {left_out} rows do not count, the processors were busy; the same command measures them again", file=sys.stderr)
    if failed:
        print(f"testbed: {failed} settings failed; the same command tries them again", file=sys.stderr)
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
