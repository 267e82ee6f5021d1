"""The all-reduce of OpenMPI between nodes, over TCP alone: rank 0's node starts mpirun, which starts each other rank in the namespace of its
node through `mpi_agent.sh`. A rank is this file as a program; it takes orders from its node over a local socket.

OpenMPI polls while it waits, and would keep every processor busy. It is asked to yield when nothing happens, and the call by which it does
is replaced by a sleep of kNap: that much later at most it notices what has arrived, which the kernel's TCP takes in meanwhile."""
import ctypes
import ctypes.util
import os
import socket
import subprocess
import sys
import time

from network import die_with_parent

kNap = 50e-6  # s
kFolder = "/run/rehearse-mpi"  # on the file system of the testbed's own
kInPlace = ctypes.c_void_p(1)
kRing = {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": 4}
kEager = {"btl_tcp_eager_limit": 5 << 20, "btl_tcp_rndv_eager_limit": 5 << 20}  # B; 64 KiB unless stated: the rest of a message waits to be asked for
kModes = {"": {}, "ring": kRing, "ring_eager": {**kRing, **kEager}}  # by default the algorithm is OpenMPI's choice
kSleepInsteadOfYield = "#include <time.h>\nint sched_yield(void) { struct timespec nap = {0, %d}; return nanosleep(&nap, 0); }\n" % round(kNap * 1e9)


def socket_name(port):
    return f"\0rehearse-mpi-{port}"  # abstract: of a network namespace, without a file


class MpiAllReduce:
    """The blocking MPI_Allreduce of fp32 numbers in place."""

    def __init__(self, order):
        if order["layers"]:
            raise ValueError("trainings run over Gloo and servers alone")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(socket_name(order["port"]))
        listener.listen(1)
        listener.settimeout(60)
        self.mpirun = start_mpirun(order) if order["rank"] == 0 else None
        self.link, _ = listener.accept()
        listener.close()
        self.link.settimeout(120)
        self.answers = self.link.makefile()

    def run(self):
        begin = time.monotonic()
        self.link.sendall(b"run\n")
        line = self.answers.readline()
        if not line:
            raise OSError("the rank has ended")
        return float(line) - begin

    def close(self):
        self.link.shutdown(socket.SHUT_RDWR)  # the rank ends with it
        if self.mpirun:
            try:
                self.mpirun.wait(30)
            except subprocess.TimeoutExpired:
                self.mpirun.kill()


def start_mpirun(order):
    os.makedirs(kFolder, exist_ok=True)
    library = os.path.join(kFolder, "nap.so")
    if not os.path.exists(library):
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", library], input=kSleepInsteadOfYield, text=True, check=True)
    here = os.path.dirname(os.path.abspath(__file__))
    settings = {"plm_rsh_agent": os.path.join(here, "mpi_agent.sh"), "plm_rsh_no_tree_spawn": 1, "orte_tmpdir_base": kFolder, "oob_tcp_if_include": "eth0",
                "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "eth0", "mpi_yield_when_idle": 1, **kModes[order["mode"]]}
    command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", str(order["nodes"]), "--host", ",".join(f"{address}:1" for address in order["addresses"]),
               *(word for name, value in settings.items() for word in ("--mca", name, str(value))), "-x", f"LD_PRELOAD={library}",
               sys.executable, os.path.abspath(__file__), str(order["port"]), str(order["bytes"]), str(order["steps"])]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)


def rank(port, size, steps):
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: naps end when they should
    mpi = ctypes.CDLL(ctypes.util.find_library("mpi") or "libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, number, total = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name))) for name in ("ompi_mpi_comm_world", "ompi_mpi_float", "ompi_mpi_op_sum"))
    mpi.MPI_Init(None, None)
    count = max(1, size // 4)
    tensor = (ctypes.c_float * count)()
    link = socket.socket(socket.AF_UNIX)
    link.connect(socket_name(port))
    for _ in link.makefile():
        for _ in range(steps):
            mpi.MPI_Allreduce(kInPlace, tensor, count, number, total, world)
        link.sendall(f"{time.monotonic():.9f}\n".encode())
    mpi.MPI_Finalize()


if __name__ == "__main__":
    rank(*map(int, sys.argv[1:4]))
