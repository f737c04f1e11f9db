"""Which batches of the log belong to aborted transactions: read_committed groups never get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.share.states import LogBatch


class BatchHead(NamedTuple):
    """What the header of a batch says, as far as transactions go."""

    base: int
    last: int
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False


def aborted_batches(
    heads: Iterable[BatchHead], aborted: Sequence[tuple[int, int]]
) -> Iterator[LogBatch]:
    """The batches of aborted transactions, which are given as producer id and first offset.

    A producer has one transaction at a time: the first control batch after its beginning ends it.
    """
    pending = sorted(aborted, key=lambda each: each[1], reverse=True)
    producers: set[int] = set()
    for head in heads:
        while pending and pending[-1][1] <= head.last:
            producers.add(pending.pop()[0])
        if head.is_control:
            producers.discard(head.producer_id)
        elif head.is_transactional and head.producer_id in producers:
            yield LogBatch(head.base, head.last)
