#!/usr/bin/env python3
"""on_a_cluster_test.py --program PROGRAM: what scenarios/sweeps/on-a-cluster shows for schedulers, run here as each of them would run it.

Each gives the bytes of one machine. The forms of the files are checked by what a scheduler asks of them.
"""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FILES = os.path.join(ROOT, "scenarios", "sweeps", "on-a-cluster")
SWEEP = """{ "format": 1, "scenario": "%s/scenarios/cm-dare.json", "set": { "/training/steps": 40 },
             "grid": { "/cluster/groups/1/count": "1..3", "/workload/batch_per_worker": [32, 64] } }"""


def read(name):
    with open(os.path.join(FILES, name), encoding="utf-8") as file:
        return file.read()


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = cls.table(cls.place(), "sweep", lambda folder: cls.shell(folder, "rehearse sweep sweep.json -o sweep --quiet"))

    @classmethod
    def place(cls):
        """A folder with a sweep, and the program on a path."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "sweep.json"), "w", encoding="utf-8") as file:
            file.write(SWEEP % ROOT)
        os.mkdir(os.path.join(folder.name, "bin"))
        os.symlink(OPTIONS.program, os.path.join(folder.name, "bin", "rehearse"))
        return folder.name

    @staticmethod
    def shell(folder, script, **variables):
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", **variables}
        outcome = subprocess.run(["/bin/sh", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
        if outcome.returncode != 0:
            raise AssertionError(f"{script}\n{outcome.stderr}")

    @staticmethod
    def table(folder, name, run):
        run(folder)
        with open(os.path.join(folder, name, "sweep.csv"), "rb") as file:
            return file.read()

    def run_all(self, folder, script, variables):
        """The script once with each of these variables, two at a time."""
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda one: self.shell(folder, script, **one), variables))

    def test_gnu_parallel(self):
        if not shutil.which("parallel"):
            self.skipTest("GNU parallel is not installed")
        line, = re.findall(r"(?m)^parallel .*$", read("README.md"))
        script = line.replace("FILE", "sweep.json").replace("OUTPUT", "sweep").replace("{1..16}", " ".join(map(str, range(1, 17))))
        self.assertEqual(self.table(self.place(), "sweep", lambda folder: self.shell(folder, script)), self.expected)

    @unittest.skipUnless(yaml, "the module yaml is not installed")
    def test_kubernetes(self):
        job = yaml.safe_load(read("kubernetes.yaml"))
        self.assertEqual((job["apiVersion"], job["kind"], job["spec"]["completionMode"]), ("batch/v1", "Job", "Indexed"))
        self.assertRegex(job["metadata"]["name"], r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
        pod = job["spec"]["template"]["spec"]
        self.assertIn(pod["restartPolicy"], ("Never", "OnFailure"))  # as a job's must be
        container, = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertEqual(set(mounts), {volume["name"] for volume in pod["volumes"]})
        self.assertEqual(container["workingDir"], mounts["results"])
        self.assertEqual(container["command"], ["/bin/sh", "-c"])
        script, = container["args"]
        self.assertIn(f"/{job['spec']['completions']}", script)

        def run(folder):
            self.run_all(folder, script.replace(mounts["results"], folder), [{"JOB_COMPLETION_INDEX": str(i)} for i in range(job["spec"]["completions"])])
            self.shell(folder, "rehearse merge sweep.jobs --quiet")

        self.assertEqual(self.table(self.place(), "sweep", run), self.expected)

    def test_htcondor(self):
        lines = [line for line in read("htcondor.sub").splitlines() if line and not line.startswith("#")]
        commands = dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines[:-1])
        self.assertTrue({"executable", "arguments", "log", "output", "error"} <= set(commands))
        self.assertEqual(os.path.basename(commands["executable"]), "rehearse")
        count = int(re.fullmatch(r"queue (\d+)", lines[-1])[1])
        self.assertEqual(commands["number"], "$(Process) + 1")
        self.assertTrue(commands["arguments"].endswith(f"--shard $INT(number)/{count}"))

        def run(folder):
            os.mkdir(os.path.join(folder, "results"))
            script = "exec rehearse " + commands["arguments"].replace("$INT(number)", "$((PROCESS + 1))")
            self.run_all(folder, script, [{"PROCESS": str(i)} for i in range(count)])
            self.shell(folder, "rehearse merge results/sweep.jobs --quiet")

        self.assertEqual(self.table(self.place(), "results/sweep", run), self.expected)

    def test_a_shard_whose_disk_is_full_says_so_and_goes_on_once_there_is_room(self):
        folder = self.place()
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "none", disk], capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("a small file system cannot be mounted: " + mounted.stderr.strip())
        try:
            with open(os.path.join(disk, "ballast"), "wb") as file:
                file.write(b"0" * 52 * 1024)
            line = [OPTIONS.program, "sweep", os.path.join(folder, "sweep.json"), "-o", os.path.join(disk, "sweep"), "--quiet", "--shard", "1/2"]
            refused = subprocess.run(line, capture_output=True, text=True, check=False)
            self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1), refused.stderr)
            self.assertRegex(refused.stderr, "No space left on device|disk is full")
            os.remove(os.path.join(disk, "ballast"))
            subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
            self.shell(folder, " && ".join(f"rehearse sweep sweep.json -o disk/sweep --quiet --shard {i}/2" for i in (1, 2)) +
                       " && rehearse merge disk/sweep.jobs --quiet")
            self.assertEqual(self.table(disk, "sweep", lambda _: None), self.expected)
        finally:
            subprocess.run(["umount", disk], check=True)

    @unittest.skipUnless(yaml, "the module yaml is not installed")
    def test_skypilot(self):
        task = yaml.safe_load(read("skypilot.yaml"))
        self.assertEqual(set(task), {"name", "num_nodes", "resources", "file_mounts", "run"})
        mount, = task["file_mounts"]
        self.assertIn(f"cd {mount}\n", task["run"])

        def run(folder):
            with concurrent.futures.ThreadPoolExecutor(task["num_nodes"]) as threads:  # the first waits for the others
                list(threads.map(lambda rank: self.shell(folder, task["run"].replace(mount, shlex.quote(folder)).replace("sleep 5", "sleep 0.1"),
                                                         SKYPILOT_NODE_RANK=str(rank), SKYPILOT_NUM_NODES=str(task["num_nodes"])),
                                 range(task["num_nodes"])))

        self.assertEqual(self.table(self.place(), "sweep", run), self.expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    OPTIONS, others = parser.parse_known_args()
    OPTIONS.program = os.path.abspath(OPTIONS.program)
    unittest.main(argv=[sys.argv[0], *others])
