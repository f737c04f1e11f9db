from typing_extensions import Buffer

from ottla.records.layout import Examined

def examine_records(
    data: Buffer,
    count: int,
    base_timestamp: int,
    earliest: int = ...,
    latest: int = ...,
) -> Examined: ...
def seek_timestamp(
    data: Buffer, count: int, base_timestamp: int, timestamp: int, least_delta: int
) -> tuple[int, int] | None: ...
def validate_records(data: Buffer, at: int, count: int, base_timestamp: int) -> int: ...
def largest_body(codec: int, data: Buffer, at: int = ...) -> int: ...
