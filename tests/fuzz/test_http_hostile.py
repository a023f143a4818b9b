"""Requests that no client would make: each is refused with a code, soon, and leaves no trace."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.fuzz import hostile
from tests.fuzz.asking import (
    NAMES,
    ROUTES,
    bounded,
    case_of,
    check,
    check_refusal,
    path_of,
    prepared,
    spelled,
)
from tests.fuzz.hull import Traced
from tests.fuzz.prepared import GOOD

from perdure.api.operations import LEAST_ROLE, ROLES

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("fuzz")]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "get", "X")
FEW = {"submit_commands", "read_entities"}
"""One that writes and one that reads; all the others are tried when there is time."""


def some(names, few=frozenset(FEW)):
    return [name if name in few else pytest.param(name, marks=pytest.mark.slow) for name in names]


WITH_QUERY = some(name for name in NAMES if GOOD[name].query)
WITH_BODY = [name for name in NAMES if GOOD[name].body is not None]
MEMORY_TIMES_MAX = 30
"""How often a body may lie in memory while it is refused: as bytes, text, event and message."""


class Target:
    """One operation's good request, to be changed in one place, and what came of that."""

    def __init__(self, hull, name: str) -> None:
        self.hull, self.name = hull, name
        self.traced = Traced(hull)
        self.case = case_of(name, GOOD[name])
        self.sent = prepared(self.case)
        self.method, self.target, self.headers, self.body = spelled(hull, self.sent)

    def __call__(self, *, method=None, target=None, headers=None, body=None, is_route=True):
        answered = self.traced.ask(
            method or self.method,
            self.target if target is None else target,
            self.headers if headers is None else headers,
            self.body if body is None else body,
        )
        assert answered.status < 500, (self.name, method, target, headers, body, answered)
        if is_route and answered.status != 404:
            check(self.case, self.sent, answered)
        else:
            check_refusal(answered)
        return answered

    def but(self, *headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        names = {name for name, _ in headers}
        return [each for each in self.headers if each[0] not in names] + list(headers)


@pytest.mark.parametrize("name", some(NAMES, FEW - {"submit_commands"}))
def test_no_path_leads_anywhere_else(hull, name):
    ask = Target(hull, name)
    segments = ask.target.partition(b"?")[0].split(b"/")

    for place in range(1, len(segments)):
        for bad in hostile.PATHS:
            path = b"/".join([*segments[:place], bad, *segments[place + 1 :]])
            ask(target=path, is_route=False)
    good = b"/".join(segments)
    for path in (b"/", b"//", b"/" + good, good + b"/", b"/%2e" + good):
        assert ask(target=path).status == 404


@pytest.mark.parametrize("name", some(NAMES))
def test_no_header_does_harm(hull, name):
    ask = Target(hull, name)

    for header in hostile.HEADERS:
        ask(headers=ask.but(header))


@pytest.mark.parametrize("name", WITH_QUERY)
def test_no_query_does_harm(hull, name):
    ask = Target(hull, name)
    path, _, query = ask.target.partition(b"?")

    for parameter in GOOD[name].query:
        for bad in hostile.QUERIES:
            added = b"&" + parameter.encode() + b"=" + bad
            # What a name or an address says may be that of nothing, or longer than one can be.
            assert ask(target=path + b"?" + query + added).status in {200, 400, 404, 413}
            ask(target=path + b"?" + added[1:])
    for more in (b"unknown=1", b"=", b"&&&", b"%00=%00", b"a[]=1", b"next=" + b"A" * 9_000):
        ask(target=path + b"?" + query + b"&" + more)


@pytest.mark.parametrize("name", some(WITH_BODY))
def test_no_body_does_harm(hull, name):
    ask = Target(hull, name)

    for body in hostile.BODIES:
        assert ask(body=body).status in {400, 404, 413}
    for body in hostile.replaced(GOOD[name].body):
        ask(body=bounded(body))


@pytest.mark.parametrize("name", some(WITH_BODY))
def test_body_may_come_in_any_parts(hull, name):
    ask = Target(hull, name)

    parts = [ask.body[:1], b"", ask.body[1:7], ask.body[7:]]

    assert ask(body=parts).status < 300


@pytest.mark.parametrize("name", some(WITH_BODY))
def test_oversize_body_is_refused_without_being_kept(hull, name):
    ask = Target(hull, name)
    tracemalloc.start()

    answered = ask(body=hostile.OVERSIZE)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answered.status, answered.code) == (413, "too_large")
    assert peak < MEMORY_TIMES_MAX * len(hostile.OVERSIZE)


@pytest.mark.parametrize("name", some(NAMES))
def test_no_other_method_is_answered(hull, name):
    ask = Target(hull, name)
    path = ask.case.path

    there = {each.method for each in ROUTES if path_of(each) == path}
    for method in sorted({*METHODS} - there):
        answered = ask(method=method, is_route=False)
        assert (answered.status, answered.code) == (404, "not_found")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.run.__name__)
def test_whoever_may_not_is_told_so_and_leaves_no_trace(hull, route):
    ask = Target(hull, route.run.__name__)
    least = ROLES.index(LEAST_ROLE[route.operation])
    given = [each for each in ask.headers if each[0] != b"authorization"]
    good = hull.token()
    forged = [b"", b"Basic YTpi", b"Bearer", b"Bearer x", b"Bearer " + good[:-4].encode()]
    forged += [b"Bearer " + hull.token(seconds=-10).encode(), b"Bearer " + good.encode() + b"\x00"]

    assert ask(headers=given).status == 401
    for each in forged:
        assert ask(headers=[*given, (b"authorization", each)]).status == 401
    for role in [*ROLES[:least], "root", "Admin", ""]:
        answered = ask(headers=[*given, hull.bearer(role)])
        assert (answered.status, answered.code) == (403, "not_permitted")
    other = ask(headers=[*given, hull.bearer(tenant="another")])
    assert (other.status, other.code) == (403, "not_permitted")
