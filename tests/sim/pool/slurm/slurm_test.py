"""Sweeps by a real Slurm: the bytes of a local run, whatever happens to tasks, node, controller and the command itself.

Ends with code 77, "skipped", where there is no Slurm or the user is not root."""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from cluster import Cluster, missing_programs


class Bench:
    def __init__(self, program, cluster, folder):
        self.program, self.cluster, self.folder = pathlib.Path(program).resolve(), cluster, pathlib.Path(folder)
        self.scenarios = self.program.parent.parent / "scenarios"

    def command(self, name, jobs, *more, kind="sweep"):
        words = {"sweep": ["sweep", "data-sheet.json", "--set", "/training/steps=5", "--seeds"],
                 "runs": ["simulate", "resnet50-spot.json", "--set", "/training/steps=2000", "--runs"],
                 "dataset": ["generate", "spaces/small.json", "--count"]}[kind]
        return [self.program, words[0], self.scenarios / words[1], *words[2:], str(jobs), "-o", name, *more]

    def start(self, name, jobs, *more, kind="sweep"):
        return subprocess.Popen(self.command(name, jobs, "--executor", "slurm", *more, kind=kind), cwd=self.folder,
                                env=self.cluster.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)

    def run(self, name, cells, *more):
        return subprocess.run(self.command(name, cells, *more), cwd=self.folder, env=self.cluster.environment,
                              capture_output=True, text=True, timeout=300)

    def same(self, a, b):
        """Whether two outputs, files or folders, hold the same bytes."""
        return same_files(self.folder / a, self.folder / b)

    def table(self, name):
        return (self.folder / name / "sweep.csv").read_bytes()

    def tasks(self, state="running"):
        lines = self.cluster.ask("squeue", "--noheader", "--array", "--format=%i %T").split("\n")
        return [line.split()[0] for line in lines if state.upper() in line]


def is_result(path):
    return path.is_file() and path.name != "results.sqlite"


def same_files(a, b):
    """Whether two files or folders hold the same bytes, but for the store of results, which has them as they came."""
    if a.is_file():
        return a.read_bytes() == b.read_bytes()
    names = [path.relative_to(a) for path in sorted(a.rglob("*")) if is_result(path)]
    return names == [path.relative_to(b) for path in sorted(b.rglob("*")) if is_result(path)] and all(
        (a / name).read_bytes() == (b / name).read_bytes() for name in names)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def finish(bench, run, seconds=240):
    """Waits for the command; a node that Slurm takes out of service is put back, as its administrator would."""
    end = time.time() + seconds
    while True:
        try:
            _, errors = run.communicate(timeout=5)
            break
        except subprocess.TimeoutExpired:
            pass
        if bench.cluster.ask("sinfo", "--noheader", "--states=drain,down", "--format=%T").strip():
            set_node(bench, "RESUME")
        if time.time() < end:
            continue
        run.kill()
        _, errors = run.communicate(timeout=90)
        raise AssertionError(f"no end after {seconds} s; it said: {errors[-1000:]}; the queue: "
                             + bench.cluster.ask("squeue", "--format=%i %T %r") + "nodes: "
                             + bench.cluster.ask("sinfo", "--format=%T %E")) from None
    expect(run.returncode == 0, f"exit code {run.returncode}: {errors}")


def test_same_bytes(bench, cells):
    finish(bench, bench.start("plain", cells))
    expect(bench.table("plain") == bench.table("local"), "a sweep by Slurm gives other bytes")
    expect(not (bench.folder / "plain.jobs").exists(), "the folder of jobs is left over")


def test_interrupt(bench, cells):
    run = bench.start("stopped", cells)
    bench.cluster.wait_for(bench.tasks, "a task that runs")
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    expect(run.returncode == 130 and "--resume" in errors and "scancel" in errors, errors)
    other = bench.run("stopped", cells - 1, "--executor", "slurm")
    expect(other.returncode == 2 and "holds jobs of another command" in other.stderr, other.stderr)
    finish(bench, bench.start("stopped", cells, "--resume"))
    expect(bench.table("stopped") == bench.table("local"), "other bytes after --resume")
    nothing = bench.run("stopped", cells, "--executor", "slurm", "--resume")
    expect(nothing.returncode == 2 and "is not there" in nothing.stderr, nothing.stderr)


def test_other_verbs(bench):
    """Where a local run writes `OUTPUT`, a run by Slurm with the same name writes the same."""
    scenarios = bench.scenarios
    commands = {
        "runs": ["simulate", scenarios / "resnet50-spot.json", "--runs", "20", "--set", "/training/steps=2000"],
        "validation": ["validate", scenarios / "studies" / "mxnet-perf-ps.json"],
        "plan": ["provision", scenarios / "provision" / "resnet110.json", "--deadline", "2600s", "--target-loss", "0.8"],
        "small.dataset": ["generate", scenarios / "spaces" / "small.json", "--count", "20"],
    }
    for output, command in commands.items():
        made = bench.folder / output
        for executor in ("processes", "slurm"):
            run = subprocess.run([bench.program, *command, "-o", output, "--quiet", "--executor", executor],
                                 cwd=bench.folder, env=bench.cluster.environment, capture_output=True, text=True,
                                 timeout=200)
            expect(run.returncode == 0, f"{output}: {run.stderr}")
            if executor == "processes":
                made.rename(bench.folder / f"local-{output}")
        expect(same_files(made, bench.folder / f"local-{output}"), f"{output}: other bytes")


