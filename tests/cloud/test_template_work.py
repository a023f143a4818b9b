"""What makes the functions run: builds, schedules, the queue of due worlds, and time for it all."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from tests.cloud.rendered import TEMPLATE, functions, of_type, resources, template
from tests.house.sources import ROOT

from perdure_emulator.declared import Throttle
from perdure_emulator.template import read

pytestmark = pytest.mark.cloud

VISIBILITY_FACTOR = 6
"""Times a function's time-out that a message stays hidden. Source: Lambda, using SQS as a source."""

COPIED_BYTES_MAX = 2**20

HTTP_SECONDS_MAX = 30
"""Source: API Gateway, quotas of HTTP APIs."""

THIN = {"api", "dispatch"}

TOLD = {
    "PERDURE_STORAGE": {"Sub": "s3://${Lake}"},
    "PERDURE_NAMESPACE": {"Ref": "Namespace"},
    "PERDURE_TABLE": {"Ref": "Authority"},
    "PERDURE_TABLES": {"Ref": "TableBucket"},
    "PERDURE_APP": {"Ref": "App"},
    "PERDURE_TENANT": {"Ref": "Tenant"},
    "PERDURE_ROLE_CLAIM": {"Ref": "RoleClaim"},
    "PERDURE_QUOTA_PLAYER": {"Ref": "PlayerQuota"},
    "POWERTOOLS_LOG_LEVEL": "INFO",
    "POWERTOOLS_METRICS_NAMESPACE": {"Sub": "perdure/${AWS::StackName}"},
}
"""The variables of every function."""

TOLD_BESIDES = {
    "api": {},
    "query": {},
    "dispatch": {
        "PERDURE_TICKS": {"Ref": "Ticks"},
        "PERDURE_SESSIONS": {"Ref": "Sessions"},
        "PERDURE_JOBS": {"Ref": "Jobs"},
    },
    "tick": {"PERDURE_TICKS": {"Ref": "Ticks"}},
    "land": {"PERDURE_TRIM": {"Ref": "TrimAfter"}},
    "sessions": {
        "PERDURE_SESSIONS": {"Ref": "Sessions"},
        "PERDURE_OPENAI_URL": {"Ref": "ModelUrl"},
        "PERDURE_OPENAI_KEY": {"Ref": "ModelKeyArn"},
    },
    "jobs": {"PERDURE_JOBS": {"Ref": "Jobs"}},
}
"""What one of them is told besides."""


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


def test_sam_builds_in_this_folder_and_copies_no_more_than_a_function_needs():
    everything = {
        **of_type("AWS::Serverless::Function"),
        **of_type("AWS::Serverless::LayerVersion"),
    }

    for each in everything.values():
        copied = ROOT / each["Properties"].get("CodeUri", each["Properties"].get("ContentUri"))
        assert each["Metadata"]["WorkingDirectory"] == "."
        assert "ProjectRootDirectory" not in each["Metadata"]
        assert sum(file.stat().st_size for file in copied.rglob("*")) < COPIED_BYTES_MAX


@pytest.mark.parametrize("architecture", template()["Parameters"]["Architecture"]["AllowedValues"])
def test_the_parameter_alone_decides_for_which_machine_is_built(architecture):
    everything = {
        **of_type("AWS::Serverless::Function"),
        **of_type("AWS::Serverless::LayerVersion"),
    }
    contexts = {each["Metadata"]["ContextPath"]["Sub"] for each in everything.values()}

    (context,) = contexts
    makefile = ROOT / context.replace("${Architecture}", architecture) / "Makefile"
    asked = [f"--makefile={makefile}", "ARCHITECTURE=another", "--dry-run", "build-Packages"]
    environment = {**os.environ, "ARCHITECTURE": "another", "ARTIFACTS_DIR": "."}
    ran = subprocess.run(
        ["make", *asked], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )

    machine = {"arm64": "aarch64", "x86_64": "x86_64"}[architecture]
    assert set(re.findall(r"aarch64|x86_64", ran.stdout)) == {machine}
    (layer,) = of_type("AWS::Serverless::LayerVersion").values()
    assert layer["Metadata"]["BuildArchitecture"] == {"Ref": "Architecture"}
    every = template()["Globals"]["Function"]
    assert every["Architectures"] == [{"Ref": "Architecture"}]


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


def test_functions_are_told_what_the_parameters_of_a_deployment_say():
    every = template()["Globals"]["Function"]["Environment"]["Variables"]

    of_their_own = {
        name: {
            variable: value
            for variable, value in each["Environment"]["Variables"].items()
            if variable.startswith("PERDURE_")
        }
        for name, each in functions().items()
    }

    assert every == TOLD
    assert of_their_own == TOLD_BESIDES


def test_every_parameter_changes_something():
    content = template()
    referred = set(_references(content["Resources"])) | set(_references(content["Globals"]))
    for condition in referred & content["Conditions"].keys():
        referred |= set(_references(content["Conditions"][condition]))

    assert content["Parameters"].keys() <= referred
    assert content["Conditions"].keys() <= referred


def _references(value):
    """Yield every name that something refers to: parameters, resources and conditions."""
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        for name, argument in value.items():
            if name == "Sub":
                yield from re.findall(r"\$\{(\w+)", argument)
            elif name in {"Ref", "Condition"} and isinstance(argument, str):
                yield argument
            elif name == "If":
                yield argument[0]
                yield from _references(argument[1:])
            else:
                yield from _references(argument)


def test_a_paused_deployment_does_nothing_by_itself_and_lets_nobody_in():
    running, paused = (read(TEMPLATE, parameters={"Paused": each}) for each in ("false", "true"))

    def at_work(deployment):
        every = deployment.functions.values()
        by_themselves = [each for one in every for each in (*one.schedules, *one.sources)]
        return len(by_themselves), deployment.throttle

    assert at_work(running) == (5, Throttle(burst=200, rate=100))
    assert at_work(paused) == (0, Throttle(burst=0, rate=0))
    assert template()["Parameters"]["Paused"]["Default"] == "false"


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
