#!/usr/bin/env python3
"""The documents against the source: what they link to and name is there, and what they list is complete.

  - relative links and their anchors lead somewhere; files and presets that are named in `code` or in commands exist
  - JSON blocks parse, sh blocks are sh, README.md has at most 190 lines
  - prose, and comments of the source that have a line to themselves (//), have at most 100 columns
  - docs/configuration.md and the man page have every key that plugin/config reads, docs/errors.md every code of base/error.h,
    docs/inside/state.md every key of a record
  - no page has more words than WORDS
  - docs/inside/figures.svg, docs/inside/data-path.svg and the tables of docs/inside/figures.md are drawn from the JSON beside them

docs/firewall.md and docs/inside/ruleset are compared with the kernel: tests/plugin/rules_docs_test.cc.

Usage: tests/docs_test.py [directory of the checkout]
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
ROOT = ROOT if ROOT.is_dir() else ROOT.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("fixtures/**/*.md")])
README_LINES = 190
WORDS = 2900
COLUMNS = 100
# Where a name with a '/' is a path of ours.
TOPS = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("build", ".git")}
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)

mismatches = []


def mismatch(document, words):
    mismatches.append(f"{document.relative_to(ROOT)}: {words}")


def text_of(path):
    return (ROOT / path).read_text()


def slug(heading):
    """The anchor that a heading gets: letters, digits, '-' and '_', lower case, spaces as '-'."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(path):
    prose = FENCE.sub("", path.read_text())
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose, re.M)}


def check_links(document, prose):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        other = (document.parent / path).resolve() if path else document
        if not other.exists():
            mismatch(document, f"no such file: {target}")
        elif anchor and anchor not in anchors(other):
            mismatch(document, f"no such heading: {target}")


def is_ours(word):
    return "/" in word and word.split("/")[0] in TOPS


def check_path(document, word):
    word = word.rstrip("/.,;:")
    if any(letter in word for letter in "*<>{}$") or word.endswith(".json.new"):
        return
    if not (ROOT / word).exists():
        mismatch(document, f"no such file: {word}")


def check_names(document, prose):
    files = {path.name for path in ROOT.rglob("*.h")}
    for code in re.findall(r"`([^`\n]+)`", prose):
        for word in code.split():
            if is_ours(word):
                check_path(document, word)
            elif re.fullmatch(r"\w+\.h", word) and word not in files:
                mismatch(document, f"no such header: {word}")
        check_command(document, code)


def check_command(document, command):
    presets = {preset["name"] for preset in json.loads(text_of("CMakePresets.json"))["configurePresets"]}
    for preset in re.findall(r"--preset (\w+)", command):
        if preset not in presets:
            mismatch(document, f"no such preset: {preset}")
    for script in re.findall(r"(?:^|\s)\./([\w./-]+\.sh)", command):
        check_path(document, script)


def check_blocks(document, text):
    for language, block in FENCE.findall(text):
        if language == "json":
            try:
                json.loads(block)
            except ValueError as error:
                mismatch(document, f"JSON that does not parse: {error}: {block[:40]!r}")
        elif language == "sh":
            shell = subprocess.run(["sh", "-n"], input=block, text=True, capture_output=True, check=False)
            if shell.returncode != 0:
                mismatch(document, f"no shell command: {shell.stderr.strip()}")
            check_command(document, block)
            for word in re.findall(r"[\w./-]+", block):
                if is_ours(word):
                    check_path(document, word)


def check_complete(document, wanted, what):
    # In `code`; of a table's rows in the first three columns, as the last explains.
    lines = ["|".join(line.split("|")[:4]) if line.startswith("|") else line for line in text_of(document).splitlines()]
    shown = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`([^`\n]+)`", "\n".join(lines)))))
    shown |= {part for word in shown for part in word.split(".")}
    for word in sorted(wanted - shown):
        mismatch(ROOT / document, f"lacks the {what} '{word}'")


def check_lists():
    keys = set()
    for source in (ROOT / "plugin/config").glob("*.cc"):
        keys |= set(re.findall(r"(?:Find\w*(?:<[^>]*>)?\(|Require\(|ElementsOf\(|CheckBackend\(config, )\"(\w+)\"", source.read_text()))
    check_complete("docs/configuration.md", keys - {"cni", "key", "value"}, "key")
    manual = text_of("packaging/nomad-bridge.8.in")
    for key in sorted(keys - {"cni", "key", "value", "labels"}):
        if not re.search(rf"\b{key}\b", manual, re.I):
            mismatch(ROOT / "packaging/nomad-bridge.8.in", f"lacks the key '{key}'")

    codes = dict(re.findall(r"^  k(\w+) = (\d+),", text_of("base/error.h"), re.M))
    rows = set(re.findall(r"^\| (\d+) \|", text_of("docs/errors.md"), re.M))
    if rows != set(codes.values()):
        mismatch(ROOT / "docs/errors.md", f"codes that differ from base/error.h: {sorted(rows ^ set(codes.values()))}")

    fields = re.findall(r"WITH_DEFAULT\([\w:]+,([^)]*)\)", text_of("plugin/state/state_json.cc"))
    keys = set(re.findall(r"\w+", " ".join(fields)))
    check_complete("docs/inside/state.md", keys, "key of a record")


def check_words():
    for document in DOCUMENTS:
        words = len(document.read_text().split())
        if words > WORDS:
            mismatch(document, f"{words} words, over {WORDS}")


def check_columns():
    for document in DOCUMENTS:
        for line in FENCE.sub("", document.read_text()).split("\n"):
            if len(line) > COLUMNS and not line.startswith(("|", "![")):
                mismatch(document, f"more than {COLUMNS} columns: {line}")
    for top in sorted(TOPS):
        for source in sorted([*ROOT.glob(f"{top}/**/*.cc"), *ROOT.glob(f"{top}/**/*.h")]):
            for line in source.read_text().split("\n"):
                if len(line) > COLUMNS and line.lstrip().startswith("//") and "NOLINT" not in line:
                    mismatch(source, f"more than {COLUMNS} columns: {line.strip()}")


def check_figures():
    document = ROOT / "docs/inside/figures.md"
    for name in ("figures", "data-path"):
        for option, shown in (([], text_of(f"docs/inside/{name}.svg")), (["--table"], document.read_text())):
            drawn = subprocess.run([ROOT / "tests/bench/draw-figures", *option], input=text_of(f"docs/inside/{name}.json"),
                                   text=True, capture_output=True, check=False)
            if drawn.returncode != 0 or drawn.stdout.strip() not in shown:
                mismatch(document, f"not drawn from docs/inside/{name}.json: run tests/bench/figures {drawn.stderr}")


def main():
    os.chdir(ROOT)
    for document in DOCUMENTS:
        text = document.read_text()
        prose = FENCE.sub("", text)
        check_links(document, prose)
        check_names(document, prose)
        check_blocks(document, text)
    if text_of("README.md").count("\n") > README_LINES:
        mismatch(ROOT / "README.md", f"more than {README_LINES} lines")
    check_lists()
    check_columns()
    check_words()
    check_figures()
    print("\n".join(mismatches))
    print(f"docs: {len(mismatches)} mismatches in {len(DOCUMENTS)} documents")
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
