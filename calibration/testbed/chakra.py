"""Chakra's execution traces, as `rehearse export` writes them: messages of protocol buffers, each behind its length
(workloads/traces/chakra.proto)."""
import struct

kCompute, kSend, kReceive, kCollective = 4, 5, 6, 7  # types of nodes
kText = 29  # the field of an attribute that is one


def number(data, at):
    """The number at a place of the data, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def fields_of(message):
    """Numbers and values of a message's fields: numbers, or bytes."""
    at = 0
    while at < len(message):
        key, at = number(message, at)
        kind = key & 7
        if kind in (1, 5):  # of 8 and of 4 bytes
            size = 8 if kind == 1 else 4
            value, at = struct.unpack_from("<d" if kind == 1 else "<f", message, at)[0], at + size
        else:
            value, at = number(message, at)
            if kind == 2:
                value, at = message[at:at + value], at + value
        yield key >> 3, value


def numbers(packed):
    at, found = 0, []
    while at < len(packed):
        value, at = number(packed, at)
        found.append(value)
    return found


def node_of(message):
    """{"id", "type", "name", "after": the nodes that it waits for, "seconds"} and its attributes."""
    node = {"id": 0, "after": [], "seconds": 0.0}
    for field, value in fields_of(message):
        if field == 10:
            (_, name), (kind, of_it) = fields_of(value)
            node[name.decode()] = of_it.decode() if kind == kText else of_it
        elif field in (4, 5):
            node["after"] += numbers(value)
        elif field == 7:
            node["seconds"] = value * 1e-6
        elif field in (1, 3):
            node["id" if field == 1 else "type"] = value
        elif field == 2:
            node["name"] = value.decode()
    if "rehearse.duration_ns" in node:  # where microseconds are not exact
        node["seconds"] = node["rehearse.duration_ns"] * 1e-9
    return node


def read(path):
    """A rank's nodes by their ids, in their order."""
    with open(path, "rb") as file:
        data = file.read()
    messages, at = [], 0
    while at < len(data):
        size, at = number(data, at)
        messages.append(data[at:at + size])
        at += size
    nodes = map(node_of, messages[1:])  # the first is of the file
    return {node["id"]: node for node in sorted(nodes, key=lambda node: node["id"])}
