"""What cmake/tidy.py checks, and when it does not: clang-tidy is a stand-in that writes down what it was given."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cmake", "tidy.py")

# Finds every FAULT, and no meaning in two sources that have a CLASH.
CLANG_TIDY = r"""#!/usr/bin/env bash
[ "$1" = --version ] && exit
for argument in "$@"; do [[ $argument = *.cpp ]] && together=$argument; done
sources=$(sed 's/#include "\(.*\)"/\1/' "$together")
basename -a $sources | paste -sd' ' >> "$CHECKED"
if [ "$(cat $sources | grep -c CLASH)" -gt 1 ]; then
  echo "a.cpp:1:1: error: redefinition [clang-diagnostic-error]"
  exit 1
fi
if grep -H FAULT $sources; then exit 1; fi
"""


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)
        self.write("bin/clang-tidy", CLANG_TIDY)
        os.chmod(os.path.join(self.root, "bin/clang-tidy"), 0o755)
        self.write(".clang-tidy", "Checks: all\n")
        self.write("cmake/tidy.py", "")
        shutil.copy(SCRIPT, os.path.join(self.root, "cmake/tidy.py"))
        self.write("sim/shared.hpp", "\n")
        for name in ["a", "b", "c"]:
            self.write(f"sim/{name}.cpp", '#include "sim/shared.hpp"\n')
        self.configure("sim/a.cpp", "sim/b.cpp", "sim/c.cpp")

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def configure(self, *sources, options="-O2"):
        commands = [{"directory": self.root, "file": os.path.join(self.root, source),
                     "command": f"ccache c++ -I{self.root} {options} -o {source}.o -c {source}"} for source in sources]
        self.write("build/compile_commands.json", json.dumps(commands))

    def git(self, *words):
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True)

    def tidy(self, *words, path=None):
        """Exit code and output; self.checked: the sources of each call of clang-tidy."""
        log = os.path.join(self.root, "checked")
        path = path or os.path.join(self.root, "bin") + os.pathsep + os.environ["PATH"]
        command = [sys.executable, "cmake/tidy.py", "--jobs", "1", *words]
        result = subprocess.run(command, cwd=self.root, env=dict(os.environ, CHECKED=log, PATH=path), capture_output=True,
                                text=True)
        self.checked = []
        if os.path.exists(log):
            with open(log) as file:
                self.checked = file.read().splitlines()
            os.remove(log)
        return result.returncode, result.stdout + result.stderr

    def test_what_is_clean_is_not_checked_again_until_what_it_includes_changes(self):
        self.assertEqual(self.tidy()[0], 0)
        self.assertEqual(self.checked, ["a.cpp b.cpp c.cpp"])
        self.assertEqual(self.tidy()[0], 0)
        self.assertEqual(self.checked, [])
        self.write("sim/b.cpp", '#include "sim/shared.hpp"\nint b;\n')
        self.tidy()
        self.assertEqual(self.checked, ["b.cpp"])
        self.write("sim/shared.hpp", "int shared;\n")
        self.tidy()
        self.assertEqual(self.checked, ["a.cpp b.cpp c.cpp"])
        self.write(".clang-tidy", "Checks: others\n")
        self.tidy()
        self.assertEqual(self.checked, ["a.cpp b.cpp c.cpp"])

    def test_a_finding_fails_until_it_is_gone(self):
        self.write("sim/b.cpp", "FAULT\n")
        for _ in range(2):
            code, output = self.tidy()
            self.assertEqual(code, 1)
            self.assertIn("sim/b.cpp:FAULT", output)
        self.write("sim/b.cpp", "\n")
        self.assertEqual(self.tidy()[0], 0)

    def test_sources_that_do_not_compile_together_are_checked_apart(self):
        self.write("sim/a.cpp", "CLASH\n")
        self.write("sim/c.cpp", "CLASH\nFAULT\n")
        code, output = self.tidy()
        self.assertEqual(code, 1)
        self.assertEqual(self.checked, ["a.cpp b.cpp c.cpp", "a.cpp", "b.cpp c.cpp"])
        self.assertNotIn("redefinition", output)
        self.assertIn("sim/c.cpp:FAULT", output)

    def test_sources_that_are_built_in_another_way_are_not_checked_together(self):
        self.configure("sim/a.cpp", "sim/b.cpp")
        with open(os.path.join(self.root, "build/compile_commands.json")) as file:
            commands = json.load(file)
        commands[1]["command"] = commands[1]["command"].replace("-O2", "-DOTHER")
        self.write("build/compile_commands.json", json.dumps(commands))
        self.tidy()
        self.assertEqual(self.checked, ["a.cpp", "b.cpp"])

    def test_the_last_committed_come_first(self):
        self.git("init", "-q")
        self.git("add", "sim")
        self.git("commit", "-qm", "all")
        self.write("sim/c.hpp", "\n")
        self.git("add", "sim/c.hpp")
        self.git("commit", "-qm", "a header, which the source of its name shows")
        self.assertIn("1 are checked, 2 are left", self.tidy("--most", "1")[1])
        self.assertEqual(self.checked, ["c.cpp"])

    def test_what_is_named_is_checked_and_headers_with_a_source_that_includes_them(self):
        self.tidy("sim/b.cpp")
        self.assertEqual(self.checked, ["b.cpp"])
        self.tidy("sim")
        self.assertEqual(self.checked, ["a.cpp c.cpp"])
        os.remove(os.path.join(self.root, "build/tidy/clean"))
        self.tidy("sim/shared.hpp")
        self.assertEqual(self.checked, ["a.cpp"])

    def test_what_but_names_is_left_out(self):
        self.write("other/d.cpp", "")  # which is not built
        self.assertEqual(self.tidy("--but", "sim/b.cpp", "--but", "other", "sim")[0], 0)
        self.assertEqual(self.checked, ["a.cpp c.cpp"])
        code, output = self.tidy("--but", "sim/gone", "sim")
        self.assertEqual(code, 2)
        self.assertIn("--but sim/gone: no such file", output)

    def test_without_clang_tidy_or_a_build_it_says_so_and_is_skipped(self):
        self.assertEqual(self.tidy(path="/nowhere"), (77, "skipped: clang-tidy is not installed\n"))
        os.remove(os.path.join(self.root, "build/compile_commands.json"))
        self.assertEqual(self.tidy(), (77, f"skipped: {self.root}/build is not configured\n"))


if __name__ == "__main__":
    unittest.main()
