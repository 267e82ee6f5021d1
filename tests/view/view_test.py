"""rehearse view: what it lists, compares, runs and refuses, through its sockets and in headless Chromium.

view_test.py PROGRAM [--pictures DIR] [--axe FILE] [argument of unittest ...]

--pictures also keeps what pages look like, --axe checks them with axe.min.js of axe-core. Without Chromium its pages are not looked at. Exit code 77 if the verb was not built.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "pages"), os.path.dirname(os.path.abspath(__file__))]
import browser  # noqa: E402
from server import Server  # noqa: E402

SKIPPED = 77
HOSTILE = '</script><img src=x onerror="document.title=1">\'"{b}%s'
SCENARIO = """{
  // what trains
  "format": 1, "name": "four", "seed": 1,
  "workload": { "model": "cm-dare/resnet32", "batch_per_worker": 128 },
  "cluster": {
    "groups": [
      { "name": "ps", "role": "parameter_server", "instance": "gce-custom-4", "count": 1, "region": "us-west1" },
      { "name": "workers", "role": "worker", "instance": "gce-custom-8-p100", "count": 4, "region": "us-west1" }
    ],
    "network": { "topology": "star" }
  },
  "training": { "strategy": { "kind": "parameter_server", "synchronization": "asynchronous" }, "steps": 50 },
  "calibration": "cm-dare"
}
"""
PICTURES = browser.pictures_option()
AXE = browser.option("--axe")
PROGRAM = os.path.abspath(sys.argv.pop(1))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def rehearse(folder, *arguments):
    return subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False)


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = os.path.realpath(os.path.join(cls.scratch.name, "results"))
        cls.fill()
        cls.server = Server(PROGRAM, cls.folder)
        cls.addClassCleanup(cls.server.end)

    @classmethod
    def fill(cls):
        write(os.path.join(cls.folder, "four.json"), SCENARIO)

    def index(self):
        """The list, once it has what was written before."""
        time.sleep(1.1)
        return self.server.json("/api/index/")

    def ended(self, number, seconds=120):
        """The state of a job that has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = next(one for one in self.server.json("/api/jobs") if one["id"] == number)
            if job["state"] not in ("waiting", "running"):
                return job
            time.sleep(0.05)
        raise AssertionError(f"job {number} does not end: {job}")

    def started(self, target, value):
        status, _, text = self.server.post(target, value)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def run_draft(self, name, text=SCENARIO, path="four.json", **more):
        return self.ended(self.started("/api/run", {"path": path, "text": text, "name": name, **more})["id"])


