"""The version of CMakeLists.txt is the one of CITATION.cff, of CHANGELOG.md, which have its date too, and of the program.

version_test.py BUILD [argument of unittest ...]
"""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = sys.argv.pop(1)


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


class Version(unittest.TestCase):
    version = re.search(r"(?m)^project\(rehearse VERSION ([0-9]+\.[0-9]+\.[0-9]+) ", read("CMakeLists.txt"))[1]

    def test_the_program_says_it(self):
        program = os.path.join(BUILD, "rehearse")
        printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.splitlines()[0], "rehearse " + self.version)

    def test_the_changelog_has_versions_with_dates_and_the_citation_the_last_one(self):
        headings = re.findall(r"(?m)^## (.*)$", read("CHANGELOG.md"))
        if headings[0] == "Unreleased":
            headings.pop(0)
        for heading in headings:
            self.assertRegex(heading, r"^[0-9]+\.[0-9]+\.[0-9]+ \(20[0-9]{2}-[01][0-9]-[0-3][0-9]\)$")
        version, date = headings[0].rstrip(")").split(" (")
        self.assertEqual(version, self.version)
        self.assertEqual(sorted(headings, key=lambda heading: tuple(map(int, heading.split()[0].split("."))), reverse=True), headings)
        self.assertEqual(re.search(r"(?m)^date-released: (.*)$", read("CITATION.cff"))[1], date)

    def test_the_citation_has_what_its_format_asks_for(self):
        keys = dict(re.findall(r"(?m)^([a-z-]+):(?: (.*))?$", read("CITATION.cff")))
        self.assertEqual(keys["cff-version"], "1.2.0")
        self.assertEqual(keys["version"], self.version)
        self.assertLessEqual({"message", "title", "authors"}, set(keys))
        self.assertTrue(keys["license"] == "MIT" and read("LICENSE").startswith("MIT License"))


if __name__ == "__main__":
    sys.exit(unittest.main())
