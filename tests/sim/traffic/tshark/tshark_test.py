#!/usr/bin/env python3
"""What `rehearse traffic` counts is what tshark counts, to the byte and the frame: per directed TCP flow, per millisecond, in all,
and of payload that was sent again.

Without --with-tshark one capture is compared with tshark's figures as figures.json keeps them (--refresh writes them). With it tshark itself
is asked, of that capture in other formats and of the captures of simulated runs; where it is not installed the test says so and passes.

tshark's io,stat rounds times after the first frame to whole microseconds, (ns + 500) / 1000, before it chooses a frame's bin: its bins are
compared with those of a capture whose times are rounded like that, and the bins of exact times with sums over frame.time_relative.
"""
import argparse
import collections
import csv
import gzip
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

kHere = pathlib.Path(__file__).resolve().parent
kRoot = kHere.parents[3]
kFigures = kHere / "figures.json"
kCapture = kHere / "conversations.pcap"
kNanosecondMagic = 0xA1B23C4D
kMillisecond = 1_000_000  # ns
kFields = ["frame.time_relative", "frame.len", "tcp.stream", "ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.len",
          "tcp.analysis.retransmission", "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission", "tcp.analysis.out_of_order"]


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {result.returncode}: {result.stderr}")
    return result.stdout


def nanoseconds(seconds):
    """Of a text such as "1.918716261"."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int((fraction + "000000000")[:9])


def tshark_figures(capture):
    """One pass of tshark: sums of its fields, its io,stat, and its own counts of each TCP stream."""
    options = [part for field in kFields for part in ("-e", field)]
    text = run("tshark", "-r", capture, "-T", "fields", *options, "-z", "io,stat,0.001")
    flows, bins, streams = collections.defaultdict(lambda: [0, 0]), collections.Counter(), collections.Counter()
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") == len(kFields) - 1]
    again = [0, 0]  # frames and payload behind what was sent before: what tshark calls retransmitted or out of order
    for time, length, stream, v4_from, v6_from, v4_to, v6_to, from_port, to_port, payload, *is_again in rows:
        bins[nanoseconds(time) // kMillisecond] += int(length)
        if stream:
            streams[stream] += int(length)
            if any(is_again) and int(payload):
                again[0] += 1
                again[1] += int(payload)
            flow = flows[f"{v4_from or v6_from} {from_port} > {v4_to or v6_to} {to_port}"]
            flow[0] += 1
            flow[1] += int(length)
    io_stat = {}
    for start, frames, size in re.findall(r"^\|\s*([\d.]+) <> \S+\s*\|\s*(\d+) \|\s*(\d+) \|$", text, re.MULTILINE):
        if int(frames):
            io_stat[nanoseconds(start) // kMillisecond] = int(size)
    filters = "".join(f",tcp.stream=={stream}" for stream in sorted(streams, key=int))
    whole = run("tshark", "-r", capture, "-q", "-z", "io,stat,0" + filters)
    counts = [int(count) for count in re.findall(r"\d+", [line for line in whole.splitlines() if "<>" in line][-1].split("|", 2)[2])]
    if counts[1::2] != [streams[stream] for stream in sorted(streams, key=int)]:
        raise SystemExit(f"{capture}: io,stat and the sums of frame.len differ: {counts[1::2]}")
    return {"frames": len(rows), "bytes": sum(bins.values()), "again": again, "flows": dict(sorted(flows.items())),
            "bins_ms": text_keys(bins), "io_stat_ms": text_keys(io_stat)}


def text_keys(counts):
    return {str(key): counts[key] for key in sorted(counts)}


def traffic_figures(program, capture, folder):
    """The same of `rehearse traffic`; without io_stat_ms."""
    run(program, "traffic", capture, "--quiet", "-o", folder)
    total = json.loads((folder / "traffic.json").read_text())["total"]
    flows = {}
    with open(folder / "flows.csv") as file:
        for row in csv.DictReader(file):
            if row["protocol"] == "6":
                flows[f"{row['from']} {row['from_port']} > {row['to']} {row['to_port']}"] = [int(row["packets"]), int(row["size_B"])]
    with gzip.open(folder / "bins.csv.gz", "rt") as file:
        bins = {round(float(row["time_s"]) * 1000): int(row["size_B"]) for row in csv.DictReader(file) if not row["from"]}
    return {"frames": total["packets"], "bytes": total["size_B"], "again": [total["retransmitted_packets"], total["retransmitted_B"]], "flows": dict(sorted(flows.items())), "bins_ms": text_keys(bins)}


def records(path):
    """Each frame's time in ns, its header's lengths and its bytes, of a little-endian pcap with nanoseconds."""
    content = path.read_bytes()
    assert struct.unpack_from("<I", content)[0] == kNanosecondMagic, path
    at = 24
    while at < len(content):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", content, at)
        yield seconds * 10**9 + fraction, captured, length, content[at + 16 : at + 16 + captured]
        at += 16 + captured


def write_rounded(captures, folder):
    """Copies whose times after the first frame of all are whole microseconds, to the nearest."""
    origin = min(next(records(path))[0] for path in captures)
    for path in captures:
        with open(folder / path.name, "wb") as file:
            file.write(path.read_bytes()[:24])
            for time, captured, length, frame in records(path):
                rounded = origin + (time - origin + 500) // 1000 * 1000
                file.write(struct.pack("<IIII", rounded // 10**9, rounded % 10**9, captured, length) + frame)


class Comparison:
    def __init__(self, program):
        self.program, self.failed = program, 0

    def expect(self, what, ours, theirs):
        if ours == theirs:
            return
        self.failed += 1
        if isinstance(ours, dict):
            ours, theirs = ({key: side.get(key) for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)} for side in (ours, theirs))
        print(f"{what}: traffic has {ours}, tshark {theirs}")

    def compare(self, name, captures, theirs):
        """`captures` are the files of one run; `theirs` are tshark's figures of all of them."""
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            (folder / "in").mkdir()
            for path in captures:
                shutil.copy(path, folder / "in")
            ours = traffic_figures(self.program, folder / "in", folder / "out")
            for key, value in ours.items():
                self.expect(f"{name}: {key}", value, theirs[key])
            if all(path.read_bytes()[:4] == struct.pack("<I", kNanosecondMagic) for path in captures):
                write_rounded(captures, folder / "in")
            rounded = traffic_figures(self.program, folder / "in", folder / "rounded")
            self.expect(f"{name}: io,stat", rounded["bins_ms"], theirs["io_stat_ms"])
        moved = sum(ours["bins_ms"].get(key, 0) != value for key, value in theirs["io_stat_ms"].items())
        print(f"{name}: {theirs['frames']} frames, {theirs['bytes']} bytes, {theirs['again'][1]} of payload again, {len(theirs['flows'])} flows, {len(theirs['bins_ms'])} bins;"
              f" {moved} bins of io,stat differ by its rounding")


