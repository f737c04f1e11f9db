"""How rooms change the metadata, without knowing the store or its session."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ottla.metadata.image import Image
from ottla.metadata.store import Op
from ottla.wire.errors import KafkaError

T = TypeVar("T")


class MetadataWriter(Protocol):
    """Commits changes to the metadata store."""

    async def change(
        self,
        decide: Callable[[Image], tuple[T, list[Op]]],
        refusals: Callable[[T], Iterable[KafkaError]] = ...,
    ) -> T:
        """Decide on the image, commit, and return when the change is applied on this broker.

        `decide` is called again when a concurrent change won. Raises what it raises, or StoreError.
        """

    async def commit(self, ops: Sequence[Op]) -> object:
        """Commit once, without waiting for the change to be applied; raises StoreError."""
