"""The template as the emulator reads it."""

from __future__ import annotations

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
