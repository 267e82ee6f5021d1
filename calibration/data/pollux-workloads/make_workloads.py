#!/usr/bin/env python3
"""make_workloads.py: writes speeds.csv and elastic_speeds.csv, which README.md describes.

Speeds come from ../pollux-t4-traces/step_times.csv and the rows of BERT and DeepSpeech2 below, what a sample of a larger batch is worth from
noise.csv; README.md says where steps come from.
"""

import csv
import math
import os
from collections import defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))

# Largest batch of one GPU, steps of a job by batch.
APPLICATIONS = {
    "cifar10": (1024, {2048: 3334, 4096: 2151}),
    "ncf": (32768, {32768: 2205}),
    "imagenet": (200, {3200: 42000, 6400: 25000}),
    "yolov3": (8, {64: 15982}),
    "bert": (12, {384: 477}),
    "deepspeech2": (80, {320: 2264, 640: 1418}),
}
GPUS = {"cifar10 2048": (6, 8), "cifar10 4096": (12, 16), "ncf 32768": (1,), "imagenet 3200": (24,), "imagenet 6400": (32, 48),
        "yolov3 64": (4,), "bert 384": (6, 8, 12, 16), "deepspeech2 320": (6, 8), "deepspeech2 640": (12, 16)}
# Smallest and largest batch, least of a GPU, steps of the smallest batch that a job takes; NCF keeps one GPU and its batch.
ELASTIC = {
    "cifar10": (128, 4096, 32, 39060),
    "imagenet": (200, 12800, 20, 576500),
    "yolov3": (8, 512, 4, 103430),
    "bert": (12, 384, 6, 14778),
    "deepspeech2": (20, 640, 10, 28530),
}
ONE_MACHINE_SYNC = {"bert": 0.3, "deepspeech2": 0.1}  # s, assumed
# placement or machines, images of a GPU, step time, exposed synchronization: simulator/traces/bert/placements.csv and deepspeech2/scalability.csv
BERT = """24 11 2.39173 1.59685;33 11 2.43992 1.63912;114 11 1.41088 0.61110;123 11 1.42202 0.60873;132 11 1.46017 0.63424;222 11 1.46305 0.65708
1113 11 1.57377 0.77253;1122 11 1.49683 0.69543;1212 11 1.56786 0.74937;44 12 2.53895 1.66284;224 12 1.58575 0.71851;134 12 1.54165 0.67187
143 12 1.63261 0.76565;233 12 1.64977 0.77473;1124 12 1.69206 0.82939;1133 12 1.72714 0.86198;1223 12 1.71075 0.85187;2222 12 1.65405 0.79370
1313 12 1.63334 0.76717;1142 12 1.64158 0.74967;444 11 1.68890 0.87793;2244 11 1.71658 0.91847;2334 11 1.93001 1.13375;3333 11 1.66733 0.86927
2424 11 1.61163 0.81146;1344 11 1.74494 0.92381;2343 11 1.72177 0.91863;4444 12 1.88819 0.99536"""
DEEPSPEECH2 = """6:6 40 1.34409 0.20413;6:6 57 1.85614 0.22829;6:8 40 1.34974 0.23039;6:12 40 1.34111 0.16524;6:12 57 1.87894 0.24122;6:16 40 1.44628 0.30218
8:8 40 1.31006 0.19784;8:12 40 1.32753 0.17585;8:12 57 1.87689 0.25366;8:16 40 1.35805 0.22145;12:12 40 1.39427 0.25142;12:12 57 1.88729 0.28699
12:16 40 1.37280 0.24651;16:16 40 1.30070 0.18047"""


