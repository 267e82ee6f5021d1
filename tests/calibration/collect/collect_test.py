"""The parts of calibration/collect that need neither PyTorch nor a GPU."""
import ctypes
import itertools
import json
import math
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

REHEARSE = sys.argv.pop(sys.argv.index("--rehearse") + 1) if "--rehearse" in sys.argv else ""  # the program, for tests that run it
sys.argv = [word for word in sys.argv if word != "--rehearse"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3)
sys.path.insert(0, os.path.join(ROOT, "calibration", "collect"))
import attach  # noqa: E402
import measure_layers  # noqa: E402
from graph_def import StepGraph  # noqa: E402
from layers.rows import SECTIONS, SHARES, Position, Rows, fill_launches, section_seconds, status_of  # noqa: E402
from layers.trace import MARK, Spans, as_shapes, kernels_of  # noqa: E402
from manifest import load_runs, run_entry, scenario_of, write_manifest  # noqa: E402
from monitor import MonitorError, NvmlReader, ProcessorReader, Sampler, missed, on_grid, series_text  # noqa: E402
from process import Network, Process, ProcessReader  # noqa: E402


class FakeNvml:
    """Answers as NVML does, without a GPU."""

    def __init__(self, has_throughput=True):
        self.has_throughput = has_throughput

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, device):
        return 0 if index == 0 else 2

    def nvmlDeviceGetUtilizationRates(self, device, use):
        use._obj.gpu, use._obj.memory = 75, 40
        return 0

    def nvmlDeviceGetPcieThroughput(self, device, counter, value):
        value._obj.value = {0: 100, 1: 2500}[counter]  # KB/s: 0 is what the GPU transmits
        return 0 if self.has_throughput else 3

    def nvmlShutdown(self):
        return 0


def values(share):
    return (share, math.nan, math.nan, math.nan)


