"""calibration/testbed: its plans and results, and, where namespaces may be made, a real network."""
import csv
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

TESTBED = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "calibration", "testbed"))
sys.path.insert(0, TESTBED)
import chakra  # noqa: E402
import dataset  # noqa: E402
import network  # noqa: E402
import rates  # noqa: E402
import replay  # noqa: E402
import testbed  # noqa: E402

REHEARSE = sys.argv.pop(sys.argv.index("--rehearse") + 1) if "--rehearse" in sys.argv else ""  # the program, for tests that run it
sys.argv = [word for word in sys.argv if word != "--rehearse"]
HAS_TORCH = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode == 0
SETTING = {"workload": "transfer", "workers": 2, "bytes": 65536, "rate": "100Mbps"}


def plan(*parts):
    return {"parts": [{**SETTING, **part} for part in parts]}


class Plans(unittest.TestCase):
    def test_a_part_stands_for_each_combination_of_its_lists(self):
        settings = list(testbed.settings_of(plan({"bytes": [1000, 2000], "loss": [0, 0.01], "rate": ["100Mbps", "1Gbps"]})))
        self.assertEqual(len(settings), 8)
        self.assertEqual(len({testbed.key_of(setting) for setting, _ in settings}), 8)
        self.assertTrue(all(setting["connections"] == 1 and setting["mtu"] == 1500 for setting, _ in settings))

    def test_what_would_take_too_long_is_left_out(self):
        settings = list(testbed.settings_of(plan({"bytes": [125000, 12500000], "longest_s": 0.5})))
        self.assertEqual([setting["bytes"] for setting, _ in settings], [125000])

    def test_every_setting_is_measured_once_and_networks_are_made_once(self):
        settings = list(testbed.settings_of(plan({"workers": [2, 3, 4], "bytes": [1, 2, 3], "mtu": [1500, 9000]})))
        order = list(testbed.in_labs(settings))
        self.assertEqual(sorted(testbed.key_of(setting) for _, setting, _ in order), sorted(testbed.key_of(setting) for setting, _ in settings))
        shapes = [shape for shape, _, _ in order]
        self.assertEqual(sum(a != b for a, b in zip(shapes, shapes[1:])), 5)
        self.assertEqual(order, list(testbed.in_labs(settings)))

    def test_shipped_plans_name_workloads_of_the_nodes(self):
        with open(os.path.join(TESTBED, "node.py")) as file:
            node = file.read()
        for name in os.listdir(os.path.join(TESTBED, "plans")):
            with open(os.path.join(TESTBED, "plans", name)) as file:
                for setting, _ in testbed.settings_of(json.load(file)):
                    self.assertIn(f'"{setting["workload"]}": ', node)
                    self.assertEqual(setting["servers"] > 0, setting["workload"] == "server")

    def test_a_row_ends_by_its_repetitions_and_seconds(self):
        effort = {"repetitions": 10, "fewest": 3, "seconds": 5}
        now, long_ago = time.monotonic(), time.monotonic() - 6
        self.assertEqual([testbed.is_enough(number, effort, now) for number in (2, 9, 10)], [False, False, True])
        self.assertEqual([testbed.is_enough(number, effort, long_ago) for number in (2, 3)], [False, True])

    def test_what_others_use_is_idle_time_for_nodes_that_go_before_them_and_need_not_wait(self):
        nodes = [mock.Mock(**{"process.pid": 1}), mock.Mock(**{"process.pid": 2})]
        for niceness, times in ((0, (45, 110)), (-15, (65, 110))):
            with mock.patch("builtins.open", mock.mock_open(read_data="cpu 10 20 30 40 5 0 3 2 0 0\n")), mock.patch.object(testbed.os, "sysconf", lambda name: 100), mock.patch.object(testbed, "waiting_time", lambda process: 0.1), \
                    mock.patch.object(testbed.os, "getpriority", lambda which, who: niceness), mock.patch.object(testbed.time, "clock_gettime", lambda clock: 0.1):
                self.assertEqual(testbed.processor_times(nodes), times)

    def test_a_thread_that_is_ready_waits_for_a_processor(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(testbed.glob, "glob", lambda pattern: [os.path.join(folder, name) for name in ("a", "b", "ended")]):
            for name, waited in (("a", 1500000000), ("b", 250000000)):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(f"7 {waited} 3\n")
            self.assertAlmostEqual(testbed.waiting_time(7), 1.75)

    def test_missing_programs_are_named_before_anything_is_made(self):
        with mock.patch.object(network.shutil, "which", lambda tool, path: None):
            testbed.check_tools(plan({}), None)
            with self.assertRaisesRegex(network.TestbedError, "install gcc openmpi-bin tcpdump"):
                testbed.check_tools(plan({}, {"workload": "all_reduce_mpi"}), "captures")

    def test_rates(self):
        self.assertEqual(testbed.bits_per_second("2.5Gbps"), 2.5e9)
        for text in ("100", "100MBps", "-1Mbps", "fast"):
            with self.assertRaisesRegex(network.TestbedError, text):
                testbed.bits_per_second(text)

    def test_asynchronous_workers_begin_in_turns(self):
        setting = {**SETTING, "mode": "asynchronous", "servers": 1, "workers": 4}
        self.assertAlmostEqual(testbed.start_interval(setting) * 4, 2 * 8 * 65536 / 100e6)
        self.assertEqual(testbed.start_interval({**setting, "mode": "synchronous"}), 0)
        self.assertEqual(testbed.end_of(setting, [9.0, 1.0, 2.0, 3.0, 2.0]), 2.0)  # workers alone
        self.assertEqual(testbed.end_of({**setting, "mode": "synchronous"}, [9.0, 1.0]), 9.0)


class Rates(unittest.TestCase):
    def test_bursts_are_those_of_a_simulated_series(self):
        mean, burst, gap, peak = rates.bursts([0, 0, 5, 7, 0, 0, 0, 3, 0, 9, 9, 9])  # the first gap and the last burst are cut
        self.assertAlmostEqual(mean, 42 / 12)
        self.assertAlmostEqual(burst, 0.015)
        self.assertAlmostEqual(gap, 0.02)
        self.assertAlmostEqual(peak, 5)
        self.assertEqual(rates.bursts([2, 2, 2]), (2, 0.03, 0, 2))  # cut, but the only one
        self.assertEqual(rates.bursts([]), (0, 0, 0, 0))

    def test_no_byte_is_lost_between_samples(self):
        sampler = rates.Sampler("v0", os.getpid())
        sampler.times, sampler.counters = [0.0, 0.013, 0.021, 0.04], [(0, 0, 1.0), (100, 10, 1.01), (400, 40, 1.01), (500, 50, 1.02)]
        receive, transmit, processor = sampler.series(0.0, 0.04)
        self.assertAlmostEqual(sum(processor) * rates.kPeriod, 0.02)
        self.assertAlmostEqual(sum(transmit) * rates.kPeriod, 500)  # what a node sent, the port received
        self.assertAlmostEqual(sum(receive) * rates.kPeriod, 50)
        self.assertEqual(len(receive), 4)

    def test_the_clock_of_a_process_is_its_processor_time(self):
        begin = time.clock_gettime(rates.processor_clock(os.getpid()))
        while time.process_time() < begin + 0.02:
            pass
        self.assertGreaterEqual(time.clock_gettime(rates.processor_clock(os.getpid())), begin + 0.02)


class Results(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(tempfile.mkdtemp(), "deep", "rows.csv")

    def tearDown(self):
        shutil.rmtree(os.path.dirname(os.path.dirname(self.path)))

    def measured(self, plan_, busy, **options):
        """Sizes that were measured, by a laboratory whose processors are as busy as `busy` says of a size."""
        sizes = []

        def measure(_, setting, effort, captures):
            sizes.append(setting["bytes"])
            share = busy(setting["bytes"])
            if share is None:
                raise network.TestbedError("node 1 has ended")
            row = {**setting, **dict.fromkeys(testbed.kResults, 0), "steps": effort["steps"], "median_s": 0.001, "busy": share,
                   "repetitions": effort["repetitions"], "counts": int(share < testbed.kMostBusy)}
            return row, {**dict.fromkeys(testbed.kSeries, []), "times_s": [0.001, 0.0012345678], "timed_out": [1]}
        with mock.patch.object(testbed, "Lab"), mock.patch.object(testbed, "measure", measure), open(os.devnull, "w") as null, \
                mock.patch.object(sys, "stderr", null):
            self.outcome = testbed.measure_plan(plan_, self.path, "python3", **options)
        return sorted(sizes)

    def test_the_same_command_goes_on_and_measures_again_what_did_not_count(self):
        sizes = plan({"bytes": [1, 2, 3]})
        self.assertEqual(self.measured(plan({"bytes": [1, 2]}), lambda size: 0.9 if size == 2 else 0.1), [1, 2])
        self.assertEqual(self.outcome, (0, 1))
        self.assertEqual(self.measured(sizes, lambda size: None if size == 3 else 0.2), [2, 3])
        self.assertEqual(self.outcome, (1, 0))
        self.assertEqual(self.measured(sizes, lambda size: 0.3), [3])
        self.assertEqual(self.measured(sizes, lambda size: 0.3, again=True), [1, 2, 3])
        with open(self.path) as file:
            self.assertEqual([(row["bytes"], row["counts"]) for row in csv.DictReader(file)], [("1", "1"), ("2", "1"), ("3", "1")])
        with open(testbed.series_path(self.path)) as file:
            self.assertEqual([(row["bytes"], row["times_s"], row["timed_out"], row["processor"]) for row in csv.DictReader(file)],
                             [(size, "0.001 0.00123457", "1", "") for size in "123"])

    def test_rows_of_too_few_repetitions_are_measured_again(self):
        self.assertEqual(self.measured(plan({"repetitions": 20}), lambda size: 0.1), [65536])
        self.assertEqual(self.measured(plan({"repetitions": 300, "fewest": 20}), lambda size: 0.1), [])
        self.assertEqual(self.measured(plan({"repetitions": 300, "fewest": 300}), lambda size: 0.1), [65536])

    def test_no_setting_begins_when_the_minutes_are_over(self):
        self.assertEqual(self.measured(plan({"bytes": [1, 2]}), lambda size: 0.1, minutes=-1), [])
        self.assertEqual(self.measured(plan({"bytes": [1, 2]}), lambda size: 0.1, minutes=1), [1, 2])

    def test_a_table_of_others_is_refused(self):
        os.makedirs(os.path.dirname(self.path))
        with open(self.path, "w") as file:
            file.write("a,b\n1,2\n")
        with self.assertRaisesRegex(network.TestbedError, "other columns"):
            testbed.read_rows(self.path, testbed.kKeys + testbed.kResults)


class Dataset(unittest.TestCase):
    ROW = {"workload": "server", "workers": "2", "servers": "1", "mode": "synchronous", "bytes": "1048576", "layers": "8", "batch": "1024", "mtu": "9000",
           "rate": "100Mbps", "loss": "0", "start_interval": "0ms", "steps": "8", "median_s": "0.35", "layer_forward": "0.8ms", "layer_backward": "1.2ms",
           "is_computed": "1", "counts": "1"}

    def test_a_row_becomes_a_job_with_the_operators_that_it_computed(self):
        job = dataset.job_of(self.ROW, "series.csv")
        layers = job["model"]["structure"]["layers"]
        weights = [layer["features"] ** 2 for layer in layers if layer["layer"] == "linear"]
        self.assertAlmostEqual(sum(weights) * 4, 1048576, delta=8192)
        speed = 6 * 1024 * weights[0] / 2e-3  # operations of a layer over its time
        self.assertAlmostEqual(float(job["set"]["/cluster/groups/1/instance"]["accelerator"]["peak_fp32"].removesuffix("Gflops")) * 1e9, speed, delta=1e-3 * speed)
        self.assertEqual((job["step_time"], job["series"], job["batch_per_worker"]), ("350ms", "series.csv", 1024))
        self.assertTrue(os.path.exists(job["scenario"]))
        self.assertNotIn("series", dataset.job_of({**self.ROW, "servers": "0", "workload": "all_reduce_gloo"}, None))

    def test_what_a_dataset_cannot_tell_is_left_out(self):
        self.assertEqual(dataset.reason_against(self.ROW), "")
        for change, reason in (({"counts": "0"}, "busy"), ({"is_computed": "0"}, "waits"), ({"is_computed": "", "layers": "0"}, "no training"),
                               ({"loss": "0.01"}, "lost"), ({"start_interval": "3ms"}, "in turns")):
            self.assertIn(reason, dataset.reason_against({**self.ROW, **change}))
        self.assertEqual(dataset.reason_against({**self.ROW, "start_interval": "3ms", "workers": "1"}), "")

    def test_series_are_shares_and_rates_at_a_fixed_period(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "series.csv")
            self.assertTrue(dataset.write_series(path, {"receive_Bps": "1 2 3", "transmit_Bps": "4 5 6", "processor": "0.5 1.3 0"}))
            with open(path) as file:
                self.assertEqual(file.read(), "time_s,gpu_utilization,receive_Bps,transmit_Bps\n0.00,0.5,1,4\n0.01,1,2,5\n0.02,0,3,6\n")
            self.assertFalse(dataset.write_series(path, {"receive_Bps": "", "transmit_Bps": "", "processor": ""}))

    def test_the_shipped_trainings_become_a_list_that_the_program_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            jobs, _ = dataset.convert(os.path.normpath(os.path.join(TESTBED, "..", "data", "testbed", "training.csv")), folder)
            self.assertGreater(len(jobs), 10)
            predictor = os.path.join(os.path.dirname(REHEARSE), "rehearse-predictor")
            if REHEARSE and os.path.exists(predictor):
                result = subprocess.run([predictor, "import", os.path.join(folder, "measurements.json"), "-o", os.path.join(folder, "rows.db"), "--quiet"], capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stderr)


def exported(workload, mode, workers, size):
    """Work of each rank, of the step that a study has for a setting."""
    setting = {**testbed.kDefaults, "workload": workload, "mode": mode, "workers": workers, "bytes": size, "rate": "100Mbps", "steps": 2}
    with tempfile.TemporaryDirectory() as folder:
        testbed.export(setting, REHEARSE, os.path.join(folder, "traces"))
        return [replay.work_of(*replay.read(os.path.join(folder, "traces"), rank)) for rank in range(workers)]


class Replays(unittest.TestCase):
    def test_fields_of_each_kind_are_read(self):
        self.assertEqual(list(chakra.fields_of(b"\x08\x96\x01\x12\x02ab\x19" + struct.pack("<d", 1.5) + b"\x25" + struct.pack("<f", 2.5))),
                         [(1, 150), (2, b"ab"), (3, 1.5), (4, 2.5)])
        text, whole = b"\x52\x0a\x0a\x03abc\xea\x01\x02de", b"\x52\x07\x0a\x03fgh\x48\x11"
        self.assertEqual(chakra.node_of(b"\x08\x07\x12\x01n\x18\x04\x22\x01\x05\x2a\x02\x01\x03\x38\x09" + text + whole),
                         {"id": 7, "name": "n", "type": 4, "after": [5, 1, 3], "seconds": 9e-6, "abc": "de", "fgh": 17})

    def test_exchanges_begin_when_they_can_and_are_waited_for_when_they_must(self):
        kinds = {2: chakra.kCompute, 3: chakra.kCollective, 4: chakra.kCompute, 6: chakra.kCompute, 7: chakra.kCollective, 8: chakra.kSend,
                 9: chakra.kReceive, 10: chakra.kCompute}
        after = {1: [0], 2: [1], 3: [2], 4: [2], 5: [3], 6: [4, 5], 7: [6], 8: [6], 10: [9, 7]}
        nodes = {i: {"type": kinds.get(i, 1), "after": after.get(i, []), "seconds": i * 1.0} for i in range(11)}
        nodes[7]["pg_name"] = "1"  # a group of one rank
        work = replay.work_of(nodes, {"1": [0], "2": [0, 1]})
        self.assertEqual({number: node["after"] for number, node in work.items()}, {2: [], 3: [2], 4: [2], 6: [3, 4], 8: [6], 9: [], 10: [6, 9]})
        self.assertEqual(replay.actions_of(work), [("start", 9), ("compute", 2), ("start", 3), ("compute", 4), ("wait", 3), ("compute", 6), ("start", 8),
                                                   ("wait", 9), ("compute", 10)])

    def test_shipped_plans_have_the_values_of_their_studies(self):
        for workload in testbed.kReplayed:
            with open(os.path.join(TESTBED, "plans", f"{workload}.json")) as file:
                settings = list(testbed.settings_of(json.load(file)))
            study = testbed.read_study(workload)
            changes = {json.dumps(testbed.changes_of(study, {**setting, "steps": 1})) for setting, _ in settings}
            self.assertEqual(len(changes), len(settings))

    @unittest.skipUnless(os.path.exists(REHEARSE), "no program")
    def test_each_layer_is_summed_twice_forward_and_twice_backward(self):
        layers, size = 4, 256 * 256 * 4  # positions, width, bytes
        for mode, of_gradients in (("degree 4", 0), ("degree 2", 2)):
            for work in exported("tensor", mode, 4, size):
                sizes = [node["comm_size"] for node in work.values() if node["type"] == chakra.kCollective]
                self.assertEqual(sizes.count(size), 4 * layers + 2)  # of words, and of the gradient of what logits are made from
                self.assertEqual(sum(of > size for of in sizes), of_gradients, sizes)

    @unittest.skipUnless(os.path.exists(REHEARSE), "no program")
    def test_a_stage_sends_each_micro_batch_on_in_the_order_of_its_schedule(self):
        for mode, order in (("2 stages 1f1b 4", "ffbfbfbb"), ("2 stages gpipe 4", "ffffbbbb")):
            first = exported("pipeline", mode, 2, 65536)[0]
            messages = {number: node for number, node in first.items() if node["type"] in (chakra.kSend, chakra.kReceive)}
            self.assertEqual([node["comm_size"] for node in messages.values()], 8 * [65536])
            passes = {("start", chakra.kSend): "f", ("wait", chakra.kReceive): "b"}
            self.assertEqual("".join(passes.get((action, messages[what]["type"]), "") for action, what in replay.actions_of(first) if what in messages), order)


def can_make_networks():
    if network.missing_tools(network.TOOLS):
        return False
    try:
        return subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", *([] if os.geteuid() == 0 else ["--map-root-user"]),
                               "sh", "-c", "ip link add veth0 type veth peer name veth1 && tc qdisc add dev veth0 root tbf rate 1mbit burst 3000 limit 9000"],
                              capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@unittest.skipUnless(can_make_networks(), "no network namespaces here, or tools are missing")
class RealNetwork(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.rows = os.path.join(self.folder, "rows.csv")
        self.before = sorted(os.listdir("/sys/class/net"))

    def tearDown(self):
        self.assertEqual(sorted(os.listdir("/sys/class/net")), self.before)
        self.assertNotIn(os.path.join(TESTBED, "node.py"), subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout)
        shutil.rmtree(self.folder)

    def start(self, plan_, *options):
        path = os.path.join(self.folder, "plan.json")
        with open(path, "w") as file:
            json.dump(plan_, file)
        return subprocess.Popen([sys.executable, "-B", os.path.join(TESTBED, "testbed.py"), path, "-o", self.rows, "--python", sys.executable, *options],
                                stderr=subprocess.PIPE, text=True, start_new_session=True)

    def read(self):
        with open(self.rows) as file:
            return list(csv.DictReader(file))

    def measured(self, process):
        """The rows of a process that ends by itself; the test is skipped where other work kept it from measuring."""
        try:
            _, err = process.communicate(timeout=500)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        if process.returncode and os.getloadavg()[0] > 2 * os.cpu_count():
            self.skipTest("not measured: machine too busy")
        self.assertEqual(process.returncode, 0, err)
        return self.read()

    def test_all_bytes_cross_the_network_with_their_headers_and_what_is_lost_crosses_again(self):
        process = self.start(plan({"repetitions": 6}, {"repetitions": 6, "loss": 0.05}, {"repetitions": 6, "connections": 3}))
        for row in self.measured(process):
            segments = 6 * -(-65536 // 1448)
            data = 6 * 65536 + segments * (14 + 20 + 32)
            self.assertGreaterEqual(int(row["sent_bytes"]), data)  # of both: data, and acknowledgements of at most each segment
            self.assertLessEqual(int(row["sent_bytes"]), 1.6 * data if row["loss"] == "0" else 3 * data)
            self.assertGreaterEqual(int(row["sent_segments"]), segments)
            if row["counts"] != "1":
                self.skipTest("not measured: machine too busy")  # what comes late is sent again
            if row["loss"] != "0":
                self.assertGreater(int(row["retransmitted"]), 0, row)
            else:  # but what TCP sends to ask for an answer that is late (tail loss probes)
                self.assertLessEqual(int(row["retransmitted"]), int(row["probes"]), row)

    def test_ctrl_c_keeps_the_rows_and_leaves_nothing_behind(self):
        process = self.start(plan({"bytes": [65536, 65537, 65538], "repetitions": 10000, "seconds": 1}))
        while not os.path.exists(self.rows):  # what takes too long, the limit of the test ends
            time.sleep(0.05)
            self.assertIsNone(process.poll())
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("goes on", err.splitlines()[-1])
        self.assertGreaterEqual(len(self.read()), 1)

    @unittest.skipIf(network.missing_tools({"tcpdump": "tcpdump"}), "no tcpdump")
    def test_a_kill_leaves_nothing_behind(self):
        process = self.start(plan({"bytes": 65536, "repetitions": 10000, "seconds": 100}), "--captures", os.path.join(self.folder, "captures"))
        captures = os.path.join(self.folder, "captures", "workload=transfer,workers=2,bytes=65536,rate=100Mbps")
        while not os.path.exists(os.path.join(captures, "n1.pcap")):
            time.sleep(0.05)
            self.assertIsNone(process.poll())
        process.kill()
        process.communicate(timeout=300)
        end = time.monotonic() + 100
        while self.folder in subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout and time.monotonic() < end:
            time.sleep(0.05)
        self.assertNotIn(self.folder, subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout)
        self.assertFalse([name for name in os.listdir("/run/netns") if name in ("n0", "n1")] if os.path.exists("/run/netns") else [])

    @unittest.skipIf(network.missing_tools({"tcpdump": "tcpdump"}), "no tcpdump")
    def test_captures_have_what_the_nics_counted(self):
        captures = os.path.join(self.folder, "captures")
        process = self.start(plan({"repetitions": 5, "loss": 0.01}), "--captures", captures)
        row = self.measured(process)[0]
        folder = os.path.join(captures, "workload=transfer,workers=2,bytes=65536,rate=100Mbps,loss=0.01")
        self.assertEqual(sorted(os.listdir(folder)), ["n0.pcap", "n1.pcap"])
        sent = sum(size for node in (0, 1) for source, size in packets(os.path.join(folder, f"n{node}.pcap")) if source == node + 1)
        self.assertAlmostEqual(sent, int(row["sent_bytes"]), delta=5 * 3 * 100)  # acknowledgements between two counts
        if os.path.exists(REHEARSE):
            result = subprocess.run([REHEARSE, "traffic", folder, "--json"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["total"]["size_B"], sent)

    @unittest.skipIf(network.missing_tools(testbed.kTools["all_reduce_mpi"]), "no OpenMPI, or no compiler")
    def test_openmpi_sends_what_its_ring_says(self):
        process = self.start(plan({"workload": "all_reduce_mpi", "mode": "ring", "workers": 3, "bytes": 262144, "repetitions": 5}))
        row = self.measured(process)[0]
        payload = 5 * 2 * (3 - 1) * 262144  # of all nodes
        sent = int(row["sent_bytes"])
        self.assertGreater(sent, payload * (1 + 66 / 1448))
        self.assertLess(sent, 1.15 * payload)  # headers, acknowledgements, messages of OpenMPI

    @unittest.skipUnless(HAS_TORCH and os.path.exists(REHEARSE), "no PyTorch, or no program")
    def test_a_replay_sends_what_the_program_says(self):
        process = self.start(plan({"workload": "tensor", "mode": "degree 2", "steps": 2, "repetitions": 2}), "--python", "/usr/bin/python3", "--rehearse", REHEARSE)
        row = self.measured(process)[0]
        payload = 4 * 2 * sum(node["comm_size"] for node in exported("tensor", "degree 2", 2, 65536)[0].values() if node["type"] == chakra.kCollective)
        self.assertGreater(int(row["sent_bytes"]), payload * (1 + 66 / 1448))  # of two nodes in four steps, each of which sends all bytes once
        self.assertLess(int(row["sent_bytes"]), 1.2 * payload)

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_a_training_computes_on_one_thread_and_becomes_a_job(self):
        process = self.start(plan({"workload": "all_reduce_gloo", "bytes": 1048576, "layers": 4, "batch": 512, "steps": 3, "repetitions": 2}), "--python", "/usr/bin/python3")
        row, series = self.measured(process)[0], list(testbed.Results(self.rows).series.values())[0]
        used = [float(word) for word in series["processor"].split()]
        if row["counts"] == "1":  # most of a step is communication, and no other thread spins meanwhile
            self.assertLess(sorted(used)[len(used) // 4], 0.15)
        mean = sum(map(int, series["receive_Bps"].split())) / len(used)
        self.assertAlmostEqual(mean, float(row["receive_mean_Bps"]), delta=0.02 * mean)
        self.assertGreater(mean * len(used) * rates.kPeriod, 0.9 * 6 * 1048576)  # two nodes: all bytes in each step, in two halves
        with mock.patch.object(testbed, "read_rows", lambda path, columns: {0: {**row, "counts": "1"}} if columns[-1] == "counts" else {0: series}):
            jobs, _ = dataset.convert(self.rows, self.folder)
        self.assertEqual([job["series"] for job in jobs], ["series-1.csv"])


def packets(path):
    """(last byte of the sender's address, bytes of the frame) of each packet of a capture with nanoseconds."""
    with open(path, "rb") as file:
        data = file.read()
    at = 24
    while at < len(data):
        _, _, kept, size = struct.unpack_from("<IIII", data, at)
        yield data[at + 16 + 14 + 15], size
        at += 16 + kept


if __name__ == "__main__":
    unittest.main()