def rows():
    """(application, machines, GPUs, images of a GPU, step time, exposed synchronization)"""
    with open(os.path.join(HERE, "..", "pollux-t4-traces", "step_times.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield (row["model"], int(row["machines"]), int(row["gpus"]), int(row["batch_per_gpu"]), float(row["step_time_s"]),
                   float(row["exposed_sync_time_s"]))
    for entry in BERT.replace("\n", ";").split(";"):
        placement, local, step, sync = entry.split()
        yield ("bert", len(placement), sum(map(int, placement)), int(local), float(step), float(sync))
    for entry in DEEPSPEECH2.replace("\n", ";").split(";"):
        placement, local, step, sync = entry.split()
        machines, gpus = map(int, placement.split(":"))
        yield ("deepspeech2", machines, gpus, int(local), float(step), float(sync))


def at(points, local):
    """Means of equal batches, and between neighbours a line; beyond the last one the line goes on from the origin."""
    by_batch = defaultdict(list)
    for batch, step, sync in points:
        by_batch[batch].append((step, sync))
    known = sorted((batch, *[sum(value[k] for value in values) / len(values) for k in (0, 1)]) for batch, values in by_batch.items())
    below = [point for point in known if point[0] <= local]
    above = [point for point in known if point[0] >= local]
    if not below or not above:
        near = (below or above)[-1 if below else 0]
        return near[1] * local / near[0], near[2]
    (low, *first), (high, *last) = below[-1], above[0]
    part = 0 if high == low else (local - low) / (high - low)
    return tuple(a + part * (b - a) for a, b in zip(first, last))


def fixed_speeds(measured):
    """Rows of jobs with the batch that they state."""
    for kind, numbers in GPUS.items():
        application, batch = kind.split()
        largest, steps = APPLICATIONS[application][0], APPLICATIONS[application][1][int(batch)]
        for gpus in numbers:
            for model, of_gpus, machines in sorted(measured):
                if model == application and of_gpus == gpus:
                    time, _ = step_time(measured, (application, gpus, machines), int(batch), largest)
                    yield f"{kind},T4,{gpus},{machines},{1 / time:.6g},{steps},{batch}"


def step_time(measured, where, batch, largest, least_passes=1):
    """Seconds of a step whose gradients are accumulated where a GPU has no room for its part of the batch, and samples of each pass."""
    _, gpus, _ = where
    local = math.ceil(batch / gpus - 1e-8)
    passes = max(least_passes, math.ceil(local / largest - 1e-8))
    images = math.ceil(local / passes - 1e-8)
    step, sync = at(measured[where], images)
    return step + (passes - 1) * (step - sync), images


def with_few_gpus(measured):
    """Besides what is measured: BERT and DeepSpeech2 on 1 to 4 GPUs of a machine compute as fast as on more, and synchronize for ONE_MACHINE_SYNC."""
    for application, sync in ONE_MACHINE_SYNC.items():
        compute = [(images, step - exposed) for (model, _, _), rows in measured.items() if model == application for images, step, exposed in rows]
        by_batch = {images: [time for other, time in compute if other == images] for images, _ in compute}
        for gpus in range(1, 5):
            exposed = 0 if gpus == 1 else sync
            measured[application, gpus, 1] = [(images, sum(times) / len(times) + exposed, exposed) for images, times in sorted(by_batch.items())]


def elastic_speeds(measured):
    """Rows of jobs that choose their batch: a step is one of the smallest batch, or is worth one. Its speed is the harmonic mean over the job of
    gain / time with the batch that is best at that part of the job: gain = (R + 1) / (R / s + 1) of a batch s times the smallest, R of noise.csv."""
    noise = defaultdict(list)
    with open(os.path.join(HERE, "noise.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            noise[row["application"]].append((float(row["until"]), float(row["noise_scale_in_batches"])))
    for application, (smallest, largest_batch, least_of_gpu, steps) in ELASTIC.items():
        for model, gpus, machines in sorted(measured):
            first = max(smallest, least_of_gpu * gpus)
            if model != application or first > largest_batch:
                continue
            batches = [first * (largest_batch / first) ** (i / 49) for i in range(50)]
            times = []
            for batch in batches:
                passes = 2 if gpus == 1 and batch > smallest else 1  # one GPU needs two batches to know the noise
                time, images = step_time(measured, (application, gpus, machines), batch, APPLICATIONS[application][0], passes)
                if images >= least_of_gpu:
                    times.append((batch / smallest, time))
            if not times:
                continue
            taken = begin = 0.0
            for until, ratio in noise[application]:
                taken += (until - begin) / max((ratio + 1) / (ratio / scale + 1) / time for scale, time in times)
                begin = until
            yield f"{application},T4,{gpus},{machines},{1 / taken:.6g},{steps},"


def main():
    measured = defaultdict(list)
    for model, machines, gpus, local, step, sync in rows():
        measured[model, gpus, machines].append((local, step, sync))
    header = "type,gpu,gpus,machines,steps_per_s,steps,samples_per_step"
    fixed = list(fixed_speeds(measured))
    with_few_gpus(measured)
    ncf = [row.replace("ncf 32768", "ncf") for row in fixed if row.startswith("ncf ")]
    for name, table in (("speeds.csv", fixed), ("elastic_speeds.csv", [*elastic_speeds(measured), *ncf])):
        with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="") as file:
            file.write("\n".join([header, *table]) + "\n")


if __name__ == "__main__":
    main()
