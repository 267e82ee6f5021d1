"""Scenarios, as files, dicts or objects whose fields are attributes."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Union

from . import _rehearse


class Fields:
    """A JSON object whose fields are attributes; those that are objects, or lists of them, likewise."""

    def __init__(self, fields: dict) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return _wrapped(self._fields[name])
        except KeyError:
            raise AttributeError(f"no field {name!r}; there are {', '.join(self._fields) or 'none'}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields[name] = _plain(value)

    def __delattr__(self, name: str) -> None:
        try:
            del self._fields[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return _wrapped(self._fields[name])

    def __setitem__(self, name: str, value: Any) -> None:
        self._fields[name] = _plain(value)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __dir__(self) -> list:
        return [*super().__dir__(), *self._fields]

    def __eq__(self, other: object) -> bool:
        return self._fields == _plain(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_json(self._fields, indent=2)})"

    def to_dict(self) -> dict:
        """A copy as plain dicts and lists."""
        return copy.deepcopy(self._fields)


class _List(list):
    """A list whose objects are Fields of the same objects."""

    def __getitem__(self, index: Any) -> Any:
        return _wrapped(super().__getitem__(index))

    def __iter__(self) -> Iterator[Any]:
        return (_wrapped(entry) for entry in super().__iter__())


def _json(value: Any, indent: Optional[int] = None) -> str:
    return json.dumps(value, indent=indent, default=lambda fields: fields._fields)


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Fields(value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Fields):
        return value._fields
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return _listed([_plain(entry) for entry in value])
    return value


def _listed(value: Any) -> Any:
    """The same, with lists that hand their objects out as Fields."""
    if isinstance(value, dict):
        return {key: _listed(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return _List(_listed(entry) for entry in list.__iter__(value))
    return value


class Scenario(Fields):
    """A scenario: Scenario.load(file), Scenario(dict), or Scenario(workload=..., cluster=..., training=...).

    Names of files in it are relative to its own file's folder, or to the current one.
    """

    def __init__(self, scenario: Optional[Mapping] = None, **fields: Any) -> None:
        plain = {"format": 1, **(_plain(scenario) or {}), **_plain(fields)}
        super().__init__(_listed(plain))
        object.__setattr__(self, "_file", "scenario")

    @classmethod
    def load(cls, file: Union[str, os.PathLike]) -> "Scenario":
        """Reads a scenario file, which may have comments. Raises InputError."""
        scenario = cls(json.loads(_rehearse.plain_json(_text_of(file), os.fspath(file))))
        object.__setattr__(scenario, "_file", os.fspath(file))
        return scenario

    def save(self, file: Union[str, os.PathLike]) -> None:
        """Writes it as a file, without comments."""
        path = Path(file)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as text:
            text.write(_json(self._fields, indent=2) + "\n")
        os.replace(text.name, path)


def _text_of(file: Union[str, os.PathLike]) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, ValueError) as error:
        from .program import with_place

        raise with_place(_rehearse.InputError(f"{os.fspath(file)}: cannot read: {getattr(error, 'strerror', error)}")) from None


Given = Union[str, os.PathLike, Mapping, Scenario]


def text_and_file(scenario: Given) -> tuple:
    """A scenario's JSON, and the file that messages name and that names in it are relative to."""
    if isinstance(scenario, Scenario):
        return _json(scenario._fields), scenario._file
    if isinstance(scenario, Mapping):
        return _json(_plain(scenario)), "scenario"
    return _text_of(scenario), os.fspath(scenario)


@contextlib.contextmanager
def as_file(scenario: Given) -> Iterator[str]:
    """The scenario as a file for the program: its own, or one beside it while the program runs."""
    if not isinstance(scenario, (Mapping, Scenario)):
        yield os.fspath(scenario)
        return
    text, file = text_and_file(scenario)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(file) or ".", prefix=".scenario-", suffix=".json") as written:
        written.write(text)
        written.flush()
        yield written.name
