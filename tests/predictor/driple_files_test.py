#!/usr/bin/env python3
"""driple_files_test.py --build BUILD [--files FILE...]: data files and weights as Driple's program writes them, read by rehearse and, independently, here.

Driple's program reads a data file by torch.load(), which runs its pickle. Here the pickle is run by Python's own machine, with stand-ins for torch's
functions, and the tensors are taken from their storages by struct; what `rehearse import` makes of the file is read by sqlite3. Each FILE is compared
likewise: data files that were published, or that `rehearse generate --format driple` wrote.
"""

import argparse
import collections
import io
import json
import math
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = f"{ROOT}/tests/predictor/data/driple"
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
PARTS = {"train": "train", "val": "validation", "test": "test"}


def stand_in_for_torch():
    """Modules in which pickle finds the names that torch's own files hold."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name, code in {"FloatStorage": "f", "DoubleStorage": "d"}.items():
        storage = type(name, (), {"code": code, "__module__": "torch"})
        setattr(torch, name, storage)

    def _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks):
        return (storage, offset, size, stride)

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    torch._utils = utils
    sys.modules["torch"], sys.modules["torch._utils"] = torch, utils
    return torch


TORCH = stand_in_for_torch()


class Storage:
    def __init__(self, numbers, kind="FloatStorage"):
        self.numbers, self.kind = numbers, kind

    def content(self):
        return struct.pack(f"<{len(self.numbers)}{getattr(TORCH, self.kind).code}", *self.numbers)


class Tensor:
    """A view of a storage; row-major unless strides are given."""

    def __init__(self, storage, shape, offset=0, strides=None):
        self.storage, self.shape, self.offset = storage, tuple(shape), offset
        self.strides = strides or tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))

    def __reduce__(self):
        return TORCH._utils._rebuild_tensor_v2, (self.storage, self.offset, self.shape, self.strides, False, collections.OrderedDict())


class Saver(pickle.Pickler):
    """torch.save(): storages are named in the pickle, and lie beside it."""

    def __init__(self, file, is_legacy, device, **options):
        super().__init__(file, **options)
        self.is_legacy, self.device, self.storages = is_legacy, device, {}

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        key = self.storages.setdefault(id(value), (str(len(self.storages)), value))[0]
        words = ("storage", getattr(TORCH, value.kind), key, self.device, len(value.numbers))
        return words + (None,) if self.is_legacy else words


def save(path, value, is_legacy=False, device="cpu", protocol=2):
    text = io.BytesIO()
    saver = Saver(text, is_legacy, device, protocol=protocol)
    saver.dump(value)
    storages = list(saver.storages.values())
    if is_legacy:
        with open(path, "wb") as file:
            for part in (MAGIC, PROTOCOL, {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}):
                pickle.dump(part, file, protocol=2)
            file.write(text.getvalue())
            pickle.dump([key for key, _ in storages], file, protocol=2)
            for _, storage in storages:
                file.write(struct.pack("<q", len(storage.numbers)) + storage.content())
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("dataset/data.pkl", text.getvalue())
        for key, storage in storages:
            archive.writestr(f"dataset/data/{key}", storage.content())
        archive.writestr("dataset/version", "3\n")
    return path


class Loader(pickle.Unpickler):
    def __init__(self, file, contents):
        super().__init__(file)
        self.contents = contents

    def find_class(self, module, name):
        known = {("collections", "OrderedDict"): collections.OrderedDict, ("torch._utils", "_rebuild_tensor_v2"): TORCH._utils._rebuild_tensor_v2,
                 ("torch", "FloatStorage"): TORCH.FloatStorage, ("torch", "DoubleStorage"): TORCH.DoubleStorage}
        return known[module, name]

    def persistent_load(self, words):
        return (self.contents, words[2], words[1].code)


def load(path):
    """The value of a file, its tensors as (storage, offset, shape, strides)."""
    contents = {}
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            main = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            folder = main[:-len("data.pkl")] + "data/"
            contents.update((name[len(folder):], archive.read(name)) for name in archive.namelist() if name.startswith(folder))
            return Loader(io.BytesIO(archive.read(main)), contents).load()
    with open(path, "rb") as file:
        assert pickle.load(file) == MAGIC and pickle.load(file) == PROTOCOL
        pickle.load(file)
        value = Loader(file, contents).load()
        for key in pickle.load(file):
            contents[key] = file.read(4 * struct.unpack("<q", file.read(8))[0])
        return value


def numbers_of(tensor):
    """All numbers by rows, whatever the strides."""
    (contents, key, code), offset, shape, strides = tensor
    numbers = struct.unpack(f"<{len(contents[key]) // struct.calcsize(code)}{code}", contents[key])
    places = [offset]
    for length, stride in zip(shape, strides):
        places = [place + i * stride for place in places for i in range(length)]
    return [numbers[place] for place in places]


def graphs_in(path):
    """(split, features, edges, labels) of each graph of a data file, as Driple's own program sees it."""
    adjacency, features, labels = load(path)
    graphs = []
    for part, split in PARTS.items():
        for a, x, y in zip(adjacency[part], features[part], labels[part]):
            count, nodes = x[2][:2]
            a_all, x_all, y_all = numbers_of(a), numbers_of(x), numbers_of(y)
            for g in range(count):
                square = a_all[g * nodes * nodes:(g + 1) * nodes * nodes]
                edges = [(i, j) for i in range(nodes) for j in range(i + 1, nodes) if square[i * nodes + j] != 0]
                graphs.append((split, x_all[g * nodes * 3:(g + 1) * nodes * 3], edges, y_all[g * 12:(g + 1) * 12]))
    return graphs


