"""The clock of leases: it also runs while the machine sleeps, and cannot be set."""

import time

# macOS has no CLOCK_BOOTTIME, but its CLOCK_MONOTONIC counts sleep too.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since some moment before this machine's start."""
    return time.clock_gettime(_CLOCK)
