"""What runs on a node: one workload, repeated. Started by testbed.py in the node's network namespace; orders come as lines of JSON on stdin,
answers go to stdout. All nodes share the machine's monotonic clock, so that an order names the moment at which everybody begins."""
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from open_mpi import MpiAllReduce
from replay import Replay

kChunk = 1 << 20


def counters():
    """Of this node's TCP since it began, and what has left and reached its NIC: packets with their Ethernet headers."""
    found = {}
    for path in ("/proc/self/net/snmp", "/proc/self/net/netstat"):
        with open(path) as file:
            lines = file.read().splitlines()
        for names, values in zip(lines[::2], lines[1::2]):
            if names.startswith(("Tcp:", "TcpExt:")):
                found.update(zip(names.split()[1:], map(int, values.split()[1:])))
    with open("/proc/self/net/dev") as file:
        nic = next(line for line in file if line.strip().startswith("eth0:")).split(":")[1].split()
    return {"sent_segments": found["OutSegs"], "retransmitted": found["RetransSegs"], "timeouts": found.get("TCPTimeouts", 0),
            "probes": found.get("TCPLossProbes", 0), "sent_bytes": int(nic[8]), "received_bytes": int(nic[0])}


def connected(address, port):
    end = time.monotonic() + 30
    while True:
        try:
            link = socket.create_connection((address, port), timeout=60)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def accepted(address, port, count):
    listener = socket.create_server((address, port), backlog=64)
    links = []
    for _ in range(count):
        link, _ = listener.accept()
        link.settimeout(120)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        links.append(link)
    listener.close()
    return links


def receive(link, size, into):
    view = memoryview(into)
    while size > 0:
        got = link.recv_into(view[: min(size, len(view))])
        if got == 0:
            raise OSError("the other end is gone")
        size -= got


def receive_into(link, view):
    at = 0
    while at < len(view):
        got = link.recv_into(view[at:])
        if got == 0:
            raise OSError("the other end is gone")
        at += got


