"""The names of a segment's files: its base offset in twenty digits, and what the file is."""

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"


def stem(base_offset: int) -> str:
    """The first part of the name of a segment's files."""
    return f"{base_offset:020d}"
