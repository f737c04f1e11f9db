"""The control batch that ends a transaction in a partition."""

from ottla.records.control import Marker, encode_marker


def marker_batch(marker: Marker, now: int) -> memoryview:
    """A marker's batch, in memory that can be stamped."""
    return memoryview(bytearray(encode_marker(marker, now)))
