#!/usr/bin/env python3
"""Time of each reader against the size of its input, of inputs made to be slow:  tests/bench/hostile_inputs.py [--build build]

Of each kind of file that the program reads: much of one thing (streams, threads, steps, equal names, unknown keys, edges at one node, a
chain, long names, deep nesting ...). A case is run at its full size; where that takes more than --slow seconds of the processor's time,
also at a quarter and at half of it, and the exponent e of time ~ size^e is printed: 1 is linear. Printed, not judged; a row is marked
where e > 1.3 or the time is above 2 s. Most inputs are refused, with one line: that counts as read.

  tests/bench/hostile_inputs.py --only kineto            # kinds or cases by a part of their name
  tests/bench/hostile_inputs.py --size 2.5 --limit 10    # MB; seconds after which a run is ended
"""
import argparse
import json
import math
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "fuzz"))
from structure.mutations import without_comments  # noqa: E402
from structure.shipped import read_text  # noqa: E402

kCases = []  # (name, function that writes a file of about `size` bytes at `path`, function of the path that gives the command)


def fill(begin, piece, end, size, between=","):
    """`begin`, then piece(0), piece(1), ... until there are `size` bytes, then `end`."""
    parts, length, i = [], 0, 0
    while length < size:
        part = piece(i)
        parts.append(part)
        length += len(part) + len(between)
        i += 1
    return begin + between.join(parts) + end


def count_for(size, bytes_of_one):
    return max(1, int(size / bytes_of_one))


def add(name, text, command, suffix=".json"):
    """`text(size)`: contents, str or bytes."""
    kCases.append((name, text, command, suffix))


# ---- Traces of PyTorch's profiler

def event(kind, name, lane, start, duration, correlation=None, **more):
    on_gpu = kind in ("kernel", "gpu_memcpy", "cuda_sync")
    arguments = {"stream": lane, "device": 0} if on_gpu else {}
    if correlation is not None:
        arguments["correlation"] = correlation
    arguments.update(more)
    return json.dumps({"ph": "X", "cat": kind, "name": name, "pid": 0 if on_gpu else 1, "tid": lane, "ts": start, "dur": duration, "args": arguments},
                      separators=(",", ":"))


def launch(i, start, stream=7, thread=1, duration=1, gpu_start=None, name="gemm", **more):
    return (event("cuda_runtime", "cudaLaunchKernel", thread, start, 1, i) + "," +
            event("kernel", name, stream, start + 2 if gpu_start is None else gpu_start, duration, i, **more))


def trace(piece):
    return lambda size: fill('{"traceEvents":[', piece, "]}", size)


def replay(path):
    return ["replay", path]


def kineto(name, piece):
    add("kineto: " + name, trace(piece), replay)


def halves(first, second):
    """The first kind of event until half of the size, then the other."""
    def text(size):
        a = fill("", first, "", size / 2)
        return '{"traceEvents":[' + a + "," + fill("", second, "", size / 2) + "]}"
    return text


