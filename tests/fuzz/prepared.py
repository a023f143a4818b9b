"""One good request for each operation of the document, upon the seeded worlds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FLEET = {"world": "fleet"}
TALK = {"session": "talk"}
STORE = {"store": "notes"}
PLACE = {"Position": {"x": 1.0, "y": -2.5}}
LOAD = {"Cargo": {"tons": 3, "note": "fish", "sealed": True}}
KEY = {"Idempotency-Key": "key-1"}


@dataclass(frozen=True)
class Good:
    """The parts of a request that is answered with what was asked for."""

    names: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


COMMANDS: list[dict[str, Any]] = [
    {"operation": "spawn", "components": {**PLACE, **LOAD}, "tick": 9, "priority": -1},
    {"operation": "update", "entity_id": 1, "components": PLACE},
    {"operation": "despawn", "entity_id": 2, "command_id": "mine"},
    {"operation": "add_components", "entity_id": 3, "components": PLACE},
    {"operation": "remove_components", "entity_id": 3, "components": ["Cargo"]},
]

GOOD: dict[str, Good] = {
    "create_world": Good(
        body={"name": "new", "world_id": "new", "kind": "sea", "every": "2h", "missed": "skip"}
    ),
    "list_worlds": Good(query={"limit": "2", "show": "all"}),
    "describe_world": Good(FLEET),
    "read_log": Good(FLEET, query={"after": "0", "limit": "3", "wait": "0"}),
    "fork_world": Good(
        FLEET,
        body={
            "name": "dock",
            "world_id": "dock",
            "pending": "copy",
            "at_tick": 4,
            "every_ms": 60_000,
        },
    ),
    "submit_commands": Good(FLEET, body={"batch_id": "more", "commands": COMMANDS}),
    "list_commands": Good(FLEET, query={"limit": "2"}),
    "describe_command": Good({**FLEET, "command": "first.0"}),
    "cancel_command": Good({**FLEET, "command": "later.0"}),
    "cancel_commands": Good(FLEET, headers=KEY),
    "list_consumers": Good(FLEET),
    "set_consumer": Good({**FLEET, "name": "other"}, body={"required": True}),
    "remove_consumer": Good({**FLEET, "name": "hook"}),
    "acknowledge": Good({**FLEET, "name": "hook"}, body={"seq": 2}),
    "tell_health": Good(),
    "describe_interface": Good(),
    "read_entities": Good(
        FLEET,
        query={
            "components": "Position,Cargo",
            "to_tick": "3",
            "from_tick": "1",
            "entity_id": "1,2",
            "where": "position__x > 1",
            "limit": "5",
        },
    ),
    "read_history": Good(
        FLEET,
        query={
            "kind": "applied",
            "actor": "ann",
            "entity_id": "1",
            "from_tick": "0",
            "to_tick": "2",
        }
        | {"from_seq": "1", "to_seq": "9", "from_at": "0", "to_at": "1893456000000", "limit": "5"}
        | {"command_id": "first.0"},
    ),
    "run_ticks": Good(FLEET, body={"ticks": 1}, headers=KEY),
    "list_processors": Good(FLEET),
    "add_processor": Good({**FLEET, "name": "drift"}, body={"priority": 2}),
    "remove_processor": Good({**FLEET, "name": "drift"}),
    "list_hooks": Good(FLEET),
    "add_hook": Good({**FLEET, "name": "look_out"}),
    "remove_hook": Good({**FLEET, "name": "look_out"}),
    "list_resources": Good(FLEET),
    "add_resource": Good({**FLEET, "name": "chart"}),
    "remove_resource": Good({**FLEET, "name": "chart"}),
    "destroy_world": Good({"world": "quay"}),
    "resume_world": Good(FLEET),
    "verify_world": Good(FLEET, body={"from_tick": 0, "to_tick": 2}),
    "land": Good(),
    "trim": Good(body={"grace": "15m", "dry_run": False, "after": "bare"}),
}

GOOD |= {
    "create_session": Good(
        body={"agent": "mate", "session_id": "new", "ceiling_bytes": 400_000, "retained": True}
        | {"evidence": True}
    ),
    "list_sessions": Good(query={"limit": "2", "mine": "true"}),
    "describe_session": Good(TALK),
    "send_to_session": Good(
        TALK,
        body={"input": "ahoy", "delivery": "interrupt", "send_id": "more", "run_id": "more"}
        | {"title": "a call", "overrides": {"max_steps": 3, "system": "Be short."}},
    ),
    "steer_run": Good(TALK, body={"input": "north", "title": "a turn"}, headers=KEY),
    "retract_send": Good({**TALK, "send": "second"}),
    "cancel_run": Good(TALK, body={"run_id": "first", "at": "now"}),
    "resolve_approval": Good({"session": "asking", "call": ""}, body={"decision": "denied"}),
    "read_transcript": Good(TALK, query={"after": "0", "limit": "3", "bytes": "100000"}),
    "read_events": Good(TALK, query={"after": "0", "wait": "0"}),
}

NOTE = {"owner": "notes", "namespace": "desk", "kind": "note"}
TAGS = {**STORE, "table": "notes:tags"}

WRITES: list[dict[str, Any]] = [
    {"write": "document.create", **NOTE, "key": "new", "history": "rewindable", "version": 2}
    | {"value": {"said": ["hello"]}, "meta": {"by": "ann"}, "id": 40},
    {"write": "document.copy", **NOTE, "key": "first", "history": "rewindable", "source": 2}
    | {"namespace": "shelf", "at": 2},
    {"write": "document.change", "id": 3, "ops": [["s", ["said"], "more"]], "revision": 1},
    {"write": "document.change", "id": 4, "value": [1, 2.5, None]},
    {"write": "document.retire", "id": 5, "revision": 1},
    {"write": "row.insert", "table": "notes:tags", "row": {"tag": "c", "n": 1, "who": "ann"}}
    | {"stamps": ["at"]},
    {"write": "row.put", "table": "notes:tags", "row": {"tag": "a", "n": 1, "who": "ann", "at": 9}},
    {"write": "row.update", "table": "notes:tags", "key": ["b", 1], "changes": {"who": "bob"}},
    {"write": "row.delete", "table": "notes:tags", "key": ["b", 2]},
    {"write": "rows.update", "table": "notes:tags", "where": {"who": "eve"}, "changes": {}}
    | {"count": 0},
    {"write": "rows.delete", "table": "notes:tags", "where": {"who": "eve"}, "count": 0},
]

GOOD |= {
    "create_store": Good(body={"store_id": "new"}),
    "list_stores": Good(query={"limit": "1"}),
    "describe_store": Good(STORE),
    "commit_to_store": Good(STORE, body={"commit_id": "more", "writes": WRITES}),
    "list_tables": Good(STORE),
    "declare_table": Good(
        {**STORE, "table": "notes:places"},
        body={"columns": {"name": "str", "at": "json"}, "key": ["name"], "version": 3}
        | {"indexes": {"by_name": ["name"]}},
    ),
    "read_rows": Good(
        TAGS,
        query={"index": "by_who", "values": '["ann"]', "order": "descending", "limit": "1"},
    ),
    "read_row": Good(TAGS, query={"key": '["a", 1]'}),
    "list_documents": Good(
        STORE, query={"owner": "notes", "namespace": "desk", "kind": "note", "at": "1"}
    ),
    "read_document": Good({**STORE, "document": "2"}, query={"at": "2"}),
    "lookup_document": Good(STORE, query={**NOTE, "key": "first", "at": "2"}),
    "follow_document": Good(STORE, query={**NOTE, "key": "first"}),
    "read_store_log": Good(STORE, query={"after": "1", "limit": "1"}),
    "start_job": Good(
        STORE,
        body={"name": "sound", "args": {"depth": 3}, "job_id": "new", "key": "reef", "due_at": 1},
    ),
    "list_jobs": Good(STORE, query={"name": "sound", "phase": "pending", "limit": "1"}),
    "describe_job": Good({**STORE, "name": "sound", "job": "first"}),
    "abort_job": Good({**STORE, "name": "sound", "job": "first"}, body={"reason": "shallow"}),
    "retry_job": Good({**STORE, "name": "sound", "job": "stuck"}),
}

POOLS: dict[str, tuple[str, ...]] = {
    "world": ("fleet", "bare", "gone", "quay", "nowhere"),
    "session": ("talk", "asking", "nowhere"),
    "store": ("notes", "nowhere"),
    "table": ("notes:tags", "notes:never", "notes"),
    "document": ("2", "4", "99", "never"),
    "send": ("first", "second", "never"),
    "call": ("never",),
    "job": ("first", "stuck", "new", "never"),
    "command": ("first.0", "later.1", "mine", "never"),
    "name": ("drift", "look_out", "chart", "hook", "audit", "sound", "never"),
}
"""What a parameter of a path may be, so that a request gets past the door."""
