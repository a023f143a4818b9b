"""The project deployed: its template built and deployed by sam to a stand-in that checks permissions."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import httpx
import yaml
from botocore.config import Config
from tests.support.ministack import HOME, ROOT, ministack

ACCOUNT = "123456789012"
REGION = "us-east-1"
SAM = ROOT / ".venv-sam" / "bin" / "sam"
PASSWORD = "Up-in-the-air-1"
STEP_SECONDS_MAX = 600
CODE = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
}
FOR_TLS_ONLY = {"AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy"}
DATABASE_AS_TABLE = "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:table/${Tables}"
IN_BATCHES = {"sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
FIRST_REQUEST_SECONDS_MAX = 120


@dataclass
class Cloud:
    """A stand-in for AWS in which a role that lacks a permission is refused what it asks for."""

    address: str
    log: Path
    open: contextlib.ExitStack
    """Closes every client."""

    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Return a client of the account's root user."""
        if service not in self.clients:
            made = boto3.client(
                service,
                REGION,
                endpoint_url=self.address,
                aws_access_key_id=ACCOUNT,
                aws_secret_access_key="secret",
                config=Config(read_timeout=900, retries={"total_max_attempts": 1}),
            )
            self.open.callback(made.close)
            self.clients[service] = made
        return self.clients[service]

    def sam(self, *arguments: str | Path, cwd: Path) -> str:
        """Run sam against the stand-in and return what it prints."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.log.parent),
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": REGION,
        }
        return run_sam(*arguments, cwd=cwd, environment=environment)


@contextlib.contextmanager
def cloud(directory: Path) -> Iterator[Cloud]:
    """Run a server of its own: whether permissions are checked is a matter of a whole server."""
    log = directory / "log"
    # Requests without a signature are those of its default account: the HTTP API is asked so.
    server = ministack(log, AUTH="true", MINISTACK_ACCOUNT_ID=ACCOUNT)
    with server as address, contextlib.ExitStack() as clients:
        yield Cloud(address, log, clients)


def run_sam(*arguments: str | Path, cwd: Path, environment: Mapping[str, str]) -> str:
    """Run sam and return what it prints; make it ready if it is not."""
    subprocess.run([ROOT / "scripts" / "setup", "sam"], check=True, capture_output=True)
    run = subprocess.run(
        [SAM, *arguments],
        cwd=cwd,
        env={**environment, "SAM_CLI_TELEMETRY": "0", "AWS_EC2_METADATA_DISABLED": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=STEP_SECONDS_MAX,
    )
    assert run.returncode == 0, f"sam {arguments[0]}: {run.stdout[-4_000:]}"
    return run.stdout


def until(found: Callable[[], Any], seconds: float) -> Any:
    """Ask again and again, and return the first answer that is something."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        answer = found()
        if answer:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds} s")


def architecture() -> str:
    """Return the parameter of this machine, on which the stand-in runs functions."""
    return "arm64" if os.uname().machine in {"arm64", "aarch64"} else "x86_64"


def built(directory: Path) -> Path:
    """Build every function with `sam build` into a directory and return the built template.

    The stand-in runs functions by the Python that it runs on, so they are built for that one.
    """
    environment = {
        **os.environ,
        "PYTHON_VERSION": _version(HOME / "bin" / "python"),
    }
    options = ("--config-file", ROOT / "infra" / "samconfig.toml", "--build-dir", directory)
    chosen = ("--parameter-overrides", f"Architecture={architecture()}")
    run_sam("build", *options, *chosen, cwd=ROOT, environment=environment)
    return directory / "template.yaml"


def with_module(template: Path, module: Path) -> None:
    """Put a module beside the code of every function that was built."""
    text = yaml.safe_load(template.read_text(encoding="utf-8"))
    for each in text["Resources"].values():
        if each["Type"] == "AWS::Serverless::Function":
            shutil.copy(module, template.parent / each["Properties"]["CodeUri"])


