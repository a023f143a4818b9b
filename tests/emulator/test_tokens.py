"""Tokens: nobody is let in without a good one, and its claims arrive as API Gateway sends them."""

from __future__ import annotations

import base64
import hmac
import json
import multiprocessing
import stat
import time

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.emulator.deployment import ROOT, bearer, deployed
from tests.emulator.test_front import ISSUER, SMALL_TEMPLATE, asked, token

from perdure.kernel.errors import InvalidValue, StoreUnavailable
from perdure_emulator.authorizer import Authorizer, Denied
from perdure_emulator.issuer import AUDIENCE, KEY_FILE, NAME, as_delivered, issuer
from perdure_emulator.template import read

pytestmark = pytest.mark.lifecycle

NOW = int(time.time())
ENDS = NOW + 86_400
"""These tests are over by then, however late in a run they come."""

GOOD = {
    "iss": NAME,
    "aud": AUDIENCE,
    "sub": "ann",
    "role": "player",
    "iat": NOW,
    "exp": ENDS,
}


def signed(key=ISSUER.key, without=(), **changed):
    claims = {name: value for name, value in {**GOOD, **changed}.items() if name not in without}
    return jwt.encode(claims, key, algorithm="RS256")


def encoded(part):
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned():
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(GOOD)}."


def confused():
    """A token with a secret that everybody knows, for whoever believes its header."""
    public = ISSUER.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    said = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded(GOOD)}"
    return f"{said}.{encoded(hmac.digest(public, said.encode(), 'sha256'))}"


def tampered():
    header, _, signature = signed().split(".")
    return f"{header}.{encoded({**GOOD, 'role': 'admin'})}.{signature}"


BAD = {
    "of another key": lambda: signed(generate_private_key(public_exponent=65_537, key_size=2_048)),
    "with other claims than were signed": tampered,
    "without a signature": unsigned,
    "signed with the public key": confused,
    "expired": lambda: signed(exp=NOW - 1),
    "not good yet": lambda: signed(nbf=NOW + 86_400),
    "without an end": lambda: signed(without=("exp",)),
    "of another issuer": lambda: signed(iss="https://elsewhere"),
    "of no issuer": lambda: signed(without=("iss",)),
    "for another audience": lambda: signed(aud="elsewhere"),
    "for other audiences": lambda: signed(aud=["elsewhere", "nowhere"]),
    "for no audience": lambda: signed(without=("aud",)),
    "for another client": lambda: signed(without=("aud",), client_id="elsewhere"),
    "for another audience by the right client": lambda: signed(aud="elsewhere", client_id=AUDIENCE),
    "no token": lambda: "admin",
    "nothing": lambda: "",
}


@pytest.mark.parametrize("bad", BAD)
def test_request_with_a_token_that_is_not_good_reaches_no_function(bad):
    reply, events = asked("GET", "/v1/worlds", authorization=f"Bearer {BAD[bad]()}")

    assert (reply.status_code, reply.json()) == (401, {"message": "Unauthorized"})
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert events == []


def test_request_without_a_token_reaches_no_function():
    reply, events = asked("GET", "/v1/worlds", authorization="")

    assert (reply.status_code, reply.json()) == (401, {"message": "Unauthorized"})
    assert reply.headers["www-authenticate"] == "Bearer"
    assert events == []


def test_expired_token_is_told_apart():
    reply, _ = asked("GET", "/v1/worlds", authorization=f"Bearer {signed(exp=NOW - 1)}")

    assert "the token has expired" in reply.headers["www-authenticate"]


