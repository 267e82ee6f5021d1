"""The kinds of run: what users call, on inputs of one kind, some of which are broken. Case i of a seed draws its kind by weight."""

import gzip
import os
import shutil

from structure import mutations
from structure.mutations import Object, copy_of
from structure.shipped import ROOT, kPredictorVerbs, read_text, shipped, write_text

kKinds = []  # (weight, kind, whether it needs the predictor), in the order in which they are drawn


def kind(weight, of_predictor=False):
    def listed(function):
        kKinds.append((weight, function, of_predictor))
        return function
    return listed


def choose(case, only):
    """Makes the case a run of some kind, whose verb is one of `only` if there are any."""
    kinds = [(weight, function) for weight, function, of_predictor in kKinds if case.files.has_predictor or not of_predictor]
    while True:
        case.rng.choices([function for _, function in kinds], [weight for weight, _ in kinds])[0](case)
        if not only or case.verb in only:
            return
        case.begin_again()


def scenario_verbs(case, path):
    """Verbs that take a scenario."""
    rng = case.rng
    verb = rng.choices(["simulate", "sweep", "diagnose", "remaining", "provision", "predict", "compare"], [60, 10, 8, 10, 4, 4, 3])[0]
    if verb in kPredictorVerbs and not case.files.has_predictor:
        verb = "simulate"
    if verb == "simulate":
        extra = rng.choice([[], [], [], [], ["--dry-run"], ["--dry-run", "--explain"], ["--explain"], ["--exact"], ["--runs", "3"],
                            ["--runs", "3", "--deadline", "1h"], ["--seed", "5"], ["--trace-window", "0s..1s"]])
        case.finish(verb, [path, *extra])
    elif verb == "sweep":
        grid = rng.choice(["/training/steps=5,10", "/workload/batch_per_worker=8,16", "/cluster/groups/0/count=1..3", case.hostile_pointer_option("--grid")])
        case.finish(verb, [path, "--grid", grid, *rng.choice([[], [], ["--dry-run"], ["--seeds", "2"], ["--top", "2", "--by", "-steps_per_s"],
                                                             ["--where", "gpu_utilization > 0.5"], ["--constraint", "/training/steps > 5"]])])
    elif verb == "diagnose":
        case.finish(verb, [path, "--measured-speed", rng.choice(["1", "10", "100", "0.001", "1e6"])])
    elif verb == "remaining":
        words = [path, "--step", rng.choice(["1", "1", "3", "20"]), "--lost", "1"]
        if case.chance(0.8):
            words += ["--replaced-after", rng.choice(["100s", "1h", "0s"])]
        elif case.chance(0.6):
            words += ["--history", history(case)]
        case.finish(verb, words)
    elif verb == "provision":
        case.finish(verb, [path, "--deadline", "2h", "--target-loss", "0.8", "--plans", "1", "--runs", "2"])
    elif verb == "predict":
        case.finish(verb, [case.files.network, path])
    else:
        case.finish(verb, [case.files.network, path, "--step-time", "100ms"])


def history(case):
    """Past revocations, for remaining."""
    text = read_text(os.path.join(ROOT, "calibration/data/cm-dare/remaining_time_after_revocation.csv"))
    return case.place("history.csv", text, mutate=mutations.mutate_table, hostile=0.6)


@kind(30)
def scenario(case):
    name, node = case.rng.choice(case.files.scenarios)
    case.kind = "scenario " + os.path.basename(name)
    scenario_verbs(case, case.place("scenario.json", node, "scenario"))


