#!/usr/bin/env python3
"""How far the clock of boards at power limits is off, by Zeus' trace (data/zeus-energy): calibration/power_limits.py [TRACE]

The time of an epoch at each limit is predicted from time and power at the highest one by the law of platforms/kernels/power.hpp:
  idle + (traffic + switching max(s, floor)^2) s = limit,  time goes with 1 / s
Idle power is that of the kind of memory (0.1 W for each GB/s of GDDR, 0.045 of HBM2); all else that a board draws at the highest limit is
taken as switching. The floor is fitted to the other GPUs. Errors are of rows whose limit is below what was drawn at the highest one:
medians of absolute values in percent, beside the cube root of the limit, and the root of what idle leaves. TRACE: power_time.csv."""

import collections
import csv
import math
import statistics
import sys
from pathlib import Path

IDLE = {"A40": 0.1 * 696, "RTX6000": 0.1 * 672, "P100": 0.045 * 732}  # W
LIMIT_NOT_HELD = ("A40", 100)  # draws up to a fifth more
FLOORS = [0.5 + 0.01 * i for i in range(50)]


def clock(left, switching, floor):
    """Share of the highest clock at which `switching` W at that clock are `left` W."""
    ratio = left / switching
    if ratio >= 1:
        return 1.0
    return max(ratio ** (1 / 3), floor) if ratio >= floor**3 else ratio / floor**2


def read(path):
    runs = collections.defaultdict(dict)
    for row in csv.DictReader(open(path)):
        key = row["gpu"], row["network"], row["dataset"], row["batch_size"], row["optimizer"]
        runs[key][float(row["power_limit_w"])] = float(row["time_per_epoch_s"]), float(row["average_power_w"])
    rows = []  # gpu, network, limit, W at the highest limit, time by that at the highest limit
    for (gpu, network, *_), limits in runs.items():
        highest = max(limits)
        time, power = limits[highest]
        for limit, (slower, _) in limits.items():
            if limit < min(highest, power) and (gpu, limit) != LIMIT_NOT_HELD:
                rows.append((gpu, network, limit, power, slower / time))
    return rows


def error(row, law):
    gpu, _, limit, power, slower = row
    return 100 * (1 / law(gpu, limit, power) / slower - 1)


def with_floor(floor):
    return lambda gpu, limit, power: clock(limit - IDLE[gpu], power - IDLE[gpu], floor)


def fitted(rows):
    """The floor whose mean error over GPUs is least, so that none counts for its number of rows."""
    def loss(floor):
        errors = collections.defaultdict(list)
        for row in rows:
            errors[row[0]].append(abs(math.log(1 + error(row, with_floor(floor)) / 100)))
        return statistics.mean(statistics.mean(of_gpu) for of_gpu in errors.values())
    return min(FLOORS, key=loss)


def main():
    folder = Path(__file__).resolve().parent.parent
    trace = Path(sys.argv[1]) if len(sys.argv) > 1 else folder.parent / "shared/data/zeus-energy/power_time.csv"
    rows = read(trace)
    laws = {"cube root of the limit": lambda gpu, limit, power: (limit / power) ** (1 / 3),
            "cube root of what idle leaves": with_floor(0)}
    print(f"floor of all: {fitted(rows):.2f}")
    print(f"{'GPU':10} {'rows':>5}  {'floor of the others':>20}  {'median / p90 / bias':>20}  " + "  ".join(laws))
    for gpu in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == gpu]
        floor = fitted([row for row in rows if row[0] != gpu])
        def told(law):
            errors = [error(row, law) for row in own]
            sizes = sorted(map(abs, errors))
            return f"{statistics.median(sizes):.1f} / {sizes[int(0.9 * len(sizes))]:.1f} / {statistics.mean(errors):+.1f}"
        print(f"{gpu:10} {len(own):5}  {floor:20.2f}  {told(with_floor(floor)):>20}  "
              + "  ".join(f"{told(law):>{len(name)}}" for name, law in laws.items())
              + f"   (own floor {fitted(own):.2f})")


if __name__ == "__main__":
    main()
