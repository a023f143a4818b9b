"""The module that the how-to gives to pages follows a document as the store has it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.deployment import deployed
from tests.support.children import child

from perdure.kernel.documents.ops import patched

pytestmark = [
    pytest.mark.stores,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs node"),
]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "follow-a-document.md"
NOTE = {"owner": "ann", "namespace": "desk", "kind": "note", "key": "today"}
BEFORE = {"id": 2, "value": {"text": "😀 ahoy", "list": [1, [2], 3], "more": {"a": 1}}}
OPS: list[list[Any]] = [
    ["s", ["value", "more", "b"], {"c": None}],
    ["d", ["value", "more", "a"]],
    ["d", ["value", "more", "never"]],
    ["a", ["value", "text"], "!"],
    ["t", ["value", "text"], 3],
    ["p", ["value", "list"], 1, 1, [8, 9]],
    ["m", ["value", "list"], [3, 0, 1, 2]],
    ["s", ["value", "list", 4], "last"],
    ["d", ["value", "list", 0]],
    ["s", ["value"], [1]],
    ["r", {"id": 5, "value": []}],
    ["p", ["value"], 0, 0, ["first"]],
]

APPLIES = """
import { applied } from "./follow.mjs";
const [before, ops] = JSON.parse(process.argv[2]);
let now = before;
console.log(JSON.stringify(ops.map((op) => structuredClone((now = applied(now, [op]))))));
"""

FOLLOWS = """
import { follow } from "./follow.mjs";
const leaving = new AbortController();
const [url, token, last] = process.argv.slice(2);
await follow(url, () => token, (found) => {
  console.log(JSON.stringify(found && found.value));
  if (found && found.value === JSON.parse(last)) leaving.abort();
}, leaving.signal);
"""


@pytest.fixture
def module(tmp_path):
    """Write the module of the page, as a reader would, and return where it is."""
    blocks = re.findall(
        r"^```javascript\n(// follow\.js\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "follow.mjs").write_text(blocks[0])
    return tmp_path


def script(module: Path, text: str) -> Path:
    path = module / "script.mjs"
    path.write_text(text)
    return path


def test_operations_are_applied_as_the_store_applies_them(module):
    given = json.dumps([BEFORE, OPS])

    run = subprocess.run(
        ["node", script(module, APPLIES), given], capture_output=True, text=True, check=True
    )

    expected, now = [], BEFORE
    for op in OPS:
        now = patched(now, [op])
        expected.append(now)
    assert json.loads(run.stdout) == expected


@pytest.mark.cloud
@pytest.mark.slow
def test_a_page_follows_an_address_through_two_lives(module):
    with deployed(module / "root", log=module / "log") as running:

        def commit(**write: Any) -> None:
            made = running.http.post("/v1/stores/notes/commits", json={"writes": [write]})
            assert made.status_code == 201, made.text

        running.http.post("/v1/stores", json={"store_id": "notes"})
        commit(write="document.create", **NOTE, value="a")
        url = str(running.http.base_url.join("/v1/stores/notes/follow").copy_merge_params(NOTE))
        token = running.http.headers["authorization"].removeprefix("Bearer ")
        command = ["node", script(module, FOLLOWS), url, token, '"c"']
        with child(command, stdout=subprocess.PIPE, text=True) as page:
            told = [page.stdout.readline()]
            commit(write="document.change", id=2, value="b")
            told.append(page.stdout.readline())
            commit(write="document.retire", id=2)
            commit(write="document.create", **NOTE, value="c")
            told += page.stdout.readlines()

            assert page.wait(timeout=30) == 0

    lives = [json.loads(each) for each in told]
    assert (lives[:2], lives[2], lives[-1]) == (["a", "b"], None, "c")