@kind(14)
def options(case):
    """A good scenario with bad options."""
    verb = case.rng.choice(["simulate", "simulate", "sweep", "sweep", "diagnose", "remaining", "provision", "generate", "validate", "calibrate", "list", "schema", "init"])
    case.kind = "options"
    name, node = case.rng.choice(case.files.scenarios)
    scenario = case.place("scenario.json", node, "scenario", hostile=0)
    option = case.hostile_pointer_option
    if verb == "simulate":
        case.finish(verb, [scenario, *[word for _ in range(case.rng.choice([1, 2])) for word in ("--set", option("--set"))]], hostile_options=0.4)
    elif verb == "sweep":
        words = ["--grid", option("--grid")] if case.chance(0.6) else ["--grid", "/training/steps=5,6"]
        for name in ("--list", "--constraint", "--where", "--by", "--set"):
            if case.chance(0.25):
                words += [name, option(name)]
                if name == "--by":
                    words += ["--top", "2"]
        case.finish(verb, [scenario, *words], hostile_options=0.3)
    elif verb == "diagnose":
        case.finish(verb, [scenario, "--measured-speed", case.hostile_option("x")], hostile_options=0.3)
    elif verb == "remaining":
        case.finish(verb, [scenario, "--step", case.hostile_option("x")], hostile_options=0.4)
    elif verb == "provision":
        case.finish(verb, [os.path.join(ROOT, "scenarios/provision/resnet110.json"), "--deadline", case.rng.choice(["2600s", case.hostile_option("x")]),
                           "--target-loss", case.rng.choice(["0.8", case.hostile_option("x")]), "--plans", "1"], hostile_options=0.5)
    elif verb == "generate":
        case.finish(verb, [os.path.join(ROOT, "scenarios/spaces/small.json"), "--count", "3"], has_output=0.8, hostile_options=0.7)
    elif verb == "validate":
        case.finish(verb, [os.path.join(ROOT, "scenarios/studies/own/step-times.json")], hostile_options=0.8)
    elif verb == "calibrate":
        case.finish(verb, [os.path.join(ROOT, "scenarios/studies/own/step-times.json"), "--steps", "1"], hostile_options=0.8)
    elif verb == "list":
        case.finish(verb, [case.rng.choice(["gpus", "instances", "models", "profiles", "spot_pools", "regions", "topologies", "interconnects", case.hostile_option("x")])], hostile_options=0.4)
    elif verb == "schema":
        case.finish(verb, [case.rng.choice(["scenario", "study", case.hostile_option("x")])])
    else:
        case.finish(verb, [case.rng.choice(["my-run", "a/b", "x" * 300, "\x1b[31m", "\u202ea", "=a", " ", "a\nb", "nothing/deep/run", "-", "é", ""])])


@kind(5)
def sweep(case):
    name, node = case.rng.choice(case.files.sweeps)
    case.kind = "sweep"
    node = copy_of(node)
    if node.get("set") is None:
        node.set("set", Object([]))
    node.get("set").set("/training/steps", 6)
    case.finish("sweep", [case.place("sweep.json", node, "sweep"), *case.rng.choice([[], [], ["--dry-run"]])])


@kind(5)
def provision(case):
    _, node = case.rng.choice(case.files.provisions)
    case.kind = "provision"
    case.finish("provision", [case.place("provision.json", node, "provision"), "--deadline", case.rng.choice(["2600s", "2600s", "810s", "1h"]), "--target-loss",
                              "0.8", "--plans", "1", "--runs", "2"])


@kind(5)
def queue(case):
    _, node = case.rng.choice(case.files.queues)
    case.kind = "queue"
    case.finish("queue", [case.place("queue.json", node, "queue"), *case.rng.choice([[], [], ["--policy", "fifo,srtf"], ["--policy", "gavel_ftf"]])])


@kind(5)
def space(case):
    _, node = case.rng.choice(case.files.spaces)
    case.kind = "space"
    path = case.place("space.json", node, "space")
    if case.chance(0.25):
        case.finish("generate", [path, "--count", "3", "--dry-run"])
    else:
        case.finish("generate", [path, "--count", "2", *case.rng.choice([[], [], ["--format", "driple"]])], has_output=1)


def small_study(case):
    """A study with few rows, and the path of its measurements."""
    name, node = case.rng.choice(case.files.studies)
    node = copy_of(node)
    case.kind = "study " + os.path.basename(name)
    source = node.get("measurements")
    is_table = isinstance(source, str)
    path = source if is_table else source.get("file") if isinstance(source, Object) else None
    return node, path, is_table


