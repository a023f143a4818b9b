"""The template, deployed: sam builds it and deploys it to an AWS that refuses what no policy allows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.support.deployed import Cloud, Pool, Stack, built, cloud, deployed, packaged

pytestmark = [pytest.mark.cloud, pytest.mark.slow, pytest.mark.xdist_group("deploy")]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Cloud]:
    with cloud(tmp_path_factory.mktemp("cloud")) as place:
        yield place


@pytest.fixture(scope="module")
def pool(place) -> Pool:
    """Users named as their roles, and app clients: whose tokens are good, and whose are not."""
    pool = Pool.made(place)
    for role in ("viewer", "player", "operator", "admin"):
        pool.user(role, role)
    return pool


@pytest.fixture(scope="module")
def template(place, tmp_path_factory):
    return packaged(place, built(tmp_path_factory.mktemp("built") / "build"))


@pytest.fixture(scope="module")
def parameters(pool) -> dict[str, str]:
    machine = os.uname().machine
    return {
        "Architecture": "arm64" if machine in {"arm64", "aarch64"} else "x86_64",
        "Issuer": pool.issuer,
        "Audience": f"{pool.client('app')},{pool.client('hasty', seconds=1)}",
        "RoleClaim": "cognito:groups",
    }


@pytest.fixture(scope="module")
def stack(place, template, parameters) -> Stack:
    return deployed(place, template, parameters)


@pytest.fixture(scope="module")
def admin(stack, pool) -> httpx.Client:
    return stack.http(pool.token("admin", "app"))


def test_health_is_told_to_whoever_has_a_token(admin):
    answer = admin.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_without_a_good_token_nothing_is_told(stack, pool):
    expired = pool.token("admin", "hasty")
    whole = pool.token("admin", "app")
    forged = whole[:-4] + ("AAAA" if whole[-4:] != "AAAA" else "BBBB")
    time.sleep(1.1)

    tokens = {
        "none": None,
        "expired": expired,
        "for somebody else": pool.token("admin", "other"),
        "forged": forged,
        "no token at all": "admin",
    }
    answers = {why: stack.http(token).get("/healthz") for why, token in tokens.items()}

    assert {why: answer.status_code for why, answer in answers.items()} == dict.fromkeys(
        tokens, 401
    )


def test_a_role_without_the_right_is_refused(stack, pool):
    viewer = stack.http(pool.token("viewer", "app"))

    answer = viewer.post("/v1/worlds", json={"name": "mine"})

    assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted")