kineto("one stream", lambda i: launch(i, 10 * i))
kineto("a stream for each kernel", lambda i: launch(i, 10 * i, stream=i))
kineto("a thread for each call", lambda i: launch(i, 10 * i, thread=i))
kineto("a thread and a stream for each", lambda i: launch(i, 10 * i, thread=i, stream=i))
kineto("threads that sleep and wake", lambda i: launch(i, 100 * i, thread=i % 5000))
kineto("threads that are all at work at once", lambda i: event("cpu_op", "aten::mm", i % 20000, 100 * i, 10**7) if i else launch(0, 0))
kineto("one correlation number", lambda i: launch(1, 10 * i))
kineto("one correlation number, many threads", lambda i: launch(1, 10 * i, thread=i))
kineto("many steps", lambda i: event("user_annotation", f"ProfilerStep#{i}", 1, 10 * i, 9) + "," + launch(i, 10 * i))
kineto("steps of one date", lambda i: event("user_annotation", f"ProfilerStep#{i}", 1, 0, 9) + "," + launch(i, 10 * i))
kineto("GPU behind the host, many steps", lambda i: event("user_annotation", f"ProfilerStep#{i}", 1, 10 * i, 9) + "," + launch(i, 10 * i, duration=99, gpu_start=100 * i))
kineto("a long queue", lambda i: launch(i, i, duration=100, gpu_start=10**6 + 100 * i))
kineto("all at one date", lambda i: launch(i, 0, gpu_start=0))
kineto("nested operators", lambda i: event("cpu_op", "aten::mm", 1, i, 10**9 - 2 * i) if i else launch(0, 0))
kineto("device synchronizations", lambda i: launch(i, 40 * i, stream=i % 8000) + "," + event("cuda_runtime", "cudaDeviceSynchronize", 1, 40 * i + 5, 20, 10**6 + i))
add("kineto: device synchronizations after many streams", halves(lambda i: launch(i, 10 * i, stream=i), lambda i: event("cuda_runtime", "cudaDeviceSynchronize", 1, 10**7 + 40 * i, 20, 10**7 + i)), replay)
add("kineto: device synchronizations, nothing ends", halves(lambda i: launch(i, 10 * i, stream=i, duration=10**9), lambda i: event("cuda_runtime", "cudaDeviceSynchronize", 1, 10**7 + 40 * i, 20, 10**7 + i)), replay)
add("kineto: frees, nothing ends", halves(lambda i: launch(i, 10 * i, stream=i, duration=10**9), lambda i: event("cuda_runtime", "cudaFree", 1, 10**7 + 40 * i, 20, 10**7 + i)), replay)
add("kineto: frees, the last stream has not ended", halves(lambda i: launch(i, 10 * i, stream=i, duration=10**9 if i % 1000 == 999 else 1), lambda i: event("cuda_runtime", "cudaFree", 1, 10**7 + 40 * i, 20, 10**7 + i)), replay)
add("kineto: device synchronizations of many threads", halves(lambda i: launch(i, 10 * i, stream=i), lambda i: event("cuda_runtime", "cudaDeviceSynchronize", i + 2, 10**7 + 40 * i, 20, 10**7 + i)), replay)
kineto("stream synchronizations", lambda i: launch(i, 40 * i, stream=i % 8000) + "," + event("cuda_runtime", "cudaStreamSynchronize", 1, 40 * i + 5, 20, 10**6 + i))
add("kineto: stream synchronizations without a launch between", halves(lambda i: launch(i, 10 * i), lambda i: event("cuda_runtime", "cudaStreamSynchronize", 1, 10**7 + 40 * i, 20, 10**7 + i)), replay)
kineto("waits of streams for events", lambda i: event("cuda_runtime", "cudaStreamWaitEvent", 1, 40 * i, 1, 10**6 + i) + "," + launch(i, 40 * i + 5, stream=i % 8000))
kineto("waits of streams, nothing has ended", lambda i: event("cuda_runtime", "cudaStreamWaitEvent", 1, 40 * i, 1, 10**6 + i) + "," + launch(i, 40 * i + 5, stream=i % 8000, duration=10**8))
add("kineto: waits of streams before one launch", halves(lambda i: event("cuda_runtime", "cudaStreamWaitEvent", 1, 40 * i, 1, 10**6 + i), lambda i: launch(i, 10**8 + 40 * i, stream=i)), replay)
kineto("stated waits", lambda i: event("cuda_runtime", "cudaStreamWaitEvent", 1, 40 * i, 1, 10**6 + i) + "," + event("cuda_sync", "Stream Wait Event", i % 8000, 40 * i, 1, 10**6 + i, wait_on_stream=(i + 1) % 8000, wait_on_cuda_event_record_corr_id=i // 2) + "," + launch(i, 40 * i + 5, stream=i % 8000))
kineto("kernels that fill the GPU", lambda i: launch(i, 10 * i, stream=i % 8000, duration=10**6, **{"warps per SM": 100}))
kineto("kernels that fill the GPU, of one stream", lambda i: launch(i, 10 * i, stream=i % 2, duration=10**6, gpu_start=10 * i + 5, **{"warps per SM": 100}))
kineto("gradients", lambda i: event("cpu_op", "torch::autograd::AccumulateGrad", 1, 10 * i + 5, 1) + "," + (launch(i, 10 * i) if i == 0 else event("cuda_runtime", "cudaStreamSynchronize", 1, 10 * i, 1)))
kineto("collectives", lambda i: launch(i, 40 * i, stream=i % 8000, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"))
kineto("collectives inside of many annotations", lambda i: event("user_annotation", "nccl:all_reduce", 1, i, 1, **{"Input Dims": [[1]], "Input type": ["float"]}) + "," + launch(i, 40 * i, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"))
kineto("data loaders and silences", lambda i: event("user_annotation", "enumerate(DataLoader)", 1, 3000 * i, 2900) + "," + launch(i, 3000 * i + 2950))
kineto("silences without copies", lambda i: event("cuda_runtime", "cudaStreamSynchronize", 1, 3000 * i, 1) if i else launch(0, 0))
kineto("a name for each kernel", lambda i: launch(i, 10 * i, name=f"kernel_{i}"))
kineto("long names", lambda i: launch(i, 10 * i, name=f"k{i}" + "<a,(b)::" * 500))
kineto("names of open brackets", lambda i: launch(i, 10 * i, name=f"k{i}" + "<" * 4000))
kineto("copies that block", lambda i: event("cuda_runtime", "cudaMemcpy", 1, 40 * i, 20, i) + "," + event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", i % 8000, 40 * i + 2, 18, i, bytes=10**6))
kineto("unknown keys", lambda i: launch(i, 10 * i, **{f"key {i} {k}": 1 for k in range(100)}))
kineto("equal keys", lambda i: '{"ph":"X",' + '"name":"a",' * 1000 + '"x":1}' if i else launch(0, 0))
kineto("shapes", lambda i: event("cpu_op", "aten::mm", 1, 10 * i, 5, **{"Input Dims": [[1] * 50] * 50}) if i else launch(0, 0))
kineto("one after the other, in a circle of waits", lambda i: launch(i, 10**6 - i, stream=i % 2, gpu_start=i))
add("kineto: backwards in time", lambda size: fill('{"traceEvents":[', lambda i: launch(i, 10**7 - 10 * i), "]}", size), replay)
add("kineto: no trace", lambda size: fill('{"traceEvents":[{"a":', lambda i: "[", "", size, ""), replay)
add("kineto: one long string", lambda size: '{"traceEvents":[{"name":"' + "x" * int(size) + '"}]}', replay)
add("kineto: a long key", lambda size: '{"traceEvents":[{"' + "x" * int(size) + '":1}]}', replay)
add("kineto: unknown keys of the root", lambda size: fill("{", lambda i: f'"key{i}":1', ',"traceEvents":[]}', size), replay)


# ---- Chakra

def node(i, kind=4, wait=(), control=(), runtime=5, name="a", **more):
    return json.dumps({"Id": i, "Name": name, "NodeType": kind, "ctrlDeps": list(control), "data_deps": list(wait), "runtime": runtime, "is_cpu_op": False, **more},
                      separators=(",", ":"))


def chakra(name, piece):
    add("chakra: " + name, lambda size: fill('{"workload_graph":[', piece, "]}", size), replay)


chakra("a chain", lambda i: node(i, wait=[i - 1] if i else []))
chakra("a chain of control", lambda i: node(i, control=[i - 1] if i else []))
chakra("a chain backwards", lambda i: node(i, wait=[i + 1]))
chakra("all wait for one", lambda i: node(i, wait=[0] if i else []))
add("chakra: one waits for all", lambda size: (lambda n: '{"workload_graph":[' + ",".join([node(i) for i in range(n)] + [node(n, wait=range(n))]) + "]}")(count_for(size, 100)), replay)
add("chakra: many wait for many", lambda size: (lambda n: '{"workload_graph":[' + ",".join([node(i, wait=range(max(0, i - 300), i)) for i in range(n)]) + "]}")(count_for(size, 2000)), replay)
chakra("nothing waits", lambda i: node(i))
chakra("collectives", lambda i: node(i, kind=7, name="ncclDevKernel_AllReduce"))
chakra("a stream for each", lambda i: node(i, attr=[{"name": "stream", "int64_val": i}, {"name": "tid", "int64_val": i}]))
chakra("streams and collectives", lambda i: node(i, kind=7 if i % 2 else 4, name="ncclDevKernel_AllReduce" if i % 2 else "gemm", stream=i, attrs=[{"name": "stream", "type": "int64", "value": i}], inputs={"values": []}))
chakra("one number", lambda i: node(1))
chakra("waits for what is not there", lambda i: node(i, wait=[10**9 + i]))


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out) + bytes([value])


def field(number, payload):
    return varint(8 * number + 2) + varint(len(payload)) + payload if isinstance(payload, bytes) else varint(8 * number) + varint(payload)


def et(name, piece):
    def text(size):
        parts, length, i = [varint(len(field(1, b"0.0.4"))) + field(1, b"0.0.4")], 0, 0
        while length < size:
            message = piece(i)
            parts.append(varint(len(message)) + message)
            length += len(parts[-1])
            i += 1
        return b"".join(parts)
    add("chakra et: " + name, text, replay, ".et")


def et_node(i, waits=(), kind=4, attributes=b""):
    return field(1, i) + field(2, b"kernel") + field(3, kind) + b"".join(field(5, wait) for wait in waits) + field(7, 5) + attributes


et("a chain", lambda i: et_node(i, [i - 1] if i else []))
et("a chain backwards", lambda i: et_node(i, [i + 1]))
et("all wait for one", lambda i: et_node(i, [0] if i else []))
et("nothing waits", lambda i: et_node(i))
et("streams and collectives", lambda i: et_node(i, [], 7 if i % 2 else 4, field(10, field(1, b"is_cpu_op") + field(27, 0)) + field(10, field(1, b"stream") + field(9, i))))
et("attributes", lambda i: et_node(i, [], 4, b"".join(field(10, field(1, b"a%d" % k) + field(9, k)) for k in range(1000))))


# ---- Execution traces of PyTorch, beside a profiler's

def with_profile(path):
    small = path + ".kineto.json"
    with open(small, "w", encoding="utf-8") as file:
        file.write('{"traceEvents":[' + ",".join([event("cpu_op", "record_param_comms", 2, 10 * i, 5, **{"Record function id": i}) + "," + launch(i, 10 * i) for i in range(2000)]) + "]}")
    return ["replay", small, path]


def et_text(i, **more):
    return json.dumps({"id": i + 2, "name": "record_param_comms", "ctrl_deps": max(1, i), "inputs": {"values": [[[4, 4, 0, 100, 4, "cuda:0"]]], "shapes": [[[100]]], "types": ["GenericList[Tensor(float)]"]},
                       "outputs": {"values": [], "shapes": [], "types": []}, "attrs": [{"name": "rf_id", "type": "uint64", "value": i % 2000}, {"name": "tid", "type": "uint64", "value": 2}], **more})


for name, piece in (("a chain", lambda i: et_text(i)), ("all below one", lambda i: et_text(i, ctrl_deps=1)), ("one record", lambda i: et_text(i, id=5)),
                    ("groups", lambda i: et_text(i, name="## process_group:init ##", inputs={"values": [json.dumps([{"pg_name": str(k), "ranks": [0, 1]} for k in range(200)])], "shapes": [[]], "types": ["String"]})),
                    ("shapes", lambda i: et_text(i, inputs={"values": [[[4, 4, 0, 100, 4, "cuda:0"]] * 100], "shapes": [[[1] * 100] * 100], "types": ["Tensor(float)"] * 100}))):
    add("pytorch et: " + name, lambda size, piece=piece: fill('{"schema":"1.1.0-chakra.0.0.4","nodes":[' + et_text(-1, ctrl_deps=1) + ",", piece, "]}", size), with_profile)


# ---- Packets

def pcap(name, packet):
    def text(size):
        parts, length, i = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)], 0, 0
        while length < size:
            second, data = packet(i)
            parts.append(struct.pack("<IIII", second, 1 + i % 999999, len(data), len(data)) + data)
            length += len(parts[-1])
            i += 1
        return b"".join(parts)
    add("pcap: " + name, text, lambda path: ["traffic", path], ".pcap")


def frame(source, target, source_port=1000, target_port=2000, size=100, sequence=0):
    tcp = struct.pack(">HHIIBBHHH", source_port, target_port, sequence, 0, 0x50, 0x10, 100, 0, 0)
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + size, 0, 0, 64, 6, 0, source, target)
    return b"\0" * 12 + b"\x08\0" + ip + tcp + b"x" * min(size, 4)


pcap("one flow", lambda i: (i // 1000, frame(1, 2, sequence=100 * i)))
pcap("a flow for each packet", lambda i: (i // 1000, frame(1, 2, i % 60000, i // 60000)))
pcap("an address for each packet", lambda i: (i // 1000, frame(i, i + 1)))
pcap("a second for each packet", lambda i: (i, frame(1, 2)))
pcap("an hour for each packet", lambda i: (3600 * i % 2**31, frame(1, 2)))
pcap("backwards", lambda i: (10**6 - i, frame(1, 2, sequence=2**31 - 100 * i)))
pcap("one sequence number", lambda i: (i // 1000, frame(1, 2)))
pcap("empty frames", lambda i: (0, b""))


def pcapng(name, blocks):
    def block(kind, body):
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    def text(size):
        parts, length, i = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)), block(1, struct.pack("<HHI", 1, 0, 65535))], 0, 0
        while length < size:
            parts.append(b"".join(block(*one) for one in blocks(i)))
            length += len(parts[-1])
            i += 1
        return b"".join(parts)
    add("pcapng: " + name, text, lambda path: ["traffic", path], ".pcapng")


def enhanced(i, data, interface=0):
    return (6, struct.pack("<IIIII", interface, 0, 1000 * i, len(data), len(data)) + data)


pcapng("one flow", lambda i: [enhanced(i, frame(1, 2))])
pcapng("an interface for each packet", lambda i: [(1, struct.pack("<HHI", 1, 0, 65535)), enhanced(i, frame(1, 2), i)])
pcapng("sections", lambda i: [(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)), (1, struct.pack("<HHI", 1, 0, 65535)), enhanced(i, frame(1, 2))])
pcapng("unknown blocks", lambda i: [(77, b"")])
pcapng("options", lambda i: [(1, struct.pack("<HHI", 1, 0, 65535) + struct.pack("<HH", 2, 0) * 1000)])


# ---- Tables

def table(name, columns, row, command, between="\n", suffix=".csv", last=""):
    """`last`: a row that is refused when all others have been read, so that nothing is simulated."""
    add(name, lambda size: fill(columns + "\n", row, "\n" + last + "\n", size, between), command, suffix)


def traffic(path):
    return ["traffic", path]


kPackets = "frame.time\tip.src\tip.dst\ttcp.srcport\ttcp.dstport\tframe.interface_name\tframe.len"
for name, row in (("one flow", lambda i: f"2020-09-13T12:26:{i % 60:02d}.5+0000\t10.0.0.1\t10.0.0.2\t1\t2\teth0\t90"),
                  ("addresses", lambda i: f"2020-09-13T12:26:42.5+0000\t10.{i // 65536 % 256}.{i // 256 % 256}.{i % 256}\t10.0.0.2\t1\t2\teth0\t90"),
                  ("interfaces", lambda i: f"2020-09-13T12:26:42.5+0000\t10.0.0.1\t10.0.0.2\t1\t2\teth{i}\t90"),
                  ("empty fields", lambda i: "2020-09-13T12:26:42.5+0000\t\t\t\t\t\t90"), ("blank", lambda i: "")):
    table("packet table: " + name, kPackets, row, traffic, suffix=".tsv")
add("packet table: columns", lambda size: fill("frame.time\tip.src\tip.dst\tframe.len\t", lambda i: f"c{i}", "\n" + "1\t" * 100, size, "\t"), traffic, ".tsv")


def beside(document, key, make_command):
    """A command on a document in which `key` (a path of keys and indices) names the hostile file."""
    def command(path):
        at = os.path.join(ROOT, document)
        node = absolute(json.loads(without_comments(read_text(at))), os.path.dirname(at))
        inner = node
        for part in key[:-1]:
            inner = inner[part]
        inner[key[-1]] = path
        study = path + ".study.json"
        with open(study, "w", encoding="utf-8") as file:
            json.dump(node, file)
        return make_command(study)
    return command


def absolute(node, folder):
    if isinstance(node, dict):
        return {key: absolute(value, folder) for key, value in node.items()}
    if isinstance(node, list):
        return [absolute(value, folder) for value in node]
    if isinstance(node, str) and "/" in node and not node.startswith("/") and len(node) < 300 and os.path.exists(os.path.join(folder, node)):
        return os.path.normpath(os.path.join(folder, node))
    return node


def validate(path):
    return ["validate", path]


def calibrate(path):
    return ["calibrate", path, "--steps", "0"]


kSteps = beside("scenarios/studies/own/step-times.json", ["measurements"], validate)
kBad = "1,32,bad"
for name, columns, row in (("rows", "workers,batch,step_time_s", lambda i: f"{i + 1},{i + 1},1"), ("equal rows", "workers,batch,step_time_s", lambda i: "1,32,1"),
                           ("quotes", "workers,batch,step_time_s", lambda i: '"1","""""""""",""'), ("blank lines", "workers,batch,step_time_s", lambda i: "")):
    table("measurements: " + name, columns, row, kSteps, last=kBad)
add("measurements: columns", lambda size: fill("workers,batch,step_time_s,", lambda i: f"c{i}", "\n1\n", size), kSteps, ".csv")
add("measurements: columns without a known one", lambda size: (lambda n: ",".join(f"wokers{i}" for i in range(n)) + "\n" + ",".join("1" for _ in range(n)) + "\n")(count_for(size, 14)), kSteps, ".csv")
add("measurements: one field", lambda size: "workers,batch,step_time_s\n1,2," + "9" * int(size) + "\n", kSteps, ".csv")
add("measurements: no line end", lambda size: "x" * int(size), kSteps, ".csv")
add("measurements: invisible characters", lambda size: "workers,batch,step_time_s\n" + "\u00e9" * int(size / 2) + ",1,1\n", kSteps, ".csv")

kNccl = beside("scenarios/studies/own/collectives.json", ["measurements", "file"], validate)
kNcclHead = ("# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 100 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
             "#  Rank  0 Group  0 Pid   1000 on node-1 device  0 [0x1c] NVIDIA A100\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n")
kNcclEnd = "\n# Out of bounds values : 1 FAILED\n"  # refused when all has been read, so that nothing is simulated
for name, line in (("rows", lambda i: f"{8 + 8 * i} 2 float sum -1 26.0 0.00 0.00 0 25.0 0.00 0.00 0"), ("devices", lambda i: f"#  Rank {i} Group  0 Pid {i} on node-{i} device  0 [0x1c] NVIDIA A100"),
                   ("other lines", lambda i: "NCCL INFO nothing"), ("prefixes", lambda i: f"[1,{i}]<stdout>: 8 2 float sum -1 26.0 0.00 0.00 0 25.0 0.00 0.00 0"), ("blanks", lambda i: " " * 1000), ("long lines", lambda i: "8 " * 100000)):
    add("nccl-tests: " + name, lambda size, line=line: fill(kNcclHead, line, kNcclEnd, size, "\n"), kNccl, ".log")
add("nccl-tests: one line", lambda size: kNcclHead + "8 " * int(size / 2) + kNcclEnd, kNccl, ".log")

kIperf = beside("scenarios/studies/own/link.json", ["measurements", "file"], validate)
kStream = '{"socket":5,"start":0,"end":1,"seconds":1,"bytes":1000,"bits_per_second":8000,"omitted":false}'
kIperfStart = '{"start":{"test_start":{"protocol":"TCP","num_streams":1}},'  # without an "end" it is refused when all intervals have been read
for name, begin, piece, end in (("intervals", kIperfStart + '"intervals":[', lambda i: '{"streams":[' + kStream + '],"sum":' + kStream + "}", "]}"),
                                ("streams", kIperfStart + '"intervals":[{"streams":[', lambda i: kStream.replace("5", str(i), 1), '],"sum":' + kStream + "}]}"),
                                ("equal keys", kIperfStart, lambda i: '"socket":1', ',"intervals":[]}'), ("keys", kIperfStart, lambda i: f'"interval{i}":1', ',"intervals":[]}')):
    add("iperf3: " + name, lambda size, begin=begin, piece=piece, end=end: fill(begin, piece, end, size), kIperf)
add("iperf3: a line for each event", lambda size: fill('{"event":"start","data":{"test_start":{"protocol":"TCP","num_streams":1}}}\n', lambda i: '{"event":"interval","data":{"streams":[' + kStream + '],"sum":' + kStream + "}}", "\n", size, "\n"), kIperf)

kKernels = beside("scenarios/studies/own/kernels.json", ["measurements", "file"], validate)
table("kernel table: rows", "kind,m,n,k,precision,time_ms", lambda i: f"gemm,{i + 1},1,1,fp32,1", kKernels, last="gemm,1,1,1,fp32,bad")
table("kernels of a study: names", "gpu,m,n,k,time_us", lambda i: f"GPU {i},1,1,1,1", beside("scenarios/studies/kernels-bf16-products.json", ["tables", 0, "file"], calibrate))

kLogs = beside("scenarios/studies/training-logs-example.json", ["logs", 0, "file"], calibrate)
kLogColumns = "cluster,worker,instance,gpus,batch,step,seconds_per_batch,loss,exchanged_B,exchange_s"
for name, row in (("steps", lambda i: f"a,0,p3.2xlarge,1,64,{i},0.5,4.5,200,0.1"), ("workers", lambda i: f"a,{i},p3.2xlarge,1,64,1,0.5,4.5,200,0.1"), ("clusters", lambda i: f"a{i},0,p3.2xlarge,1,64,1,0.5,4.5,200,0.1"),
                  ("batches", lambda i: f"a,0,p3.2xlarge,1,{i + 1},1,0.5,4.5,200,0.1"), ("instances", lambda i: f"a,0,i{i},1,64,1,0.5,4.5,200,0.1")):
    table("training logs: " + name, kLogColumns, row, kLogs)


def one_series(columns):
    def command(path):
        study = path + ".study.json"
        with open(study, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "kind": "lifetimes", "series": [{"name": "a", "source": "s", "rows": "fleet", "file": path, **columns}]}, file)
        return ["calibrate", study]
    return command


for name, columns, row, last in (("nodes", "time_s,event,node", lambda i: f"{i},{'add' if i % 2 == 0 else 'remove'},n{i // 2}", "bad,add,n"), ("all there at once", "time_s,event,node", lambda i: f"{i},add,n{i}", "bad,add,n"),
                                 ("numbers", "time_h,instances", lambda i: f"{i},{i % 7}", "bad,1"), ("one date", "time_s,event,node", lambda i: f"0,add,n{i}", "")):
    table("fleet trace: " + name, columns, row, one_series({}), last=last)
def played_back(path):
    return ["simulate", os.path.join(ROOT, "scenarios/cm-dare-spot.json"), "--set", "/cluster/groups/1/spot_pool=" + json.dumps({"replay": path}), "--set", "/training/steps=40"]


add("fleet trace: machines that go backwards, played back", lambda size: (lambda n: "time_s,event,node\n" + "".join(f"{i // 9},add,{i}\n" for i in range(n)) + "".join(f"{n},remove,{i}\n" for i in reversed(range(n))))(count_for(size, 36)), played_back, ".csv")

kHistory = lambda path: ["remaining", os.path.join(ROOT, "scenarios/cm-dare.json"), "--set", "/training/steps=64000", "--step", "32096", "--lost", "1", "--history", path]
table("history: rows", "case,revocation_step,total_steps,measured_remaining_s", lambda i: f"{i},1,64000,3000", kHistory, last="0,1,64000,bad")


# ---- Models of other tools

def convert(path):
    return ["import", path, "-o", path + ".out.json"]


def pipedream(name, text):
    add("pipedream: " + name, text, convert, ".txt")


def dream(i):
    return f"node{i} -- Linear(in_features=4, out_features=6, bias=True) -- forward_compute_time=1.5, backward_compute_time=2.0, activation_size=48.0, parameter_size=120.0"


pipedream("a chain", lambda size: (lambda n: "\n".join([dream(i) for i in range(n)] + [f"\tnode{i} -- node{i + 1}" for i in range(n - 1)]) + "\n")(count_for(size, 170)))
pipedream("all from one", lambda size: (lambda n: "\n".join([dream(i) for i in range(n)] + [f"\tnode0 -- node{i}" for i in range(1, n)]) + "\n")(count_for(size, 170)))
pipedream("equal edges", lambda size: dream(0) + "\n" + dream(1) + "\n" + "\tnode0 -- node1\n" * count_for(size, 16))
pipedream("a long line", lambda size: dream(0) + " " * int(size) + "\n")
pipedream("activations", lambda size: dream(0).replace("48.0", "[" + "; ".join(["1.0"] * count_for(size, 5)) + "]") + "\n")

add("tensorflow: a chain", lambda size: fill("", lambda i: f'node {{ name: "n{i}" op: "Relu" input: "n{max(0, i - 1)}" }}' if i else 'node { name: "n0" op: "Placeholder" }', "\n", size, "\n"), convert, ".pbtxt")
add("tensorflow: a chain backwards", lambda size: fill("", lambda i: f'node {{ name: "n{i}" op: "Relu" input: "n{i + 1}" }}', "\n", size, "\n"), convert, ".pbtxt")
add("tensorflow: all from one", lambda size: fill("", lambda i: f'node {{ name: "n{i}" op: "Relu" input: "n0" }}' if i else 'node { name: "n0" op: "Placeholder" }', "\n", size, "\n"), convert, ".pbtxt")
add("tensorflow: one name", lambda size: fill("", lambda i: 'node { name: "n" op: "Relu" }', "\n", size, "\n"), convert, ".pbtxt")
add("tensorflow: inputs of one", lambda size: 'node { name: "n0" op: "Placeholder" }\nnode { name: "n1" op: "AddN" ' + 'input: "n0" ' * count_for(size, 12) + "}\n", convert, ".pbtxt")
add("tensorflow: attributes", lambda size: 'node { name: "n0" op: "Placeholder" ' + "".join(f'attr {{ key: "a{i}" value {{ i: 1 }} }} ' for i in range(count_for(size, 36))) + "}\n", convert, ".pbtxt")
add("tensorflow: variables", lambda size: fill("", lambda i: f'node {{ name: "w{i}" op: "VariableV2" attr {{ key: "_output_shapes" value {{ list {{ shape {{ dim {{ size: 3 }} }} }} }} }} }}', "\n", size, "\n"), convert, ".pbtxt")
add("tensorflow: nesting", lambda size: "node { " * count_for(size, 7), convert, ".pbtxt")


def onnx(name, graph):
    add("onnx: " + name, lambda size: field(1, 8) + field(8, field(2, 13)) + field(7, graph(size)), convert, ".onnx")


def onnx_node(inputs, output, kind=b"Relu"):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind))


def onnx_value(number, name):
    return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 1)) + field(1, field(1, 8))))))


