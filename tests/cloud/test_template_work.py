"""What makes the functions run: builds, schedules, the queue of due worlds, and time for it all."""

from __future__ import annotations

import re

import pytest
from tests.cloud.rendered import functions, of_type, resources, template
from tests.house.sources import ROOT

pytestmark = pytest.mark.cloud

VISIBILITY_FACTOR = 6
"""Times a function's time-out that a message stays hidden. Source: Lambda, using SQS as a source."""

HTTP_SECONDS_MAX = 30
"""Source: API Gateway, quotas of HTTP APIs."""

THIN = {"api", "dispatch"}


def test_every_function_has_its_handler_file_role_and_build_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"build-(?:thin|with-arrow),(\w+Function),", makefile))

    found = of_type("AWS::Serverless::Function")

    assert found.keys() == targets
    for name, function in found.items():
        properties = function["Properties"]
        assert function["Metadata"]["BuildMethod"] == "makefile"
        assert (ROOT / properties["CodeUri"] / "app.py").is_file(), properties["CodeUri"]
        assert properties["Role"] == {"GetAtt": name.replace("Function", "Role.Arn")}


def test_packages_of_functions_without_arrow_lie_in_a_layer():
    (layer,) = of_type("AWS::Serverless::LayerVersion")

    with_layer = {name for name, each in functions().items() if each.get("Layers")}

    assert with_layer == THIN
    assert all(functions()[name]["Layers"] == [{"Ref": layer}] for name in THIN)
    assert f"build-{layer}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_due_worlds_are_looked_for_every_minute_and_landed_every_five():
    schedules = {
        name: [
            event["Properties"]["ScheduleExpression"]
            for event in each.get("Events", {}).values()
            if event["Type"] == "ScheduleV2"
        ]
        for name, each in functions().items()
    }

    assert {name: found for name, found in schedules.items() if found} == {
        "dispatch": ["rate(1 minute)"],
        "land": ["rate(5 minutes)"],
    }


def test_both_layers_of_retries_are_set_where_an_event_comes_by_schedule():
    for name in ("dispatch", "land"):
        function = functions()[name]
        (event,) = function["Events"].values()

        delivery, execution = event["Properties"]["RetryPolicy"], function["EventInvokeConfig"]

        assert delivery["MaximumRetryAttempts"] == execution["MaximumRetryAttempts"] == 0
        seconds = {"dispatch": 60, "land": 300}[name]
        assert delivery["MaximumEventAgeInSeconds"] == seconds
        assert execution["MaximumEventAgeInSeconds"] == seconds


def test_a_due_world_comes_to_tick_in_its_order_and_alone():
    ticks = resources()["Ticks"]["Properties"]
    ((kind, event),) = [
        (each["Type"], each["Properties"]) for each in functions()["tick"]["Events"].values()
    ]

    assert ticks["FifoQueue"] is True
    assert ticks["ContentBasedDeduplication"] is False
    assert ticks["DeduplicationScope"] == "messageGroup"
    assert kind == "SQS"
    assert event["Queue"] == {"GetAtt": "Ticks.Arn"}
    assert event["BatchSize"] == 10
    assert event["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_a_message_stays_hidden_for_as_long_as_lambda_asks_for():
    ticks = resources()["Ticks"]["Properties"]
    seconds = template()["Parameters"]["TickVisibilitySeconds"]["Default"]

    assert ticks["VisibilityTimeout"] == {"Ref": "TickVisibilitySeconds"}
    assert seconds == VISIBILITY_FACTOR * functions()["tick"]["Timeout"]


def test_a_poison_message_reaches_the_dead_letters_before_it_is_forgotten():
    ticks = resources()["Ticks"]["Properties"]
    hidden = template()["Parameters"]["TickVisibilitySeconds"]["Default"]
    tries = ticks["RedrivePolicy"]["maxReceiveCount"]

    # An early message is put back and counts as a try: some are left for real failures.
    assert tries == 6
    assert ticks["MessageRetentionPeriod"] > tries * hidden


def test_functions_behind_http_alone_answer_before_the_gateway_gives_up():
    seconds = {name: each["Timeout"] for name, each in functions().items()}

    assert seconds["api"] < HTTP_SECONDS_MAX
    assert seconds["query"] < HTTP_SECONDS_MAX
    assert seconds["dispatch"] < 60, "two of them never look at once"


def test_only_who_sends_or_receives_due_worlds_knows_their_queue():
    told = {
        name
        for name, each in functions().items()
        if "PERDURE_TICKS" in each["Environment"]["Variables"]
    }

    assert told == {"dispatch", "tick"}


def test_functions_say_what_they_do_in_metrics_traces_and_structured_logs():
    every = template()["Globals"]["Function"]
    variables = every["Environment"]["Variables"]

    assert every["Tracing"] == "Active"
    assert variables["POWERTOOLS_METRICS_NAMESPACE"] == {"Sub": "perdure/${AWS::StackName}"}
    for name, function in functions().items():
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        assert function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == name


def test_executions_are_reserved_only_if_a_deployment_says_so():
    for name, function in functions().items():
        logical = name.title()
        chosen = function["ReservedConcurrentExecutions"]["If"]

        # A new account has ten executions in all, and none of those can be reserved.
        assert chosen == [
            f"Reserves{logical}",
            {"Ref": f"{logical}Concurrency"},
            {"Ref": "AWS::NoValue"},
        ]
        assert template()["Parameters"][f"{logical}Concurrency"]["Default"] == 0
