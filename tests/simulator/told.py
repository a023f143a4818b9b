"""What clients were told, compared with what is true: an answer once given holds for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulator.answers import CODES, ENDS
from tests.simulator.records import Json, expect
from tests.simulator.truth import Truth, WorldTruth

from perdure.kernel.admit import Receipt


@dataclass(frozen=True, slots=True)
class Told:
    """Compares answers with the truth. Raises Violation."""

    truth: Truth

    def error(self, call: str, code: str, *worlds: str) -> None:
        """A call was answered with an error: one that it can have, and an end only if there is one."""
        expect(code in CODES[call], "I7", "{} of {} is told {}", call, worlds, code)
        if code in ENDS:
            found = [each.status for each in map(self.truth.named, worlds) if each is not None]
            wanted = ("destroyed",) if code == "world_destroyed" else ("closing", "destroyed")
            held = any(status in wanted for status in found)
            expect(held, "I5", "{} of {} is told {}, true is {}", call, worlds, code, found)

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
            ledger.told.add(wanted[1])

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
        own = [each["command_id"] for each in contents if "command_id" in each]
        if code == "invalid_batch":
            expect(len(set(own)) < len(own), "I7", "{} is {}, but repeats no id", batch, code)
            return
        held = self._world(world).ledger.batches.get(batch)
        if code != "conflict":
            expect(held is None, "I7", "{} is told {}, but it was admitted", batch, code)
        elif held is not None:
            same = held.contents == list(contents)
            expect(not same, "I7", "{} is a conflict with itself", batch)
        else:
            known = self._world(world).ledger.receipts
            expect(any(each in known for each in own), "I7", "{} conflicts with nothing", batch)

    def knows(self, world: str, command: str) -> bool:
        """Say whether somebody was told that a command is admitted."""
        ledger = self._world(world).ledger
        return ledger.sequence_of(command) in ledger.told

    def cancelled(self, world: str, command: str, code: str | None, *, was_told: bool) -> None:
        """A command was said to be cancelled, or with a ``code``, that it can not be.

        ``was_told`` says that its admission had been told to somebody before it was asked for.
        """
        ledger = self._world(world).ledger
        if code == "not_found":
            expect(not was_told, "I7", "{} is told not to be found, but it was admitted", command)
            return
        sequence = ledger.sequence_of(command)
        if code is None:
            expect(sequence is not None, "I2", "{} is told cancelled, never admitted", command)
            assert sequence is not None, "it was just held to be"
            fate = ledger.fates.get(sequence, ("open", 0))[0]
            expect(fate == "cancelled", "I2", "{} is told cancelled, but {}", command, fate)
        elif code == "not_cancellable":
            is_over = sequence is not None and sequence not in ledger.open
            expect(is_over, "I2", "{} can not be cancelled, but it is open, or nowhere", command)

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
