"""The checker: whether what processes were told, and what a store holds, can both be true.

It reads histories and records and nothing else. Invariants are named as in the reliability
page: I1 one epoch publishes a tick, I2 a command settles once, I3 rows that are seen are rows
of published tokens, I4 events follow from records, I5 nothing is admitted after the end, I6 the
head is contiguous, I7 the same key answers the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from tests.proof.history import Call
from tests.proof.order import Step, misplaced
from tests.proof.places import PLACES, Untrue
from tests.proof.records import Records
from tests.proof.story import Story, stories

from perdure.kernel import ranges


@dataclass
class Checked:
    """What was found, and how much there was to find it in."""

    faults: list[str] = field(default_factory=list)
    steps: int = 0
    """Calls that were given a place in a log."""

    entries: int = 0
    """Of all logs."""


def check(calls: Sequence[Call], records: Records) -> Checked:
    """Check histories against the records at their end, and both against the invariants."""
    told = stories(records)
    checked = Checked(entries=sum(story.last for story in told.values()))
    for story in told.values():
        checked.faults += story.faults
        checked.faults += _pages(story)
        checked.faults += _unasked(calls, story)
        checked.faults += _otherwise(calls, story)
    checked.faults += [*_names(calls, records), *_receipts(calls), *_epochs(calls)]
    by_world: defaultdict[str, list[Step]] = defaultdict(list)
    placed = (each for call in calls for each in _placed(call, told, checked.faults))
    for world, step in chain(placed, _unheard(calls, told), _sources(calls, told)):
        by_world[world].append(step)
    for world, steps in by_world.items():
        checked.steps += len(steps)
        checked.faults += [f"order of {world}: {each}" for each in misplaced(steps)]
    return checked


def _placed(call: Call, told: dict[str, Story], faults: list[str]) -> Iterator[tuple[str, Step]]:
    """Yield the place of a call in its world's log, unless it says nothing of that."""
    story = told.get(call.world)
    if call.outcome == "unknown" or (story is None and not call.is_answered):
        return
    if story is None:
        faults.append(f"{call}: there is no such world: it is lost")
        return
    try:
        where = PLACES[call.what](call, story)
    except Untrue as untrue:
        faults.append(f"{call}: {untrue}")
        return
    if where:
        yield story.name, Step(str(call), call.invoked_ns, call.returned_ns, where)
    elif where is not None:
        faults.append(f"{call}: no moment of {story.name} was like that")


def _unheard(calls: Sequence[Call], told: dict[str, Story]) -> Iterator[tuple[str, Step]]:
    """Yield admissions that are in a log though nobody heard that they happened.

    One of the calls that asked for it did it, at the earliest when the first of them was made.
    """
    for (world, batch), asking in _admissions(calls).items():
        place = told[world].admitted.get(batch) if world in told else None
        if place is None or any(call.is_answered for call in asking):
            continue
        unheard = [call for call in asking if call.outcome == "unknown"]
        if unheard:
            first = min(unheard, key=lambda call: call.invoked_ns)
            yield world, Step(str(first), first.invoked_ns, None, ((place, place),))


def _sources(calls: Sequence[Call], told: dict[str, Story]) -> Iterator[tuple[str, Step]]:
    """Yield what forks read of their sources: the moment of the source that they copied."""
    forks: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.what == "fork":
            forks[call.world].append(call)
    for child, asking in forks.items():
        for call in asking:
            source = told.get(call.asked["source"])
            if not call.is_answered or source is None or child not in told:
                continue
            at = told[child].world.log[0].facts["source_seq"]
            where = ((at, at),) if len(asking) == 1 else source.since(at)
            name = f"{call} (its source)"
            yield source.name, Step(name, call.invoked_ns, call.returned_ns, where)


def _admissions(calls: Sequence[Call]) -> dict[tuple[str, str], list[Call]]:
    found: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        if call.what == "admit":
            found[call.world, call.asked["batch"]].append(call)
    return found


