"""The Debian packages: made, installed, used and removed again, in a root of their own.

That root knows the packages of this system that ours depend on, and no others: dpkg checks the dependencies.
package_test.py BUILD [argument of unittest ...]
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(sys.argv.pop(1))
AS_ROOT = [] if os.geteuid() == 0 else ["fakeroot"]


def output_of(*command, **options):
    outcome = subprocess.run(command, capture_output=True, text=True, **options)
    if outcome.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {outcome.returncode}\n{outcome.stdout}{outcome.stderr}")
    return outcome.stdout


def field_of(package, field):
    return output_of("dpkg-deb", "--field", package, field).strip()


def dependencies(package):
    return [re.match(r"[a-z0-9.+-]+", one)[0] for one in field_of(package, "Depends").split(", ")]


class Root:
    """A folder into which packages are installed as into a system."""

    def __init__(self, path, known_packages):
        self.path = path
        self.database = os.path.join(path, "var/lib/dpkg")
        for folder in ["info", "updates"]:
            os.makedirs(os.path.join(self.database, folder))
        with open(os.path.join(self.database, "status"), "w") as status:
            for name in known_packages:
                stanza = output_of("dpkg-query", "--status", name)
                stanza = re.sub(r"(?m)^(Depends|Pre-Depends|Breaks|Conflicts|Conffiles|Triggers-\w+):.*\n(?: .*\n)*", "", stanza)
                status.write(stanza + "\n")
                architecture = re.search(r"(?m)^Multi-Arch: same$", stanza) and ":" + re.search(r"(?m)^Architecture: (.*)$", stanza)[1]
                open(os.path.join(self.database, "info", name + (architecture or "") + ".list"), "w").close()

    def dpkg(self, *arguments):
        return output_of(*AS_ROOT, "dpkg", "--root=" + self.path, "--force-not-root", *arguments)

    def program(self, *arguments, **options):
        environment = {**os.environ, "PATH": os.path.join(self.path, "usr/bin") + os.pathsep + os.environ["PATH"]}
        return output_of("rehearse", *arguments, cwd=self.path, env=environment, **options)

    def files(self):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names
                      if not folder.startswith(self.database))


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and (AS_ROOT == [] or shutil.which("fakeroot")), "needs dpkg-dev, and root or fakeroot")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        output_of("cpack", "-G", "DEB", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", cls.scratch.name, cwd=BUILD)
        cls.packages = {field_of(file, "Package"): file for file in glob.glob(cls.scratch.name + "/*.deb")}

    def root(self, *packages):
        known = {name for package in packages for name in dependencies(self.packages[package])} - set(self.packages)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Root(folder.name, sorted(known))

    def test_there_is_a_package_for_what_was_built(self):
        expected = {"rehearse"} | ({"rehearse-predictor"} if os.path.exists(os.path.join(BUILD, "rehearse-predictor")) else set())
        self.assertEqual(set(self.packages), expected)
        with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
            version = re.search(r"(?m)^project\(rehearse VERSION ([0-9.]+) ", file.read())[1]
        for package in self.packages.values():
            self.assertEqual(field_of(package, "Version"), version)

    def test_the_simulator_needs_neither_libtorch_nor_headers(self):
        needed = dependencies(self.packages["rehearse"])
        self.assertIn("libsimgrid3.32", needed)
        self.assertEqual([name for name in needed if "torch" in name or name.endswith("-dev")], [])

    def test_installed_it_answers_within_a_minute_and_removed_it_leaves_nothing(self):
        root = self.root("rehearse")
        begin = time.monotonic()
        root.dpkg("--install", self.packages["rehearse"])
        shipped = os.path.join(root.path, "usr/share/rehearse")
        printed = root.program("simulate", os.path.join(shipped, "scenarios/cm-dare.json"))
        elapsed = time.monotonic() - begin
        print(f"installed, and the first result printed, after {elapsed:.1f} s", file=sys.stderr)
        self.assertRegex(printed, r"(?m)^speed +[0-9.]+ steps/s")
        self.assertEqual(printed, output_of(os.path.join(BUILD, "rehearse"), "simulate", os.path.join(ROOT, "scenarios/cm-dare.json")))
        for name in ("man/man1/rehearse-simulate.1", "bash-completion/completions/rehearse", "zsh/vendor-completions/_rehearse"):
            self.assertTrue(os.path.exists(os.path.join(root.path, "usr/share", name)), name)
        if os.path.exists(os.path.join(BUILD, "rehearse-view")):
            self.assertIn("--port", root.program("view", "--help"))
        self.assertIn("catalogs: " + os.path.realpath(shipped) + "\n", root.program("--version"))
        root.program("validate", os.path.join(shipped, "scenarios/studies/cm-dare-cluster.json"), "-o", os.path.join(root.path, "home"))
        shutil.rmtree(os.path.join(root.path, "home"))

        root.dpkg("--purge", "rehearse")
        self.assertEqual(root.files(), [])
        self.assertFalse(os.path.exists(os.path.join(root.path, "usr")))

    def test_the_predictor_is_installed_beside_the_simulator_of_its_version(self):
        if "rehearse-predictor" not in self.packages:
            self.skipTest("built without the predictor")
        root = self.root("rehearse", "rehearse-predictor")
        with self.assertRaisesRegex(AssertionError, "depends on rehearse"):
            root.dpkg("--install", self.packages["rehearse-predictor"])
        root.dpkg("--purge", "rehearse-predictor")
        root.dpkg("--install", self.packages["rehearse"], self.packages["rehearse-predictor"])
        self.assertIn("--epochs", root.program("train", "--help"))
        root.dpkg("--purge", "rehearse-predictor", "rehearse")
        self.assertEqual(root.files(), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