def onnx_weight(name):
    return field(5, field(1, 8) + field(1, 8) + field(2, 1) + field(8, name) + field(9, b"x" * 256))


onnx("a chain", lambda size: b"".join(onnx_node([b"n%d" % i], b"n%d" % (i + 1)) for i in range(count_for(size, 30))) + onnx_value(11, b"n0") + onnx_value(12, b"n1"))
onnx("a chain backwards", lambda size: b"".join(onnx_node([b"n%d" % (i + 1)], b"n%d" % i) for i in range(count_for(size, 30))) + onnx_value(11, b"n0"))
onnx("all from one", lambda size: b"".join(onnx_node([b"n0"], b"n%d" % (i + 1)) for i in range(count_for(size, 28))) + onnx_value(11, b"n0"))
onnx("products", lambda size: b"".join(onnx_node([b"n%d" % i, b"w%d" % i], b"n%d" % (i + 1), b"MatMul") + onnx_weight(b"w%d" % i) for i in range(count_for(size, 330))) + onnx_value(11, b"n0"))
onnx("weights", lambda size: b"".join(onnx_weight(b"w%d" % i) for i in range(count_for(size, 290))) + onnx_value(11, b"n0"))
onnx("inputs of one", lambda size: onnx_node([b"n0"] * count_for(size, 4), b"n1", b"Sum") + onnx_value(11, b"n0"))

