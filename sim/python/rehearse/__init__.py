"""Rehearse: try a distributed training run before paying for it.

    import rehearse

    run = rehearse.simulate("scenarios/cm-dare.json", set={"/cluster/groups/1/count": 8})
    run.steps_per_s, run.cost_usd
    rehearse.sweep("scenarios/cm-dare.json", grid={"/cluster/groups/1/count": "1..8"}).frame()

Each function does what the command of its name does, with the same checks and the same results to the last byte. Options
of the command are keywords with _ for -, such as max_run_time="30s"; those with several values take a list.
"""

from ._rehearse import InputError, NoResultError
from .commands import calibrate, predict, provision, replay, simulate, sweep, traffic, validate
from .results import Calibration, Prediction, Provision, Replay, Result, Run, Runs, Sweep, Traffic, Validation
from .scenario import Scenario

__all__ = ["Calibration", "InputError", "NoResultError", "Prediction", "Provision", "Replay", "Result", "Run", "Runs", "Scenario", "Sweep",
           "Traffic", "Validation", "calibrate", "predict", "provision", "replay", "simulate", "sweep", "traffic", "validate"]
