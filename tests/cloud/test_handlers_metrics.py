"""Metrics: every number has its name, unit and dimensions from one table, and is told once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.api.rig import SCHEDULED, spawn
from tests.api.test_functions import Functions

from perdure.api.measures import METRICS, Measures, tell
from perdure.api.watch import InvocationFailed
from perdure.authority.dynamodb import Counters
from perdure.authority.memory import MemoryStore
from perdure.authority.store import RevisionConflict
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.cloud

ROOT = Path(__file__).parents[2]
HARBOUR = {"name": "harbour", "world_id": "harbour"}
COMMANDS = "/v1/worlds/harbour/commands"


def read(lines):
    """Return {(name, dimension values): values} of EMF lines, each checked against the table."""
    found = {}
    for line in lines:
        (told,) = line["_aws"]["CloudWatchMetrics"]
        (dimensions,) = told["Dimensions"]
        assert told["Namespace"] == "perdure/stack"
        assert line["_aws"]["Timestamp"] > 1_600_000_000_000
        for metric in told["Metrics"]:
            declared = METRICS[metric["Name"]]
            assert metric["Unit"] == declared.unit.value, metric
            assert sorted(dimensions) == sorted(declared.dimensions), metric
            key = (metric["Name"], *(line[each] for each in sorted(dimensions)))
            found.setdefault(key, []).extend(line[metric["Name"]])
    return found


def test_commands_are_counted_when_they_are_admitted_and_not_when_they_come_again(api):
    api.asks("POST", "/v1/worlds", HARBOUR)
    batch = {"commands": [spawn(), spawn()], "batch_id": "b"}
    api.told()

    api.asks("POST", COMMANDS, batch)
    first = read(api.told()[1])
    api.asks("POST", COMMANDS, batch)
    again = read(api.told()[1])

    assert first["commands_admitted", "api"] == [2.0]
    assert ("commands_admitted", "api") not in again


def test_refusals_are_counted_by_code(api):
    api.asks("GET", "/v1/worlds/nowhere")

    assert read(api.told()[1]) == {("refused", "not_found", "api"): [1.0]}


def test_failure_of_what_nobody_waits_for_is_counted_by_code(looked_on):
    async def work(ports, remaining_ms):
        raise StoreUnavailable(expected="an answer", found="none")

    looked = looked_on(scheduled=work)

    with pytest.raises(InvocationFailed):
        looked.gets(SCHEDULED)

    assert read(looked.told()[1]) == {("refused", "store_unavailable", "api"): [1.0]}


class Costly(MemoryStore):
    """Counts as the store in DynamoDB does, and loses the first race of each process."""

    def __init__(self):
        super().__init__()
        self.counters = Counters()
        self.lost = 0

    async def load(self, reads):
        self.counters.requests += 1
        self.counters.read_units += 1.5
        return await super().load(reads)

    async def commit(self, commit):
        self.counters.requests += 1
        self.counters.write_units += 4
        if not self.lost:
            self.lost += 1
            raise RevisionConflict(*(action.key for action in commit.actions))
        await super().commit(commit)


def test_what_the_store_is_asked_for_is_told_by_each_invocation_for_itself(looked_on):
    looked = looked_on(store=Costly())

    looked.asks("POST", "/v1/worlds", HARBOUR)
    first = read(looked.told()[1])
    looked.asks("GET", "/v1/worlds/harbour")
    second = read(looked.told()[1])

    assert first["commit_conflicts", "api"] == [1.0]
    assert first["write_units", "api"] == [8.0]
    assert second == {("store_requests", "api"): [1.0], ("read_units", "api"): [1.5]}


def test_outside_lambda_no_metric_is_printed(api, in_lambda):
    in_lambda.delenv("AWS_LAMBDA_FUNCTION_NAME")

    api.asks("GET", "/v1/worlds/nowhere")

    assert api.told()[1] == []


def test_two_sandboxes_of_one_process_count_for_themselves(looked_on):
    async def work(ports, remaining_ms):
        tell("ticks", 1)
        return {}

    one, other = looked_on(scheduled=work), looked_on(scheduled=work)

    one.gets(SCHEDULED)
    other.gets(SCHEDULED)

    lines = one.told()[1]
    assert [read([line]) for line in lines] == [{("ticks", "api"): [1.0]}] * 2


def test_ticks_and_what_they_did_are_told(in_lambda, tmp_path, capsys):
    in_lambda.setenv("PERDURE_APP", "tests.emulator.harbour:app")
    in_lambda.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    in_lambda.setenv("POWERTOOLS_SERVICE_NAME", "tick")
    (tmp_path / "default").mkdir()
    functions = Functions()
    functions.http("api", "POST", "/v1/worlds", HARBOUR)
    gone = {"operation": "despawn", "entity_id": 77}
    body = {"commands": [spawn(), gone, spawn(tick=9)]}
    functions.http("api", "POST", COMMANDS, body)
    capsys.readouterr()

    functions.http("tick", "POST", "/v1/worlds/harbour/tick", {"ticks": 3})
    ticked = read(json.loads(line) for line in capsys.readouterr().out.splitlines())
    functions.http("land", "POST", "/v1/land")
    landed = read(json.loads(line) for line in capsys.readouterr().out.splitlines())

    functions.close()
    assert ticked["ticks", "tick"] == [3.0]
    assert ticked["tick_rows", "tick"] == [3.0]
    assert ticked["commands_applied", "tick"] == [1.0]
    assert ticked["commands_rejected", "tick"] == [1.0]
    assert ticked["commands_dead", "tick"] == [0.0]
    assert ticked["open_commands", "tick"] == [1.0]
    assert len(ticked["tick_ms", "tick"]) == 3
    assert min(ticked["tick_ms", "tick"]) > 0
    assert landed["rows_landed", "tick"] == [3.0]
    assert landed["events_landed", "tick"] == [6.0]


def test_more_values_than_a_line_can_hold_are_told_in_several(in_lambda, capsys):
    measures = Measures()
    for ms in range(250):
        measures.add("tick_ms", ms)

    measures.print("tick", "perdure/stack")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line["tick_ms"]) for line in lines] == [100, 100, 50]
    assert read(lines)["tick_ms", "tick"] == [float(ms) for ms in range(250)]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_can_be_told_as_the_table_has_it(in_lambda, capsys, name):
    measures = Measures()
    more = {each: "x" for each in METRICS[name].dimensions if each != "service"}

    measures.add(name, 0, **more)
    measures.print("land", "perdure/stack")

    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each[0] for each in read([line])] == [name]


def test_metric_of_no_known_name_or_dimension_is_an_error_at_once():
    with pytest.raises(KeyError):
        Measures().add("tikcs")
    with pytest.raises(AssertionError):
        Measures().add("refused")
    with pytest.raises(AssertionError):
        Measures().add("ticks", world="w")


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as their argument."""


