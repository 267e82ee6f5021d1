"""The program `rehearse`, which does all that is not done in this process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Iterable, List, Mapping, Optional, Tuple

from ._rehearse import InputError, NoResultError

_HERE = Path(__file__).resolve().parent
_BAD_INPUT, _NO_RESULT, _INTERRUPTED = 2, 3, 130
_PLACE = re.compile(r"(?P<file>[^:]+): (?P<pointer>/[^:]*): ")


def program() -> Path:
    """The program beside this package, or that of the build folder which the package is in."""
    for place in (_HERE / "bin" / "rehearse", _HERE.parents[1] / "rehearse"):
        if place.is_file():
            return place
    raise FileNotFoundError(f"{_HERE}: the program rehearse is not beside the package")


def with_place(error: Exception) -> Exception:
    """The error with what its line names: .file and .pointer, None where it does not."""
    found = _PLACE.match(str(error))
    error.file = found["file"] if found else None  # type: ignore[attr-defined]
    error.pointer = found["pointer"] if found else None  # type: ignore[attr-defined]
    return error


def words(options: Mapping[str, Any]) -> List[str]:
    """Options of a command line: True is a flag, False and None are left out, a list repeats the option, and a dict is
    NAME=VALUE for each of its entries."""
    line = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(name)
            continue
        if isinstance(value, Mapping):
            value = [f"{place}={text_of(entry)}" for place, entry in value.items()]
        if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
            value = [value]
        for entry in value:
            line += [name, text_of(entry)]
    return line


def text_of(value: Any) -> str:
    """A value as the command line has it: Python's True is true, a list of values 1,2,3, an object JSON."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, (Mapping, list)):
        return json.dumps(value)
    if isinstance(value, (tuple, range)):
        return ",".join(text_of(entry) for entry in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def run(line: List[str], cwd: Optional[str] = None) -> Tuple[str, List[str]]:
    """What the program prints, and other lines that it says. Its errors are those of the package."""
    with subprocess.Popen([str(program()), *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, encoding="utf-8",
                          errors="replace") as process:
        try:
            printed, said = process.communicate()
        except KeyboardInterrupt:  # it keeps what is finished
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    lines = [text for text in said.splitlines() if text]
    prefix = "rehearse: warning: "
    for text in lines:
        if text.startswith(prefix):
            warnings.warn(text[len(prefix):], stacklevel=4)
    others = [text for text in lines if not text.startswith(prefix)]
    error = others[-1].removeprefix("rehearse: ") if others else ""
    if process.returncode == _BAD_INPUT:
        raise with_place(InputError(error))
    if process.returncode == _NO_RESULT:
        raise with_place(NoResultError(error))
    if process.returncode == _INTERRUPTED:
        raise KeyboardInterrupt
    if process.returncode != 0:
        raise RuntimeError(f"rehearse ended with {process.returncode}: {error}")
    return printed, others


def main() -> None:
    """The command of the wheel: the program, with the same arguments."""
    os.execv(program(), ["rehearse", *sys.argv[1:]])
