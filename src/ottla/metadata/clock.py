"""The clock of leases: it goes on while the machine sleeps, and nobody can set it."""

import time

# macOS has no CLOCK_BOOTTIME, but its CLOCK_MONOTONIC counts sleep too.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since some moment before this machine's start."""
    return time.clock_gettime(_CLOCK)
