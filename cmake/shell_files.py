#!/usr/bin/env python3
"""shell_files.py PROGRAM FOLDER: man pages and completions of bash, zsh and fish, in FOLDER/man and so on, as Debian's /usr/share has them.

All of them are made from what the program's --help prints, which is made from its options. Man pages need help2man.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

FOLDERS, FILES = {"DIR", "FOLDER"}, {"FILE", "PROFILE", "CSV", "OUT", "DATASET", "SCENARIO", "STUDY", "TEXT", "MODEL"}


def help_of(program, *verb):
    return subprocess.run([program, *verb, "--help"], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "10000"}).stdout


class Option:
    def __init__(self, names, value, text):
        self.names, self.value, self.text = names, value, re.split(r" \(default|[.;:] ", text)[0]

    @property
    def completes(self):
        kind = re.split(r"[=:. ]", self.value)[0]
        return "folders" if kind in FOLDERS else "files" if kind in FILES else ""


class Verb:
    def __init__(self, name, text, printed):
        self.name, self.text = name, text
        self.options, self.words, section = [], [], ""
        for line in printed.splitlines():
            if line and not line.startswith(" "):
                section = line
            entry = re.match(r"  (\S+)(?: ([^ ]+(?: \.\.\.)?)[^ ]*?(?: \S+)*?)?(?:  +(.*))?$", line)
            if section.startswith("Options") and entry and entry[1].startswith("-"):
                self.options.append(Option(entry[1].split(","), entry[2] or "", entry[3] or ""))
            if section.startswith("Positionals") and entry and re.fullmatch(r"[a-z_]+(, [a-z_]+)+", entry[3] or ""):
                self.words = entry[3].split(", ")


def verbs_of(program):
    section, verbs = "", []
    for line in help_of(program).splitlines():
        if line and not line.startswith(" "):
            section = line
        entry = re.match(r"  ([a-z]+)  +(\S.*)$", line)
        if section.startswith("Subcommands") and entry:
            try:
                printed = help_of(program, entry[1])
            except subprocess.CalledProcessError:  # of a program that was not built
                printed = ""
            verbs.append(Verb(entry[1], entry[2], printed))
    return verbs


def bash(verbs):
    lines = ["# Completion of rehearse in bash.", "_rehearse() {", '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}',
             "  local words= paths=-f", "  compopt -o filenames 2> /dev/null", "  if [ \"$COMP_CWORD\" -eq 1 ]; then",
             f"    words='{' '.join(verb.name for verb in verbs)} --help --version' paths=", "  else case ${COMP_WORDS[1]} in"]
    for verb in verbs:
        lines.append(f"    {verb.name})")
        lines.append("      case $before in")
        for completes, paths in (("folders", "-d"), ("files", "-f"), ("", "")):
            names = [name for option in verb.options if option.value and option.completes == completes for name in option.names]
            if names:
                lines.append(f"        {'|'.join(names)}) words= paths={paths};;")
        names = [name for option in verb.options for name in option.names]
        lines.append(f"        *) if [[ $word == -* ]]; then words='{' '.join(names)}' paths=; " +
                     (f"else words='{' '.join(verb.words)}' paths=; " if verb.words else "") + "fi;;")
        lines.append("      esac;;")
    return "\n".join([*lines, "  esac; fi", '  mapfile -t COMPREPLY < <(compgen ${paths:+"$paths"} -W "$words" -- "$word")', "}",
                      "complete -F _rehearse rehearse", ""])


def zsh(verbs):
    def described(names_and_texts):
        return " ".join(shlex.quote(f"{name}:{text}") for name, text in names_and_texts)

    lines = ["#compdef rehearse", "# Completion of rehearse in zsh.", "_rehearse() {", "  local -a found", "  if (( CURRENT == 2 )); then",
             f"    found=({described([(verb.name, verb.text) for verb in verbs])})", "    _describe verb found; return", "  fi", "  case $words[2] in"]
    for verb in verbs:
        lines.append(f"    {verb.name})")
        specs = []
        for option in verb.options:
            action = {"folders": ":folder:_files -/", "files": ":file:_files", "": ":value: "}[option.completes] if option.value else ""
            text = re.sub(r"[\[\]:]", " ", option.text)
            specs += [shlex.quote(f"*{name}[{text}]{action}") for name in option.names]
        rest = f"*:name:({' '.join(verb.words)})" if verb.words else "*:file:_files"
        lines.append("      _arguments " + " ".join([*specs, shlex.quote(rest)]) + ";;")
    return "\n".join([*lines, "  esac", "}", "_rehearse \"$@\"", ""])


def fish(verbs):
    lines = ["# Completion of rehearse in fish.", "complete -c rehearse -n __fish_use_subcommand -f"]
    for verb in verbs:
        lines.append(f"complete -c rehearse -n __fish_use_subcommand -a {verb.name} -d {fish_text(verb.text)}")
        seen = f"complete -c rehearse -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.words:
            lines.append(f"{seen} -f -a '{' '.join(verb.words)}'")
        for option in verb.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if not option.value else " -r" if option.completes else " -x"
            lines.append(f"{seen} {names}{value} -d {fish_text(option.text)}")
    return "\n".join([*lines, ""])


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def write_man_pages(program, verbs, folder):
    os.makedirs(folder, exist_ok=True)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    for name, text, words in [("rehearse", "try a distributed training run before paying for it", [program]),
                              *((f"rehearse-{verb.name}", verb.text, [program, verb.name]) for verb in verbs if verb.options)]:
        subprocess.run(["help2man", "--no-info", f"--version-string={version}", f"--name={text}", f"--output={folder}/{name}.1",
                        shlex.join(words)], check=True)


def main():
    program, folder = sys.argv[1:]
    verbs = verbs_of(program)
    for place, text in (("bash-completion/completions/rehearse", bash(verbs)), ("zsh/vendor-completions/_rehearse", zsh(verbs)),
                        ("fish/vendor_completions.d/rehearse.fish", fish(verbs))):
        os.makedirs(os.path.dirname(f"{folder}/{place}"), exist_ok=True)
        with open(f"{folder}/{place}", "w", encoding="utf-8") as file:
            file.write(text)
    if shutil.which("help2man"):
        write_man_pages(program, verbs, f"{folder}/man/man1")
    else:
        print("no man pages: help2man is not installed", file=sys.stderr)


if __name__ == "__main__":
    main()
