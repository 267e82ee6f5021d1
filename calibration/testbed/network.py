"""Nodes on a switch, as network namespaces that live as long as this process.

`enter()` starts the program again in a network, process and mount namespace of its own. All nodes are made in there, so nothing outside
is seen or changed, no packet gets out, and when the program ends, however it ends, the kernel takes all of it down.
"""
import ctypes
import os
import shutil
import subprocess
import sys

TOOLS = {"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool", "iptables": "iptables", "unshare": "util-linux"}
kInside = "REHEARSE_TESTBED_INSIDE"
kFewestBurst = 2  # packets that a link lets pass at once, below kTimed
kTimed = 300e6  # bit/s; above it a timer cannot wake for every packet or two,
kBurst = 500e-6  # s of the rate pass at once then: a credit that each transfer begins with
kQueue = 16 * 2**20  # B that wait before a link; above all windows together, so that only the stated loss loses packets
kEthernet = 14  # B of a frame's header, which the limits of links count; they know no preamble and no checksum


class TestbedError(Exception):
    pass


def missing_tools(tools):
    """Names of Debian's packages that are missing."""
    return sorted({package for tool, package in tools.items() if shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None})


def enter():
    """Returns inside of namespaces of our own. Needs root, or user namespaces."""
    if os.environ.get(kInside) and os.getpid() == 1:
        _check_inside()
        return
    missing = missing_tools(TOOLS)
    if missing:
        raise TestbedError("install " + " ".join(missing))
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
    if os.geteuid() != 0:
        command.append("--map-root-user")
    environment = dict(os.environ, **{kInside: "1"})
    os.execvpe(command[0], [*command, sys.executable, *sys.argv], environment)


def _check_inside():
    """Refuses to go on where anything but a new namespace's loopback is seen."""
    with open("/proc/self/net/dev") as file:
        names = [line.split(":")[0].strip() for line in file if ":" in line]
    if names != ["lo"]:
        raise TestbedError(f"this network is not a new one, it has {', '.join(names)}: nothing was touched")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")  # names of namespaces are kept there: ours are seen by us alone
    run("ip", "link", "set", "lo", "up")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise TestbedError(f"{' '.join(command)}: {result.stderr.strip().splitlines()[-1] if result.stderr.strip() else result.returncode}")
    return result.stdout


class Network:
    """`nodes` nodes on one switch, each on a link of its own."""

    def __init__(self, nodes, mtu):
        self.nodes, self.mtu, self.made, self.loss = nodes, mtu, [], 0.0

    def __enter__(self):
        try:
            run("ip", "link", "add", "switch", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
            self.made.append(("ip", "link", "delete", "switch"))
            run("ip", "link", "set", "switch", "mtu", str(self.mtu), "up")
            for node in range(self.nodes):
                self._add(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for command in reversed(self.made):
            run(*command)
        self.made.clear()

    def shape(self, rate, loss):
        """Each link passes `rate` bit/s in each direction; each packet that reaches a node is lost with probability `loss`, data and
        acknowledgements alike."""
        burst = int(kBurst * rate / 8) if rate > kTimed else kFewestBurst * (self.mtu + kEthernet)
        for node in range(self.nodes):
            for device, place in ((f"v{node}", []), ("eth0", self.inside(node))):
                run(*place, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{rate:.0f}bit", "burst", str(burst), "limit", str(kQueue))
            run(*self.inside(node, "iptables", "-t", "raw", "-F", "PREROUTING"))
            if loss > 0:
                run(*self.inside(node, "iptables", "-t", "raw", "-A", "PREROUTING", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability",
                                 f"{loss:.9f}", "-j", "DROP"))

    @staticmethod
    def address(node):
        return f"10.77.0.{node + 1}"

    @staticmethod
    def inside(node, *command):
        return ["ip", "netns", "exec", f"n{node}", *command]

    @staticmethod
    def _mac(node):
        return f"02:00:00:00:00:{node + 1:02x}"

    def _add(self, node):
        name, port, mtu = f"n{node}", f"v{node}", str(self.mtu)
        run("ip", "netns", "add", name)
        self.made.append(("ip", "netns", "delete", name))
        run("ip", "link", "add", port, "mtu", mtu, "type", "veth", "peer", "name", "eth0", "netns", name)
        self.made.append(("ip", "link", "delete", port))
        run("ip", "-n", name, "link", "set", "eth0", "address", self._mac(node), "mtu", mtu)
        for device, place in ((port, []), ("eth0", self.inside(node))):  # packets of the MTU, not bundles of them, are queued and lost
            run(*place, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")
        for setting in ("net.ipv4.tcp_no_metrics_save=1", "net.ipv6.conf.all.disable_ipv6=1"):
            run(*self.inside(node, "sysctl", "-q", "-w", setting))
        run("ip", "link", "set", port, "master", "switch", "up")
        run("ip", "-n", name, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "route", "replace", "10.77.0.0/24", "dev", "eth0", "src", self.address(node), "congctl", "cubic")
        for other in range(self.nodes):  # no ARP, whose loss would be measured
            if other != node:
                run("ip", "-n", name, "neigh", "replace", self.address(other), "lladdr", self._mac(other), "dev", "eth0", "nud", "permanent")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
