from collections.abc import Mapping
from typing import Generic, TypeVar

from typing_extensions import Buffer

from ottla.wire.message import Message

M = TypeVar("M", bound=Message)
H = TypeVar("H")

class MessageReader(Generic[M]):
    def __init__(self, cls: type[M], version: int) -> None: ...
    def read(self, data: Buffer, at: int) -> tuple[M, int]: ...

class HeaderReader(Generic[H]):
    def __init__(self, cls: type[H], flexible: Mapping[int, range]) -> None: ...
    def read(self, data: Buffer) -> H: ...
