#!/usr/bin/env python3
"""Runs `rehearse VERB ...` as a user would, on shipped files whose structure or bytes were changed, and checks that each run

  - ends with 0, 2 or 3 (130 if interrupted), by no signal, within its limits of time and memory;
  - says one line on stderr if it fails, which names a file or an option;
  - writes nothing when it refuses, never changes its inputs, and never leaves temporaries;
  - prints no control characters, no nan, and writes CSV files without formulas and JSON files that parse.

  tests/fuzz/structure_fuzzer.py --build build --count 20000            # about half an hour on two idle cores
  tests/fuzz/structure_fuzzer.py --build build --only simulate,sweep --seed 7
  tests/fuzz/structure_fuzzer.py --build build --seed 7 --case 1234          # one case again

Case i of a seed is the same whatever --count and -j are. Folders of failures stay in --failures. Exit code 1 if there are any."""

import argparse
import csv
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutations  # noqa: E402
from mutations import HOSTILE_TEXTS, NUMBERS, QUANTITIES, Object, Raw, copy_of, hostile_value, parse, places, put, to_text, value_at  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
kOuterLimit = 20  # s of real time on an idle machine; runs that state --max-wall-time end long before
kMemory = 4 * 2**30  # B of addresses; LibTorch alone takes more
kPredictorMemory = 24 * 2**30
kPredictorVerbs = ("import", "train", "predict", "compare")
kVerbs = ("init", "simulate", "validate", "calibrate", "sweep", "provision", "diff", "remaining", "diagnose", "generate", "list", "schema",
          *kPredictorVerbs)


def read_text(path):
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogatepass" if "\ud800" <= max(text, default="") <= "\udbff" else "surrogateescape",
              newline="") as file:
        file.write(text)


def with_absolute_paths(node, folder):
    """Names of files that stand relative to `folder`, so that the document may lie elsewhere."""
    for container, index, _ in places(node):
        text = value_at(container, index)
        if isinstance(text, str) and re.search(r"[./]", text) and not text.startswith("/") and len(text) < 300:
            path = os.path.normpath(os.path.join(folder, text))
            if os.path.isfile(path) or (os.path.isdir(path) and "/" in text):
                put(container, index, path)
    return node


def shipped(*patterns):
    import glob
    return sorted(path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern), recursive=True))


def load_shipped(path):
    return with_absolute_paths(parse(read_text(path)), os.path.dirname(path))


def at(node, pointer):
    for word in pointer.strip("/").split("/"):
        if isinstance(node, Object):
            node = node.get(word)
        elif isinstance(node, list) and word.isdigit() and int(word) < len(node):
            node = node[int(word)]
        else:
            return None
    return node


def small_scenario(node):
    """A scenario that takes milliseconds, which keeps its parts."""
    training = node.get("training")
    if isinstance(training, Object):
        for key, most in (("steps", 30), ("steps_per_worker", 5), ("warmup_steps", 2)):
            value = training.get(key)
            if isinstance(value, int) and value > most:
                training.set(key, most)
        checkpoint = training.get("checkpoint")
        if isinstance(checkpoint, Object) and isinstance(checkpoint.get("every_steps"), int):
            checkpoint.set("every_steps", min(checkpoint.get("every_steps"), 10))
    for group in at(node, "/cluster/groups") or []:
        if isinstance(group, Object) and isinstance(group.get("count"), int):
            group.set("count", min(group.get("count"), 6))
    return node


class Shipped:
    """What the fuzzer starts from; made once, then only read."""

    def __init__(self, build, folder):
        self.build = os.path.abspath(build)
        self.program = os.path.join(self.build, "rehearse")
        self.folder = folder
        self.has_predictor = os.path.exists(os.path.join(self.build, "rehearse-predictor"))
        self.options = {verb: self.options_of(verb) for verb in kVerbs if self.has_predictor or verb not in kPredictorVerbs}
        self.scenarios = [(path, small_scenario(load_shipped(path))) for path in shipped("scenarios/*.json", "scenarios/tum/*.json", "scenarios/driple/0*.json")]
        self.sweeps = [(path, load_shipped(path)) for path in shipped("scenarios/sweeps/*.json")]
        self.provisions = [(path, load_shipped(path)) for path in shipped("scenarios/provision/*.json")]
        self.spaces = [(path, load_shipped(path)) for path in shipped("scenarios/spaces/small.json", "scenarios/spaces/clusters.json", "scenarios/spaces/reference.json")]
        self.studies = [(path, load_shipped(path)) for path in shipped("scenarios/studies/*.json", "scenarios/studies/own/*.json")]
        self.studies = [(path, node) for path, node in self.studies if node.get("measurements") is not None]
        self.lifetimes = load_shipped(os.path.join(ROOT, "scenarios/studies/lifetimes/all.json"))
        self.logs = load_shipped(os.path.join(ROOT, "scenarios/studies/training-logs-example.json"))
        self.models = [(path, parse(read_text(path))) for path in shipped("workloads/models/*.json", "workloads/models/*/*.json")]
        self.profiles = [(path, parse(read_text(path))) for path in shipped("calibration/profiles/*.json")]
        self.catalogs = [(path, parse(read_text(path))) for path in shipped("platforms/catalog/*.json")]
        self.words = {kind: mutations.Vocabulary() for kind in ("scenario", "sweep", "provision", "space", "study", "model", "profile", "catalog", "list")}
        for kind, documents in (("scenario", self.scenarios), ("sweep", self.sweeps), ("provision", self.provisions), ("space", self.spaces),
                                ("study", self.studies), ("model", self.models), ("profile", self.profiles), ("catalog", self.catalogs)):
            for _, node in documents:
                self.words[kind].learn(node)
        self.words["study"].learn(self.lifetimes)
        self.words["study"].learn(self.logs)
        for kind, words in (("scenario", "scenario"), ("sweep", "sweep"), ("provision", "provision"), ("space", "space"), ("model", "model"),
                            ("measurements", "list"), ("study", "study"), ("profile", "profile"), ("catalog", "catalog"), ("accelerators", "catalog")):
            answer = self.run_quietly("schema", kind)
            if answer is not None:
                self.words[words].learn_schema(parse_plain(answer))
        self.pointers = sorted({pointer for _, node in self.scenarios for pointer in pointers_of(node)})
        self.make_results()

    def run_quietly(self, *arguments):
        result = subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=300)
        return result.stdout if result.returncode == 0 else None

    def options_of(self, verb):
        """{"--seed": takes a value} as --help lists them."""
        result = subprocess.run([self.program, verb, "--help"], capture_output=True, text=True, timeout=60)
        return {match.group(1): bool(match.group(2)) for match in
                re.finditer(r"^  (?:-\w,)?(--[a-z-]+)((?: [A-Z][A-Z=.]*(?:[:=]\S*)?)|:\S+)?", result.stdout, re.M) if match.group(1) != "--help"}

    def make_results(self):
        """Results of the program itself: folders to compare, a store, a dataset, a network."""
        def must(*arguments):
            if self.run_quietly(*arguments) is None:
                raise SystemExit(f"structure_fuzzer: cannot make what it starts from: {shlex.join(arguments)}")
        scenario = os.path.join(ROOT, "scenarios/cm-dare.json")
        self.runs = [os.path.join(self.folder, name) for name in ("run-a", "run-b")]
        for path, workers in zip(self.runs, (1, 2)):
            must("simulate", scenario, "--set", "/training/steps=20", "--set", f"/cluster/groups/1/count={workers}", "-o", path, "--quiet")
        self.swept = os.path.join(self.folder, "swept")
        must("sweep", os.path.join(ROOT, "scenarios/dgx.json"), "--grid", "/workload/batch_per_worker=16,32,64", "-o", self.swept, "--quiet")
        self.dataset = os.path.join(self.folder, "small.db")
        must("generate", os.path.join(ROOT, "scenarios/spaces/small.json"), "--count", "12", "-o", self.dataset, "--quiet")
        self.network = os.path.join(self.folder, "network")
        if self.has_predictor:
            must("train", self.dataset, "--epochs", "1", "--hidden", "4", "-o", self.network, "--quiet")


