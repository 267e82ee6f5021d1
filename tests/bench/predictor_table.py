"""The table of predictor_table.sh: for each predictor the median error over the twelve metrics in each setting, that of
the worst metric, R2, the seconds of training, and the epochs in each setting, with the best one. table.json has the first
setting's, which predictor/README.md states."""
import csv
import json
import pathlib
import sys

folder, settings = pathlib.Path(sys.argv[1]), sys.argv[2:]
scores, seconds = {}, {}
for i, _ in enumerate(settings):
    comparison = json.loads((folder / f"comparison-{i}" / "comparison.json").read_text())
    for name, score in comparison["origins"]["simulated"]["predictors"].items():
        kind = pathlib.PurePath(name).name.removesuffix(f"-{i}")
        scores.setdefault(kind, []).append(score)
for file in folder.glob("*.s"):
    kind = file.stem.rstrip("0123456789").rstrip("-")
    seconds[kind] = seconds.get(kind, 0) + int(file.read_text())


def epochs(kind):
    """Of each setting: how many a network has had, and the one with the least validation loss."""
    texts = []
    for i, _ in enumerate(settings):
        trained = folder / (kind if kind == "profile" else f"{kind}-{i}")
        if not trained.exists():
            return ""
        rows = list(csv.DictReader((trained / "curves.csv").open()))
        best = min(rows, key=lambda row: float(row["validation_loss"]))
        is_over = (trained / "report.html").exists()  # else its minutes were
        texts.append(f"{len(rows)}{'' if is_over else ', not to the end'} (best {best['epoch']})")
    return ", ".join(texts[:1] if kind == "profile" else texts)


print("Median APE over the twelve metrics in each setting; worst metric and R2 are means over the settings.")
for i, setting in enumerate(settings):
    print(f"  {i + 1}: {setting}")
print(f"{'predictor':<12}" + "".join(f"{i + 1:>9}" for i in range(len(settings)))
      + f"{'worst':>9}{'R2':>9}{'train, s':>10}  epochs")
for kind, of_settings in scores.items():
    mean = lambda key: sum(score[key] for score in of_settings) / len(of_settings)
    print(
        f"{kind:<12}"
        + "".join(f"{score['median_ape']:>8.1f}%" for score in of_settings)
        + f"{mean('worst_median_ape'):>8.1f}%{mean('r2'):>9.3f}{seconds.get(kind, ''):>10}  {epochs(kind)}"
    )

first = {kind: {"median_ape": of_settings[0]["median_ape"], "seconds": seconds.get(kind), "epochs": epochs(kind).split("), ")[0].rstrip(")").replace(" (", ", ") or None}
         for kind, of_settings in scores.items()}
(folder / "table.json").write_text(json.dumps({"setting": settings[0], "predictors": first}, indent=1) + "\n")
