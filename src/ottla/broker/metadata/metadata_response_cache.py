"""A cache of large responses: kept as bytes until something in them changes.

Metadata about ten thousand partitions takes a tenth of a second to put together, and a hundred
clients that start at the same time all ask for it.

Rules kept here:
1. An answer counts as long as the image, the set of open partitions, and which of them are offline
   stay as they were.
2. Only large answers are kept, and few of them: the rest cost less to make than to look up.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

from ottla.broker.replicas.partitions import Partitions

MANY_PARTITIONS: Final = 500
SMALLEST_KEPT: Final = 32 << 10
MOST_KEPT: Final = 8


class MetadataVersion(Protocol):
    """Knows when the metadata have changed."""

    version: int


class MetadataResponseCache:
    """The large answers of one broker, by what was asked."""

    def __init__(self, metadata: MetadataVersion, partitions: Partitions) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._answers: dict[Hashable, bytes] = {}
        self._state: tuple[int, int, int] | None = None

    @property
    def may_be_large(self) -> bool:
        """True on a broker with enough partitions that looking here can be worth it."""
        return len(self._partitions) >= MANY_PARTITIONS

    def find(self, question: Hashable) -> bytes | None:
        """The answer that this question had, if it would be the same now."""
        state = (
            self._metadata.version,
            self._partitions.changes,
            self._partitions.closed_by_disk(),
        )
        if state != self._state:
            self._state = state
            self._answers.clear()
        return self._answers.get(question)

    def keep(self, question: Hashable, answer: bytes) -> None:
        """Keep an answer that was made right after find() had none."""
        if len(answer) >= SMALLEST_KEPT:
            if len(self._answers) >= MOST_KEPT:
                self._answers.clear()
            self._answers[question] = answer