table("neusight: rows", "name,op,target,inputs,input_shapes,output_shape,dtype,fw_ms,bw_ms,acc_ms", lambda i: f'n{i},call_module,wte,n{i - 1},"[[2, 8]]","(2, 8, 4)",torch.float32,1.5,2.0,0.25' if i else 'n0,placeholder,ids,,[],"(2, 8)",torch.int64,0.0,0.0,0.0', convert)
table("neusight: all from one", "name,op,target,inputs,input_shapes,output_shape,dtype,fw_ms,bw_ms,acc_ms", lambda i: f'n{i},call_module,wte,n0,"[[2, 8]]","(2, 8, 4)",torch.float32,1.5,2.0,0.25' if i else 'n0,placeholder,ids,,[],"(2, 8)",torch.int64,0.0,0.0,0.0', convert)
add("paleo: a chain", lambda size: fill('{"name":"n","layers":{', lambda i: f'"l{i}":{{"parents":["l{i - 1}"],"type":"Dropout","dropout_keep_prob":1}}' if i else '"l0":{"parents":[],"type":"Input","tensor":[2,8,8,3]}', "}}", size), convert)
add("paleo: all from one", lambda size: fill('{"name":"n","layers":{', lambda i: f'"l{i}":{{"parents":["l0"],"type":"Dropout","dropout_keep_prob":1}}' if i else '"l0":{"parents":[],"type":"Input","tensor":[2,8,8,3]}', "}}", size), convert)
for name, source in (("a chain", lambda i: f"n{i - 1}"), ("all from one", lambda i: "n0"), ("a chain backwards", lambda i: f"n{i + 1}")):
    add("torch graph: " + name, lambda size, source=source: fill('{"torch_graph":1,"model":"M","torch":"2","nodes":[', lambda i: json.dumps({"name": f"n{i}", "op": "call_function", "type": "add", "inputs": [source(i)] * 2, "shape": [2, 16], "dtype": "float32"}) if i else '{"name":"n0","op":"placeholder","type":"ids","inputs":[],"shape":[2,16],"dtype":"int64"}', "]}", size), convert)