@kind(9)
def study(case):
    node, path, is_table = small_study(case)
    breaks_data = case.chance(0.4)
    if isinstance(path, str) and os.path.isfile(path) and os.path.getsize(path) < 4e6 and not path.endswith(".gz"):
        text = read_text(path)
        is_plain_table = is_table or path.endswith(".csv")
        if is_plain_table:
            lines = text.splitlines(True)
            rows = [i for i, line in enumerate(lines) if not line.startswith("#")]
            chosen = sorted(case.rng.sample(rows[1:], min(3, len(rows) - 1)))
            text = "".join(lines[i] for i in rows[:1] + chosen)
        mutate = mutations.mutate_table if is_plain_table else mutations.mutate_listing
        if path.endswith(".json"):
            mutate = lambda rng, text: mutations.mutate_json(rng, text, case.files.words["study"])
        moved = case.place("data" + os.path.splitext(path)[1], text, mutate=mutate, hostile=1.0 if breaks_data else 0)
        if is_table:
            node.set("measurements", moved)
        else:
            node.get("measurements").set("file", moved)
    study = case.place("study.json", node, "study", hostile=0.1 if breaks_data else 1)
    verb = case.rng.choice(["validate"] * 4 + ["calibrate", "generate"])
    if verb == "calibrate":
        case.finish(verb, [study, "--steps", "1"], has_output=0.5)
    elif verb == "generate":
        case.finish(verb, [study], has_output=1)
    else:
        case.finish(verb, [study])


@kind(4)
def lifetimes(case):
    node = copy_of(case.files.lifetimes)
    series = copy_of(case.rng.choice(node.get("series")))
    case.kind = "lifetimes"
    breaks_data = case.chance(0.5)
    path = series.get("file")
    if isinstance(path, str) and os.path.isfile(path) and not path.endswith(".gz"):
        lines = read_text(path).splitlines(True)
        most = case.rng.choice([3, 10, 60, len(lines)])
        text = "".join(lines[: most + 1])
        series.set("file", case.place("data.csv", text, mutate=mutations.mutate_table, hostile=1.0 if breaks_data else 0))
    node.set("series", [series])
    study = case.place("lifetimes.json", node, "study", hostile=0.1 if breaks_data else 1)
    case.finish("calibrate", [study, *case.rng.choice([[], [], ["--bootstrap", "5"], ["--report", os.path.join(case.cwd, "report.html")]])], has_output=0.5)


@kind(3)
def training_logs(case):
    node = copy_of(case.files.logs)
    case.kind = "training logs"
    breaks_data = case.chance(0.6)
    text = read_text(os.path.join(ROOT, "calibration/data/example-training-logs/logs.csv"))
    log = node.get("logs")[0]
    log.set("file", case.place("logs.csv", text, mutate=mutations.mutate_table, hostile=1.0 if breaks_data else 0))
    case.finish("calibrate", [case.place("study.json", node, "study", hostile=0.1 if breaks_data else 1)], has_output=0.5)


