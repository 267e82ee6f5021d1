"""Tables of predictor/README.md, from predictor/accuracy.json, which prediction.py has measured."""

import json
import os
import statistics
import textwrap

NAMES = {"simulated": "engine", "closed form": "closed form (what steps would show)", "trees": "gradient-boosted trees",
         "neighbours": "five nearest neighbours", "median": "median of the setting", "taught": "learnt, and taught the other splits",
         "corrected": "corrected, told the other splits"}
KINDS = {"family": "a family of models", "strategy": "a strategy or kind of cluster", "GPU": "a GPU", "network": "a range of links"}

PUBLISHED = "predictor/published_networks.json"


def load(root):
    """What prediction.py has measured, and as "published" what predictor_table.sh has of the published networks."""
    def read(path):
        with open(os.path.join(root, path)) as file:
            return json.load(file)
    return read("predictor/accuracy.json") | {"published": read(PUBLISHED)}


def row(cells):
    return "| " + " | ".join(cells) + " |"


def header(names):
    return [row(names), row(["---"] * len(names))]


def percent(value):
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def listed(values):
    return ", ".join(percent(value) for value in values)


def sentences(text):
    return [""] + textwrap.wrap(text, 150)


def rows_of(accuracy, space, left_out):
    return [row for row in accuracy["simulated"] if (row["space"], row["left_out"]) == (space, left_out)]


def best(rows, metric):
    """Mean over rows of the least error of a baseline in each."""
    return statistics.fmean(min(of[metric] for of in each["baselines"].values() if metric in of) for each in rows)


def mean(rows, metric):
    return statistics.fmean(each["learnt"][metric] for each in rows)


def inside(rows, share="90"):
    return f"{statistics.fmean(each['learnt']['inside'][share] for each in rows):.0f}"


def baseline_rows(of):
    return [row([NAMES.get(name, name), percent(errors["burst_median"]) if "burst_median" in errors else "-", percent(errors["step_median"])])
            for name, errors in of.items()]


def models(accuracy):
    """Models that were not seen, on the settings of the reference space; their baselines are those beside the first seed."""
    seeds = rows_of(accuracy, "reference", "nothing")
    errors = [each["learnt"] for each in seeds]
    lines = header(["predictor", "bursts", "step time"]) + baseline_rows(seeds[0]["baselines"])
    lines.append(row(["learnt" if len(seeds) == 1 else f"learnt, {len(seeds)} seeds", listed(of["burst_median"] for of in errors), listed(of["step_median"] for of in errors)]))
    shares = list(errors[0]["inside"])
    return lines + sentences(
        f"Learnt from {seeds[0]['training_samples']} samples in {accuracy['options']['reference_epochs']} epochs; the test split has "
        f"{seeds[0]['test_samples']} samples of {seeds[0]['test_models']} models. The 90th percentile of `learnt` is {mean(seeds, 'burst_p90'):.0f} % for "
        f"bursts, {percent(mean(seeds, 'step_p90'))} % for step times. Its intervals of {', '.join(shares)} % hold "
        f"{', '.join(inside(seeds, share) for share in shares)} % of the labels. {percent(100 * seeds[0]['on_scale'])} % of the labels of bursts are below "
        "1 % of their setting's median and count on that scale.")


def clusters(accuracy):
    """Random clusters: parts of the network taken away, parts of the space left out."""
    whole = rows_of(accuracy, "strategies", "nothing")
    lines = header(["left out, or taken away", "networks", "bursts", "step time", "best baseline", "in 90 %", "worst of them"])

    def line(name, rows, has_baselines=True):
        worst = max(rows, key=lambda each: each["learnt"]["burst_median"])
        baselines = f"{percent(best(rows, 'burst_median'))}, {percent(best(rows, 'step_median'))}" if has_baselines else ""
        worst_of = f"{worst['name']}: {percent(worst['learnt']['burst_median'])}, {percent(worst['learnt']['step_median'])}" if len(rows) > 1 else ""
        return row([name, str(len(rows)), percent(mean(rows, "burst_median")), percent(mean(rows, "step_median")), baselines, inside(rows), worst_of])

    lines.append(line("nothing", whole))
    lines += [line({"edges": "edges (their ends shuffled)", "rounds": "message rounds", "bounds": "what steps would show"}[each["name"]], [each], False)
              for each in rows_of(accuracy, "strategies", "ablation")]
    lines += [line(name, rows_of(accuracy, "strategies", kind)) for kind, name in KINDS.items() if rows_of(accuracy, "strategies", kind)]
    left_out = [each for kind in KINDS for each in rows_of(accuracy, "strategies", kind)]
    text = (
        f"With nothing left out it learns from {whole[0]['training_samples']} samples in {accuracy['options']['epochs']} epochs, and is asked for "
        f"{whole[0]['test_samples']} of models that it has not seen. The 90th percentile is then {whole[0]['learnt']['step_p90']:.0f} % for step times and {whole[0]['learnt']['burst_p90']:.0f} % for bursts: some gaps "
        "are a sample or none. The column \"in 90 %\" is how many labels intervals of 90 % hold.")
    if left_out:
        covered = [each["learnt"]["inside"]["90"] for each in left_out]
        worst = max(left_out, key=lambda each: each["learnt"]["burst_p90"])
        text += (
            f" Of what was left out these are {min(covered):.0f} to {max(covered):.0f} %, and the 90th percentile for bursts is "
            f"{worst['learnt']['burst_p90']:.0f} % at worst ({worst['name']}).")
    return lines + sentences(text)