add("huggingface: labels", lambda size: fill('{"model_type":"bert","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":1,"intermediate_size":8,"vocab_size":8,"max_position_embeddings":8,"id2label":{', lambda i: f'"{i}":"LABEL_{i}"', "}}", size), convert)
add("huggingface: unknown keys", lambda size: fill('{"model_type":"bert",', lambda i: f'"hiden_size{i}":1', "}", size), convert)


# ---- Files of one's own: each list and each object of a shipped one grown, and what any JSON reader has to bear

def grown(document, place, kind):
    """The document with its list or object at `place` grown to a size, as `kind` says."""
    def text(size):
        node = json.loads(json.dumps(document))
        inner = node
        for part in place:
            inner = inner[part]
        mark = "@grown@"
        def named(value, i):
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                return {**value, "name": f"{value['name']}-{i}"}
            return f"{value}-{i}" if isinstance(value, str) and kind == "other" else value
        if isinstance(inner, list):
            first = inner[0]
            one = (lambda i: json.dumps(named(first, i))) if kind == "other" else (lambda i: json.dumps(first))
            inner[:] = [mark]
            return json.dumps(node).replace(f'"{mark}"', fill("", one, "", size))
        first = next(iter(inner.values()), 1)
        key = next(iter(inner), "a")
        piece = {"unknown": lambda i: f'"{key}{i}": 1', "other": lambda i: f'"{key}-{i}": {json.dumps(first)}', "equal": lambda i: f'{json.dumps(key)}: {json.dumps(first)}'}[kind]
        inner[mark] = 1
        return json.dumps(node).replace(f'"{mark}": 1', fill("", piece, "", size))
    return text


