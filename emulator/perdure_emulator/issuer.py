"""The local issuer: a key beside the storage, the tokens it signs, and how they are checked."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import RSAAlgorithm

from perdure.kernel.errors import StoreUnavailable

NAME: Final = "https://perdure.localhost"
"""The claim `iss`: the same on every port, so that tokens outlive a restart."""

AUDIENCE: Final = "perdure"

ALGORITHM: Final = "RS256"
"""Source: API Gateway HTTP API, JWT authorizers, which take RSA signatures only."""

KEY_BITS: Final = 2_048
KEY_ID: Final = "local"
KEY_FILE: Final = ".perdure-issuer.pem"

OWNER_ONLY: Final = 0o600


@dataclass(frozen=True)
class Issuer:
    """Whoever holds the key makes tokens; the gateway believes them."""

    key: RSAPrivateKey

    def token(  # the claims of a token
        self, *, actor: str, role: str, tenant: str, now_seconds: int, seconds: int
    ) -> str:
        """Return a token that is good for so many seconds."""
        claims = {
            "iss": NAME,
            "aud": AUDIENCE,
            "sub": actor,
            "role": role,
            "tenant": tenant,
            "iat": now_seconds,
            "exp": now_seconds + seconds,
        }
        return jwt.encode(claims, self.key, algorithm=ALGORITHM, headers={"kid": KEY_ID})

    def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a good token. Raises jwt.InvalidTokenError."""
        claims: dict[str, Any] = jwt.decode(
            token,
            self._public,
            algorithms=[ALGORITHM],
            issuer=NAME,
            options={"require": ["exp"], "verify_aud": False},
        )
        # API Gateway looks at client_id, which Cognito's access tokens have, if there is no aud.
        meant = claims.get("aud", claims.get("client_id"))
        if AUDIENCE not in (meant if isinstance(meant, list) else [meant]):
            raise jwt.InvalidAudienceError(AUDIENCE)
        return claims

    def keys(self) -> dict[str, Any]:
        """Spell the public key as a JSON Web Key Set."""
        described = RSAAlgorithm.to_jwk(self._public, as_dict=True)
        return {"keys": [{**described, "kid": KEY_ID, "alg": ALGORITHM, "use": "sig"}]}

    def discovery(self, address: str) -> dict[str, Any]:
        """Describe the issuer as OpenID Connect does, for whoever asks at ``address``."""
        return {
            "issuer": NAME,
            "jwks_uri": f"{address}/.well-known/jwks.json",
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "response_types_supported": ["token"],
            "subject_types_supported": ["public"],
        }

    @cached_property
    def _public(self) -> Any:
        return self.key.public_key()


def issuer(directory: Path) -> Issuer:
    """Return the issuer of a local storage; its key is made if it is not there.

    Raises: StoreUnavailable for a key that cannot be read, or that others can read.
    """
    file = directory / KEY_FILE
    try:
        if not file.exists():
            _make(file)
        if file.stat().st_mode & 0o077:
            raise StoreUnavailable(
                expected=f"{file} to be readable by its owner only", found="others may read it"
            )
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise StoreUnavailable(expected=f"a private key in {file}", found=str(error)) from error
    if not isinstance(key, RSAPrivateKey):
        raise StoreUnavailable(expected=f"an RSA key in {file}", found=type(key).__name__)
    return Issuer(key)


def _make(file: Path) -> None:
    """Make a key; of several processes that do so at once, one makes the key of all."""
    key = generate_private_key(public_exponent=65_537, key_size=KEY_BITS)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):  # a link, unlike a rename, never overwrites
            os.link(draft, file)
    finally:
        draft.unlink()


def as_delivered(claims: Mapping[str, Any]) -> dict[str, str]:
    """Spell claims as API Gateway hands them to a function: all of them text."""
    return {name: _text(value) for name, value in claims.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(map(_text, value))}]"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{name}:{_text(each)}' for name, each in sorted(value.items()))}]"
    return str(value)
