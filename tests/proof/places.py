"""Places: where in its world's log each call may stand, given what it was told."""

from __future__ import annotations

from collections.abc import Callable

from tests.proof.history import Call
from tests.proof.order import Spans
from tests.proof.story import CANCELLED, Fate, Story, living_at


class Untrue(Exception):
    """An answer that no moment of the world could have given."""


def _status(call: Call, story: Story) -> Spans | None:
    if call.code == "not_found":
        sequence = story.sequences.get(call.asked["command"])
        return _before(story, 0 if sequence is None else story.fates[sequence][0][0])
    if not call.is_answered:
        return None
    told = call.answer
    sequence = _known(story, call.asked["command"])
    if told["sequence"] != sequence:
        raise Untrue(f"its sequence is {sequence}")
    wanted = Fate(told["status"], told["attempts"], told["code"])
    return story.where_fate(sequence, lambda fate: fate == wanted)


def _admit(call: Call, story: Story) -> Spans | None:
    batch = call.asked["batch"]
    place = story.admitted.get(batch)
    if not call.is_answered:
        return _refused(call, story)
    places = []
    for command, sequence, entity, *_ in call.answer["receipts"]:
        known = _known(story, command)
        if (sequence, entity) != (known, story.entities.get(known)):
            raise Untrue(f"{command} has sequence {known}, entity {story.entities.get(known)}")
        places.append(story.fates[known][0][0])
    if call.answer["replayed"]:
        return story.since(max(places))
    if place is None or places != [place] * len(places):
        raise Untrue(f"it is in the log at {place}, its commands at {places}")
    return ((place, place),)


def _refused(call: Call, story: Story) -> Spans | None:
    """Return where a world refuses a change for what it is."""
    if call.code in {"world_closing", "world_destroyed"}:
        return story.where(call.code.removeprefix("world_"))
    if call.code == "not_found":
        return _before(story, 1)
    return None


def _before(story: Story, place: int) -> Spans:
    """Return all places before one; all there are if it is none."""
    return ((0, (place or story.last + 1) - 1),)


def _cancel(call: Call, story: Story) -> Spans | None:
    if call.code == "not_found":
        return _status(call, story)
    if call.code == "not_cancellable":
        sequence = _known(story, call.asked["command"])
        return story.where_fate(sequence, lambda fate: not fate.is_open)
    if not call.is_answered:
        return _refused(call, story)
    sequence = _known(story, call.asked["command"])
    if sequence not in story.world.cancelled:
        raise Untrue("it has no mark of a cancellation")
    return story.where_fate(sequence, lambda fate: fate == CANCELLED)


def _cancel_all(call: Call, story: Story) -> Spans | None:
    if not call.is_answered:
        return _refused(call, story)
    for place, entry in enumerate(story.world.log, 1):
        if entry.kind == "cancelled_all" and entry.facts["request"] == call.asked["request"]:
            if entry.facts["cancelled_below"] != call.answer["cancelled_below"]:
                raise Untrue(f"the log says {entry.facts['cancelled_below']}")
            return story.since(place)
    raise Untrue("it is not in the log")


def _tick(call: Call, story: Story) -> Spans | None:
    if not call.is_answered:
        return _refused(call, story)
    told = call.answer
    manifest = story.world.manifests.get(told["tick"])
    found = None if manifest is None else (manifest.token, manifest.epoch)
    if manifest is None or found != (told["token"], call.asked["epoch"]):
        raise Untrue(f"I1: its manifest says {found}")
    return ((manifest.seq, manifest.seq),)


def _take(call: Call, story: Story) -> Spans | None:
    if not call.is_answered:
        return _refused(call, story)
    return ((call.answer["seq"], call.answer["seq"]),)


def _info(call: Call, story: Story) -> Spans | None:
    if not call.is_answered:
        return _before(story, 1) if call.code == "not_found" else None
    told = call.answer
    wanted = (told["status"], told["published"], told["pending"])
    places = []
    for at, moment in enumerate(story.moments):
        if (moment.status, moment.published, moment.pending) == wanted:
            places.append((at, at))
    return tuple(places)


def _rows(call: Call, story: Story) -> Spans | None:
    """Rows are those that commands of published ticks made, under the token of their tick."""
    if not call.is_answered:
        return None
    tick = call.asked["tick"]
    if tick not in story.tokens:
        raise Untrue(f"I3: tick {tick} is not published")
    rows = {entity: y for entity, y, _ in call.answer["rows"]}
    wanted = {entity: values["Position"]["y"] for entity, values in living_at(story, tick).items()}
    if rows != wanted or len(call.answer["rows"]) != len(rows):
        raise Untrue(f"I3: {sorted(rows.items() ^ wanted.items())} are on one side alone")
    if {token for *_, token in call.answer["rows"]} - {story.tokens[tick]}:
        raise Untrue(f"I3: rows of another token than {story.tokens[tick]}")
    return story.since(story.published.get(tick, 1))


def _log(call: Call, story: Story) -> Spans | None:
    if not call.is_answered:
        return _before(story, 1) if call.code == "not_found" else None
    after, digests = call.asked["after"], call.answer["digests"]
    wanted = [entry.digest for entry in story.world.log[after : after + len(digests)]]
    if digests != wanted:
        raise Untrue("an entry of the log is another one now")
    last = after + len(digests)
    if not digests:  # the log ended there, or before
        return ((0, after),)
    return ((last, last),) if len(digests) < call.asked["limit"] else story.since(last)


def _create(call: Call, story: Story) -> Spans | None:
    return story.since(1) if call.is_answered else None


def _destroy(call: Call, story: Story) -> Spans | None:
    return story.where("destroyed") if call.is_answered else None


PLACES: dict[str, Callable[[Call, Story], Spans | None]] = {
    "admit": _admit,
    "cancel": _cancel,
    "cancel_all": _cancel_all,
    "create": _create,
    "destroy": _destroy,
    "fork": _create,
    "info": _info,
    "log": _log,
    "rows": _rows,
    "status": _status,
    "take": _take,
    "tick": _tick,
}


def _known(story: Story, command: str) -> int:
    sequence = story.sequences.get(command)
    if sequence is None:
        raise Untrue(f"command {command} is nowhere in the log: it is lost")
    return sequence
