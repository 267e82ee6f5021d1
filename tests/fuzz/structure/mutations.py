"""Changes of a file's structure: JSON documents, tables, listings, SQLite databases, zip archives, bytes, kinds of file.

Each takes a random.Random, so a seed gives the same change again."""

import csv
import io
import json
import os
import re
import sqlite3
import zipfile

HOSTILE_TEXTS = [
    "", " ", "NaN", "nan", "inf", "-inf", "null", "true", "0", "-1", "1e308", "1e309", "1e-320", "0x10", "1,5", "١٢",
    "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\x1b[31mred\x1b[0m", "a\nb", "a\rb", "\x00", "\x7f", "\x9b1m",
    "\u202etxt.exe\u202c", "\u2066left\u2069", "\u200b", "é", "\U0001f4a5", "e\u0301" * 40, "x" * 200, "y" * 5000,
    "../../../etc/passwd", "/dev/zero", "/", ".", "~", "a/b", "%s%n%x", "{}", "[]", "\"", "'", "\\", "<script>alert(1)</script>",
    "-->", "]]>", "//", "/*", "DROP TABLE rows;", "nothing-like-it", "resnet51", "V100", "K80", "all_reduce", "worker"]
QUANTITIES = ["0s", "-1s", "1e308s", "1e-308s", "1e400s", "nan s", "5", "5 s", "5sec", "5S", "1ns", "1000000d", "1us", "0ms", "1h",
              "0Gbps", "-1Gbps", "1e300GBps", "1e-300Bps", "25gbps", "25GB", "25Gb", "1bps", "1TBps", "1EBps", "0B", "1B", "-1B",
              "1e30B", "16EiB", "1KiB", "1.5B", "9223372036854775807B", "9223372036854775808B", "1flops", "0Tflops", "1e300flops", "1e-9s",
              "2020-01-15T08:00:00Z", "2020-02-30T08:00:00Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:60Z", "+1s", ".5s", "1.s", "1e3 ms"]
NUMBERS = [0, -1, 1, 2, 3, 7, 64, 1000, 65536, 65537, 1000000, 10000000, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63,
           2**64, 10**30, -2**63, -0.0, 0.5, 0.1, 1e-12, 1e-300, 5e-324, 1e15, 1e18, 1e100, 1e308, -1e308, -0.5, 1.0000001, 99.999]


class Object:
    """A JSON object whose keys may repeat."""

    def __init__(self, pairs):
        self.pairs = [list(pair) for pair in pairs]

    def keys(self):
        return [key for key, _ in self.pairs]

    def get(self, key):
        return next((value for known, value in self.pairs if known == key), None)

    def set(self, key, value):
        for pair in self.pairs:
            if pair[0] == key:
                pair[1] = value
                return
        self.pairs.append([key, value])

    def remove(self, key):
        self.pairs = [pair for pair in self.pairs if pair[0] != key]


class Raw:
    """Text that is written as it stands, JSON or not."""

    def __init__(self, text):
        self.text = text


def without_comments(text):
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda match: match.group(1) or "", text)


def parse(text):
    return json.loads(without_comments(text), object_pairs_hook=Object)


def to_text(node):
    """Iterative, so that a document may be nested deeper than Python's stack."""
    parts, stack = [], [node]
    while stack:
        item = stack.pop()
        if isinstance(item, Raw):
            parts.append(item.text)
        elif isinstance(item, Object):
            stack.append(Raw("}"))
            for number, (key, value) in enumerate(reversed(item.pairs)):
                stack.append(value)
                stack.append(Raw(("" if number == len(item.pairs) - 1 else ",") + json.dumps(key) + ":"))
            stack.append(Raw("{"))
        elif isinstance(item, list):
            stack.append(Raw("]"))
            for number, value in enumerate(reversed(item)):
                stack.append(value)
                if number != len(item) - 1:
                    stack.append(Raw(","))
            stack.append(Raw("["))
        else:
            parts.append(json.dumps(item))
    return "".join(parts)


def copy_of(node):
    if isinstance(node, Object):
        return Object([[key, copy_of(value)] for key, value in node.pairs])
    if isinstance(node, list):
        return [copy_of(item) for item in node]
    return node


def places(node, key=None):
    """Every (container, index, key above it) of a document, the root left out."""
    found, stack = [], [(node, key)]
    while stack:
        item, above = stack.pop()
        if isinstance(item, Object):
            for index, (name, value) in enumerate(item.pairs):
                found.append((item, index, name))
                stack.append((value, name))
        elif isinstance(item, list):
            for index, value in enumerate(item):
                found.append((item, index, above))
                stack.append((value, above))
    return found