def together(actions):
    """Runs each action in a thread of its own; the first failure is raised."""
    failures = []

    def guarded(action):
        try:
            action()
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=guarded, args=(action,)) for action in actions[1:]]
    for thread in threads:
        thread.start()
    guarded(actions[0])
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def parts(size, count):
    """`size` bytes in `count` parts that differ by at most one."""
    return [size // count + (i < size % count) for i in range(count)]


class Transfer:
    """Node 0 sends to node 1, over one connection or several that share the bytes."""

    def __init__(self, order):
        self.sends = order["rank"] == 0
        self.sizes = parts(order["bytes"], order["connections"])
        if self.sends:
            self.links = [connected(order["addresses"][1], order["port"]) for _ in self.sizes]
        else:
            self.links = accepted(order["addresses"][1], order["port"], len(self.sizes))
        self.buffers = [bytearray(min(max(size, 1), kChunk)) for size in self.sizes]

    def run(self):
        together([(lambda link=link, size=size, buffer=buffer: self.send(link, size, buffer) if self.sends else receive(link, size, buffer))
                  for link, size, buffer in zip(self.links, self.sizes, self.buffers)])

    @staticmethod
    def send(link, size, buffer):
        while size > 0:
            part = min(size, len(buffer))
            link.sendall(memoryview(buffer)[:part])
            size -= part


def load_torch():
    """PyTorch on one thread; imported where it is needed, as it takes seconds."""
    import torch
    torch.set_num_threads(1)
    return torch


class Computation:
    """A step of a chain of square dense layers: for real, on one thread, or by waiting for as long as that was measured to take."""

    def __init__(self, order):
        self.layers, self.width, self.times = order["layers"], width_of(order["bytes"], order["layers"]), order.get("times")
        if not self.times:
            library = load_torch()
            self.weights = [library.randn(self.width, self.width).mul_(self.width ** -0.5).requires_grad_() for _ in range(self.layers)]
            self.samples = library.randn(order["batch"], self.width)
            self.tanh = library.tanh

    def run(self, ready):
        """Forward, then backward; `ready` gets the number of each layer, last first, with its gradient (None if it waited)."""
        if self.times:
            time.sleep(self.times["forward"])
            for layer in reversed(range(self.layers)):
                time.sleep(self.times["backward"] / self.layers)
                ready(layer, None)
            return
        hooks = [weight.register_hook(lambda gradient, layer=layer: ready(layer, gradient)) for layer, weight in enumerate(self.weights)]
        value = self.samples
        for weight in self.weights:
            value = self.tanh(value @ weight)
        self.forward_end = time.monotonic()
        value.square().mean().backward()
        for hook in hooks:
            hook.remove()

    def update(self, gradients):
        if self.times:
            time.sleep(self.times["update"])
            return
        for weight, gradient in zip(self.weights, gradients):
            weight.data.add_(gradient.view_as(weight), alpha=-0.01)
            weight.grad = None

    def measure(self, repetitions=20):
        """Medians of forward, backward and update, in s, of a step without communication."""
        found = []
        for _ in range(repetitions + 3):
            gradients = [None] * self.layers
            begin = time.monotonic()
            self.run(lambda layer, gradient: gradients.__setitem__(layer, gradient.clone()))
            middle = time.monotonic()
            self.update(gradients)
            found.append((self.forward_end - begin, middle - self.forward_end, time.monotonic() - middle))
        return dict(zip(("forward", "backward", "update"), map(statistics.median, zip(*found[3:]))))


def width_of(size, layers):
    """Of square layers of fp32 numbers that take about `size` bytes together."""
    return max(1, round((size / 4 / layers) ** 0.5))


class GlooAllReduce:
    """The all-reduce of PyTorch's c10d over Gloo, of fp32 numbers; with layers: data-parallel training, each gradient summed as soon as it
    is there, the update when all are."""

    def __init__(self, order):
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        library = load_torch()
        import torch.distributed  # is not loaded with torch
        self.distributed, self.steps = library.distributed, order["steps"]
        self.distributed.init_process_group("gloo", init_method=f"tcp://{order['addresses'][0]}:{order['port']}", rank=order["rank"], world_size=order["nodes"])
        self.computation = Computation(order) if order["layers"] else None
        count = self.computation.width ** 2 if self.computation else max(1, order["bytes"] // 4)
        self.tensors = [library.ones(count) for _ in range(order["layers"] or 1)]

    def run(self):
        for _ in range(self.steps):
            if self.computation is None:
                self.distributed.all_reduce(self.tensors[0])
                continue
            works = []
            self.computation.run(lambda layer, gradient: works.append(self.begin(layer, gradient)))
            for work in works:
                work.wait()
            self.computation.update(self.tensors)

    def begin(self, layer, gradient):
        if gradient is not None:
            self.tensors[layer].copy_(gradient.reshape(-1))
        return self.distributed.all_reduce(self.tensors[layer], async_op=True)

    def close(self):
        self.distributed.destroy_process_group()


class Server:
    """Parameter servers: the first nodes hold a part of the bytes each, the others push gradients to them and pull parameters. Synchronous:
    a server answers when all workers' gradients are in it; asynchronous: each worker at once, when its own are."""

    def __init__(self, order):
        import numpy
        servers, rank, workers = order["servers"], order["rank"], order["nodes"] - order["servers"]
        self.steps, self.is_synchronous = order["steps"], order["mode"] == "synchronous"
        self.computation = Computation(order) if order["layers"] and rank >= servers else None
        sizes = [max(1, size // 4) for size in parts(order["bytes"], servers)]
        self.is_server, self.starts_after = rank < servers, (rank - servers) * order["start_interval"]
        if self.is_server:
            self.links = accepted(order["addresses"][rank], order["port"], workers)
            self.parameters = numpy.zeros(sizes[rank], numpy.float32)
            self.gradients = [numpy.zeros(sizes[rank], numpy.float32) for _ in range(workers)]
            self.all_in = threading.Barrier(workers, action=self.update)
            self.lock = threading.Lock()
        else:
            self.links = [connected(order["addresses"][server], order["port"]) for server in range(servers)]
            self.gradients = [numpy.ones(size, numpy.float32) for size in sizes]
            self.copies = [numpy.zeros(size, numpy.float32) for size in sizes]

    def update(self):
        for gradient in self.gradients:
            self.parameters += gradient

    def run(self):
        if self.is_server:
            together([lambda link=link, gradient=gradient: self.serve(link, gradient) for link, gradient in zip(self.links, self.gradients)])
            return None
        time.sleep(self.starts_after)
        begin = time.monotonic()
        for _ in range(self.steps):
            if self.computation:
                computed = []
                self.computation.run(lambda layer, gradient: computed.append(gradient))
                self.computation.update(computed)
            together([lambda link=link, gradient=gradient, copy=copy: self.exchange(link, gradient, copy)
                      for link, gradient, copy in zip(self.links, self.gradients, self.copies)])
        return time.monotonic() - begin

    def serve(self, link, gradient):
        for _ in range(self.steps):
            receive_into(link, memoryview(gradient).cast("B"))
            if self.is_synchronous:
                self.all_in.wait(120)
            else:
                with self.lock:
                    self.parameters += gradient
            link.sendall(memoryview(self.parameters).cast("B"))

    @staticmethod
    def exchange(link, gradient, copy):
        link.sendall(memoryview(gradient).cast("B"))
        receive_into(link, memoryview(copy).cast("B"))


class Iperf3:
    """iperf3 sends so many bytes from node 0 to node 1, and says how long that took."""

    def __init__(self, order):
        self.rank, self.address, self.port, self.bytes = order["rank"], order["addresses"][1], str(order["port"]), str(order["bytes"])

    def run(self):
        if self.rank == 1:
            subprocess.run(["iperf3", "--server", "--one-off", "--port", self.port], stdout=subprocess.DEVNULL, check=True)
            return None
        time.sleep(0.3)  # until the server listens
        result = subprocess.run(["iperf3", "--client", self.address, "--port", self.port, "--bytes", self.bytes, "--json"], stdout=subprocess.PIPE)
        said = json.loads(result.stdout)
        if "error" in said:
            raise OSError(f"iperf3: {said['error']}")
        return said["end"]["sum_received"]["seconds"]


def close(workload):
    if hasattr(workload, "close"):
        workload.close()
    for link in getattr(workload, "links", ()):
        link.close()


kWorkloads = {"transfer": Transfer, "all_reduce_gloo": GlooAllReduce, "all_reduce_mpi": MpiAllReduce, "server": Server, "iperf3": Iperf3, "tensor": Replay, "pipeline": Replay}


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for testbed.py, which ends the nodes
    os.dup2(2, 1)  # what a library prints is no answer
    workload = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "prepare":
                close(workload)
                workload = kWorkloads[order["workload"]](order)
                answer = {}
            elif order["do"] == "compute":
                answer = Computation(order).measure()
            elif order["do"] == "count":
                answer = counters()
            else:
                time.sleep(max(0.0, order["at"] - time.monotonic()))
                stated = workload.run()
                answer = {"end": time.monotonic() if stated is None else order["at"] + stated}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
