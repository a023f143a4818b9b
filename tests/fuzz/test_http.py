"""Every route is asked for what its document allows, and for what it does not.

The requests are schemathesis's, from the document that the deployment serves; the answers come
from the deployed handlers, behind the gateway, over a storage with worlds in it.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from tests.fuzz.asking import NAMES, case_of, check, operation, prepared, spelled
from tests.fuzz.hull import Hull, Traced
from tests.fuzz.prepared import GOOD, POOLS

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("fuzz")]

EXAMPLES = {GenerationMode.POSITIVE: 2, GenerationMode.NEGATIVE: 4}
EXAMPLES_SLOW = 250
COSTLY = {"land": 3}
COSTLY_SLOW = {"land": 40}
"""Examples of operations that take long whatever is asked."""


def cases(name: str, mode: GenerationMode) -> st.SearchStrategy:
    """Cases of an operation, most of them upon something that is there."""
    told = operation(name)
    names = sorted(each.name for each in told.path_parameters)
    pinned = st.fixed_dictionaries({each: st.sampled_from(POOLS[each]) for each in names})

    def upon(case, found):
        if case.path_parameters:
            case.path_parameters.update(found)
        return case

    found = st.one_of(pinned, pinned, pinned, st.just({}))
    return st.builds(upon, told.as_strategy(generation_mode=mode), found)


def fuzz(hull: Hull, name: str, mode: GenerationMode, examples: int) -> None:
    most = COSTLY_SLOW if examples == EXAMPLES_SLOW else COSTLY
    traced = Traced(hull)

    @settings(
        max_examples=min(examples, most.get(name, examples)),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=cases(name, mode))
    def every(case):
        sent = prepared(case)
        check(case, sent, traced.ask(*spelled(hull, sent)))

    every()


def test_each_operation_of_the_document_has_a_good_request():
    assert sorted(GOOD) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_route_does_what_it_is_there_for_and_a_refusal_leaves_no_trace(hull, name):
    case = case_of(name, GOOD[name])
    sent = prepared(case)

    answered = hull.ask(*spelled(hull, sent))

    assert 200 <= answered.status < 300, answered
    check(case, sent, answered)
    for mode, examples in EXAMPLES.items():
        fuzz(hull, name, mode, examples)


@pytest.mark.slow
@pytest.mark.parametrize("mode", EXAMPLES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", NAMES)
def test_route_answers_so_to_many_requests(hull, name, mode):
    fuzz(hull, name, mode, EXAMPLES_SLOW)
