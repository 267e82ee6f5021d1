#!/usr/bin/env python3
"""The documentation: what the commands of docs/*.md print, the pictures of docs/, and the site that mkdocs builds of all of it.

  cmake/docs.py PROGRAM --refresh [PAGE...]        runs the commands of pages (docs/tutorial/first-run.md ...; default: all) and writes what they print
  cmake/docs.py PROGRAM --check [PAGE...]          compares instead; exit code 1 if anything differs
  cmake/docs.py PROGRAM --site FOLDER              writes FOLDER/pages, with a reference made of --help and schemas, and builds FOLDER/site (77: without mkdocs)
  cmake/docs.py PROGRAM --screenshots FOLDER       pictures of pages that the program writes, by headless Chromium

In a page a block ```json title="NAME"``` is a file of the reader's folder, a block ```sh``` runs there, from top to bottom, beginning with an empty
folder. What it prints stands behind it between two comments (OUTPUT). What depends on the machine is masked (MASKS, LEFT_OUT); long lines are folded.
Commands within sentences and tables run after the blocks of their page, with names in capitals replaced (STAND_INS); what they print is not shown, that
they end well is checked.
<!-- include FILE TEXT --> becomes, in the site, the part TEXT of a README that cmake/refresh_readmes.sh writes, or the comment of a header that has TEXT.
"""
import argparse
import difflib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "cmake"), os.path.join(ROOT, "tests", "pages")]
import house  # noqa: E402
import shell_files  # noqa: E402

