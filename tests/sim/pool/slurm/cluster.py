"""A Slurm of one machine for tests: munged, slurmctld and slurmd with state, keys and ports of their own."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")


def missing_programs():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    return [name for name in PROGRAMS if not shutil.which(name)]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Cluster:
    """begin() starts the daemons, stop() ends them."""

    def __init__(self, folder, processors=2):
        self.folder = pathlib.Path(folder)
        self.host = socket.gethostname().split(".")[0]
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir(parents=True)
        os.chmod(self.folder, 0o700)
        os.chmod(self.folder / "munge", 0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.munge_socket = self.folder / "munge" / "socket"
        (self.folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={self.host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={self.munge_socket}
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=20
BatchStartTimeout=5
MessageTimeout=5
KillWait=2
MaxArraySize=1001
NodeName={self.host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={self.host} Default=YES MaxTime=INFINITE State=UP
""")
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def begin(self):
        munge = self.folder / "munge"
        self.start(["munged", "--force", f"--socket={self.munge_socket}", f"--key-file={munge}/key",
                    f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"])
        self.start_controller()
        self.start(["slurmd", "-N", self.host])
        self.wait_for(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), "a node that is idle")

    def stop(self):
        for name in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            self.end(name)

    def start(self, command):
        subprocess.run(command, env=self.environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=30)

    def start_controller(self):
        self.start(["slurmctld"])

    def end(self, name):
        """Kills the daemon whose process id the file has, as a power cut does."""
        try:
            process = int((self.folder / name).read_text())
            os.kill(process, 9)
        except (OSError, ValueError):
            return
        for _ in range(100):
            if not os.path.exists(f"/proc/{process}"):
                return
            time.sleep(0.05)

    def ask(self, *command):
        """What the command prints; nothing if it does not end."""
        try:
            return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30).stdout
        except subprocess.TimeoutExpired:
            return ""

    @staticmethod
    def wait_for(condition, what, seconds=60):
        end = time.time() + seconds
        while not condition():
            if time.time() > end:
                raise RuntimeError(f"waited {seconds} s for {what}")
            time.sleep(0.1)
