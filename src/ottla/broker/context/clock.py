"""The time, as one object that tests can replace."""

import time


class Clock:
    """Wall-clock and monotonic time in milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since 1970: for what is kept, or sent to clients.

        The clock can be set. What is measured in elapsed time uses `elapsed_ms` or the loop's time.
        """
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds since an arbitrary moment. This clock cannot be set."""
        return time.monotonic_ns() // 1_000_000
