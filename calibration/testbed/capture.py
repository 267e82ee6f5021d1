"""What crosses the nodes' NICs, as captures: tcpdump on each node, one file a node, for `rehearse traffic FOLDER`."""
import os
import select
import shutil
import signal
import subprocess
import time

import network

kSnapLength = 96  # B of a frame that are kept: headers and their options


class Captures:
    """While it is entered, all that leaves and reaches each node is written to `folder`, which begins empty."""

    def __init__(self, network_, folder):
        self.network, self.folder, self.processes = network_, folder, []

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        try:
            for node in range(self.network.nodes):
                self._start(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.processes:
            time.sleep(0.05)  # for the last packets
        for process in self.processes:
            process.send_signal(signal.SIGINT)  # it writes what it has
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stderr.close()

    def _start(self, node):
        path = os.path.join(self.folder, f"n{node}.pcap")
        command = self.network.inside(node, "tcpdump", "-i", "eth0", "-n", "-s", str(kSnapLength), "-Z", "root", "--immediate-mode",
                                      "--time-stamp-precision=nano", "-w", path, "tcp")
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=network.die_with_parent)
        self.processes.append(process)
        end, said = time.monotonic() + 20, ""
        while "listening on" not in said:  # from then on no packet is missed
            ready, _, _ = select.select([process.stderr], [], [], max(0, end - time.monotonic()))
            line = process.stderr.readline() if ready else ""
            if not line:
                raise network.TestbedError(f"node {node}: tcpdump: {said.strip() or 'did not begin'}")
            said += line