def containers(node, place=(), seen=None):
    """Places of lists and objects, one of each kind: indices and names of maps do not tell them apart."""
    seen = set() if seen is None else seen
    pattern = tuple("*" if isinstance(part, int) else part for part in place)
    if isinstance(node, (dict, list)) and node and pattern not in seen and len(place) < 9:
        seen.add(pattern)
        yield place, node
        for key, value in (node.items() if isinstance(node, dict) else enumerate(node[:2])):
            yield from containers(value, (*place, key), seen)


def json_kind(kind, document, command, most=40):
    path = os.path.join(ROOT, document)
    node = absolute(json.loads(without_comments(read_text(path))), os.path.dirname(path))
    for number, (place, inner) in enumerate(containers(node)):
        if number == most:
            break
        for how in ("equal", "other") if isinstance(inner, list) else ("unknown", "other", "equal"):
            add(f"{kind}: {how} in /{'/'.join(map(str, place))}", grown(node, place, how), command)
    add(f"{kind}: nesting", lambda size: '{"format":1,"name":' + "[" * int(size), command)
    add(f"{kind}: a long key", lambda size: '{"format":1,"' + "x" * int(size) + '":1}', command)
    add(f"{kind}: a long name", lambda size: json.dumps({**node, "name": "x" * int(size)}), command)
    add(f"{kind}: numbers", lambda size: fill('{"format":1,"name":[', lambda i: "1", "]}", size), command)
    add(f"{kind}: comments", lambda size: "// a\n" * int(size / 5) + json.dumps(node), command)
    add(f"{kind}: line ends", lambda size: "\n" * int(size) + '{"format":1,}', command)


