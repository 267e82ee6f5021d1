#!/usr/bin/env python3
"""shell_files_test.py PROGRAM: completions complete every verb and option, shells take them, man pages name every option."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.abspath(sys.argv.pop(1))


def options_of(verb):
    printed = subprocess.run([PROGRAM, verb, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"--[a-z][a-z-]*", "\n".join(re.findall(r"(?m)^  (-\S+)", printed)))


class ShellFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([sys.executable, "-B", f"{ROOT}/cmake/shell_files.py", PROGRAM, cls.folder.name], check=True, capture_output=True)

    def read(self, *names):
        with open(os.path.join(self.folder.name, *names), encoding="utf-8") as file:
            return file.read()

    def completed(self, *words):
        """What bash offers for the last word."""
        line = " ".join(f"'{word}'" for word in words)
        script = (f"source {self.folder.name}/bash-completion/completions/rehearse; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
                  "_rehearse; printf '%s\\n' \"${COMPREPLY[@]}\"")
        return subprocess.run(["bash", "-uc", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    def test_bash_completes_verbs_options_names_and_paths(self):
        self.assertEqual(self.completed("rehearse", "simu"), ["simulate"])
        self.assertIn("merge", self.completed("rehearse", ""))
        for verb in ("simulate", "sweep", "provision", "calibrate", "replay"):
            self.assertEqual(set(self.completed("rehearse", verb, "--")), set(options_of(verb)), verb)
        self.assertEqual(self.completed("rehearse", "simulate", "--dry"), ["--dry-run"])
        self.assertEqual(self.completed("rehearse", "schema", "scen"), ["scenario"])
        self.assertEqual(self.completed("rehearse", "simulate", "READ"), ["README.md"])
        self.assertEqual(self.completed("rehearse", "simulate", "-o", "scen"), ["scenarios"])
        self.assertEqual(self.completed("rehearse", "simulate", "--seed", "READ"), [])

    def test_shells_take_their_file(self):
        for shell, name in (("bash", "bash-completion/completions/rehearse"), ("zsh", "zsh/vendor-completions/_rehearse"),
                            ("fish", "fish/vendor_completions.d/rehearse.fish")):
            with self.subTest(shell):
                if not shutil.which(shell):
                    self.skipTest("it is not installed")
                checked = subprocess.run([shell, "-n", os.path.join(self.folder.name, name)], capture_output=True, text=True, check=False)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_zsh_and_fish_know_every_option(self):
        zsh, fish = self.read("zsh", "vendor-completions", "_rehearse"), self.read("fish", "vendor_completions.d", "rehearse.fish")
        for verb in ("simulate", "sweep", "traffic"):
            for option in options_of(verb):
                self.assertIn(f"*{option}[", zsh)
                self.assertRegex(fish, f"from {verb}' [^\n]*-l {option[2:]}[ \n]")

    def test_a_man_page_of_each_verb_names_its_options(self):
        if not shutil.which("help2man"):
            self.skipTest("help2man is not installed")
        for verb in ("simulate", "sweep", "export", "jobs"):
            page = self.read("man", "man1", f"rehearse-{verb}.1").replace("\\-", "-")
            for option in options_of(verb):
                self.assertIn(option, page)
        self.assertIn("try a distributed training run before paying for it", self.read("man", "man1", "rehearse.1"))


if __name__ == "__main__":
    unittest.main()
