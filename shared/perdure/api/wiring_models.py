"""Models by name: ``bedrock:id``, ``openai:name`` or ``scripted:module:attribute``."""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perdure.api.settings_models import ModelSettings, model_settings
from perdure.authority import system
from perdure.kernel.shown import shown
from perdure.runtime.session.model_attempts import Means
from perdure.runtime.session.model_scripted import ScriptedModel
from perdure.runtime.session.ports import Model, UnknownModel

if TYPE_CHECKING:
    import httpx

CLOUD: Final = "perdure.api.wiring_models_aws"
"""Imported by name, for boto3 takes its time."""

BEDROCK: Final = "perdure.runtime.session.model_bedrock"
OPENAI: Final = "perdure.runtime.session.model_openai"
"""Imported by name, for httpx takes its time, and not every archive has it."""


def opened_model(uri: str, chosen: ModelSettings | None = None) -> Model:
    """Return the model that an agent names; nothing is asked of it yet.

    Without settings the environment is read. Raises: UnknownModel, InvalidValue.
    """
    scheme, _, name = uri.partition(":")
    if scheme not in _OPENERS or not name.strip() or not name.isprintable():
        raise UnknownModel(
            expected="a model as bedrock:id, openai:name or scripted:module:attribute",
            found=shown(uri),
        )
    return _OPENERS[scheme](name, model_settings() if chosen is None else chosen)


def _scripted(reference: str) -> Model:
    """Return the script at ``module:attribute``, or what is a model there already.

    An error inside the module is not hidden: it is raised as it is.
    """
    module, _, attribute = reference.partition(":")
    expected = "a script as scripted:module:attribute"
    if not module or not attribute or module.startswith("."):
        raise UnknownModel(expected=expected, found=shown(reference))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UnknownModel(expected=expected, found=f"no module {shown(module)}") from error
    script: Any = getattr(imported, attribute, None)
    if callable(getattr(script, "step", None)):
        model: Model = script
        return model
    if not callable(script) and not isinstance(script, list | tuple):
        raise UnknownModel(expected=expected, found=f"{type(script).__name__} at {reference}")
    return ScriptedModel(script, system.now)


def _means() -> Means:
    return Means(now=system.now, chance=system.chance)


def _bedrock(model_id: str, chosen: ModelSettings) -> Model:
    client = importlib.import_module(CLOUD).bedrock_client(chosen.bedrock_endpoint)
    model: Model = importlib.import_module(BEDROCK).BedrockModel(client, model_id, _means())
    return model


def _openai(model_name: str, chosen: ModelSettings) -> Model:
    adapter = importlib.import_module(OPENAI)
    model: Model = adapter.OpenAiModel(
        url=chosen.openai_url,
        model_name=model_name,
        key=_key(chosen),
        clients=_clients(adapter.TIMES_OUT),
        means=_means(),
    )
    return model


def _key(chosen: ModelSettings) -> Any:
    """Return who tells the key: the settings, or what keeps it."""
    if chosen.is_key_kept:
        return importlib.import_module(CLOUD).kept_key(chosen.openai_key)

    async def said() -> str | None:
        return chosen.openai_key

    return said


def _clients(times_out: httpx.Timeout) -> Callable[[], httpx.AsyncClient]:
    http = importlib.import_module("httpx")

    def made() -> httpx.AsyncClient:
        # No environment: a .netrc would add credentials to whatever address is set.
        client: httpx.AsyncClient = http.AsyncClient(
            verify=_trust(), timeout=times_out, trust_env=False, follow_redirects=False
        )
        return client

    return made


@cache
def _trust() -> ssl.SSLContext:
    """Return the certificates that are trusted: read once, for that takes longer than a request."""
    context: ssl.SSLContext = importlib.import_module("httpx").create_ssl_context(trust_env=False)
    return context


_OPENERS: Final[dict[str, Callable[[str, ModelSettings], Model]]] = {
    "bedrock": _bedrock,
    "openai": _openai,
    "scripted": lambda name, _: _scripted(name),
}