class Results(WithServer):
    @classmethod
    def fill(cls):
        super().fill()
        for name, more in (("a", ()), ("deep/b", ("--set", "/cluster/groups/1/count=2"))):
            rehearse(cls.folder, "simulate", "four.json", "-o", name, *more)

    def test_results_and_scenarios_are_listed_with_their_numbers(self):
        index = self.index()
        runs = {run["path"]: run for run in index["runs"]}
        summary = json.loads(read(os.path.join(self.folder, "a", "summary.json")))
        self.assertEqual({key: runs["a"][key] for key in ("kind", "name", "page", "scenario", "samples_per_s", "time_s", "cost_usd")},
                         {"kind": "simulate", "name": "four", "page": "a/report.html", "scenario": "a/scenario.json",
                          "samples_per_s": summary["samples_per_s"], "time_s": summary["time_s"], "cost_usd": summary["cost_usd"]})
        self.assertIn("links.csv", runs["a"]["files"])
        self.assertEqual(runs["deep/b"]["page"], "deep/b/report.html")
        self.assertIn("four.json", [one["path"] for one in index["scenarios"]])
        self.assertEqual(self.server.get(f"/api/index/{index['version']}")[0], 204)
        self.assertEqual(self.server.get("/files/a/links.csv")[2].encode(), read(os.path.join(self.folder, "a", "links.csv")))
        self.assertEqual(self.server.get("/files/a/report.html")[2].encode(), read(os.path.join(self.folder, "a", "report.html")))

    def test_what_changes_on_disk_changes_in_the_list(self):
        before = self.index()
        shutil.copytree(os.path.join(self.folder, "a"), os.path.join(self.folder, "copy"))
        os.remove(os.path.join(self.folder, "copy", "report.html"))
        after = self.index()
        self.assertNotEqual(before["version"], after["version"])
        self.assertEqual([run["page"] for run in after["runs"] if run["path"] == "copy"], [""])
        shutil.rmtree(os.path.join(self.folder, "copy"))
        self.assertEqual(self.index()["version"], before["version"])

    def test_two_runs_are_compared_as_diff_does(self):
        started = self.started("/api/compare", {"a": "a", "b": "deep/b"})
        self.assertEqual(self.ended(started["id"])["state"], "done")
        own = os.path.join(self.scratch.name, "own")
        self.assertEqual(rehearse(self.folder, "diff", "a", "deep/b", "-o", own).returncode, 0)
        self.assertEqual(read(os.path.join(self.folder, started["result"], "diff.json")), read(os.path.join(own, "diff.json")))
        self.assertEqual(self.started("/api/compare", {"a": "a", "b": "deep/b"}), {"page": started["result"] + "/diff.html"})
        os.utime(os.path.join(self.folder, "a", "summary.json"))
        self.assertEqual(self.started("/api/compare", {"a": "a", "b": "deep/b"})["result"], started["result"])
        self.assertEqual(self.server.post("/api/compare", {"a": "a", "b": "../a"})[0], 404)

    def test_a_scenario_that_was_sent_gives_what_simulate_gives(self):
        text = SCENARIO.replace('"count": 4', '"count": 3')
        checked = self.started("/api/check", {"path": "four.json", "text": text})
        self.assertTrue(checked["is_valid"])
        self.assertIn("50 steps of 3 workers", checked["said"])
        self.assertEqual(self.run_draft("three", text)["state"], "done")
        own = os.path.join(self.scratch.name, "three")
        self.assertEqual(rehearse(self.folder, "simulate", "three.json", "-o", own).returncode, 0)
        for name in ("summary.json", "scenario.json", "report.html"):
            self.assertEqual(read(os.path.join(self.folder, "three", name)), read(os.path.join(own, name)), name)
        self.assertIn("three", [run["path"] for run in self.index()["runs"]])
        self.assertEqual(self.server.post("/api/run", {"path": "four.json", "text": text, "name": "three"})[0], 409)

    def test_what_varies_is_a_sweep(self):
        varied = {"vary": ["/cluster/groups/1/count=1..3"]}
        checked = self.started("/api/check", {"path": "", "text": SCENARIO, **varied})
        self.assertIn("3 combinations", checked["said"])
        self.assertEqual(self.run_draft("swept", path="", **varied)["state"], "done")
        self.assertEqual(read(os.path.join(self.folder, "swept", "sweep.csv")).count(b"\n"), 4)
        self.assertEqual([run["kind"] for run in self.index()["runs"] if run["path"] == "swept"], ["sweep"])

    def test_a_result_from_a_scenario_of_a_result_goes_beside_it(self):
        text = read(os.path.join(self.folder, "deep", "b", "scenario.json")).decode()
        self.assertEqual(self.run_draft("again", text, "deep/b/scenario.json")["result"], "deep/again")
        self.assertEqual(json.loads(read(os.path.join(self.folder, "deep", "again", "summary.json")))["steps_per_s"],
                         json.loads(read(os.path.join(self.folder, "deep", "b", "summary.json")))["steps_per_s"])

    def test_mistakes_are_one_line_and_leave_nothing(self):
        for text, line in ((SCENARIO.replace('"steps"', '"stesp"'), '/training: expected the key "steps"; found none'),
                           ("{", "expected"), ("[]", "expected"), (SCENARIO.replace("cm-dare/resnet32", "resnt50"), 'did you mean "resnet50"?'),
                           ("[" * 5000, "levels")):
            checked = self.started("/api/check", {"path": "four.json", "text": text})
            self.assertFalse(checked["is_valid"])
            self.assertEqual(checked["said"].strip().count("\n"), 0, checked["said"])
            self.assertIn(line, checked["said"])
            self.assertRegex(checked["said"], r"^rehearse: four\.json:")
        job = self.run_draft("wrong", SCENARIO.replace('"steps"', '"stesp"'))
        self.assertEqual((job["state"], job["exit_code"]), ("failed", 2))
        self.assertIn("expected the key", job["line"])
        for left in ("wrong", "wrong.json"):
            self.assertFalse(os.path.exists(os.path.join(self.folder, left)))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])

    def test_a_job_that_is_cancelled_leaves_nothing_and_the_next_one_runs(self):
        long = SCENARIO.replace('"steps": 50', '"steps": 10000000').replace('"seed": 1', '"seed": 1, "output": { "sampling_period": "1ms" }')
        first = self.started("/api/run", {"path": "", "text": long, "name": "long"})["id"]
        second = self.started("/api/run", {"path": "", "text": SCENARIO, "name": "behind"})["id"]
        third = self.started("/api/run", {"path": "", "text": SCENARIO, "name": "never"})["id"]
        states = {job["id"]: job["state"] for job in self.server.json("/api/jobs")}
        self.assertEqual([states[second], states[third]], ["waiting", "waiting"])
        self.started("/api/cancel", {"id": third})
        self.started("/api/cancel", {"id": first})
        self.assertEqual(self.ended(first)["state"], "cancelled")
        self.assertEqual(self.ended(second)["state"], "done")
        self.assertEqual(self.ended(third)["state"], "cancelled")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(("long", "never"))], [])
        self.assertEqual(self.server.post("/api/cancel", {"id": first})[0], 404)


