"""The HTTP API of the template: the published routes, none of them open, and limits on all."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest
from tests.cloud.rendered import of_type, resources, template

import perdure.api
from perdure.api import faces
from perdure.api.invocation import CORRELATION
from perdure.api.operations import LEAST_ROLE
from perdure.api.routes_events import LAST_EVENT_ID

pytestmark = pytest.mark.cloud

FACES = {
    "Api": faces.API,
    "Query": faces.QUERY,
    "Tick": faces.TICK,
    "Land": faces.LAND,
    "Sessions": faces.SESSIONS,
    "Jobs": faces.JOBS,
}
ROUTES = {
    f"{route.method} {route.path.replace('<', '{').replace('>', '}')}": function
    for function, routes in FACES.items()
    for route in routes
}


def test_routes_are_the_published_ones_and_none_is_open():
    routes = [each["Properties"] for each in of_type("AWS::ApiGatewayV2::Route").values()]

    targets = {
        route["RouteKey"]: re.search(r"\{(\w+)Integration\}", route["Target"]["Sub"])[1]
        for route in routes
    }

    assert targets == ROUTES
    (authorizer,) = of_type("AWS::ApiGatewayV2::Authorizer")
    assert {route["AuthorizationType"] for route in routes} == {"JWT"}
    assert [route["AuthorizerId"] for route in routes] == [{"Ref": authorizer}] * len(routes)


def test_tokens_are_those_of_the_issuer_for_the_audience_that_a_deployment_names():
    (authorizer,) = of_type("AWS::ApiGatewayV2::Authorizer").values()

    assert authorizer["Properties"]["AuthorizerType"] == "JWT"
    assert authorizer["Properties"]["IdentitySource"] == ["$request.header.Authorization"]
    trusted = authorizer["Properties"]["JwtConfiguration"]
    assert trusted == {"Issuer": {"Ref": "Issuer"}, "Audience": {"Ref": "Audience"}}


def test_each_route_is_answered_by_one_function():
    declared = [
        route
        for module in pkgutil.iter_modules(perdure.api.__path__, "perdure.api.")
        if module.name.startswith("perdure.api.routes_")
        for route in getattr(importlib.import_module(module.name), "ROUTES", ())
    ]

    answered = [route for routes in FACES.values() for route in routes]

    assert len(answered) == len(ROUTES) == len(declared)
    assert {id(route) for route in answered} == {id(route) for route in declared}


def test_each_route_asks_for_an_operation_of_the_table():
    asked = {route.operation for routes in FACES.values() for route in routes}

    assert asked <= set(LEAST_ROLE)


def test_requests_beyond_what_a_deployment_allows_are_refused_before_they_cost_anything():
    (stage,) = of_type("AWS::ApiGatewayV2::Stage").values()

    assert stage["Properties"]["DefaultRouteSettings"] == {
        "ThrottlingRateLimit": {"If": ["IsPaused", 0, {"Ref": "RequestsPerSecond"}]},
        "ThrottlingBurstLimit": {"If": ["IsPaused", 0, {"Ref": "RequestsBurst"}]},
    }
    assert template()["Parameters"]["RequestsPerSecond"]["Default"] > 0


def test_no_page_of_a_browser_may_call_unless_its_origin_is_named():
    (api,) = of_type("AWS::ApiGatewayV2::Api").values()

    condition, allowed, otherwise = api["Properties"]["CorsConfiguration"]["If"]

    assert condition == "HasOrigins"
    assert allowed["AllowOrigins"] == {"Ref": "AllowedOrigins"}
    assert "AllowCredentials" not in allowed
    assert set(allowed["AllowHeaders"]) == {
        *("authorization", "content-type", "accept", "idempotency-key", LAST_EVENT_ID, CORRELATION)
    }
    # Without it a page could not see for how long to wait, nor by which name to ask us about it.
    assert set(allowed["ExposeHeaders"]) == {"retry-after", CORRELATION}
    assert otherwise == {"Ref": "AWS::NoValue"}
    assert template()["Parameters"]["AllowedOrigins"]["Default"] == ""


def test_every_request_is_written_down_without_its_token_and_body():
    (stage,) = of_type("AWS::ApiGatewayV2::Stage").values()

    settings = stage["Properties"]["AccessLogSettings"]

    assert settings["DestinationArn"] == {"GetAtt": "HttpLogs.Arn"}
    told = set(re.findall(r"\$context\.(\w+(?:\.\w+)*)", settings["Format"]))
    assert {"requestId", "routeKey", "status", "identity.sourceIp"} <= told
    assert not {each for each in told if each.startswith("authorizer")}


def test_each_integration_may_be_called_by_this_api_alone():
    behind = {
        each["Properties"]["IntegrationUri"]["GetAtt"].partition(".")[0]
        for each in of_type("AWS::ApiGatewayV2::Integration").values()
    }
    permissions = [each["Properties"] for each in of_type("AWS::Lambda::Permission").values()]

    assert {each["FunctionName"]["Ref"] for each in permissions} == behind
    assert all("${HttpApi}/*" in each["SourceArn"]["Sub"] for each in permissions)
    assert set(resources()) >= behind
