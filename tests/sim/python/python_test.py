#!/usr/bin/env python3
"""python_test.py --package FOLDER --program PROGRAM: the Python package against the program."""

import argparse
import ast
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SCENARIOS = os.path.join(ROOT, "scenarios")
SMALL = os.path.join(SCENARIOS, "dgx.json")
BRIEF = ["dgx", "data-sheet", "gpt2-xl-pipeline", "mxnet-ps", "cm-dare", "pollux", "collective"]
HAS_PANDAS = importlib.util.find_spec("pandas") is not None


def printed(*line):
    """What the program prints."""
    return subprocess.run([OPTIONS.program, *line], capture_output=True, check=True, encoding="utf-8").stdout


def setUpModule():
    warnings.simplefilter("ignore")


class InThisProcess(unittest.TestCase):
    def test_summaries_are_the_bytes_of_the_command(self):
        for name in BRIEF:
            file = os.path.join(SCENARIOS, f"{name}.json")
            with self.subTest(name):
                expected = printed("simulate", file, "--json", "--quiet")
                self.assertEqual(rehearse.simulate(file).text, expected)
                self.assertEqual(rehearse.simulate(file).text, expected, "a second time")

    def test_overrides_and_seeds_are_those_of_the_command(self):
        file = os.path.join(SCENARIOS, "cm-dare.json")
        expected = printed("simulate", file, "--json", "--quiet", "--seed", "7", "--set", "/cluster/groups/1/count=2")
        self.assertEqual(rehearse.simulate(file, set={"/cluster/groups/1/count": 2}, seed=7).text, expected)
        samples = rehearse.simulate(file, set={"/training/steps": None, "/training/samples": 2560})  # None takes a key away
        self.assertEqual(samples.samples_done, 2560)
        scenario = rehearse.Scenario.load(file)
        scenario.cluster.groups[1].count = 2
        scenario.name = json.loads(expected)["name"]
        self.assertEqual(rehearse.simulate(scenario, seed=7).text, expected)
        self.assertEqual(rehearse.simulate(scenario.to_dict(), seed=7)["steps_per_s"], json.loads(expected)["steps_per_s"])

    def test_keys_are_attributes(self):
        run = rehearse.simulate(SMALL)
        self.assertEqual(run.time_s, run["time_s"])
        self.assertIn("time_s", dir(run))
        self.assertEqual(dict(run), run.to_dict())
        with self.assertRaisesRegex(AttributeError, "no key 'time'; there are "):
            run.time

    def test_errors_name_file_and_pointer(self):
        scenario = rehearse.Scenario.load(SMALL)
        scenario.workload.batch_per_worker = 0
        with self.assertRaises(rehearse.InputError) as caught:
            rehearse.simulate(scenario)
        self.assertEqual((caught.exception.file, caught.exception.pointer), (SMALL, "/workload/batch_per_worker"))
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(rehearse.InputError) as caught:
            rehearse.simulate({"format": 1})
        self.assertEqual(caught.exception.file, None)
        with self.assertRaisesRegex(rehearse.InputError, "missing.json: cannot read: No such file"):
            rehearse.simulate("missing.json")
        with self.assertRaisesRegex(rehearse.InputError, r"^broken:1:2: "):
            rehearse._rehearse.simulate("{", "broken", [], None, [])

    def test_other_threads_run_meanwhile_and_may_simulate(self):
        texts, ticks = [], []
        threads = [threading.Thread(target=lambda: texts.append(rehearse.simulate(SMALL).text)) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            ticks.append(time.monotonic())
            time.sleep(0.0005)
        self.assertEqual(len(set(texts)), 1)
        self.assertEqual(len(texts), 4)
        self.assertGreater(len(ticks), 2)

    def test_ctrl_c_ends_a_long_simulation(self):
        code = ("import rehearse, sys\nprint('begun', flush=True)\ntry:\n"
                f"  rehearse.simulate({os.path.join(SCENARIOS, 'cm-dare-spot.json')!r}, set={{'/training/steps': 10000000}})\n"
                "except KeyboardInterrupt:\n  print('interrupted')\n")
        with subprocess.Popen([sys.executable, "-B", "-c", code], env={**os.environ, "PYTHONPATH": OPTIONS.package},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
            process.stdout.readline()
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, said = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("interrupted\n", 0), said)


class ByTheProgram(unittest.TestCase):
    def test_a_report_is_a_page(self):
        page = rehearse.simulate(SMALL)._repr_html_()
        self.assertIn("<iframe srcdoc=", page)
        self.assertIn("&lt;html", page)

    def test_output_is_what_the_command_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            run = rehearse.simulate(SMALL, output=os.path.join(folder, "run"))
            self.assertIn("report.html", os.listdir(os.path.join(folder, "run")))
            with open(os.path.join(folder, "run", "summary.json"), encoding="utf-8") as summary:
                self.assertEqual(run.text, summary.read())

    def test_a_sweep_has_the_rows_of_the_command(self):
        grid = {"/workload/batch_per_worker": [16, 32], "/training/steps": "20..30+10"}
        swept = rehearse.sweep(SMALL, grid)
        expected = printed("sweep", SMALL, "--json", "--quiet", "--grid", "/workload/batch_per_worker=16,32", "--grid", "/training/steps=20..30+10")
        self.assertEqual(swept.text, expected)
        self.assertEqual(len(swept.rows), 4)
        if HAS_PANDAS:
            frame = swept.frame()
            self.assertEqual(len(frame), 4)
            self.assertEqual(list(frame["steps_per_s"]), [row["summary"]["steps_per_s"] for row in swept.rows])
            self.assertIn("<table", swept._repr_html_())

    def test_other_commands_give_what_they_print(self):
        validation = rehearse.validate(os.path.join(SCENARIOS, "studies", "cm-dare-latency.json"), jobs=2)
        self.assertGreater(len(validation), 0)
        self.assertIn("<html", validation.report())
        if HAS_PANDAS:
            self.assertIn("simulated", validation.frame().columns)
        with self.assertRaises(rehearse.InputError):
            rehearse.validate("missing.json")
        with self.assertRaisesRegex(rehearse.InputError, "--no-such-option"):
            rehearse.sweep(SMALL, {"/seed": "1..2"}, no_such_option=True)

    def test_provision_calibrate_and_replay_are_those_of_the_command(self):
        file = os.path.join(SCENARIOS, "provision", "resnet110.json")
        plan = rehearse.provision(file, deadline="2600s", target_loss=0.8, quota={"g3.8xlarge": 2})
        line = ["--deadline", "2600s", "--target-loss", "0.8", "--quota", "g3.8xlarge=2", "--json", "--quiet"]
        self.assertEqual(plan.text, printed("provision", file, *line))
        self.assertIn("<html", plan.report())
        if HAS_PANDAS:
            self.assertIn("plan", plan.frame().columns)
        with self.assertRaises(rehearse.NoResultError):
            rehearse.provision(file, deadline="1s", target_loss=0.8)
        study = os.path.join(SCENARIOS, "studies", "own", "step-times.json")
        with tempfile.TemporaryDirectory() as folder:
            profile = rehearse.calibrate(study, steps=1, output=os.path.join(folder, "profile.json"))
            profile.save(os.path.join(folder, "again.json"))
            with open(os.path.join(folder, "profile.json"), encoding="utf-8") as one, open(os.path.join(folder, "again.json"), encoding="utf-8") as other:
                self.assertEqual(one.read(), other.read())
            self.assertEqual(profile["fit"]["free_values"], 1)
        trace = os.path.join(ROOT, "calibration", "data", "pytorch-kineto-traces", "resnet50_v100_1gpu_loader0_a.json.gz")
        self.assertEqual(rehearse.replay(trace, scale={"kernels": 0.5}).text, printed("replay", trace, "--scale", "kernels=0.5", "--json", "--quiet"))

    def test_monte_carlo_runs(self):
        runs = rehearse.simulate(os.path.join(SCENARIOS, "spotdnn-revocation.json"), set={"/training/steps": 200}, runs=3)
        self.assertIsInstance(runs, rehearse.Runs)

    def test_traffic_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            rehearse.simulate(os.path.join(SCENARIOS, "cm-dare.json"), set={"/training/steps": 200}, output=folder)
            traffic = rehearse.traffic(folder)
            self.assertIn("<html", traffic.report())

    def test_without_a_predictor_the_error_says_so(self):
        if os.path.exists(os.path.join(os.path.dirname(OPTIONS.program), "rehearse-predictor")):
            self.skipTest("it was built")
        with self.assertRaisesRegex((rehearse.InputError, RuntimeError), "rehearse-predictor"):
            rehearse.predict("model", SMALL)


class Scenarios(unittest.TestCase):
    def test_fields_are_attributes_and_files_read_back(self):
        scenario = rehearse.Scenario.load(os.path.join(SCENARIOS, "cm-dare.json"))
        scenario.cluster.groups[0].count = 3
        scenario.training.strategy = {"kind": "all_reduce"}
        self.assertEqual(scenario["cluster"]["groups"][0]["count"], 3)
        self.assertEqual(scenario.training.strategy.kind, "all_reduce")
        self.assertEqual([group.count for group in scenario.cluster.groups][0], 3)
        with self.assertRaisesRegex(AttributeError, "no field 'worklod'; there are .*workload"):
            scenario.worklod
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "saved.json")
            scenario.save(file)
            self.assertEqual(rehearse.Scenario.load(file), scenario)
            self.assertEqual(os.listdir(folder), ["saved.json"])

    def test_stubs_have_every_field_of_the_schema(self):
        with open(os.path.join(OPTIONS.package, "rehearse", "scenario.pyi"), encoding="utf-8") as text:
            stubs = {node.name: node for node in ast.parse(text.read()).body if isinstance(node, ast.ClassDef)}
        schema = json.loads(printed("schema", "scenario"))

        def fields(name):
            return {node.target.id for node in stubs[name].body if isinstance(node, ast.AnnAssign)}

        self.assertEqual(fields("Scenario"), set(schema["properties"]))
        self.assertEqual(fields("Workload"), set(schema["properties"]["workload"]["properties"]))
        self.assertEqual(fields("Training"), set(schema["properties"]["training"]["properties"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    parser.add_argument("--program", required=True)
    OPTIONS, others = parser.parse_known_args()
    sys.path.insert(0, OPTIONS.package)
    import rehearse

    unittest.main(argv=[sys.argv[0], *others])
