"""The loop of `ottla consume`: poll, print, and, in a group, commit what was printed."""

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

import click

from ottla.cli.interrupts import held_back
from ottla.cli.record_output import Writer, write
from ottla.cli.silence import Silence, Watch

if TYPE_CHECKING:
    from ottla.client import Reader
    from ottla.client.cluster import TopicPartition
    from ottla.client.consumer import Batch
    from ottla.client.group_reader import GroupReader
    from ottla.client.share_group_reader import ShareGroupReader

COMMIT_EVERY_SECONDS = 1.0
NO_ASSIGNMENT_SECONDS = 10.0
"""How long a member without --follow waits for partitions that others have."""


class Printing:
    """Prints what a reader gives, until it is finished or enough was printed."""

    def __init__(self, bootstrap: str, writer: Writer, most: int | None) -> None:
        self._bootstrap = bootstrap
        self._writer = writer
        self._left = most

    def run(self, reader: "Reader") -> None:
        """Print all that a reader without a group gives."""
        with Watch(Silence(self._bootstrap)) as watch:
            while self._left != 0 and not reader.finished:
                self.step(reader, watch)

    def run_as_member(self, member: "GroupReader | ShareGroupReader", patience: float) -> bool:
        """The same for a member; False where it got no partitions for so long."""
        next_commit = monotonic() + COMMIT_EVERY_SECONDS
        give_up = monotonic() + patience
        with Watch(Silence(self._bootstrap)) as watch:
            while self._left != 0 and not member.finished:
                self.step(member, watch, member.done)
                now = monotonic()
                if now >= next_commit:
                    member.commit()
                    next_commit = now + COMMIT_EVERY_SECONDS
                if member.assignment:
                    give_up = now + patience
                elif now > give_up:
                    return False
        return True

    def step(
        self,
        reader: "Reader | GroupReader | ShareGroupReader",
        watch: Watch,
        done: "Callable[[dict[TopicPartition, int]], None] | None" = None,
    ) -> None:
        """Print one reply, and call `done` with what of it was not printed."""
        watch.asked()
        batches = reader.poll()
        if reader.problem is None:
            watch.answered()
        else:
            watch.failed(reader.problem)
        not_printed: dict[TopicPartition, int] = {}
        if self._left is not None:
            batches, not_printed = first_records(batches, self._left)
            self._left -= sum(len(batch.records) for batch in batches)
        with held_back():  # what is printed is done
            if batches:
                write(self._writer(batches))
            if done is not None:
                done(not_printed)


def first_records(
    batches: "list[Batch]", count: int
) -> "tuple[list[Batch], dict[TopicPartition, int]]":
    """The batches up to a number of records, and the first offset of what is left by partition."""
    from ottla.client.cluster import TopicPartition

    kept: list[Batch] = []
    left: dict[TopicPartition, int] = {}
    for batch in batches:
        if count < len(batch.records):
            where = TopicPartition(batch.topic, batch.partition)
            left.setdefault(where, batch.records[count].offset)
        if count > 0:
            kept.append(batch._replace(records=batch.records[:count]))
            count -= min(len(batch.records), count)
    return kept, left


def read_as_member(member: "GroupReader | ShareGroupReader", group: str, printing: Printing) -> int:
    """Read as a member of a group; returns how many aborted records were passed over."""
    patience = NO_ASSIGNMENT_SECONDS if member.has_end else float("inf")
    with member:
        try:
            if not printing.run_as_member(member, patience):
                click.echo(
                    f"ottla: all partitions are assigned to other members of group {group}",
                    err=True,
                )
        finally:
            member.commit()
        return member.aborted_records
