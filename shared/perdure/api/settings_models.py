"""Models: what the environment says of their providers."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from perdure.api.settings import ENDPOINT
from perdure.kernel.errors import InvalidValue

URL: Final = "PERDURE_OPENAI_URL"
KEY: Final = "PERDURE_OPENAI_KEY"
URL_DEFAULT: Final = "https://api.openai.com/v1"

_KEPT: Final = re.compile(r"arn:aws[\w-]*:(secretsmanager|ssm):[a-z0-9-]+:\d{12}:\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Where the providers of models are, and how they are paid."""

    openai_url: str = URL_DEFAULT
    openai_key: str | None = field(default=None, repr=False)
    bedrock_endpoint: str | None = None

    @property
    def is_key_kept(self) -> bool:
        """Say whether the key is the ARN of where it is kept, and not the key itself."""
        return bool(_KEPT.fullmatch(self.openai_key or ""))


def model_settings(environment: Mapping[str, str] | None = None) -> ModelSettings:
    """Read how models are reached from this process.

    ``PERDURE_OPENAI_URL`` is the base URL of a server that speaks as OpenAI does.
    ``PERDURE_OPENAI_KEY`` is its key, or the ARN of a secret or of a parameter that holds it.
    Raises: InvalidValue.
    """
    variables = os.environ if environment is None else environment
    everywhere = variables.get(ENDPOINT) or None
    return ModelSettings(
        openai_url=_base(variables.get(URL) or URL_DEFAULT),
        openai_key=variables.get(KEY, "").strip() or None,
        bedrock_endpoint=variables.get(f"{ENDPOINT}_BEDROCK_RUNTIME") or everywhere,
    )


def _base(url: str) -> str:
    """Return the one spelling of a base URL. Raises InvalidValue, without what may be a password."""
    expected = f"{URL} to be http(s)://host/path"
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidValue(expected=expected, found="another") from None
    if parts.query or parts.fragment or "@" in parts.netloc:
        found = "one with credentials, a query or a fragment"
        raise InvalidValue(expected=expected, found=found)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isascii():
        raise InvalidValue(expected=expected, found=repr(url))
    return url.rstrip("/")