def of_catalog(kind, words):
    def command(path):
        folder = os.path.join(path + ".catalog", kind)
        os.makedirs(folder, exist_ok=True)
        os.replace(path, os.path.join(folder, "mine.json"))
        return ["list", words, "--catalog", path + ".catalog"]
    return command


def with_model(path):
    return ["simulate", os.path.join(ROOT, "scenarios/dgx.json"), "--set", f"/workload/model={path}", "--dry-run"]


def simulate(path):
    return ["simulate", path, "--dry-run"]


json_kind("scenario", "scenarios/cm-dare-spot.json", simulate)
json_kind("scenario with layers", "scenarios/collective.json", simulate)
json_kind("sweep", "scenarios/sweeps/cm-dare-workers.json", lambda path: ["sweep", path, "--dry-run"])
json_kind("provision", "scenarios/provision/resnet110.json", lambda path: ["provision", path, "--deadline", "1s", "--target-loss", "0.8", "--plans", "1", "--runs", "1"])
json_kind("space", "scenarios/spaces/small.json", lambda path: ["generate", path, "--count", "1", "--dry-run"])
json_kind("study", "scenarios/studies/own/step-times.json", validate)
json_kind("study of lifetimes", "scenarios/studies/lifetimes/all.json", lambda path: ["calibrate", path], 12)
json_kind("study of logs", "scenarios/studies/training-logs-example.json", calibrate)
json_kind("list of studies", "scenarios/studies/own/traces.json", validate)
json_kind("model", "workloads/models/resnet50.json", with_model)
json_kind("model of layers", "workloads/models/alexnet.json", with_model)
json_kind("profile", "calibration/profiles/cm-dare.json", of_catalog("profiles", "profiles"), 25)
json_kind("accelerators", "platforms/catalog/accelerators.json", of_catalog("", "gpus"), 12)
json_kind("instances", "platforms/catalog/ec2.json", of_catalog("", "instances"), 12)
json_kind("pools", "platforms/catalog/spot_pools.json", of_catalog("", "spot_pools"), 12)
json_kind("measurement list", "tests/fuzz/corpus/measurement_list/profiles", lambda path: ["import", path, "-o", path + ".db"])


# ---- Queues of jobs, and runs of one's own

def queue_of(form):
    def command(path):
        document = {"format": 1, "name": "hostile", "cluster": {"groups": [{"name": "a", "gpu": "T4", "machines": 2, "gpus_per_machine": 4}]},
                    "trace": {"form": form, "file": path}, "policy": "fifo"}
        with open(path + ".queue.json", "w", encoding="utf-8") as file:
            json.dump(document, file)
        return ["queue", path + ".queue.json", "--quiet"]
    return command


kGavel = "cd a && python3 main.py\ta\t--num_steps\t1\t"
for name, form, columns, row, last in (
        ("gavel, rows", "gavel", "", lambda i: f"A (batch size 1)\t{kGavel}{i + 1}\t1\t1\t-1\t{i}", "bad"),
        ("gavel, types", "gavel", "", lambda i: f"A{i}\t{kGavel}1\t1\t1\t-1\t{i}", "bad"),
        ("csv, rows", "csv", "name,arrival_s,gpus,duration_s\n", lambda i: f"j{i},{i},1,10", "a,bad,1,1"),
        ("csv, equal names", "csv", "name,arrival_s,gpus,duration_s\n", lambda i: f"j,{i},1,10", "a,bad,1,1"),
        ("csv, columns", "csv", "name,arrival_s,gpus,duration_s," + ",".join(f"c{i}" for i in range(100000)) + "\n", lambda i: "a,1,1,1," + "," * 99999, "a,bad,1,1"),
        ("pollux, rows", "pollux", "name,time,application,num_replicas,batch_size\n", lambda i: f"a{i},{i},cifar10,1,128", "a,bad,cifar10,1,1"),
        ("alibaba, rows", "alibaba", "", lambda i: f"j{i},worker,1,Terminated,{i},{i + 9},600,29,50,T4", "bad"),
        ("alibaba, tasks of one job", "alibaba", "", lambda i: f"j,w{i},1,Terminated,{i},{i + 9},600,29,50,T4", "bad")):
    add("queue, trace: " + name, lambda size, columns=columns, row=row, last=last: fill(columns, row, "\n" + last + "\n", size, "\n"), queue_of(form), ".csv")
kAttempt = '{"start_time":"2017-10-07 01:09:15","end_time":"2017-10-07 02:09:15","detail":[{"ip":"m4","gpus":["gpu0"]}]}'
kPhilly = '{"status":"Pass","vc":"v","jobid":"%s","attempts":[%s],"submitted_time":"2017-10-07 01:09:11","user":"a"}'
for name, begin, piece, end in (("jobs", "[", lambda i: kPhilly % (i, kAttempt), ",{}]"), ("attempts", '[{"status":"Pass","attempts":[', lambda i: kAttempt, ']}]'),
                                ("gpus", '[{"status":"Pass","attempts":[{"start_time":"2017-10-07 01:09:15","detail":[{"ip":"m","gpus":[', lambda i: f'"gpu{i}"', "]}]}]}]")):
    add("queue, trace: philly, " + name, lambda size, begin=begin, piece=piece, end=end: fill(begin, piece, end, size), queue_of("philly"))
