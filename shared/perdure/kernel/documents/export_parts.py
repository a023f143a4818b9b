"""Parts of an export as they are spelled, and what the contents of one document must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.called import check_id
from perdure.kernel.documents.commit_keys import KeyCommit
from perdure.kernel.documents.content import Content
from perdure.kernel.documents.errors import DeltaDoesNotApply, InvalidExport, UnknownFormat
from perdure.kernel.documents.export import EXPORT_FORMAT, Manifest
from perdure.kernel.documents.ops import applied
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.records import ID_FIRST, Revision
from perdure.kernel.documents.tables import COLUMN_TYPES, Table
from perdure.kernel.shown import shown

_TEXT: Final = (str,)
_NUMBER: Final = (int,)
_PARTS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "manifest": {
        "digest": _TEXT,
        "epoch": _NUMBER,
        "format": _NUMBER,
        "last_seq": _NUMBER,
        "lineage": _TEXT,
        "next_id": _NUMBER,
    },
    "table": {
        "columns": (dict,),
        "indexes": (dict,),
        "key": (list,),
        "table": _TEXT,
        "version": _NUMBER,
    },
    "row": {"key": (list,), "table": _TEXT, "value": (dict,), "version": _NUMBER},
    "document.create": {
        "created_at": _NUMBER,
        "history": _TEXT,
        "id": _NUMBER,
        "key": (str, type(None)),
        "kind": _TEXT,
        "meta": (object,),
        "namespace": _TEXT,
        "owner": _TEXT,
        "revision": _NUMBER,
        "version": _NUMBER,
    },
    "document.revision": {"content": (dict,), "id": _NUMBER, "seq": _NUMBER},
    "commit": {
        "commit": _TEXT,
        "digest": _TEXT,
        "ids": (list,),
        "next_id": _NUMBER,
        "seq": _NUMBER,
    },
    "end": {
        "commits": _NUMBER,
        "documents": _NUMBER,
        "revisions": _NUMBER,
        "rows": _NUMBER,
        "sha256": _TEXT,
        "tables": _NUMBER,
    },
}
_MOVING: Final[Mapping[str, tuple[type, ...]]] = {
    "behind": (str, type(None)),
    "columns": (dict,),
    "indexes": (dict,),
    "version": _NUMBER,
}
_OPTIONAL: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "table": {"moving": (dict,), "overtaken": (list,)},
    "document.create": {"retired_at": _NUMBER},
}


def read_part(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return which part a line is, and its fields, each of its type.

    Raises: InvalidExport; UnknownFormat for a manifest of another format.
    """
    try:
        told = strict(line)
    except ValueError as error:
        raise invalid("a line of JSON", str(error)) from error
    part = told.get("part") if isinstance(told, dict) else None
    if not isinstance(part, str) or part not in _PARTS:
        raise invalid("a part that this version knows", shown(part))
    if part == "manifest" and told.get("format") != EXPORT_FORMAT:
        raise UnknownFormat(
            expected=f"an export of format {EXPORT_FORMAT}",
            found=f"format {shown(told.get('format'))}",
        )
    if canonical(told) + b"\n" != line:
        raise invalid("the one spelling of a line", "another")
    del told["part"]
    _check_fields(part, told)
    return part, told


def _check_fields(part: str, told: Mapping[str, Any]) -> None:
    kinds, optional = _PARTS[part], _OPTIONAL.get(part, {})
    for name in kinds:
        if name not in told:
            raise invalid(f"{name} in {part}", "none")
    for name, value in told.items():
        kind = kinds.get(name) or optional.get(name)
        if kind is None:
            raise invalid(f"a field of {part}", shown(name))
        if object not in kind and type(value) not in kind:
            raise invalid(f"{name} of {part} of its type", shown(value))


def invalid(expected: str, found: str) -> InvalidExport:
    """Return the refusal of an export."""
    return InvalidExport(expected=expected, found=found)