SKIPPED = 77
BEGIN = r"<!-- output(?: with exit code (?P<code>\d+))?, written by cmake/refresh_readmes.sh docs: begin -->"
END = "<!-- output: end -->"
BLOCK = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```\n(?P<output>\n' + BEGIN + r"\n.*?" + END + r"\n)?", re.S | re.M)
INCLUDE = re.compile(r"^<!-- include (?P<file>\S+) (?P<text>.+?) -->$", re.M)
LEFT_OUT = [re.compile(rule) for rule in (
    r"\d+ of \d+ .*(left|/s)$", r"\d+ simulations, .*/s$",  # progress
    r"writing \S+$", r"(summing up|recording)$")]
MASKS = [(re.compile(rule), text) for rule, text in (
    (r"the simulation takes about [0-9.]+ m?s", "the simulation takes about ... s"),)]
WIDTH = 98
SPOKEN = re.compile(r"`(rehearse [a-z][^`]*)`")
SERVES = re.compile(r"rehearse view ")  # until Ctrl-C; tests/view tries it
STAND_INS = (  # of what a reader has of his own, the special before the general, and of what takes minutes
    ("SCENARIO --grid /training/checkpoint", "scenarios/faults/bloom-176b.json --grid /training/checkpoint"), ("--runs 200", "--runs 3"),
    ("SCENARIO --measured 1=", "scenarios/dgx.json --measured 1="), ("fit SCENARIO runs.csv", "fit scenarios/dlperf.json runs.csv"),
    ("--runs 3 --deadline", "--runs 3 --set /training/steps=200 --deadline"), ("simulate SCENARIO --runs", "simulate scenarios/cm-dare-spot.json --runs"),
    ("SCENARIO --grid /cluster/groups/1/count", "SCENARIO --set /training/steps=50 --grid /cluster/groups/1/count"), ("SCENARIO", "scenarios/cm-dare.json"),
    ("MODEL --tokens 1T --max-gpus 64", "bert_base --tokens 1B --gpu A100 --simulated 2 --max-gpus 2"),
    ("MODEL --tokens 1T --gpus 512", "bert_base --tokens 1B --simulated 2 --gpus 4"), ("--step N", "--step 100"),
    ("--model llama3_8b --tokens 100B --gpus 64", "--model bert_base --tokens 1B --simulated 2 --gpus 4"),
    ("RUN_A RUN_B", "run run"), ("traffic RUN", "traffic run"), ("CAPTURE.pcap", os.path.join(ROOT, "tests/sim/traffic/tshark/conversations.pcap")),
    ("replay TRACE", "replay calibration/data/pytorch-kineto-traces/dlrm_v100_8gpu/kineto_rank1.json.gz"), ("STUDY -o PROFILE", "scenarios/studies/own/step-times.json -o profile.json"),
    ("validate STUDY", "validate scenarios/studies/cm-dare-single-worker.json"), ("scenarios/studies/all.json", "scenarios/studies/cm-dare-single-worker.json"),
    ("NAME.json -o NAME", "scenarios/cm-dare.json -o named --set /training/steps=50"), ("list KIND", "list gpus"))
STAND_IN_FILES = {"runs.csv": lambda: "gpus,batch_per_gpu,step_time_s\n1,64,0.2\n2,64,0.21\n4,64,0.22\n",
                  "resnet50.torch.json": lambda: read(os.path.join(ROOT, "tests/workloads/importers/data/resnet50.torch.json"))}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pages_with_commands():
    found = [os.path.relpath(os.path.join(folder, name), ROOT)
             for folder, _, names in os.walk(os.path.join(ROOT, "docs")) for name in sorted(names) if name.endswith(".md")]
    return [page for page in sorted(found) if "```sh\n" in read(os.path.join(ROOT, page)) or spoken(read(os.path.join(ROOT, page)))]


def shown(line):
    """A line as a page shows it: masked, and folded unless it is a row of a table that still fits."""
    for rule, text in MASKS:
        line = rule.sub(text, line)
    if len(line) <= WIDTH or (len(line) <= 180 and len(re.findall(r"\S  +\S", line)) >= 3):
        return [line]
    column = re.match(r"(?:.*\s{2})?", line[:60])[0]  # where the last column of a table begins, below which the rest stands
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * (len(column) or 4), break_long_words=False, break_on_hyphens=False)


def run_block(program, text, folder):
    """What the commands of a block print, stderr of each first, and the last exit code."""
    with tempfile.TemporaryDirectory() as bin_folder:
        os.symlink(program, os.path.join(bin_folder, "rehearse"))
        environment = {**os.environ, "PATH": bin_folder + os.pathsep + os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        lines, code = [], 0
        for command in re.sub(r"\\\n", "", text).splitlines():
            ran = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
            lines += [line.rstrip() for line in (ran.stderr + ran.stdout).splitlines() if not any(rule.match(line) for rule in LEFT_OUT)]
            code = ran.returncode
            if code:
                break
    while lines and not lines[-1]:
        lines.pop()
    return [part for line in lines for part in shown(line)], code


def spoken(text):
    """The commands within sentences and tables of a page, as they are tried; a verb alone is asked for its help."""
    commands = []
    for command in SPOKEN.findall(BLOCK.sub("", text)):
        if SERVES.match(command):
            continue
        for name, stand_in in STAND_INS:
            command = command.replace(name, stand_in)
        commands.append(command if " " in command.removeprefix("rehearse ") else f"{command} --help")
    return list(dict.fromkeys(commands))


def give_stand_ins(program, command, folder):
    """Puts what a command of `spoken` names into the folder, unless it is there."""
    def lacks(name):
        return re.search(rf"\b{re.escape(name)}\b", command) and not os.path.exists(os.path.join(folder, name))

    if lacks("scenarios"):
        for name in ("scenarios", "calibration"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    if lacks("run"):
        run_block(program, f"rehearse simulate {ROOT}/scenarios/cm-dare.json --set /training/steps=50 -o run", folder)
    for name, text in STAND_IN_FILES.items():
        if lacks(name):
            write(os.path.join(folder, name), text())


def try_spoken(program, page, text, folder):
    """Throws ValueError where a command within a sentence of the page does not end well, tried in the folder of its blocks."""
    for command in spoken(text):
        give_stand_ins(program, command, folder)
        lines, code = run_block(program, command, folder)
        if code:
            raise ValueError(f"{page}: exit code {code} of {command}, within a sentence\n" + "\n".join(lines))


def refreshed(program, page, text):
    """The page with what its commands print now. Throws ValueError where one does not end as the page says."""
    with tempfile.TemporaryDirectory() as folder:
        parts, at = [], 0
        for block in BLOCK.finditer(text):
            if block["title"]:
                write(os.path.join(folder, block["title"]), block["text"])
            if block["kind"] != "sh":
                continue
            lines, code = run_block(program, block["text"], folder)
            if code != int(block["code"] or 0):
                raise ValueError(f"{page}: exit code {code} of\n{block['text']}" + "\n".join(lines))
            if block["output"]:
                begin, end = block.span("output")
                comment = re.search(BEGIN, block["output"])[0]
                parts += [text[at:begin], "\n".join(["", comment, "", "```text", *lines, "```", "", END, ""])]
                at = end
        try_spoken(program, page, text, folder)
        return "".join([*parts, text[at:]])


def compare(name, before, after, is_check):
    """Takes over what is new, or prints how it differs; whether it does."""
    if before == after:
        return False
    if is_check:
        print("\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), f"{name} as it is", f"{name} as the program says", lineterm="", n=1)))
    else:
        write(os.path.join(ROOT, name), after)
        print(name)
    return True


def refresh(program, pages, is_check):
    differs = False
    for page in pages or pages_with_commands():
        text = read(os.path.join(ROOT, page))
        differs |= compare(page, text, refreshed(program, page, text), is_check)
    if not pages:
        for name, picture in house.pictures(ROOT).items():
            path = os.path.join(ROOT, name)
            differs |= compare(name, read(path) if os.path.exists(path) else "", picture, is_check)
        differs |= unknown_words(program)
    return differs


def unknown_words(program):
    """Words of the glossary that the program never says: a reader will not meet them, or meets another one."""
    said = "\n".join(printed for _, printed in [*helps(program), *schemas(program), ("", house_words())]).lower()
    said = re.sub(r"[\s_-]+", " ", said)
    words = re.findall(r"^\*\*(.+?)\*\*", read(os.path.join(ROOT, "docs", "glossary.md")), re.M)
    unknown = [word for word in words if not any(re.sub(r"[\s_-]+", " ", form.lower()) in said for form in word.split(" / "))]
    for word in unknown:
        print(f'docs/glossary.md: no help text, schema or page of results says "{word}"')
    return bool(unknown) or not words


def house_words():
    """What outputs that pages show say, beside help texts and schemas."""
    return "\n".join(block["output"] or "" for page in pages_with_commands() for block in BLOCK.finditer(read(os.path.join(ROOT, page))))


# The reference.

def helps(program):
    return [(verb.name, shell_files.help_of(program, verb.name)) for verb in shell_files.verbs_of(program) if verb.options]


def schemas(program):
    kinds = next(verb for verb in shell_files.verbs_of(program) if verb.name == "schema").words
    return [(kind, subprocess.run([program, "schema", kind, "--keys"], capture_output=True, text=True, check=True).stdout) for kind in kinds]


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def verb_page(name, printed):
    """The page of a verb: its help, with a table of its options."""
    text, examples, tables, section, usage = [], [], [], "", ""
    for line in printed.splitlines():
        entry = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line) if not line.startswith("   ") else None
        if line.startswith("Usage: "):
            usage = "rehearse " + line.split(" ", 1)[1].split(" ", 1)[1]
        elif line in ("Positionals:", "Options:"):
            section = line[:-1]
            tables += ["", f"## {'Arguments' if section == 'Positionals' else section}", "", "| | |", "| --- | --- |"]
        elif section and entry:
            tables.append(f"| `{entry[1].replace('|', chr(92) + '|')}` | {cell(entry[2] or '')} |")
        elif section and line.strip():
            tables[-1] = tables[-1][:-2].rstrip() + f" {cell(line.strip())} |"
        elif examples or re.match(r"Examples?: ", line):
            examples += [re.sub(r"^(Examples?: +| +)", "", line)] if line.strip() else []
        elif line.strip():
            text.append(cell(line))
    shown_examples = ["", "## Examples", "", "```sh", *examples, "```"] if examples else []
    return "\n".join([f"# rehearse {name}", "", "\n\n".join(text), "", "```sh", usage, "```", *shown_examples, *tables, ""])


def write_reference(program, folder):
    """Pages of all verbs and kinds of files; their names, for the site's list of pages."""
    verbs, kinds = [], []
    for name, printed in helps(program):
        write(os.path.join(folder, "commands", f"{name}.md"), verb_page(name, printed))
        verbs.append({name: f"docs/reference/commands/{name}.md"})
    for name, printed in schemas(program):
        write(os.path.join(folder, "files", f"{name}.md"),
              f"# {name}\n\nKeys of files of kind `{name}`, as `rehearse schema {name} --keys` prints them.\n\n```text\n{printed.rstrip()}\n```\n")
        kinds.append({name: f"docs/reference/files/{name}.md"})
    return [{"Commands": verbs}, {"Kinds of files": kinds}]


# The site.

def included(match):
    """What an include stands for: a written part of a README, or the comment of a header that has the text, less its slashes."""
    text, wanted = read(os.path.join(ROOT, match["file"])), match["text"]
    if match["file"].endswith(".md"):
        part = re.search(rf"^<!-- {re.escape(wanted)}, written by .*?-->\n(.*?)^<!-- {re.escape(wanted)}: end -->", text, re.S | re.M)
        if not part:
            raise ValueError(f"{match['file']} has no part \"{wanted}\"")
        return part[1].strip()
    comments = [comment for comment in re.findall(r"(?:^ *//.*\n)+", text, re.M) if wanted in comment]
    if len(comments) != 1:
        raise ValueError(f"{match['file']}: {len(comments)} comments with \"{wanted}\"")
    lines = [re.sub(r"^ *//[/!]? ?", "", line) for line in comments[0].splitlines()]
    folded = [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
                                                               break_long_words=False, break_on_hyphens=False) or [""]]
    return "\n".join(["```text", *folded, "```"])


def markdown_files():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith((".", "build")) and name not in ("results", "golden", "corpus")]
        for name in names:
            if name.endswith(".md") and name != "CHANGELOG.md":
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def staged(name, pages):
    """A page as the site has it. What it links to comes along; folders have a page, or are named only."""
    folder = os.path.dirname(name)
    text = INCLUDE.sub(included, read(os.path.join(ROOT, name)))

    def link(match):
        target, anchor = match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = os.path.normpath(os.path.join(folder, target))
        whole = os.path.join(ROOT, path)
        if os.path.isdir(whole):
            if not os.path.exists(os.path.join(whole, "README.md")):
                return match[1]
            target = os.path.join(target, "README.md")
        elif not target.endswith(".md") or path == "CHANGELOG.md":
            if not target.endswith((".svg", ".png")):  # sources are shown as texts, which browsers display
                target += ".txt"
            os.makedirs(os.path.dirname(os.path.join(pages, path)), exist_ok=True)
            shutil.copyfile(whole, os.path.join(pages, os.path.normpath(os.path.join(folder, target))))
        return f"[{match[1]}]({target}{anchor})"

    fences = re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)  # links outside of blocks
    fences[::2] = [re.sub(r"\[([^\]\[]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", link, part) for part in fences[::2]]
    write(os.path.join(pages, name), "".join(fences))


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        self.loads += [attributes[key] for key in ("src", "href") if attributes.get(key) and tag in ("img", "script", "link") and
                       attributes.get("rel") not in ("canonical", "prev", "next")]