def graphs_of_dataset(path):
    """The same of a dataset of ours."""
    database = sqlite3.connect(path)
    rows = database.execute("SELECT split, features, edges, labels, origin FROM samples JOIN graphs ON graph = graphs.id ORDER BY samples.id").fetchall()
    database.close()
    graphs, origins = [], set()
    for split, features, edges, labels, origin in rows:
        ends = struct.unpack(f"<{len(edges) // 4}i", edges)
        values = struct.unpack(f"<{len(labels) // 8}d", labels)
        assert all(math.isnan(value) for value in values[12:])
        graphs.append((split, list(struct.unpack(f"<{len(features) // 4}f", features)), list(zip(ends[::2], ends[1::2])), list(values[:12])))
        origins.add(origin)
    return graphs, origins


def random_numbers(seed):
    while True:
        seed = (1103515245 * seed + 12345) % 2**31
        yield seed / 2**31


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def place(self, name):
        return os.path.join(self.folder, name)

    def call(self, *line, code=0):
        done = subprocess.run([f"{OPTIONS.build}/rehearse", *line], capture_output=True, encoding="utf-8")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def require_same(self, path, origin=None):
        """rehearse import gives what is in the file, bit for bit."""
        self.call("import", path, "--quiet", "-o", self.place("x.db"))
        ours, origins = graphs_of_dataset(self.place("x.db"))
        self.assertEqual(ours, graphs_in(path))
        if origin:
            self.assertEqual(origins, {origin})
        return len(ours)

    def published(self, kind="FloatStorage"):
        """A data file's value: batches of two graphs of five nodes, one of them a view into a larger storage, one transposed."""
        draw = random_numbers(7)
        single = (lambda value: struct.unpack("<f", struct.pack("<f", value))[0]) if kind == "FloatStorage" else float
        adjacency, features, labels = {}, {}, {}
        for part, batches in {"train": 3, "val": 1, "test": 2}.items():
            adjacency[part], features[part], labels[part] = [], [], []
            for batch in range(batches):
                squares = []
                for _ in range(2):
                    upper = {(i, j): 1.0 if next(draw) < 0.5 else 0.0 for i in range(5) for j in range(i + 1, 5)}
                    squares += [upper.get((min(i, j), max(i, j)), 0.0) for i in range(5) for j in range(5)]
                rows = [single(value) for _ in range(10) for value in (1e6 * next(draw), int(9 * next(draw)) + 1, next(draw))]
                ends = [single(100 * next(draw)) for _ in range(24)]
                adjacency[part].append(Tensor(Storage(squares, kind), (2, 5, 5)))
                if batch == 1:  # columns first, after 4 numbers that are not in it
                    turned = [rows[(g * 5 + n) * 3 + f] for f in range(3) for g in range(2) for n in range(5)]
                    features[part].append(Tensor(Storage([-1.0] * 4 + turned, kind), (2, 5, 3), 4, (5, 1, 10)))
                else:
                    features[part].append(Tensor(Storage(rows, kind), (2, 5, 3)))
                labels[part].append(Tensor(Storage(ends, kind), (2, 12)))
        return adjacency, features, labels

    def test_a_published_data_file_is_read_as_driples_program_reads_it(self):
        for options in ({}, {"is_legacy": True}, {"device": "cuda:0"}, {"is_legacy": True, "device": "cuda:0"}, {"protocol": 4}):
            with self.subTest(options):
                self.assertEqual(self.require_same(save(self.place("v100.pkl"), self.published(), **options), "measured"), 12)

    def test_float64_becomes_float32_as_features_are(self):
        path = save(self.place("wide.pkl"), self.published("DoubleStorage"))
        self.call("import", path, "--quiet", "-o", self.place("x.db"))
        for (_, ours, edges, labels), (_, theirs, same_edges, same_labels) in zip(graphs_of_dataset(self.place("x.db"))[0], graphs_in(path)):
            self.assertEqual(edges, same_edges)
            for one, other in zip(ours + labels, theirs + same_labels):
                self.assertAlmostEqual(one / other, 1, delta=1e-7)

    def test_files_given_are_read_the_same(self):
        for path in OPTIONS.files:
            print(f"{path}: {self.require_same(path)} graphs, the same")

    def test_several_files_and_a_folder_are_settings_of_one_dataset(self):
        os.mkdir(self.place("data"))
        first, second = save(self.place("data/v100.pkl"), self.published()), save(self.place("data/2080ti.dat"), self.published())
        text, errors = self.call("import", first, second, "-o", self.place("files.db"))
        self.assertTrue(text.startswith("24 samples of 24 graphs in 2 settings\n"), text)
        self.assertIn("v100.pkl: its labels are taken as measured", errors)
        with open(self.place("data/notes.txt"), "w") as file:
            file.write("not one of them\n")
        text, errors = self.call("import", self.place("data"), "-o", self.place("folder.db"))
        self.assertTrue(text.startswith("24 samples of 24 graphs in 2 settings\n"), text)
        self.assertIn("only the data files of Driple in it are read", errors)
        names = [row[0] for row in sqlite3.connect(self.place("folder.db")).execute("SELECT name FROM settings ORDER BY id")]
        self.assertEqual(names, ["2080ti", "v100"])
        self.assertIn("is given twice", self.call("import", first, first, "-o", self.place("x.db"), code=2)[1])
        self.assertIn("is given twice", self.call("import", first, self.place("data"), "-o", self.place("x.db"), code=2)[1])
        os.mkdir(self.place("empty"))
        self.assertIn("found none in it", self.call("import", self.place("empty"), "-o", self.place("x.db"), code=2)[1])
        os.mkdir(self.place("other"))
        twin = save(self.place("other/v100.pkl"), self.published())
        self.call("import", first, twin, "--quiet", "-o", self.place("twins.db"))  # the same name: two settings
        names = [row[0] for row in sqlite3.connect(self.place("twins.db")).execute("SELECT name FROM settings ORDER BY id")]
        self.assertEqual(names, [self.place("data/v100"), self.place("other/v100")])

    def test_damaged_files_get_one_line(self):
        for is_legacy in (False, True):
            with open(save(self.place("whole.pkl"), self.published(), is_legacy), "rb") as file:
                whole = file.read()
            for size in [0, 1, 20, 100, len(whole) // 2, len(whole) - 30]:
                with open(self.place("cut.pkl"), "wb") as file:
                    file.write(whole[:size])
                errors = self.call("import", self.place("cut.pkl"), "--quiet", "-o", self.place("x.db"), code=2)[1]
                self.assertEqual(errors.count("\n"), 1, errors)
                self.assertIn("cut.pkl", errors)
        self.assertFalse(os.path.exists(self.place("x.db")))
        for name, change, words in [("features", lambda f: f["val"].pop(), "differ in their number of batches"),
                                    ("labels", lambda f: f.pop("test"), 'expected the key "test"'),
                                    ("shape", lambda f: f["val"][0].__init__(Storage([1.0] * 30), (2, 15)), "expected a tensor of the shape"),
                                    ("negative", lambda f: f["val"][0].storage.numbers.__setitem__(0, -1.0), "expected labels of at least 0")]:
            value = self.published()
            change(value[2 if name in ("labels", "negative") else 1])
            errors = self.call("import", save(self.place(f"{name}.pkl"), value), "-o", self.place("x.db"), code=2)[1]
            self.assertEqual(errors.count("\n"), 1, errors)
            self.assertIn(words, errors)

    def test_a_tensor_named_again_and_again_is_refused_before_it_is_read(self):
        one, nodes = 40_000, 500
        square, rows, ends = [Tensor(Storage([0.0] * size), shape) for size, shape in
                              ((nodes * nodes, (1, nodes, nodes)), (3 * nodes, (1, nodes, 3)), (12, (1, 12)))]
        value = tuple({"train": [tensor] * one, "val": [], "test": []} for tensor in (square, rows, ends))  # 40 GB of adjacency
        errors = self.call("import", save(self.place("again.pkl"), value), "-o", self.place("x.db"), code=2)[1]
        self.assertIn("repeats its tensors too often", errors)

    def test_a_network_learns_from_a_published_file_and_goes_on_with_another(self):
        first, second = save(self.place("v100.pkl"), self.published()), save(self.place("2080ti.pkl"), self.published())
        cluster = f"{ROOT}/scenarios/driple/01-v100-ps1-w2.json"
        self.call("import", first, "--scenario", cluster, "--quiet", "-o", self.place("first.db"))
        self.call("import", second, "--quiet", "-o", self.place("second.db"))
        options = ["--hidden", "8", "--epochs", "2", "--batch-size", "2", "--quiet"]
        for network in ("gcn", "gin", "gat", "mpnn"):
            self.call("train", self.place("first.db"), "--network", network, *options, "-o", self.place(network))
        self.call("train", self.place("first.db"), "--network", "mpnn", "--scalers", "amplification", *options, "-o", self.place("scaled"))
        text = self.call("compare", self.place("gcn"), self.place("gat"), self.place("first.db"), "--json", "--quiet")[0]
        predictors = json.loads(text)["origins"]["measured"]["predictors"]
        self.assertEqual(predictors["gcn"]["samples"], 4)
        self.assertEqual(predictors["gcn"]["coverage"]["labels"], 0)
        self.call("train", self.place("second.db"), "--network", "gcn", "--transfer-from", self.place("gcn"), "--transfer", "as-published", *options, "-o",
                  self.place("carried"))
        # Asked by the same cluster, by the file alone, and by another cluster.
        graphs = self.place("graphs.json")
        with open(graphs, "w") as file:
            json.dump({"graphs": [{"features": [[1e6, 3, 0.1], [5, 1, 0.2], [0, 2, 0.1]], "undirected_edges": [[0, 1], [1, 2]]}]}, file)
        predicted, errors = self.call("predict", self.place("gcn"), graphs, "--scenario", cluster, "--json")
        self.assertNotIn("warning", errors)
        (graph,) = json.loads(predicted)
        self.assertEqual(len(graph["metrics"]), 12)
        for metric in graph["metrics"].values():
            self.assertEqual(list(metric), ["value"])
            self.assertGreaterEqual(metric["value"], 0)
        self.assertIn("may not hold: nothing says in which cluster", self.call("predict", self.place("gcn"), graphs)[1])
        other = f"{ROOT}/scenarios/driple/07-2080ti-ps2-w2.json"
        self.assertIn('architecture is "Volta" there and "Turing" here', self.call("predict", self.place("gcn"), graphs, "--scenario", other)[1])
        self.assertIn("may not hold", self.call("predict", self.place("gcn"), self.place("second.db"))[1])
        self.assertNotIn("may not hold", self.call("predict", self.place("carried"), self.place("second.db"))[1])
        self.assertIn("the network does not know this cluster", self.call("predict", self.place("gcn"), other, code=2)[1])

    def state_dict(self, model):
        """Weights of the fixtures: w_k = float32(0.2 sin(0.7 k + 0.3)), k over all parameters in their order."""
        weights, k = collections.OrderedDict(), 0
        for parameter in model["parameters"]:
            size = math.prod(parameter["shape"])
            numbers = [0.2 * math.sin(0.7 * i + 0.3) for i in range(k, k + size)]
            weights[parameter["name"]] = Tensor(Storage(numbers), parameter["shape"])
            k += size
        return weights

    def test_the_networks_give_what_driples_program_gives(self):
        worst = 0
        for hidden in (8, 64):
            with open(f"{FIXTURES}/synthetic_weights_hidden{hidden}.json") as file:
                fixture = json.load(file)
            for name, model in fixture["models"].items():
                weights = save(self.place(f"{name}.pkl"), self.state_dict(model), is_legacy=hidden == 8, device="cuda:0")
                self.call("import", weights, "--quiet", "-o", self.place(f"{name}-{hidden}"))
                graphs = [{**graph, "output_float64": model["outputs"][graph["name"]]["float64"]} for graph in fixture["graphs"]]
                with open(self.place("graphs.json"), "w") as file:
                    json.dump({"graphs": graphs}, file)
                predicted, errors = self.call("predict", self.place(f"{name}-{hidden}"), self.place("graphs.json"), "--json")
                self.assertIn("shares of the largest labels", errors)
                self.assertIn("does not say which GPU, links and workers", errors)
                self.assertIn(f"outputs of {len(graphs)} graphs differ from those in the file by at most", errors)
                for graph, ours in zip(graphs, json.loads(predicted)):
                    self.assertEqual(ours["metrics"], {})
                    outputs = list(ours["outputs"].values())
                    differences = [abs(one - other) / max(1, abs(other)) for one, other in zip(outputs, graph["output_float64"])]
                    self.assertEqual(max(differences), ours["largest_difference"])
                    worst = max(worst, *differences)
        self.assertLess(worst, 1e-9)
        print(f"largest difference {worst:.1e}")

    def test_weights_without_units_are_compared_with_nothing(self):
        with open(f"{FIXTURES}/synthetic_weights_hidden8.json") as file:
            fixture = json.load(file)
        self.call("import", save(self.place("gcn.pkl"), self.state_dict(fixture["models"]["gcn"])), "--quiet", "-o", self.place("gcn"))
        self.call("import", save(self.place("data.pkl"), self.published()), "--quiet", "-o", self.place("x.db"))
        self.assertIn("train --transfer-from teaches it labels with units", self.call("compare", self.place("gcn"), self.place("x.db"), code=2)[1])
        self.assertIn("gpu_idle,", self.call("predict", self.place("gcn"), self.place("data.pkl"))[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--files", nargs="*", default=[], metavar="FILE", help="data files to compare as well")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
