"""Bad input: each kind has its code, and leaves no trace."""

from __future__ import annotations

import pytest
from tests.support.harbour import Text, played
from tests.support.worldly import due

from perdure.kernel.errors import NotFound, PerdureError
from perdure.kernel.operations import Spawn, parsed_commands
from perdure.runtime.worlds import LIST_MAX

HUGE = "9" * 5_000


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (lambda w: w.describe("nothing"), "not_found"),
        (lambda w: w.describe("a/b"), "invalid_id"),
        (lambda w: w.describe("\ud800"), "invalid_id"),
        (lambda w: w.describe("x" * 10_000), "invalid_id"),
        (lambda w: w.create("a/b"), "invalid_id"),
        (lambda w: w.create("x", world_id="\0"), "invalid_id"),
        (lambda w: w.create("x", every_ms=1), "invalid"),
        (lambda w: w.submit("w", []), "invalid_batch"),
        (lambda w: w.submit("w", [due()] * 10_001), "too_large"),
        (lambda w: w.submit("w", [due()], batch_id="x" * 121), "invalid_id"),
        (lambda w: w.submit("w", [due()], batch_id="a/b"), "invalid_id"),
        (lambda w: w.submit("nothing", [due()]), "not_found"),
        (lambda w: w.submit("w", [due(command_id="\ud800")]), "invalid_id"),
        (lambda w: w.submit("w", [Spawn(Text(text="x"))]), "unknown_component"),
        (lambda w: w.submit("w", raw({"Position": {"x": 1}})), "missing_field"),
        (lambda w: w.submit("w", raw({"Position": {"x": "\ud800", "y": 0}})), "wrong_type"),
        (
            lambda w: w.submit("w", raw({"Counter": {"value": 1, "note": "\ud800"}})),
            "invalid_value",
        ),
        (lambda w: w.submit("w", raw({"Counter": {"value": 2**63}})), "out_of_range"),
        (lambda w: w.submit("w", raw({"Counter": {"value": float("nan")}})), "wrong_type"),
        (lambda w: w.submit("w", raw({"__proto__": {}})), "unknown_component"),
        (lambda w: w.command("w", "b.0"), "not_found"),
        (lambda w: w.command("w", "x." + "9" * 126), "not_found"),
        (lambda w: w.command("w", "x." + HUGE), "invalid_id"),
        (lambda w: w.command("nothing", "b.0"), "not_found"),
        (lambda w: w.cancel("w", "b.0"), "not_found"),
        (lambda w: w.cancel("w", ""), "invalid_id"),
        (lambda w: w.cancel_all("w", ""), "invalid_id"),
        (lambda w: w.cancel_all("nothing", "r"), "not_found"),
        (lambda w: w.commands("w", limit=0), "invalid"),
        (lambda w: w.commands("w", limit=LIST_MAX + 1), "invalid"),
        (lambda w: w.commands("w", ""), "invalid"),
        (lambda w: w.commands("w", "1"), "invalid"),
        (lambda w: w.commands("w", "-1.0"), "invalid"),
        (lambda w: w.commands("w", f"{HUGE}.0"), "invalid"),
        (lambda w: w.commands("w", f"1.{HUGE}"), "invalid"),
        (lambda w: w.commands("w", "٣.٣"), "invalid"),
        (lambda w: w.commands("nothing"), "not_found"),
        (lambda w: w.discover("\ud800"), "invalid_id"),
        (lambda w: w.discover("x" * 5_000), "invalid_id"),
        (lambda w: w.discover(limit=0), "invalid"),
        (lambda w: w.log("w", -1), "invalid"),
        (lambda w: w.log("w", 10**5_000), "invalid"),
        (lambda w: w.log("w", limit=0), "invalid"),
        (lambda w: w.log("nothing"), "not_found"),
    ],
    ids=range(44),
)
def test_bad_input_has_its_code_and_leaves_no_trace(call, verdict):
    async def story(harbour):
        before = harbour.records
        try:
            await call(harbour.worlds)
            found = "ok"
        except PerdureError as error:
            found = error.code
        assert harbour.records == before
        return found

    assert played(story) == verdict


def raw(components):
    return parsed_commands([{"operation": "spawn", "components": components}])


@pytest.mark.parametrize(
    ("after", "verdict"),
    [("1.0", ["b.0"]), ("0.0", ["b.0"]), ("2.1", []), ("999.9", []), ("2.99999", [])],
)
def test_a_place_in_the_ledger_may_lie_anywhere(after, verdict):
    async def story(harbour):
        await harbour.worlds.submit("w", [due()], batch_id="b")
        page, _ = await harbour.worlds.commands("w", after)
        return [each.command_id for each in page]

    assert played(story) == verdict


def test_a_world_that_was_never_made_stays_unmade():
    async def story(harbour):
        with pytest.raises(NotFound):
            await harbour.worlds.submit("elsewhere", [due()])

    played(story)
