"""Models by name: what an agent may call its model, and what the environment says of providers."""

from __future__ import annotations

import json

import pytest
from tests.runtime.session.asking import asked, in_ms, request_of
from tests.runtime.session.provider import plain, serving, sse

from perdure.api import wiring_models_aws
from perdure.api.settings_models import ModelSettings, model_settings
from perdure.api.wiring_models import opened_model
from perdure.kernel.errors import InvalidValue
from perdure.kernel.session.messages import UserMessage
from perdure.runtime.session.model_bedrock import BedrockModel
from perdure.runtime.session.model_scripted import ScriptedModel
from perdure.runtime.session.ports import ModelUnavailable, UnknownModel

pytestmark = pytest.mark.sessions

SCRIPT = ["hello"]
MODEL = ScriptedModel(SCRIPT, now=lambda: 0)
NEITHER = 7
GO = request_of(UserMessage(text="go"))

SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:openai-AbCdEf"
PARAMETER = "arn:aws:ssm:eu-central-1:123456789012:parameter/openai"
SAID = sse({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]})


@pytest.fixture
def provider():
    with serving() as provider:
        yield provider


async def test_a_script_is_named_by_its_module():
    model = opened_model(f"scripted:{__name__}:SCRIPT")

    assert (await asked(model, GO)).message.text == "hello"


def test_a_model_may_stand_where_a_script_does():
    assert opened_model(f"scripted:{__name__}:MODEL") is MODEL


@pytest.mark.parametrize(
    "uri",
    ["", "gpt-x", "openai:", "openai: ", "bedrock", "OpenAI:gpt", "azure:gpt", "bedrock:a\nb",
     "scripted:json", "scripted::x", "scripted:.json:x", "scripted:no.such.module:x",
     f"scripted:{__name__}:nothing", f"scripted:{__name__}:NEITHER"],
)  # fmt: skip
def test_a_name_that_is_no_models_is_refused(uri):
    with pytest.raises(UnknownModel) as caught:
        opened_model(uri, ModelSettings())

    assert caught.value.code == "unknown_model"


def test_a_module_that_fails_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "broken_script.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError):
        opened_model("scripted:broken_script:x")


async def test_a_proxy_of_the_environment_is_not_asked(provider, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    provider.will(SAID)

    chosen = ModelSettings(openai_url=provider.url, openai_key="sk-1")
    reply = await asked(opened_model("openai:x", chosen), GO, in_ms(60_000))

    assert reply.message.text == "hi"


def test_models_of_bedrock_share_a_client_that_never_tries_again(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    chosen = ModelSettings(bedrock_endpoint="http://127.0.0.1:1")

    one = opened_model("bedrock:anthropic.claude-x-v1:0", chosen)
    other = opened_model("bedrock:other", chosen)

    assert isinstance(one, BedrockModel)
    assert (one.model_id, one.client) == ("anthropic.claude-x-v1:0", other.client)
    assert one.client.meta.config.retries["total_max_attempts"] == 1
    one.client.close()
    wiring_models_aws.bedrock_client.cache_clear()


def test_bedrock_without_a_region_is_refused(monkeypatch):
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")

    with pytest.raises(InvalidValue):
        opened_model("bedrock:x", ModelSettings())


async def test_a_model_of_openai_is_asked_where_the_environment_says(provider):
    provider.will(SAID)
    chosen = model_settings(
        {"PERDURE_OPENAI_URL": f"{provider.url}/v1/", "PERDURE_OPENAI_KEY": " sk-1 "}
    )

    reply = await asked(opened_model("openai:org/gpt-x:free", chosen), GO, in_ms(60_000))

    (heard,) = provider.heard
    assert reply.message.text == "hi"
    assert (heard.path, heard.json["model"]) == ("/v1/chat/completions", "org/gpt-x:free")
    assert heard.headers["authorization"] == "Bearer sk-1"


async def test_without_a_key_none_is_sent(provider):
    provider.will(SAID)

    await asked(opened_model("openai:x", ModelSettings(openai_url=provider.url)), GO, in_ms(60_000))

    assert "authorization" not in provider.heard[0].headers


@pytest.mark.parametrize(
    ("arn", "answer"),
    [(SECRET, {"SecretString": "sk-2\n"}), (PARAMETER, {"Parameter": {"Value": "sk-2"}})],
    ids=["secret", "parameter"],
)
async def test_a_key_that_aws_keeps_is_read_once_in_a_while(provider, monkeypatch, arn, answer):
    account(monkeypatch, provider.url)
    provider.will(*[plain(answer)] * 2)
    moment = 0
    key = wiring_models_aws.kept_key(arn, now=lambda: moment)

    keys = [await key() for _ in range(3)]
    moment = wiring_models_aws.KEY_KEPT_MS + 1
    keys.append(await key())

    assert keys == ["sk-2"] * 4
    assert len(provider.heard) == 2
    assert arn in json.loads(provider.heard[0].body).values()


async def test_a_key_that_cannot_be_read_says_nothing_of_why(provider, monkeypatch):
    account(monkeypatch, provider.url)
    provider.will(plain({"__type": "AccessDenied", "message": "of account 1234"}, status=400))
    chosen = ModelSettings(openai_url=provider.url, openai_key=SECRET)
    listener = in_ms(60_000)

    with pytest.raises(ModelUnavailable) as caught:
        await asked(opened_model("openai:x", chosen), GO, listener)

    assert "1234" not in str(caught.value)
    assert listener.attempts == []


def account(monkeypatch, url):
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")


def test_settings_say_where_providers_are():
    chosen = model_settings({"AWS_ENDPOINT_URL": "http://aws", "PERDURE_OPENAI_KEY": ""})
    closer = model_settings(
        {"AWS_ENDPOINT_URL": "http://aws", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://bedrock"}
    )

    assert chosen.openai_url == "https://api.openai.com/v1"
    assert chosen.openai_key is None
    assert (chosen.bedrock_endpoint, closer.bedrock_endpoint) == ("http://aws", "http://bedrock")


def test_settings_do_not_show_a_key():
    assert "sk-1" not in repr(ModelSettings(openai_key="sk-1"))


@pytest.mark.parametrize(
    "url",
    ["ftp://host", "host/v1", "https://", "https://user:secret@host/v1", "https://h/v1?key=secret",
     "https://h/v1#secret", "https://[secret", "https://host:secret/v1", "https://hóst"],
)  # fmt: skip
def test_a_base_url_is_http_and_bears_nothing_secret(url):
    with pytest.raises(InvalidValue) as caught:
        model_settings({"PERDURE_OPENAI_URL": url})

    assert "secret" not in str(caught.value)
