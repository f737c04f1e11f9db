"""The timers of one coordinator partition.

Rules kept here:
1. They measure elapsed time: setting the wall clock moves none of them.
2. None fires while this broker's lease is over, for another one may lead by then: it waits until
   there is a lease again, or the partition is given up.
3. What clients could not say is not held against them: a timer that comes late, because the process
   was paused or its loop was busy (requests are still in their sockets), or that was due without a
   lease or shortly after a client was refused for want of one, waits once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Final

from ottla.coordinator.shard import CancelTimer, SetTimer

WITHOUT_LEASE_SECONDS: Final = 0.5
"""How long a timer that is due waits for the lease before it looks again."""
LATE_SECONDS: Final = 1.0
"""A timer later than this: the loop was blocked, and no heartbeat was handled meanwhile."""
SECOND_WAIT_SECONDS: Final = 3.0
"""Long enough for a client to find its coordinator again and send a heartbeat."""


class _Timer:
    """When something is due, and the call of the loop that will look whether it is.

    A session is put off by every heartbeat: noting the new time costs nothing, a new call of the
    loop does.
    """

    __slots__ = ("due_at", "handle", "lacked_lease", "rings_at", "waits_again")

    def __init__(self, handle: asyncio.TimerHandle, at: float) -> None:
        self.handle = handle
        self.rings_at = at
        self.due_at = at
        self.lacked_lease = False
        """Whether it was due while there was no lease."""
        self.waits_again = False
        """Whether it has its second wait."""


class ShardTimers:
    """All timers of a shard, by their keys."""

    def __init__(
        self, holds_lease: Callable[[], bool], expire: Callable[[Hashable], object]
    ) -> None:
        self._holds_lease = holds_lease
        self._expire = expire
        self._timers: dict[Hashable, _Timer] = {}
        self._refused_at = -SECOND_WAIT_SECONDS

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def refused(self) -> None:
        """A client was refused because there is no lease."""
        self._refused_at = monotonic()

    def clear(self) -> None:
        """Forget all of them."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()

    def change(self, change: SetTimer | CancelTimer) -> None:
        """Set a timer, put it off or forward, or forget it."""
        timer = self._timers.get(change.key)
        if isinstance(change, SetTimer):
            due_at = monotonic() + change.delay_ms / 1000
            if timer is not None and timer.rings_at <= due_at:
                timer.due_at = due_at
                timer.lacked_lease = timer.waits_again = False
                return
            self._set(change.key, due_at)
        elif timer is not None:
            del self._timers[change.key]
        if timer is not None:
            timer.handle.cancel()

    def _set(self, key: Hashable, due_at: float) -> _Timer:
        delay = max(0.0, due_at - monotonic())
        handle = asyncio.get_running_loop().call_later(delay, self._rings, key)
        timer = self._timers[key] = _Timer(handle, due_at)
        return timer

    def _rings(self, key: Hashable) -> None:
        timer, now = self._timers.pop(key), monotonic()
        late = now - timer.due_at
        if late < 0:
            again = self._set(key, timer.due_at)
            again.lacked_lease, again.waits_again = timer.lacked_lease, timer.waits_again
        elif not self._holds_lease():
            self._set(key, now + WITHOUT_LEASE_SECONDS).lacked_lease = True
        elif timer.lacked_lease or (not timer.waits_again and self._was_unheard(now, late)):
            self._set(key, now + SECOND_WAIT_SECONDS).waits_again = True
        else:
            self._expire(key)

    def _was_unheard(self, now: float, late: float) -> bool:
        """Whether clients may have tried without result to say something in time."""
        return late >= LATE_SECONDS or now - self._refused_at < SECOND_WAIT_SECONDS