def set_node(bench, state):
    bench.cluster.ask("scontrol", "update", f"NodeName={bench.cluster.host}", f"State={state}", "Reason=test")


def drain(bench, choice):
    set_node(bench, "DRAIN")
    time.sleep(choice.uniform(0, 1))
    set_node(bench, "RESUME")


def restart_controller(bench, choice):
    bench.cluster.end("slurmctld.pid")
    time.sleep(choice.uniform(0, 1))
    bench.cluster.start_controller()
    bench.cluster.wait_for(lambda: bench.cluster.ask("sinfo", "--noheader"), "the controller")
    set_node(bench, "RESUME")  # it may have forgotten that a node is back


def cut_results(bench, choice):
    results = [path for path in bench.folder.glob("faults*.jobs/results/0*") if path.stat().st_size > 50]
    if results:
        path = choice.choice(results)
        os.truncate(path, path.stat().st_size - choice.randint(1, 40))


def of_task(*command):
    return lambda bench, choice: [bench.cluster.ask(*command, task) for task in bench.tasks()[:1]]


def requeue(bench, _):
    for task in bench.tasks()[:1]:
        bench.cluster.ask("scontrol", "requeue", task)
        time.sleep(0.5)
        bench.cluster.ask("scontrol", "update", f"JobId={task}", "StartTime=now")  # instead of two minutes later


FAULTS = {"task killed": of_task("scancel", "--batch", "--signal=KILL"), "task cancelled": of_task("scancel"),
          "task requeued": requeue, "node drained": drain,
          "controller restarted": restart_controller, "results cut": cut_results,
          "command killed": None}


MOST_FAULTS = 4  # of one command, as each puts its end off


def test_faults(bench, cells, count, seed):
    """Sweeps, Monte Carlo runs and datasets during which `count` things go wrong."""
    choice = random.Random(seed)
    kinds = {"sweep": cells, "runs": 3 * cells, "dataset": 3 * cells}  # jobs of each
    for kind, jobs in kinds.items():
        local = subprocess.run(bench.command(f"local-{kind}", jobs, kind=kind), cwd=bench.folder, capture_output=True,
                               text=True, timeout=300)
        expect(local.returncode == 0, local.stderr)
    done = commands = 0
    while done < count:
        kind = list(kinds)[commands % len(kinds)]
        commands += 1
        name = f"faults{commands}"
        run = bench.start(name, kinds[kind], kind=kind)
        enough = min(done + MOST_FAULTS, count)
        while done < enough:
            time.sleep(choice.uniform(0.1, 1.5))
            if run.poll() is not None:
                break
            fault = list(FAULTS)[done % len(FAULTS)]
            if FAULTS[fault]:
                FAULTS[fault](bench, choice)
            else:
                run.kill()
                run.communicate(timeout=90)
                run = bench.start(name, kinds[kind], kind=kind)
            done += 1
        finish(bench, run, 150)
        expect(bench.same(name, f"local-{kind}"), f"other bytes after faults, command {commands}: {kind}")
    print(f"{done} faults in {commands} commands")


def print_speed(bench, cells):
    """How long a sweep of `cells` cells of about 0.2 s takes by Slurm and by two processes."""
    seconds = {}
    for name, where in (("processes", ("-j", "2")), ("slurm", ("--executor", "slurm"))):
        start = time.time()
        run = subprocess.run([bench.program, "sweep", bench.scenarios / "cm-dare.json", "--set", "/training/steps=700", "--seeds", str(cells),
                              "-o", f"speed-{name}", *where], cwd=bench.folder, env=bench.cluster.environment,
                             capture_output=True, text=True, timeout=1800)
        expect(run.returncode == 0, run.stderr)
        seconds[name] = time.time() - start
    expect(bench.table("speed-slurm") == bench.table("speed-processes"), "other bytes")
    print(f"{cells} cells: {seconds['processes']:.1f} s by -j 2, {seconds['slurm']:.1f} s by Slurm, "
          f"{seconds['slurm'] / seconds['processes']:.2f} times as long", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--program", required=True)
    options.add_argument("--cells", type=int, default=400)
    options.add_argument("--faults", type=int, default=7)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--speed", type=int, metavar="CELLS", help="no test: print how long a sweep takes")
    options = options.parse_args()
    missing = missing_programs()
    if missing or os.geteuid() != 0:
        print("skipped: " + ("not installed: " + ", ".join(missing) if missing else "only root starts its daemons"))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as daemons:
        cluster = Cluster(pathlib.Path(folder) / "slurm")
        try:
            daemons.callback(cluster.stop)
            cluster.begin()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"skipped: Slurm does not start here: {error}")
            sys.exit(77)
        bench = Bench(options.program, cluster, folder)
        if options.speed:
            return print_speed(bench, options.speed)
        local = bench.run("local", options.cells)
        expect(local.returncode == 0, local.stderr)
        for what, run in (("same bytes", lambda: test_same_bytes(bench, options.cells)),
                          ("interrupt", lambda: test_interrupt(bench, options.cells)),
                          ("other verbs", lambda: test_other_verbs(bench)),
                          ("faults", lambda: test_faults(bench, options.cells, options.faults, options.seed))):
            start = time.time()
            run()
            print(f"passed: {what}, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
