"""What of a template the emulator runs, what has no meaning here, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure_emulator.cloudformation import Document, Unresolved, part
from perdure_emulator.template_variables import variables_left_out

NO_MEANING: Final[Mapping[str, str]] = {
    "AWS::IAM::ManagedPolicy": "nothing here asks for permission",
    "AWS::IAM::Policy": "nothing here asks for permission",
    "AWS::IAM::Role": "nothing here asks for permission",
    "AWS::Lambda::Permission": "the gateway calls every function",
    "AWS::S3::BucketPolicy": "objects are files of the one who runs this",
    "AWS::SQS::QueuePolicy": "queues listen on loopback only",
    "AWS::KMS::Key": "nothing here is encrypted at rest",
    "AWS::KMS::Alias": "nothing here is encrypted at rest",
    "AWS::Logs::LogGroup": "logs go to standard error",
    "AWS::Logs::MetricFilter": "metrics go to standard error",
    "AWS::Logs::QueryDefinition": "logs go to standard error",
    "AWS::CloudWatch::Alarm": "whoever runs this watches it",
    "AWS::CloudWatch::CompositeAlarm": "whoever runs this watches it",
    "AWS::CloudWatch::Dashboard": "whoever runs this watches it",
    "AWS::XRay::Group": "nothing here is traced",
    "AWS::ApplicationInsights::Application": "whoever runs this watches it",
    "AWS::ResourceGroups::Group": "there is one deployment",
    "AWS::Serverless::LayerVersion": "this interpreter has the libraries",
    "AWS::Lambda::LayerVersion": "this interpreter has the libraries",
    "AWS::SSM::Parameter": "nothing here reads it",
}
"""Kinds of resources that have nothing to do where no cloud is, and why."""

RUN: Final[Mapping[str, frozenset[str]]] = {
    "AWS::Serverless::Function": frozenset(
        {
            "CodeUri",
            "Handler",
            "Timeout",
            "MemorySize",
            "EphemeralStorage",  # a disk of this machine
            "Environment",
            "Events",
            "ReservedConcurrentExecutions",  # where functions are apart; elsewhere one at a time
        }
    ),
    "AWS::ApiGatewayV2::Api": frozenset({"ProtocolType", "CorsConfiguration"}),
    "AWS::ApiGatewayV2::Stage": frozenset({"ApiId", "StageName", "DefaultRouteSettings"}),
    "AWS::ApiGatewayV2::Integration": frozenset({"ApiId", "IntegrationType", "IntegrationUri"}),
    "AWS::ApiGatewayV2::Route": frozenset(
        {
            "ApiId",
            "RouteKey",
            "Target",
            "AuthorizationType",
            "AuthorizerId",
            "AuthorizationScopes",
        }
    ),
    "AWS::ApiGatewayV2::Authorizer": frozenset({"ApiId", "AuthorizerType", "IdentitySource"}),
    "AWS::SQS::Queue": frozenset(
        {
            "QueueName",
            "FifoQueue",
            "VisibilityTimeout",
            "DelaySeconds",
            "MessageRetentionPeriod",
            "ReceiveMessageWaitTimeSeconds",
            "ContentBasedDeduplication",
            "DeduplicationScope",
            "RedrivePolicy",
        }
    ),
    # The storage is a directory, or with --aws what is made of these there.
    "AWS::DynamoDB::Table": frozenset({"TableName", "AttributeDefinitions", "KeySchema"}),
    "AWS::S3::Bucket": frozenset({"BucketName"}),
    "AWS::Glue::Database": frozenset({"CatalogId", "DatabaseInput"}),
}
"""Kinds that are run, and which of their properties are."""

QUIET: Final[Mapping[str, frozenset[str]]] = {
    "AWS::Serverless::Function": frozenset(
        {
            "Architectures",
            "AssumeRolePolicyDocument",
            "Description",
            "EventInvokeConfig",  # the next schedule tries again
            "FunctionName",
            "KmsKeyArn",
            "Layers",
            "LoggingConfig",
            "PackageType",
            "PermissionsBoundary",
            "Policies",
            "RecursiveLoop",
            "Role",
            "Runtime",
            "RuntimeManagementConfig",
            "Tags",
            "Tracing",
        }
    ),
    "AWS::ApiGatewayV2::Api": frozenset(
        {"Name", "Description", "Tags", "DisableExecuteApiEndpoint"}
    ),
    "AWS::ApiGatewayV2::Stage": frozenset(
        {"AutoDeploy", "AccessLogSettings", "Description", "Tags"}
    ),
    "AWS::ApiGatewayV2::Integration": frozenset(
        {"Description", "IntegrationMethod", "PayloadFormatVersion"}
    ),
    "AWS::ApiGatewayV2::Route": frozenset({"OperationName"}),
    # Whose tokens are good the emulator knows: its own.
    "AWS::ApiGatewayV2::Authorizer": frozenset({"Name", "JwtConfiguration"}),
    "AWS::SQS::Queue": frozenset(
        {
            "FifoThroughputLimit",
            "KmsDataKeyReusePeriodSeconds",
            "KmsMasterKeyId",
            "RedriveAllowPolicy",
            "SqsManagedSseEnabled",
            "Tags",
        }
    ),
    "AWS::DynamoDB::Table": frozenset(
        {
            "BillingMode",
            "ContributorInsightsSpecification",
            "DeletionProtectionEnabled",
            "OnDemandThroughput",
            "PointInTimeRecoverySpecification",
            "ResourcePolicy",
            "SSESpecification",
            "TableClass",
            "Tags",
            "TimeToLiveSpecification",
        }
    ),
    "AWS::S3::Bucket": frozenset(
        {
            "BucketEncryption",
            "LifecycleConfiguration",
            "LoggingConfiguration",
            "MetricsConfigurations",
            "OwnershipControls",
            "PublicAccessBlockConfiguration",
            "Tags",
            "VersioningConfiguration",
        }
    ),
    "AWS::Glue::Database": frozenset(),
}
"""Properties that say who may, what it costs, what it is called or how long it is kept in a cloud."""

EVENTS: Final[Mapping[str, frozenset[str]]] = {
    "Schedule": frozenset(
        {"Schedule", "Enabled", "State", "Input", "Name", "Description", "RetryPolicy"}
    ),
    "ScheduleV2": frozenset(
        {
            "ScheduleExpression",
            "ScheduleExpressionTimezone",
            "State",
            "Input",
            "Name",
            "Description",
            "RetryPolicy",  # the next schedule tries again
            "PermissionsBoundary",
            "RoleArn",
            "KmsKeyArn",
        }
    ),
    "SQS": frozenset(
        {
            "Queue",
            "BatchSize",
            "FunctionResponseTypes",
            "Enabled",
            "ScalingConfig",  # one batch at a time
            "MetricsConfig",
        }
    ),
}
"""Events of functions that are run, and their properties."""

IDENTITY: Final = ["$request.header.authorization"]
"""Where the emulator reads tokens."""

ROUTE_SETTINGS: Final = frozenset(
    {"ThrottlingBurstLimit", "ThrottlingRateLimit", "DetailedMetricsEnabled"}
)


def left_out(document: Document) -> Iterator[str]:
    """Say what is declared and neither run here nor known to have no meaning, a line each."""
    for logical, resource in document.resources.items():
        with part(logical):
            yield from _resource_left_out(document, logical, resource)
    yield from variables_left_out(document)
    shared = document.globals.get("Function", {})
    kind = "AWS::Serverless::Function"
    for name in sorted(shared.keys() - RUN[kind] - QUIET[kind]):
        yield f"Globals: {name} of functions is not run here"
    for name in sorted(document.globals.keys() - {"Function"}):
        yield f"Globals: {name} is not run here"


def _resource_left_out(
    document: Document, logical: str, resource: Mapping[str, Any]
) -> Iterator[str]:
    kind = resource["Type"]
    if kind in NO_MEANING:
        return
    if kind not in RUN:
        yield f"{logical}: {kind} is not run here"
        return
    properties = _said(document, resource.get("Properties", {}))
    for name in sorted(properties.keys() - RUN[kind] - QUIET[kind]):
        yield f"{logical}: {name} of {kind} is not run here"
    if kind == "AWS::Serverless::Function":
        yield from _events_left_out(logical, properties.get("Events", {}))
    settings = properties.get("DefaultRouteSettings", {})  # of a stage
    for name in sorted(settings.keys() - ROUTE_SETTINGS):
        yield f"{logical}: {name} of its routes is not run here"
    if [each.lower() for each in properties.get("IdentitySource", IDENTITY)] != IDENTITY:
        yield f"{logical}: tokens are read from the header Authorization only"


def _said(document: Document, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties without those that a condition takes away."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        try:
            if name in document.resolve({name: value}):
                found[name] = value
        except Unresolved:
            found[name] = value
    return found


def _events_left_out(logical: str, events: Mapping[str, Any]) -> Iterator[str]:
    for name, event in events.items():
        kind = event["Type"]
        if kind not in EVENTS:
            yield f"{logical}: its event {name} of type {kind} is not run here"
            continue
        for each in sorted(event["Properties"].keys() - EVENTS[kind]):
            yield f"{logical}: {each} of its event {name} is not run here"