@kind(9)
def catalog(case):
    """A folder of one's own, of which one file is broken."""
    folder = os.path.join("catalog")
    case.kind = "catalog"
    kind = case.rng.choice(["catalog"] * 3 + ["model"] * 3 + ["profile"] * 3 + ["pool"] * 2 + ["prices"])
    sets, base = [], "cm-dare.json"
    if kind == "catalog":
        name, node = case.rng.choice(case.files.catalogs)
        case.place(f"{folder}/mine.json", fewer(case, node), "catalog")
    elif kind == "pool":
        node = fewer(case, dict(case.files.catalogs)[os.path.join(ROOT, "platforms/catalog/spot_pools.json")])
        pools = node.get("spot_pools")
        if isinstance(pools, Object) and pools.pairs:
            pools.pairs[0][0] = "mine/pool"
        case.place(f"{folder}/pools.json", node, "catalog")
        base, sets = "cm-dare-spot.json", ["--set", "/cluster/groups/1/spot_pool=mine/pool"]
    elif kind == "model":
        _, node = case.rng.choice(case.files.models)
        case.place(f"{folder}/models/mine.json", node, "model")
        base, sets = case.rng.choice(["cm-dare.json", "dgx.json", "resnet50-ec2.json"]), ["--set", "/workload/model=mine"]
    elif kind == "profile":
        _, node = case.rng.choice(case.files.profiles)
        case.place(f"{folder}/profiles/mine.json", node, "profile")
        base, sets = case.rng.choice(["cm-dare.json", "dgx.json", "spotdnn.json"]), ["--set", "/calibration=mine"]
    else:
        table = "time,instance,zone,usd_per_hour\n"
        source = os.path.join(ROOT, "calibration/data/training-on-a-dime-aws/spot_prices.csv.gz")
        with gzip.open(source, "rt") as file:
            table = "".join(line for line, _ in zip(file, range(400)))
        prices = case.place(f"{folder}/prices/data.csv", table, mutate=mutations.mutate_table, hostile=0.6)
        case.place(f"{folder}/prices/mine.json", Object([["format", 1], ["source", "mine"], ["file", os.path.basename(prices)]]), "catalog", hostile=0.4)
        base, sets = "resnet50-spot.json", ["--set", "/cluster/prices=mine"]
    scenario = case.place("scenario.json", dict(case.files.scenarios)[os.path.join(ROOT, "scenarios", base)], "scenario", hostile=0)
    catalog = os.path.join(case.inputs, folder)
    if case.chance(0.2):
        case.finish("list", [case.rng.choice(["gpus", "instances", "models", "profiles", "spot_pools", "regions", "interconnects"]), "--catalog", catalog])
    elif case.chance(0.1):
        case.finish("validate", [os.path.join(ROOT, "scenarios/studies/own/step-times.json"), "--catalog", catalog])
    else:
        case.finish("simulate", [scenario, "--catalog", catalog, *sets, *case.rng.choice([[], [], ["--explain"], ["--dry-run"], ["--runs", "2"]])])


def fewer(case, node):
    """A catalog with a few of its entries."""
    node = copy_of(node)
    for pair in node.pairs:
        if isinstance(pair[1], Object) and len(pair[1].pairs) > 3:
            pair[1] = Object(case.rng.sample(pair[1].pairs, 3))
        elif isinstance(pair[1], list) and len(pair[1]) > 3:
            pair[1] = case.rng.sample(pair[1], 3)
    return node


@kind(8)
def inline_parts(case):
    """Models, profiles, GPUs and pools inside a scenario."""
    name, node = case.rng.choice(case.files.scenarios)
    case.kind = "inline " + os.path.basename(name)
    node = copy_of(node)
    which = case.rng.choice(["model", "profile", "both"])
    words = "model"
    if which != "profile":
        node.get("workload").set("model", copy_of(case.rng.choice(case.files.models)[1]))
    if which != "model":
        words = "profile"
        node.set("calibration", copy_of(case.rng.choice(case.files.profiles)[1]))
    scenario_verbs(case, case.place("scenario.json", node, words))


@kind(4)
def folders(case):
    """Results of runs, damaged, for diff."""
    case.kind = "output folder"
    paths = []
    for number, source in enumerate(case.files.runs):
        path = os.path.join(case.inputs, f"run-{number}")
        shutil.copytree(source, path)
        if number == 0 or case.chance(0.3):
            damage(case, path)
        paths.append(path)
    if case.chance(0.15):
        paths[case.rng.randrange(2)] = case.rng.choice([case.cwd, "nowhere", case.files.swept, case.files.dataset, os.path.join(ROOT, "scenarios/dgx.json")])
    case.finish("diff", paths)


