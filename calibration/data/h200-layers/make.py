#!/usr/bin/env python3
"""Writes the tables of this folder from what calibration/collect/measure_layers.py has written.

    calibration/data/h200-layers/make.py FOLDER...       # where several have a case, the first one's rows stay

kernels.csv becomes one row for each kernel, operator and phase. README.md says which rows are left out, or marked, and why.
"""
import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SECTIONS = ("layers", "products", "streaming", "updates", "steps", "power")
QUEUE = 1024  # launches that a stream takes before the host waits
GAP_S = 1.2e-6  # at most, from the end of a kernel to the start of the next that is there


def read(folder, section):
    path = pathlib.Path(folder) / f"{section}.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def merged(folders, section):
    """Rows of all folders; those of a case from the first folder that has it."""
    rows, known = [], set()
    for folder in folders:
        of_folder = read(folder, section)
        rows += [row for row in of_folder if row["case"] not in known]
        known |= {row["case"] for row in of_folder}
    return rows


def launches_nothing(row):
    """The gradient of a sum is handed on: there is no kernel to time."""
    return row.get("operator") == "add" and row.get("phase") == "backward"


def waits_for_host(row):
    """Whether more kernels than the queue takes lasted longer than themselves and the gaps between them."""
    count = int(row.get("update_launches") or 0)
    return count > QUEUE and float(row["update_median_s"]) > float(row["update_kernels_s"]) + count * GAP_S


def with_rows(row):
    """`rows` beside `width`: together they are the elements, or the most whole rows that these make."""
    result = {}
    for column, value in row.items():
        if column == "width":
            result["rows"] = max(1, int(row["elements"]) // int(value))
        result[column] = value
    return result


def write(name, rows):
    with open(HERE / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{name}.csv: {len(rows)} rows")


def write_kernels(rows):
    """Sums over the cases, the most launched kernels of an operator first."""
    groups = {}
    for row in rows:
        if row["status"] != "ok":
            continue
        key = row["operator"], row["phase"], row["kernel"]
        group = groups.setdefault(key, {"cases": set(), "count": 0, "seconds": 0.0, "outermost": row["outermost"]})
        group["cases"].add(row["case"])
        group["count"] += int(row["count"])
        group["seconds"] += int(row["count"]) * float(row["mean_s"])
    order = sorted(groups, key=lambda key: (key[0], key[1], -groups[key]["count"], key[2]))
    write("kernels", [{"operator": operator, "phase": phase, "outermost": groups[operator, phase, kernel]["outermost"],
                       "cases": len(groups[operator, phase, kernel]["cases"]), "count": groups[operator, phase, kernel]["count"],
                       "mean_s": f"{groups[operator, phase, kernel]['seconds'] / groups[operator, phase, kernel]['count']:.4g}",
                       "kernel": kernel} for operator, phase, kernel in order])


def main():
    folders = sys.argv[1:]
    if not folders:
        sys.exit(__doc__)
    for section in SECTIONS:
        rows = [row for row in merged(folders, section) if row["status"] == "ok" and not launches_nothing(row)]
        for row in rows:
            if section == "updates" and waits_for_host(row):
                row["status"] = "host"
        write(section, [with_rows(row) for row in rows] if section == "streaming" else rows)
    write_kernels(merged(folders, "kernels"))


if __name__ == "__main__":
    main()
