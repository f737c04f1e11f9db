from typing_extensions import Buffer

from ottla.records.layout import Gathered

class Gathering:
    def __init__(self, headers: bool, largest: int = ...) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def add(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        first: int,
        end: int,
    ) -> None: ...
    def take(self) -> Gathered: ...
