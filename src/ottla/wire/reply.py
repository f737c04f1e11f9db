"""What a request handler gives to a connection: the parts of a reply, or that there is none."""

from ottla.wire.fetch import FileSlice

Parts = tuple[bytes | FileSlice, ...] | list[bytes | FileSlice]
"""A reply without its header: bytes, and stretches of files that the server sends."""


class UnanswerableError(Exception):
    """No answer is possible: the protocol leaves only a closed connection."""
