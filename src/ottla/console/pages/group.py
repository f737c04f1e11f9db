"""One group: its members, and its lag in each partition."""

import time
from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Client, ConnectionFailed, KafkaError, TopicPartition
from ottla.client.group_admin import CommittedOffset, GroupAdmin, UnknownGroup
from ottla.client.group_info import GroupInfo
from ottla.client.share_groups import ShareGroupAdmin
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.lag import Lag, lag_seconds, lags, total
from ottla.console.paging import page_of

MEMBERS_SHOWN = 200
RESETTABLE = ("Empty", "Dead")
"""The states of a group without members."""


class GroupPartitionRow(NamedTuple):
    """A partition that the group reads."""

    where: TopicPartition
    lag: Lag
    seconds: float | None
    client_id: str


def group_id(call: ConsoleCall) -> str:
    """The group that is meant."""
    name = call.text("id") or call.form.get("id", "")
    if not name:
        raise BadRequest("name a group")
    return name


def show(call: ConsoleCall) -> Response:
    """The page."""
    name = group_id(call)
    with call.cluster.client() as client:
        admin = GroupAdmin(client)
        note = ""
        try:
            info = admin.describe_group(name)
        except ConnectionFailed:
            raise
        except KafkaError as problem:
            listed = [each for each in admin.list_groups() if each.group_id == name]
            if not listed:
                raise UnknownGroup(name) from None
            # A kind of group that this client cannot describe; its list entry is known.
            note = f"Its members cannot be shown: {problem}"
            kind, protocol = listed[0].type, listed[0].protocol_type
            info = GroupInfo(name, kind, protocol, listed[0].state, "", None, -1, [])
        shares = info.type == "share"
        committed = _starts(client, name) if shares else admin.committed_offsets(name)
        readers = {where: each for each in info.members for where in each.assignment}
        found = lags(client, committed)
        everything = sorted({*found, *readers})
        page = page_of(everything, call.number("page", 1))
        shown = {where: found[where] for where in page.items if where in found}
        ages = lag_seconds(client, shown, time.time_ns() // 1_000_000)
    rows = [
        GroupPartitionRow(
            where,
            found.get(where, Lag(None, None, None)),
            ages.get(where),
            readers[where].client_id if where in readers else "",
        )
        for where in page.items
    ]
    return call.render(
        "group.html",
        group=info,
        members=info.members[:MEMBERS_SHOWN],
        page=page,
        rows=rows,
        total=total(found),
        oldest=max(ages.values(), default=None),
        resettable=info.state in RESETTABLE and not shares,
        note=note,
    )


def _starts(client: Client, name: str) -> dict[TopicPartition, CommittedOffset]:
    """Where a share group is: everything before is done with."""
    return {
        where: CommittedOffset(own.offset, -1, "")
        for where, own in ShareGroupAdmin(client).start_offsets(name).items()
        if own.offset is not None
    }