def damage(case, folder):
    names = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    important = [name for name in names if name.endswith(".json")] or names
    name = case.rng.choice(important if case.chance(0.7) else names)
    path = os.path.join(folder, name)
    if case.chance(0.1):
        return case.become_other_kind(path)
    if case.chance(0.05):
        return os.unlink(path)
    with open(path, "rb") as file:
        data = file.read()
    if name.endswith(".json") and case.chance(0.8):
        data = mutations.mutate_json(case.rng, data.decode(), case.files.words["scenario"]).encode("utf-8", "surrogateescape")
    elif name.endswith(".csv") and case.chance(0.7):
        data = mutations.mutate_table(case.rng, data.decode()).encode("utf-8", "surrogateescape")
    else:
        data = mutations.mutate_bytes(case.rng, data)
    with open(path, "wb") as file:
        file.write(data)


@kind(3)
def store(case):
    """A sweep goes on in a folder whose results.sqlite is damaged."""
    case.kind = "results.sqlite"
    case.out = os.path.join(case.cwd, "swept")
    shutil.copytree(case.files.swept, case.out)
    path = os.path.join(case.out, "results.sqlite")
    break_database(case, path)
    case.finish("sweep", [os.path.join(ROOT, "scenarios/dgx.json"), "--grid", "/workload/batch_per_worker=16,32,64", "-o", case.out])


@kind(2)
def earlier_results(case):
    """A run into a folder that holds an earlier one, whole or damaged."""
    case.kind = "earlier results"
    case.out = os.path.join(case.cwd, "out")
    shutil.copytree(case.files.runs[0], case.out)
    write_text(os.path.join(case.out, "mine.txt"), "mine")
    listed = os.path.join(case.out, ".rehearse-files")
    for _ in range(case.rng.choice([0, 1, 2])):
        kind = case.rng.randrange(5)
        if kind == 0:
            write_text(os.path.join(case.out, "INCOMPLETE"), "")
        elif kind == 1 and (os.path.isfile(listed) or not os.path.lexists(listed)):
            text = read_text(listed) if os.path.isfile(listed) else ""
            write_text(listed, text + case.rng.choice(["../../../inputs/scenario.json", "/etc/passwd", ".", "..", "a" * 5000, "\x1b[31m", "", "mine.txt/x"]) + "\n")
        elif kind == 2 and os.path.isfile(listed):
            case.become_other_kind(listed)
        elif kind == 3:
            os.makedirs(os.path.join(case.out, case.rng.choice(["nodes.csv", "report.html.d", ".rehearse-new-x"])), exist_ok=True)
        else:
            damage(case, case.out)
    scenario = case.place("scenario.json", dict(case.files.scenarios)[os.path.join(ROOT, "scenarios/cm-dare.json")], "scenario", hostile=0)
    if case.chance(0.3):
        case.finish("sweep", [scenario, "--grid", "/training/steps=5,6", "-o", case.out])
    else:
        case.finish("simulate", [scenario, "--set", "/training/steps=10", "-o", case.out])


def break_database(case, path):
    if case.chance(0.6):
        for _ in range(case.rng.choice([1, 1, 2])):
            mutations.mutate_database(case.rng, path)
    elif case.chance(0.85):
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(mutations.mutate_bytes(case.rng, data))
    else:
        case.become_other_kind(path)


@kind(3, of_predictor=True)
def datasets(case):
    case.kind = "dataset"
    path = os.path.join(case.inputs, "small.db")
    shutil.copy(case.files.dataset, path)
    break_database(case, path)
    verb = case.rng.choice(["generate"] + (["train", "import", "predict", "compare"] if case.files.has_predictor else []))
    if verb == "generate":
        case.out = os.path.join(case.cwd, "out.db")
        if case.chance(0.5) and os.path.isfile(path) and not case.as_nobody:
            shutil.copy(path, case.out)
        if os.path.isfile(path) and not case.as_nobody:
            shutil.copy(path, case.out + ".part")
        case.finish(verb, [os.path.join(ROOT, "scenarios/spaces/small.json"), "--count", "4", "-o", case.out])
    elif verb == "train":
        case.finish(verb, [path, "--epochs", "1", "--hidden", "4", "--network", case.rng.choice(["profile", "profile", "gcn", "gin", "mpnn"])], has_output=1)
    elif verb == "import":
        case.finish(verb, [path, *case.rng.choice([[], [case.files.dataset]])], has_output=1)
    elif verb == "predict":
        case.finish(verb, [case.files.network, path])
    else:
        case.finish(verb, [case.files.network, path, "--no-baselines"])


