"""A step of a program that Rehearse has compiled (`rehearse export`), on a node: kernels are waited for, what is exchanged goes over Gloo."""
import json
import os
import time

import chakra

kAllReduce = 0  # of Chakra's kinds of collectives


def read(folder, rank):
    """Nodes of the rank's trace, and the ranks of each group that is not of all."""
    groups = {}
    if os.path.exists(path := os.path.join(folder, "step.groups.json")):
        with open(path) as file:
            groups = json.load(file)
    return chakra.read(os.path.join(folder, f"step.{rank}.et")), groups


def work_of(nodes, groups):
    """What takes time, by its number, each with all such work that it waits for: kernels, messages, collectives of several ranks."""
    def takes_time(node):
        if node["type"] == chakra.kCollective:
            return len(groups.get(node.get("pg_name"), (0, 1))) > 1
        return node["type"] in (chakra.kSend, chakra.kReceive) or (node["type"] == chakra.kCompute and node["seconds"] > 0)

    known = {}

    def awaited(number):
        if number not in known:
            known[number] = set()
            for earlier in nodes[number]["after"]:
                known[number] |= {earlier} if takes_time(nodes[earlier]) else awaited(earlier)
        return known[number]
    return {number: {**node, "after": sorted(awaited(number))} for number, node in nodes.items() if takes_time(node)}


def actions_of(work):
    """What a rank's only thread does in a step: ("compute", s); ("start", number) of a message or collective, once all is done that it waits
    for; ("wait", number) for its end, where something needs it, a step its collectives. That no time decides makes all ranks of a group start
    its collectives in the same order."""
    actions, started, done = [], set(), set()
    exchanges = [number for number, node in work.items() if node["type"] != chakra.kCompute]

    def start(number):
        if number not in started:
            started.add(number)
            actions.append(("start", number))

    def start_what_is_ready():
        for number in exchanges:
            if done.issuperset(work[number]["after"]):
                start(number)

    def finish(number):
        if number in done:
            return
        for earlier in work[number]["after"]:
            finish(earlier)
        if work[number]["type"] == chakra.kCompute:
            actions.append(("compute", work[number]["seconds"]))
        else:
            start(number)
            actions.append(("wait", number))
        done.add(number)
        start_what_is_ready()

    start_what_is_ready()  # receivers are there from the beginning
    for is_kernel in (True, False):
        for number, node in work.items():
            if (node["type"] == chakra.kCompute) == is_kernel and node["type"] != chakra.kSend:
                finish(number)
    return actions


class Replay:
    """The rank's trace of the folder `traces`, a step after the other."""

    def __init__(self, order):
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        import torch
        import torch.distributed as distributed
        torch.set_num_threads(1)
        self.distributed, self.rank, self.steps = distributed, order["rank"], order["steps"]
        distributed.init_process_group("gloo", init_method=f"tcp://{order['addresses'][0]}:{order['port']}", rank=self.rank, world_size=order["nodes"])
        nodes, groups = read(order["traces"], self.rank)
        self.groups = {name: distributed.new_group(ranks) for name, ranks in groups.items() if len(ranks) > 1}
        self.work = work_of(nodes, groups)
        self.actions = actions_of(self.work)
        self.tensors = {number: torch.zeros(-(-node["comm_size"] // 4)) for number, node in self.work.items() if node["type"] != chakra.kCompute}
        self.under_way = {}

    def run(self):
        for _ in range(self.steps):
            now = time.monotonic()  # of the kernels, which may be ahead of this thread
            for action, what in self.actions:
                if action == "compute":
                    now += what
                elif action == "wait":
                    self.under_way.pop(what).wait()
                    now = max(now, time.monotonic())
                else:
                    time.sleep(max(0.0, now - time.monotonic()))
                    if what in self.under_way:  # a message of the step before
                        self.under_way[what].wait()
                    self.under_way[what] = self.start(self.tensors[what], self.work[what])
            time.sleep(max(0.0, now - time.monotonic()))

    def start(self, tensor, node):
        if node["type"] == chakra.kSend:
            return self.distributed.isend(tensor, node["comm_dst"], tag=node["comm_tag"])
        if node["type"] == chakra.kReceive:
            return self.distributed.irecv(tensor, node["comm_src"], tag=node["comm_tag"])
        if node["comm_type"] != kAllReduce:
            raise ValueError(f"{node['name']}: c10d's Gloo has all-reduces, and no reduce-scatter")
        return self.distributed.all_reduce(tensor, group=self.groups.get(node.get("pg_name")), async_op=True)

    def close(self):
        for work in self.under_way.values():
            work.wait()
        self.distributed.destroy_process_group()