def value_at(container, index):
    return container.pairs[index][1] if isinstance(container, Object) else container[index]


def put(container, index, value):
    if isinstance(container, Object):
        container.pairs[index][1] = value
    else:
        container[index] = value


class Vocabulary:
    """What keys shipped files and schemas know below a key, and which values they give each."""

    def __init__(self):
        self.children = {}  # key above -> {key: [values]}

    def learn(self, node, above=""):
        if isinstance(node, Object):
            for key, value in node.pairs:
                values = self.children.setdefault(above, {}).setdefault(key, [])
                if len(values) < 40:
                    values.append(value)
                self.learn(value, key)
        elif isinstance(node, list):
            for item in node:
                self.learn(item, above)

    def learn_schema(self, schema, above="", root=None, depth=0):
        root = root or schema
        if not isinstance(schema, dict) or depth > 40:
            return
        for key, below in schema.get("properties", {}).items():
            if not isinstance(below, dict):
                continue
            values = self.children.setdefault(above, {}).setdefault(key, [])
            values.extend(self.examples(below, root))
            self.learn_schema(below, key, root, depth + 1)
        for word in ("items", "additionalProperties"):
            self.learn_schema(schema.get(word), above, root, depth + 1)
        for word in ("oneOf", "anyOf", "allOf"):
            for option in schema.get(word, []):
                self.learn_schema(option, above, root, depth + 1)
        if "$ref" in schema and "$defs" in root:
            self.learn_schema(root["$defs"].get(schema["$ref"].split("/")[-1]), above, root, depth + 1)

    @staticmethod
    def examples(schema, root):
        name = schema.get("$ref", "").split("/")[-1]
        if name in ("time", "rate", "size"):
            return {"time": ["1ms", "10s", "1h"], "rate": ["1GBps", "10Gbps"], "size": ["1MB", "16GiB"]}[name]
        found = list(schema.get("enum", []))
        found += [schema[word] for word in ("const", "default", "minimum", "maximum") if word in schema]
        types = schema.get("type", [])
        types = types if isinstance(types, list) else [types]
        by_type = {"boolean": [True, False], "integer": [1, 2, 8], "number": [0.5, 1], "array": [[]], "object": [Object([])]}
        return found + [value for kind in types for value in by_type.get(kind, [])]

    def any_key(self, rng):
        return rng.choice(sorted(self.children[rng.choice(sorted(self.children))]))


def hostile_value(rng, old=None):
    """Another value of the same type, or of any."""
    if isinstance(old, str) and re.match(r"^-?[0-9.]", old) and rng.random() < 0.8:
        match = re.match(r"^(-?[0-9.eE+-]*[0-9.])(.*)$", old, re.S)
        if match and rng.random() < 0.6:
            number = rng.choice(["0", "-1", "1e308", "1e-308", "1e9", "1e-9", "1000", "0.001", "nan", "", "1e999", "2", "1"])
            return number + match.group(2)
        return rng.choice(QUANTITIES)
    if isinstance(old, bool) and rng.random() < 0.6:
        return not old
    if isinstance(old, (int, float)) and rng.random() < 0.8:
        change = rng.random()
        if change < 0.3:
            return old + rng.choice([-1, 1, 2, -0.5])
        if change < 0.5:
            return old * rng.choice([2, 10, 1000, -1, 0.5])
        return rng.choice(NUMBERS)
    if isinstance(old, str) and rng.random() < 0.7:
        if old and rng.random() < 0.4:
            at = rng.randrange(len(old))
            return old[:at] + rng.choice(["", "x", old[at].swapcase(), " ", "\u202e", "\n", "/"]) + old[at + 1:]
        return rng.choice(HOSTILE_TEXTS)
    return rng.choice([None, True, False, [], Object([]), "", rng.choice(NUMBERS), rng.choice(HOSTILE_TEXTS), rng.choice(QUANTITIES),
                       [rng.choice(NUMBERS)] * 3, Object([["a", 1]]), Raw(rng.choice(["NaN", "1e999", "-", "01", "+1", ".5", "undefined"])),
                       [[[]]], [None], [""]])


