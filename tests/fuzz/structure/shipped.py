"""What the fuzzer starts from: shipped files made small, the words of each kind of file, results of the program itself."""

import glob
import json
import os
import re
import shlex
import subprocess

from structure import mutations
from structure.mutations import Object, parse, places, put, value_at

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
kPredictorVerbs = ("import", "train", "predict", "compare")
kVerbs = ("init", "simulate", "validate", "calibrate", "sweep", "provision", "queue", "diff", "remaining", "diagnose", "generate", "list", "schema",
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
        self.queues = [(path, load_shipped(path)) for path in shipped("scenarios/queue/*.json")]
        self.spaces = [(path, load_shipped(path)) for path in shipped("scenarios/spaces/small.json", "scenarios/spaces/clusters.json", "scenarios/spaces/reference.json")]
        self.studies = [(path, load_shipped(path)) for path in shipped("scenarios/studies/*.json", "scenarios/studies/own/*.json")]
        self.studies = [(path, node) for path, node in self.studies if node.get("measurements") is not None]
        self.lifetimes = load_shipped(os.path.join(ROOT, "scenarios/studies/lifetimes/all.json"))
        self.logs = load_shipped(os.path.join(ROOT, "scenarios/studies/training-logs-example.json"))
        self.models = [(path, parse(read_text(path))) for path in shipped("workloads/models/*.json", "workloads/models/*/*.json")]
        self.profiles = [(path, parse(read_text(path))) for path in shipped("calibration/profiles/*.json")]
        self.catalogs = [(path, parse(read_text(path))) for path in shipped("platforms/catalog/*.json")]
        self.words = {kind: mutations.Vocabulary() for kind in ("scenario", "sweep", "provision", "queue", "space", "study", "model", "profile", "catalog", "list")}
        for kind, documents in (("scenario", self.scenarios), ("sweep", self.sweeps), ("provision", self.provisions), ("queue", self.queues), ("space", self.spaces),
                                ("study", self.studies), ("model", self.models), ("profile", self.profiles), ("catalog", self.catalogs)):
            for _, node in documents:
                self.words[kind].learn(node)
        self.words["study"].learn(self.lifetimes)
        self.words["study"].learn(self.logs)
        for kind, words in (("scenario", "scenario"), ("sweep", "sweep"), ("provision", "provision"), ("queue", "queue"), ("space", "space"), ("model", "model"),
                            ("measurements", "list"), ("study", "study"), ("profile", "profile"), ("catalog", "catalog"), ("accelerators", "catalog")):
            answer = self.run_quietly("schema", kind)
            if answer is not None:
                self.words[words].learn_schema(json.loads(answer))
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


def pointers_of(node, above=""):
    found = []
    pairs = node.pairs if isinstance(node, Object) else enumerate(node) if isinstance(node, list) else []
    for key, value in pairs:
        found.append(f"{above}/{key}")
        found += pointers_of(value, f"{above}/{key}")
    return found