class Refusals(WithServer):
    @classmethod
    def fill(cls):
        super().fill()
        write(os.path.join(cls.scratch.name, "secret.json"), '{"secret": "of the user"}')
        write(os.path.join(cls.folder, ".hidden.json"), "{}")
        write(os.path.join(cls.folder, "program.sh"), "true")
        write(os.path.join(cls.folder, "page.html"), "<script>fetch('/')</script>")
        os.symlink(os.path.join(cls.scratch.name, "secret.json"), os.path.join(cls.folder, "link.json"))
        os.symlink(cls.scratch.name, os.path.join(cls.folder, "out"))
        os.mkfifo(os.path.join(cls.folder, "pipe.json"))

    def test_names_that_only_lead_here_are_no_hosts(self):
        port = self.server.port
        for host in (f"evil.example:{port}", "localhost", "127.0.0.1", f"localhost:{port + 1}", f"127.0.0.1:{port}.evil.example", f"[::]:{port}", ""):
            self.assertEqual(self.server.get("/", host=host or "-")[0], 403, host)
            self.assertEqual(self.server.get("/files/four.json", host=host or "-")[0], 403, host)
        self.assertEqual(self.server.get("/", host=f"localhost:{port}")[0], 200)
        self.assertEqual(self.server.get("/", headers={"Host": f"localhost:{port}"})[0], 403)  # two of them

    def test_only_the_page_itself_changes_anything(self):
        draft = {"path": "", "text": SCENARIO, "name": "foreign"}
        for changed in ({"X_Rehearse_Token": None}, {"X_Rehearse_Token": "0" * 32}, {"X_Rehearse_Token": ""}, {"Origin": None}, {"Origin": "null"},
                        {"Origin": "http://evil.example"}, {"Origin": f"http://localhost:{self.server.port}"}, {"Sec_Fetch_Site": "cross-site"},
                        {"Sec_Fetch_Site": "same-site"}):
            for target in ("/api/run", "/api/check", "/api/compare", "/api/cancel", "/"):
                self.assertEqual(self.server.post(target, draft, **changed)[0], 403, changed)
        self.assertEqual(self.server.post("/api/run", draft, Content_Type="text/plain")[0], 415)
        self.assertEqual(self.server.get("/api/run")[0], 404)
        self.assertEqual(self.server.json("/api/jobs"), [])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "foreign.json")))

    def test_nothing_outside_of_the_folder_is_given(self):
        for path in ("../secret.json", "%2e%2e/secret.json", "..%2fsecret.json", "%2e%2e%2fsecret.json", "..%5csecret.json", "%252e%252e/secret.json",
                     "./four.json", "//four.json", "/" + self.scratch.name + "/secret.json", "four.json/../../secret.json", "link.json", "out/secret.json",
                     ".hidden.json", "four.json%00", "four.json%0a", "program.sh", "pipe.json", "", "-four.json", "nothing.json", "a" * 3000):
            for prefix in ("/files/", "/api/scenario/"):
                status, _, text = self.server.get(prefix + path)
                self.assertEqual(status, 404, path)
                self.assertNotIn("secret\"", text)
        self.assertEqual(self.server.get("/files/%zz")[0], 400)
        self.assertEqual(self.server.get("/" + "a" * 5000)[0], 414)
        self.assertNotIn("secret", json.dumps(self.index()))

    def test_scenarios_name_no_file_outside(self):
        secret = os.path.join(self.scratch.name, "secret.json")
        spot = '"spot_pool": { "replay": "../secret.json" }, "market": "spot"'
        for text in (*(SCENARIO.replace("cm-dare/resnet32", name) for name in (secret, "../secret.json", "link.json", "out/secret.json")),
                     SCENARIO.replace('"count": 4', '"count": 4, ' + spot), SCENARIO.replace('"cm-dare"', f'"{secret}"'),
                     json.dumps({"format": 1, "scenario": secret, "grid": {"/seed": [1]}})):
            checked = json.loads(self.server.post("/api/check", {"path": "", "text": text})[2])
            self.assertIn("found a path that leads out of it", checked["said"])
            self.assertEqual(self.server.post("/api/run", {"path": "", "text": text, "name": "outside"})[0], 400)
        for vary in (f"/workload/model=cm-dare/resnet15,{secret}", "/workload/model=../secret.json", "--catalog=/", "/workload/model"):
            self.assertEqual(self.server.post("/api/run", {"path": "", "text": SCENARIO, "name": "outside", "vary": [vary]})[0], 400)
        for name in ("", "../outside", "a/b", "-o", ".hidden", "x.json", "a b", "n" * 81, "a\0b"):
            self.assertEqual(self.server.post("/api/run", {"path": "", "text": SCENARIO, "name": name})[0], 400, name)
        self.assertEqual(self.server.post("/api/run", {"path": "link.json", "text": SCENARIO, "name": "outside"})[0], 404)
        self.assertEqual(self.server.post("/api/run", {"path": "", "text": SCENARIO, "name": "out"})[0], 409)
        self.assertEqual(self.server.json("/api/jobs"), [])

    def test_bodies_heads_and_methods_have_limits(self):
        self.assertEqual(self.server.post("/api/check", {"path": "", "text": "x" * 1_100_000})[0], 413)
        self.assertEqual(self.server.post("/api/check", None, raw=b"{" * 100)[0], 400)
        self.assertEqual(self.server.post("/api/check", [])[0], 400)
        self.assertEqual(self.server.post("/api/check", {"path": 1, "text": 2})[0], 400)
        self.assertEqual(self.server.post("/api/nothing", {})[0], 404)
        for method, status in (("DELETE", 405), ("PUT", 405), ("OPTIONS", 405), ("TRACE", 405), ("BREW", 400)):
            self.assertEqual(self.server.request(method, "/")[0], status, method)
        self.assertEqual(self.server.request("HEAD", "/")[2], "")
        head = f"GET / HTTP/1.1\r\nHost: localhost:{self.server.port}\r\n".encode()
        for sent in (head + b"A: b\r\n" * 1_000_000, b"GET /" + b"a" * 3_000_000, b"\0" * 3_000_000, b"POST /api/check HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n"):
            answer = self.raw(sent)
            self.assertNotIn(b"200 OK", answer)
        self.assertEqual(self.server.get("/")[0], 200)

    def raw(self, sent):
        """What comes back of bytes that are no proper request."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            answer = b""
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    answer += part
            except OSError:  # it has hung up
                pass
            return answer

    def test_slow_requests_end_and_do_not_keep_others_waiting(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port), timeout=30) for _ in range(20)]
        try:
            for connection in slow:
                connection.sendall(b"GET / HT")
            begin = time.monotonic()
            self.assertEqual(self.server.get("/")[0], 200)
            self.assertLess(time.monotonic() - begin, 8)
            for connection in slow:
                connection.sendall(b"TP/1.1\r\n")
            self.assertEqual(slow[0].recv(100)[:12], b"HTTP/1.1 400")  # ten seconds after it began
        finally:
            for connection in slow:
                connection.close()

    def test_every_answer_forbids_guessing_framing_and_foreign_scripts(self):
        for target in ("/", "/view.js", "/files/four.json", "/files/page.html", "/nothing", "/%zz"):
            headers = self.server.get(target)[1]
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff", target)
            self.assertEqual(headers["X-Frame-Options"], "DENY", target)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"], target)
            self.assertIsNone(headers["Access-Control-Allow-Origin"], target)
        self.assertTrue(self.server.get("/files/page.html")[1]["Content-Security-Policy"].startswith("sandbox allow-scripts allow-downloads;"))
        self.assertNotIn("unsafe-inline", self.server.get("/")[1]["Content-Security-Policy"])


class Commands(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def test_what_is_no_folder_and_a_port_that_is_taken_are_refused_in_a_line(self):
        write(os.path.join(self.folder, "file"), "")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for arguments, line in ((("nothing",), "nothing: expected a folder of results; No such file or directory"),
                                    (("file",), "file: expected a folder of results; found a file"),
                                    ((".", "--port", port), f"--port {port}: cannot listen on 127.0.0.1: Address already in use; --port 0 takes one that is free"),
                                    ((".", "--port", "65536"), "--port")):
                ended = rehearse(self.folder, "view", *arguments)
                self.assertEqual((ended.returncode, ended.stdout), (2, ""))
                self.assertTrue(ended.stderr.startswith("rehearse: " + line) and ended.stderr.count("\n") == 1, ended.stderr)
        with Server(PROGRAM, self.folder) as server:  # as another of ours
            self.assertEqual(rehearse(self.folder, "view", ".", "--port", str(server.port)).returncode, 2)

    def test_it_ends_by_a_signal_within_a_second_and_stops_its_jobs(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = Server(PROGRAM, self.folder, "-j", "2")
            self.addCleanup(server.process.kill)
            text = SCENARIO.replace('"steps": 50', '"steps": 10000000').replace('"seed": 1', '"seed": 1, "output": { "sampling_period": "1ms" }')
            for name in ("x", "y", "z"):
                self.assertEqual(server.post("/api/run", {"path": "", "text": text, "name": name})[0], 200)
            time.sleep(0.5)
            idle = socket.create_connection(("127.0.0.1", server.port))
            self.assertEqual([job["state"] for job in server.json("/api/jobs")], ["waiting", "running", "running"])
            begin = time.monotonic()
            self.assertEqual(server.end(number), 130)
            self.assertLess(time.monotonic() - begin, 5)  # a second of an idle machine
            idle.close()
            end = time.monotonic() + 10
            while os.listdir(self.folder) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertEqual(os.listdir(self.folder), [])

    def test_its_time_may_be_limited(self):
        ended = rehearse(self.folder, "view", ".", "--port", "0", "--max-wall-time", "500ms")
        self.assertEqual((ended.returncode, ended.stderr.splitlines()[-1]), (3, "rehearse: stopped by --max-wall-time 500ms"))


@unittest.skipUnless(browser.find(), "needs Chromium")
class Pages(WithServer):
    @classmethod
    def fill(cls):
        write(os.path.join(cls.folder, "four.json"), SCENARIO)
        write(os.path.join(cls.folder, "hostile.json"), json.dumps({**json.loads(SCENARIO.replace("// what trains", "")), "name": HOSTILE}))
        for name, scenario in (("a", "four.json"), ("hostile", "hostile.json")):
            rehearse(cls.folder, "simulate", scenario, "-o", name)
        rehearse(cls.folder, "simulate", "four.json", "--set", "/cluster/groups/1/count=2", "-o", "b")
        os.remove(os.path.join(cls.folder, "hostile", "report.html"))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def holds(self, expression):
        """Whether the page fulfils the expression now; and what was in the way: a page that is being left, or not there yet, answers with an error."""
        try:
            return bool(self.browser.evaluate(f"!!({expression})")), ""
        except RuntimeError as error:
            return False, f"\n{error}"

    def until(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while True:
            is_fulfilled, reason = self.holds(expression)
            if is_fulfilled:
                return
            if time.monotonic() > end:
                self.fail(f"{expression}{reason}\n" + self.browser.evaluate("document.body.innerText"))
            time.sleep(0.1)

    def open(self, target, ready):
        self.browser.events.clear()
        self.browser.ask("Page.navigate", url="about:blank")
        self.browser.ask("Page.navigate", url=self.server.address + target)
        self.until(f"document.readyState === 'complete' && {ready}")
        self.browser.settle()

    def complaints(self):
        return [text for text in self.browser.complaints() if not text.startswith(("asks for " + self.server.address + "/", "asks for about:"))]

    def press(self, name):
        self.browser.evaluate(f"[...document.querySelectorAll('button, a, summary')].find(e => (e.getAttribute('aria-label') || e.textContent) === {json.dumps(name)}).click()")

    def see(self, name, target, ready):
        for width, height, is_dark in ((1280, 800, False), (1280, 800, True), (390, 844, False), (1920, 1080, True)):
            with self.subTest(target=target, width=width, is_dark=is_dark):
                self.browser.look(width, height, is_dark)
                self.open(target, ready)
                if PICTURES:
                    self.browser.picture(os.path.join(PICTURES, f"{name}-{width}{'-dark' if is_dark else ''}.png"))
                self.assertEqual(self.complaints(), [])
                self.assertEqual(self.browser.barriers(AXE), [])
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('input, select, textarea')].filter(e => !(e.getAttribute('aria-label') || e.labels.length)).length"), 0)
                self.assertEqual(self.browser.evaluate("document.querySelectorAll('img, h1').length"), 1)
        self.browser.look(1280, 800)

    def test_pages_fit_and_log_nothing(self):
        self.see("list", "/", "document.querySelector('td a')")
        self.see("form", "/#edit/four.json", "document.querySelector('.field')")
        self.see("numbers", "/#run/hostile", "document.querySelector('section li')")
        self.assertEqual(self.browser.evaluate("document.title"), HOSTILE)
        self.see("new", "/#edit/", "document.querySelector('.field')")

    def test_the_list_is_filtered_sorted_and_two_of_it_compared(self):
        self.open("/", "document.querySelector('td a')")
        rows = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[2].textContent)"
        write(os.path.join(self.folder, "latest.json"), SCENARIO)  # comes by itself, and first
        self.until(f"{rows}[0] === 'latest.json'")
        os.remove(os.path.join(self.folder, "latest.json"))
        for is_ascending in (False, True):  # the largest first, then the smallest
            self.press("samples/s")
            order = self.browser.evaluate(rows)
            self.assertEqual(order.index("b") < order.index("a"), is_ascending)
        self.browser.evaluate("{ const filter = document.getElementById('filter'); filter.value = 'simulate four'; filter.dispatchEvent(new Event('input')); }")
        self.assertEqual({"a", "b"} - set(self.browser.evaluate(rows)), set())
        self.assertNotIn("hostile", self.browser.evaluate(rows))
        self.assertTrue(self.browser.evaluate("document.querySelector('.bar button').disabled"))
        self.browser.evaluate("for (const run of ['a', 'b']) document.querySelector(`input[aria-label='Compare ${run}']`).click()")
        self.press("Compare the two runs that are ticked")
        self.until("location.pathname.endsWith('/diff.html') && !!document.querySelector('.verdict')")
        self.browser.settle()
        self.assertIn("steps a second than A", self.browser.evaluate("document.querySelector('.verdict').textContent"))
        self.assertEqual(self.complaints(), [])

    def test_a_report_works_in_its_sandbox_and_asks_this_server_for_nothing(self):
        self.open("/files/a/report.html", "document.querySelector('.chart svg, .chart canvas')")
        self.assertEqual(self.complaints(), [])
        self.assertEqual(self.browser.evaluate("fetch('/').then(() => 'given', () => 'refused')"), "refused")
        self.assertEqual(self.browser.evaluate("self.origin"), "null")

    def test_a_form_is_changed_checked_run_and_its_result_listed(self):
        self.open("/#edit/four.json", "document.querySelector('.field')")
        field = ("[...document.querySelectorAll('.field')].filter(e => e.querySelector('label').textContent === 'count')"
                 ".map(e => e.querySelector('input'))[1]")
        self.browser.evaluate(f"{{ const field = {field}; field.value = '3'; field.dispatchEvent(new Event('input')); }}")
        self.press("Add the key to /training")
        self.press("Show the JSON file")
        sent = json.loads(self.browser.evaluate("document.querySelector('textarea').value"))
        self.assertEqual(sent["cluster"]["groups"][1]["count"], 3)
        added = [key for key in sent["training"] if key not in ("strategy", "steps")]
        self.assertEqual(len(added), 1)
        self.press("Show the form")
        self.press(f"Remove {added[0]}")
        self.press("Check the scenario")
        self.until("document.querySelector('.said').textContent.includes('50 steps of 3 workers')")
        self.browser.evaluate("document.getElementById('name').value = 'from-form'")
        self.press("Run the scenario")
        self.until("[...document.querySelectorAll('.jobs .done a')].some(a => a.getAttribute('href') === 'files/from-form/report.html')")
        self.assertEqual(self.complaints(), [])
        own = os.path.join(self.scratch.name, "own")
        rehearse(self.folder, "simulate", "from-form.json", "-o", own)
        self.assertEqual(read(os.path.join(self.folder, "from-form", "summary.json")), read(os.path.join(own, "summary.json")))

    def test_what_is_wrong_in_a_form_is_said(self):
        self.open("/#edit/four.json", "document.querySelector('.field')")
        self.press("Show the JSON file")
        self.browser.evaluate("{ const text = document.querySelector('textarea'); text.value = text.value.replace('\"steps\"', '\"stesp\"'); }")
        self.press("Check the scenario")
        self.until("document.querySelector('.said.wrong')")
        self.assertIn("rehearse: four.json: /training", self.browser.evaluate("document.querySelector('.said').textContent"))
        self.browser.evaluate("document.querySelector('textarea').value = '{'")
        self.press("Show the form")
        self.until("document.querySelector('.status').textContent.includes('JSON')")
        self.assertFalse(self.browser.evaluate("document.querySelector('textarea').hidden"))


if __name__ == "__main__":
    if not os.path.exists(os.path.join(os.path.dirname(PROGRAM), "rehearse-view")):
        print("not checked: rehearse-view was not built")
        sys.exit(SKIPPED)
    unittest.main()
