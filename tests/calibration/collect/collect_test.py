"""The parts of calibration/collect that need neither PyTorch nor a GPU."""
import ctypes
import json
import math
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "calibration", "collect"))
from graph_def import StepGraph  # noqa: E402
from manifest import load_runs, run_entry, scenario_of, write_manifest  # noqa: E402
from monitor import MonitorError, NvmlReader, ProcessorReader, Sampler, on_grid, series_text  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
