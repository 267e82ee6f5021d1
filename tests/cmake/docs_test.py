#!/usr/bin/env python3
"""What cmake/docs.py does with a page, by a program that stands in for rehearse; which folder cmake/house.py says uses which."""

import os
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "cmake"))
import docs  # noqa: E402
import house  # noqa: E402

BEGIN = "<!-- output, written by cmake/refresh_readmes.sh docs: begin -->"
PROGRAM = """#!/usr/bin/env bash
echo "3 of 9 steps, 1/s, 4 s left" >&2
echo "a warning" >&2
echo "said $* of $(cat given.txt); the simulation takes about $RANDOM s"
exit "${3:-0}"
"""


def page(command, code="", between=""):
    begin = BEGIN.replace("output,", f"output with exit code {code}, ".rstrip(" ").rstrip(",") + ",") if code else BEGIN
    return f'```text title="given.txt"\n7\n```\n\n```sh\n{command}\n```\n\n{begin}\n{between}{docs.END}\n\nText.\n'


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "program")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.chmod(self.program, 0o755)

    def refreshed(self, text):
        return docs.refreshed(self.program, "page.md", text)

    def test_output_stands_between_its_comments_without_what_depends_on_the_machine(self):
        text = self.refreshed(page("rehearse x"))
        self.assertIn(f"{BEGIN}\n\n```text\na warning\nsaid x of 7; the simulation takes about ... s\n```\n\n{docs.END}\n\nText.", text)
        self.assertNotIn("left", text)
        self.assertEqual(self.refreshed(text), text)

    def test_another_output_is_a_difference(self):
        text = self.refreshed(page("rehearse x"))
        self.assertNotEqual(self.refreshed(text.replace("said x", "said y")), text.replace("said x", "said y"))

    def test_an_exit_code_that_the_page_does_not_state_is_refused(self):
        with self.assertRaisesRegex(ValueError, "exit code 3"):
            self.refreshed(page("rehearse x y 3"))
        self.assertIn("said x y 3", self.refreshed(page("rehearse x y 3", code=3)))
        with self.assertRaisesRegex(ValueError, "exit code 0"):
            self.refreshed(page("rehearse x y 0", code=3))

    def test_commands_within_sentences_are_tried(self):
        self.assertEqual(docs.spoken("As `rehearse list KIND` and `rehearse diff` say, not `rehearse view results`.\n```sh\nrehearse x `rehearse y`\n```\n"),
                         ["rehearse list gpus", "rehearse diff --help"])
        text = page("rehearse x") + "\nOr `rehearse x y 0`."
        self.assertIn("Or `rehearse x y 0`.", self.refreshed(text))
        with self.assertRaisesRegex(ValueError, "exit code 4 of rehearse x y 4, within a sentence"):
            self.refreshed(text + " Or `rehearse x y 4`.")

    def test_long_lines_are_folded_rows_of_tables_are_not(self):
        self.assertEqual(len(docs.shown("word " * 50)), 3)
        self.assertEqual(len(docs.shown("cell      " * 15)), 1)

    def test_links_of_a_site_lead_somewhere_and_nothing_is_loaded_from_elsewhere(self):
        with tempfile.TemporaryDirectory() as site:
            docs.write(f"{site}/a.html", '<h1 id="here">A</h1><a href="b.html#there">b</a><a href="#here">a</a>')
            docs.write(f"{site}/b.html", '<p id="there"></p>')
            self.assertEqual(docs.broken_links(site), [])
            docs.write(f"{site}/b.html", '<a href="c.html">c</a><script src="https://example.org/x.js"></script>')
            self.assertEqual(docs.broken_links(site), ["a.html: nothing at b.html#there", "b.html loads https://example.org/x.js", "b.html: nothing at c.html"])


class House(unittest.TestCase):
    def test_arrows_are_links_of_cmake_without_those_of_tests(self):
        graph = house.uses(ROOT)
        self.assertEqual(graph["platforms"], {"sim/base"})
        self.assertNotIn("sim/pool", graph["sim/program"])  # its tests alone use it
        self.assertIn("sim/scenario", graph["sim/training"])
        self.assertEqual(house.linked_alone(ROOT, graph), {("sim/scenario", "sim/training")})
        self.assertEqual(house.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()})["a"], {"b"})


if __name__ == "__main__":
    unittest.main()