def broken_links(site):
    """Links of the built site that lead to no file or no heading, and what pages load from elsewhere."""
    pages = {}
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html") and name != "404.html":
                pages[os.path.join(folder, name)] = links = Links()
                links.feed(read(os.path.join(folder, name)))
    found = []
    for path, page in pages.items():
        where = os.path.relpath(path, site)
        found += [f"{where} loads {load}" for load in page.loads if "://" in load or load.startswith("//")]
        for link in page.links + page.loads:
            if "://" in link or link.startswith(("mailto:", "//", "javascript:", "data:")):
                continue
            target, _, anchor = link.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(target))) if target else path
            to = os.path.join(to, "index.html") if os.path.isdir(to) else to
            if not os.path.exists(to) or (anchor and to in pages and urllib.parse.unquote(anchor) not in pages[to].ids):
                found.append(f"{where}: nothing at {link}")
    return sorted(set(found))


def write_offline_search(site):
    """search/offline.js: index and worker of the search for pages that are opened as files (docs/theme/main.html)."""
    workers = [name for name in os.listdir(os.path.join(site, "assets", "javascripts", "workers")) if re.fullmatch(r"search\..*\.js", name)]
    worker = read(os.path.join(site, "assets", "javascripts", "workers", workers[0]))
    index = read(os.path.join(site, "search", "search_index.json"))
    write(os.path.join(site, "search", "offline.js"), f"""const index = {json.dumps(index)}, source = {json.dumps(worker)};
const fetchOf = window.fetch, WorkerOf = window.Worker;
window.fetch = (what, how) => String(what.url || what).endsWith("search/search_index.json") ? Promise.resolve(new Response(index)) : fetchOf(what, how);
window.Worker = function () {{ return new WorkerOf(URL.createObjectURL(new Blob([source]))); }};
""")