def compare_formats(comparison):
    """The capture as pcapng with nanoseconds, and as pcap and pcapng with microseconds."""
    with tempfile.TemporaryDirectory() as made:
        for name, options in {"ns.pcapng": ["-F", "pcapng"], "us.pcap": ["-F", "pcap"], "us.pcapng": ["-F", "pcapng"]}.items():
            source = pathlib.Path(made, "us.pcap") if name == "us.pcapng" else kCapture
            path = pathlib.Path(made, name)
            run("editcap", *options, source, path)
            theirs = tshark_figures(path)
            if name == "ns.pcapng":  # which write_rounded() does not write
                theirs["io_stat_ms"] = theirs["bins_ms"]
            comparison.compare(name, [path], theirs)


def compare_texts(comparison, theirs):
    """What tshark writes of the capture as text: JSON of all fields and of some, tables between tabs and others."""
    fields = ["frame.time_epoch", "frame.len", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport", "udp.srcport",
              "udp.dstport", "tcp.len", "tcp.seq_raw"]
    some = [part for field in fields for part in ("-e", field)]
    tables = {f"{name}.csv": ["-T", "fields", "-E", "header=y", "-E", "occurrence=f", "-E", f"quote={quote}", "-E", f"separator={separator}", *some]
              for name, separator, quote in (("tabs", "/t", "n"), ("commas", ",", "d"), ("bars", "|", "s"), ("spaces", "/s", "n"))}
    theirs = {**theirs, "io_stat_ms": theirs["bins_ms"]}  # write_rounded() does not write these
    with tempfile.TemporaryDirectory() as made:
        for name, options in {"all.json": ["-T", "json"], "some.json": ["-T", "json", *some], **tables}.items():
            path = pathlib.Path(made, name)
            path.write_text(run("tshark", "-r", kCapture, *options))
            comparison.compare(name, [path], theirs)
            packed = pathlib.Path(made, name + ".gz")
            packed.write_bytes(gzip.compress(path.read_bytes()))
            comparison.compare(packed.name, [packed], theirs)


