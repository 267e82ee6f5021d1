#!/usr/bin/env python3
"""notebook_test.py --package FOLDER: the cells of all shipped notebooks, run one after another."""

import argparse
import contextlib
import glob
import io
import json
import os
import sys
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Notebooks(unittest.TestCase):
    def test_every_cell_runs_and_the_last_one_of_each_prints(self):
        os.chdir(ROOT)
        files = sorted(glob.glob("scenarios/notebooks/*.ipynb"))
        self.assertEqual(len(files), 2)
        for file in files:
            with open(file, encoding="utf-8") as text:
                cells = json.load(text)["cells"]
            names, printed = {"__name__": file}, ""
            for number, cell in enumerate(cells):
                if cell["cell_type"] != "code":
                    continue
                self.assertEqual(cell["outputs"], [], f"{file}: outputs are not kept in the repository")
                out = io.StringIO()
                with self.subTest(file=file, cell=number), contextlib.redirect_stdout(out), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exec(compile("".join(cell["source"]), f"{file}, cell {number}", "exec"), names)  # as a notebook does
                printed = out.getvalue()
            self.assertTrue(printed, file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    OPTIONS, others = parser.parse_known_args()
    sys.path.insert(0, OPTIONS.package)
    unittest.main(argv=[sys.argv[0], *others])
