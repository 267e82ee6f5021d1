#!/usr/bin/env python3
"""Many clients of `rehearse view` at once: requests, errors, and how much its resident memory grows.

view_load.py PROGRAM [--clients 50] [--seconds 600] [--runs 100]

Clients ask for the list, the jobs, pages and tables of results, and for what is refused: other hosts, paths outside of the folder, posts from other sites, huge bodies,
requests that never end. An error is another status than the right one, or none. Exit code 1 if there is one.
"""
import argparse
import collections
import http.client
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "view"))
from server import Server  # noqa: E402

REFUSED = {403, 413, None}  # None: it hangs up on what it does not want to hear


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def silent(server, random_of):
    """A request that stops in the middle."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        time.sleep(random_of.random() * 0.2)
    return None


def huge(server, _):
    try:
        return server.post("/api/check", None, raw=b" " * 2_000_000)[0]
    except OSError:
        return None


ASKED = [  # how often, what, which status is right
    (20, lambda s, r: s.get("/api/index/")[0], {200}),
    (20, lambda s, r: s.get("/api/jobs")[0], {200}),
    (10, lambda s, r: s.get("/")[0], {200}),
    (10, lambda s, r: s.get(f"/files/run{r.randrange(s.runs)}/report.html")[0], {200}),
    (10, lambda s, r: s.get(f"/files/run{r.randrange(s.runs)}/resources.csv")[0], {200}),
    (5, lambda s, r: s.get(f"/api/scenario/run{r.randrange(s.runs)}/scenario.json")[0], {200}),
    (3, lambda s, r: s.get("/", host="evil.example")[0], {403}),
    (3, lambda s, r: s.get("/files/%2e%2e/%2e%2e/etc/passwd")[0], {404}),
    (3, lambda s, r: s.post("/api/run", {}, Origin="http://evil.example")[0], {403}),
    (3, lambda s, r: s.post("/api/run", {"path": "", "text": "{", "name": "x"})[0], {400}),
    (2, huge, REFUSED),
    (2, silent, {None}),
]


def ask(server, seed, end, counts, slowest):
    random_of = random.Random(seed)
    actions = [action for action in ASKED for _ in range(action[0])]
    while time.monotonic() < end:
        _, action, right = random_of.choice(actions)
        begin = time.monotonic()
        try:
            status = action(server, random_of)
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
        counts["requests"] += 1
        if status not in right:
            counts[f"error: {status} instead of {' or '.join(map(str, right))}"] += 1
        slowest[0] = max(slowest[0], time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first = os.path.join(folder, "run0")
        subprocess.run([given.program, "simulate", os.path.join(ROOT, "scenarios", "cm-dare.json"), "--quiet", "-o", first], check=True, stdout=subprocess.DEVNULL)
        for i in range(1, given.runs):
            shutil.copytree(first, os.path.join(folder, f"run{i}"))
        with Server(given.program, folder) as server:
            server.runs = given.runs
            counts, slowest = collections.Counter(), [0.0]
            end = time.monotonic() + given.seconds
            threads = [threading.Thread(target=ask, args=(server, seed, end, counts, slowest)) for seed in range(given.clients)]
            for thread in threads:
                thread.start()
            warm = None
            while any(thread.is_alive() for thread in threads):
                time.sleep(given.seconds / 10)
                memory = resident_kib(server.process.pid) / 1024
                warm = warm or memory
                print(f"{given.seconds - max(0, end - time.monotonic()):6.0f} s  {counts['requests']:9d} requests  {memory:6.1f} MiB resident", flush=True)
            last = resident_kib(server.process.pid) / 1024
    errors = {text: count for text, count in counts.items() if text.startswith("error")}
    for text, count in sorted(errors.items()):
        print(f"{count} x {text}")
    print(f"{counts['requests']} requests of {given.clients} clients, {sum(errors.values())} errors, the slowest {slowest[0]:.1f} s; "
          f"resident memory {warm:.1f} MiB after a tenth of the time, {last:.1f} MiB at the end")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