def packaged(place: Cloud, template: Path) -> Path:
    """Upload what was built, once for every deployment of it, and return the template that names it."""
    _zip_code(template)
    target = template.with_name("packaged.yaml")
    options = ("--template-file", template, "--output-template-file", target, "--resolve-s3")
    place.sam("package", *options, cwd=template.parent)
    _for_the_stand_in(target)
    return target


def deployed(
    place: Cloud, template: Path, parameters: Mapping[str, str], *, name: str = "perdure"
) -> Stack:
    """Deploy a packaged template, or deploy it anew, with `sam deploy`."""
    place.sam(
        "deploy",
        *("--template-file", template, "--stack-name", name, "--region", REGION),
        *("--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--resolve-s3"),
        *("--parameter-overrides", *(f"{key}={value}" for key, value in parameters.items())),
        cwd=template.parent,
    )
    formation = place.client("cloudformation")
    (stack,) = formation.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}, stack["StackStatus"]
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
    resources = {
        each["LogicalResourceId"]: each["PhysicalResourceId"]
        for page in pages
        for each in page["StackResourceSummaries"]
    }
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
    return Stack(place, name, outputs, resources)


@dataclass
class Stack:
    """What was deployed, as one sees it from outside."""

    place: Cloud
    name: str
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    """Physical ids by logical ids."""

    @property
    def url(self) -> str:
        """The base address of the HTTP routes: the stand-in has no host names of its own."""
        return f"{self.place.address}/_aws/execute-api/{self.resources['HttpApi']}"

    def http(self, token: str | None = None) -> httpx.Client:
        """Return a client of the HTTP API, with a token or without."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        client = httpx.Client(
            base_url=self.url, headers=headers, timeout=FIRST_REQUEST_SECONDS_MAX, trust_env=False
        )
        return self.place.open.enter_context(client)

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke a function by its logical id and return its answer. Raises FunctionFailed."""
        reply = self.place.client("lambda").invoke(
            FunctionName=self.resources[function], Payload=json.dumps(event).encode()
        )
        answer = json.loads(reply["Payload"].read() or b"null")
        if "FunctionError" in reply:
            raise FunctionFailed(answer)
        return answer

    def logs(self, function: str) -> str:
        """Return what a function has written to its log group."""
        described = self.place.client("lambda").get_function_configuration(
            FunctionName=self.resources[function]
        )
        pages = self.place.client("logs").get_paginator("filter_log_events")
        group = described["LoggingConfig"]["LogGroup"]
        found = pages.paginate(logGroupName=group)
        return "\n".join(event["message"] for page in found for event in page["events"])


class FunctionFailed(Exception):
    """A function raised: what Lambda answers then."""


@dataclass
class Pool:
    """A user pool of Cognito, whose tokens carry the role as a group."""

    cognito: Any
    id: str
    clients: dict[str, str] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        """The claim `iss` of every token."""
        return f"https://cognito-idp.{REGION}.amazonaws.com/{self.id}"

    @classmethod
    def made(cls, place: Cloud) -> Pool:
        """Make an empty pool."""
        cognito = place.client("cognito-idp")
        return cls(cognito, cognito.create_user_pool(PoolName="perdure")["UserPool"]["Id"])

    def client(self, name: str, *, seconds: int = 3_600) -> str:
        """Return the id of an app client, whose tokens are good for so long; make it if need be."""
        if name not in self.clients:
            made = self.cognito.create_user_pool_client(
                UserPoolId=self.id,
                ClientName=name,
                IdTokenValidity=seconds,
                AccessTokenValidity=seconds,
                TokenValidityUnits={"IdToken": "seconds", "AccessToken": "seconds"},
                ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"],
            )
            self.clients[name] = made["UserPoolClient"]["ClientId"]
        return self.clients[name]

    def user(self, name: str, *groups: str) -> None:
        """Make a user who is in some groups."""
        self.cognito.admin_create_user(UserPoolId=self.id, Username=name, MessageAction="SUPPRESS")
        self.cognito.admin_set_user_password(
            UserPoolId=self.id, Username=name, Password=PASSWORD, Permanent=True
        )
        for group in groups:
            with contextlib.suppress(self.cognito.exceptions.GroupExistsException):
                self.cognito.create_group(UserPoolId=self.id, GroupName=group)
            self.cognito.admin_add_user_to_group(UserPoolId=self.id, Username=name, GroupName=group)

    def token(self, user: str, client: str, *, kind: str = "AccessToken") -> str:
        """Sign a user in at an app client and return the token that Cognito gives."""
        signed_in = self.cognito.admin_initiate_auth(
            UserPoolId=self.id,
            ClientId=self.client(client),
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": user, "PASSWORD": PASSWORD},
        )
        token: str = signed_in["AuthenticationResult"][kind]
        return token


