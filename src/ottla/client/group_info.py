"""What is known of a group and of its members, whatever its protocol."""

from typing import NamedTuple

from ottla.client.cluster import TopicPartition


class MemberInfo(NamedTuple):
    """A member and what it has to read.

    Only members of groups with the consumer protocol, and of share groups, have an epoch; the
    `target` of the former is what they are to have when the group has settled.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assignment: list[TopicPartition]
    target: list[TopicPartition]


class GroupInfo(NamedTuple):
    """A group, its members, and the broker that coordinates it."""

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    epoch: int | None
    coordinator: int
    members: list[MemberInfo]
