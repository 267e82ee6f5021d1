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
import multiprocessing
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from structure.case import Case  # noqa: E402
from structure.checks import check, snapshot  # noqa: E402
from structure.kinds import choose  # noqa: E402
from structure.shipped import ROOT, Shipped, kPredictorVerbs, write_text  # noqa: E402

kOuterLimit = 20  # s of real time on an idle machine; runs that state --max-wall-time end long before
kMemory = 4 * 2**30  # B of addresses; LibTorch alone takes more
kPredictorMemory = 24 * 2**30


def run_case(files, seed, number, only, base):
    """Returns (verb, kind, code, problems, command, err)."""
    rng = random.Random(f"{seed}/{number}")
    folder = os.path.join(base, str(number))
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    os.makedirs(folder)
    case = Case(files, rng, folder)
    choose(case, only)
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
