"""The Containerfile: each instruction is one, what it copies is there, its shell lines parse, and its packages, which are those of cmake/setup.sh, exist."""
import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
INSTRUCTIONS = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENTRYPOINT", "CMD", "ENV", "LABEL"}


def bash(script, **options):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, capture_output=True, text=True, **options)


class Containerfile(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "Containerfile")) as file:
            text = re.sub(r"(?m)^#.*\n", "", file.read())
        self.instructions = [line.split(" ", 1) for line in text.replace("\\\n", " ").splitlines() if line]

    def arguments(self, name):
        return [argument for instruction, argument in self.instructions if instruction == name]

    def test_instructions_are_known_and_stages_begin_with_debian(self):
        self.assertLessEqual({name for name, _ in self.instructions}, INSTRUCTIONS)
        self.assertEqual(self.instructions[0][0], "FROM")
        for image in self.arguments("FROM"):
            self.assertRegex(image, r"^debian:12( AS \w+)?$")

    def test_what_is_copied_is_there(self):
        stages = re.findall(r"AS (\w+)", " ".join(self.arguments("FROM")))
        for argument in self.arguments("COPY"):
            *sources, _ = argument.split()
            if sources[0].startswith("--from="):
                self.assertIn(sources[0][len("--from="):], stages)
                continue
            for source in sources:
                self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)

    def test_shell_lines_parse(self):
        for line in self.arguments("RUN"):
            inner = re.fullmatch(r"bash -c '([^']*)'", line)
            outcome = bash("bash -n", input=inner[1] if inner else line)
            self.assertEqual((outcome.returncode, outcome.stderr), (0, ""), line)

    def test_packages_to_build_with_are_those_of_setup_and_no_others(self):
        parts = bash('source cmake/setup.sh; echo "${!packages[@]}"').stdout.split()
        asked = re.findall(r"\bneed \$PARTS (\w+)", " ".join(self.arguments("RUN")))
        self.assertEqual(asked, ["distribution"] * 2)
        self.assertLessEqual({"predictor", *asked}, set(parts))
        installed = re.findall(r"apt-get install ((?:-\S+ )*)([^&]*)", " ".join(self.arguments("RUN")))
        self.assertEqual([names.strip() for _, names in installed], ["/tmp/*.deb"])

    @unittest.skipUnless(shutil.which("apt-cache"), "needs apt")
    def test_every_package_of_setup_exists(self):
        names = bash('source cmake/setup.sh; echo ${packages[@]}').stdout.split()
        self.assertIn("libsimgrid-dev", names)
        self.assertIn("help2man", names)
        listed = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True).stdout.split()
        if len(listed) < 10000:
            self.skipTest("the lists of packages are not here: apt-get update")
        self.assertEqual(sorted(set(names) - set(listed)), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