@kind(3, of_predictor=True)
def networks(case):
    case.kind = "torch file"
    folder = os.path.join(case.inputs, "network")
    if case.chance(0.3):
        os.mkdir(folder)
        source = case.rng.choice(shipped("tests/fuzz/corpus/torch_file/*"))
        shutil.copy(source, os.path.join(folder, "model.pt"))
    else:
        shutil.copytree(case.files.network, folder)
    path = os.path.join(folder, case.rng.choice(["model.pt", "model.pt", "checkpoint.pt"]))
    if os.path.exists(path):
        if case.chance(0.08):
            case.become_other_kind(path)
        else:
            with open(path, "rb") as file:
                data = file.read()
            data = mutations.mutate_archive(case.rng, data) if case.chance(0.6) else mutations.mutate_bytes(case.rng, data)
            with open(path, "wb") as file:
                file.write(data)
    scenario = os.path.join(ROOT, "scenarios/driple/01-v100-ps1-w2.json")
    verb = case.rng.choice(["predict", "predict", "compare", "train"])
    if verb == "predict":
        case.finish(verb, [folder, scenario])
    elif verb == "compare":
        case.finish(verb, [folder, case.files.dataset, "--no-baselines"])
    elif case.chance(0.5):
        case.finish(verb, [case.files.dataset, "--epochs", "1", "--hidden", "4", "--transfer-from", folder], has_output=1)
    else:
        case.out = os.path.join(case.cwd, "network")
        shutil.copytree(folder, case.out, symlinks=True, ignore=lambda _, names: [name for name in names if not os.path.isfile(os.path.join(folder, name))])
        case.finish(verb, [case.files.dataset, "--epochs", "2", "--hidden", "4", "-o", case.out])


@kind(3, of_predictor=True)
def measured_jobs(case):
    case.kind = "measured jobs"
    graph = case.place("net" + case.rng.choice([".pbtxt", ".pb"]), b"", hostile=0)
    with open(graph, "wb") as file:
        source = os.path.join(ROOT, "tests/fuzz/corpus/graph_def", "binary" if graph.endswith(".pb") else case.rng.choice(["text", "training"]))
        with open(source, "rb") as original:
            data = original.read()
        if case.chance(0.5):
            data = mutations.mutate_listing(case.rng, data.decode("latin1")).encode("latin1", "replace") if case.chance(0.6) else mutations.mutate_bytes(case.rng, data)
        file.write(data)
    scenario = os.path.join(ROOT, "scenarios/driple/01-v100-ps1-w2.json")
    if case.chance(0.35):
        case.finish("predict", [case.files.network, graph, "--scenario", scenario])
        return
    series = case.place("series.csv", "time_s,gpu_utilization,receive_Bps,transmit_Bps\n" + "".join(f"{0.1 * i:.1f},{0.9 if i % 3 else 0},{i % 5}e8,{i % 4}e8\n" for i in range(60)),
                        mutate=mutations.mutate_table, hostile=0.4)
    profiles = [Object([["scenario", scenario], ["model", "resnet18"], ["batch_per_worker", 16], ["series", series], ["step_time", "200ms"]]),
                Object([["scenario", scenario], ["graph", graph], ["family", "net"], ["setting", "mine"], ["step_time", "100ms"], ["weight", 2]])]
    node = Object([["format", 1], ["source", "mine"], ["profiles", profiles]])
    jobs = case.place("jobs.json", node, "list", hostile=0.6)
    if case.chance(0.2):
        case.finish("compare", [case.files.network, scenario, "--measured", series, "--step-time", "100ms"])
    else:
        case.finish("import", [jobs, *case.rng.choice([[], [], ["--grouped"], [case.files.dataset]])], has_output=1)
