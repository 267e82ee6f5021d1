#!/usr/bin/env python3
"""rehearse replay beside a critical path that is found from the raw events by code of its own.

For each trace three what-ifs: kernels take half as long, collectives do, the first work on a stream is delayed. The
steps of the replay have to change as the longest path through the raw events does, within 2 % of a step.
"""

import argparse
import bisect
import collections
import gzip
import json
import subprocess
import sys

CATEGORIES = {"operator": "cpu_op", "runtime": "cuda_runtime", "cuda_driver": "cuda_runtime", "memcpy": "gpu_memcpy",
              "memset": "gpu_memset"}
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
TOLERATED = 0.02  # of a step
HAND_OVER, APART, CLOCK = 30_000, 20_000, 1_000  # ns: silence of a thread; more than a latency; between clocks
SILENCE = 1_000_000  # ns: the longest that counts as work
BEHIND = 0.05  # of the time: the GPU falls behind the host


def nanoseconds(text):
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def load(path):
    with gzip.open(path) as file:
        trace = json.loads(file.read(), parse_float=str)
    events = []
    for raw in trace["traceEvents"]:
        if raw.get("ph") != "X" or "dur" not in raw:
            continue
        category = str(raw.get("cat", "")).lower()
        arguments = raw.get("args", {})
        start = nanoseconds(raw["ts"])
        events.append({"category": CATEGORIES.get(category, category), "name": raw["name"], "start": start,
                       "end": start + nanoseconds(raw["dur"]), "thread": (str(raw["pid"]), str(raw["tid"])),
                       "correlation": arguments.get("correlation"), "bytes": arguments.get("bytes", 0),
                       "stream": f"{arguments.get('device')}/{arguments.get('stream')}",
                       "warps": float(arguments.get("warps per SM", 0)),
                       "record": arguments.get("wait_on_cuda_event_record_corr_id"),
                       "record_stream": f"{arguments.get('device')}/{arguments.get('wait_on_stream')}"})
    return events


class Graph:
    """Nodes with a length; edges (node, lag) to those that have to end before."""

    def __init__(self):
        self.lengths, self.recorded, self.before, self.gpu = [], [], [], []

    def add(self, length, recorded, before, gpu=None):
        self.lengths.append(max(length, 0))
        self.recorded.append(recorded)
        self.before.append([edge for edge in before if edge[0] is not None])
        self.gpu.append(gpu)
        return len(self.lengths) - 1

    def ends(self, factor, delayed):
        """The end of each node. factor(event) scales work on the GPU; delayed: {node: ns}."""
        count = len(self.lengths)
        after, waits = [[] for _ in range(count)], [len(edges) for edges in self.before]
        for node, edges in enumerate(self.before):
            for earlier, _ in edges:
                after[earlier].append(node)
        ready = [node for node in range(count) if waits[node] == 0]
        ends = [0.0] * count
        for node in ready:
            start = max([ends[earlier] + lag for earlier, lag in self.before[node]], default=0) + delayed.get(node, 0)
            scale = factor(self.gpu[node]) if self.gpu[node] is not None else 1
            ends[node] = start + self.lengths[node] * scale
            for later in after[node]:
                waits[later] -= 1
                if waits[later] == 0:
                    ready.append(later)
        assert len(ready) == count, "events wait for each other in a circle"
        return ends


