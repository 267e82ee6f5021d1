"""The scripts of cmake/: what is installed, with what build/ is configured, what progress says, what a commit refuses.

cmake and dpkg-query are stand-ins that write down how they were called; ninja and bash are the real ones.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Configures a project of three files, or fails where the file `broken` stands; keeps the settings as CMake does.
CMAKE = r"""#!/usr/bin/env bash
echo "${@:7}" >> cmake-calls
for setting in "$@"; do
  [[ $setting =~ ^-D([A-Z_]+)=(.*)$ ]] || continue
  touch build/CMakeCache.txt
  sed -i "/^${BASH_REMATCH[1]}:/d" build/CMakeCache.txt
  echo "${BASH_REMATCH[1]}:BOOL=${BASH_REMATCH[2]}" >> build/CMakeCache.txt
done
if [ -f broken ]; then echo "Torch was not found"; exit 1; fi
cp project.ninja build/build.ninja
"""
DPKG_QUERY = r"""#!/usr/bin/env bash
echo "${@:4}" > packages-asked-for
for package in "${@:4}"; do echo "installed $package"; done
"""
PROJECT = """rule touch
  command = touch $out
rule fail
  command = echo "it does not compile"; exit 1
build one: touch
build two: touch | one
build three: touch | two
build wrong: fail
default three
"""


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.path = os.path.join(self.root, "bin") + os.pathsep + os.environ["PATH"]
        for name, text in [("cmake", CMAKE), ("dpkg-query", DPKG_QUERY)]:
            self.write("bin/" + name, text)
            os.chmod(os.path.join(self.root, "bin", name), 0o755)
        self.write("project.ninja", PROJECT)

    def write(self, name, text=""):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def read(self, name):
        path = os.path.join(self.root, name)
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def run_bash(self, commands, text=""):
        return subprocess.run(["bash", "-euo", "pipefail", "-c", f"source {ROOT}/cmake/setup.sh; {commands}"], cwd=self.root,
                              env={**os.environ, "PATH": self.path}, input=text, capture_output=True, text=True)

    def settings(self, commands):
        """How CMake is called by the commands, which succeed in silence; "" where it is not."""
        self.write("cmake-calls")
        outcome = self.run_bash(commands)
        said = [line for line in outcome.stderr.splitlines() if not line.startswith("building")]  # as a busy machine may
        self.assertEqual((outcome.returncode, outcome.stdout, said), (0, "", []))
        return re.sub(r"-DCMAKE_BUILD_TYPE=Release ", "", self.read("cmake-calls")).strip()

    def test_only_what_the_command_needs_is_installed_and_configured_and_nothing_is_taken_back(self):
        without = "-DREHEARSE_PREDICTOR=OFF -DREHEARSE_PYTHON=OFF -DBUILD_TESTING=OFF"
        predictor = "-DREHEARSE_PREDICTOR=ON -DREHEARSE_PYTHON=OFF -DBUILD_TESTING=OFF"
        everything = "-DREHEARSE_PREDICTOR=ON -DREHEARSE_PYTHON=OFF -DBUILD_TESTING=ON"
        self.assertEqual(self.settings("need; build"), without)
        for package in ["libtorch", "openblas", "doctest"]:
            self.assertNotIn(package, self.read("packages-asked-for"))
        self.assertIn("libsimgrid-dev", self.read("packages-asked-for"))

        self.assertEqual(self.settings("need; build"), "")
        self.assertEqual(self.settings("need predictor; build"), predictor)
        self.assertIn("libtorch-dev", self.read("packages-asked-for"))
        self.assertNotIn("doctest", self.read("packages-asked-for"))

        self.assertEqual(self.settings("need; build"), "")
        self.assertIn("libtorch-dev", self.read("packages-asked-for"))  # CMake may run again, and looks for it
        self.assertEqual(self.settings("need tests; build"), everything)
        self.assertEqual(self.settings("need predictor tests; build"), "")
        self.assertEqual(self.settings("need; build"), "")

    def test_a_configuration_that_fails_leaves_the_last_one(self):
        self.settings("need; build")
        before = self.read("build/CMakeCache.txt")
        self.write("broken")
        outcome = self.run_bash("need predictor; build")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("Torch was not found", outcome.stderr)
        self.assertIn("error: the build failed", outcome.stderr)
        self.assertEqual(self.read("build/CMakeCache.txt"), before)
        self.assertEqual(self.settings("need; build"), "")

    def test_a_build_that_fails_shows_its_output_on_stderr(self):
        outcome = self.run_bash("need; build wrong")
        self.assertEqual((outcome.returncode, outcome.stdout), (1, ""))
        self.assertIn("it does not compile", outcome.stderr)

    def test_a_system_without_dpkg_is_left_to_cmake(self):
        os.remove(os.path.join(self.root, "bin", "dpkg-query"))
        self.assertEqual(self.settings("command() { [ \"$2\" != dpkg-query ]; }; need; build"),
                         "-DREHEARSE_PREDICTOR=OFF -DREHEARSE_PYTHON=OFF -DBUILD_TESTING=OFF")

    def progress(self, log):
        outcome = self.run_bash("progress_text", log)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        return outcome.stdout

    def test_progress_counts_files_and_says_the_time_left(self):
        self.assertEqual(self.progress(""), "building ...\n")
        self.assertEqual(self.progress("-- Configuring done\nninja: Entering directory `build'\n"), "building ...\n")
        log = ("ninja: Entering directory `build'\n"
               "[56/138 90.001] Building CXX object sim/base/json.cpp.o\n"
               "[57/138 91.500] Building CXX object sim/base/csv.cpp.o\n"
               "csv.cpp:3:5: warning: array [1/1 2.5] is unused\n")
        self.assertEqual(self.progress(log), "building: 57 of 138 files, about 2 min 15 s left\n")  # 91.5 / 57 * 81 = 130.03
        self.assertEqual(self.progress("[1/11 6.000] a\n"), "building: 1 of 11 files, about 1 min left\n")
        self.assertEqual(self.progress("[9/10 9.000] a\n"), "building: 9 of 10 files, about 5 s left\n")
        self.assertEqual(self.progress("[10/10 11.000] a\n"), "building: 10 of 10 files\n")
        # CMake runs again first: what ninja then counts is new
        self.assertEqual(self.progress("[0/1 0.100] Re-running CMake...\n[1/4 2.000] a\n"),
                         "building: 1 of 4 files, about 10 s left\n")

    def test_progress_reads_what_ninja_prints(self):
        self.settings("need; build")
        self.assertEqual(self.progress(self.read("build/build.log")), "building: 3 of 3 files\n")

    def test_progress_is_reported_while_the_build_lasts_and_ends_with_it(self):
        self.write("log", "[3/4 30.000] a\n")
        outcome = self.run_bash("{ until [ -s said ]; do sleep 0.1; done; } | report_progress log 2> said")
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (0, "", ""))
        self.assertEqual(set(self.read("said").splitlines()), {"building: 3 of 4 files, about 10 s left"})
        outcome = self.run_bash(": | report_progress log")
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (0, "", ""))


class Scripts(unittest.TestCase):
    def read(self, name):
        with open(os.path.join(ROOT, name)) as file:
            return file.read()

    def test_run_builds_the_predictor_for_its_verbs(self):
        verbs = re.search(r"#define REHEARSE_VERBS\(verb\) (.*)", self.read("sim/app/predictor_main.cpp"))[1]
        needed = re.search(r"\n  (.*)\)\n    need predictor\n    build rehearse rehearse-predictor", self.read("run.sh"))[1]
        self.assertEqual(sorted(re.findall(r"verb\((\w+)\)", verbs)), sorted(needed.split(" | ") + ["import", "predict"]))
        told = re.search(r'grep -q "(.*)\$"', self.read("run.sh"))[1]  # of an import that is the predictor's
        before, after = told.split("rehearse-predictor")
        self.assertRegex(self.read("workloads/importers/importer.cpp"), f'"{before}" .* "{after}"')
        self.assertIn(told, self.read("sim/app/import_command.cpp"))

    def test_help_says_what_fast_leaves_out(self):
        outcome = subprocess.run([os.path.join(ROOT, "test.sh"), "--help"], capture_output=True, text=True)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        self.assertIn("--fast leaves out", outcome.stdout)


@unittest.skipUnless(shutil.which("clang-format") and shutil.which("git"), "needs clang-format and git")
class PreCommit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.git("init", "--quiet")
        os.makedirs(os.path.join(self.root, "cmake"))
        for name in ["cmake/pre-commit", ".clang-format"]:
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.root, name))
        os.symlink("../../cmake/pre-commit", os.path.join(self.root, ".git/hooks/pre-commit"))
        self.tidy('test "$*" = a.cpp')

    def tidy(self, command):
        path = os.path.join(self.root, "cmake/tidy.py")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + command)
        os.chmod(path, 0o755)

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test", *arguments], cwd=self.root,
                              capture_output=True, text=True)

    def test_what_is_not_formatted_is_formatted_and_committed_only_when_added_again(self):
        path = os.path.join(self.root, "a.cpp")
        with open(path, "w") as file:
            file.write("int   main( ){return 0 ;}\n")
        self.git("add", "a.cpp")
        refused = self.git("commit", "-m", "one")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("a.cpp", refused.stderr)
        with open(path) as file:
            self.assertEqual(file.read(), "int main() { return 0; }\n")
        self.git("add", "a.cpp")
        accepted = self.git("commit", "-m", "one")
        self.assertEqual((accepted.returncode, accepted.stderr), (0, ""))

    def test_what_clang_tidy_finds_is_not_committed_unless_it_cannot_be_looked_for(self):
        with open(os.path.join(self.root, "a.cpp"), "w") as file:
            file.write("int main() { return 0; }\n")
        self.git("add", "a.cpp")
        self.tidy("echo a finding; exit 1")
        refused = self.git("commit", "-m", "one")
        self.assertEqual((refused.returncode, refused.stderr), (1, "a finding\n"))
        self.tidy("echo skipped; exit 77")
        accepted = self.git("commit", "-m", "one")
        self.assertEqual((accepted.returncode, accepted.stderr), (0, "skipped\n"))


if __name__ == "__main__":
    sys.exit(unittest.main())
