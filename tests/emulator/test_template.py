"""The template as the emulator reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.emulator.deployment import ROOT

from perdure.kernel.errors import InvalidValue
from perdure_emulator.template import read

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)

SMALL = """
Resources:
  ApiFunction:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/api
      Handler: app.handler
      Timeout: 15
      Events:
        Often: { Type: ScheduleV2, Properties: { ScheduleExpression: rate(5 minutes) } }
        Daily: { Type: ScheduleV2, Properties: { ScheduleExpression: "cron(0 1 * * ? *)" } }
  Integration:
    Type: AWS::ApiGatewayV2::Integration
    Properties: { IntegrationUri: !GetAtt ApiFunction.Arn }
  Route:
    Type: AWS::ApiGatewayV2::Route
    Properties: { RouteKey: "GET /v1/worlds/{world}", Target: !Sub "integrations/${Integration}" }
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "template.yaml").write_text(SMALL)
    return read(tmp_path / "template.yaml")


def test_function_is_read_with_its_file_its_time_and_its_schedules(small, tmp_path):
    function = small.functions["ApiFunction"]

    assert function.file == tmp_path / "functions" / "api" / "app.py"
    assert (function.handler, function.folder) == ("handler", "api")
    assert function.timeout_seconds == 15
    assert [each.name for each in function.schedules] == ["Often", "Daily"]
    assert [each.expression.after(NOON) for each in function.schedules] == [
        NOON + timedelta(minutes=5),
        NOON + timedelta(hours=13),
    ]


@pytest.mark.parametrize(
    ("method", "path", "parameters"),
    [
        ("GET", "/v1/worlds/a%20b", {"world": "a%20b"}),
        ("POST", "/v1/worlds/a", None),
        ("GET", "/v1/worlds", None),
        ("GET", "/v1/worlds/a/b", None),
        ("GET", "/v2/worlds/a", None),
    ],
)
def test_route_is_found_by_method_and_path(small, method, path, parameters):
    found = small.find(method, path)

    assert (None if found is None else found[1]) == parameters


KEYS = (
    "$default",
    "ANY /{proxy+}",
    "GET /pets/{proxy+}",
    "ANY /pets/dog/{id}",
    "GET /pets/dog/{id}",
    "GET /pets/dog/1",
)


@pytest.fixture
def ranked(tmp_path):
    text, rest = SMALL.split("  Route:\n", maxsplit=1)[0], ""
    for number, key in enumerate(KEYS):
        target = 'Target: !Sub "integrations/${Integration}"'
        rest += f"  Route{number}:\n    Type: AWS::ApiGatewayV2::Route\n"
        rest += f'    Properties: {{ RouteKey: "{key}", {target} }}\n'
    (tmp_path / "template.yaml").write_text(text + rest)
    return read(tmp_path / "template.yaml")


@pytest.mark.parametrize(
    ("method", "path", "key", "parameters"),
    [
        ("GET", "/pets/dog/1", "GET /pets/dog/1", {}),
        ("GET", "/pets/dog/2", "GET /pets/dog/{id}", {"id": "2"}),
        ("PUT", "/pets/dog/2", "ANY /pets/dog/{id}", {"id": "2"}),
        ("GET", "/pets/cat/1", "GET /pets/{proxy+}", {"proxy": "cat/1"}),
        ("GET", "/pets/cat", "GET /pets/{proxy+}", {"proxy": "cat"}),
        ("POST", "/pets/cat/1", "ANY /{proxy+}", {"proxy": "pets/cat/1"}),
        ("GET", "/", "ANY /{proxy+}", {"proxy": ""}),
    ],
)
def test_the_most_specific_route_is_taken_as_api_gateway_does(
    ranked, method, path, key, parameters
):
    route, found = ranked.find(method, path)

    assert (route.key, found) == (key, parameters)


def test_the_default_route_takes_what_no_other_does(ranked):
    only = replace(ranked, routes=tuple(each for each in ranked.routes if "ANY" not in each.key))

    found = [only.find("DELETE", path) for path in ("/", "/pets/dog/1", "/a/b/c")]

    assert [(route.key, parameters) for route, parameters in found] == [("$default", {})] * 3


def test_every_route_of_the_project_leads_to_a_handler_file_that_exists():
    template = read(ROOT / "template.yaml")

    assert template.routes
    for route in template.routes:
        assert template.functions[route.function].file.is_file()


@pytest.mark.parametrize("text", ["", "7", "Resources: 7", "Resources: {A: {}}", "a: [", "\t"])
def test_template_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "template.yaml").write_text(text)

    with pytest.raises(InvalidValue, match="SAM template"):
        read(tmp_path / "template.yaml")


def test_template_that_is_missing_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match="SAM template"):
        read(tmp_path / "template.yaml")
