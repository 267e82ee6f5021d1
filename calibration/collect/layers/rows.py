"""CSV files that grow row by row, budgets of time and what became of a case. Needs no PyTorch."""
import csv
import os
import time

# In the order in which they run: launches cost the host more once the profiler has been there, so kernels come last.
SECTIONS = ("layers", "updates", "products", "streaming", "steps", "power", "kernels")
SHARES = {"layers": 0.35, "kernels": 0.15, "updates": 0.08, "products": 0.17, "streaming": 0.08, "power": 0.09, "steps": 0.08}
LARGEST_FILE_B = 15 << 20


class Rows:
    """A CSV file with fixed columns; each row is on disk when write() returns. Numbers have 7 digits."""

    def __init__(self, folder, section, columns):
        self.columns = ("case", *columns, "status")
        path = os.path.join(folder, f"{section}.csv")
        is_new = not os.path.exists(path) or os.path.getsize(path) == 0
        self.file = open(path, "a", encoding="utf-8", newline="")
        self.writer = csv.DictWriter(self.file, self.columns, restval="", lineterminator="\n")
        self.count = 0
        if is_new:
            self.writer.writeheader()
            self.file.flush()

    def write(self, case, status="ok", **values):
        if self.file.tell() > LARGEST_FILE_B:
            return
        self.writer.writerow({"case": case, "status": status, **{key: as_text(value) for key, value in values.items()}})
        self.file.flush()
        self.count += 1

    def close(self):
        self.file.close()


def as_text(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    return f"{value:.7g}" if isinstance(value, float) else value


def status_of(error):
    """`oom`, or the first line of an error in at most 160 characters."""
    text = str(error)
    if "out of memory" in text or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:160]


def section_seconds(section, pending, seconds, shares=None):
    """Seconds of `section` when `seconds` are left for the sections `pending`: what earlier ones left over is shared."""
    shares = shares or SHARES
    return seconds * shares[section] / sum(shares[other] for other in pending)


class Position:
    """Where a worker is, in a file that the program above it reads: section, number of the case, its name."""

    def __init__(self, path):
        self.path = path

    def write(self, section, index, name):
        if self.path:
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                file.write(f"{section}\n{index}\n{name}\n")
            os.replace(self.path + ".new", self.path)

    def read(self):
        """(section, number, name), or None before the first case."""
        try:
            with open(self.path, encoding="utf-8") as file:
                section, index, name = file.read().split("\n", 2)
        except (OSError, ValueError):
            return None
        return section, int(index), name.strip()

    def age(self):
        try:
            return time.time() - os.path.getmtime(self.path)
        except OSError:
            return 0.0


def kernel_totals(folder):
    """{(case, phase): (kernels launched, seconds in them)} of kernels.csv."""
    totals = {}
    with open(os.path.join(folder, "kernels.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] == "ok":
                count, seconds = totals.get((row["case"], row["phase"]), (0, 0.0))
                number = int(row["count"])
                totals[row["case"], row["phase"]] = count + number, seconds + number * float(row["mean_s"])
    return totals


def fill_launches(folder, section):
    """Fills `<phase>_launches` and `<phase>_kernels_s` of a section's rows from the cases of the same name in kernels.csv."""
    totals = kernel_totals(folder)
    path = os.path.join(folder, f"{section}.csv")
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns, rows = reader.fieldnames, list(reader)
    phases = [name[: -len("_launches")] for name in columns if name.endswith("_launches")]
    for row in rows:
        for phase in phases:
            if (row["case"], phase) in totals:
                count, seconds = totals[row["case"], phase]
                row[f"{phase}_launches"], row[f"{phase}_kernels_s"] = count, as_text(seconds)
    with open(path + ".new", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".new", path)
