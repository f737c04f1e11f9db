"""A console of this checkout inside the test, and a client that asks as a browser does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from ottla.console.run import Parts
from ottla.console.settings import ConsoleSettings

OWN = "http://127.0.0.1:8080"
ORIGIN = {"origin": OWN}


@contextmanager
def console(bootstrap: str, **settings: Any) -> Iterator[TestClient]:
    """A console; it samples only on demand."""
    parts = Parts(ConsoleSettings(bootstrap_servers=bootstrap, **settings))
    try:
        with TestClient(parts.app(), base_url=OWN, follow_redirects=False) as client:
            client.app_state["parts"] = parts
            yield client
    finally:
        parts.close()


def parts_of(client: TestClient) -> Parts:
    """What a console is made of."""
    found = client.app_state["parts"]
    assert isinstance(found, Parts)
    return found
