#!/usr/bin/env python3
"""accuracy_test.py: predictor/accuracy.json is whole, and predictor/README.md states no accuracy that is not made of it.

That the tables of the README are those of the file is what `cmake/readme_tables.py --check` compares.
"""

import json
import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tests/bench")
import prediction  # noqa: E402
import prediction_tables  # noqa: E402

HEADING = "## What is known of its accuracy"
LEAST_STUDY = 60  # rows in the splits that corrections learn from, of a study that is left out: kLeastStudy of sim/app/train_command.cpp


def refuse(word):
    raise ValueError(f"{word} is no number of a table")


def load(path):
    with open(f"{ROOT}/{path}") as file:
        return json.loads("".join(line for line in file if not line.lstrip().startswith("//")), parse_constant=refuse)


def numbers(value):
    if isinstance(value, (dict, list)):
        for of in value.values() if isinstance(value, dict) else value:
            yield from numbers(of)
    elif isinstance(value, (int, float)):
        yield value


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.accuracy = prediction_tables.load(ROOT)
        cls.space = load("scenarios/spaces/strategies.json")

    def left_out(self, space, kind):
        return [row["name"] for row in prediction_tables.rows_of(self.accuracy, space, kind)]

    def test_all_that_the_command_leaves_out_is_there_once(self):
        self.assertEqual(self.left_out("reference", "nothing"), [f"seed {i + 1}" for i in range(self.accuracy["options"]["seeds"])])
        self.assertEqual(self.left_out("strategies", "nothing"), ["seed 1"])
        self.assertIn(self.left_out("strategies", "ablation"), [[], list(prediction.ABLATIONS)])
        for kind, names in prediction.LEFT_OUT.items():
            self.assertIn(self.left_out("strategies", kind), [[], list(names)])
        self.assertEqual(list(prediction.LEFT_OUT), list(prediction_tables.KINDS))

    def test_what_is_left_out_is_in_the_space(self):
        clusters = self.space["clusters"]
        known = {"family": {workload["family"] for workload in load("scenarios/spaces/reference.json")["workloads"]},
                 "strategy": {cluster["name"] for cluster in clusters},
                 "GPU": {gpu for cluster in clusters for gpu in cluster["let"]["gpu"]["choose"]}}
        for kind, names in known.items():
            self.assertLessEqual(set(prediction.LEFT_OUT[kind]), names)

    def test_options_are_the_defaults_of_the_command(self):
        defaults = vars(prediction.arguments(["rehearse", "folder"]))
        self.assertEqual(self.accuracy["options"], {name: defaults[name] for name in self.accuracy["options"]})

    def test_rows_have_all_figures(self):
        errors = {"burst_median", "burst_p90", "step_median", "step_p90"}
        for row in self.accuracy["simulated"]:
            with self.subTest(space=row["space"], name=row["name"]):
                self.assertEqual(set(row["learnt"]), errors | {"inside"})
                self.assertEqual(list(row["learnt"]["inside"]), ["50", "80", "90", "95"])
                shares = list(row["learnt"]["inside"].values())
                self.assertEqual(shares, sorted(shares))
                self.assertLessEqual(row["learnt"]["burst_median"], row["learnt"]["burst_p90"])
                self.assertGreater(row["training_samples"], row["test_samples"])
                self.assertGreaterEqual(row["test_samples"], row["test_models"])
                if row["left_out"] != "ablation" and row["name"] not in ("seed 2", "seed 3"):  # which the same baselines stand beside
                    self.assertEqual(set(row["baselines"]), {"median", "closed form", "linear", "trees", "neighbours"})
                    for baseline, of in row["baselines"].items():
                        self.assertEqual(set(of), errors, baseline)

    def test_errors_are_numbers_above_0(self):
        found = list(numbers(self.accuracy))
        self.assertGreater(len(found), 100)
        for value in found:
            self.assertTrue(0 <= value < 1e6, value)
        for row in self.accuracy["simulated"]:
            self.assertTrue(all(of[metric] > 0 for of in [row["learnt"], *row["baselines"].values()] for metric in of if metric != "inside"), row)

    def test_measured_rows_are_those_of_the_studies(self):
        measured, known = self.accuracy["measured"], {os.path.basename(study).removesuffix(".json") for study in load("scenarios/studies/measured.json")["studies"]}
        studies = {}
        for point in measured["left_out_studies"]:
            studies.setdefault(point["study"], []).append(point["rows_added"])
            self.assertIn(point["study"], known)
            self.assertGreaterEqual(point["rows"], LEAST_STUDY)
            low, high = point["ratio_5_to_95"]
            self.assertLessEqual(low, high)
        self.assertGreater(len(studies), 4)
        for study, added in studies.items():
            self.assertEqual(added, sorted(set(added)), study)
            self.assertEqual(added[0], 0, study)
        if "test" not in measured:
            return
        self.assertLessEqual(measured["studies"], len(known))  # some have no row that other profiles can predict
        rows = {row["predictor"]: row["rows"] for row in measured["test"]}
        self.assertEqual(len(rows), len(measured["test"]))
        self.assertLessEqual({"simulated", "learnt", "taught", "corrected", "closed form", "linear", "trees", "neighbours", "median"}, set(rows))
        self.assertTrue(all(0 < count <= measured["rows"]["test"] for count in rows.values()), rows)
        self.assertLessEqual(measured["engine_where_learnt"]["rows"], min(rows["learnt"], rows["simulated"]))
        for free in {choice["free"] for choice in measured["choices"]}:
            by = {choice["predictor"]: choice for choice in measured["choices"] if choice["free"] == free}
            self.assertTrue(all(choice["choices"] > 0 for choice in by.values()))
            self.assertLessEqual({"simulated", "corrected"}, set(by))

    def test_the_readme_states_no_other_accuracy(self):
        with open(f"{ROOT}/predictor/README.md") as file:
            section = file.read().split(f"\n{HEADING}\n")[1]
        part = re.compile(r"<!-- (prediction-\w+), written by .*?: begin -->\n.*?<!-- \1: end -->\n", re.DOTALL)
        self.assertEqual(part.findall(section), prediction_tables.present(self.accuracy))
        prose = part.sub("", section)
        self.assertEqual(re.findall(r".*\d\.\d.*|(?<!5 to 95)(?<=\d) %.*|^\|.*", prose, re.MULTILINE), [])


if __name__ == "__main__":
    unittest.main()
