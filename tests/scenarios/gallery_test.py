#!/usr/bin/env python3
"""gallery_test.py PROGRAM: the gallery's answers are those that its commands print today, and each has a picture."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GALLERY = os.path.join(ROOT, "scenarios", "gallery")
PROGRAM = os.path.abspath(sys.argv.pop(1))


class Gallery(unittest.TestCase):
    def test_questions_answers_and_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", f"{GALLERY}/gallery.py", PROGRAM, folder], check=True, capture_output=True)
            with open(f"{folder}/README.md", encoding="utf-8") as page:
                printed = page.read()
            pictures = [name for name in os.listdir(folder) if name.endswith(".svg")]
            for name in pictures:
                bars = [entry for entry in xml.etree.ElementTree.parse(f"{folder}/{name}").iter() if entry.get("fill") == "#3b75af"]
                self.assertGreaterEqual(len(bars), 2, name)
                self.assertTrue(all(float(bar.get("width")) > 0 for bar in bars), name)
                self.assertIn(f"]({name})", printed)
        with open(f"{GALLERY}/README.md", encoding="utf-8") as page:
            shipped = page.read()
        self.assertEqual(len(pictures), len(re.findall(r"^## \d+\.", shipped, re.MULTILINE)))
        self.assertEqual([line for line in printed.splitlines() if line and not line.startswith("![")], [line for line in shipped.splitlines() if line],
                         "python3 scenarios/gallery/gallery.py build/rehearse build/gallery --refresh takes over what is printed now")

    def test_commands_of_papers(self):
        sys.path.insert(0, GALLERY)
        import gallery
        for _, what, command, said in gallery.PAPERS:
            words = command.split()
            for word in words:
                if word.startswith(("scenarios/", "tests/")):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, word)), what)
            if words[0] == "./run.sh":
                asked = subprocess.run([PROGRAM, words[1], "--help"], capture_output=True, text=True, check=True).stdout
                for word in words:
                    if word.startswith("--"):
                        self.assertIn(word, asked, what)
            if not said.startswith("#"):
                self.assertTrue(os.path.exists(os.path.join(GALLERY, said)), said)


if __name__ == "__main__":
    unittest.main()
