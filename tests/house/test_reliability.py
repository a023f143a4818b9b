"""The page of known defects keeps its word: each row names a test there is, each test has a row."""

from __future__ import annotations

import re

from tests.house.sources import ROOT, tree_of

PAGE = ROOT / "docs" / "reliability.md"
ROW = re.compile(r"^\| [^|]+ \| \[([^\]]+)\]\(\.\./(tests/[\w/]+\.py)\) \|$", re.MULTILINE)


def named():
    """Return (file, test) of each row."""
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return [(file, f"test_{words.replace(' ', '_')}") for words, file in found]


def promised_in(file):
    found = {getattr(node, "name", "") for node in tree_of(ROOT / file).body}
    return {name for name in found if name.startswith("test_")}


def test_every_row_names_a_test_that_exists():
    rows = named()

    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Known defects")
    assert len(rows) == section.partition("\n## ")[0].count("\n| ") - 1
    assert [(file, test) for file, test in rows if test not in promised_in(file)] == []


def test_every_defect_that_is_tested_has_one_row():
    files = sorted((ROOT / "tests" / "defects").glob("test_*.py"))
    tests = [(str(file.relative_to(ROOT)), test) for file in files for test in promised_in(file)]

    rows = named()

    assert sorted(row for row in rows if row[0].startswith("tests/defects/")) == sorted(tests)
