"""The template as tests look at it: parsed, with CloudFormation's functions as ``{name: arguments}``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml
from tests.house.sources import ROOT

TEMPLATE = ROOT / "template.yaml"


class Loader(yaml.SafeLoader):
    """Reads the short forms of CloudFormation's functions as ``{name: arguments}``."""


def _short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.SequenceNode):
        return {suffix: loader.construct_sequence(node, deep=True)}
    return {suffix: loader.construct_scalar(node)}


Loader.add_multi_constructor("!", _short_form)


@cache
def template() -> dict[str, Any]:
    """Return the whole template; whoever asks must not change it."""
    return yaml.load(TEMPLATE.read_text(encoding="utf-8"), Loader=Loader)


def resources() -> dict[str, Any]:
    return template()["Resources"]


def of_type(kind: str) -> dict[str, Any]:
    """Return the resources of one type, by logical id; there is at least one."""
    found = {name: each for name, each in resources().items() if each["Type"] == kind}
    assert found, kind
    return found


def functions() -> dict[str, dict[str, Any]]:
    """Return the properties of every function, by the name of its folder."""
    found = of_type("AWS::Serverless::Function").values()
    return {each["Properties"]["CodeUri"].rpartition("/")[2]: each["Properties"] for each in found}


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every statement of what a role may do, with the resource it stands in."""
    for name, each in resources().items():
        properties = each.get("Properties", {})
        documents = [properties.get("PolicyDocument"), properties.get("AssumeRolePolicyDocument")]
        documents += [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        for document in filter(None, documents):
            for statement in document["Statement"]:
                yield name, statement


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