def median(values, otherwise):
    return sorted(values)[len(values) // 2] if values else otherwise


def frees_memory(call):
    return call.endswith(("Free", "MemFree_v2", "HostFree")) and "Async" not in call


def is_sync(call):
    return any(word in call for word in ("Synchronize", "QueueFinish", "EventWait")) or frees_memory(call)


def waits_for_all(call):
    return any(word in call for word in ("Device", "Ctx", "Context", "Thread")) or frees_memory(call)


def lasts_until_end(call, work):
    """Whether the call has waited for what it started."""
    if work is None:
        return False
    blocks = "Memcpy" in call["name"] and "Async" not in call["name"]
    if not work["end"] - CLOCK <= call["end"] <= work["end"] + SILENCE:
        return False
    is_copy = work["category"] == "gpu_memcpy"
    if blocks:
        return True
    if is_copy and ("DtoD" in work["name"] or "Pinned" in work["name"]):
        return False
    is_short = work["end"] < call["start"] + APART if is_copy else work["end"] - work["start"] < APART
    return not is_short and call["end"] <= work["end"] + max(APART, 0.05 * (call["end"] - call["start"]))


class Recording:
    def __init__(self, path):
        self.events = load(path)
        self.on_gpu = sorted((e for e in self.events if e["category"] in ON_GPU), key=lambda e: e["start"])
        self.calls = sorted((e for e in self.events if e["category"] == "cuda_runtime"),
                            key=lambda e: (e["start"], -e["end"]))
        self.started = {e["correlation"]: e for e in self.on_gpu}
        self.launched = [(c["start"], self.started[c["correlation"]], c) for c in self.calls
                         if c["correlation"] in self.started]
        self.call_of = {id(work): call for _, work, call in self.launched}
        self.steps = sorted((e for e in self.events if e["name"].startswith("ProfilerStep#")
                             and e["category"] in ("cpu_op", "user_annotation")), key=lambda e: e["start"])
        self.find_busy()
        self.find_latencies()
        self.build()

    def find_busy(self):
        threads = collections.defaultdict(list)
        for e in self.events:
            if e["category"] in ("cpu_op", "cuda_runtime") and not e["name"].startswith("ProfilerStep#"):
                threads[e["thread"]].append(e)
        self.busy = {}
        for thread, events in threads.items():
            if not any(e["category"] == "cpu_op" or e["correlation"] in self.started or is_sync(e["name"])
                       for e in events):
                continue  # asks only
            intervals = []
            for e in sorted(events, key=lambda e: (e["start"], -e["end"])):
                if intervals and e["start"] <= intervals[-1][1]:
                    intervals[-1][1] = max(intervals[-1][1], e["end"])
                else:
                    intervals.append([e["start"], e["end"]])
            self.busy[thread] = intervals

    def waiting_for_events(self):
        """What is launched first after its thread has told the stream to wait."""
        stated = {e["correlation"]: e["stream"] for e in self.events
                  if e["category"] == "cuda_sync" and e["record"] is not None}
        waiting, told = set(), collections.defaultdict(set)
        for call in self.calls:
            if "StreamWaitEvent" in call["name"]:
                told[call["thread"]].add(stated.get(call["correlation"], "next"))
            work = self.started.get(call["correlation"])
            if work is None:
                continue
            if told[call["thread"]] & {"next", work["stream"]}:
                waiting.add(id(work))
            told[call["thread"]] -= {"next", work["stream"]}
        return waiting

    def find_latencies(self):
        alone, latencies, gaps, free = [], [], [], {}
        waiting = self.waiting_for_events()
        for work in self.on_gpu:
            before = free.get(work["stream"])
            call = self.call_of.get(id(work))
            if call is not None and id(work) not in waiting:
                if before is None or call["start"] > before + APART:
                    latencies.append(max(work["start"] - call["start"], 0))
                    if not free or call["start"] > max(free.values()) + APART:
                        alone.append(latencies[-1])
                elif call["start"] < before - APART:
                    gaps.append(max(work["start"] - before, 0))
            free[work["stream"]] = max(before or 0, work["end"])
        self.latency = median(alone or latencies, 10_000)
        self.gap = min(median(gaps, 1_000), self.latency)
        ends = sorted(work["end"] for _, work, _ in self.launched)
        depth = max((i + 1 - bisect.bisect_right(ends, start) for i, (start, _, _) in enumerate(self.launched)),
                    default=0)
        self.depth = depth if depth >= 1000 else None

    def is_silent_since(self, thread, when):
        """The end of what the thread did last, if it does nothing at the date."""
        intervals = self.busy[thread]
        i = bisect.bisect_right([interval[0] for interval in intervals], when) - 1
        return intervals[i][1] if i >= 0 and intervals[i][1] <= when else None

    def points(self):
        for thread, intervals in self.busy.items():
            for i, (start, end) in enumerate(intervals):
                if i == 0 or start - intervals[i - 1][1] > HAND_OVER:
                    yield start, 1, "wake", thread, None
                if i + 1 == len(intervals) or intervals[i + 1][0] - end > HAND_OVER:
                    yield end, 3, "sleep", thread, None
        last = {}
        for call in self.calls:
            matters = (call["correlation"] in self.started or is_sync(call["name"])
                       or "StreamWaitEvent" in call["name"])
            if call["thread"] in self.busy and matters and call["start"] >= last.get(call["thread"], 0):
                last[call["thread"]] = call["end"]
                yield call["start"], 2, "call", call["thread"], call
        for number, step in enumerate(self.steps):
            yield step["start"], 0, "step", step["thread"], number
        if self.steps:
            yield self.steps[-1]["end"], 0, "step", self.steps[-1]["thread"], len(self.steps)

    def build(self):
        graph = self.graph = Graph()
        begin = min([e["start"] for e in self.on_gpu[:1] + self.steps[:1]] + [b[0][0] for b in self.busy.values()])
        reached, sleeps = {}, collections.defaultdict(list)
        self.marks, began, returning = {}, {}, []

        def go_on(thread, when):
            node, since = reached.get(thread, (None, begin))
            node = graph.add(when - since, (since, when), [(node, 0)])
            reached[thread] = (node, when)
            return node

        for when, _, kind, thread, what in sorted(self.points(), key=lambda p: (p[0], p[1], str(p[3]))):
            if kind == "wake":
                own = reached.get(thread)
                wakers = [(since, other) for other in self.busy if other != thread and sleeps[other]
                          for since in [self.is_silent_since(other, when)] if since is not None
                          if own is None or sleeps[other][-1][0] > own[1]]
                if not wakers:
                    go_on(thread, when)
                    continue
                since, node = max(sleeps[other][-1] for _, other in wakers)
                reached[thread] = (graph.add(when - since, (since, when), [(node, 0), (own[0] if own else None, 0)]), when)
            elif kind == "sleep":
                sleeps[thread].append((when, go_on(thread, when)))
            elif kind == "step":
                self.marks[what] = go_on(thread, when)
            else:
                began[id(what)] = go_on(thread, when)
                work = self.started.get(what["correlation"])
                staged = work is not None and "Pageable" in work["name"] and (
                    "DtoH" in work["name"] or work["bytes"] > 65536)
                lasts = lasts_until_end(what, work)
                syncs = is_sync(what["name"]) and not (frees_memory(what["name"]) and what["end"] - what["start"] <= APART)
                if syncs or staged or lasts or (self.depth and work is not None):
                    returning.append((go_on(thread, what["end"]), what, work if staged or lasts else None))
        self.add_gpu(began)
        self.add_returns(returning)

    def add_gpu(self, began):
        graph, latest = self.graph, {}
        self.node, self.on_stream = {}, collections.defaultdict(list)
        self.stream_before = {}
        for work in self.on_gpu:
            call = self.call_of.get(id(work))
            before = [(latest.get(work["stream"]), self.gap)]
            if call is not None:
                before.append((began[id(call)], self.latency))
            node = graph.add(work["end"] - work["start"], (work["start"], work["end"]), before, work)
            self.stream_before[node] = latest.get(work["stream"])
            self.node[id(work)] = latest[work["stream"]] = node
            if call is not None:
                self.on_stream[work["stream"]].append((call["start"], node))
        for nodes in self.on_stream.values():
            nodes.sort()
        self.add_stream_waits()
        filling = []
        for work in self.on_gpu:
            node = self.node[id(work)]
            ready = max([graph.recorded[earlier][1] + lag for earlier, lag in graph.before[node]], default=0)
            filling = [k for k in filling if k["end"] + APART >= work["start"]]
            if work["category"] == "kernel" and work["start"] > ready + APART:
                for k in filling:
                    tail = max(APART, int(0.05 * (k["end"] - k["start"])))
                    if k["stream"] != work["stream"] and abs(k["end"] - work["start"]) <= tail:
                        graph.before[node].append((self.node[id(k)], 0))
                        break
            if work["category"] == "kernel" and work["warps"] >= 64:
                filling.append(work)

    def latest_on(self, stream, launched, ended):
        nodes = self.on_stream.get(stream, [])
        for i in range(bisect.bisect_right([when for when, _ in nodes], launched) - 1, -1, -1):
            if self.graph.recorded[nodes[i][1]][1] <= ended:
                return nodes[i][1]
        return None

    def add_stream_waits(self):
        stated = {e["correlation"]: e for e in self.events if e["category"] == "cuda_sync" and e["record"] is not None}
        records = {c["correlation"]: c["start"] for c in self.calls}
        waiting = collections.defaultdict(list)
        for call in self.calls:
            if "StreamWaitEvent" in call["name"]:
                sync = stated.get(call["correlation"])
                if sync is None:
                    waiting[call["thread"]].append(call)
                    continue
                nodes = self.on_stream.get(sync["stream"], [])
                later = bisect.bisect_right([when for when, _ in nodes], call["start"])
                if sync["record"] in records and later < len(nodes):
                    earlier = self.latest_on(sync["record_stream"], records[sync["record"]], float("inf"))
                    if earlier is not None:
                        self.graph.before[nodes[later][1]].append((earlier, 0))
                continue
            work = self.started.get(call["correlation"])
            if work is None:
                continue
            for wait in waiting.pop(call["thread"], []):
                candidates = [self.latest_on(stream, wait["start"], work["start"] + CLOCK)
                              for stream in self.on_stream if stream != work["stream"]]
                candidates = [node for node in candidates if node is not None]
                if candidates:
                    last = max(candidates, key=lambda node: self.graph.recorded[node][1])
                    self.graph.before[self.node[id(work)]].append((last, 0))

    def add_returns(self, returning):
        graph = self.graph
        order = [work for _, work, _ in self.launched]
        place = {id(work): i for i, work in enumerate(order)}
        for node, call, staged in returning:
            awaited = []
            if staged is not None:
                own = self.node[id(staged)]
                awaited = [own if staged["end"] <= call["end"] else self.stream_before[own]]
            elif is_sync(call["name"]):
                streams = list(self.on_stream)
                if not waits_for_all(call["name"]):
                    mine = [work["stream"] for when, work, other in self.launched
                            if other["thread"] == call["thread"] and when < call["start"]]
                    streams = mine[-1:]
                awaited = [self.latest_on(stream, call["start"], call["end"] + CLOCK) for stream in streams]
                if frees_memory(call["name"]) and awaited != [self.latest_on(stream, call["start"], float("inf"))
                                                              for stream in streams]:
                    awaited = []  # it did not wait
            work = self.started.get(call["correlation"])
            if self.depth and work is not None and place[id(work)] >= self.depth - 1:
                awaited.append(self.node[id(order[place[id(work)] - self.depth + 1])])
            for earlier in awaited:
                if earlier is None:
                    continue
                graph.before[node].append((earlier, 0))
                left = graph.recorded[node][1] - graph.recorded[earlier][1]
                graph.lengths[node] = max(0, min(graph.lengths[node], left))

    def gpu_steps(self):
        """The first work on the GPU of each step and of what comes after, where the host's marks say nothing."""
        count = len(self.steps)
        marks = [step["start"] for step in self.steps] + [self.steps[-1]["end"]]
        done, launched = [None] * (count + 1), [[] for _ in range(count + 1)]
        for start, work, _ in self.launched:
            step = bisect.bisect_right(marks, start)
            if step <= count:
                done[step] = max(done[step] or 0, work["end"])
            if step > 0:
                launched[step - 1].append(work)
        for i in range(1, count + 1):
            done[i] = max(done[i] or 0, done[i - 1] or 0) or None
        behind = [max((when or mark) - mark, 0) for when, mark in zip(done, marks)]
        since = 1 if count > 2 else 0
        if behind[count] - behind[since] <= max(BEHIND * (marks[count] - marks[since]), APART):
            return None
        if not all(launched[:count]):
            return None
        first = [min(works, key=lambda work: work["start"]) for works in launched if works]
        return first, None if launched[count] else max(launched[count - 1], key=lambda work: work["end"])

    def step_times(self, factor=lambda event: 1, delayed_stream=None, delay=0):
        """Of each marked step, or of the whole recording if there is none."""
        delayed = {}
        if delayed_stream is not None:
            delayed[min(node for _, node in self.on_stream[delayed_stream])] = delay
        ends = self.graph.ends(factor, delayed)
        if not self.steps:
            return [max(ends) * 1e-9]
        marks = [ends[self.marks[i]] for i in range(len(self.marks))]
        on_gpu = self.gpu_steps()
        if on_gpu is not None:
            first, last = on_gpu
            length = lambda work: self.graph.lengths[self.node[id(work)]] * factor(work)
            marks = [ends[self.node[id(work)]] - length(work) for work in first]
            if last is not None:
                marks.append(ends[self.node[id(last)]])
        return [(b - a) * 1e-9 for a, b in zip(marks, marks[1:])]


def is_collective(event):
    return "nccl" in event["name"].lower()


def replayed(program, trace, has_steps, *options):
    result = subprocess.run([program, "replay", trace, "--json", "--force", *options], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{trace} {options}: {result.stderr}")
    report = json.loads(result.stdout)
    steps = report["steps"] if has_steps else [report["whole"]]
    return [step.get("changed_s", step["replayed_s"]) for step in steps], [step["measured_s"] for step in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("traces", nargs="+")
    arguments = parser.parse_args()
    failures = 0
    for trace in arguments.traces:
        recording = Recording(trace)
        own = recording.step_times()
        base, measured = replayed(arguments.program, trace, recording.steps)
        busiest = max(recording.on_stream, key=lambda stream: len(recording.on_stream[stream]))
        changes = [("kernels halved", ["--scale", "kernels=0.5"],
                    {"factor": lambda e: 0.5 if e["category"] == "kernel" and not is_collective(e)
                     and not is_copy_kernel(e["name"]) else 1}),
                   ("collectives halved", ["--scale", "collective=0.5"],
                    {"factor": lambda e: 0.5 if is_collective(e) else 1}),
                   (f"stream {busiest} delayed by 30 ms", ["--delay", f"{busiest}=30ms"],
                    {"delayed_stream": busiest, "delay": 30_000_000})]
        for name, options, change in changes:
            theirs, _ = replayed(arguments.program, trace, recording.steps, *options)
            ours = recording.step_times(**change)
            worst = max(abs((a - b) - (c - d)) / m for a, b, c, d, m in zip(theirs, base, ours, own, measured))
            total = sum(theirs) - sum(base)
            print(f"{trace.split('/')[-1]}: {name}: {1e3 * total:+.3f} ms in {len(base)} steps; "
                  f"off the critical path's change by at most {100 * worst:.2f} % of a step")
            failures += worst > TOLERATED
    sys.exit(1 if failures else 0)


def is_copy_kernel(name):
    lower = name.lower()
    for word, is_copy in (("flash", 0), ("fmha", 0), ("attention", 0), ("softmax", 0), ("multi_tensor_apply", 0), ("adam", 0),
                          ("embedding", 0), ("bn_", 0), ("batch_norm", 0), ("batchnorm", 0), ("layer_norm", 0),
                          ("layernorm", 0), ("welford", 0), ("pool", 0), ("convertt", 1), ("nchwtonhwc", 1),
                          ("nhwctonchw", 1), ("wgrad", 0), ("dgrad", 0), ("fprop", 0), ("scudnn", 0), ("winograd", 0),
                          ("conv", 0), ("computeoffsets", 0), ("gemm", 0), ("gemv", 0), ("cutlass", 0), ("dot_kernel", 0),
                          ("splitk", 0), ("reduce", 0), ("catarray", 1), ("copy", 1)):
        if word in lower:
            return is_copy
    return False


if __name__ == "__main__":
    main()