class Monitor(unittest.TestCase):
    def test_nvml_percent_and_kilobytes_become_shares_and_bytes(self):
        self.assertEqual(NvmlReader(0, FakeNvml()).read(), (0.75, 0.4, 2.5e6, 1e5))
        self.assertTrue(math.isnan(NvmlReader(0, FakeNvml(False)).read()[2]))
        self.assertTrue(math.isnan(NvmlReader(0, FakeNvml(), reads_pcie=False).read()[2]))
        with self.assertRaisesRegex(MonitorError, "GPU 1 failed with 2"):
            NvmlReader(1, FakeNvml())

    def test_processors_are_busy_for_what_is_neither_idle_nor_waiting(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stat")

            def write(line):
                with open(path, "w", encoding="ascii") as file:
                    file.write(line + "\ncpu0 1 1 1 1 1 1 1 1\n")

            write("cpu  100 0 50 800 50 0 0 0 0 0")
            reader = ProcessorReader(path)
            write("cpu  130 0 60 840 70 0 0 0 0 0")  # 40 busy, 40 idle, 20 waiting
            self.assertAlmostEqual(reader.read()[0], 0.4)
            self.assertAlmostEqual(reader.read()[0], 0.4)  # no tick has passed
            write("nothing")
            with self.assertRaises(MonitorError):
                reader.read()

    def test_a_sampler_reads_now_and_then_and_tells_what_went_wrong(self):
        class Counter:
            count = 0

            def read(self):
                self.count += 1
                if self.count == 4:
                    raise MonitorError("gone")
                return values(self.count)

        sampler = Sampler(Counter(), 0.001)
        sampler.start()
        sampler._thread.join()
        with self.assertRaisesRegex(MonitorError, "gone"):
            sampler.stop()
        self.assertEqual([v[0] for _, v in sampler.samples], [1, 2, 3])
        times = [at for at, _ in sampler.samples]
        self.assertEqual(times, sorted(times))

    def test_samples_a_little_late_are_those_of_the_grid(self):
        samples = [(0.0, values(0.1)), (0.104, values(0.2)), (0.203, values(0.3)), (0.41, values(0.5))]
        grid = on_grid(samples, 0.1)
        self.assertEqual([round(at, 9) for at, _ in grid], [0, 0.1, 0.2, 0.3, 0.4])
        self.assertEqual([v[0] for _, v in grid], [0.1, 0.2, 0.3, 0.3, 0.5])
        with self.assertRaisesRegex(MonitorError, "no sample from 0.203 s to 0.600 s"):
            on_grid(samples[:3] + [(0.6, values(1))], 0.1)
        with self.assertRaisesRegex(MonitorError, "at least 3"):
            on_grid(samples[:2], 0.1)

    def test_a_sampler_ends_when_its_reader_has_nothing_more_to_tell(self):
        class Three:
            left = [values(share) for share in (1, 2, 3)]

            def read(self):
                return self.left.pop(0) if self.left else None

        sampler = Sampler(Three(), 0.001)
        sampler.start()
        self.assertTrue(sampler.wait(None))
        self.assertEqual([v[0] for _, v in sampler.stop()], [1, 2, 3])
        self.assertEqual(Sampler(Three(), 0.001).stop(), [])  # which was never started

    def test_what_counters_counted_is_in_the_rates_also_where_samples_were_missed(self):
        # 100 bytes until 0.1 s, 300 until 0.2 s, then nothing is known until 0.6 s: 800 more, or 200 in each period
        samples = [(0.0, (0.5, 1000)), (0.1, (0.6, 1100)), (0.2, (0.7, 1400)), (0.6, (0.8, 2200))]
        grid = on_grid(samples, 0.1, totals=(1,), longest_gap=math.inf)
        self.assertEqual([round(at, 9) for at, _ in grid], [0, 0.1, 0.2, 0.3, 0.4, 0.5])
        for (_, row), rate, held in zip(grid, (1000, 3000, 2000, 2000, 2000, 2000), (0.5, 0.6, 0.7, 0.7, 0.7, 0.7)):
            self.assertAlmostEqual(row[1], rate)
            self.assertEqual(row[0], held)
        self.assertEqual(missed(samples, 0.1), (3, 0.6 - 0.2))
        late = [(0.0, (0,)), (0.15, (150,)), (0.2, (200,)), (0.3, (100,))]  # 1000 per second, then set back
        self.assertEqual([round(row[0], 6) for _, row in on_grid(late, 0.1, totals=(0,))], [1000, 1000, 0])

    def test_times_are_those_of_the_grid_also_after_hours(self):
        self.assertIn("\n10000.01,", series_text([(10000 + 0.01 * i, values(0)) for i in range(3)]))

    def test_columns_that_were_not_recorded_are_left_out(self):
        self.assertEqual(series_text([(0, values(0.5)), (0.1, values(1))]), "time_s,gpu_utilization\n0,0.5\n0.1,1\n")
        grid = [(0, (0.5, 0.25, 1e6, 2e6))]
        self.assertEqual(series_text(grid).split("\n")[0],
                         "time_s,gpu_utilization,memory_utilization,receive_Bps,transmit_Bps")


def nodes_of(text):
    """name -> (op, inputs)"""
    found = {}
    for block in text.split("node {")[1:]:
        name, op = re.search(r'name: "([^"]*)"', block)[1], re.search(r'op: "([^"]*)"', block)[1]
        found[name] = (op, re.findall(r'input: "([^"]*)"', block), re.findall(r"size: (\d+)", block.split("_output_shapes")[1].split("\n")[0]))
    return found


class GraphDef(unittest.TestCase):
    def graph(self):
        # x [2, 3, 8, 8] -> convolution -> ReLU -> + x' (a second convolution of the same) -> MatMul -> loss
        graph = StepGraph()
        graph.add_input("x", [2, 3, 8, 8])
        graph.add_variable("w", [3, 3, 3, 4])
        graph.add_variable("v", [256, 10])
        graph.add("conv", "Conv2D", ["x"], [2, 4, 8, 8], ["w"], strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW")
        graph.add("relu", "Relu", ["conv"], [2, 4, 8, 8])
        graph.add("sum", "Add", ["relu", "conv"], [2, 4, 8, 8])
        graph.add("flat", "Reshape", ["sum"], [2, 256])
        graph.add("dense", "MatMul", ["flat"], [2, 10], ["v"])
        graph.add("loss", "SparseSoftmaxCrossEntropyWithLogits", ["dense"], [2])
        return graph

    def test_every_variable_is_updated_with_its_gradient(self):
        nodes = nodes_of(self.graph().to_text("momentum"))
        self.assertEqual(nodes["train/w"][:2],
                         ("ApplyMomentum", ["w", "w/slot_0", "learning_rate", "gradients/conv/weights"]))
        self.assertEqual(nodes["train/v"][1][-1], "gradients/dense/weights")
        self.assertEqual(nodes["gradients/dense/weights"][:2], ("MatMul", ["flat", "gradients/loss"]))
        self.assertEqual(nodes["gradients/conv/weights"][0], "Conv2DBackpropFilter")
        self.assertEqual(nodes["gradients/conv/weights"][2][:4], ["3", "3", "3", "4"])
        self.assertNotIn("gradients/conv/data", nodes)  # samples need no gradient

    def test_gradients_of_what_is_read_twice_are_added_up(self):
        nodes = nodes_of(self.graph().to_text("sgd"))
        self.assertEqual(nodes["gradients/conv/sum"][:2], ("AddN", ["gradients/flat", "gradients/relu"]))
        self.assertEqual(nodes["gradients/conv/weights"][1], ["x", "w", "gradients/conv/sum"])
        self.assertEqual(nodes["gradients/relu"][:2], ("ReluGrad", ["gradients/flat", "relu"]))

    def test_an_optimizer_has_its_slots_and_every_input_is_a_node_before_it(self):
        for optimizer, slots in (("sgd", 0), ("momentum", 1), ("adam", 2)):
            nodes = nodes_of(self.graph().to_text(optimizer))
            self.assertEqual(sum("slot" in name for name in nodes), 2 * slots)
            seen = set()
            for name, (_, inputs, _) in nodes.items():
                for read in inputs:
                    self.assertIn(read.split(":")[0], seen, name)
                seen.add(name)

    def test_mistakes_are_refused(self):
        graph = self.graph()
        with self.assertRaisesRegex(ValueError, "conv is there twice"):
            graph.add("conv", "Relu", ["x"], [1])
        with self.assertRaisesRegex(ValueError, "reads nothing, which is not there"):
            graph.add("a", "Relu", ["nothing"], [1])


class Manifest(unittest.TestCase):
    def test_runs_are_written_and_read_again_with_their_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(load_runs(folder), [])
            runs = [run_entry(name, "resnet", 16, "adam", 0.1, 0.025) for name in ("a batch 16", "b batch 16")]
            for sub in ("graphs", "series"):
                os.mkdir(os.path.join(folder, sub))
            for file in (runs[0]["graph"], runs[0]["series"], runs[1]["graph"]):
                with open(os.path.join(folder, file), "w", encoding="ascii"):
                    pass
            write_manifest(folder, runs, "a test")
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            self.assertEqual(manifest["format"], 1)
            self.assertEqual(manifest["runs"][0], {
                "name": "a batch 16", "family": "resnet", "graph": "graphs/a batch 16.pbtxt", "batch": 16,
                "optimizer": "adam", "scenario": "scenario.json", "series": "series/a batch 16.csv", "period_s": 0.1,
                "step_time_s": 0.025})
            with open(os.path.join(folder, "measurements.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["profiles"][0]["step_time"], "25000us")
            self.assertEqual(load_runs(folder), runs[:1])  # the other one's series is not there
        with self.assertRaises(ValueError):
            run_entry("a", "resnet", 16, "adam", 0.1, 0)

    def test_a_scenario_states_units(self):
        machine = {"name": "A GPU", "peak_fp32": 1.5e13, "memory_bandwidth": 9e11, "memory": 16 << 30,
                   "multiprocessors": 80, "host_link": 1.2e10, "vcpus": 8, "host_memory": 64 << 30, "source": "a test"}
        gpu = scenario_of(machine)["cluster"]["groups"][0]["instance"]["accelerator"]
        self.assertEqual(gpu["peak_fp32"], "1.5e+13flops")
        self.assertEqual(gpu["memory"], "17179869184B")


class FakeProc:
    """A folder like /proc."""

    def __init__(self, folder):
        self.folder = folder

    def set(self, pid, ticks, parent=1, state="R", start=7):
        os.makedirs(os.path.join(self.folder, str(pid), "net"), exist_ok=True)
        fields = [state, str(parent), *["0"] * 9, str(ticks), "0", *["0"] * 6, str(start)]
        self.write(pid, "stat", f"{pid} (a) name) {' '.join(fields)} 0 0\n")

    def set_network(self, pid, **counts):
        lines = ["Inter-|   Receive", " face |bytes"]
        lines += [f"  {device}:{received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0" for device, (received, sent) in counts.items()]
        self.write(pid, "net/dev", "\n".join(lines) + "\n")

    def write(self, pid, file, text):
        with open(os.path.join(self.folder, str(pid), file), "w", encoding="ascii") as out:
            out.write(text)


class OfAProcess(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.proc = FakeProc(self.temporary.name)
        self.second = 1 / os.sysconf("SC_CLK_TCK")

    def process(self, pid=5):
        self.now = 0.0
        return Process(pid, self.temporary.name, clock=lambda: self.now)

    def test_a_process_and_its_descendants_count_from_where_they_were_first_seen(self):
        self.proc.set(5, 100)
        self.proc.set(6, 40, parent=5)
        self.proc.set(9, 1000, parent=1)  # another one's
        process = self.process()
        self.assertEqual(process.processor_seconds(), 0)
        self.proc.set(5, 110)
        self.proc.set(6, 45, parent=5)
        self.proc.set(7, 30, parent=6)
        self.assertAlmostEqual(process.processor_seconds(), 15 * self.second)  # 7 is looked for after 0.1 s
        self.now = 0.2
        process.processor_seconds()
        self.proc.set(7, 33, parent=6)
        self.assertAlmostEqual(process.processor_seconds(), 18 * self.second)
        os.remove(os.path.join(self.temporary.name, "6", "stat"))
        self.assertAlmostEqual(process.processor_seconds(), 18 * self.second)  # what it had stays

    def test_a_process_has_ended_when_it_is_gone_a_zombie_or_another_one(self):
        self.proc.set(5, 100)
        process = self.process()
        self.assertTrue(process.is_alive())
        self.proc.set(5, 100, state="Z")
        self.assertFalse(process.is_alive())
        self.proc.set(5, 0, start=8)
        self.assertFalse(process.is_alive())
        os.remove(os.path.join(self.temporary.name, "5", "stat"))
        self.assertFalse(process.is_alive())
        with self.assertRaisesRegex(MonitorError, "^there is no process 5$"):
            self.process()

    def test_a_process_that_may_not_be_looked_at_is_named(self):
        with mock.patch("builtins.open", side_effect=PermissionError(13, "Permission denied")):
            with self.assertRaisesRegex(MonitorError, "^process 5: permission denied$"):
                self.process()

    def network(self, *devices):
        return Network(5, devices, proc=self.temporary.name, hardware=os.path.join(self.temporary.name, "hardware"))

    def test_devices_are_those_named_or_hardware_or_all_but_the_loopback(self):
        self.proc.set(5, 0)
        self.proc.set_network(5, lo=(7, 7), eth0=(100, 20), docker0=(90, 10))
        self.assertEqual(self.network().bytes(), (190, 30))
        self.assertEqual(self.network("lo").bytes(), (7, 7))
        os.makedirs(os.path.join(self.temporary.name, "hardware", "eth0", "device"))
        network = self.network()
        self.assertEqual(network.bytes(), (100, 20))
        with self.assertRaisesRegex(MonitorError, "no network device ib0; it has docker0, eth0, lo"):
            self.network("ib0")
        reader = ProcessReader(self.process(), network)
        self.assertEqual(reader.read()[2:], (100, 20, 0))
        os.remove(os.path.join(self.temporary.name, "5", "net", "dev"))
        self.assertIsNone(reader.read())


# Waits until it is told to go, computes and sends 16 MiB over the loopback, each followed by a pause, and tells when it is done.
BURSTS = """
import socket, sys, threading, time
def drain():
    connection, _ = server.accept()
    while connection.recv(1 << 20): pass
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=drain, daemon=True).start()
client = socket.create_connection(server.getsockname())
print("ready", flush=True)
sys.stdin.readline()
for _ in range(4):
    time.sleep(0.3)
    end = time.process_time() + 0.15
    while time.process_time() < end: pass
    time.sleep(0.3)
    client.sendall(bytes(1 << 24))
time.sleep(0.3)
print("done", flush=True)
sys.stdin.readline()
"""


def bursts(series, period, threshold):
    """Driple's idle, active and peak, and how many bursts: runs that the ends do not cut, or cut ones if there are no others."""
    runs = [(active, list(values)) for active, values in itertools.groupby(series, lambda value: value > threshold)]
    result = []
    for state in (False, True):
        found = [v for a, v in runs[1:-1] if a == state] or [v for a, v in runs if a == state]
        result.append((period * sum(map(len, found)) / len(found) if found else 0, sum(map(max, found)) / len(found) if found else 0, len(found)))
    return result[0][0], result[1][0], result[1][1], result[1][2]


class Attach(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = os.path.join(self.temporary.name, "recorded")

    def attach(self, *arguments, **options):
        script = os.path.join(ROOT, "calibration", "collect", "attach.py")
        return subprocess.Popen([sys.executable, "-B", script, "-o", self.folder, *arguments], stderr=subprocess.PIPE, text=True, **options)

    def error_of(self, *arguments):
        process = self.attach(*arguments)
        _, text = process.communicate(timeout=60)
        lines = [line for line in text.splitlines() if not line.startswith("attach.py: recording ")]
        self.assertEqual(len(lines), 1, text)
        return process.returncode, lines[0]

    def own_network(self):
        """Words before a command that give it a loopback of its own, if this machine lets us."""
        words = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        try:
            return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []
        except OSError:
            return []

    def read_series(self):
        with open(os.path.join(self.folder, "series.csv"), encoding="ascii") as file:
            head, *rows = file.read().split()
        return {name: [float(row.split(",")[c]) for row in rows] for c, name in enumerate(head.split(","))}

    def test_mistakes_are_one_line_and_leave_no_folder(self):
        absent = 4194304  # above what Linux numbers processes with
        self.assertEqual(self.error_of("--pid", str(absent)), (1, f"attach.py: there is no process {absent}"))
        self.assertEqual(self.error_of(), (2, "attach.py: expected either --pid or -- COMMAND..."))
        self.assertEqual(self.error_of("--pid", "1", "--batch", "8")[0], 2)
        self.assertEqual(self.error_of("--period", "0", "--", "true")[1], "attach.py: --period: expected 0.001 to 60 seconds; found 0")
        self.assertEqual(self.error_of("--scenario", "absent.json", "--", "true")[1], "attach.py: --scenario: there is no file absent.json")
        self.assertEqual(self.error_of("--", "/absent/program"), (1, "attach.py: /absent/program: no such file or directory"))
        self.assertRegex(self.error_of("--interface", "absent0", "--", "sleep", "1000")[1], "no network device absent0; it has .*lo")
        self.assertFalse(os.path.exists(self.folder))
        code, text = self.error_of("--device", "cpu", "--", "true")
        self.assertEqual(code, 1)
        self.assertRegex(text, "samples were recorded of true: expected at least 3")

    def test_a_command_that_fails_leaves_its_series_and_a_second_recording_is_refused(self):
        process = self.attach("--device", "cpu", "--", sys.executable, "-c", "import time; time.sleep(1); raise SystemExit(7)")
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("attach.py: the command ended with 7; what was recorded is kept", text)
        self.assertIn(0, self.read_series()["gpu_utilization"])
        self.assertRegex(self.error_of("--", "true")[1], "has a recording: choose another folder")

    def test_an_interrupted_recording_is_kept(self):
        process = self.attach("--device", "cpu", "--interface", "lo", "--", "sleep", "1000", start_new_session=True)
        self.assertEqual(process.stderr.readline(), "attach.py: recording sleep 1000\n")
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.5)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, text)
        self.assertEqual(set(self.read_series()), {"time_s", "gpu_utilization", "receive_Bps", "transmit_Bps"})
        self.assertEqual(os.listdir(self.folder), ["series.csv"])

    def test_what_the_list_says_of_the_job(self):
        with open(os.path.join(self.temporary.name, "model.json"), "w", encoding="ascii") as file:
            file.write('{"structure": {"family": "resnet"}}')
        arguments = ["-o", self.folder, "--scenario", __file__, "--set", "/cluster/groups/0/count=2", "--set", "/name=a b", "--batch", "32",
                     "--step-time", "120ms", "--model", os.path.join(self.temporary.name, "model.json"), "--pid", "1"]
        self.assertEqual(attach.profile_of(attach.parse_arguments(arguments)), {
            "scenario": os.path.relpath(__file__, self.folder), "set": {"/cluster/groups/0/count": 2, "/name": "a b"},
            "model": {"structure": {"family": "resnet"}}, "batch_per_worker": 32, "series": "series.csv", "step_time": "120ms"})

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(REHEARSE), "rehearse-predictor")), "needs --rehearse and its predictor")
    def test_bursts_of_a_process_that_was_running_are_imported(self):
        child = subprocess.Popen([*self.own_network(), sys.executable, "-c", BURSTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(child.stdout.readline(), "ready\n")
            scenario = os.path.join(ROOT, "scenarios", "driple", "01-v100-ps1-w2.json")
            recorder = self.attach("--pid", str(child.pid), "--device", "cpu", "--interface", "lo", "--scenario", scenario, "--model", "resnet18", "--batch", "8", "--step-time", "750ms")
            self.assertEqual(recorder.stderr.readline(), f"attach.py: recording process {child.pid}\n")
            child.stdin.write("go\n")
            child.stdin.flush()
            self.assertEqual(child.stdout.readline(), "done\n")
        finally:
            child.communicate("\n")
        _, text = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 0, text)
        series = self.read_series()
        self.assertGreater(sum(series["receive_Bps"]) * 0.01, 4 * 2**24)
        self.assertGreater(sum(series["gpu_utilization"]) * 0.01 * os.cpu_count(), 0.9 * 4 * 0.15)
        expected = [*bursts(series["gpu_utilization"], 0.01, 1e-9), *bursts(series["receive_Bps"], 0.01, 0.01 * max(series["receive_Bps"]))]
        longest = re.search(r"up to (.*) s are averages", text)
        if longest is None or float(longest[1]) < 0.1:  # else pauses may be hidden
            self.assertGreaterEqual(expected[3], 4)
            self.assertGreaterEqual(expected[7], 4)

        dataset = os.path.join(self.temporary.name, "measured.db")
        subprocess.run([REHEARSE, "import", os.path.join(self.folder, "measurements.json"), "-o", dataset, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with sqlite3.connect(dataset) as tables:
            names = [name for name, in tables.execute("SELECT name FROM names WHERE kind = 'label' ORDER BY position")]
            (blob, graph), = tables.execute("SELECT labels, graphs.name FROM samples JOIN graphs ON graphs.id = samples.graph")
        labels = dict(zip(names, struct.unpack(f"<{len(names)}d", blob)))
        self.assertEqual(graph, "resnet18 batch 8")
        self.assertEqual(labels["step_time_s"], 0.75)
        found = [labels[f"{resource}_{what}"] for resource, peak in (("gpu", "peak"), ("receive", "peak_Bps")) for what in ("idle_s", "active_s", peak)]
        for value, wanted in zip(found, expected[:3] + expected[4:7]):
            self.assertAlmostEqual(value, wanted, delta=1e-6 * wanted)
        tables.close()


def span(cat, name, ts, dur, tid=7, **arguments):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid, "args": arguments}


class Layers(unittest.TestCase):
    def test_a_kernel_belongs_to_the_operator_around_its_launch_whenever_it_runs(self):
        events = [
            span("user_annotation", MARK + "net|forward", 0, 100), span("user_annotation", MARK + "net|backward", 100, 100),
            span("cpu_op", "aten::linear", 10, 50, **{"Input Dims": [[2, 3], [4, 3], []]}),
            span("cpu_op", "aten::mm", 20, 30, **{"External id": 5, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}),
            span("cpu_op", "aten::t", 12, 3), span("cuda_runtime", "cudaLaunchKernel", 30, 5, correlation=1),
            span("cpu_op", "node: MmBackward0", 110, 50, tid=8), span("cpu_op", "aten::mm", 120, 30, tid=8, **{"External id": 6}),
            span("cuda_driver", "cuLaunchKernelEx", 125, 2, tid=8, correlation=2),
            span("kernel", "gemm_a", 90, 40, tid=99, correlation=1), span("kernel", "gemm_b", 300, 8, tid=99, correlation=2),
            span("gpu_memset", "Memset (Device)", 400, 2, tid=99, correlation=77, **{"External id": 6}),
        ]
        found = [(k.phase, k.kernel, k.operator, k.outermost, k.shapes, k.types, k.count) for k in kernels_of(events)]
        self.assertEqual(found, [("forward", "gemm_a", "aten::mm", "aten::linear", "2x3;3x4", "float;float", 1),
                                 ("backward", "gemm_b", "aten::mm", "node: MmBackward0", "", "", 1),
                                 ("backward", "Memset (Device)", "aten::mm", "aten::mm", "", "", 1)])
        self.assertAlmostEqual(kernels_of(events)[0].mean_s, 40e-6)

    def test_equal_launches_are_one_row_with_their_mean(self):
        events = [span("cpu_op", "aten::add", t, 4) for t in (0, 10)]
        events += [span("cuda_runtime", "launch", t + 1, 1, correlation=t) for t in (0, 10)]
        events += [span("kernel", "add", 50 + t, 2 + t, tid=1, correlation=t) for t in (0, 10)]
        (row,) = kernels_of(events)
        self.assertEqual(row.count, 2)
        self.assertAlmostEqual(row.mean_s, 7e-6)

    def test_spans_around_a_time_come_innermost_first_and_only_if_they_reach_it(self):
        spans = Spans([span("", name, ts, dur) for name, ts, dur in (("a", 0, 100), ("b", 10, 20), ("c", 12, 3), ("d", 40, 10))])
        names = lambda time: [event["name"] for event in spans.containing(time)]
        self.assertEqual([names(13), names(20), names(35), names(45), names(101)], [["c", "b", "a"], ["b", "a"], ["a"], ["d", "a"], []])

    def test_shapes_of_scalars_and_lists(self):
        self.assertEqual(as_shapes([[2, 3], [], [[4], [5, 6]], []]), "2x3;;(4;5x6)")

    def test_shares_are_whole_and_time_that_is_left_over_goes_to_later_sections(self):
        self.assertAlmostEqual(sum(SHARES.values()), 1.0)
        self.assertEqual(set(SHARES), set(SECTIONS))
        shares = {"a": 0.5, "b": 0.3, "c": 0.2}
        self.assertAlmostEqual(section_seconds("a", ["a", "b", "c"], 100, shares), 50)
        self.assertAlmostEqual(section_seconds("b", ["b", "c"], 80, shares), 48)  # a took 20 of its 50 s

    def test_launches_are_filled_in_by_case_and_phase(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = Rows(folder, "layers", ("forward_launches", "forward_kernels_s", "backward_launches", "backward_kernels_s"))
            rows.write("one")
            rows.write("two", "oom")
            rows.close()
            kernels = Rows(folder, "kernels", ("phase", "count", "mean_s"))
            for phase, count, mean in (("forward", 2, 1e-3), ("forward", 1, 5e-3), ("backward", 4, 1e-3)):
                kernels.write("one", phase=phase, count=count, mean_s=mean)
            kernels.write("two", "RuntimeError: no")
            kernels.close()
            fill_launches(folder, "layers")
            with open(os.path.join(folder, "layers.csv"), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines()[1:], ["one,3,0.007,4,0.004,ok", "two,,,,,oom"])

    def test_rows_of_a_second_worker_follow_those_of_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            for case in ("one", "two"):
                rows = Rows(folder, "steps", ("fast", "step_s"))
                rows.write(case, fast=True, step_s=1 / 3)
                rows.close()
            with open(os.path.join(folder, "steps.csv"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "case,fast,step_s,status\none,1,0.3333333,ok\ntwo,1,0.3333333,ok\n")

    def test_errors_become_one_line(self):
        self.assertEqual(status_of(RuntimeError("CUDA out of memory. Tried")), "oom")
        self.assertEqual(status_of(ValueError("first\nsecond")), "ValueError: first")
        self.assertEqual(status_of(KeyError()), "KeyError: ")

    def supervised(self, script, sections="layers,updates", seconds=20):
        """(result, calls as 'sections first') of supervise() with workers that run `script` with what `sections`, `first` say."""
        calls, folder = [], tempfile.mkdtemp(prefix="layers")
        prelude = f"import os, sys, time; sys.path.insert(0, {os.path.dirname(measure_layers.__file__)!r}); from layers.rows import Position\n"

        def command(arguments, sections, first, seconds, path):
            calls.append(f"{','.join(sections)} {first}")
            return [sys.executable, "-c", prelude + f"position, number = Position({path!r}), {len(calls)}\n" + script]

        arguments = mock.Mock(output=folder, seconds=seconds, sections=sections.split(","))
        with mock.patch.object(measure_layers, "worker_command", command), mock.patch.object(measure_layers, "say", lambda text: None):
            return measure_layers.supervise(arguments, os.path.join(folder, "position")), calls

    def test_a_worker_that_dies_is_followed_by_one_behind_its_case(self):
        script = "if number == 1:\n position.write('updates', 4, 'bad')\n os.abort()\nif number == 2:\n position.write('updates', 9, 'worse')\n sys.exit(3)"
        self.assertEqual(self.supervised(script), (True, ["layers,updates 0", "updates 5", "updates 10"]))

    def test_a_worker_that_hangs_is_ended(self):
        with mock.patch.object(measure_layers, "STALL_S", 600):
            script = "if number == 1:\n position.write('layers', 2, 'slow')\n os.utime(position.path, (1, 1))\n time.sleep(60)"
            self.assertEqual(self.supervised(script), (True, ["layers,updates 0", "layers,updates 3"]))

    def test_a_worker_that_never_starts_is_the_end(self):
        self.assertEqual(self.supervised("sys.exit(1)"), (False, ["layers,updates 0"]))

    def test_a_section_that_never_starts_is_left_out(self):
        script = "if number == 1:\n position.write('updates', -1, 'start')\n sys.exit(1)"
        self.assertEqual(self.supervised(script, "layers,updates,steps"), (True, ["layers,updates,steps 0", "steps 0"]))


if __name__ == "__main__":
    unittest.main()