def _unasked(calls: Sequence[Call], story: Story) -> Iterator[str]:
    """Find admissions that nobody asked for like that, or that were said not to have happened."""
    asked = _admissions(calls)
    for batch, place in story.admitted.items():
        asking = asked.get((story.name, batch), ())
        outcomes = {call.outcome for call in asking}
        if not outcomes & {"answered", "unknown"}:
            said = ", ".join(sorted(outcomes)) or "never asked for"
            yield f"{story.name}: batch {batch} is admitted at {place}, and was {said}"
        stored = story.world.log[place - 1].content["commands"]
        believed = [call for call in asking if call.outcome in {"answered", "unknown"}]
        if believed and all(call.asked["commands"] != stored for call in believed):
            yield f"{story.name}: I7: batch {batch} at {place} says what nobody sent: {stored}"


def _otherwise(calls: Sequence[Call], story: Story) -> Iterator[str]:
    """Check I7: the commands that a receipt stands for say what was sent, and no more are there."""
    for call in calls:
        if call.what == "admit" and call.is_answered and call.world == story.name:
            receipts = call.answer["receipts"]
            stored = [story.operations.get(sequence) for _, sequence, *_ in receipts]
            if stored != call.asked["commands"]:
                yield f"I7: {call}: what is stored under its receipts is {stored}"


def _receipts(calls: Sequence[Call]) -> Iterator[str]:
    """Check I7: a batch id and its content have one answer; other content is a conflict."""
    for (world, batch), asking in _admissions(calls).items():
        answered = [call for call in asking if call.is_answered]
        contents = {call.asked["content"] for call in answered}
        if len(contents) > 1:
            yield f"{world}: I7: batch {batch} was admitted with different contents: {contents}"
        receipts = {str(call.answer["receipts"]) for call in answered}
        if len(contents) == 1 and len(receipts) > 1:
            yield f"{world}: I7: batch {batch} has different receipts: {receipts}"
        if sum(not call.answer["replayed"] for call in answered) > 1:
            yield f"{world}: I7: batch {batch} was admitted more than once"
        for call in asking:
            if call.code == "conflict" and call.asked["content"] in contents:
                yield f"I7: {call}: it was admitted with that very content"


def _names(calls: Sequence[Call], records: Records) -> Iterator[str]:
    """Check that a name and an id have one winner, and that the winner has both."""
    winners: defaultdict[str, set[str]] = defaultdict(set)
    for call in calls:
        if call.what in {"create", "fork"} and call.is_answered:
            winners[call.asked["name"]].add(call.world)
            world = records.worlds.get(call.world)
            if world is not None and world.record.name != call.asked["name"]:
                yield f"{call}: that world is called {world.record.name!r}"
        elif call.code == "name_taken" and call.asked["name"] not in records.names:
            yield f"{call}: nobody has that name"
    for name, worlds in winners.items():
        if worlds != {records.names.get(name)}:
            yield f"name {name!r} was given to {sorted(worlds)}, and {records.names.get(name)} has it"


def _epochs(calls: Sequence[Call]) -> Iterator[str]:
    """Check I1: a tick is published once, an epoch is of one process, and none comes back."""
    ticks: dict[tuple[str, int], Call] = {}
    processes: dict[tuple[str, int], str] = {}
    by_world: defaultdict[str, list[Step]] = defaultdict(list)
    for call in calls:
        if call.what not in {"take", "tick"} or not call.is_answered:
            continue
        is_tick = call.what == "tick"
        epoch = call.asked["epoch"] if is_tick else call.answer["epoch"]
        step = Step(str(call), call.invoked_ns, call.returned_ns, ((epoch, epoch),))
        by_world[call.world].append(step)
        holder = processes.setdefault((call.world, epoch), call.process)
        if holder != call.process:
            yield f"I1: {call}: epoch {epoch} is that of {holder}"
        other = ticks.setdefault((call.world, call.answer["tick"]), call) if is_tick else call
        if other is not call:
            yield f"I1: {call}: {other} published it"
    for world, steps in by_world.items():
        yield from (f"I1: epochs of {world}: {each}" for each in misplaced(steps))


def _pages(story: Story) -> Iterator[str]:
    """Check I2 from its other side: the pages of a living world hold exactly what is open."""
    if story.moments[-1].status != "active":
        return
    held: list[int] = []
    for page in story.world.pages:
        for entry in page.entries:
            batch = story.batches[entry.world or page.partition, entry.seq]
            held += ranges.members(entry.open or batch.group_ranges[entry.group])
    live = sorted(each for each in held if each >= story.world.head.cancelled_below)
    if live != sorted(story.open):
        yield f"{story.name}: I2: pages hold {live}, open is {sorted(story.open)}"