def _argument(loader, _, node):
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


Loader.add_multi_constructor("!", _argument)


def own_metrics(node):
    """Yield (name, dimensions) of the metrics under ``node`` that are in the stack's namespace."""
    if isinstance(node, dict):
        if "MetricName" in node and "perdure/" in json.dumps(node.get("Namespace")):
            yield node["MetricName"], {each["Name"] for each in node.get("Dimensions", ())}
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from own_metrics(each)


def widget_metrics(text):
    """Yield the names of a dashboard's metrics that are in the stack's namespace."""
    yield from re.findall(r'\[\s*"perdure/[^"]*"\s*,\s*"(\w+)"', text)
    yield from re.findall(r"perdure/[^\n]*?MetricName=\W*(\w+)", text)


def test_every_metric_of_an_alarm_or_dashboard_is_one_that_a_function_tells():
    template = yaml.load((ROOT / "template.yaml").read_text(), Loader=Loader)  # our own
    texts = [json.dumps(template).replace('\\"', '"').replace("\\n", "\n")]
    texts += [file.read_text() for file in (ROOT / "infra").rglob("*.json")]

    alarms = dict(own_metrics(template))
    shown = {name for text in texts for name in widget_metrics(text)}

    assert (alarms.keys() | shown) - METRICS.keys() == set()
    for name, dimensions in alarms.items():
        assert dimensions == {*METRICS[name].dimensions}, name


def test_page_of_metrics_has_every_metric_with_its_unit_and_meaning():
    page = (ROOT / "docs" / "operations" / "logs-and-metrics.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", page, re.MULTILINE))

    for name, metric in METRICS.items():
        unit, dimensions, meaning = rows[name].split(" | ")
        assert unit == metric.unit.value, name
        assert tuple(dimensions.strip("`").split("`, `")) == metric.dimensions, name
        assert meaning.startswith(metric.meaning), name
