"""Promises of load and commit: versions, conditions, atomicity, and the same token twice."""

from __future__ import annotations

from perdure.authority.store import RevisionConflict
from perdure.authority.testing.records import (
    ELSEWHERE,
    HERE,
    Note,
    checked,
    note,
    put,
    removal,
    version,
)
from perdure.authority.testing.registry import Opener, promise, raised
from perdure.kernel import limits
from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Partition, Token
from perdure.kernel.view import Key, Reads, Stored


@promise
async def what_was_never_written_is_absent(open_store: Opener) -> None:
    store = await open_store()

    view = await store.load(Reads(keys=(note("a"),), peeks=(note("b"),)))

    assert view.stored == {note("a"): None, note("b"): None}
    assert list(view.named) == [note("a")]


@promise
async def a_commit_is_seen_by_every_later_load(open_store: Opener) -> None:
    here, there = await open_store(), await open_store()

    await here.commit(put("a", b"one", by="t1"))

    for store in (here, there, await open_store()):
        view = await store.load(Reads(keys=(note("a"),)))
        assert view.stored[note("a")] == Stored(version("t1"), b"one")


@promise
async def a_body_comes_back_byte_for_byte(open_store: Opener) -> None:
    store = await open_store()
    bodies = {"every": bytes(range(256)), "zero": b"\x00", "large": bytes(range(250)) * 1_500}

    for name, body in bodies.items():
        await store.commit(put(name, body, by=name))

    view = await store.load(Reads(keys=tuple(note(name) for name in bodies)))
    assert {key.sort[5:]: stored and stored.body for key, stored in view.stored.items()} == bodies


@promise
async def a_record_written_again_has_the_next_revision_and_the_new_token(
    open_store: Opener,
) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))

    await store.commit(put("a", b"two", by="t2", seen=version("t1")))

    view = await store.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"two")


@promise
async def a_record_that_exists_is_not_created_again(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))

    await raised(RevisionConflict, store.commit(put("a", b"two", by="t2")))

    view = await store.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t1"), b"one")


@promise
async def a_record_is_not_written_over_a_version_that_was_not_seen(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))
    await store.commit(put("a", b"two", by="t2", seen=version("t1")))

    for seen in (version("t1"), version("t2", 1), version("t1", 2), version("t2", 3)):
        late = put("a", b"late", by="t3", seen=seen)
        await raised(RevisionConflict, store.commit(late))
    await raised(RevisionConflict, store.commit(put("b", b"x", by="t4", seen=version("t1"))))

    view = await store.load(Reads(keys=(note("a"), note("b"))))
    assert view.stored == {note("a"): Stored(version("t2", 2), b"two"), note("b"): None}


@promise
async def a_conflict_names_what_has_changed_and_nothing_else(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))
    await store.commit(put("b", b"one", by="t2"))
    seen = {"a": version("t1"), "b": None, "c": None}

    commit = Commit(Token("late"), tuple(Put(note(name), seen[name], b"late") for name in seen))
    conflict = await raised(RevisionConflict, store.commit(commit))

    assert conflict.keys == (note("b"),)


@promise
async def a_record_made_again_is_another_record(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))
    await store.commit(removal("a", version("t1"), by="t2"))
    await store.commit(put("a", b"one", by="t3"))

    late = put("a", b"late", by="t4", seen=version("t1"))
    await raised(RevisionConflict, store.commit(late))

    view = await store.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t3"), b"one")


@promise
async def a_removed_record_is_absent(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))

    await store.commit(removal("a", version("t1"), by="t2"))

    view = await store.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] is None


@promise
async def a_record_is_not_removed_at_a_version_that_was_not_seen(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))
    await store.commit(put("a", b"two", by="t2", seen=version("t1")))

    await raised(RevisionConflict, store.commit(removal("a", version("t1"), by="t3")))
    await raised(RevisionConflict, store.commit(removal("b", version("t1"), by="t4")))

    view = await store.load(Reads(keys=(note("a"), note("t3"), note("t4"))))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"two")
    assert view.stored[note("t3")] is None
    assert view.stored[note("t4")] is None


@promise
async def a_check_holds_a_commit_to_what_was_seen(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))

    await store.commit(checked("a", version("t1"), by="present"))
    await store.commit(checked("b", None, by="absent"))
    for name, seen in (("a", None), ("a", version("t0")), ("b", version("t1"))):
        await raised(RevisionConflict, store.commit(checked(name, seen, by="broken")))

    names = ("present", "absent", "broken")
    view = await store.load(Reads(keys=tuple(note(name) for name in names)))
    assert [view.stored[note(name)] is not None for name in names] == [True, True, False]


@promise
async def a_commit_happens_wholly_or_not_at_all(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("last", b"one", by="t1"))
    first, second, last = (note(name) for name in ("first", "second", "last"))

    await raised(
        RevisionConflict,
        store.commit(
            Commit(
                Token("t2"),
                (Put(first, None, b"x"), Put(second, None, b"x"), Put(last, None, b"x")),
            )
        ),
    )

    view = await store.load(Reads(keys=(first, second, last)))
    assert view.stored == {first: None, second: None, last: Stored(version("t1"), b"one")}


