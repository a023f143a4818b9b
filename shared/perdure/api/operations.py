"""Operations: everything that can be asked, by exact name, and the least role that may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Role = Literal["viewer", "player", "operator", "admin"]

ROLES: Final[tuple[Role, ...]] = ("viewer", "player", "operator", "admin")
"""Each may what those before it may."""

LEAST_ROLE: Final[Mapping[str, Role]] = {
    "tell_health": "viewer",
    "describe_interface": "viewer",
    "get_world_info": "viewer",
    "discover_worlds": "viewer",
    "query_components": "viewer",
    "read_log": "viewer",
    "get_command": "viewer",
    "list_commands": "viewer",
    "get_audit_history": "viewer",
    "list_processors": "viewer",
    "list_hooks": "viewer",
    "list_resources": "viewer",
    "list_consumers": "viewer",
    "discover_sessions": "viewer",
    "get_session": "viewer",
    "read_transcript": "viewer",
    "list_jobs": "viewer",
    "get_job": "viewer",
    "discover_stores": "viewer",
    "get_store": "viewer",
    "read_documents": "viewer",
    "read_rows": "viewer",
    "read_store_log": "viewer",
    "submit_commands": "player",
    "spawn": "player",
    "despawn": "player",
    "update": "player",
    "cancel_command": "player",
    "create_session": "player",
    "send_to_session": "player",
    "steer_run": "player",
    "cancel_run": "player",
    "retract_send": "player",
    "start_job": "player",
    "abort_job": "player",
    "retry_job": "player",
    "add_components": "operator",
    "remove_components": "operator",
    "cancel_all_commands": "operator",
    "add_processor": "operator",
    "remove_processor": "operator",
    "add_hook": "operator",
    "remove_hook": "operator",
    "add_resource": "operator",
    "remove_resource": "operator",
    "set_consumer": "operator",
    "acknowledge_consumer": "operator",
    "resolve_approval": "operator",
    "commit_to_store": "operator",
    "declare_table": "operator",
    "fork_world": "operator",
    "destroy_world": "operator",
    "run_ticks": "operator",
    "verify_world": "operator",
    "land": "operator",
    "trim": "operator",
    "export_store": "operator",
    "create_world": "admin",
    "create_store": "admin",
    "resume_world": "admin",
    "migrate_storage": "admin",
}
"""The least role that may ask for each. No name is looked up in any other way than exactly."""
