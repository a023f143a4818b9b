"""Access: the role decides before anything is looked at, and the log says who asked."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.api.rig import Caller, bearer, spawn

from perdure.api import faces, models, operations
from perdure.api.operations import LEAST_ROLE, ROLES
from perdure.api.routing import route
from perdure.api.sandbox import Sandbox
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.operations import DIRECT_ONLY, OPERATIONS

pytestmark = pytest.mark.lifecycle

PERMISSIONS = {
    "tell_health": "viewer player operator admin",
    "describe_interface": "viewer player operator admin",
    "get_world_info": "viewer player operator admin",
    "discover_worlds": "viewer player operator admin",
    "query_components": "viewer player operator admin",
    "read_log": "viewer player operator admin",
    "get_command": "viewer player operator admin",
    "list_commands": "viewer player operator admin",
    "get_audit_history": "viewer player operator admin",
    "list_processors": "viewer player operator admin",
    "list_hooks": "viewer player operator admin",
    "list_resources": "viewer player operator admin",
    "list_consumers": "viewer player operator admin",
    "discover_sessions": "viewer player operator admin",
    "get_session": "viewer player operator admin",
    "read_transcript": "viewer player operator admin",
    "discover_stores": "viewer player operator admin",
    "get_store": "viewer player operator admin",
    "read_documents": "viewer player operator admin",
    "read_rows": "viewer player operator admin",
    "read_store_log": "viewer player operator admin",
    "submit_commands": "player operator admin",
    "spawn": "player operator admin",
    "despawn": "player operator admin",
    "update": "player operator admin",
    "cancel_command": "player operator admin",
    "create_session": "player operator admin",
    "send_to_session": "player operator admin",
    "steer_run": "player operator admin",
    "cancel_run": "player operator admin",
    "retract_send": "player operator admin",
    "start_job": "player operator admin",
    "abort_job": "player operator admin",
    "retry_job": "player operator admin",
    "list_jobs": "viewer player operator admin",
    "get_job": "viewer player operator admin",
    "add_components": "operator admin",
    "remove_components": "operator admin",
    "cancel_all_commands": "operator admin",
    "add_processor": "operator admin",
    "remove_processor": "operator admin",
    "add_hook": "operator admin",
    "remove_hook": "operator admin",
    "add_resource": "operator admin",
    "remove_resource": "operator admin",
    "set_consumer": "operator admin",
    "acknowledge_consumer": "operator admin",
    "resolve_approval": "operator admin",
    "commit_to_store": "operator admin",
    "declare_table": "operator admin",
    "fork_world": "operator admin",
    "destroy_world": "operator admin",
    "run_ticks": "operator admin",
    "verify_world": "operator admin",
    "land": "operator admin",
    "trim": "operator admin",
    "export_store": "operator admin",
    "migrate_storage": "admin",
    "create_world": "admin",
    "create_store": "admin",
    "resume_world": "admin",
}
"""Who may ask for what, written down once more: the table in the code must say the same."""

COMMANDS = "/v1/worlds/harbour/commands"

NO_ACCESS = [
    (None, 401, "unauthenticated"),
    ({}, 401, "unauthenticated"),
    ({"lambda": {"role": "admin"}}, 401, "unauthenticated"),
    ({"jwt": {"claims": {"role": "admin"}, "scopes": None}}, 401, "unauthenticated"),
    ({"jwt": {"claims": {"role": "admin", "sub": "a/b"}, "scopes": None}}, 401, "unauthenticated"),
    ({"jwt": {"claims": {"role": "admin", "sub": ""}, "scopes": None}}, 401, "unauthenticated"),
    ({"iam": {"userArn": "arn:aws:iam::1:role/x"}}, 401, "unauthenticated"),
    ({"jwt": {"claims": {"sub": "ann"}, "scopes": None}}, 403, "not_permitted"),
    (bearer("root"), 403, "not_permitted"),
    (bearer("Admin"), 403, "not_permitted"),
    (bearer("admin "), 403, "not_permitted"),
    (bearer("adm"), 403, "not_permitted"),
    (bearer(""), 403, "not_permitted"),
    (bearer("[]"), 403, "not_permitted"),
    (bearer("[readers writers]"), 403, "not_permitted"),
    (bearer("admin", tenant="another"), 403, "not_permitted"),
    (bearer("admin", tenant=""), 403, "not_permitted"),
]


@asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    """A storage that nobody can open: whoever gets so far was let in."""
    raise StoreUnavailable(expected="a storage", found="none")
    yield


@pytest.fixture
def door():
    """Makes a caller of routes in front of no storage."""
    sandboxes = []

    def made(*routes, role="admin", trusted=False):
        sandboxes.append(Sandbox(nothing, routes, trusted=trusted))
        return Caller(sandboxes[-1], authorizer=bearer(role))

    yield made
    for sandbox in sandboxes:
        sandbox.close()


def asking_for(operation):
    @route("POST", "/ask", operation=operation, reply=models.Health)
    async def asked(_):
        raise AssertionError("nobody gets here")

    return asked


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("operation", LEAST_ROLE)
def test_role_decides_before_the_storage_is_opened(door, operation, role):
    asked = door(asking_for(operation), role=role)

    reply = asked("POST", "/ask", text="this is no JSON")

    allowed = role in PERMISSIONS[operation].split()
    expected = (503, "store_unavailable") if allowed else (403, "not_permitted")
    assert (reply.status, reply.body["code"]) == expected


def test_table_is_complete():
    assert PERMISSIONS.keys() == LEAST_ROLE.keys()


@pytest.mark.parametrize(
    "each", [*faces.API, *faces.LAKE, *faces.SESSIONS, *faces.JOBS], ids=lambda each: each.operation
)
@pytest.mark.parametrize("role", ROLES)
def test_every_route_asks_its_operation_of_the_role(door, each, role):
    path = each.path.replace("<", "").replace(">", "")

    reply = door(each, role=role)(each.method, path)

    allowed = role in PERMISSIONS[each.operation].split()
    assert (reply.status == 403) == (not allowed)


@pytest.mark.parametrize(("authorizer", "status", "code"), NO_ACCESS)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/healthz"), ("GET", "/openapi.json"), ("GET", "/v1/worlds"), ("POST", COMMANDS)],
)
def test_nobody_is_let_in_without_a_good_claim(rig, authorizer, status, code, method, path):
    rig.caller.authorizer = authorizer
    before = rig.snapshot()

    reply = rig.caller(method, path, {"commands": [spawn()]} if method == "POST" else None)

    assert (reply.status, reply.body["code"]) == (status, code)
    assert reply.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    assert rig.snapshot() == before


@pytest.mark.parametrize(
    ("claim", "may_submit", "may_create"),
    [
        ("[viewer]", False, False),
        ("[staff player viewer]", True, False),
        ("[player admin]", True, True),
    ],
)
def test_claim_that_lists_roles_counts_as_the_highest(rig, harbour, claim, may_submit, may_create):
    ann = rig.as_(claim)

    submitted = ann("POST", COMMANDS, {"commands": [spawn()]})
    created = ann("POST", "/v1/worlds", {"name": "reef"})

    assert (submitted.status, created.status) == (
        202 if may_submit else 403,
        201 if may_create else 403,
    )


def test_claim_of_another_name_is_the_role_if_the_deployment_says_so(rig, monkeypatch):
    monkeypatch.setenv("PERDURE_ROLE_CLAIM", "cognito:groups")
    ann = rig.as_("admin", **{"cognito:groups": "[viewer]"})

    assert ann("GET", "/v1/worlds").status == 200
    assert ann("POST", "/v1/worlds", {"name": "reef"}).status == 403


@pytest.mark.parametrize(
    ("tenant", "claims", "status"),
    [
        (None, {}, 200),
        (None, {"tenant": "default"}, 200),
        (None, {"tenant": "acme"}, 403),
        ("acme", {}, 403),
        ("acme", {"tenant": "default"}, 403),
        ("acme", {"tenant": "acme"}, 200),
    ],
)
def test_token_of_another_tenant_is_not_good_here(rig, monkeypatch, tenant, claims, status):
    if tenant is not None:
        monkeypatch.setenv("PERDURE_TENANT", tenant)

    assert rig.as_("admin", **claims)("GET", "/v1/worlds").status == status


def test_caller_that_signs_with_iam_may_do_everything(rig):
    rig.caller.authorizer = {"iam": {"userId": "AROAEXAMPLE:session", "accountId": "1"}}

    created = rig.caller("POST", "/v1/worlds", {"name": "reef", "world_id": "reef"})
    log = rig.caller("GET", "/v1/worlds/reef/log")

    assert created.status == 201
    assert log.body["entries"][0]["facts"]["actor"] == "AROAEXAMPLE:session"


def test_denial_is_the_same_for_a_world_that_is_there_and_one_that_is_not(rig, harbour):
    viewer, before = rig.as_("viewer"), rig.snapshot()

    there = viewer("POST", COMMANDS, {"commands": [spawn()]})
    nowhere = viewer("POST", "/v1/worlds/nowhere/commands", {"commands": [spawn()]})
    malformed = viewer("POST", "/v1/worlds/%00/commands", text="this is no JSON")

    assert (there.status, there.body["code"]) == (403, "not_permitted")
    assert there == nowhere == malformed
    assert rig.snapshot() == before


@pytest.mark.parametrize("operation", ["add_components", "remove_components"])
@pytest.mark.parametrize("world", ["harbour", "nowhere"])
def test_every_command_of_a_batch_is_asked_of_the_role(rig, harbour, operation, world):
    components = (
        {"Crew": {"size": 1, "captain": "x"}} if operation == "add_components" else ["Crew"]
    )
    batch = {
        "commands": [spawn(), {"operation": operation, "entity_id": 1, "components": components}]
    }
    path, before = f"/v1/worlds/{world}/commands", rig.snapshot()

    denied = rig.as_("player")("POST", path, batch)
    unchanged = rig.snapshot()
    allowed = rig.as_("operator")("POST", path, batch)

    assert (denied.status, denied.body["code"]) == (403, "not_permitted")
    assert operation in denied.body["expected"]
    assert unchanged == before
    assert allowed.status == (202 if world == "harbour" else 404)


def test_log_says_who_asked_for_what(rig, harbour):
    ann, bob = rig.as_("player", "ann"), rig.as_("operator", "bob")
    ann("POST", COMMANDS, {"commands": [spawn(), spawn()], "batch_id": "b"})
    ann("DELETE", f"{COMMANDS}/b.0")
    bob("DELETE", COMMANDS, idempotency_key="all")

    entries = bob("GET", "/v1/worlds/harbour/log").body["entries"]

    asked = [(each["kind"], each["facts"]["actor"], each["facts"]["origin"]) for each in entries]
    assert asked == [
        ("created", "ann", "gateway"),
        ("admitted", "ann", "gateway"),
        ("cancelled", "ann", "gateway"),
        ("cancelled_all", "bob", "gateway"),
    ]


def test_batch_of_another_actor_under_the_same_id_is_a_conflict(rig, harbour):
    batch = {"commands": [spawn()], "batch_id": "b"}
    first = rig.as_("player", "ann")("POST", COMMANDS, batch)
    before = rig.snapshot()

    other = rig.as_("player", "bob")("POST", COMMANDS, batch)
    again = rig.as_("player", "ann")("POST", COMMANDS, batch)

    assert (other.status, other.body["code"]) == (409, "conflict")
    assert again.body["receipts"] == first.body["receipts"]
    assert rig.snapshot() == before


@pytest.mark.parametrize(
    "name", ["Spawn", "SPAWN", "spawn ", "spaw", "spawn.x", "command", "", None, 7]
)
def test_operation_is_found_by_its_exact_name_only(rig, harbour, name):
    reply = rig.caller("POST", COMMANDS, {"commands": [spawn(operation=name)]})

    assert (reply.status, reply.body["code"]) == (400, "unknown_operation")


@pytest.mark.parametrize("name", sorted(DIRECT_ONLY))
def test_operation_that_cannot_wait_has_its_own_code(rig, harbour, name):
    reply = rig.caller("POST", COMMANDS, {"commands": [{"operation": name}]})

    assert (reply.status, reply.body["code"]) == (400, "direct_only")


def test_every_operation_of_the_table_waits_for_a_tick_or_cannot():
    assert OPERATIONS.keys() <= LEAST_ROLE.keys()
    assert LEAST_ROLE.keys() - OPERATIONS.keys() <= DIRECT_ONLY
    assert not OPERATIONS.keys() & DIRECT_ONLY


def test_no_operation_is_in_the_table_twice():
    tree = ast.parse(Path(operations.__file__).read_text(encoding="utf-8"))

    (table,) = (
        each.value
        for each in tree.body
        if isinstance(each, ast.AnnAssign) and each.target.id == "LEAST_ROLE"
    )

    names = [key.value for key in table.keys]
    assert sorted(names) == sorted(set(names))


def test_route_of_an_operation_that_no_table_knows_cannot_be_declared():
    with pytest.raises(KeyError, match="explode"):
        asking_for("explode")


def test_two_routes_of_one_face_never_answer_the_same():
    asked = [
        (each.method, each.path) for each in (*faces.API, *faces.LAKE, *faces.SESSIONS, *faces.JOBS)
    ]

    assert sorted(asked) == sorted(set(asked))


def test_trust_is_given_by_whoever_makes_the_sandbox_and_by_no_event(door):
    trusted = door(asking_for("create_world"), trusted=True)
    untrusted = door(asking_for("create_world"))
    trusted.authorizer, untrusted.authorizer = None, {"trusted": True}

    assert trusted("POST", "/ask").status == 503
    assert untrusted("POST", "/ask").status == 401