def check_commit(told: Mapping[str, Any], manifest: Manifest) -> None:
    """Refuse what no store keeps of a commit's id. Raises Invalid kinds."""
    KeyCommit(told["commit"], told["digest"]).checked()
    commit, ids = shown(told["commit"]), told["ids"]
    if not 1 <= told["seq"] <= manifest.last_seq:
        raise invalid(f"commit {commit} as one of 1 to {manifest.last_seq}", shown(told["seq"]))
    if not ID_FIRST <= told["next_id"] <= manifest.next_id:
        raise invalid(
            f"a next id of {ID_FIRST} to {manifest.next_id} at commit {commit}",
            shown(told["next_id"]),
        )
    for id in ids:
        check_id(id)
        if id >= told["next_id"] < SAFE_INTEGER_MAX:
            raise invalid(f"ids of commit {commit} below {told['next_id']}", shown(id))
    if len(set(ids)) != len(ids):
        raise invalid(f"each id of commit {commit} once", shown(ids))


def check_kept(
    told: Mapping[str, Any], contents: Sequence[Revision], kinds: Sequence[Content]
) -> None:
    """Refuse contents that are not those which the document's history keeps."""
    id, count = told["id"], len(contents)
    if told["history"] == "rewindable":
        if count != told["revision"]:
            raise invalid(f"{told['revision']} contents of document {id}", str(count))
        if contents[0].seq != told["created_at"]:
            raise invalid(
                f"a first content of document {id} at {told['created_at']}",
                f"one at {contents[0].seq}",
            )
    elif "retired_at" in told:
        if count:
            raise invalid(f"no content of document {id}, which is retired", str(count))
    elif not 1 <= count <= told["revision"]:
        raise invalid(f"1 to {told['revision']} contents of document {id}", str(count))
    elif sum(each.kind == "base" for each in kinds) > 1:
        raise invalid(f"one base of document {id}, which has no past", "more")
    if kinds and kinds[-1].version != told["version"]:
        raise invalid(
            f"content of version {told['version']} as the last of document {id}",
            f"version {kinds[-1].version}",
        )


def check_tails(id: int, kinds: Sequence[Content]) -> None:
    """Refuse a delta that does not apply to what is before it."""
    tail: list[Any] = []
    for at, each in enumerate(kinds):
        tail.append(each.told)
        if at + 1 == len(kinds) or kinds[at + 1].kind == "base":
            try:
                applied(tail[0], tail[1:])
            except DeltaDoesNotApply as error:
                raise invalid(
                    f"deltas that apply in document {id}: {error.expected}", error.found
                ) from error
            tail = []


def moves_of(table: Mapping[str, Any]) -> list[tuple[Table, str | None]]:
    """Return what the table of an export is on its way to be and behind which row, the oldest first.

    All but the last are moves that were overtaken. Raises Invalid kinds.
    """
    many = [*([table["moving"]] if "moving" in table else []), *table.get("overtaken", ())]
    if "moving" not in table and many:
        raise invalid(f"{table['table']} on its way, where moves were overtaken", "at rest")
    return [_move_of(table, told) for told in reversed(many)]


def _move_of(table: Mapping[str, Any], told: Any) -> tuple[Table, str | None]:
    is_whole = isinstance(told, dict) and told.keys() == _MOVING.keys()
    if not is_whole or any(type(value) not in _MOVING[name] for name, value in told.items()):
        raise invalid(f"what {table['table']} is on its way to", shown(told))
    moving = {name: value for name, value in told.items() if name != "behind"}
    return table_of({**table, **moving}), told["behind"]


def table_of(told: Mapping[str, Any]) -> Table:
    """Return the table that a log or an export describes. Raises Invalid kinds."""
    owner, _, name = told["table"].partition(":")
    wrong = [
        each
        for used in (told["key"], *told["indexes"].values())
        for each in (used if isinstance(used, list) else [used])
        if not isinstance(each, str)
    ]
    kinds = [kind for kind in told["columns"].values() if kind not in COLUMN_TYPES]
    if wrong or kinds:
        raise invalid(f"columns, key and indexes of {told['table']}", shown(wrong or kinds))
    return Table(
        owner=owner,
        name=name,
        columns=told["columns"],
        key=tuple(told["key"]),
        indexes={index: tuple(columns) for index, columns in told["indexes"].items()},
        version=told["version"],
    ).checked()
