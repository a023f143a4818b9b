"""Verification of forks, of their ancestors after a trim, and of worlds that chose otherwise."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from tests.runtime.harness import Fuel, Place, no_pause
from tests.runtime.keeping import keeping, moving_app
from tests.runtime.trimming import HOUR, archiving, everything, trim

from perdure import Spawn, Update
from perdure.kernel import limits
from perdure.kernel.errors import TickFailed
from perdure.kernel.ids import RunId
from perdure.runtime.configure import Configuring
from perdure.runtime.fork import Wish
from perdure.runtime.fork_elsewhere import fork_elsewhere

pytestmark = pytest.mark.lifecycle


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_TICKS", 4)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def where(request, tmp_path):
    """Return where a storage lies."""
    aws = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return {"root": tmp_path, "aws": aws}


async def family(kept, many: int) -> None:
    """Let a world be forked, and its fork again, each with commands open, and all live on."""
    worlds, run = kept.harness.worlds, kept.harness.run
    await kept.live(ticks=6, many=many)
    await worlds.submit("w", [Spawn(Fuel(litres=8), tick=8), Spawn(Fuel(litres=9), tick=9)])
    await worlds.submit("w", [Update(Place(x=1, y=1), entity_id=1)], batch_id="next")
    await worlds.cancel("w", "next.0")
    await worlds.fork("w", "child", world_id="child")
    await worlds.submit("w", [Spawn(Fuel(litres=10))], batch_id="after")
    await worlds.submit("child", [Spawn(Fuel(litres=11))], batch_id="own")
    await run("w", 7)
    await run("child", 6)
    await worlds.fork("child", "grandchild", world_id="grandchild")
    await worlds.fork("child", "bare", world_id="bare", pending="drop")
    for each in ("child", "grandchild", "bare", "w"):
        await run(each, 9)


async def test_forks_and_forks_of_forks_verify_before_and_after_landing(where):
    async with keeping(**where) as kept:
        await family(kept, many=20)
        names = ("w", "child", "grandchild", "bare")

        before = [await kept.verify(each) for each in names]
        await kept.land(*names)
        after = [await kept.verify(each) for each in names]
        part = await kept.verify("grandchild", from_tick=8, to_tick=9)

    assert [(each.findings, each.checked_ticks) for each in before] == [
        ((), 10),
        ((), 4),
        ((), 3),
        ((), 3),
    ]
    assert after == before
    assert (part.findings, part.checked_ticks) == ((), 2)


async def test_a_fork_in_another_storage_verifies_from_the_tick_it_begins_with(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    async with keeping(tmp_path / "here") as here, keeping(tmp_path / "there") as there:
        await here.live(ticks=6, many=20)
        source, child = here.harness.worlds.ref("w"), there.harness.worlds.ref("child")
        wish = Wish(source, child, "child", RunId("01890000-0000-7000-8000-0000000000ff"))
        tickers = (here.harness.ticker(), there.harness.ticker())
        await fork_elsewhere(tickers[0].means, tickers[1].means, wish)
        await there.harness.run("child", 9)

        before = await there.verify("child")
        await there.land("child")
        after = await there.verify("child")

    assert (before.findings, before.checked_ticks) == ((), 5)
    assert after == before


async def test_a_trim_of_ancestors_leaves_their_forks_readable_and_able_to_go_on(tmp_path):
    async with keeping(tmp_path, wrap=archiving) as kept:
        h = kept.harness
        await kept.live(ticks=10, many=160)
        await h.worlds.submit("w", [Spawn(Fuel(litres=8), tick=11)], batch_id="open")
        await h.worlds.fork("w", "idle", world_id="idle")
        await h.worlds.fork("w", "busy", world_id="busy")
        await h.run("busy", 20)
        await h.run("w", 20)
        names = {"w": 21, "idle": 10, "busy": 21}
        before = [await everything(kept, ticks, each) for each, ticks in names.items()]
        await kept.land(*names)
        h.clock.advance(2 * HOUR)

        trimmed = await trim(kept, *names)
        after = [await everything(kept, ticks, each) for each, ticks in names.items()]
        await h.run("idle", 12)
        found = [(await kept.verify(each)).findings for each in names]
        expected = await kept.rows("Fuel", 12, "w")
        woken = await kept.rows("Fuel", 12, "idle")

    assert trimmed.segments > 0
    assert after == before
    assert found == [(), (), ()]
    assert [row["fuel__litres"] for row in woken] == [row["fuel__litres"] for row in expected]


async def test_ticks_before_and_after_a_world_chose_otherwise_verify_alike(tmp_path):
    app = moving_app()

    @app.resource("wind")
    def wind():
        return 2.5

    @app.processor(Fuel, priority=3)
    def burn(rows, tick):
        left = pc.subtract(rows["fuel__litres"], int(tick.resources["wind"]))
        return rows.set_column(rows.schema.get_field_index("fuel__litres"), "fuel__litres", left)

    async with keeping(tmp_path, app=app) as kept:
        h, ref = kept.harness, kept.harness.worlds.ref("w")
        await kept.live(ticks=3, many=5)
        configuring = Configuring(h.authority, app, pause=no_pause)
        await configuring.remove("processor", ref, "drift")
        await configuring.remove("resource", ref, "wind")
        with pytest.raises(TickFailed):
            await h.run("w", 3)
        await configuring.remove("processor", ref, "burn")
        await configuring.add("processor", ref, "drift", priority=9)
        await h.run("w", 6)

        verified = await kept.verify()

    assert (verified.findings, verified.checked_ticks) == ((), 7)