@promise
async def one_record_sent_again_under_its_token_is_written_once(open_store: Opener) -> None:
    store = await open_store()
    created = put("a", b"one", by="t1")
    replaced = put("a", b"two", by="t2", seen=version("t1"))

    for commit in (created, created, replaced, replaced):
        await store.commit(commit)

    view = await store.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"two")


@promise
async def many_records_sent_again_under_their_token_are_written_once(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))
    commit = Commit(
        Token("t2"),
        (Put(note("a"), version("t1"), b"two"), Put(note("b"), None, b"b"), Check(note("c"), None)),
    )

    for sender in (store, store, await open_store()):
        await sender.commit(commit)

    view = await store.load(Reads(keys=(note("a"), note("b"))))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"two")
    assert view.stored[note("b")] == Stored(version("t2"), b"b")


@promise
async def a_commit_sent_again_is_known_by_any_record_it_left(open_store: Opener) -> None:
    store = await open_store()
    commit = Commit(Token("t1"), (Put(note("a"), None, b"a"), Put(note("b"), None, b"b")))
    await store.commit(commit)
    await store.commit(put("a", b"rival", by="t2", seen=version("t1")))

    await store.commit(commit)

    view = await store.load(Reads(keys=(note("a"), note("b"))))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"rival")


@promise
async def a_commit_sent_again_never_undoes_a_rival(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))
    await store.commit(put("a", b"rival", by="t2", seen=version("t1")))

    for _ in range(2):
        late = put("a", b"late", by="t3", seen=version("t1"))
        await raised(RevisionConflict, store.commit(late))

    view = await store.load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"rival")


@promise
async def partitions_are_apart(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"here", by="t1"))

    await store.commit(put("a", b"elsewhere", by="t2", partition=ELSEWHERE))

    view = await store.load(Reads(keys=(note("a"), note("a", ELSEWHERE))))
    assert [stored and stored.body for stored in view.stored.values()] == [b"here", b"elsewhere"]


@promise
async def keys_may_hold_any_text(open_store: Opener) -> None:
    store = await open_store()
    texts = ("'; --", '"q"', "%_*?", "a b", "ä", "日本", "\U0001f600", "#:\\", "x" * 900)
    keys = [Key(Partition(f"p/{text}"), text, Note) for text in texts]

    for key in keys:
        await store.commit(Commit(Token("t1"), (Put(key, None, key.sort.encode()),)))

    view = await store.load(Reads(keys=tuple(keys)))
    assert [stored and stored.body.decode() for stored in view.stored.values()] == list(texts)


@promise
async def a_commit_of_as_many_records_as_allowed_is_one(open_store: Opener) -> None:
    store = await open_store()
    keys = [note(f"{number:03d}") for number in range(limits.COMMIT_ACTIONS_MAX)]

    await store.commit(Commit(Token("t1"), tuple(Put(key, None, b"x" * 1_000) for key in keys)))

    view = await store.load(Reads(keys=tuple(keys)))
    assert {stored and stored.version for stored in view.stored.values()} == {version("t1")}


@promise
async def a_snapshot_may_name_as_many_records_as_allowed(open_store: Opener) -> None:
    store = await open_store()
    keys = [note(f"{number:03d}") for number in range(limits.LOAD_KEYS_MAX)]
    await store.commit(Commit(Token("t1"), tuple(Put(key, None, b"x") for key in keys)))

    view = await store.load(Reads(keys=tuple(keys[:50]), peeks=tuple(keys[50:]), snapshot=True))

    assert {stored and stored.version for stored in view.stored.values()} == {version("t1")}


@promise
async def a_load_may_name_more_than_a_snapshot(open_store: Opener) -> None:
    store = await open_store()
    keys = [note(f"{number:03d}") for number in range(250)]
    await store.commit(Commit(Token("t1"), tuple(Put(key, None, b"x") for key in keys[:100])))

    view = await store.load(Reads(keys=tuple(keys[:125]), peeks=tuple(keys[100:])))

    assert [view.stored[key] is not None for key in keys] == [True] * 100 + [False] * 150
    assert list(view.named) == keys[:125]


@promise
async def a_snapshot_holds_keys_and_peeks(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"a", by="t1"))
    await store.commit(put("b", b"b", by="t2"))

    reads = Reads(keys=(note("a"), note("c")), peeks=(note("b"),), snapshot=True)
    view = await store.load(reads)

    assert view.stored == {
        note("a"): Stored(version("t1"), b"a"),
        note("c"): None,
        note("b"): Stored(version("t2"), b"b"),
    }
    assert list(view.named) == [note("a"), note("c")]
    assert view.is_snapshot


@promise
async def a_load_of_nothing_finds_nothing(open_store: Opener) -> None:
    store = await open_store()

    for snapshot in (False, True):
        view = await store.load(Reads(snapshot=snapshot))
        assert view.stored == {}


@promise
async def a_closed_store_says_so(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"one", by="t1"))

    await store.close()
    await store.close()

    await raised(StoreUnavailable, store.load(Reads(keys=(note("a"),))))
    await raised(StoreUnavailable, store.commit(put("b", b"one", by="t2")))
    other = await open_store()
    view = await other.load(Reads(keys=(note("a"), note("b", HERE))))
    assert [stored is not None for stored in view.stored.values()] == [True, False]
