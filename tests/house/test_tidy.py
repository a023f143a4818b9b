"""The shape of the code, checked as a test so that it is seen where work is seen."""

from __future__ import annotations

import ast

import pytest
from tests.house.sources import LIBRARY, MODULES, ROOT, definitions, name_of, tree_of, words_of

FUNCTION_LINES_MAX = 50
MODULE_LINES_MAX = 400
HANDLER_LINES_MAX = 60

VAGUE_VERBS = ("get_", "do_", "handle_", "process_")
VAGUE_MODULES = {"util", "utils", "helper", "helpers", "common", "misc"}
VAGUE_CLASSES = ("Manager", "Service", "Util", "Utils", "Helper")
GIVEN_NAMES = {
    "get_command",  # of click's groups
    "get_extra_info",  # of httpcore's streams
    "get_remaining_time_in_millis",  # of Lambda's context object
    "handle_exit",  # of uvicorn's server
}
BANNED_WORDS = {"lock", "offset", "ordinal", "generation"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_is_short_and_says_what_it_is_for(path):
    is_handler = path.name == "app.py" and path.parts[-3] == "functions"
    lines_max = HANDLER_LINES_MAX if is_handler else MODULE_LINES_MAX

    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)

    assert text.count("\n") <= lines_max
    title = (ast.get_docstring(tree) or "").split("\n\n", maxsplit=1)[0]
    assert not tree.body or title.endswith((".", ":", "?")), "open with a sentence: a chapter title"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_fit_a_screen(path):
    too_long = [
        f"{node.name}, line {node.lineno}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert too_long == []


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_names_say_something_and_keep_to_the_glossary(path):
    assert path.stem not in VAGUE_MODULES

    unclear = [
        f"{name}, line {line}"
        for name, line in definitions(tree_of(path))
        if name not in GIVEN_NAMES
        and (
            name.startswith(VAGUE_VERBS)
            or name.endswith(VAGUE_CLASSES)
            or {*words_of(name)} & BANNED_WORDS
        )
    ]

    assert unclear == []


BEGIN_PROCESSES = {
    "tests/support/children.py": "the one way",
    "tests/emulator/echo.py": "a function, whose children the emulator ends",
    "tests/simulator/mutations/run.py": "kills the whole group of what it began",
}


def test_a_process_that_a_test_begins_ends_with_its_block():
    asked = {
        name_of(path)
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "subprocess.Popen"
    }

    assert asked == set(BEGIN_PROCESSES)
