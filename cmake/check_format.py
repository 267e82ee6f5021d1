#!/usr/bin/env python3
"""Names the C++ files that are not laid out as .clang-format says: cmake/check_format.py [PATH...]     (default: all of git)

Exit code 1 if there are any; 77 if clang-format is not installed, or there is no git to name the files.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77


def main(paths):
    if not shutil.which("clang-format"):
        print("not checked: clang-format is not installed")
        return SKIPPED
    if not paths:
        try:
            listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.cu"], cwd=ROOT, capture_output=True, text=True)
        except FileNotFoundError:
            listed = None
        if listed is None or listed.returncode:
            print("not checked: no git, or no checkout of it")
            return SKIPPED
        paths = [path for path in listed.stdout.split() if os.path.exists(os.path.join(ROOT, path))]
    checked = subprocess.run(["clang-format", "--dry-run", *paths], cwd=ROOT, capture_output=True, text=True)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning:", checked.stderr, re.MULTILINE)))
    if wrong:
        print("not formatted; clang-format -i " + " ".join(wrong))
    elif checked.returncode:
        print(checked.stderr)
    return 1 if wrong or checked.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
