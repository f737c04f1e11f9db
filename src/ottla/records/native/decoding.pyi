from typing_extensions import Buffer

from ottla.records.layout import RawRecord
from ottla.records.record import Record

def decode_records(
    data: Buffer, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]: ...
def locate_records(body: bytes, count: int) -> list[RawRecord]: ...
