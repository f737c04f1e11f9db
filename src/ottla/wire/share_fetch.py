"""The writer of ShareFetch responses, versions 1 and 2, with the records left in their files.

Requests are read by the generated messages; only the response carries stretches of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.wire.fetch import FileSlice
from ottla.wire.fields import count, nullable_string, string, uvarint
from ottla.wire.produce import NodeEndpoint

FIRST_VERSION: Final = 1
LAST_VERSION: Final = 2

_HEAD = Struct(">ih")
_INT32 = Struct(">i")
_RESULT = Struct(">ih")
_CODE = Struct(">h")
_LEADER = Struct(">iib")
_ACQUIRED = Struct(">qqhb")


class SharePartitionData(NamedTuple):
    """What is answered for one partition."""

    partition: int
    error_code: int = 0
    acknowledge_error_code: int = 0
    records: FileSlice | None = None
    acquired: Sequence[tuple[int, int, int]] = ()
    """First offset, last offset and delivery count of each range."""
    leader: tuple[int, int] = (0, 0)


def response(
    topics: Sequence[tuple[bytes, Sequence[SharePartitionData]]],
    *,
    error_code: int = 0,
    lock_timeout_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | FileSlice]:
    """The parts of a reply, without its header."""
    parts: list[bytes | FileSlice] = []
    out = [
        _HEAD.pack(0, error_code),
        nullable_string(None, True),
        _INT32.pack(lock_timeout_ms),
        count(len(topics), True),
    ]
    for topic_id, results in topics:
        out += (topic_id, count(len(results), True))
        for data in results:
            records = data.records
            out += (
                _RESULT.pack(data.partition, data.error_code),
                nullable_string(None, True),
                _CODE.pack(data.acknowledge_error_code),
                nullable_string(None, True),
                _LEADER.pack(*data.leader, 0),
                uvarint(1 if records is None else records.size + 1),
            )
            if records is not None:
                parts += (b"".join(out), records)
                out = []
            out.append(count(len(data.acquired), True))
            out += [_ACQUIRED.pack(*each, 0) for each in data.acquired]
            out.append(b"\x00")
        out.append(b"\x00")
    out.append(count(len(endpoints), True))
    for node_id, host, port, rack in endpoints:
        out += (
            _INT32.pack(node_id),
            string(host, True),
            _INT32.pack(port),
            nullable_string(rack, True),
            b"\x00",
        )
    out.append(b"\x00")
    parts.append(b"".join(out))
    return parts
