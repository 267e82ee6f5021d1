"""Sweeps by a Slurm that fails in ways that are hard to bring about with a real one (fake_slurm.py): each ends, with the
bytes of a local run or one line that says what is wrong."""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

CELLS = 80  # more than are measured first, so that a task has some
COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "timeout")
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


class Place:
    """A folder with a Slurm of its own."""

    def __init__(self, program, folder, plan):
        self.program, self.folder = pathlib.Path(program).resolve(), folder
        commands = folder / "bin"
        commands.mkdir(parents=True)
        for name in COMMANDS:
            (commands / name).symlink_to(pathlib.Path(__file__).resolve().parent / "fake_slurm.py")
        self.environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "FAKE_SLURM": str(folder),
                            "PYTHONDONTWRITEBYTECODE": "1"}
        for command, words in plan.items():
            (folder / f"{command}.plan").write_text("".join(word + "\n" for word in words))

    def start(self, *more):
        scenario = self.program.parent.parent / "scenarios" / "data-sheet.json"
        return subprocess.Popen([self.program, "sweep", scenario, "--set", "/training/steps=5", "--seeds", str(CELLS),
                                 "-o", "out", *(more or ("--executor", "slurm"))], cwd=self.folder,
                                env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, run, code=0):
        """What the command said."""
        try:
            _, errors = run.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            run.kill()
            raise AssertionError(f"{self.folder.name}: no end; the folder: "
                                 f"{[str(path) for path in self.folder.glob('out.jobs/*/*')]}") from None
        expect(run.returncode == code, f"{self.folder.name}: exit code {run.returncode}: {errors}")
        return errors

    def table(self):
        return (self.folder / "out" / "sweep.csv").read_bytes()

    def calls(self, command):
        path = self.folder / f"{command}.calls"
        return path.read_text().splitlines() if path.exists() else []


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


# Name: what the commands do, words that the sweep says, how often sbatch is called at most.
SURVIVED = {
    "all is well": ({}, "", 1),
    "tasks vanish after their submission": ({"sbatch": ["lose", "lose", "lose"]}, "", 4),
    "the controller is away at first": ({"squeue": [f"fail {AWAY}"] * 5}, f"waiting for it: {AWAY}", 1),
    "the controller is away when tasks are submitted": (
        {"squeue": ["ok", f"fail {AWAY}", "ok", f"fail {AWAY}"], "sbatch": [f"refuse {AWAY}"] * 4}, AWAY, 5),
    "the controller is away after the task": ({"squeue": ["ok", "ok"] + [f"fail {AWAY}"] * 20}, "", 1),
    "refused after a task was taken": (
        {"sbatch": ["die"] + ["refuse AssocMaxSubmitJobLimit"] * 5}, "Slurm refuses tasks", 7),
    "sbatch says that it failed, but did not": ({"sbatch": ["late"]}, "", 1),
    "sbatch does not end": ({"sbatch": ["hang"]}, "", 2),
    "squeue does not end": ({"squeue": ["ok", "hang", "ok", "hang"]}, "squeue did not end", 1),
    "a task cannot be launched": ({"sbatch": ["stuck", "stuck"]}, "; node a is drained: Duplicate jobid", 3),
    "tasks are killed": ({"sbatch": ["die", "die", "die"]}, "", 4),
}

# Name: what the commands do, the error.
FATAL = {
    "refused": ({"sbatch": ["refuse invalid partition specified: x"] * 9},
                "--executor slurm: sbatch: error: invalid partition specified: x"),
    "silent": ({"squeue": [f"fail {AWAY}"] * 999}, f"squeue does not answer: {AWAY}; is this a machine"),
}


def test_survived(place, said, most_calls, local):
    errors = place.finish(place.start())
    expect(said in errors, f"{place.folder.name}: it said: {errors}")
    expect(place.table() == local, f"{place.folder.name}: other bytes")
    expect(len(place.calls("sbatch")) <= most_calls, f"{place.folder.name}: sbatch: {place.calls('sbatch')}")
    expect(not (place.folder / "out.jobs").exists(), f"{place.folder.name}: the folder of jobs is left over")


