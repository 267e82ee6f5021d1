"""Pages in headless Chromium: nothing is logged or asked for, all is there, nothing is wider than the screen, in light and dark.

pages_test.py PROGRAM [--pictures DIR] [--axe FILE] [argument of unittest ...]

--pictures also keeps what each page looks like; --axe also checks with axe.min.js of axe-core that nothing is in the way of those who
use a keyboard or a screen reader. Exit code 77 without Chromium.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
MOST_BYTES = 2_000_000
HOSTILE = '</script><img src=x onerror="document.title=1">\'"{b}%s\U0001f600' + "long" * 60
PICTURES = browser.pictures_option()
AXE = browser.option("--axe")
PROGRAM = os.path.abspath(sys.argv.pop(1))


def scenario(*path):
    return os.path.join(ROOT, "scenarios", *path)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def made(self, name, page, *arguments):
        """The page that a command writes."""
        output = os.path.join(self.folder.name, name)
        self.done(*arguments, "-o", output)
        return os.path.join(output, page)

    def done(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments, "--quiet"], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def see(self, path, *kinds):
        """Checks a page at three widths and on paper, and that figures of these kinds are drawn, in order."""
        self.assertLess(os.path.getsize(path), MOST_BYTES)
        for width, height, is_dark in ((1280, 800, False), (1280, 800, True), (390, 844, False), (1920, 1080, True)):
            with self.subTest(width=width, is_dark=is_dark):
                try:
                    shown = self.see_at(path, kinds, width, height, is_dark)
                except (TimeoutError, EOFError, BrokenPipeError):  # browsers fail at times: a page that another one fails at, too, is at fault
                    self.browser.restart()
                    shown = self.see_at(path, kinds, width, height, is_dark)
        self.browser.print(os.path.join(self.folder.name, "printed.pdf"))
        self.assertEqual(self.browser.complaints(), [])
        return shown["heading"]

    def see_at(self, path, kinds, width, height, is_dark):
        """Checks a page on one screen; what it shows."""
        self.browser.look(width, height, is_dark)
        self.browser.open(path)
        if PICTURES:
            name = os.path.basename(os.path.dirname(path))
            self.browser.picture(os.path.join(PICTURES, f"{name}-{width}{'-dark' if is_dark else ''}.png"))
        first = self.browser.evaluate("[...document.querySelectorAll('.overview')].map(e => e.getBoundingClientRect().bottom)")
        if first and width == 1280 and not is_dark:
            self.first_screen = first[0]
        # All figures are drawn once they come near: at once, or after seconds of a busy machine.
        self.browser.evaluate("(async () => { for (const box of document.querySelectorAll('.chart')) { box.scrollIntoView(); "
                              "await new Promise(done => { requestAnimationFrame(() => setTimeout(done, 20)); setTimeout(done, 2000); }); "  # frames may be left out
                              "for (let i = 0; i < 200 && !box.querySelector('svg, canvas'); ++i) await new Promise(done => setTimeout(done, 100)); } })()")
        self.browser.settle()
        self.assertEqual(self.browser.complaints(), [])
        shown = self.browser.evaluate(
            "({width: document.documentElement.scrollWidth, kinds: [...document.querySelectorAll('.chart')].map(e => e.dataset.kind), "
            "empty: [...document.querySelectorAll('.chart')].filter(e => !e.querySelector('svg path, canvas')).length, "
            "named: [...document.querySelectorAll('.chart')].every(e => e.getAttribute('aria-label')), "
            "wide: [...document.querySelectorAll('.chart')].filter(e => e.querySelector('svg, canvas')?.clientWidth > e.clientWidth + 1).length, "
            "heading: document.querySelector('h1').textContent, title: document.title, "
            "verdict: document.querySelector('.verdict')?.textContent ?? ''})")
        self.assertTrue(shown["verdict"], "no sentence that answers")
        self.assertEqual(self.browser.barriers(AXE), [])
        self.assertLessEqual(shown["width"], width)
        self.assertEqual(shown["empty"], 0)
        self.assertEqual(shown["wide"], 0)
        self.assertTrue(shown["named"])
        self.assertEqual(shown["heading"], shown["title"])
        for kind in kinds:
            self.assertIn(kind, shown["kinds"])
        return shown

    def test_a_run_of_workers_and_servers(self):
        self.see(self.made("run", "report.html", "simulate", scenario("cm-dare.json")), "bars", "cluster", "lanes", "plot")
        self.assertLessEqual(self.first_screen, 800)
        self.browser.look(1280, 800)
        self.browser.evaluate("[...document.querySelectorAll('th button')].forEach(button => button.click())")
        self.assertIn("descending", self.browser.evaluate("[...document.querySelectorAll('th')].map(e => e.getAttribute('aria-sort'))"))
        self.browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        self.browser.settle()
        self.assertEqual(self.browser.complaints(), [])
        self.assertTrue(self.browser.evaluate("[...document.querySelectorAll('details')].every(e => e.querySelector('td'))"))

    def test_a_pipeline_in_a_cluster_of_several_machines(self):
        self.see(self.made("pipeline", "report.html", "simulate", scenario("gpt2-xl-pipeline.json")), "bars", "cluster", "lanes", "plot")
        self.assertLessEqual(self.first_screen, 800)

    def test_names_that_would_be_markup(self):
        with open(scenario("dgx.json"), encoding="utf-8") as file:
            text = "\n".join(line for line in file.read().split("\n") if not line.strip().startswith("//"))
        given = json.loads(text)
        given["name"] = HOSTILE
        for group in given["cluster"]["groups"]:
            group["name"] = HOSTILE[:90]
        path = os.path.join(self.folder.name, "hostile.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(given, file)
        self.assertEqual(self.see(self.made("hostile", "report.html", "simulate", path)), HOSTILE)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('img').length"), 0)

    def test_sweeps(self):
        grid = ("--grid", "/cluster/groups/1/count=1..3", "--grid", "/workload/batch_per_worker=32,64")
        self.see(self.made("sweep-2", "sweep.html", "sweep", scenario("cm-dare.json"), *grid), "heat", "plot")
        self.see(self.made("sweep-3", "sweep.html", "sweep", scenario("cm-dare.json"), *grid, "--grid", "/cluster/groups/0/count=1,2"),
                 "parallel", "plot")
        self.see(self.made("sweep-1", "sweep.html", "sweep", scenario("cm-dare.json"), *grid[:2]), "plot")

    def test_differences_and_diagnoses(self):
        self.see(self.made("diff", "diff.html", "diff", scenario("cm-dare.json"), scenario("cm-dare-heterogeneous.json")))
        self.see(self.made("remaining", "remaining.html", "remaining", scenario("cm-dare.json"), "--set", "/training/steps=64000", "--step", "32096"), "bars")
        self.see(self.made("diagnosis", "diagnosis.html", "diagnose", scenario("cm-dare.json"), "--measured-speed", "10"), "bars")

    def test_many_runs_studies_and_plans(self):
        self.see(self.made("runs", "report.html", "simulate", scenario("cm-dare-spot.json"), "--runs", "20"), "plot")
        self.see(self.made("study", "report.html", "validate", scenario("studies", "spotdnn-resnet110-speed.json")), "plot")
        self.see(self.made("plans", "report.html", "provision", scenario("provision", "resnet110.json"), "--deadline", "2600s", "--target-loss", "0.8"), "plot")
        self.see(self.made("goal", "report.html", "provision", "--model", "resnet50", "--samples", "10M", "--instance", "p3.2xlarge=1,p3.2xlarge=2,p3.8xlarge=1",
                           "--deadline", "1d"), "plot")

    def test_traffic_and_queues(self):
        self.made("traced", "report.html", "simulate", scenario("tum", "horovod-ring.json"), "--set", "/training/steps=3")
        self.see(self.made("traffic", "traffic.html", "traffic", os.path.join(self.folder.name, "traced")))
        self.see(self.made("queue", "report.html", "queue", scenario("queue", "gavel-physical.json")))

    def test_fits(self):
        page = os.path.join(self.folder.name, "calibrated", "fit.html")
        os.mkdir(os.path.dirname(page))
        self.done("calibrate", scenario("studies", "cm-dare-checkpoint.json"), "--report", page, "--steps", "2", "-o", page + ".json")
        self.see(page)
        runs = os.path.join(self.folder.name, "runs.csv")
        with open(runs, "w", encoding="ascii") as file:
            file.write("gpus,step_time_s\n1,0.20\n2,0.21\n4,0.22\n8,0.23\n")
        self.see(self.made("own", "fit.html", "fit", scenario("dgx.json"), runs, "--gpus", "16"))

    def test_predictors(self):
        if subprocess.run([PROGRAM, "predict", "--help"], capture_output=True, check=False).returncode != 0:
            self.skipTest("without the predictor")
        dataset = os.path.join(self.folder.name, "dataset", "small.db")
        os.mkdir(os.path.dirname(dataset))
        self.done("generate", scenario("spaces", "small.json"), "--count", "60", "-o", dataset)
        self.see(dataset + ".report.html")
        self.see(self.made("model", "report.html", "train", dataset, "--epochs", "3"), "plot")
        model = os.path.join(self.folder.name, "model")
        self.see(self.made("prediction", "prediction.html", "predict", model, scenario("cm-dare.json")))
        self.see(self.made("comparison", "report.html", "compare", model, dataset))


if __name__ == "__main__":
    if not browser.find():
        print("not checked: Chromium is not installed")
        sys.exit(SKIPPED)
    unittest.main()