def testbed(accuracy):
    """Real trainings on the testbed's network."""
    of = accuracy["testbed"]
    return header([f"{of['jobs']} jobs", f"bursts at the NIC, {of['labels']['burst']} labels", f"step time, {of['labels']['step']}"]) + [
        row([NAMES.get(each["predictor"], each["predictor"]), percent(each["burst_median"]), percent(each["step_median"])]) for each in of["predictors"]]


def measured(accuracy):
    """Measured rows of models that were not measured where other models were."""
    of = accuracy["measured"]
    lines = header(["predictor", "rows, pairs", "MAPE", "mean over pairs"])
    for each in of["test"]:
        name = NAMES.get(each["predictor"], each["predictor"])
        lines.append(row([name, f"{each['rows']}, {each['pairs']}", percent(each["mape"]), percent(each["by_pair_mape"])]))
        if each["predictor"] == "simulated":
            same = of["engine_where_learnt"]
            lines.append(row(["engine, where `learnt` has an answer", str(same["rows"]), percent(same["mape"]), ""]))
    covered = {each["predictor"]: each["inside_90"] for each in of["test"] if each["inside_90"] is not None}
    return lines + sentences(f"The dataset has {sum(of['rows'].values())} rows of {of['studies']} studies, {of['rows']['test']} in the test split. Intervals of 90 % hold " +
                             ", ".join(f"{share:.0f} % ({name})" for name, share in covered.items()) +
                             "; those of `learnt` are made for simulated labels.")


def studies(accuracy):
    """Studies left out whole, then rows of them added."""
    points = accuracy["measured"]["left_out_studies"]
    added = sorted({each["rows_added"] for each in points if each["rows_added"] > 0})
    lines = header(["study left out, rows", "simulated"] + [f"{n} rows: corrected / simulated" for n in added] + ["in 90 %, without rows"])
    ratios = {n: [] for n in added}
    for study in dict.fromkeys(each["study"] for each in points):
        of = {each["rows_added"]: each for each in points if each["study"] == study}
        cells = [f"{study}, {of[0]['rows']}", f"{percent(of[0]['simulated_ape'])} %"]
        for n in added:
            ratios[n].append(of[n]["corrected_ape"] / of[n]["simulated_ape"])
            cells.append("{:.2f} ({:.2f} to {:.2f})".format(ratios[n][-1], *of[n]["ratio_5_to_95"]))
        lines.append(row(cells + [f"{100 * of[0]['covered_by_90']:.0f}"]))
    return lines + [row(["mean", ""] + [f"{statistics.fmean(ratios[n]):.2f}" for n in added] + [""])]


def choices(accuracy):
    """Choices among measured alternatives."""
    of = accuracy["measured"]["choices"]
    lines = header(["free to choose", "choices (of `learnt`)", "learnt", "corrected", "engine", "by chance"])
    for free in dict.fromkeys(each["free"] for each in of):
        by = {each["predictor"]: each for each in of if each["free"] == free}
        engine, learnt = by["simulated"], by.get("learnt")
        lines.append(row([free, f"{engine['choices']} ({learnt['choices'] if learnt else 0})", percent(learnt["mean_regret"]) if learnt else "-",
                          percent(by["corrected"]["mean_regret"]), percent(engine["mean_regret"]), percent(engine["by_chance"])]))
    return lines


def published(accuracy):
    """The published networks on one of the settings that they were made for, beside others that learnt as little."""
    of = accuracy["published"]
    lines = header(["predictor", "bursts", "epochs", "minutes of training"])
    for name, each in of["predictors"].items():
        name = {"profile": "learnt"}.get(name, NAMES.get(name, name.upper() if name in ("gcn", "gin", "gat", "mpnn") else name))
        minutes = "" if each["seconds"] is None else percent(each["seconds"] / 60)
        lines.append(row([name, percent(each["median_ape"]), each["epochs"] or "", minutes]))
    return lines


TABLES = {"prediction-models": models, "prediction-clusters": clusters, "prediction-testbed": testbed, "prediction-measured": measured,
          "prediction-studies": studies, "prediction-choices": choices, "prediction-published": published}


def present(accuracy):
    """The tables of what was measured, in their order."""
    of = accuracy.get("measured", {})
    there = {"prediction-testbed": "testbed" in accuracy, "prediction-measured": "test" in of, "prediction-studies": "left_out_studies" in of,
             "prediction-choices": "choices" in of}
    return [table for table in TABLES if there.get(table, True)]
