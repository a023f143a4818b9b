"""What must not be lost, read or tampered with: table, bucket, queues, key and logs."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from tests.cloud.rendered import functions, listed, of_type, resources

pytestmark = pytest.mark.cloud

KEY = {"If": ["MakesKey", {"GetAtt": "Key.Arn"}, {"Ref": "KmsKey"}]}
ONLY_COPY = {"segment", "checkpoint", "archive", "sessions", "warehouse"}


def test_records_survive_mistakes():
    for table in of_type("AWS::DynamoDB::Table").values():
        properties = table["Properties"]

        assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"
        assert properties["DeletionProtectionEnabled"] is True
        assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
        assert properties["BillingMode"] == "PAY_PER_REQUEST"
        sse = properties["SSESpecification"]
        assert sse == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}


def test_objects_are_private_encrypted_and_survive_mistakes():
    for bucket in of_type("AWS::S3::Bucket").values():
        properties = bucket["Properties"]

        assert bucket["DeletionPolicy"] == "RetainExceptOnCreate"
        assert bucket["UpdateReplacePolicy"] == "Retain"
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["BucketKeyEnabled"] is True
        assert rule["ServerSideEncryptionByDefault"] == {
            "SSEAlgorithm": "aws:kms",
            "KMSMasterKeyID": KEY,
        }
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        (owner,) = properties["OwnershipControls"]["Rules"]
        assert owner == {"ObjectOwnership": "BucketOwnerEnforced"}


def test_no_rule_of_the_bucket_deletes_what_is_current():
    (bucket,) = of_type("AWS::S3::Bucket").values()
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]

    expiring = {name for rule in rules for name in rule if "Expiration" in name}
    moved = {
        rule["Prefix"]["Sub"].removeprefix("${Namespace}/").rstrip("/"): rule["Transitions"]
        for rule in rules
        if "Transitions" in rule
    }

    assert expiring == {"NoncurrentVersionExpiration"}
    assert moved.keys() == ONLY_COPY
    # What has to be restored before it can be read would be gone for whoever asks.
    classes = {each["StorageClass"] for transitions in moved.values() for each in transitions}
    assert classes == {"INTELLIGENT_TIERING"}
    assert any("AbortIncompleteMultipartUpload" in rule for rule in rules)


def test_bucket_and_queues_are_reached_over_tls_only():
    policies = {
        **of_type("AWS::S3::BucketPolicy"),
        **of_type("AWS::SQS::QueuePolicy"),
    }
    guarded = []

    for policy in policies.values():
        (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
        assert statement["Effect"] == "Deny"
        assert statement["Principal"] == "*"
        assert statement["Action"] in {"s3:*", "sqs:*"}
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        ((name,),) = [
            each.values()
            for each in policy["Properties"].get("Queues", [policy["Properties"].get("Bucket")])
        ]
        whole = {"GetAtt": f"{name}.Arn"}
        inside = [{"Sub": f"${{{name}.Arn}}/*"}] if statement["Action"] == "s3:*" else []
        assert listed(statement["Resource"]) == [whole, *inside]
        guarded.append(name)

    kept = {**of_type("AWS::S3::Bucket"), **of_type("AWS::SQS::Queue")}
    assert sorted(guarded) == sorted(kept)


def test_logs_end_and_are_encrypted():
    groups = of_type("AWS::Logs::LogGroup")

    for group in groups.values():
        assert group["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}
        assert group["Properties"]["KmsKeyId"] == KEY
    written = {each["LoggingConfig"]["LogGroup"]["Ref"] for each in functions().values()}
    assert written == groups.keys() - {"HttpLogs"}


def test_the_key_is_rotated_outlives_the_stack_and_is_for_this_account_and_its_logs():
    (key,) = of_type("AWS::KMS::Key").values()

    assert key["DeletionPolicy"] == "RetainExceptOnCreate"
    assert key["UpdateReplacePolicy"] == "Retain"
    assert key["Properties"]["EnableKeyRotation"] is True
    account, logs = key["Properties"]["KeyPolicy"]["Statement"]
    # Less than all, and nobody could ever mend the policy.
    assert account == {
        "Sid": "Account",
        "Effect": "Allow",
        "Principal": {"AWS": {"Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}},
        "Action": "kms:*",
        "Resource": "*",
    }
    assert logs["Principal"] == {"Service": {"Sub": "logs.${AWS::Region}.${AWS::URLSuffix}"}}


def test_the_key_encrypts_the_logs_of_this_stack_and_of_no_other():
    (key,) = of_type("AWS::KMS::Key").values()
    logs = key["Properties"]["KeyPolicy"]["Statement"][1]
    ((context, places),) = logs["Condition"]["ArnLike"].items()
    patterns = [each["Sub"].replace("${AWS::StackName}", "ours") for each in places]
    groups = of_type("AWS::Logs::LogGroup").values()

    def covered(stack: str) -> set[bool]:
        names = [each["Properties"]["LogGroupName"]["Sub"] for each in groups]
        arns = [
            "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:"
            + name.replace("${AWS::StackName}", stack)
            for name in names
        ]
        return {any(fnmatchcase(arn, pattern) for pattern in patterns) for arn in arns}

    assert context == "kms:EncryptionContext:aws:logs:arn"
    assert covered("ours") == {True}
    assert covered("theirs") == {False}


def test_what_blocks_a_second_attempt_goes_with_a_first_that_failed():
    named = {
        name: each["DeletionPolicy"]
        for name, each in resources().items()
        if each.get("DeletionPolicy", "Delete") != "Delete"
    }

    # A protected table could not be deleted: the rollback would fail at it, and leave all the rest.
    assert named == {
        "Authority": "Retain",
        "Key": "RetainExceptOnCreate",
        "Lake": "RetainExceptOnCreate",
        "Tables": "RetainExceptOnCreate",
    }


def test_queues_are_encrypted_and_what_is_given_up_is_kept_for_two_weeks():
    ticks, dead = (resources()[name]["Properties"] for name in ("Ticks", "TicksDead"))

    assert ticks["KmsMasterKeyId"] == dead["KmsMasterKeyId"] == KEY
    assert ticks["RedrivePolicy"]["deadLetterTargetArn"] == {"GetAtt": "TicksDead.Arn"}
    assert dead["MessageRetentionPeriod"] == 14 * 24 * 60 * 60
    (source,) = dead["RedriveAllowPolicy"]["sourceQueueArns"]
    assert dead["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    assert source["Sub"].endswith(f":{ticks['QueueName']['Sub']}")
