"""One broker under a supervisor: `python -m ottla.server.worker`, settings on its first line.

Rules kept here:
1. The event loop itself writes the heartbeat to stdout, every `broker.heartbeat.interval.ms`: a
   loop that hangs is silent. The byte says whether the broker is ready.
2. stdin ends when the supervisor does: then nobody would tell the cluster of this broker's death,
   so it stops.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Final

STARTING: Final = b"s"
READY: Final = b"r"
_STDIN: Final = 0
_STDOUT: Final = 1


class Heart:
    """Shows the supervisor that this process lives, and notices its end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._says = STARTING
        self._stop: Callable[[], object] = _nothing

    def start(self, stop: Callable[[], object]) -> None:
        """Begin to beat; `stop` is called when the supervisor is gone."""
        self._stop = stop
        os.set_blocking(_STDIN, False)
        os.set_blocking(_STDOUT, False)
        asyncio.get_running_loop().add_reader(_STDIN, self._listen)
        self._beat()

    def ready(self) -> None:
        """The broker serves clients."""
        self._says = READY
        self._write()

    def _beat(self) -> None:
        if self._write():
            asyncio.get_running_loop().call_later(self._seconds, self._beat)

    def _write(self) -> bool:
        try:
            os.write(_STDOUT, self._says)
        except BlockingIOError:
            pass  # the supervisor is slow, not gone
        except OSError:
            self._stop()
            return False
        return True

    def _listen(self) -> None:
        try:
            if os.read(_STDIN, 1024):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        asyncio.get_running_loop().remove_reader(_STDIN)
        self._stop()


def _nothing() -> None:
    """Before the broker runs there is nothing to stop."""


def main() -> int:
    """Run the broker."""
    from ottla.server.quick_start import quicken

    quicken()
    from ottla.config import BrokerConfig
    from ottla.server.run import run_broker

    line = b""
    while not line.endswith(b"\n"):
        more = os.read(_STDIN, 1 << 16)
        if not more:
            return 1
        line += more
    settings: dict[str, str] = json.loads(line)
    interval = BrokerConfig.from_static(settings).broker_heartbeat_interval_ms
    return run_broker(settings, Heart(interval / 1000))


if __name__ == "__main__":
    sys.exit(main())
