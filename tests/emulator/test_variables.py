"""Each function sees its own variables, though all of them run in one process."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from perdure_emulator.declared import Function
from perdure_emulator.sandboxes import InLoop, InThread
from perdure_emulator.variables import effective, inside

pytestmark = pytest.mark.cloud

FILE = """
import asyncio, os

LOADED = os.environ.get("NAME")

class Kept:
    async def opened(self):
        self.opened_by = os.environ["NAME"]

    async def answer(self, event, context):
        await asyncio.sleep(0)
        inner = await asyncio.to_thread(lambda: os.getenv("NAME"))
        return {"loaded": LOADED, "now": os.environ["NAME"], "inner": inner,
                "listed": "NAME" in os.environ, "all": dict(os.environ)["NAME"]}

    async def aclose(self):
        pass

    def close(self):
        pass

sandbox = Kept()

def handler(event, context):
    return asyncio.run(sandbox.answer(event, context))
"""


@pytest.fixture
def function(tmp_path):
    (tmp_path / "app.py").write_text(FILE)

    def named(name):
        return Function(name, tmp_path / "app.py", "handler", 30, environment={"NAME": name})

    return named


def said(name):
    return dict.fromkeys(("loaded", "now", "inner", "all"), name) | {"listed": True}


@pytest.mark.parametrize("place", [InLoop, InThread])
async def test_functions_side_by_side_see_their_own_when_loaded_opened_and_asked(function, place):
    ann, bob = place(function("ann")), place(function("bob"))
    await ann.open()
    await bob.open()

    answers = await asyncio.gather(
        *(each.invoke({}, seconds_max=60) for each in (ann, bob, ann, bob))
    )

    assert answers == [said("ann"), said("bob"), said("ann"), said("bob")]
    assert "NAME" not in os.environ
    await ann.close()
    await bob.close()


def test_variables_of_the_process_are_seen_behind_those_of_the_function(monkeypatch):
    monkeypatch.setenv("BEHIND", "process")
    monkeypatch.setenv("NAME", "process")

    with inside({"NAME": "ann"}):
        assert (os.environ["NAME"], os.environ["BEHIND"]) == ("ann", "process")
        with inside({"BEHIND": "bob"}):
            assert (os.environ["NAME"], os.environ["BEHIND"]) == ("process", "bob")
        assert os.environ["NAME"] == "ann"
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(os.environ["NAME"]))
        thread.start()
        thread.join()

    assert elsewhere == ["process"]
    assert os.environ["NAME"] == "process"


def test_what_the_process_says_of_a_declared_name_counts_and_what_the_emulator_says_more(
    monkeypatch,
):
    monkeypatch.setenv("A", "process")
    monkeypatch.setenv("B", "process")
    declared = {"A": "template", "B": "template", "C": "template"}

    assert effective(declared, {"B": "emulator"}) == {
        "A": "process",
        "B": "emulator",
        "C": "template",
    }
