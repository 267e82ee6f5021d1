"""Pictures of the documentation, as SVG: which folder uses which, from the CMakeLists.txt of all folders; how a run comes about."""
import html
import os
import re

# How a run comes about: boxes by row, and what leads to what.
FLOW = [[("catalogs", "catalogs|GPUs, instances, prices"), ("measured", "your measurements")],
        [("scenario", "scenario|model, machines, strategy"), ("profile", "profile|what costs how much")],
        [("program", "programs|what each rank does in a step")],
        [("executor", "executor|clock, network, cores")],
        [("result", "result|speed, cost, bottleneck, timeline")],
        [("plans", "plans|sweeps, spot runs, provisioning, diagnosis"), ("predictor", "predictor|learns from labelled runs")]]
FLOW_EDGES = [("catalogs", "scenario"), ("measured", "profile"), ("scenario", "program"), ("profile", "program"), ("program", "executor"),
              ("executor", "result"), ("result", "plans"), ("result", "predictor")]


def uses(root):
    """Of each folder with a library or a program, the folders whose libraries it links."""
    links, folder_of = {}, {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "build")) and name not in ("tests", "results", "data"))
        if "CMakeLists.txt" not in names or folder == root:
            continue
        with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as file:
            text = re.sub(r"#.*", "", file.read())
        name = os.path.relpath(folder, root)
        for call in re.findall(r"^\s*rehearse_(?:module|program)\((.*?)\)\n", text, re.S | re.M):
            if re.search(r"\bSOURCES\b", call) or "TESTS" in call:
                folder_of.setdefault(call.split()[0], name)
            used = re.sub(r"\bTEST_USES\b.*?(?=\b(?:TESTS|SLOW|PARTS)\b|$)", "", call, flags=re.S)
            links.setdefault(name, set()).update(re.findall(r"rehearse::(\w+)", used))
        for target in re.findall(r"target_link_libraries\(rehearse_\w+ (?:PUBLIC|PRIVATE) ([^)]*)\)", text):
            links.setdefault(name, set()).update(re.findall(r"rehearse::(\w+)", target))
    return {name: {folder_of[library] for library in used if library in folder_of} - {name} for name, used in links.items()}


def includes(root, folder, other):
    """Whether a source of the folder includes one of the other."""
    for name in os.listdir(os.path.join(root, folder)):
        if name.endswith((".cpp", ".hpp")):
            with open(os.path.join(root, folder, name), encoding="utf-8") as file:
                if f'#include "{other}/' in file.read():
                    return True
    return False


def linked_alone(root, graph):
    """Of two folders that link each other, the way that no include goes: what registers itself there is linked only."""
    return {(name, other) for name, used in graph.items() for other in used if name in graph[other] and not includes(root, name, other)}


def reached(graph, start):
    seen, left = set(), [start]
    while left:
        for other in graph.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def reduced(graph):
    """Without what is reached by another way, too."""
    return {name: {other for other in used if not any(other in reached(graph, between) for between in used - {other})} for name, used in graph.items()}


def depth(graph, name, memory):
    if name not in memory:
        memory[name] = 1 + max((depth(graph, other, memory) for other in graph.get(name, ())), default=-1)
    return memory[name]


def drawn(title, rows, edges, width):
    """Boxes in rows, (name, "label|more"), or without a label where a line passes a row; lines down from one to the next: used, or, dashed, using."""
    high, gap, place, lines = 40, 30, {}, []
    for i, boxes in enumerate(rows):
        named = sum(bool(label) for _, label in boxes)
        each = min(230, (width - 20 - 40 * (len(boxes) - named)) / max(named, 1) - 16)
        slots = [each + 16 if label else 40 for _, label in boxes]
        free = (width - sum(slots)) / (len(boxes) + 1)
        for k, (name, label) in enumerate(boxes):
            place[name] = (free * (k + 1) + sum(slots[:k]) + slots[k] / 2, 10 + i * (high + gap), high if label else 0, each)
    passed = {begin for begin, *_ in edges if not dict(box for boxes in rows for box in boxes)[begin]}
    for begin, end, is_dashed in edges:
        (x, y, begin_high, _), (to_x, to_y, end_high, _) = place[begin], place[end]
        y, to_y = y + (begin_high or high / 2), to_y + (0 if end_high else high / 2)
        bend = (to_y - y) / 2
        style = ' stroke-dasharray="4 4"' if is_dashed else ""
        tip = ' marker-start="url(#tip)"' if is_dashed and begin not in passed else ' marker-end="url(#tip)"' if not is_dashed and end not in passed else ""
        lines.append(f'<path d="M{x:.0f} {y:.0f} C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}" fill="none" stroke="#8a94a6" '
                     f'stroke-width="1.3"{style}{tip}/>')
    for name, label in (box for boxes in rows for box in boxes if box[1]):
        x, y, _, each = place[name]
        first, _, more = label.partition("|")
        lines.append(f'<rect x="{x - each / 2:.0f}" y="{y:.0f}" width="{each:.0f}" height="{high}" rx="6" fill="#eef3fa" stroke="#3b75af"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + (17 if more else 25):.0f}" text-anchor="middle" font-weight="bold">{html.escape(first)}</text>')
        if more:
            lines.append(f'<text x="{x:.0f}" y="{y + 32:.0f}" text-anchor="middle" font-size="10.5" fill="#444">{html.escape(more)}</text>')
    height = len(rows) * (high + gap) - gap + 20
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" '
                      'font-size="13" role="img">', f"<title>{html.escape(title)}</title>",
                      '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
                      '<path d="M0 0L8 4L0 8z" fill="#8a94a6"/></marker></defs>', '<rect width="100%" height="100%" fill="white"/>', *lines, "</svg>", ""])


def house(root):
    graph = uses(root)
    dashed = linked_alone(root, graph)
    graph = {name: {other for other in used if (name, other) not in dashed} for name, used in graph.items()}
    level = {}
    for name in sorted(graph):
        depth(graph, name, level)
    edges = []
    used = [(name, other, False) for name, others in reduced(graph).items() for other in others]
    for name, other, is_dashed in sorted([*used, *((other, name, True) for name, other in dashed)]):
        before = name
        for row in range(level[name] - 1, level[other], -1):
            between = f"{name} to {other} in row {row}"
            level[between] = row
            edges.append((before, between, is_dashed))
            before = between
        edges.append((before, other, is_dashed))
    rows = [sorted(name for name in level if level[name] == row) for row in range(max(level.values()), -1, -1)]
    at = {}
    for row in rows:  # below those who use them
        near = {name: [at[user] for edge in edges for user in edge[:2] if name in edge[:2] and user in at] for name in row}
        row.sort(key=lambda name: (sum(near[name]) / len(near[name]) if near[name] else 0.5, name))
        at.update({name: (2 * i + 1) / (2 * len(row)) for i, name in enumerate(row)})
    return drawn("Which folder uses which: arrows lead to what is used", [[(name, name if name in graph else "") for name in row] for row in rows], edges, 820)


def pictures(root):
    """All pictures, by their place."""
    return {"docs/pictures/house.svg": house(root), "docs/pictures/run.svg": drawn("How a run comes about", FLOW, [(*edge, False) for edge in FLOW_EDGES], 560)}
