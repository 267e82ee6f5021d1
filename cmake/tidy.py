#!/usr/bin/env python3
"""Checks C++ by .clang-tidy: cmake/tidy.py [--build FOLDER] [--jobs N] [--most N] [--but PATH]... [PATH...]

PATHs are files, or folders with all sources below; without, all sources but tests. Those that --but names are left out,
such as sources with headers of a library that clang refuses. A source that was found clean is known by a hash of it and
of all that it includes, in FOLDER/tidy/clean, and is not checked again. --most: no more than so many of the others,
those that were committed last. Sources that are built alike are checked together, as the headers that they share are
then read once; where that does not compile, since two of them mean different things by a name, in halves.

Exit code 1 after findings; 77 if clang-tidy is not installed or FOLDER is not configured.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = os.path.join(ROOT, ".clang-tidy")
MOST_TOGETHER = 16  # sources
SKIPPED = 77


def read(path):
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read()


class Sources:
    """What the build compiles, by paths from the root, and which files of ours each file includes."""

    def __init__(self, build):
        self.options = {}
        with open(os.path.join(build, "compile_commands.json")) as file:
            commands = json.load(file)
        for command in commands:
            words = shlex.split(command["command"])
            first = next(i for i, word in enumerate(words) if word.startswith("-"))  # after compiler and launcher
            options = tuple(word for word in words[first:words.index("-o")] if not word.startswith("-O"))
            for file in self.compiled_by(command):
                path = os.path.relpath(file, ROOT)
                if not file.startswith(build + os.sep) and os.path.exists(file):  # not generated, nor gone since
                    self.options[path] = options
        self.included = {}

    @staticmethod
    def compiled_by(command):
        """The sources: those that a file of CMake's includes, where they are compiled together."""
        file = os.path.join(command["directory"], command["file"])
        if os.sep + "Unity" + os.sep not in file:
            return [file]
        with open(file) as sources:
            return re.findall(r'^#include "([^"]+)"', sources.read(), re.MULTILINE)

    def includes(self, path):
        if path not in self.included:
            names = re.findall(rb'^\s*#\s*include\s+"([^"]+)"', read(path), re.MULTILINE)
            ours = [name for name in map(bytes.decode, names) if os.path.isfile(os.path.join(ROOT, name))]
            self.included[path] = ours
        return self.included[path]

    def reach(self, path):
        """The file and all that it includes, sorted."""
        seen, pending = {path}, [path]
        while pending:
            for name in self.includes(pending.pop()):
                if name not in seen:
                    seen.add(name)
                    pending.append(name)
        return sorted(seen)

    def that_show(self, path):
        """The source itself; of a header that of the same name, or else one that includes it; all below a folder."""
        if os.path.isdir(os.path.join(ROOT, path)):
            return [source for source in self.options if source.startswith(path + os.sep)]
        candidates = [path, os.path.splitext(path)[0] + ".cpp"]
        named = [source for source in candidates if source in self.options]
        return (named or sorted(source for source in self.options if path in self.reach(source)))[:1]

    def last_committed_first(self):
        command = ["git", "log", "-n", "100", "--format=", "--name-only", "--relative", "--", "*.cpp", "*.hpp"]
        try:
            committed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
        except FileNotFoundError:  # no git: in any order
            committed = []
        shown = [source for path in dict.fromkeys(committed) for source in self.that_show(path)]
        return list(dict.fromkeys(shown + sorted(self.options)))

    def together(self, paths):
        """Lists of sources that are checked together: with the same options, by folder as far as possible."""
        groups = {}
        for path in sorted(paths):
            groups.setdefault(self.options[path], []).append(path)
        for group in groups.values():
            size = -(-len(group) // -(-len(group) // MOST_TOGETHER))
            yield from (group[i:i + size] for i in range(0, len(group), size))


class Checker:
    def __init__(self, program, build, sources):
        self.program = program
        self.folder = os.path.join(build, "tidy")
        self.clean_file = os.path.join(self.folder, "clean")  # a hash a line
        self.sources = sources
        self.lock = threading.Lock()
        self.common = subprocess.run([program, "--version"], capture_output=True, check=True).stdout + read(CONFIG)
        os.makedirs(self.folder, exist_ok=True)
        with open(self.clean_file, "a+") as file:
            file.seek(0)
            self.clean = set(file.read().split())

    def key(self, path):
        content = hashlib.sha256(self.common + repr(self.sources.options[path]).encode())
        for name in self.sources.reach(path):
            content.update(name.encode() + hashlib.sha256(read(name)).digest())
        return content.hexdigest()

    def is_known(self, path):
        return self.key(path) in self.clean

    def is_clean(self, paths):
        """Checks the sources together, and prints what is found."""
        keys = [self.key(path) for path in paths]  # of what is checked, whatever is written meanwhile
        output, are_clean = self.run(paths)
        if len(paths) > 1 and "[clang-diagnostic-error" in output:
            middle = len(paths) // 2
            return all([self.is_clean(paths[:middle]), self.is_clean(paths[middle:])])
        with self.lock:
            if are_clean:
                with open(self.clean_file, "a") as file:
                    file.writelines(key + "\n" for key in keys)
            else:
                print(output.replace(ROOT + "/", ""), end="", flush=True)
        return are_clean

    def run(self, paths):
        checks = "-bugprone-suspicious-include"  # of what includes the sources
        if paths[0].startswith("tests/"):
            checks += ",-readability-function-size"  # a list of assertions may be as long as it is
        with tempfile.NamedTemporaryFile("w", suffix=".cpp", dir=self.folder) as file:
            file.writelines(f'#include "{os.path.join(ROOT, path)}"\n' for path in paths)
            file.flush()
            command = [self.program, "--quiet", "--config-file=" + CONFIG, "--checks=" + checks, file.name, "--"]
            command += self.sources.options[paths[0]]
            result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        return result.stdout or result.stderr * (result.returncode != 0), result.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--most", type=int)
    parser.add_argument("--but", action="append", default=[])
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()

    program = shutil.which("clang-tidy")
    build = os.path.abspath(arguments.build)
    if not program or not os.path.exists(os.path.join(build, "compile_commands.json")):
        print("skipped: " + (build + " is not configured" if program else "clang-tidy is not installed"))
        return SKIPPED
    sources = Sources(build)
    chosen = [source for source in sources.last_committed_first() if not source.startswith("tests/")]
    if arguments.paths:
        named = set()
        for path in arguments.paths:
            shown = sources.that_show(os.path.relpath(path, ROOT))
            if not shown:
                parser.error(f"{path}: no source that is built shows it")
            named.update(shown)
        chosen = [source for source in sources.last_committed_first() if source in named]
    for path in arguments.but:  # of which nothing may be built
        if not os.path.exists(path):
            parser.error(f"--but {path}: no such file")
        left_out = sources.that_show(os.path.relpath(path, ROOT))
        chosen = [source for source in chosen if source not in left_out]

    checker = Checker(program, build, sources)
    unknown = [source for source in chosen if not checker.is_known(source)]
    checked = unknown[:arguments.most]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as jobs:
        are_clean = all(list(jobs.map(checker.is_clean, sources.together(checked))))
    print(f"{len(chosen) - len(unknown)} sources were known to be clean, {len(checked)} are checked, "
          f"{len(unknown) - len(checked)} are left")
    return 0 if are_clean else 1


if __name__ == "__main__":
    sys.exit(main())
