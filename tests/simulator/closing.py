"""The end of a play: no faults any more, and everything that was begun comes to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.simulator.clients import destroyed, sent
from tests.simulator.keepers import landed, projected
from tests.simulator.reading import history_read, read_once
from tests.simulator.records import Violation, expect
from tests.simulator.stage import Process
from tests.simulator.world import WorldTruth
from tests.simulator.writers import EVERY_MS, dispatched, served

from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant
from perdure.runtime.run import run_ticks
from perdure.runtime.tick import Ticker

TRIES_MAX = 40
"""Times something is asked for in a calm, with longer and longer pauses, before it counts as stuck."""


async def closer(me: Process) -> None:
    """Let everything settle, land and be told, and hold the result to the truth."""
    stage = me.stage
    writer = me.ticker(lease_ms=60_000, on_failure="continue")
    await _until(me, "everybody comes to an end", lambda: _have_left(me))
    for intention in stage.notebook:
        if (intention.world, intention.batch) in stage.answered and stage.chance.random() < 0.8:
            continue
        await _until(me, f"{intention.batch} is answered", lambda: sent(me, intention))  # noqa: B023
    for world in list(stage.truth.worlds.values()):
        await _settled(me, writer, world)
        if world.status == "closing":
            await _until(me, f"{world.world} is destroyed", lambda: _ended(me, world))  # noqa: B023
    # By then every hint is due, also one that was written by a clock ahead of time.
    await me.means.pause(120.0 + stage.weather.skew_ms / 1_000)
    stage.queue.clear()  # what is due must be found again, whatever was told of it
    for world in list(stage.truth.worlds.values()):
        if EVERY_MS.get(world.world) is not None and world.status == "active":
            await _until(me, f"{world.world} ticks by itself", _dispatched(me, writer, world))
    for what, keep in (("landed", landed), ("projected", projected)):
        await _until(me, f"all is {what}", lambda: _nothing_left(me, keep))  # noqa: B023
    stage.landed.check_whole()
    for world in list(stage.truth.worlds.values()):
        await _read(me, world)
    _check_disk(me)
    stage.is_over = True


async def _until(me: Process, what: str, ask: Callable[[], Awaitable[bool]]) -> None:
    for number in range(TRIES_MAX):
        if await ask():
            return
        await me.means.pause(10.0 * 1.3**number)
    raise Violation("I9", f"after the storm, {TRIES_MAX} tries do not bring it about that {what}")


async def _settled(me: Process, writer: Ticker, world: WorldTruth) -> None:
    """Tick a world until nothing is open: at most so far as something is due, and a few ticks."""
    held = world.ledger.open
    latest = max((each.tick for each in held.values()), default=world.published)
    # What was cancelled takes its room in a tick as well, until it is taken out of its page.
    limit = max(latest, world.published) + len(world.ledger.named) + 2

    async def settled() -> bool:
        if world.status != "active" or not held:
            return True
        target = max(world.published + 1, min(each.tick for each in held.values()))
        expect(target <= limit, "I9", "{} has {} open at tick {}", world.world, held, target)
        deadline = Instant(me.now() + 3_600_000)
        try:
            await run_ticks(writer, me.ref(world.world), to_tick=target, deadline=deadline)
        except PerdureError as error:
            me.met(f"closing run: {error.code}")
            me.note("is told of its run in {}: {}", world.world, error)
            me.check("closing run", error, world.world)
        return world.status != "active" or not held

    for _ in range(limit - world.published + 1):
        await _until(me, f"{world.world} ticks", _progress(world, settled))


def _progress(
    world: WorldTruth, settled: Callable[[], Awaitable[bool]]
) -> Callable[[], Awaitable[bool]]:
    before = world.published

    async def progressed() -> bool:
        return await settled() or world.published > before

    return progressed


def _dispatched(me: Process, writer: Ticker, world: WorldTruth) -> Callable[[], Awaitable[bool]]:
    """Look for what is due and serve what is found, until a world has gained a tick by that."""
    before = world.published

    async def has_ticked() -> bool:
        await dispatched(me)
        for message in list(me.stage.queue):
            await served(me, writer, message)
        if world.published > before:
            me.met("closing: a schedule is served")
        return world.published > before

    return has_ticked


async def _have_left(me: Process) -> bool:
    others = (each for each in me.stage.processes if each is not me)
    return all(each.has_left for each in others)


async def _ended(me: Process, world: WorldTruth) -> bool:
    await destroyed(me, world.world)
    return world.status == "destroyed"


async def _nothing_left(me: Process, keep: Callable[[Process], Awaitable[bool | None]]) -> bool:
    return await keep(me) is False


async def _read(me: Process, world: WorldTruth) -> None:
    """Read a few ticks, what happened to a few commands, and the whole log."""
    for tick in sorted({world.published, world.begins, world.published // 2}):
        if 0 <= tick <= world.published:
            await _until(me, "a tick is read", lambda: read_once(me, world.world, tick))  # noqa: B023
    for command in sorted(world.ledger.receipts)[:: max(1, len(world.ledger.receipts) // 4)]:
        read = lambda: history_read(me, world.world, command, whole=True)  # noqa: B023, E731
        await _until(me, "a history is read", read)
    log = await me.worlds.log(world.world, 0, 1_000)
    found = [(each.seq, each.kind, each.facts) for each in log]
    wanted = [(seq, each["kind"], each["facts"]) for seq, each in sorted(world.entries.items())]
    expect(found == wanted[:1_000], "I6", "the log of {} has {} entries", world.world, len(found))


def _check_disk(me: Process) -> None:
    """Hold what lies on the disk to what its commits said, world by world."""
    truth = me.stage.truth
    manifests: dict[str, list[int]] = {}
    pages: dict[str, set[str]] = {}
    for key, stored in me.stage.disk.records().items():
        kind, _, suffix = key.partition.partition("/")
        if kind == "m":
            manifests.setdefault(suffix, []).append(me.stage.chunks.decoded(stored.body)["tick"])
        elif kind == "w" and key.sort == "head":
            head = me.stage.chunks.decoded(stored.body)
            expect(head == truth.worlds[suffix].head, "I6", "head of {}", suffix)
        elif kind == "w" and key.sort.startswith("due/"):
            pages.setdefault(suffix, set()).add(key.sort)
    for suffix, world in truth.worlds.items():
        own = list(range(world.begins, world.published + 1))
        expect(sorted(manifests.get(suffix, [])) == own, "I2", "manifests of {}", world.world)
        named = pages.get(suffix, set())
        expect(named == world.ledger.pages.keys(), "I8", "pages of {}: {}", world.world, named)
