"""What must hold of each run: its exit code, its lines of error, the files that it wrote and those that it left alone."""

import csv
import hashlib
import json
import os
import re
import signal
import stat

from structure import mutations
from structure.shipped import read_text


def snapshot(folder):
    """Each path below a folder with what it is and holds."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(root, name)
            info = os.lstat(path)
            content = ""
            if stat.S_ISREG(info.st_mode) and info.st_size < 2**24:
                try:
                    with open(path, "rb") as file:
                        content = hashlib.md5(file.read()).hexdigest()
                except OSError:
                    content = "unreadable"
            elif stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, folder)] = (stat.S_IFMT(info.st_mode), content)
    return found


HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe]")


def check_files(case, before, after, problems):
    """What was written can be read, and hides nothing."""
    for name in sorted(set(after) - set(before)):
        path = os.path.join(case.folder, name)
        if re.search(r"\.tmp\b|\.tmp$|~$|-journal$|-wal$|-shm$", name):
            problems.append(f"left behind {re.sub('[0-9]+', 'N', os.path.basename(name))}")
        if not os.path.isfile(path) or os.path.getsize(path) > 5e6:
            continue
        if name.endswith(".csv"):
            text = read_text(path)
            if HARMFUL.search(text.replace("\r\n", "\n")):
                problems.append(f"control characters in {os.path.basename(name)}")
            try:
                csv.field_size_limit(10**8)
                for row in csv.reader(text.splitlines(True)):
                    bad = [cell for cell in row if re.match(r"[=+@\t\r]|-(?![0-9.])", cell) and not re.match(r"^[+-]?[0-9.]+(e[+-]?\d+)?$", cell)]
                    if bad:
                        problems.append(f"a formula in {os.path.basename(name)}: {bad[0][:60]!r}")
                        break
            except csv.Error as error:
                problems.append(f"unreadable {os.path.basename(name)}: {error}")
        elif name.endswith(".json"):
            try:
                text = read_text(path)
                json.loads(mutations.without_comments(text) if case.verb == "init" else text, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))
            except (ValueError, RecursionError) as error:
                problems.append(f"{os.path.basename(name)} is no JSON: {str(error)[:80]}")


def input_texts(case):
    """What the user named, in files and thus in what is printed."""
    texts = []
    for folder, _, names in os.walk(case.inputs):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                texts.append(read_text(path))
    return "\n".join(texts)


def check(case, code, out, err, wall, cpu, was_killed, before, after):
    problems = []
    if was_killed:
        problems.append(f"beyond its limit: {wall:.0f} s, {cpu:.1f} s of processor time")
        return problems
    if code == -signal.SIGINT and case.interrupted_after is not None:
        code = 130  # before the program could catch it
    if code < 0:
        problems.append(f"signal {-code}")
    elif code not in (0, 2, 3) and not (code == 130 and case.interrupted_after is not None):
        problems.append(f"exit code {code}")
    lines = [line for line in err.split("\n") if line]
    errors = [line for line in lines if line.startswith("rehearse") and not line.startswith("rehearse: warning: ")]
    others = [line for line in lines if not line.startswith("rehearse")]
    if code in (2, 3):
        if len(errors) != 1 or lines[-1] != errors[0]:
            problems.append(f"{len(errors)} lines of error on exit {code}")
        stray = [line for line in others if not re.match(r"(warning: |note: |\s*\d|.*(%|left|so far|of \d|simulat|steps))", line)]
        if stray and "--quiet" in case.arguments:
            problems.append(f"a line that is no error: {stray[0][:80]!r}")
        for line in errors[:1]:
            text = line.split(": ", 1)[-1]
            is_named = re.search(r"/|--?[a-z]|\.json|\.csv|see rehearse|^(A subcommand|[A-Z]+ is required)", text) or case.verb + ":" in line
            is_result = code == 3 and re.match(r"no plan of |every worker has left|the job waits for|not finished after", text)
            if not is_named and not is_result and not any(word and word in line for word in case.arguments if len(word) > 2 or word == line.split(": ")[1]):
                problems.append(f"names no file or option: {text[:100]!r}")
        if code == 2 and out.strip():
            problems.append("a refusal prints on stdout")
    if code == 2:
        changed = sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name) and ".rehearse-new-" not in name)
        if changed:
            problems.append(f"a refusal changed {[re.sub('[0-9]+', 'N', name)[:60] for name in changed[:3]]}")
    lost = sorted(name for name in before if (name.startswith("inputs/") or name.endswith("mine.txt")) and before[name] != after.get(name))
    if lost:
        problems.append(f"the user's own files changed: {lost[:3]}")
    if code == 0 and others and "--quiet" in case.arguments and case.verb != "calibrate" and not all(re.match(r"(rehearse: )?(warning|note): ", line) for line in others):
        problems.append(f"--quiet, and yet {others[0][:80]!r}")
    for name, text in (("stderr", err), ("stdout", out)):
        match = HARMFUL.search(text)
        if match:
            problems.append(f"control character U+{ord(match.group()):04X} on {name}")
    is_users_word = re.search(r"\bnan\b|\binf\b", " ".join(case.arguments) + input_texts(case), re.IGNORECASE)
    if code == 0 and not is_users_word and re.search(r"(?<![\w/.\-'\"])-?(nan|inf)(?![\w'\"])", out):
        problems.append("nan or inf on stdout")
    check_files(case, before, after, problems)
    return problems
