"""Ctrl-C that waits for a short piece of work which should not be left half done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """Raise a KeyboardInterrupt only at the end; a second one is raised at once."""
    pending = False
    raises = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending:
            raise KeyboardInterrupt
        pending = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, raises)
    if pending:
        raise KeyboardInterrupt