def without_policy(template: Path, policy: str, role: str) -> Path:
    """Return a copy of a packaged template in which a role lacks one of its managed policies."""
    text = yaml.safe_load(template.read_text(encoding="utf-8"))
    properties = text["Resources"][role]["Properties"]
    kept = [each for each in properties["ManagedPolicyArns"] if each != {"Ref": policy}]
    assert len(kept) == len(properties["ManagedPolicyArns"]) - 1, f"{role} has no {policy}"
    properties["ManagedPolicyArns"] = kept
    target = template.with_name(f"without-{policy}-{role}.yaml")
    target.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    return target


def kept_part(template: Path, *, fails: bool = False) -> str:
    """Return of a packaged template what is kept of a stack, with something that cannot be made."""
    text = yaml.safe_load(template.read_text(encoding="utf-8"))
    kept = ("Key", "KeyName", "Authority", "Lake", "Tables")
    resources = {name: text["Resources"][name] for name in kept}
    if fails:  # a name that is taken
        resources["Mistake"] = {**resources["Tables"], "DependsOn": list(kept)}
    sections = {name: text[name] for name in ("Parameters", "Conditions")}
    return json.dumps({**sections, "Resources": resources})


def _for_the_stand_in(template: Path) -> None:
    """Change what is right on AWS and cannot be on the stand-in, and nothing else.

    It heeds that bucket and queues are for TLS only, and speaks no TLS. It asks for
    permissions of batches by names that AWS does not know: there, `sqs:SendMessage` is for both.
    It takes the database that `glue:GetDatabase` names for a table.
    """
    text = yaml.safe_load(template.read_text(encoding="utf-8"))
    resources = text["Resources"]
    for name in [name for name, each in resources.items() if each["Type"] in FOR_TLS_ONLY]:
        (statement,) = resources.pop(name)["Properties"]["PolicyDocument"]["Statement"]
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}, name
    for each in resources.values():
        for statement in _statements(each):
            given = statement["Action"]
            listed = [given] if isinstance(given, str) else given
            batches = [f"{action}Batch" for action in listed if action in IN_BATCHES]
            statement["Action"] = [*listed, *batches]
            if "glue:GetDatabase" in listed:
                statement["Resource"].append({"Fn::Sub": DATABASE_AS_TABLE})
    template.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")


def _statements(resource: Any) -> Iterator[Any]:
    """Yield what a managed policy says, or the policies that a role has of its own."""
    properties = resource.get("Properties", {})
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", ())]
    if resource["Type"] == "AWS::IAM::ManagedPolicy":
        documents = [properties["PolicyDocument"]]
    elif resource["Type"] != "AWS::IAM::Role":
        return
    for document in documents:
        yield from document["Statement"]


def _zip_code(template: Path) -> None:
    """Zip what sam built as sam does, but all at once and with less effort: it is a test."""
    text = yaml.safe_load(template.read_text(encoding="utf-8"))
    found = [
        (each["Properties"], CODE[each["Type"]])
        for each in text["Resources"].values()
        if each["Type"] in CODE
    ]
    with ThreadPoolExecutor(2) as pool:
        folders = [template.parent / properties[code] for properties, code in found]
        for (properties, code), archive in zip(found, pool.map(_zipped, folders), strict=True):
            properties[code] = archive.name
    template.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")


def _zipped(folder: Path) -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    shutil.rmtree(folder)
    return target


def _version(python: Path) -> str:
    """Return the minor version of an interpreter."""
    spelled = "import sys; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([python, "-c", spelled], check=True, capture_output=True, text=True)
    return ran.stdout.strip()
