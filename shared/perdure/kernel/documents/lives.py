"""Lives at addresses: what a commit has created begins to live, one at each."""

from __future__ import annotations

from perdure.kernel.documents.errors import AddressTaken
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import Life, document_key, logged_key
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.writes import lives_before, no_document
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.seen import SeenInPart
from perdure.kernel.shown import shown


def begin_lives(step: Step) -> None:
    """Let what the commit has created live at its addresses, one at each. Raises AddressTaken.

    What it has also retired has an empty life, which is at no commit, and takes no address.
    """
    taken: dict[str, DocumentId] = {}
    created = [
        each for id in step.created if (each := step.read(document_key(step.store, DocumentId(id))))
    ]
    living = [each for each in created if each.retired_at is None]
    begun = _begun_last(step) if living else {}
    for document in living:
        address = document.address
        lives = step.find(lives_before(step.store, address))
        if address.hash in begun and begun[address.hash] not in lives:
            lives = [_shown(step, begun[address.hash])]
        for life in lives:
            if step.read(life.key) is None:
                continue  # removed by this commit, and its document with it
            key = document_key(step.store, life.id)
            before = step.read(key)
            if before is None:
                raise SeenInPart((key,), no_document(life.id, "an address"))
            if before.retired_at is None:
                taken[address.hash] = life.id
        if address.hash in taken:
            raise AddressTaken(
                expected=f"nothing alive at {shown(address.kind)} of {address.owner!r}",
                found=f"Document address already has a current incarnation, {taken[address.hash]}",
            )
        taken[address.hash] = document.id
        life = Life(partition=step.store, address=address.hash, created_at=step.seq, id=document.id)
        step.put(life)


def _begun_last(step: Step) -> dict[str, Life]:
    """Return what the last commit has let live, by address: its head may show before that does.

    Nothing where no commit can be seen in part, or its writer was this process. Those before the
    last show in full: none begins before the one before it has ended. Raises Missing, SeenInPart.
    """
    last = Seq(step.seq - 1)
    if step.view.is_snapshot or step.view.is_guess or last < step.log_from:
        return {}
    key = logged_key(step.store, last)
    entry = step.view.peek(key)
    if entry is None:
        raise SeenInPart((key,), Corrupt(expected=f"commit {last} in the log", found="none"))
    begun: dict[int, Life] = {}
    for told in entry.told():
        if told["w"] == "document.create":
            address = Address(told["owner"], told["namespace"], told["kind"], told["key"])
            id = DocumentId(told["id"])
            begun[id] = Life(partition=step.store, address=address.hash, created_at=last, id=id)
        elif told["w"] == "document.retire":
            begun.pop(told["id"], None)
    return {each.address: each for each in begun.values()}


def _shown(step: Step, life: Life) -> Life:
    """Return a life that a range does not show. Raises Missing, SeenInPart."""
    found = step.view.peek(life.key)
    if found is None:
        lost = Corrupt(expected=f"the life of document {life.id} at its address", found="none")
        raise SeenInPart((life.key,), lost)
    return found
