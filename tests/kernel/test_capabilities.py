"""What a world uses of its application: who may change it, and what is written down of that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World

from perdure.kernel import limits
from perdure.kernel.caller import Caller
from perdure.kernel.capabilities import (
    Capabilities,
    Configure,
    FindCapabilities,
    Use,
    capabilities_key,
)
from perdure.kernel.errors import Contended, Invalid, NotFound, PerdureError
from perdure.kernel.log import log_key
from perdure.kernel.records import world_key

pytestmark = pytest.mark.lifecycle

KNOWN = ("drift", "sink", "sail")
KEY = capabilities_key(WORLD.partition)


def change(action="remove", name="drift", kind="processor", **options):
    settings = {"app": "harbour", "known": KNOWN, **options}
    return Configure(WORLD, kind=kind, action=action, name=name, **settings)


def held(world, kind="processor"):
    record = world.paper.held(KEY)
    uses = None if record is None else record.uses(kind)
    return None if uses is None else {use.name: use.priority for use in uses}


def replaced(world, **changes):
    world.paper.put(replace(world.head, **changes))


def test_first_change_writes_down_what_the_application_has_now():
    world = World()

    world.paper.ask(change("remove", "drift"))

    assert held(world) == {"sail": None, "sink": None}
    assert held(world, "hook") is None
    assert world.head.configured == 1


@pytest.mark.parametrize("kind", ["processor", "hook", "resource"])
def test_each_kind_has_a_list_of_its_own(kind):
    world = World()

    world.paper.ask(change("remove", "sink", kind))

    chosen = {each: held(world, each) for each in ("processor", "hook", "resource")}
    assert chosen.pop(kind) == {"drift": None, "sail": None}
    assert set(chosen.values()) == {None}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (None, ("add", "drift", None)),
        (("remove", "drift", None), ("remove", "drift", None)),
        (("add", "drift", 5), ("add", "drift", 5)),
        (("remove", "drift", None), ("add", "sink", None)),
    ],
    ids=["all is used", "removed twice", "added twice", "used already"],
)
def test_what_is_so_already_is_written_no_second_time(first, again):
    world = World()
    if first is not None:
        world.paper.ask(change(first[0], first[1], priority=first[2]))
    before = dict(world.paper.stored)

    answer = world.paper.ask(change(again[0], again[1], priority=again[2]))

    assert world.paper.stored == before
    assert answer == world.paper.held(KEY)


def test_another_priority_is_a_change_and_none_is_the_application_s_own():
    world = World()

    chosen = []
    for priority in (5, -1, None):
        world.paper.ask(change("add", "drift", priority=priority))
        chosen.append(held(world)["drift"])

    assert chosen == [5, -1, None]
    assert world.head.configured == 3


def test_log_tells_who_changed_what():
    world = World()

    world.paper.ask(change("add", "sink", priority=2, by=Caller("ann", "gateway")))

    entry = world.paper.held(log_key(WORLD.partition, world.head.seq))
    assert entry.kind == "configured"
    assert entry.facts == {
        "kind": "processor",
        "action": "add",
        "name": "sink",
        "priority": 2,
        "actor": "ann",
        "origin": "gateway",
    }
    assert world.head.log_digest == entry.digest


def closing(world):
    replaced(world, status="closing")


def destroyed(world):
    replaced(world, status="destroyed")


def moving(world):
    replaced(world, status="moving")


def private(world):
    replaced(world, writer_mode="cleanup_only")


def made_for_another(world):
    world.paper.put(replace(world.paper.held(world_key(WORLD)), app="airspace"))


def changed_too_often(world):
    replaced(world, configured=limits.CONFIGURATIONS_MAX)


def nothing(world):
    """Leave the world as it was made."""


@pytest.mark.parametrize(
    ("given", "request_of", "code"),
    [
        (nothing, change("add", "fly"), "unknown_processor"),
        (nothing, change("remove", "fly"), "unknown_processor"),
        (nothing, change("add", "fly", "hook"), "unknown_hook"),
        (nothing, change("add", "fly", "resource"), "unknown_resource"),
        (closing, change(), "world_closing"),
        (destroyed, change(), "world_destroyed"),
        (moving, change(), "world_moving"),
        (private, change(), "not_permitted"),
        (private, change(holder="ann"), "not_permitted"),
        (made_for_another, change(), "wrong_app"),
        (changed_too_often, change(), "too_large"),
        (nothing, change(known=tuple(f"p{n}" for n in range(102)), name="p0"), "too_large"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_refusal_has_its_code_and_changes_nothing(given, request_of, code):
    world = World()
    given(world)
    before = dict(world.paper.stored)

    with pytest.raises(PerdureError) as refused:
        world.paper.ask(request_of)

    assert refused.value.code == code
    assert world.paper.stored == before


@pytest.mark.parametrize(
    "request_of",
    [
        change(name=""),
        change(name="a/b"),
        change("add", priority=limits.PRIORITY_MAX + 1),
        change("add", "drift", "hook", priority=1),
    ],
)
def test_malformed_request_is_refused_before_it_is_decided(request_of):
    with pytest.raises(Invalid):
        request_of.checked()


def test_world_that_does_not_exist_is_not_found():
    world = World()
    nowhere = replace(WORLD, world="nowhere")

    for request in (replace(change(), ref=nowhere), FindCapabilities(nowhere)):
        with pytest.raises(NotFound):
            world.paper.ask(request)


def test_holder_of_a_private_world_may_choose():
    world = World()
    grip = world.take("ann")
    private(world)

    world.paper.ask(change(holder=grip.holder))

    assert "drift" not in held(world)


def test_what_the_application_has_no_longer_can_still_be_removed():
    world = World()
    world.paper.ask(change("remove", "sail"))

    world.paper.ask(change("remove", "drift", known=("sink",)))

    assert held(world) == {"sink": None}


def test_rivals_change_one_after_the_other_and_both_hold():
    world = World()

    world.paper.ask(
        change("remove", "drift"),
        rival=lambda: world.paper.ask(change("add", "sail", priority=9)),
    )

    assert held(world) == {"sail": 9, "sink": None}
    assert world.head.configured == 2


def test_reader_beside_a_running_change_looks_again():
    world = World()
    world.paper.ask(change("remove", "drift"))
    replaced(world, configured=2)

    with pytest.raises(Contended):
        world.paper.ask(FindCapabilities(WORLD))


def test_reader_is_told_the_choice_and_how_often_it_changed():
    world = World()
    never = world.paper.ask(FindCapabilities(WORLD))
    world.paper.ask(change("remove", "drift"))

    found = world.paper.ask(FindCapabilities(WORLD))

    assert (never.configured, never.capabilities) == (0, None)
    assert (found.configured, found.capabilities) == (1, world.paper.held(KEY))


def test_copy_is_the_same_choice_in_another_world():
    chosen = Capabilities(partition="w/a", configured=3, processors=(Use("drift", 1),))

    copy = chosen.copied("w/b")

    assert copy.key == capabilities_key("w/b")
    assert copy.body() == chosen.body()


def test_longest_choice_stays_inline():
    names = [f"{n:03d}".ljust(limits.ID_BYTES_MAX, "x") for n in range(limits.CAPABILITIES_MAX)]
    uses = tuple(Use(name, -limits.PRIORITY_MAX) for name in names)
    whole = Capabilities(
        partition="w", configured=10**6, processors=uses, hooks=uses, resources=uses
    )

    assert len(whole.body()) <= limits.BODY_INLINE_BYTES_MAX
