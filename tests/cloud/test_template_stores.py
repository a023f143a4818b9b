"""Document stores in the template: who writes them."""

from __future__ import annotations

import pytest
from tests.cloud.policies import Role
from tests.cloud.test_template_permissions import NOTES, ROLES, put

pytestmark = [pytest.mark.cloud, pytest.mark.stores]

WRITERS = {"api", "jobs", "dispatch"}
"""Who commits what is asked for, goes on with jobs, and lays hints to rest."""


@pytest.mark.parametrize("function", sorted(ROLES))
def test_document_stores_are_written_by_those_who_have_something_to_do_there(function):
    role = Role(ROLES[function])

    assert put(role, NOTES.partition, enclosed=True) == (function in WRITERS)