def build_site(program, folder):
    """FOLDER/pages and FOLDER/site; exit code."""
    if not shutil.which("mkdocs") or "material" not in subprocess.run(["mkdocs", "build", "--help"], capture_output=True, text=True, check=True).stdout:
        print("skipped: mkdocs with its theme is not installed (apt-get install mkdocs mkdocs-material)")
        return SKIPPED
    import yaml  # which mkdocs needs, too
    pages = os.path.join(folder, "pages")
    shutil.rmtree(pages, ignore_errors=True)
    for name in list(markdown_files()):
        staged(name, pages)
    config = yaml.safe_load(read(os.path.join(ROOT, "docs", "mkdocs.yml")))
    reference = next(entry["Reference"] for entry in config["nav"] if "Reference" in entry)
    reference += write_reference(program, os.path.join(pages, "docs", "reference"))
    config.update(docs_dir="pages", site_dir="site")
    config["theme"]["custom_dir"] = os.path.join(ROOT, "docs", "theme")
    for style in config["extra_css"]:
        write(os.path.join(pages, style), read(os.path.join(ROOT, style)))
    write(os.path.join(folder, "mkdocs.yml"), yaml.safe_dump(config, sort_keys=False))
    status = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--clean", "--config-file", os.path.join(folder, "mkdocs.yml")], check=False).returncode
    if status:
        return 1
    write_offline_search(os.path.join(folder, "site"))
    broken = broken_links(os.path.join(folder, "site"))
    print("\n".join(broken) or os.path.join(folder, "site", "index.html"))
    return int(bool(broken))


