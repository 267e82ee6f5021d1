#!/usr/bin/env python3
"""sbatch, squeue, scancel, scontrol, sinfo and timeout as a faulty Slurm has them, by the name under which this is called.

The folder $FAKE_SLURM has a file COMMAND.plan: what each of the next calls does, a line each; after these all is well.
  sbatch   ok; refuse TEXT; lose: takes a task that never runs; late: says that it failed, but takes the task; hang;
           stuck: the task waits for ever, as after a failed launch; die: the task is killed at once
  squeue   ok; fail TEXT; hang
It writes each call to COMMAND.calls."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

PLACE = pathlib.Path(os.environ["FAKE_SLURM"])
NODE = "a"


def next_of_plan(command, is_taken=True):
    plan = PLACE / f"{command}.plan"
    lines = plan.read_text().splitlines() if plan.exists() else []
    if not lines:
        return "ok", ""
    if is_taken:
        plan.write_text("".join(line + "\n" for line in lines[1:]))
    word, _, text = lines[0].partition(" ")
    return word, text


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def tasks():
    for path in sorted((PLACE / "tasks").glob("*_*")):
        try:
            task = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if task["process"] is None or is_alive(task["process"]):
            yield path, task


def expand(array):
    for part in array.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def sbatch(arguments):
    word, text = next_of_plan("sbatch")
    if word == "refuse":
        fail(f"sbatch: error: {text}")
    if word == "hang":
        time.sleep(600)
    options = dict(re.match("--([a-z-]+)=?(.*)", argument).groups() for argument in arguments[:-1])
    (PLACE / "tasks").mkdir(exist_ok=True)
    job = len((PLACE / "sbatch.calls").read_text().splitlines())
    for index in expand(options["array"]):
        task = {"name": options["job-name"], "process": None, "state": "PENDING", "reason": "launch failed requeued held"}
        if word == "lose":
            continue
        if word != "stuck":
            environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}
            with open(options["output"].replace("%a", str(index)), "ab") as log:
                run = subprocess.Popen(["/bin/sh", arguments[-1]], env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True)
            if word == "die":
                run.send_signal(signal.SIGKILL)
            task.update(process=run.pid, state="RUNNING", reason="None")
        new = PLACE / "tasks" / f"new.{job}"
        new.write_text(json.dumps(task))
        new.rename(PLACE / "tasks" / f"{job}_{index}")
    if word == "late":
        fail("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    print(job)


def squeue(_):
    word, text = next_of_plan("squeue")
    if word == "fail":
        fail(text)
    if word == "hang":
        time.sleep(600)
    for path, task in tasks():
        print(f"{path.name}|{task['name']}|{task['state']}|{task['reason']}")


def scancel(arguments):
    for path, task in tasks():
        if path.name in arguments:
            if task["process"]:
                os.kill(task["process"], signal.SIGKILL)
            path.unlink()


def sinfo(arguments):
    if "--format=%C" in arguments:
        print("0/2/0/2")
    elif any(task["process"] is None for _, task in tasks()):
        print(f"{NODE}|drained|Duplicate jobid")


def scontrol(_):
    print("MaxArraySize            = 1001")


def timeout(arguments):
    """The real one, but a command that hangs is waited for 2 s only."""
    if next_of_plan(arguments[2], is_taken=False)[0] == "hang":
        arguments[:2] = ["--kill-after=1", "2"]
    os.execv("/usr/bin/timeout", ["timeout", *arguments])


def main():
    command = pathlib.Path(sys.argv[0]).name
    if command != "timeout":
        with open(PLACE / f"{command}.calls", "a", encoding="utf-8") as calls:
            calls.write(" ".join(sys.argv[1:]) + "\n")
    globals()[command](sys.argv[1:])


if __name__ == "__main__":
    main()