@pytest.mark.parametrize(
    "authorization",
    [
        f"Bearer {signed()}",
        f"bearer {signed()}",
        signed(),
        f"Bearer {signed(aud=['elsewhere', AUDIENCE])}",
        f"Bearer {signed(without=('aud',), client_id=AUDIENCE)}",
    ],
    ids=range(5),
)
def test_request_with_a_good_token_reaches_its_function(authorization):
    reply, events = asked("GET", "/v1/worlds", authorization=authorization)

    assert reply.status_code == 200
    assert events[0]["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] == "ann"


def test_claims_arrive_as_api_gateway_sends_them():
    made = signed(roles=["a", "b"], admin=True, level=7, ratio=0.5, empty=[], place={"x": 1})

    _, (event,) = asked("GET", "/v1/worlds", authorization=made)

    assert event["requestContext"]["authorizer"] == {
        "jwt": {
            "claims": {
                "iss": NAME,
                "aud": AUDIENCE,
                "sub": "ann",
                "role": "player",
                "iat": str(NOW),
                "exp": str(ENDS),
                "roles": "[a b]",
                "admin": "true",
                "level": "7",
                "ratio": "0.5",
                "empty": "[]",
                "place": "map[x:1]",
            },
            "scopes": None,
        }
    }


def test_headers_cannot_say_who_asks():
    forged = json.dumps({"jwt": {"claims": {"sub": "root", "role": "admin"}}})

    _, (event,) = asked("GET", "/v1/worlds", **{"x-authorizer": forged, "authorizer": forged})

    assert event["requestContext"]["authorizer"]["jwt"]["claims"]["role"] == "player"


@pytest.mark.parametrize(
    ("authorization", "status", "events"),
    [("AuthorizationType: NONE", 200, 1), ("", 200, 1), ("AuthorizationType: AWS_IAM", 403, 0)],
)
def test_route_lets_in_whom_its_template_says(tmp_path, authorization, status, events):
    file = tmp_path / "template.yaml"
    file.write_text(SMALL_TEMPLATE.format(authorization=authorization))

    reply, reached = asked("GET", "/v1/worlds", authorization="", template=read(file))

    assert (reply.status_code, len(reached)) == (status, events)


@pytest.mark.parametrize(
    "authorization", ["AuthorizationType: CUSTOM", "AuthorizationType: JWT, AuthorizerId: nobody"]
)
def test_route_that_cannot_be_guarded_is_refused_at_the_start(tmp_path, authorization):
    file = tmp_path / "template.yaml"
    file.write_text(SMALL_TEMPLATE.format(authorization=authorization))

    with pytest.raises(InvalidValue):
        read(file)


def test_project_leaves_no_route_open():
    assert {route.authorization for route in read(ROOT / "template.yaml").routes} == {"JWT"}


def test_key_is_made_once_and_for_its_owner_only(tmp_path):
    first = issuer(tmp_path)
    again = issuer(tmp_path)

    assert first.keys() == again.keys()
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [KEY_FILE]


def keys_in(directory):
    return issuer(directory).keys()


def test_processes_that_start_together_have_one_key(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        keys = pool.map(keys_in, [tmp_path] * 6)

    assert all(each == keys[0] for each in keys)
    assert [each.name for each in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_key_that_others_can_read_is_refused(tmp_path, mode):
    issuer(tmp_path)
    (tmp_path / KEY_FILE).chmod(mode)

    with pytest.raises(StoreUnavailable, match="others may read it"):
        issuer(tmp_path)


@pytest.mark.parametrize("text", ["", "-----BEGIN PRIVATE KEY-----\n"])
def test_key_that_is_none_is_refused_and_left_alone(tmp_path, text):
    (tmp_path / KEY_FILE).write_text(text)
    (tmp_path / KEY_FILE).chmod(0o600)

    with pytest.raises(StoreUnavailable, match="private key"):
        issuer(tmp_path)
    assert (tmp_path / KEY_FILE).read_text() == text


def test_keys_are_served_for_others_to_check_tokens(deployment):
    found = httpx.get(deployment.http.base_url.join("/.well-known/openid-configuration")).json()
    keys = jwt.PyJWKSet.from_dict(httpx.get(found["jwks_uri"]).json())
    made = bearer(deployment.root, "player")["Authorization"].removeprefix("Bearer ")

    checked = jwt.decode(made, keys["local"], audience=AUDIENCE, issuer=found["issuer"])

    assert checked["role"] == "player"
    assert "d" not in keys["local"]._jwk_data


def test_role_of_a_token_decides_what_its_bearer_may_do(deployment, world):
    spawn = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}

    def statuses(role):
        headers = bearer(deployment.root, role)
        return [
            deployment.http.request(method, path, json=body, headers=headers).status_code
            for method, path, body in (
                ("GET", world, None),
                ("POST", f"{world}/commands", {"commands": [spawn]}),
                ("POST", f"{world}/tick", {"ticks": 1}),
                ("POST", "/v1/land", {}),
                ("POST", "/v1/worlds", {"name": world, "world_id": "/"}),
            )
        ]

    assert statuses("viewer") == [200, 403, 403, 403, 403]
    assert statuses("player") == [200, 202, 403, 403, 403]
    assert statuses("operator") == [200, 202, 200, 200, 403]
    assert statuses("admin") == [200, 202, 200, 200, 400]


def test_token_of_another_namespace_is_not_good_here(deployment, world):
    headers = bearer(deployment.root, "admin", tenant="another")

    reply = deployment.http.get(world, headers=headers)

    assert (reply.status_code, reply.json()["code"]) == (403, "not_permitted")


def test_token_outlives_a_restart_on_another_port(tmp_path):
    with deployed(tmp_path / "root"):
        made = bearer(tmp_path / "root", "admin")
    with deployed(tmp_path / "root") as running:
        assert running.http.get("/v1/worlds", headers=made).status_code == 200


def test_work_of_many_commits_is_paid_for_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setenv("PERDURE_QUOTA_OPERATOR", "30")
    monkeypatch.setenv("PERDURE_QUOTA_WINDOW_MS", str(10**12))
    with deployed(tmp_path / "root") as running:
        running.http.post("/v1/worlds", json={"name": "reef", "world_id": "reef"})
        headers = bearer(tmp_path / "root", "operator")

        asked = [
            running.http.post(path, json=body, headers=headers)
            for path, body in (
                ("/v1/worlds/reef/tick", {"ticks": 1}),
                ("/v1/land", {}),
                ("/v1/trim", {}),
                ("/v1/worlds/reef/tick", {"ticks": 1}),
                ("/v1/land", {}),
                ("/v1/trim", {}),
            )
        ]
        world = running.http.get("/v1/worlds/reef").json()

    assert [each.status_code for each in asked] == [200] * 3 + [429] * 3
    assert {each.json()["code"] for each in asked[3:]} == {"quota_exceeded"}
    assert world["published_tick"] == 0


def test_token_that_was_good_is_checked_once_and_still_ends():
    now, headers = [float(NOW)], {"authorization": signed()}
    checked = []

    class Counting:
        def claims(self, token):
            checked.append(token)
            return ISSUER.claims(token)

    authorizer = Authorizer(Counting(), now=lambda: now[0])
    for _ in range(3):
        assert authorizer.authorized("JWT", headers)["jwt"]["claims"]["sub"] == "ann"
    now[0] = float(ENDS)

    with pytest.raises(Denied) as denied:
        authorizer.authorized("JWT", headers)
    assert denied.value.reply["statusCode"] == 401
    assert "expired" in denied.value.reply["headers"]["www-authenticate"]
    assert len(checked) == 1


def test_only_so_many_tokens_are_remembered_and_bad_ones_never(monkeypatch):
    monkeypatch.setattr("perdure_emulator.authorizer.TOKENS_MAX", 3)
    authorizer = Authorizer(ISSUER)

    for number in range(10):
        authorizer.authorized("JWT", {"authorization": signed(sub=f"ann-{number}")})
        with pytest.raises(Denied):
            authorizer.authorized("JWT", {"authorization": tampered()})

    assert 1 <= len(authorizer._known) <= 3


def test_issuer_signs_what_it_checks():
    claims = ISSUER.claims(token(role="viewer", actor="bob"))

    assert (claims["sub"], claims["role"], claims["tenant"]) == ("bob", "viewer", "default")
    assert set(map(type, as_delivered(claims).values())) == {str}
