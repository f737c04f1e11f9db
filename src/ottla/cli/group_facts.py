"""What `ottla group describe` tells of any group: its state and its members."""

from typing import TYPE_CHECKING

from ottla.cli.output import Json

if TYPE_CHECKING:
    from ottla.client.cluster import TopicPartition
    from ottla.client.group_info import GroupInfo, MemberInfo


def facts_of(info: "GroupInfo") -> dict[str, Json]:
    """Everything but its partitions."""
    return {
        "group": info.group_id,
        "state": info.state,
        "type": info.type,
        "protocol": info.protocol_type,
        "assignor": info.assignor,
        "epoch": info.epoch,
        "coordinator": info.coordinator,
        "members": [_member(member) for member in info.members],
    }


def _member(member: "MemberInfo") -> dict[str, Json]:
    def listed(partitions: "list[TopicPartition]") -> list[Json]:
        return [{"topic": topic, "partition": partition} for topic, partition in partitions]

    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "assignment": listed(member.assignment),
        "target": listed(member.target),
    }