def screenshots(program, folder):
    """Pages that the program writes, as a visitor sees them first."""
    import browser  # of tests/pages
    if not browser.find():
        print("skipped: no Chromium")
        return SKIPPED
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as results, browser.Browser() as chromium:
        for name, page, command in (
                ("run", "report.html", "init my-run && rehearse simulate my-run.json -o run"),
                ("sweep", "sweep.html", "sweep my-run.json --grid /cluster/groups/1/count=1..8*2 -o sweep")):
            _, code = run_block(program, f"rehearse {command}", results)
            if code:
                return 1
            for width, height in ((1280, 800), (390, 844)):
                chromium.look(width, height)
                chromium.open(os.path.join(results, name, page))
                chromium.picture(os.path.join(folder, f"{name}-{width}.png"))
                print(os.path.join(folder, f"{name}-{width}.png"))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--refresh", nargs="*", metavar="PAGE")
    what.add_argument("--check", nargs="*", metavar="PAGE")
    what.add_argument("--site", metavar="FOLDER")
    what.add_argument("--screenshots", metavar="FOLDER")
    given = parser.parse_args()
    program = os.path.abspath(given.program)
    try:
        if given.site:
            return build_site(program, os.path.abspath(given.site))
        if given.screenshots:
            return screenshots(program, given.screenshots)
        is_check = given.refresh is None
        differs = refresh(program, given.check if is_check else given.refresh, is_check)
    except (OSError, ValueError) as error:
        print(error)
        return 1
    return int(differs and is_check)


if __name__ == "__main__":
    sys.exit(main())
