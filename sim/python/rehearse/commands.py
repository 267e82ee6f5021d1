"""A function for each command that gives a result."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Union

from . import _rehearse
from .program import run, text_of, with_place, words
from .results import Calibration, Prediction, Provision, Replay, Run, Runs, Sweep, Traffic, Validation
from .scenario import Given, as_file, text_and_file

PathLike = Union[str, os.PathLike]
Overrides = Optional[Mapping[str, Any]]


@contextlib.contextmanager
def _folder(output: Optional[PathLike]) -> Iterator[str]:
    if output is not None:
        yield os.fspath(output)
        return
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        yield folder


def _run_in(verb: str, names: Iterable[str], output: Optional[PathLike], options: Mapping[str, Any], files: Iterable[str]) -> tuple:
    """Runs the command with -o; returns what it prints, and the texts of those of `files` that it wrote."""
    with _folder(output) as folder:
        printed, _ = run([verb, *names, "--json", "--quiet", "-o", folder, *words(options)])
        paths = [Path(folder) / name for name in files]
        return printed, {path.name: path.read_text(encoding="utf-8") for path in paths if path.is_file()}


def simulate(scenario: Given, *, set: Overrides = None, seed: Optional[int] = None, output: Optional[PathLike] = None,
             catalog: Union[PathLike, Iterable[PathLike]] = (), **options: Any) -> Union[Run, Runs]:
    """Runs a scenario, a file, dict or Scenario: speed, time, cost, bottleneck.

    set: fields to override, {"/json/pointer": value}. output: a folder for tables, timeline and report. Other options
    are those of `rehearse simulate`, such as runs=200, deadline="36h", exact=True. Without these and output the run is
    in this process. Raises InputError, NoResultError.
    """
    catalogs = [os.fspath(catalog)] if isinstance(catalog, (str, os.PathLike)) else [os.fspath(folder) for folder in catalog]
    if output is None and not options:
        return _simulate_here(scenario, set, seed, catalogs)
    with as_file(scenario) as file:
        every = {"set": set, "seed": seed, "catalog": catalogs, **options}
        if options.get("runs") is not None:
            return Runs(*_run_in("simulate", [file], output, every, ["report.html"]))
        return Run(*_run_in("simulate", [file], output, every, ["report.html"]))


def _simulate_here(scenario: Given, set: Overrides, seed: Optional[int], catalogs: List[str]) -> Run:
    text, file = text_and_file(scenario)
    overrides = [f"{place}={text_of(value)}" for place, value in (set or {}).items()]
    try:
        summary, warned = _rehearse.simulate(text, file, overrides, seed, catalogs)
    except (_rehearse.InputError, _rehearse.NoResultError) as error:
        raise with_place(error) from None
    for warning in warned:
        warnings.warn(warning, stacklevel=3)

    def again() -> Run:
        given = json.loads(_rehearse.plain_json(text, file)) if isinstance(scenario, Mapping) else scenario
        with as_file(given) as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Run(*_run_in("simulate", [name], None, {"set": set, "seed": seed, "catalog": catalogs}, ["report.html"]))

    return Run(summary, again=again)


def sweep(scenario: Given, grid: Overrides = None, *, output: Optional[PathLike] = None, **options: Any) -> Sweep:
    """Simulates every combination of a grid, {"/json/pointer": values}: a list, tuple or range, or a text such as "1..64*2".

    A sweep file stands for its own grid. With output, what has finished is kept, and the same call goes on where it
    stopped. Options: those of `rehearse sweep`, such as seeds=10, where="cost_usd < 50", top=5, jobs=8.
    """
    values = {place: text_of(tuple(entry) if isinstance(entry, list) else entry) for place, entry in (grid or {}).items()}
    with as_file(scenario) as file:
        written = ["sweep.csv"] if output is not None else []
        given = {"grid": values, **options}
        if output is not None:
            return Sweep(*_run_in("sweep", [file], output, given, written))
        return Sweep(run(["sweep", file, "--json", "--quiet", *words(given)])[0])


def provision(scenario: Given, *, deadline: str, target_loss: float, output: Optional[PathLike] = None, **options: Any) -> Provision:
    """The cheapest machines that reach a loss by a deadline, such as "45min", within quotas.

    Options: those of `rehearse provision`, such as quota={"g3.8xlarge": 2}, price="spot", confidence=0.9. Raises
    NoResultError if no plan is in time.
    """
    with as_file(scenario) as file:
        given = {"deadline": deadline, "target_loss": target_loss, **options}
        return Provision(*_run_in("provision", [file], output, given, ["plans.csv", "report.html"]))


def validate(study: PathLike, *, output: Optional[PathLike] = None, **options: Any) -> Validation:
    """Simulates every measured row of a study. Options: those of `rehearse validate`, such as baselines=True."""
    return Validation(*_run_in("validate", [os.fspath(study)], output, options, ["validation.csv", "report.html"]))


def calibrate(studies: Union[PathLike, Iterable[PathLike]], *, output: Optional[PathLike] = None, report: Optional[PathLike] = None,
              **options: Any) -> Calibration:
    """Fits the profile's free values to the measurements of studies. Options: those of `rehearse calibrate`, such as steps=5."""
    names = [studies] if isinstance(studies, (str, os.PathLike)) else list(studies)
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        profile = Path(output) if output is not None else Path(folder) / "profile.json"
        page = Path(report) if report is not None else Path(folder) / "report.html"
        run(["calibrate", *map(os.fspath, names), "--quiet", "-o", str(profile), "--report", str(page), *words(options)])
        return Calibration(profile.read_text(encoding="utf-8"), {"report.html": page.read_text(encoding="utf-8")})


def replay(traces: Union[PathLike, Iterable[PathLike]], *, output: Optional[PathLike] = None, **options: Any) -> Replay:
    """A recorded step of a job, one trace of each rank, simulated beside its trace. Options: those of `rehearse replay`,
    such as scale={"collective": 0.5}, gpu="H100"."""
    names = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    return Replay(*_run_in("replay", map(os.fspath, names), output, options, []))


def traffic(inputs: Union[PathLike, Iterable[PathLike]], *, output: Optional[PathLike] = None, **options: Any) -> Traffic:
    """Traffic of a run, of simulate with `output`, or of captures. Options: those of `rehearse traffic`, such as
    link_rate="10Gbps"."""
    names = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    return Traffic(*_run_in("traffic", map(os.fspath, names), output, options, ["traffic.html"]))


def predict(model: PathLike, scenario: Given, **options: Any) -> Prediction:
    """Resource profile of a scenario by a trained network, without simulation; needs the predictor beside the program."""
    with as_file(scenario) as file:
        return Prediction(run(["predict", os.fspath(model), file, "--json", *words(options)])[0])
