"""Which kernel reads and writes records: the native one where it was built, else the one in Python.

Both do the same, and pass the same tests.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.records.layout import Binary, Examined, Gathered, Headers, RawRecord
from ottla.records.pure import decoding as pure_decoding
from ottla.records.pure import encoding as pure_encoding
from ottla.records.pure import examining as pure_examining
from ottla.records.pure import frames as pure_frames
from ottla.records.pure import gathering as pure_gathering
from ottla.records.pure import locating as pure_locating
from ottla.records.record import Record

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Gathering(Protocol):
    """Records as columns, gathered from the bodies of batches until taken."""

    @property
    def rows(self) -> int:
        """Rows gathered."""

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and headers gathered."""

    def add(
        self,
        data: "Buffer",
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        first: int,
        end: int,
    ) -> None:
        """Read a body as decode_records does, and keep the records with first <= offset < end."""

    def take(self) -> Gathered:
        """Hand out the columns, and start over."""


class RowEncoder(Protocol):
    """Rows of columns, to be written."""

    def partitions(self, count: int) -> "array[int]":
        """The partition of each keyed row; -1 for those without a key."""

    def encode(
        self, positions: "memoryview[int] | None", start: int, max_bytes: int
    ) -> tuple[bytes, int]:
        """Records of the rows at the positions from `start` on, up to this many bytes; and the next
        start.
        """

    def digest(self, positions: "memoryview[int] | None") -> int:
        """The sum of the hashes of the rows at the positions, or of all, in 64 bits."""


class Kernel(NamedTuple):
    """What reads and writes records."""

    name: str
    decode_records: "Callable[[Buffer, int, int, int, int | None], list[Record]]"
    examine_records: Callable[..., Examined]
    seek_timestamp: "Callable[[Buffer, int, int, int, int], tuple[int, int] | None]"
    validate_records: "Callable[[Buffer, int, int, int], int]"
    largest_body: "Callable[[int, Buffer, int], int]"
    locate_records: Callable[[bytes, int], list[RawRecord]]
    encode_records: Callable[[Iterable[Record], int, int], bytes]
    gathering: Callable[..., Gathering]
    row_encoder: Callable[[int, Binary | None, Binary | None, Headers | None], RowEncoder]
    group: "Callable[[memoryview[int]], dict[int, array[int]]]"


PURE = Kernel(
    "pure",
    pure_decoding.decode_records,
    pure_examining.examine_records,
    pure_examining.seek_timestamp,
    pure_examining.validate_records,
    pure_frames.largest_body,
    pure_locating.locate_records,
    pure_encoding.encode_records,
    pure_gathering.Gathering,
    pure_encoding.RowEncoder,
    pure_encoding.group,
)


def _native() -> Kernel | None:
    try:
        from ottla.records.native import decoding, encoding, examining, gathering
    except ImportError:  # There was no compiler at install.
        return None
    return Kernel(
        "native",
        decoding.decode_records,
        examining.examine_records,
        examining.seek_timestamp,
        examining.validate_records,
        examining.largest_body,
        decoding.locate_records,
        encoding.encode_records,
        gathering.Gathering,
        encoding.RowEncoder,
        encoding.group,
    )


NATIVE = _native()
KERNEL = NATIVE or PURE
