"""The documents keep their word: links lead somewhere, marked blocks run, the glossary is whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.house.sources import LIBRARY, PAGES, ROOT, environment, name_of, tree_of, words_of

BANNED = re.compile(
    r"\b(locks?|locked|locking|offsets?|ordinals?|generations?|transaction ids?)\b", re.IGNORECASE
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
RUNS = re.compile(
    r"^<!-- runs( for long)? -->\n```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
BLOCKS = [
    pytest.param(
        page,
        *block.groups()[1:],
        marks=[pytest.mark.slow] if block[1] else [],
        id=f"{name_of(page)}-{number}",
    )
    for page in PAGES
    for number, block in enumerate(RUNS.finditer(page.read_text(encoding="utf-8")), 1)
]


def anchors(page: Path) -> set[str]:
    """Return the fragments that a page's headings can be linked by."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))

    dead = []
    for link in LINK.findall(prose):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, fragment = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            dead.append(link)

    assert dead == []


def console_script(block: str) -> str:
    """Keep what a person would type: the lines after ``$``, and their continuations."""
    lines = []
    continues = False
    for line in block.splitlines():
        if line.startswith("$ ") or continues:
            lines.append(line.removeprefix("$ "))
            continues = line.endswith("\\")
    return "set -euo pipefail\n" + "\n".join(lines)


# Blocks may await at their top level, as a reader would in a notebook.
PYTHON_RUNNER = """
import ast, asyncio, inspect, sys
code = compile(sys.argv[1], "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
awaited = eval(code, {"__name__": "__main__"})
if inspect.iscoroutine(awaited):
    asyncio.run(awaited)
"""


@pytest.mark.parametrize(("page", "language", "block"), BLOCKS)
def test_marked_block_runs(page, language, block, tmp_path):
    if language == "python":
        command = [sys.executable, "-W", "error", "-c", PYTHON_RUNNER, block]
    else:
        command = ["bash", "-c", console_script(block)]

    run = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "glossary.md"], ids=name_of
)
def test_pages_use_the_words_of_the_glossary(page):
    found = BANNED.findall(page.read_text(encoding="utf-8"))

    assert found == []


def nouns() -> set[str]:
    """Return the words of every id type and every record of the kernel."""
    coined = []
    for path in LIBRARY:
        if "kernel" not in path.parts:
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "Record" for base in node.bases
            ):
                coined.append(node.name)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "NewType":
                coined.append(ast.literal_eval(node.args[0]))
    return {word for name in coined for word in words_of(name)} - {"id"}


def test_glossary_has_every_noun_of_the_kernel():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = {
        word
        for entry in re.findall(r"^\| \*\*(.+?)\*\*", text, re.MULTILINE)
        for word in words_of(entry)
    }

    assert nouns() - entries == set()


def test_every_concept_has_a_picture_and_is_in_the_index():
    folder = ROOT / "docs" / "concepts"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    pages = {page.name: page.read_text(encoding="utf-8") for page in folder.glob("*.md")}
    del pages["README.md"]

    bare = [name for name, text in pages.items() if not ("```text\n" in text or "![" in text)]

    assert bare == []
    assert pages.keys() - listed == set()


def test_every_how_to_is_in_the_index():
    folder = ROOT / "docs" / "howto"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))

    assert {page.name for page in folder.glob("*.md")} - {"README.md"} - listed == set()


def test_changelog_has_a_place_for_what_comes_next():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert HEADING.findall(text)[1] == "[Unreleased]"


def test_reference_pages_say_what_the_code_says():
    run = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_decisions_are_numbered_without_gaps_and_say_what_they_cost():
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))

    assert [int(page.name[:4]) for page in pages] == [*range(1, len(pages) + 1)]
    for page in pages:
        headings = HEADING.findall(page.read_text(encoding="utf-8"))
        assert headings[1:] == ["Context", "Decision", "Alternatives refused", "Cost"], page.name
