"""Kernels of a profiled run with the operators that launched them. Needs no PyTorch for traces that are there."""
import bisect
import collections
import json
import os
import tempfile
import warnings

DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
RUNTIME_CATEGORIES = {"cuda_runtime", "cuda_driver"}
MARK = "measured|"  # before the names of the ranges that a caller marks
Kernel = collections.namedtuple("Kernel", "case phase kernel operator outermost shapes types count mean_s")


class Spans:
    """Nested spans of one thread; finds those that contain a time."""

    def __init__(self, events):
        self.events = sorted(events, key=lambda event: (event["ts"], -event.get("dur", 0)))
        self.starts = [event["ts"] for event in self.events]
        self.ends = [event["ts"] + event.get("dur", 0) for event in self.events]
        self.parents, open_spans = [], []
        for index, start in enumerate(self.starts):
            while open_spans and self.ends[open_spans[-1]] < start:
                open_spans.pop()
            self.parents.append(open_spans[-1] if open_spans else None)
            open_spans.append(index)

    def containing(self, time):
        """Innermost first."""
        found, index = [], bisect.bisect_right(self.starts, time) - 1
        while index is not None and index >= 0:
            if self.ends[index] >= time:
                found.append(self.events[index])
            index = self.parents[index]
        return found


def by_thread(events):
    threads = collections.defaultdict(list)
    for event in events:
        threads[event.get("tid")].append(event)
    return {thread: Spans(events) for thread, events in threads.items()}


def as_shapes(dims):
    """1x128;128x64 for [[1, 128], [128, 64], []]; scalars and lists of tensors show as nothing and as (...)."""
    if not isinstance(dims, list):
        return ""
    one = lambda shape: "x".join(map(str, shape)) if all(isinstance(n, int) for n in shape) else "(" + as_shapes(shape) + ")"
    return ";".join(one(shape) if isinstance(shape, list) else "" for shape in dims).rstrip(";")[:200]


class Launches:
    """Finds, for a kernel of the trace, when and below which operators it was launched."""

    def __init__(self, events):
        of = lambda categories: [e for e in events if e.get("cat") in categories and e.get("ph") == "X"]
        self.operators = by_thread(of({"cpu_op"}))
        self.runtime = {e["args"].get("correlation"): e for e in of(RUNTIME_CATEGORIES) if "args" in e}
        self.by_id = {e["args"].get("External id"): e for e in of({"cpu_op"}) if "args" in e}
        self.marks = Spans([e for e in of({"user_annotation"}) if e["name"].startswith(MARK)])
        self.kernels = of(DEVICE_CATEGORIES)

    def place(self, kernel):
        """(time of the launch, operators that contain it, innermost first)"""
        arguments = kernel.get("args", {})
        launch = self.runtime.get(arguments.get("correlation"))
        near = self.by_id.get(arguments.get("External id"))
        if launch is None:
            return (near["ts"], [near]) if near else (kernel["ts"], [])
        spans = self.operators.get(launch.get("tid"))
        around = spans.containing(launch["ts"]) if spans else []
        return launch["ts"], around or ([near] if near else [])

    def mark(self, time):
        found = self.marks.containing(time)
        return found[0]["name"][len(MARK):].rsplit("|", 1) if found else ("", "")


def kernels_of(events):
    """Rows of equal case, phase, name, operators and shapes together, in the order of their first launches."""
    launches = Launches(events)
    groups = collections.OrderedDict()
    for kernel in sorted(launches.kernels, key=lambda event: event["ts"]):
        time, around = launches.place(kernel)
        case, phase = launches.mark(time)
        arguments = around[0].get("args", {}) if around else {}
        types = arguments.get("Input type", [])
        key = (case, phase, kernel["name"], around[0]["name"] if around else "", around[-1]["name"] if around else "",
               as_shapes(arguments.get("Input Dims")), ";".join(map(str, types)).rstrip(";")[:120])
        groups.setdefault(key, []).append(kernel.get("dur", 0) * 1e-6)
    return [Kernel(*key, len(times), sum(times) / len(times)) for key, times in groups.items()]


def processor_operators(events, marks):
    """The same rows for processors: operators that call no other stand for kernels. `events` are FunctionEvents."""
    groups = collections.OrderedDict()
    is_operator = lambda event: not event.name.startswith(MARK)
    for event in events:
        if not is_operator(event) or any(is_operator(child) for child in event.cpu_children):
            continue
        outer = event
        while outer.cpu_parent is not None and is_operator(outer.cpu_parent):
            outer = outer.cpu_parent
        inside = [m for m in marks if m.time_range.start <= event.time_range.start <= m.time_range.end]
        case, phase = inside[-1].name[len(MARK):].rsplit("|", 1) if inside else ("", "")
        parent = event.cpu_parent if event.cpu_parent is not None and is_operator(event.cpu_parent) else event
        key = (case, phase, event.name, parent.name, outer.name, as_shapes(event.input_shapes), "")
        groups.setdefault(key, []).append((event.time_range.end - event.time_range.start) * 1e-6)
    return [Kernel(*key, len(times), sum(times) / len(times)) for key, times in groups.items()]


def read_trace(profile):
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profile.export_chrome_trace(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            trace = json.load(file, strict=False)
    finally:
        os.remove(path)
    return trace["traceEvents"] if isinstance(trace, dict) else trace


def profiled(bench, runs):
    """Kernels of `runs`, triples of case, phase and work; what a run raises is returned as {case: error}."""
    from torch.profiler import ProfilerActivity, profile, record_function

    errors = {}
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if bench.is_gpu else [])
    warnings.filterwarnings("ignore", message=".*clears events at the end of each cycle")  # there is one cycle
    with profile(activities=activities, record_shapes=True) as recorded:
        for case, phase, work in runs:
            if case in errors:
                continue
            with record_function(f"{MARK}{case}|{phase}"):
                try:
                    work()
                except Exception as error:  # told by the caller; the others go on
                    errors[case] = error
        bench.synchronize()
    if bench.is_gpu:
        return kernels_of(read_trace(recorded)), errors
    events = list(recorded.events())
    return processor_operators(events, [event for event in events if event.name.startswith(MARK)]), errors
