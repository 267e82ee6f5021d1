"""What commands give: mappings whose keys, with units in their names, are attributes too."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Dict, Iterator, Optional


class Result(Mapping):
    """A JSON object that a command has printed. `text` is what it printed, byte for byte."""

    def __init__(self, text: str, files: Optional[Dict[str, str]] = None) -> None:
        self.text = text
        self.files = files or {}
        self._values = json.loads(text)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except (KeyError, TypeError):
            raise AttributeError(f"no key {name!r}; there are {', '.join(self)}") from None

    def __dir__(self) -> list:
        return [*super().__dir__(), *self]

    def to_dict(self) -> dict:
        return json.loads(self.text)

    def report(self) -> Optional[str]:
        """The report as a page; None if the command has none."""
        return self.files.get("report.html")

    def _repr_html_(self) -> Optional[str]:
        page = self.report()
        if page is None:
            return None
        return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 45em; border: 0"></iframe>'

    def __repr__(self) -> str:
        shown = {key: value for key, value in self._values.items() if not isinstance(value, (dict, list))}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


class Run(Result):
    """Of simulate: the keys of summary.json."""

    def __init__(self, text: str, files: Optional[Dict[str, str]] = None, again: Any = None) -> None:
        super().__init__(text, files)
        self._again = again

    def report(self) -> Optional[str]:
        """The report, for which the scenario is simulated once more, if it was not with `output`."""
        if "report.html" not in self.files and self._again is not None:
            self.files = self._again().files
        return super().report()


class Runs(Result):
    """Of simulate with `runs`: percentiles of time, cost and lost work."""


class _Table(Result):
    _table = ""

    def frame(self) -> Any:
        """The table as a pandas.DataFrame."""
        import pandas

        return pandas.read_csv(io.StringIO(self.files[self._table]))


class Sweep(Result):
    """Of sweep: `rows`, one for each combination that `where` and `top` leave, with "parameters" and "summary"."""

    def frame(self) -> Any:
        """A pandas.DataFrame: a column for each place of the grid, and for each number or text of a summary."""
        import pandas

        return pandas.DataFrame([self._flat(row) for row in self.rows])

    @staticmethod
    def _flat(row: Dict[str, Any]) -> Dict[str, Any]:
        others = {key: value for key, value in row.items() if key not in ("parameters", "summary")}
        summary = {key: value for key, value in (row.get("summary") or {}).items() if not isinstance(value, (dict, list))}
        return {**row["parameters"], **others, **summary}

    def _repr_html_(self) -> Optional[str]:
        try:
            return self.frame()._repr_html_()
        except ImportError:
            return None


class Provision(_Table):
    """Of provision: the answer, and the plans as a table."""

    _table = "plans.csv"


class Validation(_Table):
    """Of validate: errors, and measured and simulated values of all rows as a table."""

    _table = "validation.csv"


class Calibration(Result):
    """Of calibrate: the fitted profile, with its fit."""

    def save(self, file: Any) -> None:
        """Writes the profile, which scenarios name under "calibration"."""
        Path(file).write_text(self.text, encoding="utf-8")


class Replay(Result):
    """Of replay: a recorded step beside its simulation."""


class Traffic(Result):
    """Of traffic: bursts, flows, data per step."""

    def report(self) -> Optional[str]:
        return self.files.get("traffic.html")


class Prediction(Result):
    """Of predict: a resource profile."""
