"""What clients were told, compared with what is true: an answer once given holds for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulator.records import Json, Violation, expect
from tests.simulator.truth import Truth, WorldTruth

from perdure.kernel.admit import Receipt

FOR_EVER = ("conflict", "world_closing", "world_destroyed")
"""Refusals of an admission that no later moment takes back."""


@dataclass(frozen=True, slots=True)
class Told:
    """Compares answers with the truth. Raises Violation."""

    truth: Truth

    def receipts(
        self, world: str, batch: str, contents: Sequence[Json], receipts: Sequence[Receipt]
    ) -> None:
        """A batch was said to be admitted."""
        ledger = self._world(world).ledger
        expect(len(receipts) == len(contents), "I7", "{} of {} receipts", receipts, batch)
        for index, (receipt, content) in enumerate(zip(receipts, contents, strict=True)):
            command_id = content.get("command_id") or f"{batch}.{index}"
            wanted = ledger.receipts.get(command_id)
            expect(
                wanted == tuple(receipt),
                "I7",
                "{} in {} is told {}, true is {}",
                command_id,
                world,
                tuple(receipt),
                wanted,
            )
            assert wanted is not None, "it is what was told"
            held = ledger.commands[wanted[1]].content
            expect(
                held == content, "I7", "{} was admitted as {}, not {}", command_id, held, content
            )

    def sending(self, world: str, batch: str) -> int:
        """A batch is about to be sent; return how often it was before."""
        ledger = self._world(world).ledger
        ledger.denied.discard(batch)
        ledger.sendings[batch] += 1
        return ledger.sendings[batch] - 1

    def not_admitted(self, world: str, batch: str, before: int) -> None:
        """A batch was said not to be admitted for now, by somebody who may be the only one to know."""
        ledger = self._world(world).ledger
        if before == 0 and ledger.sendings[batch] == 1:
            known = batch in ledger.batches
            expect(not known, "I7", "{} is told not to be admitted, but it is", batch)
            ledger.denied.add(batch)

    def refused(self, world: str, batch: str, contents: Sequence[Json], code: str) -> None:
        """A batch was said not to be admitted, for ever."""
        if code not in FOR_EVER:
            return
        held = self._world(world).ledger.batches.get(batch)
        if held is not None and code != "conflict":
            raise Violation("I7", f"{batch} is refused with {code}, but it was admitted")
        if held is not None:
            same = held.contents == list(contents)
            expect(not same, "I7", "{} is a conflict with itself", batch)
            return
        if code == "conflict":
            known = self._world(world).ledger.receipts
            own = [each["command_id"] for each in contents if "command_id" in each]
            expect(any(each in known for each in own), "I7", "{} conflicts with nothing", batch)

    def cancelled(self, world: str, command_id: str, code: str | None) -> None:
        """A command was said to be cancelled, or with a ``code``, that it can not be."""
        truth = self._world(world)
        receipt = truth.ledger.receipts.get(command_id)
        if receipt is None:
            return
        sequence = receipt[1]
        if code is None:
            fate = truth.ledger.fates.get(sequence, ("open", 0))[0]
            expect(fate == "cancelled", "I2", "{} is told cancelled, but {}", command_id, fate)
        elif code == "not_cancellable":
            is_open = sequence in truth.ledger.open
            expect(not is_open, "I2", "{} can not be cancelled, but it is open", command_id)

    def cancelled_all(self, world: str, request: str, below: int) -> None:
        """Everything below a sequence was said to be cancelled, on behalf of a request."""
        wanted = self._world(world).ledger.requests.get(request)
        expect(wanted == below, "I7", "{} is told {}, true is {}", request, below, wanted)

    def forked(self, child: str, source: str) -> None:
        """A world was said to be a fork of another."""
        found = self._world(child).forked_from
        wanted = self._world(source).suffix
        expect(found == wanted, "I7", "{} is told a fork of {}, true is {}", child, wanted, found)

    def destroyed(self, world: str) -> None:
        """A world was said to be destroyed."""
        status = self._world(world).status
        expect(status == "destroyed", "I5", "{} is told destroyed, but it is {}", world, status)

    def _world(self, world: str) -> WorldTruth:
        found = self.truth.named(world)
        assert found is not None, f"world {world} was created"
        return found
