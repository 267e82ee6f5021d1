"""calibration/testbed: its plans and results, and, where namespaces may be made, a real network."""
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

TESTBED = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "calibration", "testbed"))
sys.path.insert(0, TESTBED)
import network  # noqa: E402
import rates  # noqa: E402
import testbed  # noqa: E402

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
        sampler = rates.Sampler("v0")
        sampler.times, sampler.counters = [0.0, 0.013, 0.021, 0.04], [(0, 0), (100, 10), (400, 40), (500, 50)]
        receive, transmit = sampler.series(0.0, 0.04)
        self.assertAlmostEqual(sum(transmit) * rates.kPeriod, 500)  # what a node sent, the port received
        self.assertAlmostEqual(sum(receive) * rates.kPeriod, 50)
        self.assertEqual(len(receive), 4)


class Results(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(tempfile.mkdtemp(), "deep", "rows.csv")

    def tearDown(self):
        shutil.rmtree(os.path.dirname(os.path.dirname(self.path)))

    def measured(self, plan_, busy, **options):
        """Sizes that were measured, by a laboratory whose processors are as busy as `busy` says of a size."""
        sizes = []

        def measure(_, setting, effort):
            sizes.append(setting["bytes"])
            share = busy(setting["bytes"])
            if share is None:
                raise network.TestbedError("node 1 has ended")
            row = dict.fromkeys(testbed.kResults, 0)
            return {**setting, **row, "steps": effort["steps"], "median_s": 0.001, "busy": share, "counts": int(share < testbed.kMostBusy)}
        with mock.patch.object(testbed, "Lab"), mock.patch.object(testbed, "measure", measure), open(os.devnull, "w") as null, \
                mock.patch.object(sys, "stderr", null):
            self.outcome = testbed.measure_plan(plan_, self.path, "python3", options.get("again", False))
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

    def test_a_table_of_others_is_refused(self):
        os.makedirs(os.path.dirname(self.path))
        with open(self.path, "w") as file:
            file.write("a,b\n1,2\n")
        with self.assertRaisesRegex(network.TestbedError, "other columns"):
            testbed.read_rows(self.path)


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

    def start(self, plan_):
        path = os.path.join(self.folder, "plan.json")
        with open(path, "w") as file:
            json.dump(plan_, file)
        return subprocess.Popen([sys.executable, "-B", os.path.join(TESTBED, "testbed.py"), path, "-o", self.rows, "--python", sys.executable],
                                stderr=subprocess.PIPE, text=True, start_new_session=True)

    def read(self):
        with open(self.rows) as file:
            return list(csv.DictReader(file))

    def test_all_bytes_cross_the_network_with_their_headers_and_what_is_lost_crosses_again(self):
        process = self.start(plan({"repetitions": 6}, {"repetitions": 6, "loss": 0.05}, {"repetitions": 6, "connections": 3}))
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        for row in self.read():
            segments = 6 * -(-65536 // 1448)
            data = 6 * 65536 + segments * (14 + 20 + 32)
            self.assertGreaterEqual(int(row["sent_bytes"]), data)  # of both: data, and acknowledgements of at most each segment
            self.assertLessEqual(int(row["sent_bytes"]), 1.6 * data if row["loss"] == "0" else 3 * data)
            self.assertGreaterEqual(int(row["sent_segments"]), segments)
            self.assertEqual(int(row["retransmitted"]) > 0, row["loss"] != "0", row)

    def test_ctrl_c_keeps_the_rows_and_leaves_nothing_behind(self):
        process = self.start(plan({"bytes": [65536, 65537, 65538], "repetitions": 10000, "seconds": 1}))
        while not os.path.exists(self.rows):
            time.sleep(0.05)
            self.assertIsNone(process.poll())
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("goes on", err.splitlines()[-1])
        self.assertGreaterEqual(len(self.read()), 1)


if __name__ == "__main__":
    unittest.main()