kSpeeds = beside("scenarios/queue/gavel-physical.json", ["speeds"], lambda path: ["queue", path, "--quiet"])
for name, row in (("rows", lambda i: f"a,V100,{i + 1},,2.5,100,256"), ("types", lambda i: f"a{i},V100,1,,2.5,100,256"), ("equal rows", lambda i: "a,V100,1,,2.5,100,256")):
    table("queue, speeds: " + name, "type,gpu,gpus,machines,steps_per_s,steps,samples_per_step", row, kSpeeds, last="a,V100,bad,,1,1,1")
json_kind("queue", "scenarios/queue/two-teams.json", lambda path: ["queue", path, "--policy", "fifo", "--quiet"])


def fit(path):
    return ["fit", os.path.join(ROOT, "scenarios/dgx.json"), path, "--steps", "0", "--quiet", "--max-wall-time", "1ms"]


for name, columns, row in (("rows", "gpus,batch_per_gpu,samples_per_s", lambda i: f"{i % 8 + 1},{i + 1},100"), ("equal rows", "gpus,samples_per_s", lambda i: "8,100"),
                           ("places", "gpus,samples_per_s," + ",".join(f"/workload/a{i}" for i in range(100000)), lambda i: "8,100," + "1," * 99999 + "1")):
    table("own runs: " + name, columns, row, fit, last="bad,1,1" if "batch" in columns else "bad,1")
kMegatron = " [2024-01-01 00:00:00] iteration %d/ 99999999 | consumed samples: 1 | elapsed time per iteration (ms): 100.0 | global batch size: 8 |"
for name, row in (("Megatron-LM", lambda i: kMegatron % i), ("DeepSpeed", lambda i: f"[2024-01-01 00:00:00,000] [INFO] [timer.py:1:stop] epoch=0/micro_step={i}/global_step={i}, RunningAvgSamplesPerSec=10, CurrSamplesPerSec=10"),
                  ("samples/sec", lambda i: f"step {i}: 10.0 samples/sec"), ("dictionaries", lambda i: "{'loss': 1.0, 'train_samples_per_second': 10.0}"), ("nothing known", lambda i: "INFO nothing")):
    add("own runs, log: " + name, lambda size, row=row: fill("", row, "\n", size, "\n"), lambda path: ["fit", os.path.join(ROOT, "scenarios/dgx.json"), "8=" + path, "--steps", "0", "--quiet", "--max-wall-time", "1ms"], ".log")


# ---- Results of runs

def result(changed):
    """`diff` of a run and the same with the file `changed`."""
    def command(path):
        run = path + ".run"
        for folder in (run, run + "-b"):
            shutil.copytree(os.path.join(options.scratch, "run"), folder)
        os.replace(path, os.path.join(run, changed))
        return ["diff", run, run + "-b"] if changed != "messages.csv" else ["traffic", run]
    return command


def add_results(scratch):
    run = os.path.join(scratch, "run")
    subprocess.run([options.program, "simulate", os.path.join(ROOT, "scenarios/cm-dare.json"), "--set", "/training/steps=10", "-o", run, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    for name in ("summary.json", "scenario.json", "effective.json"):
        if os.path.exists(os.path.join(run, name)):
            node = json.loads(read_text(os.path.join(run, name)))
            for place, inner in list(containers(node))[:25]:
                for how in ("equal", "other") if isinstance(inner, list) else ("unknown", "other"):
                    add(f"results, {name}: {how} in /{'/'.join(map(str, place))}", grown(node, place, how), result(name))
    header = "from,from_gpu,to,to_gpu,unit,step,start_s,end_s,arrival_s,size_B"
    for name, row in (("one pair", lambda i: f"a,0,b,0,3,0,{i},{i}.5,{i}.6,1000"), ("units", lambda i: f"a,0,b,0,{i},{i},0.5,0.75,0.76,1000"), ("machines", lambda i: f"a{i},0,b,0,3,0,0.5,0.75,0.76,1000")):
        if os.path.exists(os.path.join(run, "messages.csv")):
            table("results, messages.csv: " + name, header, row, result("messages.csv"))


# ---- Running

def processor_time(program, arguments, limit):
    """User and system time in s, and whether the run was ended."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen([program, *arguments, "--quiet"] if arguments[0] != "list" else [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))) as process:
        try:
            error = process.communicate(timeout=20 * limit)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            error = process.communicate()[1]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used, process.returncode, error.decode("utf-8", "replace").strip().split("\n")[-1]


def measure(case, size, scratch):
    _, text, command, suffix = case
    folder = tempfile.mkdtemp(dir=scratch)
    try:
        path = os.path.join(folder, "hostile" + suffix)
        content = text(size)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return processor_time(options.program, command(path), options.limit)
    finally:
        shutil.rmtree(folder)


def main():
    print(f"{'case':76} {'s at 1/4':>8} {'at 1/2':>8} {'full':>8} {'e':>5}")
    for case in kCases:
        if not any(word in case[0] for word in options.only):
            continue
        whole, code, error = measure(case, options.size * 1e6, options.scratch)
        times, exponent = [], math.nan
        if whole > options.slow:
            times = [measure(case, options.size * 1e6 * part, options.scratch)[0] for part in (0.25, 0.5)]
            exponent = math.log(whole / max(times[0], 1e-3), 4)
        cells = [f"{t:8.2f}" for t in times] or ["       -"] * 2
        marked = whole > 2 or exponent > 1.3 or code not in (0, 2, 3)
        if marked or not options.marked:
            print(f"{case[0][:76]:76} {' '.join(cells)} {whole:8.2f} {exponent:5.2f} {'!' if marked else ' '} {code} {error[:options.words]}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the program (default: build)")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names of cases")
    parser.add_argument("--size", type=float, default=10, help="MB (default: 10)")
    parser.add_argument("--slow", type=float, default=0.8, help="s of the processor's time from which the exponent is measured")
    parser.add_argument("--limit", type=int, default=20, help="s after which a run is ended")
    parser.add_argument("--marked", action="store_true", help="print only rows that are marked")
    parser.add_argument("--words", type=int, default=60, help="characters of the program's message that are printed")
    options = parser.parse_args()
    options.program = os.path.abspath(os.path.join(options.build, "rehearse"))
    with tempfile.TemporaryDirectory(prefix="rehearse-hostile-") as options.scratch:
        add_results(options.scratch)
        main()
