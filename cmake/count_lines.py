#!/usr/bin/env python3
"""Lines of code of the program: cmake/count_lines.py [FOLDER...]

Of C++ outside tests, without blank lines and comments; by folder, and in all. Default: all that git tracks here.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A string, raw or not, or a character is kept; what is left of a comment is blank.
TOKEN = re.compile(r'R"(?P<mark>[^()\\ ]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def lines_of(path):
    with open(path, encoding="utf-8") as source:
        text = TOKEN.sub(lambda token: re.sub(r"[^\n]", "", token[0]) if token[0].startswith("/") else token[0], source.read())
    return sum(1 for line in text.splitlines() if line.strip())


def main():
    tracked = subprocess.run(["git", "ls-files", "--", *(sys.argv[1:] or ["."])], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    count = {}
    for name in tracked:
        if re.search(r"\.(cpp|hpp|cu)$", name) and not name.startswith("tests/"):
            folder = os.path.dirname(name)
            count[folder] = count.get(folder, 0) + lines_of(os.path.join(ROOT, name))
    for folder, lines in sorted(count.items()):
        print(f"{lines:7} {folder}")
    print(f"{sum(count.values()):7} in all")


if __name__ == "__main__":
    main()
