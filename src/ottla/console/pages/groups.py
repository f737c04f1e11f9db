"""Groups of every kind, with what they have still to read."""

from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Client, ConnectionFailed, KafkaError
from ottla.client.group_admin import GroupAdmin, GroupListing
from ottla.console.calls import ConsoleCall
from ottla.console.lag import lags, total
from ottla.console.paging import page_of

ROWS = 25


class GroupRow(NamedTuple):
    """A group in the list."""

    listing: GroupListing
    partitions: int | None
    lag: int | None
    note: str = ""


def show(call: ConsoleCall) -> Response:
    """The page."""
    search, state, kind = call.text("q"), call.text("state"), call.text("type")
    with call.cluster.client() as client:
        everything = GroupAdmin(client).list_groups()
        wanted = [
            each
            for each in everything
            if search.lower() in each.group_id.lower()
            and (not state or each.state == state)
            and (not kind or each.type == kind)
        ]
        page = page_of(wanted, call.number("page", 1), ROWS)
        rows = [_row(client, each) for each in page.items]
    return call.render(
        "groups.html",
        page=page,
        rows=rows,
        search=search,
        state=state,
        kind=kind,
        states=sorted({each.state for each in everything if each.state}),
        kinds=sorted({each.type for each in everything if each.type}),
    )


def _row(client: Client, listing: GroupListing) -> GroupRow:
    try:
        committed = GroupAdmin(client).committed_offsets(listing.group_id)
        found = lags(client, committed)
    except ConnectionFailed:
        raise
    except KafkaError as problem:
        return GroupRow(listing, None, None, problem.code.name)
    return GroupRow(listing, len(found), total(found))
