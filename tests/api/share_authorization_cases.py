"""The same for share groups and for the state of share partitions."""

from typing import Any
from uuid import UUID

from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    find_coordinator,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)

from .authorization_cases import (
    CLUSTER_FAILED,
    GROUP_FAILED,
    NAME,
    ON_GROUP,
    TOPIC_FAILED,
    Case,
)

SHARE_GROUP = "workers"


def share_cases(topic_id: UUID) -> list[Case]:
    """All of them; the topic exists and has this id, the group has a member that reads it."""
    return [*_share_groups(), *_share_state(topic_id)]


def _share_groups() -> list[Case]:
    read, describe = (Operation.READ, ON_GROUP), (Operation.DESCRIBE, ON_GROUP)
    beating = share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=SHARE_GROUP, member_id="m", subscribed_topic_names=[NAME]
    )
    described = share_group_describe.ShareGroupDescribeRequest(group_ids=[SHARE_GROUP])
    asking = describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
        groups=[
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id=SHARE_GROUP,
                topics=[
                    describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
                        topic_name=NAME, partitions=[0]
                    )
                ],
            )
        ]
    )
    altering = alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        group_id=SHARE_GROUP,
        topics=[
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name=NAME,
                partitions=[alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition()],
            )
        ],
    )
    deleting = delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id=SHARE_GROUP,
        topics=[delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=NAME)],
    )
    delete = (Operation.DELETE, ON_GROUP)
    return [
        Case(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beating, GROUP_FAILED),
        Case(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beating, TOPIC_FAILED, [read]),
        Case(ApiKey.SHARE_GROUP_DESCRIBE, 1, described, GROUP_FAILED),
        Case(ApiKey.SHARE_GROUP_DESCRIBE, 1, described, TOPIC_FAILED, [describe]),
        Case(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, asking, GROUP_FAILED),
        Case(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, asking, TOPIC_FAILED, [describe]),
        Case(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, altering, GROUP_FAILED),
        # The group has members, so that a client without the right to a topic sees that first.
        Case(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, altering, None, [read]),
        Case(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, deleting, GROUP_FAILED),
        Case(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, deleting, None, [delete]),
    ]


def _share_state(topic_id: UUID) -> list[Case]:
    """What brokers ask each other about share partitions."""
    kinds: list[tuple[ApiKey, Any, Any, Any]] = [
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            initialize_share_group_state.InitializeShareGroupStateRequest,
            initialize_share_group_state.InitializeStateData,
            initialize_share_group_state.PartitionData,
        ),
        (
            ApiKey.READ_SHARE_GROUP_STATE,
            read_share_group_state.ReadShareGroupStateRequest,
            read_share_group_state.ReadStateData,
            read_share_group_state.PartitionData,
        ),
        (
            ApiKey.WRITE_SHARE_GROUP_STATE,
            write_share_group_state.WriteShareGroupStateRequest,
            write_share_group_state.WriteStateData,
            write_share_group_state.PartitionData,
        ),
        (
            ApiKey.DELETE_SHARE_GROUP_STATE,
            delete_share_group_state.DeleteShareGroupStateRequest,
            delete_share_group_state.DeleteStateData,
            delete_share_group_state.PartitionData,
        ),
        (
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
            read_share_group_state_summary.ReadStateSummaryData,
            read_share_group_state_summary.PartitionData,
        ),
    ]
    found = [
        Case(
            key,
            0,
            request(
                group_id=SHARE_GROUP, topics=[topic(topic_id=topic_id, partitions=[partition()])]
            ),
            CLUSTER_FAILED,
        )
        for key, request, topic, partition in kinds
    ]
    finding = find_coordinator.FindCoordinatorRequest(
        key_type=2, coordinator_keys=[f"{SHARE_GROUP}:AAAAAAAAAAAAAAAAAAAAAA:0"]
    )
    return [*found, Case(ApiKey.FIND_COORDINATOR, 6, finding, CLUSTER_FAILED)]
