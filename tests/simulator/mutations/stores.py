"""Mutations of the stores on disk and in the cloud: what an answer means, and what a condition says."""

from __future__ import annotations

from tests.simulator.mutations.mutation import Edit, Mutation
from tests.simulator.mutations.proofs import Simulated, Suite

CONTRACT = "tests/contract/test_contract.py"
DYNAMODB = "authority/dynamodb.py"
ERRORS = "authority/dynamodb_errors.py"

MUTATIONS = (
    Mutation(
        "sqlite_forgets_tokens",
        "a token comparison forgotten",
        "SQLite replaces a record by its revision alone.",
        (
            Edit(
                "authority/sqlite.py",
                ' WHERE partition = ? AND sort = ? AND revision = ? AND token = ?"\n)\n_REMOVE',
                " WHERE partition = ? AND sort = ? AND revision = ? AND ? <> ''\"\n)\n_REMOVE",
            ),
        ),
        Suite(f"{CONTRACT}::test_sqlite_keeps_the_promise"),
    ),
    Mutation(
        "dynamodb_trusts_a_failed_condition",
        "a conflict trusted",
        "DynamoDB's failed condition is read as a lost race, whatever token the item carries.",
        (
            Edit(
                ERRORS,
                'mine = old is not None and token is not None and old.get("tok") == {"S": token}',
                "mine = False",
            ),
        ),
        Suite("tests/authority/test_dynamodb_errors.py"),
    ),
    Mutation(
        "dynamodb_takes_any_token_for_its_own",
        "a token comparison forgotten",
        "DynamoDB's failed condition is read as success, whatever token the item carries.",
        (
            Edit(
                ERRORS,
                'mine = old is not None and token is not None and old.get("tok") == {"S": token}',
                "mine = old is not None",
            ),
        ),
        Simulated("everyday"),
    ),
    Mutation(
        "dynamodb_timeout_is_failure",
        "a lost reply taken for failure",
        "A transaction of DynamoDB without an answer is told as one that did not happen.",
        (
            Edit(
                DYNAMODB,
                "            case Verdict.UNKNOWN:\n                raise _unknown(ruled.error)\n",
                "            case Verdict.UNKNOWN:\n                raise ruled.error\n",
            ),
        ),
        Simulated("storms"),
    ),
)