def parse_plain(text):
    return json.loads(text)


def pointers_of(node, above=""):
    found = []
    pairs = node.pairs if isinstance(node, Object) else enumerate(node) if isinstance(node, list) else []
    for key, value in pairs:
        found.append(f"{above}/{key}")
        found += pointers_of(value, f"{above}/{key}")
    return found


class Case:
    """One run: its folder, its command, what it may touch."""

    def __init__(self, shipped_files, rng, folder):
        self.files, self.rng, self.folder = shipped_files, rng, folder
        self.cwd = os.path.join(folder, "a", "cwd")
        self.inputs = os.path.join(folder, "inputs")
        os.makedirs(self.cwd)
        os.makedirs(self.inputs)
        self.verb, self.arguments = "", []
        self.kind = ""
        self.out = None
        self.as_nobody = False
        self.interrupted_after = None

    # What inputs become.

    def chance(self, share):
        return self.rng.random() < share

    def place(self, name, node_or_text, words=None, mutate=None, hostile=1.0):
        """Writes an input, changed with probability `hostile`; returns its path."""
        path = os.path.join(self.inputs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = node_or_text
        is_changed = self.chance(hostile)
        if is_changed and isinstance(data, (Object, list)):
            data = copy_of(data)
            is_plausible = self.chance(0.5)
            change = mutations.change_plausibly if is_plausible else mutations.mutate_document
            for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
                data = change(self.rng, data, self.files.words[words])
            is_changed = not is_plausible and self.chance(0.1)
        if isinstance(data, (Object, list, int, float, Raw)) or data is None or words and not isinstance(data, bytes) and mutate is None:
            data = to_text(data)
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogateescape")
        if is_changed:
            if mutate is not None and self.chance(0.75):
                for _ in range(self.rng.choice([1, 1, 2])):
                    text = data.decode("utf-8", "surrogateescape") if mutate is not mutations.mutate_archive else data
                    data = mutate(self.rng, text)
                    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
            else:
                for _ in range(self.rng.choice([1, 1, 3])):
                    data = mutations.mutate_bytes(self.rng, data)
        with open(path, "wb") as file:
            file.write(data)
        if is_changed and self.chance(0.08):
            self.become_other_kind(path)
        return path

    def become_other_kind(self, path):
        self.kind += "+" + mutations.replace_by_other_kind(self.rng, path)
        self.as_nobody = self.kind.endswith("unreadable") and os.geteuid() == 0

    # What options become.

    def hostile_option(self, option):
        rng = self.rng
        if option in ("--output", "-o"):
            return self.output()
        if option == "--catalog":
            return rng.choice([self.inputs, self.cwd, "nowhere", "", os.path.join(ROOT, "platforms/catalog"), os.path.join(ROOT, "README.md")])
        if option in ("--set", "--grid", "--list", "--constraint", "--where", "--by"):
            return self.hostile_pointer_option(option)
        if option in ("--jobs", "-j"):
            return str(rng.choice([0, -1, 1, 2, "x", 1025, "1.5"]))
        if option in ("--runs", "--seeds", "--bootstrap", "--count", "--epochs", "--plans", "--steps", "--top"):
            return str(rng.choice([0, -1, 1, 2, 3, "x", "", "1e3", "2.5", 10**20]))
        if option in ("--measured", "--history", "--measurements", "--scenario"):
            return rng.choice([os.path.join(ROOT, "README.md"), "nowhere", "", self.inputs, os.path.join(ROOT, "calibration/data/own-examples/kernels.csv")])
        if option in ("--report",):
            return os.path.join(self.cwd, rng.choice(["report.html", "nowhere/report.html", ""]))
        if option in ("--hidden", "--mlp-layers", "--gin-mlp-layers", "--pretrans-layers", "--posttrans-layers", "--batch-size", "--patience"):
            return str(rng.choice([0, -1, 1, 4, 8, "x", 10**20]))
        if rng.random() < 0.3:
            return rng.choice(QUANTITIES)
        return str(rng.choice([rng.choice(HOSTILE_TEXTS), rng.choice(NUMBERS), "1s", "1h", "5", "0..1", "0,1", "1s..2s", "a=1", "workers=1"])).replace("\0", "")

    def hostile_pointer_option(self, option):
        rng = self.rng
        pointer = rng.choice(self.files.pointers) if rng.random() < 0.75 else rng.choice(
            ["", "/", "//", "/-", "/nothing", "/training/", "training/steps", "/cluster/groups/99/count", "/cluster/groups/-1/count", "/~", "/a~2b",
             "/" + "a/" * 3000, "/training/target/samples", "/\u202e", "/training/steps/x", "/cluster/groups/-"])
        if rng.random() < 0.2:
            pointer = pointer[:-1] + rng.choice(["", "x", "/0", "/name"])
        value = str(rng.choice([rng.choice(HOSTILE_TEXTS), rng.choice(NUMBERS), rng.choice(QUANTITIES), "1", "2", "8", "10s", "[1,2]", "{}", "null", '{"a":',
                                "[" * 5000])).replace("\0", "")
        if option == "--set":
            return rng.choice([f"{pointer}={value}"] * 8 + [pointer, value, "=", "=1"])
        if option == "--grid":
            values = rng.choice(["1,2", "1..3", "1..8*2", "0..1+0.25", "1..8*1", "1..8*0", "0..1+0", "8..1", "1..1e9", "1..1000000000", "1..-1", "nan..1",
                                 "1..inf", "..", "1..", "", ",", ",,", "a,b,c", value + "," + value, "1..8*-2", "0..8*2", "[1,2],[3]", "x" * 5000,
                                 ",".join(map(str, range(3000)))])
            return f"{pointer}={values}"
        if option == "--list":
            return rng.choice([f"{pointer}={value}", f"{pointer}={value};{pointer}=2", ";", "", f"{pointer}=1;/training/steps=2", ";;;="])
        depth = rng.choice([3, 100, 20000])
        name = rng.choice(["steps_per_s", "gpu_utilization", pointer, "nothing", "name", "''", "'a'", "1", "nan", "1e308", "0"])
        other = rng.choice([name, "0", "1", "-1", "'x'", "1e309", "/training/steps", "steps_per_s"])
        operator = rng.choice(["<", ">", "==", "!=", "<=", "+", "-", "*", "/", "and", "or", "=", "<>", "&&", "not"])
        return rng.choice([f"{name} {operator} {other}"] * 6 + [name, "-" + name, "(" * depth, "(" * depth + "1" + ")" * depth, "not " * depth + "1", "-" * depth + "1",
                           "1 +" * depth + "1", "", " ", "'", "/", "1/0", "0/0 > 1", value])

    def output(self):
        """A place to write to; sometimes one where that cannot be."""
        rng = self.rng
        self.out = os.path.join(self.cwd, "out")
        if os.path.lexists(self.out):
            return self.out
        kind = rng.randrange(14)
        if kind == 0:
            shutil.copytree(self.files.runs[0], self.out)
        elif kind == 1:
            write_text(self.out, "old")
        elif kind == 2:
            os.makedirs(self.out)
            write_text(os.path.join(self.out, "mine.txt"), "mine")
        elif kind == 3:
            self.out = os.path.join(self.cwd, "not", "there", "out")
        elif kind == 4:
            os.symlink("out", self.out)
        elif kind == 5:
            os.mkfifo(self.out)
        elif kind == 6:
            self.out = os.path.join(self.cwd, rng.choice(["x" * 300, "\u202eout", "a\nb", " ", "=out", "é", "-"]))
        elif kind == 7:
            write_text(os.path.join(self.cwd, "file"), "old")
            self.out = os.path.join(self.cwd, "file", "out")
        return self.out

    def finish(self, verb, arguments, has_output=0.3, hostile_options=0.12, quiet=0.9):
        known = self.files.options[verb]
        arguments = list(arguments)
        if "--max-wall-time" in known and "--max-wall-time" not in arguments:
            arguments += ["--max-wall-time", "3s"]
        if "--quiet" in known and self.chance(quiet):
            arguments.append("--quiet")
        if "--json" in known and self.chance(0.2):
            arguments.append("--json")
        if "--output" in known and self.out is None and self.chance(has_output):
            arguments += ["-o", self.output()]
        if "--jobs" in known and self.chance(0.7):
            arguments += ["-j", "1"]
        if self.chance(hostile_options):
            for _ in range(self.rng.choice([1, 1, 2])):
                option = self.rng.choice(sorted(known) or ["--help"])
                if known.get(option):
                    if option in arguments and self.chance(0.7):
                        arguments[arguments.index(option) + 1] = self.hostile_option(option)
                    else:
                        arguments += [option, self.hostile_option(option)]
                else:
                    arguments.append(self.rng.choice([option, option + "x", option + "=1"]))
        if self.chance(0.01):
            arguments.append(self.rng.choice(["", "--", "-", "extra", "--nothing", "-x", "--output", "@file"]))
        self.verb, self.arguments = verb, [argument.replace("\0", "") for argument in arguments]
        if self.chance(0.015):
            self.interrupted_after = self.rng.choice([0.02, 0.1, 0.5])

    # What users run.

    def scenario_verbs(self, path):
        """Verbs that take a scenario."""
        rng = self.rng
        verb = rng.choices(["simulate", "sweep", "diagnose", "remaining", "provision", "predict", "compare"], [60, 10, 8, 10, 4, 4, 3])[0]
        if verb in kPredictorVerbs and not self.files.has_predictor:
            verb = "simulate"
        if verb == "simulate":
            extra = rng.choice([[], [], [], [], ["--dry-run"], ["--dry-run", "--explain"], ["--explain"], ["--exact"], ["--runs", "3"],
                                ["--runs", "3", "--deadline", "1h"], ["--seed", "5"], ["--trace-window", "0s..1s"]])
            self.finish(verb, [path, *extra])
        elif verb == "sweep":
            grid = rng.choice(["/training/steps=5,10", "/workload/batch_per_worker=8,16", "/cluster/groups/0/count=1..3", self.hostile_pointer_option("--grid")])
            self.finish(verb, [path, "--grid", grid, *rng.choice([[], [], ["--dry-run"], ["--seeds", "2"], ["--top", "2", "--by", "-steps_per_s"],
                                                                 ["--where", "gpu_utilization > 0.5"], ["--constraint", "/training/steps > 5"]])])
        elif verb == "diagnose":
            self.finish(verb, [path, "--measured-speed", rng.choice(["1", "10", "100", "0.001", "1e6"])])
        elif verb == "remaining":
            words = [path, "--step", rng.choice(["1", "1", "3", "20"]), "--lost", "1"]
            if self.chance(0.8):
                words += ["--replaced-after", rng.choice(["100s", "1h", "0s"])]
            elif self.chance(0.6):
                words += ["--history", self.history()]
            self.finish(verb, words)
        elif verb == "provision":
            self.finish(verb, [path, "--deadline", "2h", "--target-loss", "0.8", "--plans", "1", "--runs", "2"])
        elif verb == "predict":
            self.finish(verb, [self.files.network, path])
        else:
            self.finish(verb, [self.files.network, path, "--step-time", "100ms"])

    def history(self):
        """Past revocations, for remaining."""
        text = read_text(os.path.join(ROOT, "calibration/data/cm-dare/remaining_time_after_revocation.csv"))
        return self.place("history.csv", text, mutate=mutations.mutate_table, hostile=0.6)

    def scenario(self):
        name, node = self.rng.choice(self.files.scenarios)
        self.kind = "scenario " + os.path.basename(name)
        self.scenario_verbs(self.place("scenario.json", node, "scenario"))

    def options(self):
        """A good scenario with bad options."""
        verb = self.rng.choice(["simulate", "simulate", "sweep", "sweep", "diagnose", "remaining", "provision", "generate", "validate", "calibrate", "list", "schema", "init"])
        self.kind = "options"
        name, node = self.rng.choice(self.files.scenarios)
        scenario = self.place("scenario.json", node, "scenario", hostile=0)
        option = self.hostile_pointer_option
        if verb == "simulate":
            self.finish(verb, [scenario, *[word for _ in range(self.rng.choice([1, 2])) for word in ("--set", option("--set"))]], hostile_options=0.4)
        elif verb == "sweep":
            words = ["--grid", option("--grid")] if self.chance(0.6) else ["--grid", "/training/steps=5,6"]
            for name in ("--list", "--constraint", "--where", "--by", "--set"):
                if self.chance(0.25):
                    words += [name, option(name)]
                    if name == "--by":
                        words += ["--top", "2"]
            self.finish(verb, [scenario, *words], hostile_options=0.3)
        elif verb == "diagnose":
            self.finish(verb, [scenario, "--measured-speed", self.hostile_option("x")], hostile_options=0.3)
        elif verb == "remaining":
            self.finish(verb, [scenario, "--step", self.hostile_option("x")], hostile_options=0.4)
        elif verb == "provision":
            self.finish(verb, [os.path.join(ROOT, "scenarios/provision/resnet110.json"), "--deadline", self.rng.choice(["2600s", self.hostile_option("x")]),
                               "--target-loss", self.rng.choice(["0.8", self.hostile_option("x")]), "--plans", "1"], hostile_options=0.5)
        elif verb == "generate":
            self.finish(verb, [os.path.join(ROOT, "scenarios/spaces/small.json"), "--count", "3"], has_output=0.8, hostile_options=0.7)
        elif verb == "validate":
            self.finish(verb, [os.path.join(ROOT, "scenarios/studies/own/step-times.json")], hostile_options=0.8)
        elif verb == "calibrate":
            self.finish(verb, [os.path.join(ROOT, "scenarios/studies/own/step-times.json"), "--steps", "1"], hostile_options=0.8)
        elif verb == "list":
            self.finish(verb, [self.rng.choice(["gpus", "instances", "models", "profiles", "spot_pools", "regions", "topologies", "interconnects", self.hostile_option("x")])], hostile_options=0.4)
        elif verb == "schema":
            self.finish(verb, [self.rng.choice(["scenario", "study", self.hostile_option("x")])])
        else:
            self.finish(verb, [self.rng.choice(["my-run", "a/b", "x" * 300, "\x1b[31m", "\u202ea", "=a", " ", "a\nb", "nothing/deep/run", "-", "é", ""])])

    def sweep(self):
        name, node = self.rng.choice(self.files.sweeps)
        self.kind = "sweep"
        node = copy_of(node)
        if node.get("set") is None:
            node.set("set", Object([]))
        node.get("set").set("/training/steps", 6)
        self.finish("sweep", [self.place("sweep.json", node, "sweep"), *self.rng.choice([[], [], ["--dry-run"]])])

    def provision(self):
        _, node = self.rng.choice(self.files.provisions)
        self.kind = "provision"
        self.finish("provision", [self.place("provision.json", node, "provision"), "--deadline", self.rng.choice(["2600s", "2600s", "810s", "1h"]), "--target-loss",
                                  "0.8", "--plans", "1", "--runs", "2"])

    def space(self):
        _, node = self.rng.choice(self.files.spaces)
        self.kind = "space"
        path = self.place("space.json", node, "space")
        if self.chance(0.25):
            self.finish("generate", [path, "--count", "3", "--dry-run"])
        else:
            self.finish("generate", [path, "--count", "2", *self.rng.choice([[], [], ["--format", "driple"]])], has_output=1)

    def small_study(self):
        """A study with few rows, and the path of its measurements."""
        name, node = self.rng.choice(self.files.studies)
        node = copy_of(node)
        self.kind = "study " + os.path.basename(name)
        source = node.get("measurements")
        is_table = isinstance(source, str)
        path = source if is_table else source.get("file") if isinstance(source, Object) else None
        return node, path, is_table

    def study(self):
        node, path, is_table = self.small_study()
        breaks_data = self.chance(0.4)
        if isinstance(path, str) and os.path.isfile(path) and os.path.getsize(path) < 4e6 and not path.endswith(".gz"):
            text = read_text(path)
            is_plain_table = is_table or path.endswith(".csv")
            if is_plain_table:
                lines = text.splitlines(True)
                rows = [i for i, line in enumerate(lines) if not line.startswith("#")]
                chosen = sorted(self.rng.sample(rows[1:], min(3, len(rows) - 1)))
                text = "".join(lines[i] for i in rows[:1] + chosen)
            mutate = mutations.mutate_table if is_plain_table else mutations.mutate_listing
            if path.endswith(".json"):
                mutate = lambda rng, text: mutations.mutate_json(rng, text, self.files.words["study"])
            moved = self.place("data" + os.path.splitext(path)[1], text, mutate=mutate, hostile=1.0 if breaks_data else 0)
            if is_table:
                node.set("measurements", moved)
            else:
                node.get("measurements").set("file", moved)
        study = self.place("study.json", node, "study", hostile=0.1 if breaks_data else 1)
        verb = self.rng.choice(["validate"] * 4 + ["calibrate", "generate"])
        if verb == "calibrate":
            self.finish(verb, [study, "--steps", "1"], has_output=0.5)
        elif verb == "generate":
            self.finish(verb, [study], has_output=1)
        else:
            self.finish(verb, [study])

    def lifetimes(self):
        node = copy_of(self.files.lifetimes)
        series = copy_of(self.rng.choice(node.get("series")))
        self.kind = "lifetimes"
        breaks_data = self.chance(0.5)
        path = series.get("file")
        if isinstance(path, str) and os.path.isfile(path) and not path.endswith(".gz"):
            lines = read_text(path).splitlines(True)
            most = self.rng.choice([3, 10, 60, len(lines)])
            text = "".join(lines[: most + 1])
            series.set("file", self.place("data.csv", text, mutate=mutations.mutate_table, hostile=1.0 if breaks_data else 0))
        node.set("series", [series])
        study = self.place("lifetimes.json", node, "study", hostile=0.1 if breaks_data else 1)
        self.finish("calibrate", [study, *self.rng.choice([[], [], ["--bootstrap", "5"], ["--report", os.path.join(self.cwd, "report.html")]])], has_output=0.5)

    def training_logs(self):
        node = copy_of(self.files.logs)
        self.kind = "training logs"
        breaks_data = self.chance(0.6)
        text = read_text(os.path.join(ROOT, "calibration/data/example-training-logs/logs.csv"))
        log = node.get("logs")[0]
        log.set("file", self.place("logs.csv", text, mutate=mutations.mutate_table, hostile=1.0 if breaks_data else 0))
        self.finish("calibrate", [self.place("study.json", node, "study", hostile=0.1 if breaks_data else 1)], has_output=0.5)

    def catalog(self):
        """A folder of one's own, of which one file is broken."""
        folder = os.path.join("catalog")
        self.kind = "catalog"
        kind = self.rng.choice(["catalog"] * 3 + ["model"] * 3 + ["profile"] * 3 + ["pool"] * 2 + ["prices"])
        sets, base = [], "cm-dare.json"
        if kind == "catalog":
            name, node = self.rng.choice(self.files.catalogs)
            self.place(f"{folder}/mine.json", self.fewer(node), "catalog")
        elif kind == "pool":
            node = self.fewer(dict(self.files.catalogs)[os.path.join(ROOT, "platforms/catalog/spot_pools.json")])
            pools = node.get("spot_pools")
            if isinstance(pools, Object) and pools.pairs:
                pools.pairs[0][0] = "mine/pool"
            self.place(f"{folder}/pools.json", node, "catalog")
            base, sets = "cm-dare-spot.json", ["--set", "/cluster/groups/1/spot_pool=mine/pool"]
        elif kind == "model":
            _, node = self.rng.choice(self.files.models)
            self.place(f"{folder}/models/mine.json", node, "model")
            base, sets = self.rng.choice(["cm-dare.json", "dgx.json", "resnet50-ec2.json"]), ["--set", "/workload/model=mine"]
        elif kind == "profile":
            _, node = self.rng.choice(self.files.profiles)
            self.place(f"{folder}/profiles/mine.json", node, "profile")
            base, sets = self.rng.choice(["cm-dare.json", "dgx.json", "spotdnn.json"]), ["--set", "/calibration=mine"]
        else:
            table = "time,instance,zone,usd_per_hour\n"
            import gzip
            source = os.path.join(ROOT, "calibration/data/training-on-a-dime-aws/spot_prices.csv.gz")
            with gzip.open(source, "rt") as file:
                table = "".join(line for line, _ in zip(file, range(400)))
            prices = self.place(f"{folder}/prices/data.csv", table, mutate=mutations.mutate_table, hostile=0.6)
            self.place(f"{folder}/prices/mine.json", Object([["format", 1], ["source", "mine"], ["file", os.path.basename(prices)]]), "catalog", hostile=0.4)
            base, sets = "resnet50-spot.json", ["--set", "/cluster/prices=mine"]
        scenario = self.place("scenario.json", dict(self.files.scenarios)[os.path.join(ROOT, "scenarios", base)], "scenario", hostile=0)
        catalog = os.path.join(self.inputs, folder)
        if self.chance(0.2):
            self.finish("list", [self.rng.choice(["gpus", "instances", "models", "profiles", "spot_pools", "regions", "interconnects"]), "--catalog", catalog])
        elif self.chance(0.1):
            self.finish("validate", [os.path.join(ROOT, "scenarios/studies/own/step-times.json"), "--catalog", catalog])
        else:
            self.finish("simulate", [scenario, "--catalog", catalog, *sets, *self.rng.choice([[], [], ["--explain"], ["--dry-run"], ["--runs", "2"]])])

    def fewer(self, node):
        """A catalog with a few of its entries."""
        node = copy_of(node)
        for pair in node.pairs:
            if isinstance(pair[1], Object) and len(pair[1].pairs) > 3:
                pair[1] = Object(self.rng.sample(pair[1].pairs, 3))
            elif isinstance(pair[1], list) and len(pair[1]) > 3:
                pair[1] = self.rng.sample(pair[1], 3)
        return node

    def inline_parts(self):
        """Models, profiles, GPUs and pools inside a scenario."""
        name, node = self.rng.choice(self.files.scenarios)
        self.kind = "inline " + os.path.basename(name)
        node = copy_of(node)
        which = self.rng.choice(["model", "profile", "both"])
        words = "model"
        if which != "profile":
            node.get("workload").set("model", copy_of(self.rng.choice(self.files.models)[1]))
        if which != "model":
            words = "profile"
            node.set("calibration", copy_of(self.rng.choice(self.files.profiles)[1]))
        self.scenario_verbs(self.place("scenario.json", node, words))

    def folders(self):
        """Results of runs, damaged, for diff."""
        self.kind = "output folder"
        paths = []
        for number, run in enumerate(self.files.runs):
            path = os.path.join(self.inputs, f"run-{number}")
            shutil.copytree(run, path)
            if number == 0 or self.chance(0.3):
                self.damage(path)
            paths.append(path)
        if self.chance(0.15):
            paths[self.rng.randrange(2)] = self.rng.choice([self.cwd, "nowhere", self.files.swept, self.files.dataset, os.path.join(ROOT, "scenarios/dgx.json")])
        self.finish("diff", paths)

    def damage(self, folder):
        names = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
        important = [name for name in names if name.endswith(".json")] or names
        name = self.rng.choice(important if self.chance(0.7) else names)
        path = os.path.join(folder, name)
        if self.chance(0.1):
            return self.become_other_kind(path)
        if self.chance(0.05):
            return os.unlink(path)
        with open(path, "rb") as file:
            data = file.read()
        if name.endswith(".json") and self.chance(0.8):
            data = mutations.mutate_json(self.rng, data.decode(), self.files.words["scenario"]).encode("utf-8", "surrogateescape")
        elif name.endswith(".csv") and self.chance(0.7):
            data = mutations.mutate_table(self.rng, data.decode()).encode("utf-8", "surrogateescape")
        else:
            data = mutations.mutate_bytes(self.rng, data)
        with open(path, "wb") as file:
            file.write(data)

    def store(self):
        """A sweep goes on in a folder whose results.sqlite is damaged."""
        self.kind = "results.sqlite"
        self.out = os.path.join(self.cwd, "swept")
        shutil.copytree(self.files.swept, self.out)
        path = os.path.join(self.out, "results.sqlite")
        self.break_database(path)
        self.finish("sweep", [os.path.join(ROOT, "scenarios/dgx.json"), "--grid", "/workload/batch_per_worker=16,32,64", "-o", self.out])

    def earlier_results(self):
        """A run into a folder that holds an earlier one, whole or damaged."""
        self.kind = "earlier results"
        self.out = os.path.join(self.cwd, "out")
        shutil.copytree(self.files.runs[0], self.out)
        write_text(os.path.join(self.out, "mine.txt"), "mine")
        listed = os.path.join(self.out, ".rehearse-files")
        for _ in range(self.rng.choice([0, 1, 2])):
            kind = self.rng.randrange(5)
            if kind == 0:
                write_text(os.path.join(self.out, "INCOMPLETE"), "")
            elif kind == 1 and (os.path.isfile(listed) or not os.path.lexists(listed)):
                text = read_text(listed) if os.path.isfile(listed) else ""
                write_text(listed, text + self.rng.choice(["../../../inputs/scenario.json", "/etc/passwd", ".", "..", "a" * 5000, "\x1b[31m", "", "mine.txt/x"]) + "\n")
            elif kind == 2 and os.path.isfile(listed):
                self.become_other_kind(listed)
            elif kind == 3:
                os.makedirs(os.path.join(self.out, self.rng.choice(["nodes.csv", "report.html.d", ".rehearse-new-x"])), exist_ok=True)
            else:
                self.damage(self.out)
        scenario = self.place("scenario.json", dict(self.files.scenarios)[os.path.join(ROOT, "scenarios/cm-dare.json")], "scenario", hostile=0)
        if self.chance(0.3):
            self.finish("sweep", [scenario, "--grid", "/training/steps=5,6", "-o", self.out])
        else:
            self.finish("simulate", [scenario, "--set", "/training/steps=10", "-o", self.out])

    def break_database(self, path):
        if self.chance(0.6):
            for _ in range(self.rng.choice([1, 1, 2])):
                mutations.mutate_database(self.rng, path)
        elif self.chance(0.85):
            with open(path, "rb") as file:
                data = file.read()
            with open(path, "wb") as file:
                file.write(mutations.mutate_bytes(self.rng, data))
        else:
            self.become_other_kind(path)

    def datasets(self):
        self.kind = "dataset"
        path = os.path.join(self.inputs, "small.db")
        shutil.copy(self.files.dataset, path)
        self.break_database(path)
        verb = self.rng.choice(["generate"] + (["train", "import", "predict", "compare"] if self.files.has_predictor else []))
        if verb == "generate":
            self.out = os.path.join(self.cwd, "out.db")
            if self.chance(0.5) and os.path.isfile(path) and not self.as_nobody:
                shutil.copy(path, self.out)
            if os.path.isfile(path) and not self.as_nobody:
                shutil.copy(path, self.out + ".part")
            self.finish(verb, [os.path.join(ROOT, "scenarios/spaces/small.json"), "--count", "4", "-o", self.out])
        elif verb == "train":
            self.finish(verb, [path, "--epochs", "1", "--hidden", "4", "--network", self.rng.choice(["profile", "profile", "gcn", "gin", "mpnn"])], has_output=1)
        elif verb == "import":
            self.finish(verb, [path, *self.rng.choice([[], [self.files.dataset]])], has_output=1)
        elif verb == "predict":
            self.finish(verb, [self.files.network, path])
        else:
            self.finish(verb, [self.files.network, path, "--no-baselines"])

    def networks(self):
        self.kind = "torch file"
        folder = os.path.join(self.inputs, "network")
        if self.chance(0.3):
            os.mkdir(folder)
            source = self.rng.choice(shipped("tests/fuzz/corpus/torch_file/*"))
            shutil.copy(source, os.path.join(folder, "model.pt"))
        else:
            shutil.copytree(self.files.network, folder)
        path = os.path.join(folder, self.rng.choice(["model.pt", "model.pt", "checkpoint.pt"]))
        if os.path.exists(path):
            if self.chance(0.08):
                self.become_other_kind(path)
            else:
                with open(path, "rb") as file:
                    data = file.read()
                data = mutations.mutate_archive(self.rng, data) if self.chance(0.6) else mutations.mutate_bytes(self.rng, data)
                with open(path, "wb") as file:
                    file.write(data)
        scenario = os.path.join(ROOT, "scenarios/driple/01-v100-ps1-w2.json")
        verb = self.rng.choice(["predict", "predict", "compare", "train"])
        if verb == "predict":
            self.finish(verb, [folder, scenario])
        elif verb == "compare":
            self.finish(verb, [folder, self.files.dataset, "--no-baselines"])
        elif self.chance(0.5):
            self.finish(verb, [self.files.dataset, "--epochs", "1", "--hidden", "4", "--transfer-from", folder], has_output=1)
        else:
            self.out = os.path.join(self.cwd, "network")
            shutil.copytree(folder, self.out, symlinks=True, ignore=lambda _, names: [name for name in names if not os.path.isfile(os.path.join(folder, name))])
            self.finish(verb, [self.files.dataset, "--epochs", "2", "--hidden", "4", "-o", self.out])

    def measured_jobs(self):
        self.kind = "measured jobs"
        graph = self.place("net" + self.rng.choice([".pbtxt", ".pb"]), b"", hostile=0)
        with open(graph, "wb") as file:
            source = os.path.join(ROOT, "tests/fuzz/corpus/graph_def", "binary" if graph.endswith(".pb") else self.rng.choice(["text", "training"]))
            with open(source, "rb") as original:
                data = original.read()
            if self.chance(0.5):
                data = mutations.mutate_listing(self.rng, data.decode("latin1")).encode("latin1", "replace") if self.chance(0.6) else mutations.mutate_bytes(self.rng, data)
            file.write(data)
        scenario = os.path.join(ROOT, "scenarios/driple/01-v100-ps1-w2.json")
        if self.chance(0.35):
            self.finish("predict", [self.files.network, graph, "--scenario", scenario])
            return
        series = self.place("series.csv", "time_s,gpu_utilization,receive_Bps,transmit_Bps\n" + "".join(f"{0.1 * i:.1f},{0.9 if i % 3 else 0},{i % 5}e8,{i % 4}e8\n" for i in range(60)),
                            mutate=mutations.mutate_table, hostile=0.4)
        profiles = [Object([["scenario", scenario], ["model", "resnet18"], ["batch_per_worker", 16], ["series", series], ["step_time", "200ms"]]),
                    Object([["scenario", scenario], ["graph", graph], ["family", "net"], ["setting", "mine"], ["step_time", "100ms"], ["weight", 2]])]
        node = Object([["format", 1], ["source", "mine"], ["profiles", profiles]])
        jobs = self.place("jobs.json", node, "list", hostile=0.6)
        if self.chance(0.2):
            self.finish("compare", [self.files.network, scenario, "--measured", series, "--step-time", "100ms"])
        else:
            self.finish("import", [jobs, *self.rng.choice([[], [], ["--grouped"], [self.files.dataset]])], has_output=1)

    def choose(self, only):
        kinds = {"scenario": 30, "options": 14, "sweep": 5, "provision": 5, "space": 5, "study": 9, "lifetimes": 4, "training_logs": 3, "catalog": 9,
                 "inline_parts": 8, "folders": 4, "store": 3, "earlier_results": 2}
        if self.files.has_predictor:
            kinds.update({"datasets": 3, "networks": 3, "measured_jobs": 3})
        while True:
            getattr(self, self.rng.choices(list(kinds), list(kinds.values()))[0])()
            if not only or self.verb in only:
                return
            for path in (os.path.join(self.folder, "a"), self.inputs):
                shutil.rmtree(path, ignore_errors=True)
            os.makedirs(self.cwd)
            os.makedirs(self.inputs)
            self.out, self.as_nobody, self.interrupted_after = None, False, None


def snapshot(folder):
    """Each path below a folder with what it is and holds."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(root, name)
            info = os.lstat(path)
            content = ""
            if stat.S_ISREG(info.st_mode) and info.st_size < 2**24:
                try:
                    with open(path, "rb") as file:
                        content = hashlib.md5(file.read()).hexdigest()
                except OSError:
                    content = "unreadable"
            elif stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, folder)] = (stat.S_IFMT(info.st_mode), content)
    return found


HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe]")


def check_files(case, before, after, problems):
    """What was written can be read, and hides nothing."""
    for name in sorted(set(after) - set(before)):
        path = os.path.join(case.folder, name)
        if re.search(r"\.tmp\b|\.tmp$|~$|-journal$|-wal$|-shm$", name):
            problems.append(f"left behind {re.sub('[0-9]+', 'N', os.path.basename(name))}")
        if not os.path.isfile(path) or os.path.getsize(path) > 5e6:
            continue
        if name.endswith(".csv"):
            text = read_text(path)
            if HARMFUL.search(text.replace("\r\n", "\n")):
                problems.append(f"control characters in {os.path.basename(name)}")
            try:
                csv.field_size_limit(10**8)
                for row in csv.reader(text.splitlines(True)):
                    bad = [cell for cell in row if re.match(r"[=+@\t\r]|-(?![0-9.])", cell) and not re.match(r"^[+-]?[0-9.]+(e[+-]?\d+)?$", cell)]
                    if bad:
                        problems.append(f"a formula in {os.path.basename(name)}: {bad[0][:60]!r}")
                        break
            except csv.Error as error:
                problems.append(f"unreadable {os.path.basename(name)}: {error}")
        elif name.endswith(".json"):
            try:
                text = read_text(path)
                json.loads(mutations.without_comments(text) if case.verb == "init" else text, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))
            except (ValueError, RecursionError) as error:
                problems.append(f"{os.path.basename(name)} is no JSON: {str(error)[:80]}")


def input_texts(case):
    """What the user named, in files and thus in what is printed."""
    texts = []
    for folder, _, names in os.walk(case.inputs):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                texts.append(read_text(path))
    return "\n".join(texts)


def check(case, code, out, err, wall, cpu, was_killed, before, after):
    problems = []
    if was_killed:
        problems.append(f"beyond its limit: {wall:.0f} s, {cpu:.1f} s of processor time")
        return problems
    if code == -signal.SIGINT and case.interrupted_after is not None:
        code = 130  # before the program could catch it
    if code < 0:
        problems.append(f"signal {-code}")
    elif code not in (0, 2, 3) and not (code == 130 and case.interrupted_after is not None):
        problems.append(f"exit code {code}")
    lines = [line for line in err.split("\n") if line]
    errors = [line for line in lines if line.startswith("rehearse") and not line.startswith("rehearse: warning: ")]
    others = [line for line in lines if not line.startswith("rehearse")]
    if code in (2, 3):
        if len(errors) != 1 or lines[-1] != errors[0]:
            problems.append(f"{len(errors)} lines of error on exit {code}")
        stray = [line for line in others if not re.match(r"(warning: |note: |\s*\d|.*(%|left|so far|of \d|simulat|steps))", line)]
        if stray and "--quiet" in case.arguments:
            problems.append(f"a line that is no error: {stray[0][:80]!r}")
        for line in errors[:1]:
            text = line.split(": ", 1)[-1]
            is_named = re.search(r"/|--?[a-z]|\.json|\.csv|see rehearse|^(A subcommand|[A-Z]+ is required)", text) or case.verb + ":" in line
            is_result = code == 3 and re.match(r"no plan of |every worker has left|the job waits for|not finished after", text)
            if not is_named and not is_result and not any(word and word in line for word in case.arguments if len(word) > 2 or word == line.split(": ")[1]):
                problems.append(f"names no file or option: {text[:100]!r}")
        if code == 2 and out.strip():
            problems.append("a refusal prints on stdout")
    if code == 2:
        changed = sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name) and ".rehearse-new-" not in name)
        if changed:
            problems.append(f"a refusal changed {[re.sub('[0-9]+', 'N', name)[:60] for name in changed[:3]]}")
    lost = sorted(name for name in before if (name.startswith("inputs/") or name.endswith("mine.txt")) and before[name] != after.get(name))
    if lost:
        problems.append(f"the user's own files changed: {lost[:3]}")
    if code == 0 and others and "--quiet" in case.arguments and case.verb != "calibrate" and not all(re.match(r"warning: |note: ", line) for line in others):
        problems.append(f"--quiet, and yet {others[0][:80]!r}")
    for name, text in (("stderr", err), ("stdout", out)):
        match = HARMFUL.search(text)
        if match:
            problems.append(f"control character U+{ord(match.group()):04X} on {name}")
    is_users_word = re.search(r"\bnan\b|\binf\b", " ".join(case.arguments) + input_texts(case), re.IGNORECASE)
    if code == 0 and not is_users_word and re.search(r"(?<![\w/.\-'\"])-?(nan|inf)(?![\w'\"])", out):
        problems.append("nan or inf on stdout")
    check_files(case, before, after, problems)
    return problems


def run_case(files, seed, number, only, base):
    """Returns (verb, kind, code, problems, command, err)."""
    rng = random.Random(f"{seed}/{number}")
    folder = os.path.join(base, str(number))
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    os.makedirs(folder)
    case = Case(files, rng, folder)
    case.choose(only)
    command = [files.program, case.verb, *case.arguments]
    memory = kPredictorMemory if case.verb in kPredictorVerbs else kMemory
    temporary = os.path.join(folder, "tmp")
    os.makedirs(temporary)
    if case.as_nobody:
        for path in (folder, os.path.join(folder, "a"), case.cwd, case.inputs, temporary):
            os.chmod(path, 0o777)

    def prepare():
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
        if case.as_nobody:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    before = snapshot(folder)
    start = time.monotonic()
    cpu_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = dict(os.environ, TMPDIR=temporary, LC_ALL="C.UTF-8")
    out_path, err_path = os.path.join(base, f"{number}.out"), os.path.join(base, f"{number}.err")
    was_killed = False
    with open(out_path, "wb") as out_file, open(err_path, "wb") as err_file:
        try:
            process = subprocess.Popen([os.fsencode(word) if not any("\ud800" <= c <= "\udfff" for c in word) else word.encode("utf-8", "surrogateescape") for word in command],
                                       stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file, cwd=case.cwd, env=environment, preexec_fn=prepare)
        except OSError as error:  # a word longer than the kernel takes
            shutil.rmtree(folder, ignore_errors=True)
            return case.verb, case.kind, f"not run: {error.strerror}", [], "", ""
        try:
            if case.interrupted_after is not None:
                try:
                    process.wait(case.interrupted_after)
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, signal.SIGINT)
            code = process.wait(kOuterLimit * max(1, os.getloadavg()[0] / os.cpu_count()))
        except subprocess.TimeoutExpired:
            was_killed = True
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if was_killed:
            process.wait()
    wall = time.monotonic() - start
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime - cpu_before.ru_utime - cpu_before.ru_stime
    out, err = read_limited(out_path), read_limited(err_path)
    os.unlink(out_path)
    os.unlink(err_path)
    after = snapshot(folder)
    problems = check(case, code, out, err, wall, cpu, was_killed, before, after)
    shown = f"cd {shlex.quote(case.cwd)}; {shlex.join(command)}"
    if problems:
        write_text(os.path.join(folder, "command"), shown + "\n")
        write_text(os.path.join(folder, "problems"), "\n".join(problems) + "\n" + err[-3000:] + "\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return case.verb, case.kind, "killed" if was_killed else code, problems, shown, err


def read_limited(path, most=2**22):
    with open(path, "rb") as file:
        return file.read(most).decode("utf-8", "replace")


kFiles = None  # set before the workers are forked, so that they share it


def work(job):
    seed, number, only, base = job
    try:
        return number, run_case(kFiles, seed, number, only, base)
    except Exception:  # a mistake of the fuzzer's own must not pass for a clean run
        return number, ("fuzzer", "", "error", ["fuzzer: " + traceback.format_exc().strip().splitlines()[-1]], traceback.format_exc(), "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder of the built program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--only", default="", help="verbs, with commas")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, help="start no case after this time")
    parser.add_argument("--failures", help="where folders of failures stay (default: a new folder below TMPDIR)")
    options = parser.parse_args()
    global kFiles
    base = options.failures or tempfile.mkdtemp(prefix="structure-fuzzer-")
    os.makedirs(base, exist_ok=True)
    common = tempfile.mkdtemp(prefix="structure-fuzzer-shipped-")
    os.chmod(common, 0o755)
    os.chmod(base, 0o755)
    start = time.monotonic()
    failures, counts, kinds, total = {}, {}, {}, 0
    try:
        kFiles = Shipped(options.build, common)
        numbers = [options.case] if options.case is not None else range(options.first, options.first + options.count)
        only = [verb for verb in options.only.split(",") if verb]
        print(f"seed {options.seed}, cases {numbers[0]} to {numbers[-1]}, failures in {base}", flush=True)
        with multiprocessing.Pool(options.jobs) as pool:
            def jobs():
                for number in numbers:
                    if options.seconds is not None and time.monotonic() - start > options.seconds:
                        return
                    yield options.seed, number, only, base
            for number, (verb, kind, code, problems, shown, err) in pool.imap_unordered(work, jobs()):
                total += 1
                counts.setdefault(verb, {}).setdefault(code, 0)
                counts[verb][code] += 1
                kind_codes = kinds.setdefault(re.sub(r"[ +].*\.json|\+.*", "", kind), {})
                kind_codes[code] = kind_codes.get(code, 0) + 1
                if options.case is not None:
                    print(shown, f"\nexit {code}\n{err}")
                for problem in problems:
                    signature = re.sub(r"[0-9.]+", "N", problem)
                    failures.setdefault((verb, signature), []).append(number)
                    if len(failures[verb, signature]) <= 3:
                        print(f"case {number} ({kind}): {problem}\n  {shown[:1500]}\n  {err.strip()[-400:]}", flush=True)
    finally:
        shutil.rmtree(common, ignore_errors=True)
    print(f"{total} runs in {time.monotonic() - start:.0f} s")
    for title, table in (("verb", counts), ("kind of input", kinds)):
        print(f"runs by {title} and exit code:")
        for name in sorted(table):
            print(f"  {name}: " + ", ".join(f"{count} x {code}" for code, count in sorted(table[name].items(), key=str)))
    for (verb, signature), cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"{len(cases)} x {verb}: {signature} (cases {', '.join(map(str, cases[:8]))})")
    if not failures:
        shutil.rmtree(base, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
