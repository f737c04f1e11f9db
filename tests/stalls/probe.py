"""Another client, in a process of its own: how long does it wait for its answers?"""

from time import perf_counter, sleep
from typing import Any, Final

from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.raw import Connection

PATIENCE_SECONDS: Final = 600.0
PAUSE_SECONDS: Final = 0.002
METADATA: Final = 12


def probe(bootstrap: str, longest: Any) -> None:
    """Ask all the time; note how long the longest answer took."""
    with Connection(bootstrap, PATIENCE_SECONDS) as connection:
        while True:
            began = perf_counter()
            connection.ask(MetadataRequest(topics=[]), MetadataResponse, METADATA)
            longest.value = max(longest.value, perf_counter() - began)
            sleep(PAUSE_SECONDS)