def compare_packed(comparison, theirs):
    theirs = {**theirs, "io_stat_ms": theirs["bins_ms"]}  # write_rounded() does not write these
    with tempfile.TemporaryDirectory() as made:
        packed, archive = pathlib.Path(made, "c.pcap.gz"), pathlib.Path(made, "c.tar.gz")
        packed.write_bytes(gzip.compress(kCapture.read_bytes()))
        with tarfile.open(archive, "w:gz") as file:
            file.add(kCapture, kCapture.name)
        for path in (packed, archive):
            comparison.compare(path.name, [path], theirs)


def compare_runs(comparison):
    """A step of each setting of the study, and a lossy one."""
    cases = [(path, "0") for path in sorted((kRoot / "scenarios/tum").glob("*.json"))]
    cases.append((kRoot / "scenarios/tum/tensorflow-ring.json", "0.02"))
    for path, loss in cases:
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            run(comparison.program, "simulate", path, "--quiet", "--pcap", folder / "pcap", "--set", "/training/steps=1", "--set",
                "/workload/model=tum/mobilenet_v2", "--set", f"/cluster/network/packet_loss={loss}")
            captures = sorted((folder / "pcap").glob("*.pcap"))
            run("mergecap", "-w", folder / "all.pcapng", *captures)
            comparison.compare(f"{path.stem}, loss {loss}", captures, tshark_figures(folder / "all.pcapng"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--with-tshark", action="store_true")
    parser.add_argument("captures", nargs="*", type=pathlib.Path, help="others than the committed one, with --with-tshark")
    parser.add_argument("--refresh", action="store_true", help="write figures.json anew, by tshark")
    arguments = parser.parse_args()
    if arguments.refresh:
        kFigures.write_text(json.dumps(tshark_figures(kCapture), indent=0) + "\n")
    comparison = Comparison(arguments.program)
    figures = json.loads(kFigures.read_text())
    if not arguments.with_tshark:
        comparison.compare(kCapture.name, [kCapture], figures)
        compare_packed(comparison, figures)
        return comparison.failed > 0
    if missing := [tool for tool in ("tshark", "editcap", "mergecap") if not shutil.which(tool)]:
        print(f"nothing was compared: {', '.join(missing)} not installed (Debian package tshark)")
        return 0
    for path in arguments.captures:
        theirs = tshark_figures(path)
        if path.read_bytes()[:4] != struct.pack("<I", kNanosecondMagic):  # write_rounded() leaves it as it is
            theirs["io_stat_ms"] = theirs["bins_ms"]
        comparison.compare(path.name, [path], theirs)
    if arguments.captures:
        return comparison.failed > 0
    comparison.expect("figures.json", figures, tshark_figures(kCapture))
    compare_formats(comparison)
    compare_texts(comparison, figures)
    compare_runs(comparison)
    return comparison.failed > 0


if __name__ == "__main__":
    sys.exit(main())
