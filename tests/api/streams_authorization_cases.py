"""The same for streams groups."""

from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)

from .authorization_cases import GROUP_FAILED, NAME, ON_GROUP, ON_TOPIC, TOPIC_FAILED, Case

STREAMS_GROUP = "counters"
JOINED_EPOCH = 2
JOIN = StreamsGroupHeartbeatRequest(
    group_id=STREAMS_GROUP,
    member_id="s",
    process_id="p",
    rebalance_timeout_ms=60_000,
    active_tasks=[],
    standby_tasks=[],
    warmup_tasks=[],
    topology=Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=[NAME],
                state_changelog_topics=[TopicInfo(name="counts-changelog")],
            )
        ]
    ),
)
"""Of a member whose internal topic is not there; what it says later makes no record."""
MAY_JOIN = ((Operation.READ, ON_GROUP), (Operation.DESCRIBE, ON_TOPIC))
"""What its client may do: not create topics."""


def streams_cases() -> list[Case]:
    """All of them; the group has the member, in its epoch after it joined."""
    read, describe = (Operation.READ, ON_GROUP), (Operation.DESCRIBE, ON_GROUP)
    beating = StreamsGroupHeartbeatRequest(
        group_id=STREAMS_GROUP, member_id="s", member_epoch=JOINED_EPOCH
    )
    described = StreamsGroupDescribeRequest(group_ids=[STREAMS_GROUP])
    return [
        Case(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, JOIN, GROUP_FAILED),
        Case(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, JOIN, TOPIC_FAILED, [read]),
        # It may not create what is missing, which its reply says by a status.
        Case(
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            0,
            beating,
            None,
            MAY_JOIN,
        ),
        Case(ApiKey.STREAMS_GROUP_DESCRIBE, 0, described, GROUP_FAILED),
        Case(ApiKey.STREAMS_GROUP_DESCRIBE, 0, described, TOPIC_FAILED, [describe]),
    ]
