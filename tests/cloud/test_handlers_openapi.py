"""OpenAPI: the document is valid, whole, and what is answered is what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.api.rig import Caller, Context, spawn
from tests.api.test_functions import Functions
from tests.support.errors import kinds

from perdure.api import faces
from perdure.api.openapi import document
from perdure.kernel.errors import PerdureError

pytestmark = pytest.mark.cloud

ROUTES = (*faces.API, *faces.LAKE, *faces.SESSIONS, *faces.JOBS)

KEYED = ("IDEMPOTENCY_KEY", "keyed(")
"""How the code of a route reads the header."""


@pytest.fixture(scope="module")
def described():
    return json.loads(document())


def operation(described, route):
    path = route.path.replace("<", "{").replace(">", "}")
    return described["paths"][path][route.method.lower()]


def named(route):
    return f"{route.method} {route.path}"


def test_document_is_valid_openapi_3_1(described):
    assert described["openapi"].startswith("3.1")
    assert [*OpenAPIV31SpecValidator(described).iter_errors()] == []


def test_document_is_made_once_in_a_process():
    assert document() is document()


def test_validator_sees_a_document_that_is_not(described):
    broken = {**described, "paths": {"/": {"get": {"responses": {"200": {}}}}}}

    assert [*OpenAPIV31SpecValidator(broken).iter_errors()]


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_route_is_described_with_replies_problems_parameters_and_body(described, route):
    told = operation(described, route)

    replies = told["responses"]
    assert told["operationId"] == route.run.__name__
    assert told["summary"]
    spelled = "text/event-stream" if route.reply is None else "application/json"
    assert spelled in replies[str(int(route.status))]["content"]
    for status in ("400", "401", "403", "404", "409", "413", "429", "500", "503"):
        assert "application/problem+json" in replies[status]["content"], status
        assert re.match(r"Codes: \w+", replies[status]["description"]), status
    assert ("412" in replies) == (route.method != "GET")
    assert "422" not in replies
    assert ("requestBody" in told) == (route.body is not None)
    parameters = {each["name"]: each for each in told["parameters"]}
    assert {name for name, each in parameters.items() if each["in"] == "path"} == {*route.names}
    assert ("idempotency-key" in parameters) == (route.key != "none")
    if route.key != "none":
        assert parameters["idempotency-key"]["required"] == (route.key == "required")
    if route.query is not None:
        assert route.query.model_fields.keys() <= parameters.keys()


def test_every_request_needs_a_token(described):
    (scheme,) = described["components"]["securitySchemes"].values()

    assert (scheme["type"], scheme["scheme"], scheme["bearerFormat"]) == ("http", "bearer", "JWT")
    assert described["security"] == [
        {name: [] for name in described["components"]["securitySchemes"]}
    ]
    for route in ROUTES:
        assert "security" not in operation(described, route)


def test_every_code_of_an_error_is_named(described):
    text = json.dumps(described)
    told = {each for codes in re.findall(r"Codes: ([\w, ]+)\.", text) for each in codes.split(", ")}

    # Those that runtime or command line raise for themselves never leave a function.
    assert {*(kind.code for kind in kinds(PerdureError))} - told <= {"overtaken"}
    assert "internal" in told


def test_route_whose_code_reads_the_key_says_so(described):
    reading = set()
    for route in ROUTES:
        code = Path(route.run.__code__.co_filename).read_text().splitlines()
        first = route.run.__code__.co_firstlineno
        last = max(line for *_, line in route.run.__code__.co_lines() if line)
        if any(word in line for line in code[first - 1 : last] for word in KEYED):
            reading.add(named(route))

    assert reading == {named(route) for route in ROUTES if route.key != "none"}


class Checked:
    """Asks, and checks each reply against the document."""

    def __init__(self, described, routes, ask):
        self.described = described
        self.routes = routes
        self.ask = ask
        self.seen = set()

    def __call__(self, method, path, body=None, **options):
        reply = self.ask(method, path, body, **options)
        (route,) = [each for each in self.routes if faces.is_of((each,), method, path)]
        told = operation(self.described, route)["responses"][str(reply.status)]
        content = told["content"][reply.headers["content-type"]]["schema"]
        assert told["headers"].keys() <= reply.headers.keys()
        if reply.headers["content-type"].endswith("json"):
            whole = {**content, "components": self.described["components"]}
            found = [*Draft202012Validator(whole).iter_errors(reply.body)]
            assert found == [], (method, path, reply.body)
        self.seen.add((named(route), reply.status))
        return reply


def commands_and_consumers(call, world):
    call("GET", "/healthz")
    call("GET", "/openapi.json")
    call("POST", "/v1/worlds", {"name": "harbour", "world_id": "h", "every": "1m"})
    call("POST", "/v1/worlds", {"name": "harbour", "world_id": "other"})
    call("POST", "/v1/worlds", {"name": 7})
    call("GET", "/v1/worlds")
    call("GET", "/v1/worlds/nowhere")
    batch = {"commands": [spawn(), spawn(tick=5), {"operation": "despawn", "entity_id": 77}]}
    call("POST", f"{world}/commands", batch, idempotency_key="b")
    call("POST", f"{world}/commands", batch, idempotency_key="b")
    call("GET", f"{world}/commands/b.0")
    call("DELETE", f"{world}/commands/b.1")
    call("DELETE", f"{world}/commands", idempotency_key="all")
    call("DELETE", f"{world}/commands")
    call("PUT", f"{world}/consumers/hook", {})
    call("POST", f"{world}/consumers/hook", {"seq": 1})
    call("GET", f"{world}/consumers")


def rows_and_ends(call, world):
    call("GET", f"{world}/history")
    call("POST", f"{world}/tick", {"ticks": 2}, idempotency_key="t")
    call("GET", f"{world}/commands")
    call("GET", f"{world}/log")
    call("GET", f"{world}/entities", query="components=Position")
    call(
        "GET", f"{world}/entities", query="components=Position", accept=faces.routes_entities.STREAM
    )
    call("GET", f"{world}/entities")
    call("POST", f"{world}/verify", {})
    call("POST", "/v1/land")
    call("GET", f"{world}/history")
    call("POST", f"{world}/fork", {"name": "quay", "world_id": "q"})
    call("GET", "/v1/worlds/q")
    call("GET", f"{world}/processors")
    call("GET", f"{world}/hooks")
    call("GET", f"{world}/resources")
    call("POST", f"{world}/resume")
    call("DELETE", f"{world}/consumers/hook")
    call("DELETE", world)
    call("POST", f"{world}/resume")
    call("POST", "/v1/trim", {})


def talks(call, talk):
    call("POST", "/v1/sessions", {"agent": "pilot", "session_id": "t"})
    call("POST", "/v1/sessions", {"agent": "nobody"})
    call("GET", "/v1/sessions")
    call("POST", f"{talk}/send", {"input": "hello", "send_id": "a"})
    call("POST", f"{talk}/send", {"input": "more", "send_id": "b"})
    call("POST", f"{talk}/send", {"input": "x", "delivery": "shout"})
    call("POST", f"{talk}/steer", {"input": "north"}, idempotency_key="c")
    call("DELETE", f"{talk}/sends/b")
    call("POST", f"{talk}/cancel", {"run_id": "a"})
    call("POST", f"{talk}/approvals/never", {"decision": "denied"})
    call("GET", talk)
    call("GET", f"{talk}/transcript")
    call("GET", f"{talk}/transcript", query="lineage=another")
    call("GET", f"{talk}/events")


def chores(call, jobs):
    call("POST", "/v1/stores", {"store_id": "boats"})
    row = {"name": "row", "args": {"strokes": 1}}
    call("POST", jobs, row, idempotency_key="a")
    call("POST", jobs, {**row, "args": {}})
    call("GET", jobs, query="phase=pending")
    call("GET", f"{jobs}/row/a")
    call("GET", f"{jobs}/row/never")
    call("POST", f"{jobs}/row/a/abort", {})
    call("POST", f"{jobs}/row/a/retry")


def papers(call, notes):
    note = {"owner": "notes", "namespace": "desk", "kind": "note", "value": {"said": "hello"}}
    create = {"write": "document.create", **note}
    call("POST", "/v1/stores", {"store_id": "n"})
    call("POST", "/v1/stores", {"store_id": "a/b"})
    call("GET", "/v1/stores")
    call("PUT", f"{notes}/tables/notes:tags", {"columns": {"tag": "str"}, "key": ["tag"]})
    call("GET", f"{notes}/tables")
    insert = {"write": "row.insert", "table": "notes:tags", "row": {"tag": "new"}}
    for _ in range(2):
        call("POST", f"{notes}/commits", {"writes": [create, insert]}, idempotency_key="a")
    call("POST", f"{notes}/commits", {"writes": [create]})
    call("GET", f"{notes}/documents", query="owner=notes&namespace=desk&limit=1")
    call("GET", f"{notes}/documents/2")
    call("GET", f"{notes}/documents/2", query="at=1")
    call("GET", f"{notes}/lookup", query="owner=notes&namespace=desk&kind=note")
    call("GET", f"{notes}/follow", query="owner=notes&namespace=desk&kind=note")
    call("GET", f"{notes}/follow", query="owner=notes&namespace=desk&kind=note&after=x")
    call("GET", f"{notes}/tables/notes:tags/rows")
    call("GET", f"{notes}/tables/notes:tags/row", query='key=["new"]')
    call("POST", f"{notes}/commits", {"writes": [{"write": "document.retire", "id": 2}]})
    call("GET", f"{notes}/documents/2")
    call("GET", f"{notes}/log")
    call("GET", notes)


def test_replies_are_what_the_document_says(described, in_lambda, tmp_path, capsys):
    (tmp_path / "default").mkdir()
    in_lambda.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    in_lambda.setenv("PERDURE_APP", "tests.emulator.harbour:app")
    functions = Functions()

    def ask(method, path, body, **options):
        of = {"api": faces.API, "query": faces.QUERY, "tick": faces.TICK, "land": faces.LAND}
        of |= {"sessions": faces.SESSIONS, "jobs": faces.JOBS}
        (name,) = [each for each, routes in of.items() if faces.is_of(routes, method, path)]
        return Caller(functions.module(name).sandbox, Context(remaining_ms=29_000))(
            method, path, body, **options
        )

    call = Checked(described, ROUTES, ask)
    commands_and_consumers(call, "/v1/worlds/h")
    rows_and_ends(call, "/v1/worlds/h")
    papers(call, "/v1/stores/n")
    functions.close()
    in_lambda.setenv("PERDURE_APP", "tests.support.talking:app")
    functions = Functions()
    talks(call, "/v1/sessions/t")
    functions.close()
    in_lambda.setenv("PERDURE_APP", "tests.support.chores:app")
    functions = Functions()
    chores(call, "/v1/stores/boats/jobs")
    functions.close()

    untried = {named(route) for route in ROUTES} - {route for route, _ in call.seen}
    assert len(call.seen) >= 30
    assert all(re.search("processors/|hooks/|resources/", each) for each in untried), untried
