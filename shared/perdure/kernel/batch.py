"""Batches: commands admitted together, in the one spelling that is stored and digested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from perdure.kernel import limits
from perdure.kernel.alike import alike
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.component import Component, Registry, checked_values
from perdure.kernel.errors import InvalidBatch, InvalidValue, TooLarge
from perdure.kernel.ids import (
    BatchId,
    CommandId,
    Tick,
    WorldId,
    checked_command_id,
    checked_id,
    indexed_command_id,
)
from perdure.kernel.kept import kept
from perdure.kernel.log import payload_digest
from perdure.kernel.operations import Command
from perdure.kernel.shown import shown

SPELLED_AT_A_TIME: Final = 64
"""Commands whose spellings are in hand together: few enough to be gone before the collector
counts them, and to be spelled at once without one of them growing too large unseen."""

Due = tuple[int | None, int]
"""(tick as asked for, or None for "the next one"; priority)."""


@dataclass(frozen=True)
class Batch:
    """Checked commands of one batch, ready to be admitted to one world."""

    id: BatchId
    world: WorldId
    payload: bytes
    dues: tuple[Due, ...]
    spawning: tuple[int, ...]
    """Indices of the commands that spawn, ascending."""
    own_ids: tuple[tuple[int, CommandId, str], ...]
    """(index, id, digest) of the commands whose caller chose an id."""

    @kept
    def payload_digest(self) -> str:
        return payload_digest(self.payload)

    @kept
    def digest(self) -> str:
        """Over the request as sent: commands with their ids, principal and origin."""
        return digest("perdure.batch.v1", self.world.encode(), self.payload_digest.encode())

    @property
    def size(self) -> int:
        return len(self.dues)

    def command_ids(self) -> list[CommandId]:
        """Return the id of every command: its caller's, or the batch's."""
        names = [indexed_command_id(self.id, index) for index in range(self.size)]
        for index, command, _ in self.own_ids:
            names[index] = command
        return names


def prepared(
    world: WorldId,
    batch: BatchId,
    commands: Sequence[Command],
    registry: Registry,
    *,
    principal: str | None = None,
    origin: str = "local",
) -> Batch:
    """Check ``commands`` and spell them as they will be stored. Raises Invalid kinds."""
    checked_id(batch, what="a batch id", bytes_max=limits.BATCH_ID_BYTES_MAX)
    if not 1 <= len(commands) <= limits.BATCH_COMMANDS_MAX:
        kind = TooLarge if commands else InvalidBatch
        raise kind(
            expected=f"1 to {limits.BATCH_COMMANDS_MAX} commands in a batch",
            found=str(len(commands)),
        )
    checked_id(origin, what="an origin")
    if principal is not None:
        checked_id(principal, what="a principal")
    speller = _Speller(registry)
    sender = {"origin": origin, "principal": principal}
    uniform = alike(commands, speller.model)
    if uniform is not None:
        return Batch(
            id=batch,
            world=world,
            payload=_payload([uniform.spelled], origin, principal, speller.types),
            dues=(uniform.due,) * len(commands),
            spawning=tuple(range(len(commands))) if commands[0].spawns else (),
            own_ids=(),
        )
    return _looked_at(world, batch, commands, _Speller(registry), sender)


def _looked_at(
    world: WorldId,
    batch: BatchId,
    commands: Sequence[Command],
    speller: _Speller,
    sender: dict[str, Any],
) -> Batch:
    """Check and spell commands that may be of any kind."""
    parts: list[bytes] = []
    dues: list[Due] = []
    own_ids: dict[CommandId, tuple[int, str]] = {}
    for start in range(0, len(commands), SPELLED_AT_A_TIME):
        spelled = speller.spelled(commands[start : start + SPELLED_AT_A_TIME])
        parts.append(_joined(spelled))
        dues += [(each.get("tick"), each.get("priority", 0)) for each in spelled]
        for index, command in enumerate(spelled, start):
            if "command_id" in command:
                own = checked_command_id(command["command_id"])
                if own in own_ids:
                    raise InvalidBatch(
                        expected="each command id once in a batch", found=f"{own} twice"
                    )
                own_ids[own] = index, _content(world, command, speller.types, sender)
    _check_records(dues, own_ids)
    return Batch(
        id=batch,
        world=world,
        payload=_payload(parts, sender["origin"], sender["principal"], speller.types),
        dues=tuple(dues),
        spawning=tuple(index for index, each in enumerate(commands) if each.spawns),
        own_ids=tuple((index, own, content) for own, (index, content) in own_ids.items()),
    )


class _Speller:
    """Spells commands, and remembers what the names of components stand for."""

    def __init__(self, registry: Registry) -> None:
        self.types: dict[str, str] = {}
        """Fingerprint by name of every component that was spelled."""
        self._registry = registry

    def spelled(self, commands: Iterable[Command]) -> list[dict[str, Any]]:
        """Spell commands. Values are checked by the component, all at once."""
        spelled: list[dict[str, Any]] = []
        given: dict[tuple[str, type], list[tuple[dict[str, Any], Any]]] = {}
        for command in commands:
            # What is absent is None, whether it was set or not.
            fields = {name: value for name, value in command.__dict__.items() if value is not None}
            spelled.append(fields)
            components = fields.get("components")
            if isinstance(components, dict):
                values = fields["components"] = {}
                for reference, value in components.items():
                    given.setdefault((reference, type(value)), []).append((values, value))
            elif components is not None:
                models = [self.model(reference, str) for reference in components]
                fields["components"] = sorted({model.component.name for model in models})
        for (reference, kind), uses in given.items():
            self._fill(self.model(reference, kind), uses)
        return spelled

    def _fill(
        self, model: type[Component], uses: Sequence[tuple[dict[str, dict[str, Any]], Any]]
    ) -> None:
        name = model.component.name
        checked = checked_values(model, [value for _, value in uses])
        for (values, _), fields in zip(uses, checked, strict=True):
            if name in values:
                raise InvalidValue(expected="each component once", found=f"{name} twice")
            values[name] = fields

    def model(self, reference: str, kind: type) -> type[Component]:
        """Return the class that a reference stands for beside a value of ``kind``."""
        if issubclass(kind, Component):
            described = kind.component
            if reference not in (described.name, f"{described.name}@{described.fingerprint}"):
                raise InvalidValue(
                    expected=f"a component {shown(reference)}", found=f"a {described.name}"
                )
            model = self._registry.exact(described.name, described.fingerprint)
        else:
            model = self._registry.named(reference)
        name, wanted = model.component.name, model.component.fingerprint
        if self.types.setdefault(name, wanted) != wanted:
            raise InvalidBatch(expected=f"one schema of component {name!r} in a batch", found="two")
        return model


def _joined(spelled: list[dict[str, Any]]) -> bytes:
    """Spell commands as the inside of a list. Raises TooLarge."""
    joined = canonical(spelled)[1:-1]
    if len(joined) > limits.COMMAND_BYTES_MAX:  # all together, so perhaps one of them
        size = max(len(canonical(each)) for each in spelled)
        if size > limits.COMMAND_BYTES_MAX:
            raise TooLarge(
                expected=f"commands of at most {limits.COMMAND_BYTES_MAX} bytes",
                found=f"{size} bytes",
            )
    return joined


def _payload(
    parts: Iterable[bytes], origin: str, principal: str | None, types: dict[str, str]
) -> bytes:
    """Join spelled commands and what goes with them to one object. Raises TooLarge."""
    rest = _rest(origin, principal, tuple(types.items()))
    payload = b'{"commands":[%b],%b' % (b",".join(parts), rest)
    if len(payload) > limits.BATCH_BYTES_MAX:
        raise TooLarge(
            expected=f"a batch of at most {limits.BATCH_BYTES_MAX} bytes",
            found=f"{len(payload)} bytes",
        )
    return payload


@lru_cache(maxsize=256)  # the same for all that one caller sends of one kind
def _rest(origin: str, principal: str | None, types: tuple[tuple[str, str], ...]) -> bytes:
    """Spell what follows the commands, which sort before all of it."""
    return canonical({"origin": origin, "principal": principal, "types": dict(types)})[1:]


def _content(
    world: WorldId, command: dict[str, Any], types: dict[str, str], sender: dict[str, Any]
) -> str:
    """Digest what a command says apart from its id."""
    content = {
        **sender,
        "command": {name: held for name, held in command.items() if name != "command_id"},
        "types": {name: types[name] for name in command.get("components", ())},
    }
    return digest("perdure.command.v1", world.encode(), canonical(content))


def _check_records(dues: Iterable[Due], own_ids: Collection[object]) -> None:
    records = len(set(dues)) + len(own_ids)
    if records > limits.BATCH_GROUPS_MAX:
        raise TooLarge(
            expected="at most"
            f" {limits.BATCH_GROUPS_MAX} different (tick, priority) groups and caller-chosen"
            " command ids in a batch",
            found=str(records),
        )


def grouped(dues: Sequence[Due], published: int) -> dict[tuple[Tick, int], Sequence[int]]:
    """Sort indices of commands into (tick, priority) groups, in order of first appearance.

    No tick, or one that is not above the published one, means the next tick.
    """
    asked: dict[Due, Sequence[int]] = {}
    different = set(dues)
    if len(different) == 1:  # as most batches
        asked[different.pop()] = range(len(dues))
    else:
        for index, due in enumerate(dues):
            asked.setdefault(due, []).append(index)  # type: ignore[attr-defined]  # lists, all of them
    groups: dict[tuple[Tick, int], Sequence[int]] = {}
    for (tick, priority), indices in asked.items():
        at = Tick(published + 1 if tick is None or tick <= published else tick)
        known = groups.get((at, priority))
        groups[at, priority] = indices if known is None else sorted([*known, *indices])
    return groups


def split(
    commands: Iterable[Command],
    *,
    commands_max: int = limits.BATCH_COMMANDS_MAX,
    records_max: int = limits.BATCH_GROUPS_MAX,
) -> Iterator[list[Command]]:
    """Cut a list of commands, in order, into as few batches as the limits allow."""
    batch: list[Command] = []
    dues: set[Due] = set()
    own_ids = 0
    for command in commands:
        due = (command.tick, command.priority or 0)
        own = own_ids + (command.command_id is not None)
        records = len(dues) + (due not in dues) + own
        if batch and (len(batch) == commands_max or records > records_max):
            yield batch
            batch, dues, own = [], set(), int(command.command_id is not None)
        batch.append(command)
        dues.add(due)
        own_ids = own
    if batch:
        yield batch
