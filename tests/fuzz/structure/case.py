"""One run: how inputs are changed on their way into its folder, what options become, where it writes."""

import os
import shutil

from structure import mutations
from structure.mutations import HOSTILE_TEXTS, NUMBERS, QUANTITIES, Object, Raw, copy_of, to_text
from structure.shipped import ROOT, write_text


class Case:
    """One run of the program: its folder, its inputs and command, where it writes."""

    def __init__(self, shipped_files, rng, folder):
        self.files, self.rng, self.folder = shipped_files, rng, folder
        self.cwd = os.path.join(folder, "a", "cwd")
        self.inputs = os.path.join(folder, "inputs")
        self.begin_again()

    def begin_again(self):
        """Empties the case's folder."""
        for path in (os.path.join(self.folder, "a"), self.inputs):
            shutil.rmtree(path, ignore_errors=True)
        os.makedirs(self.cwd)
        os.makedirs(self.inputs)
        self.verb, self.arguments, self.kind = "", [], ""
        self.out, self.as_nobody, self.interrupted_after = None, False, None

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