def mutate_document(rng, node, vocabulary):
    """One change of a JSON document, in place; returns the document."""
    found = places(node)
    if not found:
        return rng.choice([node, [], None, 1, "text", Object([])])
    # Upper places first half of the time: most places of a big document are leaves of one table.
    container, index, key = rng.choice(found if rng.random() < 0.5 else found[: max(1, min(len(found), 60))])
    old = value_at(container, index)
    kind = rng.randrange(16)
    if kind <= 4:
        put(container, index, hostile_value(rng, old))
    elif kind == 5:
        del (container.pairs if isinstance(container, Object) else container)[index]
    elif kind == 6 and isinstance(container, Object):
        container.pairs.insert(rng.randrange(len(container.pairs) + 1), [key, copy_of(rng.choice([old, hostile_value(rng, old)]))])
    elif kind == 7 and isinstance(container, Object):
        container.pairs[index][0] = rng.choice([key + "s", key[:-1], key.upper(), "", key + " ", rng.choice(HOSTILE_TEXTS), vocabulary.any_key(rng)])
    elif kind in (8, 9, 10) and isinstance(container, Object):
        # A key that files of this kind may have here, with a value that one of them gives it.
        above = next((name for other, at, name in found if value_at(other, at) is container), "")
        known = vocabulary.children.get(above) or vocabulary.children.get("", {})
        if known:
            name = rng.choice(sorted(known))
            values = known[name] or [1]
            value = copy_of(rng.choice(values))
            container.set(name, hostile_value(rng, value) if rng.random() < 0.3 else value)
    elif kind == 11:
        # A value that other files give this key.
        values = [value for names in vocabulary.children.values() for value in names.get(key, [])]
        if values:
            put(container, index, copy_of(rng.choice(values)))
    elif kind == 12:
        # Two places change their values.
        other, at, _ = rng.choice(found)
        first, second = copy_of(old), copy_of(value_at(other, at))
        put(container, index, second)
        put(other, at, first)
    elif kind == 13 and isinstance(old, list) and old:
        longer = rng.choice([2, 3, 10, 1000, 20000])
        size = sum(1 for _ in places(old)) + 1
        put(container, index, [item for _ in range(max(2, min(longer, 60000 // size))) for item in old])
    elif kind == 14 and rng.random() < 0.3:
        depth = rng.choice([10, 100, 1000, 100000])
        put(container, index, Raw(rng.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth])))
    elif kind == 15 and rng.random() < 0.3:
        put(container, index, rng.choice([["x"] * 100000, Object([[f"k{i}", i] for i in range(20000)]), "z" * 1000000, list(range(50000))]))
    else:
        put(container, index, hostile_value(rng, old))
    return node


def plausible_value(rng, old):
    """Another value that a user might have written instead; the same where none is known."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice([old + 1, max(1, old - 1), old * 2, max(1, old // 2), 1, 2, 3])
    if isinstance(old, float):
        return old * rng.choice([0.5, 0.9, 1.1, 2])
    match = re.match(r"^([0-9.]+)([A-Za-z]+)$", old) if isinstance(old, str) else None
    if match and match.group(1).count(".") <= 1 and match.group(1) != ".":
        return f"{float(match.group(1)) * rng.choice([0.5, 0.8, 1.25, 2, 10]):g}{match.group(2)}"
    return old


def change_plausibly(rng, node, vocabulary):
    """One change that may well be accepted, in place: so that runs get beyond the reading of their files."""
    found = places(node)
    if not found:
        return node
    container, index, key = rng.choice(found if rng.random() < 0.3 else found[: max(1, min(len(found), 60))])
    old = value_at(container, index)
    known = [value for names in vocabulary.children.values() for value in names.get(key, []) if type(value) is type(old)]
    kind = rng.randrange(10)
    if kind == 0 and isinstance(container, Object):
        del container.pairs[index]
    elif kind <= 2 and isinstance(container, Object):
        above = next((name for other, at, name in found if value_at(other, at) is container), "")
        names = vocabulary.children.get(above) or {}
        if names:
            name = rng.choice(sorted(names))
            container.set(name, copy_of(rng.choice(names[name] or [1])))
    elif kind <= 5 and known:
        put(container, index, copy_of(rng.choice(known)))
    elif kind == 6 and isinstance(old, list) and old:
        put(container, index, copy_of(old) + [copy_of(rng.choice(old))])
    else:
        put(container, index, plausible_value(rng, old))
    return node


def mutate_json(rng, text, vocabulary, most=3):
    try:
        node = parse(text)
    except (ValueError, RecursionError):  # after an earlier change
        return text
    for _ in range(rng.choice([1, 1, 1, 2, most])):
        node = mutate_document(rng, node, vocabulary)
    return to_text(node)


def mutate_table(rng, text):
    """One change of a CSV's rows and columns."""
    lines = text.splitlines()
    rows = list(csv.reader(lines))
    if not rows or not rows[0]:
        return rng.choice(HOSTILE_TEXTS)
    if rng.random() < 0.25:
        return change_table_plausibly(rng, rows)
    cell_row = rng.randrange(len(rows))
    column = rng.randrange(len(rows[0]))
    kind = rng.randrange(14)
    delimiter = ","
    if kind <= 4:
        row = rows[cell_row]
        if row:
            at = rng.randrange(len(row))
            row[at] = str(rng.choice([rng.choice(HOSTILE_TEXTS), rng.choice(NUMBERS), rng.choice(QUANTITIES), row[at] + "x", "-" + row[at]]))
    elif kind == 5:
        rows = [row[:column] + row[column + 1:] for row in rows]
    elif kind == 6:
        rows[0][column] = rng.choice([rows[0][0], rng.choice(HOSTILE_TEXTS), rows[0][column] + "_x"])
    elif kind == 7:
        for row in rows[1:]:
            if column < len(row):
                row[column] = str(rng.choice(NUMBERS + HOSTILE_TEXTS))
    elif kind == 8:
        del rows[cell_row]
    elif kind == 9:
        rows = rows[:1] + [row for row in rows[1:] for _ in range(rng.choice([2, 3, 50]))]
    elif kind == 10:
        head, body = rows[:1], rows[1:]
        rng.shuffle(body)
        rows = head + body
    elif kind == 11:
        delimiter = rng.choice([";", "\t", " ", "|"])
    elif kind == 12:
        rows[cell_row] = rows[cell_row] + ["1"] if rng.random() < 0.5 else rows[cell_row][:-1]
    else:
        rows = rng.choice([rows[:1], rows[1:], rows[:2], [[]], rows[:1] * 2 + rows[1:]])
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=rng.choice(["\n", "\n", "\n", "\r\n", "\r"])).writerows(rows)
    return out.getvalue()


def change_table_plausibly(rng, rows):
    """Numbers scaled, rows left out, repeated or in another order: what other measurements might be."""
    head, body = rows[:1], rows[1:]
    for _ in range(rng.choice([1, 3, 20])):
        row = rng.choice(body) if body else []
        numbers = [at for at, cell in enumerate(row) if re.match(r"^[0-9]+(\.[0-9]*)?$", cell)]
        if numbers:
            at = rng.choice(numbers)
            row[at] = str(plausible_value(rng, float(row[at]) if "." in row[at] else int(row[at])))
    if len(body) > 1 and rng.random() < 0.5:
        body = rng.choice([body[:-1], body[1:], body + body[-1:], body[::-1]])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(head + body)
    return out.getvalue()


def mutate_listing(rng, text):
    """One change of a text's lines and numbers."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(8)
    if kind <= 2:
        numbers = [match for match in re.finditer(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]
        if numbers:
            match = rng.choice(numbers)
            return text[: match.start()] + str(rng.choice(NUMBERS + ["nan", "inf", "", "x"])) + text[match.end():]
    if kind == 3:
        del lines[at]
    elif kind == 4:
        lines[at:at] = [lines[at]] * rng.choice([1, 2, 1000])
    elif kind == 5:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 6:
        words = lines[at].split(" ")
        words[rng.randrange(len(words))] = rng.choice(HOSTILE_TEXTS)
        lines[at] = " ".join(words)
    else:
        lines[at] = rng.choice(HOSTILE_TEXTS) + lines[at]
    return "\n".join(lines)


def mutate_bytes(rng, data):
    """One change that knows nothing of the format."""
    kind = rng.randrange(11)
    at = rng.randrange(len(data)) if data else 0
    end = min(len(data), at + rng.choice([1, 4, 64, 4096]))
    if kind <= 2:
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            if changed:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if kind == 3:
        return data[:at]
    if kind == 4:
        return data[:at] + data[end:]
    if kind == 5:
        return data[:end] + data[at:end] * rng.choice([1, 3, 100]) + data[end:]
    if kind == 6:
        return data[:at] + bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 64]))) + data[at:]
    if kind == 7:
        return data[:at] + rng.choice([b"\0" * 8, b"\xff" * 8, b"\x80", b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80"]) + data[end:]
    if kind == 8:
        return rng.choice([b"", b"\0", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r"),
                           data + data, data[::-1], data.decode("latin1").encode("utf-16")])
    if kind == 9:
        changed = bytearray(data)
        changed[at:at + 8] = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1]).to_bytes(8, rng.choice(["little", "big"]))
        return bytes(changed)
    return data[:at] + data[at:end][::-1] + data[end:]


def mutate_database(rng, path):
    """One change of an SQLite file's rows or tables, in place."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")]
        if not tables:
            return
        table = rng.choice(sorted(tables))
        columns = [row[1] for row in connection.execute(f'pragma table_info("{table}")')]
        column = rng.choice(columns)
        some_row = f'(select rowid from "{table}" limit 1 offset {rng.randrange(3)})'
        kind = rng.randrange(10)
        value = rng.choice(NUMBERS[:19] + [1e308, float("inf"), None, b"\0\xff" * 9, "", "text", "{}", "[" * 200] + HOSTILE_TEXTS)
        if kind <= 3:
            connection.execute(f'update or ignore "{table}" set "{column}" = ? where rowid = {some_row}', (value,))
        elif kind == 4:
            connection.execute(f'update or ignore "{table}" set "{column}" = ?', (value,))
        elif kind == 5:
            connection.execute(f'delete from "{table}" where rowid = {some_row}')
        elif kind == 6:
            connection.execute(rng.choice([f'drop table "{table}"', f'delete from "{table}"', f'alter table "{table}" rename to other']))
        elif kind == 7:
            connection.execute(f'alter table "{table}" rename column "{column}" to other')
        elif kind == 8:
            blob = connection.execute(f'select "{column}" from "{table}" where rowid = {some_row}').fetchone()
            if blob and isinstance(blob[0], (bytes, str)) and blob[0]:
                data = blob[0] if isinstance(blob[0], bytes) else blob[0].encode()
                data = mutate_bytes(rng, data)
                changed = data if isinstance(blob[0], bytes) else data.decode("latin1")
                connection.execute(f'update or ignore "{table}" set "{column}" = ? where rowid = {some_row}', (changed,))
        else:
            connection.execute(rng.choice(["pragma user_version = 99", "pragma application_id = 7", "create table other (a)"]))
    except (sqlite3.Error, OverflowError):
        pass
    finally:
        connection.close()


def mutate_archive(rng, data):
    """One change of a zip archive's records."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            records = [[info.filename, archive.read(info)] for info in archive.infolist()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return mutate_bytes(rng, data)
    at = rng.randrange(len(records))
    kind = rng.randrange(7)
    compression = zipfile.ZIP_STORED
    if kind == 0:
        del records[at]
    elif kind == 1:
        records.insert(at, list(records[at]))
    elif kind == 2:
        records[at][0] = rng.choice(["", "x", "../" + records[at][0], records[at][0] + "x", "a" * 5000])
    elif kind <= 4:
        records[at][1] = mutate_bytes(rng, records[at][1])
    elif kind == 5:
        compression = zipfile.ZIP_DEFLATED
    else:
        records[at][1] = rng.choice([b"", records[at][1] * 3, records[rng.randrange(len(records))][1], b"\0" * 1000000])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, content in records:
                archive.writestr(zipfile.ZipInfo(name or "x"), content, compression)
    return out.getvalue()


def replace_by_other_kind(rng, path):
    """The path becomes something that is not a plain file; returns which."""
    if os.path.lexists(path):
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil
            shutil.rmtree(path)
        else:
            os.unlink(path)
    kind = rng.choice(["fifo", "zero", "random", "null", "full", "directory", "loop", "dangling", "missing", "sparse", "unreadable", "tty"])
    if kind == "fifo":
        os.mkfifo(path)
    elif kind in ("zero", "random", "null", "full", "tty"):
        os.symlink("/dev/" + {"random": "urandom"}.get(kind, kind), path)
    elif kind == "directory":
        os.mkdir(path)
    elif kind == "loop":
        os.symlink(os.path.basename(path), path)
    elif kind == "dangling":
        os.symlink("nothing", path)
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(3 * 2**30)
    elif kind == "unreadable":
        with open(path, "w") as file:
            file.write("{}")
        os.chmod(path, 0)
    return kind