def test_fatal(place, error):
    lines = [line for line in place.finish(place.start(), 2).splitlines() if line.startswith("rehearse: ")]
    expect(len(lines) == 1 and error in lines[0], f"{place.folder.name}: {lines}")


def test_given_up(place, local):
    """A task that dies five times is an error of its cells; the same command tries it again."""
    place.finish(place.start())
    expect(b"the Slurm task ended 5 times without its result" in place.table(), "given up: no cell says so")
    place.finish(place.start())
    expect(place.table() == local, "given up: other bytes when the command is repeated")


def test_interrupted(place):
    """An interrupt before Slurm was asked for the queue again: the tasks just submitted are named all the same."""
    run = place.start()
    while len(place.calls("squeue")) < 2:  # the first after the submission, which fails
        time.sleep(0.05)
        expect(run.poll() is None, "interrupted: it ended before")
    run.send_signal(signal.SIGINT)
    errors = place.finish(run, 130)
    expect("the same command with --resume" in errors and "scancel 1" in errors, f"interrupted: it said: {errors}")


def test_no_slurm(place):
    for name in COMMANDS[:-1]:
        (place.folder / "bin" / name).unlink()
    place.environment["PATH"] = str(place.folder / "bin")
    (place.folder / "bin" / "timeout").unlink()
    (place.folder / "bin" / "timeout").symlink_to("/usr/bin/timeout")
    errors = place.finish(place.start(), 2)
    expect("squeue is not there" in errors, errors)


def random_plan(choice):
    words = {"sbatch": ["ok", "lose", "late", "die", "stuck", f"refuse {AWAY}", "hang"], "squeue": ["ok", f"fail {AWAY}"]}
    return {command: ["ok"] * (command == "sbatch") + [choice.choice(kinds) for _ in range(choice.randint(1, 6))]
            for command, kinds in words.items()}


def test_random(place, choice, local):
    """Whatever the commands do, and though the sweep itself is killed now and then."""
    run = place.start()
    for _ in range(choice.randint(0, 3)):
        time.sleep(choice.uniform(0, 3))
        if run.poll() is not None:
            break
        run.kill()
        run.communicate(timeout=60)
        run = place.start()
    errors = place.finish(run)
    expect(place.table() == local, f"{place.folder.name}: other bytes; it said: {errors}")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--program", required=True)
    options.add_argument("--random", type=int, default=6, metavar="SWEEPS", help="with faults at random")
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as threads:
        folder = pathlib.Path(folder)

        def place(name, plan):
            return Place(options.program, folder / re.sub("[^a-z0-9]+", "-", name), plan)

        alone = place("local", {})
        alone.finish(alone.start("-j", "2"))
        local = alone.table()
        tests = {"given up": lambda: test_given_up(place("given up", {"sbatch": ["die"] * 5}), local),
                 "interrupted": lambda: test_interrupted(place("interrupted", {"sbatch": ["stuck"], "squeue": ["ok"] + [f"fail {AWAY}"] * 99})),
                 "no Slurm": lambda: test_no_slurm(place("no slurm", {}))}
        for name, (plan, error) in FATAL.items():
            tests[name] = lambda name=name, plan=plan, error=error: test_fatal(place(name, plan), error)
        for name, (plan, said, most) in SURVIVED.items():
            tests[name] = lambda name=name, plan=plan, said=said, most=most: test_survived(
                place(name, plan), said, most, local)
        for seed in range(options.seed, options.seed + options.random):
            choice = random.Random(seed)
            tests[f"random {seed}"] = lambda seed=seed, choice=choice: test_random(
                place(f"random {seed}", random_plan(choice)), choice, local)
        running = {name: threads.submit(test) for name, test in tests.items()}
        failed = [f"{name}: {test.exception()}" for name, test in running.items() if test.exception()]
        expect(not failed, "\n".join(failed))
        print(f"passed: {len(tests)} faulty Slurms")


if __name__ == "__main__":
    main()
