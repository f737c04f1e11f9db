"""The kinds of groups that this coordinator serves: one row each.

A new kind is a folder with its group (`Group`), what it does (`GroupKind`), its records, and a row
here and in `record_kinds.py`.
"""

from typing import Any

from ottla.coordinator.classic.kind import ClassicKind
from ottla.coordinator.consumer.kind import ConsumerKind
from ottla.coordinator.group import Group, GroupType
from ottla.coordinator.group_kind import GroupKind
from ottla.coordinator.share.kind import ShareKind
from ottla.coordinator.streams.kind import StreamsKind

GROUP_KINDS: dict[GroupType, GroupKind[Any]] = {
    GroupType.CLASSIC: ClassicKind(),
    GroupType.CONSUMER: ConsumerKind(),
    GroupType.SHARE: ShareKind(),
    GroupType.STREAMS: StreamsKind(),
}


def kind_of(group: Group) -> GroupKind[Any]:
    """What to do with a group. One whose kind has no row raises KeyError: a defect."""
    return GROUP_KINDS[group.TYPE]
