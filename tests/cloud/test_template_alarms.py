"""What a deployment tells of itself: an alarm for each thing that goes wrong, and a dashboard."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.cloud.rendered import functions, of_type, resources, template
from tests.house.sources import ROOT

from perdure.api.measures import METRICS

pytestmark = pytest.mark.cloud

OPERATIONS = ROOT / "docs" / "operations" / "README.md"
DASHBOARD = ROOT / "infra" / "dashboard.json"
OURS = {"Sub": "perdure/${AWS::StackName}"}
TOLD = {
    "commands_admitted",
    "commands_applied",
    "commands_rejected",
    "commands_dead",
    "refused",
    "ticks",
    "ticks_missed",
    "tick_ms",
    "rows_landed",
    "events_landed",
    "consumer_lag",
    "commit_conflicts",
    "write_units",
    "worlds_due",
    "worlds_stalled",
    "worlds_failed",
    "oldest_due_ms",
    "runs_ended",
    "sessions_due",
    "sessions_failed",
    "jobs_ended",
    "jobs_due",
    "jobs_failed",
}
"""The metrics of the functions that are looked at."""

ALARMED = [
    ("worlds_stalled", [("service", "dispatch")]),
    ("worlds_failed", [("service", "dispatch")]),
    ("worlds_failed", [("service", "land")]),
    ("sessions_failed", [("service", "dispatch")]),
    ("jobs_failed", [("service", "dispatch")]),
    ("oldest_due_ms", [("service", "dispatch")]),
    ("commands_dead", [("service", "tick")]),
    ("consumer_lag", [("consumer", "landing")]),
    ("consumer_lag", [("consumer", "audit")]),
]
"""The series of our own that an alarm looks at."""

OF_A_LANDING = ["LandErrors", "LandNearTimeout", "WorldsNotLanded", "LandingLag", "AuditLag"]
"""One number a landing, when it ends."""


def alarms():
    return {name: each["Properties"] for name, each in of_type("AWS::CloudWatch::Alarm").items()}


def watched(metric: str) -> set[str]:
    """Return the functions that have an alarm on a metric of Lambda."""
    return {
        each["Dimensions"][0]["Value"]["Ref"].removesuffix("Function").lower()
        for each in alarms().values()
        if (each["Namespace"], each["MetricName"]) == ("AWS/Lambda", metric)
    }


@pytest.mark.parametrize("metric", ["Errors", "Throttles", "Duration"])
def test_every_function_is_watched(metric):
    assert watched(metric) == functions().keys()


def test_functions_that_a_schedule_calls_are_missed_when_they_are_not_called():
    assert watched("Invocations") == {"dispatch", "land"}
    silent = [each for each in alarms().values() if each["MetricName"] == "Invocations"]
    assert {each["TreatMissingData"] for each in silent} == {"breaching"}


def test_a_function_that_comes_near_its_time_is_told_of_before_it_is_cut_off():
    for each in alarms().values():
        if each["MetricName"] == "Duration":
            name = each["Dimensions"][0]["Value"]["Ref"].removesuffix("Function").lower()
            limit_ms = functions()[name]["Timeout"] * 1_000

            assert 0.9 * limit_ms <= each["Threshold"] < limit_ms


@pytest.mark.parametrize(
    ("namespace", "metric"),
    [
        ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
        ("AWS/ApiGateway", "5xx"),
        ("AWS/DynamoDB", "ReadThrottleEvents"),
        ("AWS/DynamoDB", "WriteThrottleEvents"),
        ("AWS/DynamoDB", "SystemErrors"),
        ("perdure", "consumer_lag"),
        ("perdure", "worlds_stalled"),
        ("perdure", "worlds_failed"),
        ("perdure", "sessions_failed"),
        ("perdure", "jobs_failed"),
        ("perdure", "oldest_due_ms"),
        ("perdure", "commands_dead"),
    ],
)
def test_what_goes_wrong_raises_an_alarm(namespace, metric):
    place = OURS if namespace == "perdure" else namespace

    found = [each for each in alarms().values() if each["MetricName"] == metric]

    assert found
    assert all(each["Namespace"] == place and each["Dimensions"] for each in found)


def test_an_alarm_on_our_own_metric_names_a_series_that_is_told():
    ours = [each for each in alarms().values() if each["Namespace"] == OURS]

    series = [
        (each["MetricName"], [tuple(pair.values()) for pair in each["Dimensions"]]) for each in ours
    ]

    assert sorted(series) == sorted(ALARMED)
    for metric, dimensions in series:
        assert tuple(name for name, _ in dimensions) == METRICS[metric].dimensions


def test_a_graph_of_our_own_metric_names_a_series_that_is_told():
    graphs = DASHBOARD.read_text(encoding="utf-8")
    line = re.compile(r'"perdure/\$\{AWS::StackName\}", "(\w+)", "(\w+)", "(\w+)"')
    searched = re.compile(r'StackName\}\\",([\w,]+)\} MetricName=\\"(\w+)\\"')

    for metric, dimension, value in line.findall(graphs):
        assert METRICS[metric].dimensions == (dimension,) == ("service",), metric
        assert value in functions()
    for dimensions, metric in searched.findall(graphs):
        assert METRICS[metric].dimensions == tuple(dimensions.split(",")), metric


@pytest.mark.parametrize("name", OF_A_LANDING)
def test_an_alarm_on_what_a_landing_tells_at_its_end_is_raised_by_the_longest_ones_too(name):
    alarm = alarms()[name]
    longest_seconds = functions()["land"]["Timeout"]

    looked_at_seconds = alarm["EvaluationPeriods"] * alarm["Period"]

    assert alarm["DatapointsToAlarm"] * longest_seconds <= looked_at_seconds


@pytest.mark.parametrize(
    ("metric", "queues"),
    [
        ("ApproximateNumberOfMessagesVisible", {"TicksDead", "SessionsDead", "JobsDead"}),
        ("ApproximateAgeOfOldestMessage", {"Ticks", "Sessions", "Jobs"}),
    ],
)
def test_messages_that_wait_and_dead_letters_are_watched_where_they_lie(metric, queues):
    found = [each for each in alarms().values() if each["MetricName"] == metric]

    watched = {each["Dimensions"][0]["Value"]["GetAtt"] for each in found}

    assert watched == {f"{each}.QueueName" for each in queues}


def test_one_dead_letter_is_told_at_once():
    for each in alarms().values():
        if each["MetricName"] == "ApproximateNumberOfMessagesVisible":
            assert (each["Threshold"], each["DatapointsToAlarm"]) == (1, 1)


def test_every_alarm_is_told_to_the_topic_and_says_what_missing_data_mean():
    told = {"If": ["TellsAlarms", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]}

    for name, alarm in alarms().items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == told, name
        assert alarm["TreatMissingData"] in {"breaching", "notBreaching", "ignore"}, name
        assert alarm["AlarmDescription"], name


def test_every_alarm_has_its_section_on_the_operations_page():
    page = OPERATIONS.read_text(encoding="utf-8")

    sections = re.findall(r"^### (.+)$", page, re.MULTILINE)

    described = [name for title in sections for name in re.findall(r"`(\w+)`", title)]
    assert sorted(described) == sorted(alarms())


def test_our_own_metrics_are_ones_that_functions_tell():
    graphs = DASHBOARD.read_text(encoding="utf-8")
    searched = set(re.findall(r'MetricName=\\"(\w+)\\"', graphs))
    shown = set(re.findall(r'"perdure/\$\{AWS::StackName\}", "(\w+)"', graphs)) | searched
    alarmed = {each["MetricName"] for each in alarms().values() if each["Namespace"] == OURS}

    assert shown == TOLD
    assert alarmed <= TOLD


def test_dashboard_of_the_template_is_the_one_in_infra():
    check = subprocess.run(
        [sys.executable, ROOT / "scripts" / "dashboard", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert check.returncode == 0, check.stderr


def test_dashboard_names_only_what_the_template_has():
    body = of_type("AWS::CloudWatch::Dashboard")["Dashboard"]["Properties"]["DashboardBody"]["Sub"]
    known = resources().keys() | template()["Parameters"].keys()

    named = set(re.findall(r"\$\{(\w+)", body)) - {"AWS"}

    assert named <= known
    assert {f"{each}.Arn" for each in alarms()} <= set(re.findall(r"\$\{([\w.]+)\}", body))
    for widget in json.loads(body)["widgets"]:
        assert widget["x"] + widget["width"] <= 24
