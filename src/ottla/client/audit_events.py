"""Reading the audit topic: what every tier has counted."""

from ottla.audit.events import AUDIT_TOPIC, Event
from ottla.client.admin import LATEST, Admin
from ottla.client.cluster import Client, TopicPartition
from ottla.client.consumer import Reader

BEFORE_MS = 600_000


def read_events(client: Client, since: int) -> tuple[list[Event], int]:
    """The events since a time and somewhat before, and how many records were none.

    Counts are reported after the records they tell of were made, by each tier in its own time:
    what all of them say of a window is in the events from a while before it on. Raises UnknownTopic
    where nothing was counted yet.
    """
    admin = Admin(client)
    partitions = admin.partitions(AUDIT_TOPIC)

    def offsets(spec: int) -> dict[TopicPartition, int]:
        found = admin.list_offsets(dict.fromkeys(partitions, spec), read_committed=True)
        return {partition: found[partition].offset for partition in partitions}

    ends = offsets(LATEST)
    starts = offsets(max(since - BEFORE_MS, 0))
    starts = {each: at if at >= 0 else ends[each] for each, at in starts.items()}
    events: list[Event] = []
    unreadable = 0
    with Reader(client, starts, until=ends, read_committed=True) as reader:
        for batch in reader:
            for record in batch.records:
                try:
                    events.append(Event.decode(record.value))
                except ValueError:
                    unreadable += 1
    return events, unreadable
