"""The text of Kafka's checkpoint files: a version line "0", a line with the count, the entries."""

from collections.abc import Sequence

_VERSION = "0"
_LARGEST = 2**63 - 1
_MOST_DIGITS = len(str(_LARGEST))


class CorruptCheckpoint(Exception):  # noqa: N818 (it names a state of a file)
    """A checkpoint file does not hold what it should; the message says what is wrong."""


def encode_lines(entries: Sequence[str]) -> bytes:
    """The bytes of a checkpoint with these entries."""
    return "\n".join((_VERSION, str(len(entries)), *entries, "")).encode()


def decode_lines(data: bytes) -> list[list[str]]:
    """The words of each entry. A file with no bytes has no entries, as in Kafka."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise CorruptCheckpoint("it is not text") from None
    if not lines:
        return []
    if lines[0] != _VERSION:
        raise CorruptCheckpoint(f"version {lines[0]!r} is not {_VERSION}")
    entries = [line.split() for line in lines[2:]]
    if lines[1:2] != [str(len(entries))]:
        raise CorruptCheckpoint(f"{len(entries)} entries where it says {' '.join(lines[1:2])!r}")
    for entry in entries:
        if not entry or not all(_is_number(word) for word in entry[-2:]):
            raise CorruptCheckpoint(f"not an entry: {' '.join(entry)!r}")
    return entries


def _is_number(word: str) -> bool:
    """True for what Kafka writes: no partition, epoch or offset is negative, and all fit a long."""
    is_short = len(word) <= _MOST_DIGITS
    return is_short and word.isascii() and word.isdecimal() and int(word) <= _LARGEST
