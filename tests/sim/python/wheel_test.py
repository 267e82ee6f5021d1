#!/usr/bin/env python3
"""wheel_test.py --build FOLDER: the wheel, installed in an environment of its own, gives a result, and goes without a trace."""

import argparse
import glob
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SKIPPED = 77
PYTHON = "/usr/bin/python3"  # which has the headers that the extension was compiled with

CODE = """
import rehearse, os
run = rehearse.simulate(os.path.join(os.path.dirname(rehearse.__file__), "share/rehearse/scenarios/dgx.json"))
assert run.text == open("expected.json").read(), "other bytes than the program's"
assert "<html" in run.report()
print("steps_per_s", run.steps_per_s)
"""


def call(*line, **options):
    return subprocess.run(line, check=True, capture_output=True, encoding="utf-8", **options).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    for module in ("pip", "setuptools", "wheel", "venv"):
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
            print(f"skipped: {PYTHON} has no module {module}")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "REHEARSE_BUILD": build}
        call(PYTHON, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "--wheel-dir", folder, ROOT, env=environment)
        wheel, = glob.glob(f"{folder}/rehearse-*.whl")
        start = time.monotonic()
        call(PYTHON, "-m", "venv", "--system-site-packages", f"{folder}/venv")
        python = f"{folder}/venv/bin/python"
        call(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
        with open(f"{folder}/expected.json", "w", encoding="utf-8") as expected:
            expected.write(call(f"{build}/rehearse", "simulate", f"{ROOT}/scenarios/dgx.json", "--json", "--quiet"))
        print(call(python, "-W", "ignore", "-c", CODE, cwd=folder).strip())
        assert "0." in call(f"{folder}/venv/bin/rehearse", "--version")
        print(f"installed, with a result after {time.monotonic() - start:.1f} s; the wheel has {os.path.getsize(wheel) / 1e6:.1f} MB")
        call(python, "-m", "pip", "uninstall", "--yes", "rehearse")
        left = glob.glob(f"{folder}/venv/lib/python3*/site-packages/rehearse*")
        assert not left, left
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd}\n{error.stdout}\n{error.stderr}")
