#!/usr/bin/env python3
"""kineto_test.py --program PROGRAM: timelines of simulated runs, for Perfetto, and as traces of ranks for HTA and replay."""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RUNS = {"dgx": [], "cm-dare": ["--set", "/training/steps=60"], "pollux": [], "hkbu-bert-large": [], "gpt2-xl-pipeline": []}
PART = 1e-3  # us: dates have three decimals


def call(*line):
    return subprocess.run([OPTIONS.program, *line], check=True, capture_output=True, encoding="utf-8").stdout


def read(file):
    with gzip.open(file, "rb") as text:
        return json.loads(text.read())


def spans_of(trace, *categories):
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and (not categories or event["cat"] in categories)]


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.summaries, cls.traces = {}, {}
        for name, settings in RUNS.items():
            out = cls.place(name)
            cls.summaries[name] = json.loads(call("simulate", f"{ROOT}/scenarios/{name}.json", *settings, "--quiet", "--json", "--trace-format", "kineto",
                                                  "-o", out))
            cls.traces[name] = [read(f"{out}/kineto/rank-{rank}.json.gz") for rank in range(len(os.listdir(f"{out}/kineto")))]

    @classmethod
    def place(cls, name):
        return os.path.join(cls.folder.name, name)

    def test_a_rank_is_a_file_and_what_hta_needs_is_there(self):
        workers = {"dgx": 8, "cm-dare": 4, "pollux": 6, "hkbu-bert-large": 8, "gpt2-xl-pipeline": 16}
        for name, traces in self.traces.items():
            self.assertEqual([trace["distributedInfo"]["rank"] for trace in traces], list(range(workers[name])))
            for trace in traces:
                self.assertEqual(trace["distributedInfo"]["world_size"], workers[name])
                self.assertLess(list(trace).index("distributedInfo"), list(trace).index("traceEvents"))
                for event in spans_of(trace):
                    self.assertTrue(event["cat"] and event["name"] and event["dur"] >= 0, event)
                launches = {event["args"]["correlation"]: event for event in spans_of(trace, "cuda_runtime")}
                for event in spans_of(trace, "kernel", "gpu_memcpy"):
                    self.assertGreaterEqual(event["args"]["stream"], 0)
                    self.assertEqual(event["tid"], event["args"]["stream"])
                    launch = launches[event["args"]["correlation"]]
                    self.assertLessEqual(launch["ts"], event["ts"] + PART, event)

    def test_kernels_have_work_collectives_have_bytes_and_all_have_a_step(self):
        for name, traces in self.traces.items():
            kernels = spans_of(traces[0], "kernel")
            computing = [event for event in kernels if event["args"]["stream"] == 7]
            talking = [event for event in kernels if event["args"]["stream"] != 7]
            self.assertTrue(computing and talking, name)
            for event in computing:
                self.assertTrue({"operator", "FLOPs", "bytes", "step"} <= set(event["args"]) or "update" in event["name"], event)
            for event in talking:
                self.assertTrue("ncclKernel" in event["name"] and "step" in event["args"], event)
            self.assertTrue(all(event["args"].get("In msg nelems", 1) > 0 for event in talking))

    def test_spans_of_a_stream_and_steps_do_not_overlap(self):
        for traces in self.traces.values():
            for trace in traces:
                ends = {}
                for event in sorted(spans_of(trace, "kernel", "gpu_memcpy", "wait", "user_annotation"), key=lambda event: (event["ts"], event["dur"])):
                    track = (event["pid"], event["tid"], event["cat"] == "user_annotation")
                    self.assertGreaterEqual(event["ts"] + PART, ends.get(track, 0), event)
                    ends[track] = event["ts"] + event["dur"]

    def test_steps_last_as_the_summary_says(self):
        for name in ("dgx", "pollux", "hkbu-bert-large"):
            steps = [event["dur"] * 1e-6 for event in spans_of(self.traces[name][0], "user_annotation")]
            self.assertEqual([event["name"] for event in spans_of(self.traces[name][0], "user_annotation")],
                             [f"ProfilerStep#{i + 1}" for i in range(len(steps))])
            self.assertAlmostEqual(sum(steps) / len(steps) / self.summaries[name]["iteration_time_s"], 1, delta=0.01, msg=name)

    def test_waits_are_the_exposed_communication(self):
        for name in ("dgx", "pollux", "hkbu-bert-large", "cm-dare"):
            steps = spans_of(self.traces[name][0], "user_annotation")
            waits = sum(event["dur"] for event in spans_of(self.traces[name][0], "wait")) * 1e-6 / len(steps)
            expected = self.summaries[name]["exposed_communication_s"]
            self.assertLess(abs(waits - expected), 0.02 * self.summaries[name]["iteration_time_s"], name)

    def test_a_replay_takes_as_long_as_the_run(self):
        for name, traces in self.traces.items():
            out = self.place(name)
            files = [f"{out}/kineto/rank-{rank}.json.gz" for rank in range(len(traces))]
            replay = json.loads(call("replay", *files, "--quiet", "--json"))
            self.assertEqual(replay["ranks"], len(traces))
            self.assertAlmostEqual(replay["whole"]["replayed_s"] / replay["whole"]["measured_s"], 1, delta=0.001, msg=name)
            if name != "gpt2-xl-pipeline":
                self.assertLess(replay["unexplained_share"], 0.01, name)

    def test_the_same_run_gives_the_same_bytes(self):
        again = self.place("again")
        call("simulate", f"{ROOT}/scenarios/dgx.json", "--quiet", "--trace-format", "kineto", "-o", again)
        for name in os.listdir(f"{again}/kineto"):
            with open(f"{again}/kineto/{name}", "rb") as one, open(f"{self.place('dgx')}/kineto/{name}", "rb") as other:
                self.assertEqual(one.read(), other.read(), name)


class Timeline(unittest.TestCase):
    def test_slices_have_categories_and_arguments_and_there_are_waits(self):
        with tempfile.TemporaryDirectory() as folder:
            call("simulate", f"{ROOT}/scenarios/cm-dare.json", "--set", "/training/steps=60", "--quiet", "-o", folder)
            slices = spans_of(read(f"{folder}/timeline.json.gz"))
        self.assertTrue(all(event.get("cat") for event in slices))
        of = {category: [event for event in slices if event["cat"] == category] for category in {event["cat"] for event in slices}}
        self.assertEqual(set(of), {"kernel", "receive", "send", "server", "step", "wait"})
        self.assertTrue(all({"bytes", "peer"} <= set(event["args"]) for event in of["send"] + of["receive"]))
        self.assertTrue(all({"FLOPs", "step"} <= set(event["args"]) for event in of["kernel"]))

    def test_a_format_needs_a_folder(self):
        refused = subprocess.run([OPTIONS.program, "simulate", f"{ROOT}/scenarios/dgx.json", "--trace-format", "kineto"], capture_output=True, check=False,
                                 encoding="utf-8")
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1))
        self.assertIn("--trace-format: expected -o beside it", refused.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    OPTIONS, others = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *others])
